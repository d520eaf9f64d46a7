"""Fingerprints as words that people can read to each other over the telephone.

    c3ab8ff13720e8ad9047dd39466b3c89...  ─>  sagop muvun gisob vipup napig tihon

Each word stands for 16 bits: consonant, vowel, consonant, vowel, consonant. Six of them
are 96 bits, so that nobody finds other keys with the same words. Words of this form can
be spoken in most languages, unlike hexadecimal digits.

References
----------
Wilkerson, A Proposal for Proquints: Identifiers that are Readable, Spellable, and
Pronounceable, 2009 (arXiv:0901.4016).
"""

_CONSONANTS = "bdfghjklmnprstvz"
_VOWELS = "aiou"
_WORDS = 6


def spoken(fingerprint: str) -> str:
    """Return the first 96 bits of a hexadecimal fingerprint as six words."""
    start = bytes.fromhex(fingerprint)[: 2 * _WORDS]
    pairs = (start[i : i + 2] for i in range(0, len(start), 2))
    return " ".join(_word(int.from_bytes(pair, "big")) for pair in pairs)


def _word(bits: int) -> str:
    first, a, middle, b, last = (bits >> 12, bits >> 10, bits >> 6, bits >> 4, bits)
    return (
        _CONSONANTS[first & 15]
        + _VOWELS[a & 3]
        + _CONSONANTS[middle & 15]
        + _VOWELS[b & 3]
        + _CONSONANTS[last & 15]
    )
