"""Masks on the integers that parties compute with, which cancel only in totals.

    party 1:  x_1 + r_12 + r_13
    party 2:  x_2 - r_12 + r_23          total:  x_1 + x_2 + x_3
    party 3:  x_3 - r_13 - r_23

These are the masks of `unpooled.secure.sums.masking`, with the same keys, over the
integers. Masks do not change a result, which is computed of totals. They answer two
attacks. Without masks, a coordinator could send different requests to the parties and
learn the sign of a polynomial that no honest request is about; with masks, which depend
on the request, those of different requests do not cancel, and the sign is that of
noise. And a majority of the computing parties, which can reconstruct another party's
input, finds it under the masks that this party shares with the rest.
"""

from collections.abc import Mapping
from io import BytesIO

from unpooled.secure.comparison.joint_computation import (
    STATISTICAL_BITS,
    JointComputation,
    Rows,
)
from unpooled.secure.sums.masking import key_stream


def covered(
    rows: Rows,
    computation: JointComputation,
    party: str,
    keys: Mapping[str, bytes],
    context: bytes,
) -> Rows:
    """Return a party's integers plus its masks for the context.

    Parameters
    ----------
    rows : list of list of int
        The integers, one list per name, as `JointComputation.integers` returns them.
    computation : JointComputation
        Determines the size of the masks by its ring.
    party : str
        This party's name.
    keys : mapping of str to bytes
        Shared with every other party of the session.
    context : bytes
        The request as this party received it.
    """
    # A range 2^64 times that of the integers hides them, statistically.
    width = (computation.bits + STATISTICAL_BITS + 7) // 8
    size, masked = width * sum(map(len, rows)), [list(row) for row in rows]
    for peer, key in keys.items():
        stream = BytesIO(key_stream(key, b"integers" + context, size))
        sign = -1 if peer < party else 1
        for row in masked:
            for place in range(len(row)):
                row[place] += sign * int.from_bytes(stream.read(width), "little")
    return masked
