"""The ledger lines of a round, as both ends write them.

Coordinator and party write the same lines from the same declaration: neither takes the
other's word for what was released.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from unpooled.ledger import Release
from unpooled.party.declared import Declared
from unpooled.party.operations import Derive, array_digest, array_key
from unpooled.party.request import Request, Veiled
from unpooled.party.step import Step
from unpooled.secure.fixed_point import BoundedCode, Code, WideCode
from unpooled.secure.narrow_code import NarrowCode


def code_for(
    declared: Declared,
    n_parties: int,
    public: Mapping[str, Any] | None = None,
    context: bytes = b"",
    party: int = 0,
) -> Code:
    """Return the code of a release: narrow where a public bound is declared.

    `context` and `party`, its place in the roster, matter to codes that round.
    """
    if declared.bound is None:
        return WideCode(n_parties)
    bits = (public or {}).get(declared.bits, 64)
    if bits == 64:
        return BoundedCode(n_parties)
    return NarrowCode(n_parties, bits, context, party)


def ledger_lines(
    request: Request,
    step: Step,
    sizes: Mapping[str, int],
    protection: str,
    parties: tuple[str, ...],
) -> list[tuple[Release, str]]:
    """Return the lines of a round in their order: what comes in, then what goes out.

    Each comes with the name of its array in the message, empty for what is kept.

    Parameters
    ----------
    protection : {"masked", "plain"}
        How totals travel; disclosed values always travel as they are.
    parties : tuple of str
        All parties of the session; their number sets the room in the wide code.
    """
    lines: list[tuple[Release, str]] = []

    def write(source: str, step_name: str, name: str, *rest: Any) -> None:
        head = (request.study, request.round, step_name, name)
        lines.append((Release(*head, *rest, parties=parties), source))

    for position, operation in enumerate(request.operations):
        if isinstance(operation, Derive):
            for name, value in operation.arrays().items():
                key = array_key(position, name, array_digest(value))
                if key in request.fresh:
                    what = (value.shape, str(value.dtype), value.nbytes)
                    write(f"view.{key}", operation.step, name, *what, "public", "in")
    # Sorted, since a message's JSON does not keep the order of the caller.
    for name, value in sorted(request.public.items()):
        if isinstance(value, Veiled):
            words, visibility = value.words, "summed"
            kind = "uint256" if words.ndim == 2 else str(words.dtype)
        elif isinstance(value, np.ndarray):
            words, visibility, kind = value, "public", str(value.dtype)
        else:
            continue
        what = (value.shape, kind, words.nbytes)
        write(f"public.{name}", step.name, name, *what, visibility, "in")
    for name, declared in step.declared.items():
        shape = declared.shape(sizes)
        numbers = declared.numbers(shape)
        if declared.kept:
            write("", step.name, name, shape, "float64", 0, "kept", "in")
            continue
        if step.polynomial is not None:
            # A line for each round of the batch: shares, and no array of the message.
            rounds = step.polynomial.rounds
            size = step.polynomial.bytes(numbers, len(parties)) // rounds
            what = (shape, f"int{step.polynomial.bits}", size, "compared", "out")
            for turn in range(rounds):
                head = (request.study, request.round + turn, step.name, name)
                lines.append((Release(*head, *what, parties=parties), ""))
            continue
        kind, size = "float64", 8 * numbers
        if step.verb == "summed" and protection == "masked":
            code = code_for(declared, len(parties), request.public)
            kind, size = code.dtype, code.bytes(numbers)
        write(name, step.name, name, shape, kind, size, step.verb, "out")
    return lines


def lines_of_all(
    request: Request,
    step: Step,
    sizes: Mapping[str, Mapping[str, int]],
    protection: str,
) -> list[tuple[Release, str]]:
    """Return the lines of a round at all parties, one for each shape of an array.

    Parameters
    ----------
    sizes : mapping of str to mapping
        By party: on a column partition they differ, and so do the shapes of what a
        party keeps or discloses. `parties` of a line are those that it holds for.
    """
    parties = tuple(sizes)
    alike: dict[tuple[tuple[str, int], ...], list[str]] = {}
    for party, its in sizes.items():
        alike.setdefault(tuple(sorted(its.items())), []).append(party)
    written = [
        ledger_lines(request, step, sizes[members[0]], protection, parties)
        for members in alike.values()
    ]
    merged: list[tuple[Release, str]] = []
    for same in zip(*written, strict=True):
        behind: dict[tuple[int, ...], set[str]] = {}
        for (line, _), members in zip(same, alike.values(), strict=True):
            behind.setdefault(line.shape, set()).update(members)
        of_shape = {line.shape: (line, source) for line, source in same}
        for shape, members in behind.items():
            line, source = of_shape[shape]
            whose = tuple(party for party in parties if party in members)
            merged.append((replace(line, parties=whose), source))
    return merged
