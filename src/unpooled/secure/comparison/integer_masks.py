"""Masks on the integers that parties compute with: they cancel in totals alone.

    party 1:  x_1 + r_12 + r_13
    party 2:  x_2 - r_12 + r_23          total:  x_1 + x_2 + x_3
    party 3:  x_3 - r_13 - r_23

As those of `unpooled.secure.sums.masking`, with the same keys, over the integers. Signs
are of polynomials of totals, so masks do not change them. Without masks a coordinator
could ask parties for different things, and learn the sign of something that no honest
question is about. Those of parties that were asked differently do not cancel, and the
sign is of noise. And if most computing parties join to open what another put in, they
find it under the masks that it shares with the rest.
"""

from collections.abc import Mapping
from io import BytesIO

from unpooled.secure.comparison.polynomial import STATISTICAL_BITS, Polynomial
from unpooled.secure.comparison.secret_sharing import Rows
from unpooled.secure.sums.masking import key_stream


def covered(
    rows: Rows,
    polynomial: Polynomial,
    party: str,
    keys: Mapping[str, bytes],
    context: bytes,
) -> Rows:
    """Return a party's integers with its masks for the context on them.

    Parameters
    ----------
    rows : list of list of int
        The integers, name by name, as `Polynomial.integers` gives them.
    polynomial : Polynomial
        What they are for; its ring says how large masks are.
    party : str
        This party's name.
    keys : mapping of str to bytes
        Shared with every other party of the session.
    context : bytes
        What all parties were asked, as each was.
    """
    # A range larger than the integers' by 2^64 hides them, statistically.
    width = (polynomial.bits + STATISTICAL_BITS + 7) // 8
    size, masked = width * sum(map(len, rows)), [list(row) for row in rows]
    for peer, key in keys.items():
        stream = BytesIO(key_stream(key, b"integers" + context, size))
        sign = -1 if peer < party else 1
        for row in masked:
            for place in range(len(row)):
                row[place] += sign * int.from_bytes(stream.read(width), "little")
    return masked
