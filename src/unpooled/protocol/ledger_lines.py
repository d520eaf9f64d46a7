"""The ledger lines of a round, as both ends write them.

Coordinator and party write the same lines from the same declaration: neither takes the
other's word for what was released.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from unpooled.arrays import Array
from unpooled.ledger import Release
from unpooled.protocol.declaration import Declared
from unpooled.protocol.evidence import array_name
from unpooled.protocol.neighbour_messages import Sealed, sealed_size
from unpooled.protocol.request import Request, Veiled
from unpooled.protocol.step import Step, find_step
from unpooled.protocol.view_operations import Derive, array_digest, array_key
from unpooled.secure.sums.fixed_point import BoundedCode, Code, WideCode
from unpooled.secure.sums.rounded_code import RoundedCode

# Most lines of its own ledger that a silo puts into one reply.
LINES_OF_A_REPLY = 1_000
# Source of the array in the message, then what `Release` takes between round and
# parties.
Entry = tuple[str, *tuple[Any, ...]]
# No neighbour told anybody anything.
NOTHING: Mapping[str, Mapping[str, Sealed]] = MappingProxyType({})


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
    return RoundedCode(n_parties, bits, context, party)


def ledger_lines(
    request: Request,
    step: Step,
    sizes: Mapping[str, int],
    protection: str,
    parties: tuple[str, ...],
    party: str = "",
) -> list[tuple[Release, str]]:
    """Return the lines of a round in their order: what comes in, then what goes out.

    Each comes with the name of its array in the message, empty for what is kept.

    Parameters
    ----------
    protection : {"masked", "plain"}
        How totals travel; disclosed values always travel as they are.
    parties : tuple of str
        All parties of the session; their number sets the room in the wide code.
    party : str
        Of those whose lines these are; another has other neighbours.
    """
    entries = [*_told(request), *_asked_with(request, step), *_heard(request, step)]
    peers = (request.topology or {}).get(party, ())
    for name, declared in step.declared.items():
        shape = declared.shape(sizes)
        numbers = declared.numbers(shape)
        if declared.kept:
            entries.append(("", step.name, name, shape, "float64", 0, "kept", "in"))
            continue
        if step.polynomial is not None:
            # Shares, to the other parties: no array of the message.
            size = step.polynomial.bytes(numbers, len(parties))
            kind, each = f"int{step.polynomial.bits}", size // step.polynomial.rounds
            entries.append(("", step.name, name, shape, kind, each, step.verb, "out"))
            continue
        kind, size = "float64", 8 * numbers
        if step.verb == "exchanged":
            size = len(peers) * sealed_size(shape)
        if step.verb == "summed" and protection == "masked":
            code = code_for(declared, len(parties), request.public)
            kind, size = code.dtype, code.bytes(numbers)
        verb = step.verb
        if verb == "summed" and request.to == "parties":
            verb = "veiled"
        entries.append((name, step.name, name, shape, kind, size, verb, "out"))
    lines = [
        (Release(request.study, request.round, *rest, parties=parties), source)
        for source, *rest in entries
    ]
    lines = [(_between(line, request, peers), source) for line, source in lines]
    # A batch of comparisons takes many rounds, each with a line of its own.
    turns = step.polynomial.rounds if step.polynomial is not None else 1
    last, source = lines[-1]
    later = range(request.round + 1, request.round + turns)
    return [*lines, *((replace(last, round=number), source) for number in later)]


def _told(request: Request) -> Iterator[Entry]:
    """Yield the arrays of transforms, and what shows that they were fitted."""
    for position, operation in enumerate(request.operations):
        if not isinstance(operation, Derive):
            continue
        for name, value in operation.arrays().items():
            key = array_key(position, name, array_digest(value))
            if key in request.fresh:
                what = (value.shape, str(value.dtype), value.nbytes)
                yield (f"view.{key}", operation.step, name, *what, "public", "in")
        for source, name, visibility, value in _shown(request, position):
            wide = visibility == "summed" and value.ndim == 3
            kind = "uint256" if wide else str(value.dtype)
            what = (value.shape[:2] if wide else value.shape, kind, value.nbytes)
            yield (source, operation.step, name, *what, visibility, "in")


def _asked_with(request: Request, step: Step) -> Iterator[Entry]:
    # Sorted, since a message's JSON does not keep the order of the caller.
    for name, value in sorted(request.public.items()):
        if isinstance(value, Veiled):
            words, visibility = value.words, "veiled"
            kind = "uint256" if words.ndim == 2 else str(words.dtype)
        elif isinstance(value, np.ndarray):
            words, visibility, kind = value, "public", str(value.dtype)
        else:
            continue
        what = (value.shape, kind, words.nbytes)
        yield (f"public.{name}", step.name, name, *what, visibility, "in")


def _heard(request: Request, step: Step) -> Iterator[Entry]:
    for name, told in sorted(request.inbox.items()):
        what = (told.shape, "float64", told.words.nbytes)
        yield (f"inbox.{name}", step.name, name, *what, "exchanged", "in")


def _between(line: Release, request: Request, peers: tuple[str, ...]) -> Release:
    if line.visibility != "exchanged":
        return line
    if line.direction == "in":
        peers = request.inbox[line.name].peers
    return replace(line, peers=peers)


def _shown(request: Request, position: int) -> Iterator[tuple[str, str, str, Array]]:
    """Yield source, name, visibility and value of a transform's arrays of evidence."""
    for number, one in enumerate(request.evidence):
        if one.transform != position:
            continue
        verb = find_step(one.step).verb
        for name, value in one.arrays().items():
            visibility = verb if name in one.words else "public"
            source = array_name(number, name)
            yield source, f"{one.step}.{name}", visibility, value


def lines_of_all(
    request: Request,
    step: Step,
    sizes: Mapping[str, Mapping[str, int]],
    protection: str,
    inboxes: Mapping[str, Mapping[str, Sealed]] = NOTHING,
) -> list[tuple[Release, str]]:
    """Return the lines of a round at all parties, one for each shape of an array.

    Parameters
    ----------
    sizes : mapping of str to mapping
        By party: on a column partition they differ, and so do the shapes of what a
        party keeps or discloses. `parties` of a line are those that it holds for.
    inboxes : mapping of str to mapping
        By party, what its neighbours told; `inbox` of its request.
    """
    parties = tuple(sizes)
    alike: dict[tuple[Any, ...], list[str]] = {}
    for party, its in sizes.items():
        # Neighbours tell each other: what one told is another line at each.
        own = party if request.topology or inboxes else ""
        alike.setdefault((own, *sorted(its.items())), []).append(party)
    written = []
    for members in alike.values():
        own = replace(request, inbox=inboxes.get(members[0], {}))
        its = sizes[members[0]]
        lines = ledger_lines(own, step, its, protection, parties, members[0])
        written.append(lines)
    merged: list[tuple[Release, str]] = []
    for same in zip(*written, strict=True):
        behind: dict[tuple[Any, ...], set[str]] = {}
        for (line, _), members in zip(same, alike.values(), strict=True):
            behind.setdefault((line.shape, line.peers), set()).update(members)
        of_shape = {(line.shape, line.peers): (line, source) for line, source in same}
        for shape, members in behind.items():
            line, source = of_shape[shape]
            whose = tuple(party for party in parties if party in members)
            merged.append((replace(line, parties=whose), source))
    return merged
