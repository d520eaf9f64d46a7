"""What a round cost, in seconds and bytes."""

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True)
class RoundRecord:
    """What a round cost: bytes count whole messages, with headers and signatures.

    `round` 0 is the agreement on fresh keys that every fit begins with.
    """

    round: int
    step: str
    seconds: float
    bytes_out: int
    bytes_in: int
