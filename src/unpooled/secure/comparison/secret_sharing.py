"""Additive shares of a party that does not compute, for the parties that do.

    x = x_1 + x_2 + ... + x_c,   all but the last drawn from 2^(bits + 128) integers

Any c - 1 of the shares have a distribution that is independent of x, up to a
statistical distance of 2^-64. Each computing party adds its share to its own integers,
so that the totals are over all parties; after that, an honest majority of the computing
parties protects them.
"""

import secrets

from unpooled.errors import AggregationError
from unpooled.secure.comparison.joint_computation import (
    STATISTICAL_BITS,
    JointComputation,
    Rows,
)


def shares(rows: Rows, n: int, computation: JointComputation) -> list[bytes]:
    """Return n shares of a party's integers, as bytes on the wire."""
    room = _room(computation)
    drawn = [
        [[secrets.randbits(room) for _ in row] for row in rows] for _ in range(n - 1)
    ]
    last = [
        [x - sum(parts) for x, *parts in zip(*same, strict=True)]
        for same in zip(rows, *drawn, strict=True)
    ]
    width = _width(computation)
    return [
        b"".join(x.to_bytes(width, "little", signed=True) for row in share for x in row)
        for share in (*drawn, last)
    ]


def added(rows: Rows, share: bytes, computation: JointComputation) -> Rows:
    """Return a party's integers plus its share of another party's.

    Raises
    ------
    AggregationError
        When the share belongs to another batch.
    """
    width, length = _width(computation), len(rows[0])
    if len(share) != width * length * len(rows):
        raise AggregationError(
            "A share belongs to another batch.", rule="malformed_message"
        )
    parts = [
        int.from_bytes(share[i : i + width], "little", signed=True)
        for i in range(0, len(share), width)
    ]
    return [
        [x + y for x, y in zip(row, parts[k * length :][:length], strict=True)]
        for k, row in enumerate(rows)
    ]


def _room(computation: JointComputation) -> int:
    # The integers are masked, and masks are 2^64 times larger.
    return computation.bits + 2 * STATISTICAL_BITS


def _width(computation: JointComputation) -> int:
    # The last share is a signed difference of up to five others.
    return (_room(computation) + 4) // 8 + 1
