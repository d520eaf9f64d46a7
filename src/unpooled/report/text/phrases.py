"""Small pieces of text: lists, numbers and sizes as people write them."""

import re
import unicodedata
from collections.abc import Sequence

# Characters that change the order of the text around them: a column's name must not be
# able to turn a sentence about it round.
_TURNING = frozenset(
    "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)
# Control characters, halves of characters, and what no alphabet has.
_UNREADABLE = ("Cc", "Cs", "Cn")


def byte_size(n: int) -> str:
    """Return a number of bytes as people write it."""
    if n < 1_000_000:
        return f"{n:,} bytes" if n < 10_000 else f"{n / 1e3:.1f} kB"
    return f"{n / 1e6:,.1f} MB"


def listed(names: Sequence[str]) -> str:
    """Return names as "a, b and c"."""
    names = [str(name) for name in names]
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def counted(n: int, one: str, many: str | None = None) -> str:
    """Return "1 silo", "4 silos"."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def clean(text: str) -> str:
    """Return a text from outside without characters that are not for reading."""
    return "".join(
        "\ufffd" if c in _TURNING or unicodedata.category(c) in _UNREADABLE else c
        for c in re.sub("[\t-\r\u2028\u2029]", " ", text)
    )
