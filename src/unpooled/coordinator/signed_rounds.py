"""A round that fitted a transform, as the coordinator keeps it for later evidence.

reply of each party ── arrays, by place and name ──┐
request ── public arguments, columns, transforms ──┴──> one message, in a file too
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

from unpooled.arrays import Array
from unpooled.errors import StudyError, UnpooledError
from unpooled.protocol.answered import Answered
from unpooled.protocol.evidence import SIGNS, features
from unpooled.protocol.message import Message, decode, pieces
from unpooled.protocol.request import Request, view_arrays
from unpooled.protocol.step import find_step
from unpooled.protocol.view_operations import Operation, operation_from_json
from unpooled.protocol.wire_format import WireFormat

_PUBLIC, _VIEW = "public.", "view."

Words = Mapping[str, Array]
Signed = Mapping[str, tuple[bytes, bytes]]


@final
@dataclass(frozen=True, eq=False)
class Kept:
    """A round that fitted a transform.

    Attributes
    ----------
    asked : Answered
        The request that every party received.
    public : mapping
        Its public arguments; arrays as such.
    replies : callable
        Returns the stacked words by array name, and the signed texts with signatures.
    operations : tuple of Operation
        The columns and transforms of its view.
    planned : bool
        Whether the round is only planned, so that its words are none.
    """

    asked: Answered
    public: Mapping[str, Any]
    replies: Callable[[], tuple[Words, Signed]]
    operations: tuple[Operation, ...] = ()
    planned: bool = False


def as_pieces(
    request: Request, asked: Answered, replies: Mapping[str, Message]
) -> list[Any]:
    """Return the parts of the message that `read_kept` reads."""
    chain = tuple(features(request.operations))
    arrays = {_PUBLIC + n: v for n, v in _arrays(request.public).items()}
    arrays |= {_VIEW + key: v for key, v in view_arrays(chain).items()}
    digests: dict[str, str] = {}
    named = _declared_names(request)
    for place, party in enumerate(sorted(replies)):
        reply = replies[party]
        arrays |= {f"{place}.{named(n)}": v for n, v in reply.arrays.items()}
        digests |= {f"{place}.{named(n)}": d for n, d in reply.digests.items()}
    header: dict[str, Any] = {"asked": asked.as_record()}
    header["view"] = [operation.as_json() for operation in chain]
    header["signed"] = {
        party: [reply.front.decode("ascii"), reply.signature.hex()]
        for party, reply in replies.items()
    }
    header["public"] = {
        n: v for n, v in request.public.items() if not isinstance(v, np.ndarray)
    }
    return pieces(header, arrays, digests=digests)


def _declared_names(request: Request) -> Callable[[str], str]:
    """Return a function from an array's name in a reply to its declared name."""
    step = find_step(request.step)
    renamed = {} if step.polynomial is None else dict.fromkeys([SIGNS], *step.leaves)
    return lambda name: renamed.get(name, name)


def _arrays(public: Mapping[str, Any]) -> dict[str, Array]:
    return {n: v for n, v in public.items() if isinstance(v, np.ndarray)}


def replies_in(data: bytes) -> tuple[Words, Signed]:
    """Return the stacked words by array name, and the signed texts by party."""
    message = decode(data)
    signed = message.header["signed"]
    asked = Answered.from_record(message.header["asked"])
    words = {
        name: np.stack(
            [message.arrays[f"{place}.{name}"] for place in range(len(signed))]
        )
        for name in find_step(asked.step).leaves
    }
    return words, {
        party: (front.encode("ascii"), bytes.fromhex(signature))
        for party, (front, signature) in signed.items()
    }


def blank(asked: Answered, request: Request, committee: tuple[str, ...] = ()) -> Words:
    """Return words of the right shape that take no memory, for a plan."""
    step = find_step(asked.step)
    sizes = step.sizes(asked.n_features, request.public)
    words = {}
    for name, declared in step.leaves.items():
        if step.polynomial is not None:
            one, who = np.zeros((), np.uint8), committee or asked.parties
            words[name] = np.broadcast_to(one, (len(who), *declared.shape(sizes)))
            continue
        form = WireFormat.of(declared, sizes, request.public)
        masked = asked.protection == "masked"
        shape, dtype = form.words(form.code(len(asked.parties)) if masked else None)
        one = np.zeros((), dtype)
        words[name] = np.broadcast_to(one, (len(asked.parties), *shape))
    return words


def read_kept(path: Path) -> Kept:
    """Read a round from its file; words and signatures only when they are needed."""
    try:
        message = decode(path.read_bytes())
        asked = Answered.from_record(message.header["asked"])
        public = {
            name.removeprefix(_PUBLIC): value.copy()
            for name, value in message.arrays.items()
            if name.startswith(_PUBLIC)
        }
        public |= message.header["public"]
        fitted = {
            name.removeprefix(_VIEW): value.copy()
            for name, value in message.arrays.items()
            if name.startswith(_VIEW)
        }
        chain = tuple(
            operation_from_json(record, place, fitted)
            for place, record in enumerate(message.header.get("view", ()))
        )
    except (KeyError, TypeError, ValueError, UnpooledError) as wrong:
        raise StudyError(
            f"{path} does not hold the replies of a round, as the run wrote them. "
            f"Remove the run's folder and run the study anew."
        ) from wrong
    return Kept(asked, public, lambda: replies_in(path.read_bytes()), chain)
