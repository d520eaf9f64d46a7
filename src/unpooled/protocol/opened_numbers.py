"""How many numbers a round opens: what a budget counts, a plan shows and a report adds.

As many as travel count, of totals and of disclosed values; of a symmetric array its
triangle. A sign of a secret comparison is a bit, 1/64 of a number. Other rules govern
an entry for each person (`allow_row_level`), totals with noise (`privacy_budget`) and
what neighbours exchange (`allow_disclosed`). A total that is declared for the parties
alone (`veiled`) is seen by nobody; what a later step opens of it is counted there.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import final

import numpy as np

from unpooled.arrays import Array
from unpooled.errors import ReleaseRefusedError
from unpooled.ledger import Release, canonical
from unpooled.protocol.declaration import Declared
from unpooled.protocol.request import Request
from unpooled.protocol.step import Step, find_step

# The default of `max_released_share`.
SHARE = 0.33
_BITS = 64


@final
@dataclass(frozen=True)
class Opened:
    """The numbers that one round opens.

    Attributes
    ----------
    numbers : float
        Numbers of totals and of disclosed values.
    people : int
        Numbers of arrays with an axis over people.
    question : bytes
        The same for the same question about the same rows; empty in a plan.
    """

    numbers: float = 0.0
    people: int = 0
    question: bytes = b""


def opened_by(
    step: Step,
    request: Request,
    sizes: Mapping[str, int],
    parties: Sequence[str],
    parts: Mapping[str, Array],
) -> Opened:
    """Return the numbers that a round opens.

    Parameters
    ----------
    sizes : mapping of str to int
        Sizes of the step's axis letters.
    parties : sequence of str
        Whose parts are added.
    parts : mapping of str to array
        The silo's own part by name, which makes the question one about its rows.
    """
    numbers, people = 0.0, 0
    for declared in step.leaves.values():
        count = _numbers(step.verb, declared, declared.shape(sizes))
        if declared.level == "row":
            people += int(count)
        else:
            numbers += count
    # The same function under another model's name opens the same totals.
    function = step.function.__module__, step.function.__qualname__
    asked = [*function, request.view_digest, request.chosen_record, list(parties)]
    question = hashlib.sha256(canonical(asked))
    # Arrays that stay in the silo open nothing.
    for name in sorted(set(parts) & set(step.leaves)):
        question.update(np.ascontiguousarray(parts[name], dtype=float).data)
    return Opened(numbers, people, question.digest())


def numbers_of_lines(lines: Iterable[Release]) -> tuple[float, int]:
    """Return how many numbers lines of a ledger open: of totals, and of people."""
    numbers, people = 0.0, 0
    for line in lines:
        if not line.leaves:
            continue
        found = None
        # A stage of matching is no step, and one of an earlier version may be gone.
        with suppress(ReleaseRefusedError):
            found = find_step(line.step).declared.get(line.name)
        if found is None:
            continue
        verb = line.visibility if line.visibility != "veiled" else "summed"
        count = _numbers(verb, found, line.shape)
        if found.level == "row":
            people += int(count)
        else:
            numbers += count
    return numbers, people


def messages_of(line: Release) -> int:
    """Return how many messages processes send within a round to compute an array."""
    with suppress(ReleaseRefusedError):
        if (computation := find_step(line.step).computation) is not None:
            return computation.messages(line.name, line.shape)
    return 0


def _numbers(verb: str, declared: Declared, shape: tuple[int, ...]) -> float:
    if verb == "exchanged" or declared.noise is not None or declared.veiled:
        return 0.0
    count = declared.numbers(shape) / declared.repeats
    return count / _BITS if verb == "compared" else count
