"""The ledger lines of a round, as both ends write them.

Coordinator and party write the same lines from the same declaration, so neither depends
on the other's account of what was released.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from unpooled.arrays import Array
from unpooled.ledger import Release
from unpooled.ledger.lines import changed
from unpooled.protocol.following import WORDS
from unpooled.protocol.neighbour_messages import Sealed, sealed_size
from unpooled.protocol.privacy_cost import cost
from unpooled.protocol.request import Request, Veiled
from unpooled.protocol.step import Step, find_step
from unpooled.protocol.view_operations import Derive, array_digest, array_key
from unpooled.protocol.wire_format import WireFormat
from unpooled.secure.keys.roster import FEWEST_COMPUTING

# Most lines of its own ledger that a silo puts into one reply.
LINES_OF_A_REPLY = 1_000
# Lines of a round, each with the name of its array in the message; empty for an array
# that is in no message.
Lines = list[tuple[Release, str]]
# The inboxes of a round in which no party receives anything from a neighbour.
NOTHING: Mapping[str, Mapping[str, Sealed]] = MappingProxyType({})
# `Release` with study, round and parties filled in.
_Line = Callable[..., Release]


def ledger_lines(
    request: Request,
    step: Step,
    sizes: Mapping[str, int],
    protection: str,
    parties: tuple[str, ...],
    party: str = "",
    n_computing: int = FEWEST_COMPUTING,
) -> Lines:
    """Return the lines of a round in their order: arrays received, then arrays sent.

    Parameters
    ----------
    sizes : mapping of str to int
        Sizes of the step's axis letters.
    protection : {"masked", "plain"}
        How totals travel; disclosed values always travel in clear.
    parties : tuple of str
        All parties of the session; their number sets the room in the wide code.
    party : str
        The party whose lines these are, which matters where it has neighbours.
    n_computing : int
        Number of computing parties, by which a comparison takes rounds.
    """
    line = partial(Release, study=request.study, round=request.round, parties=parties)
    peers = (request.topology or {}).get(party, ())
    lines = [*_received(request, step, line)]
    rho = cost(step, request.public)
    for name, declared in step.declared.items():
        form = WireFormat.of(declared, sizes, request.public)
        sent = partial(line, step=step.name, name=name, shape=form.shape)
        if rho > 0.0 and declared.noise is not None:
            delta = request.public["delta"]
            sent = partial(sent, rho=rho * declared.noise.share, delta=delta)
        if declared.kept:
            kept = sent(dtype="float64", bytes=0, visibility="kept", direction="in")
            lines.append((kept, ""))
            continue
        if step.computation is not None:
            # Shares, to the other parties: no array of the message.
            shares = sent(
                dtype=f"int{step.computation.bits}",
                bytes=step.computation.bytes(name, form.shape, n_computing, sizes),
                visibility=step.verb,
                direction="out",
            )
            lines.append((shares, ""))
            continue
        dtype, size, visibility = "float64", 8 * form.n_numbers, step.verb
        if step.verb == "exchanged":
            size = len(peers) * sealed_size(form.shape)
        if step.verb == "summed" and protection == "masked":
            code = form.code(len(parties))
            dtype, size = code.dtype, code.bytes(form.n_numbers)
        if step.verb == "summed" and request.to == "parties":
            visibility = "veiled"
        released = sent(
            dtype=dtype,
            bytes=size,
            visibility=visibility,
            direction="out",
            peers=peers if step.verb == "exchanged" else (),
        )
        lines.append((released, name))
    # A batch of comparisons takes many rounds, each with a line of its own.
    computation = step.computation
    turns = 1 if computation is None else computation.rounds(n_computing)
    last, source = lines[-1]
    later = range(request.round + 1, request.round + turns)
    return [*lines, *((changed(last, round=number), source) for number in later)]


def _received(
    request: Request, step: Step, line: _Line
) -> Iterator[tuple[Release, str]]:
    """Yield the lines of arrays that come with a request."""
    line = partial(line, direction="in")
    yield from _following_lines(request, line)
    for position, operation in enumerate(request.operations):
        if isinstance(operation, Derive):
            for name, value in operation.arrays().items():
                key = array_key(position, name, array_digest(value))
                if key in request.fresh:
                    yield _public(line, operation.step, name, value), f"view.{key}"
    # Sorted, since a message's JSON does not keep the order of the caller.
    for name, value in sorted(request.public.items()):
        received = None
        if isinstance(value, Veiled):
            words = value.words
            received = line(
                step=step.name,
                name=name,
                shape=value.shape,
                dtype="uint256" if words.ndim == 2 else str(words.dtype),
                bytes=words.nbytes,
                visibility="veiled",
            )
        elif isinstance(value, np.ndarray):
            received = _public(line, step.name, name, value)
        if received is not None:
            yield received, f"public.{name}"
    for name, sealed in sorted(request.inbox.items()):
        received = line(
            step=step.name,
            name=name,
            shape=sealed.shape,
            dtype="float64",
            bytes=sealed.words.nbytes,
            visibility="exchanged",
            peers=sealed.peers,
        )
        yield received, f"inbox.{name}"


def _public(line: _Line, step: str, name: str, value: Array) -> Release:
    """Return the line of an array that everybody may know."""
    return line(
        step=step,
        name=name,
        shape=value.shape,
        dtype=str(value.dtype),
        bytes=value.nbytes,
        visibility="public",
    )


def _following_lines(request: Request, line: _Line) -> Iterator[tuple[Release, str]]:
    """Yield the lines of the arrays by which a silo follows the program."""
    for place, call in enumerate(request.calls):
        for name, value in call.message_arrays(place).items():
            yield _public(line, request.step, name, value), name
    for place, opened in enumerate(request.opened):
        verb = find_step(opened.step).verb
        visibility = verb
        if verb == "summed":
            visibility = "veiled" if opened.to == "parties" else "opened"
        for key, value in opened.arrays(place).items():
            if not key.startswith(WORDS):
                name = key.partition(".")[2]
                yield _public(line, opened.step, name, value), key
                continue
            name = key.rpartition(".")[2]
            received = _public(line, opened.step, name, value)
            received = changed(received, visibility=visibility)
            if verb == "summed" and value.ndim == 2:
                received = changed(received, shape=value.shape[:1], dtype="uint256")
            yield received, key


def lines_of_all(
    request: Request,
    step: Step,
    sizes: Mapping[str, Mapping[str, int]],
    protection: str,
    inboxes: Mapping[str, Mapping[str, Sealed]] = NOTHING,
    n_computing: int = FEWEST_COMPUTING,
) -> Lines:
    """Return the lines of a round at all parties, one for each shape of an array.

    Parameters
    ----------
    sizes : mapping of str to mapping
        By party. On a column partition they differ, and so do the shapes of arrays
        that a party keeps or discloses. `parties` of a line are those that it holds
        for.
    inboxes : mapping of str to mapping
        By party, the sealed arrays of its neighbours; `inbox` of its request.
    n_computing : int
        Number of computing parties.
    """
    parties = tuple(sizes)
    alike: dict[tuple[Any, ...], list[str]] = {}
    for party, party_sizes in sizes.items():
        # Each party has other neighbours, and then lines of its own.
        own = party if request.topology or inboxes else ""
        alike.setdefault((own, *sorted(party_sizes.items())), []).append(party)
    written = []
    for group in alike.values():
        first = group[0]
        of_first = replace(request, inbox=inboxes.get(first, {}))
        written.append(
            ledger_lines(
                of_first, step, sizes[first], protection, parties, first, n_computing
            )
        )
    merged: Lines = []
    for same in zip(*written, strict=True):
        behind: dict[tuple[Any, ...], set[str]] = {}
        for (line, _), group in zip(same, alike.values(), strict=True):
            behind.setdefault((line.shape, line.peers), set()).update(group)
        of_shape = {(line.shape, line.peers): (line, source) for line, source in same}
        for shape, group in behind.items():
            line, source = of_shape[shape]
            ordered = tuple(party for party in parties if party in group)
            merged.append((changed(line, parties=ordered), source))
    return merged
