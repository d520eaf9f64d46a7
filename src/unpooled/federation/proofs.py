"""What parties signed while transforms were fitted: shown to them when it is applied.

    round of a fit ── every party's signed reply ──> kept, in memory or in a folder
    first request of a session with the transform <── evidence, found by columns and fit

The newest fit whose totals give a transform's arguments is its evidence. In a plan the
same choice is made among rounds that are only planned.
"""

import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

from unpooled.arrays import Array
from unpooled.errors import StudyError, UnpooledError
from unpooled.party.evidence import Evidence, features_digest
from unpooled.party.extent import Extent
from unpooled.party.lines import code_for
from unpooled.party.memory import Answered
from unpooled.party.operations import Derive, Operation
from unpooled.party.request import Request, Veiled
from unpooled.party.step import FITTING, Fit, Step, find_step
from unpooled.party.transforms import after, follows, opened
from unpooled.secure.message import Message, decode, pieces

# Replies larger than this wait on the disk: a scatter of many columns, of every party.
_IN_MEMORY = 2**20
_SUFFIX = ".replies"
_PUBLIC = "public."

Words = Mapping[str, Array]
Signed = Mapping[str, tuple[bytes, bytes]]


@final
@dataclass(frozen=True, eq=False)
class Kept:
    """A round that fitted something.

    Attributes
    ----------
    asked : Answered
        What every party was asked.
    public : mapping
        The arguments, arrays as such.
    replies : callable
        Returns the stacked words by array name, and who signed what.
    planned : bool
        Whether the round is only planned, so that its words are none.
    """

    asked: Answered
    public: Mapping[str, Any]
    replies: Callable[[], tuple[Words, Signed]]
    planned: bool = False


@final
class Proofs:
    """The rounds that fitted something, newest last.

    Parameters
    ----------
    folder : Path, optional
        Where they outlive the process; without it large ones lie in unnamed files.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        # By step and view; several where a solver iterates.
        self._kept: dict[tuple[str, str], tuple[Kept, ...]] = {}
        for path in sorted(folder.glob(f"*{_SUFFIX}")) if folder else ():
            self._remember(_read(path))

    def planned(self) -> "Proofs":
        """Return a copy that a plan may add to."""
        copy = Proofs()
        copy._kept = dict(self._kept)
        return copy

    def keep(
        self,
        request: Request,
        extents: Mapping[str, Extent],
        replies: Mapping[str, Message],
        protection: str,
    ) -> None:
        """Keep the signed replies of a round, if a transform is checked against it."""
        if not _fits(request, extents):
            return
        parties = tuple(sorted(replies))
        asked = _asked(request, extents, protection)
        arrays = {_PUBLIC + n: v for n, v in _arrays(request.public).items()}
        digests: dict[str, str] = {}
        for place, party in enumerate(parties):
            reply = replies[party]
            arrays |= {f"{place}.{n}": v for n, v in reply.arrays.items()}
            digests |= {f"{place}.{n}": d for n, d in reply.digests.items()}
        signed = {
            party: [reply.front.decode("ascii"), reply.signature.hex()]
            for party, reply in replies.items()
        }
        header = {"asked": asked.as_record(), "signed": signed}
        header["public"] = {
            n: v for n, v in request.public.items() if not isinstance(v, np.ndarray)
        }
        load = self._store(request.round, pieces(header, arrays, digests=digests))
        self._remember(Kept(asked, dict(request.public), lambda: _replies(load())))

    def expect(
        self, request: Request, extents: Mapping[str, Extent], protection: str
    ) -> None:
        """Note a round that is only planned."""
        if not _fits(request, extents):
            return
        asked = _asked(request, extents, protection)
        self._remember(
            Kept(
                asked, dict(request.public), lambda: (_blank(asked, request), {}), True
            )
        )

    def evidence(
        self, operations: Sequence[Operation], shown: set[str]
    ) -> tuple[tuple[Evidence, ...], set[str]]:
        """Return the evidence of a view's transforms, and names for what it proves.

        Parameters
        ----------
        shown : set of str
            Names of what was proven before in the session.
        """
        found, names = list[Evidence](), set[str]()
        for position, operation in enumerate(operations):
            if not isinstance(operation, Derive):
                continue
            step = find_step(operation.step)
            name = features_digest(operations[: position + 1])
            if step.follows is not None and name not in shown:
                features = features_digest(operations[:position])
                found += self._of(operation, step, features, position)
                names.add(name)
        return tuple(found), names

    def _of(
        self, operation: Derive, step: Step, features: str, position: int
    ) -> list[Evidence]:
        for fit in self._fits_on(features, step.fitted_by):
            evidence = [
                Evidence(position, kept.asked.step, kept.public, *kept.replies())
                for kept in fit
            ]
            if any(kept.planned for kept in fit):
                return evidence
            fits: dict[str, Fit] = {}
            for one, kept in zip(evidence, fit, strict=True):
                fits |= after(fits, one, opened(one, kept.asked))
            if follows(step, fits, operation.public):
                return evidence
        # The silos say no, unless their policies trust this transform without a fit.
        return []

    def _fits_on(self, features: str, steps: Sequence[str]) -> Iterator[list[Kept]]:
        fits: dict[tuple[str, str], list[Kept]] = {}
        for rounds in reversed(self._kept.values()):
            asked = rounds[0].asked
            if asked.features == features and asked.step in steps:
                fits.setdefault((asked.session, asked.view), [])[:0] = rounds
        yield from fits.values()

    def _remember(self, kept: Kept) -> None:
        # The same step on the same rows gives the same totals: the newest are enough.
        key = (kept.asked.step, kept.asked.view)
        before = self._kept.pop(key, ())
        if before and before[0].asked.session != kept.asked.session:
            before = ()
        self._kept[key] = (*before, kept)

    def _store(self, number: int, parts: list[Any]) -> Callable[[], bytes]:
        if self._folder is not None:
            self._folder.mkdir(exist_ok=True)
            path = self._folder / f"{number:06d}{_SUFFIX}"
            with path.open("wb") as stream:
                stream.writelines(parts)
            return path.read_bytes
        if sum(memoryview(part).nbytes for part in parts) <= _IN_MEMORY:
            data = b"".join(parts)
            return lambda: data
        stream = tempfile.TemporaryFile()
        stream.writelines(parts)

        def load() -> bytes:
            stream.seek(0)
            return stream.read()

        weakref.finalize(load, stream.close)
        return load


def _fits(request: Request, extents: Mapping[str, Extent]) -> bool:
    veiled = any(isinstance(value, Veiled) for value in request.public.values())
    # On column partitions silos keep what their transforms read.
    by_rows = all(extent.n_rows is None for extent in extents.values())
    opened = request.to == "coordinator" and not veiled
    return request.step in FITTING and opened and by_rows


def _asked(
    request: Request, extents: Mapping[str, Extent], protection: str
) -> Answered:
    (n_features,) = {extent.n_features for extent in extents.values()}
    return request.answered(n_features, dict.fromkeys(extents, ""), protection)


def _arrays(public: Mapping[str, Any]) -> dict[str, Array]:
    return {n: v for n, v in public.items() if isinstance(v, np.ndarray)}


def _replies(data: bytes) -> tuple[Words, Signed]:
    message = decode(data)
    signed = message.header["signed"]
    asked = Answered.from_record(message.header["asked"])
    words = {
        name: np.stack(
            [message.arrays[f"{place}.{name}"] for place in range(len(asked.parties))]
        )
        for name in find_step(asked.step).leaves
    }
    return words, {
        party: (front.encode("ascii"), bytes.fromhex(signature))
        for party, (front, signature) in signed.items()
    }


def _blank(asked: Answered, request: Request) -> Words:
    """Return words of the right size, of which there is only one in memory."""
    step = find_step(asked.step)
    sizes = step.sizes(asked.n_features, request.public)
    words = {}
    for name, declared in step.leaves.items():
        numbers = declared.numbers(declared.shape(sizes))
        masked = asked.protection == "masked"
        code = code_for(declared, len(asked.parties), request.public)
        one = np.zeros((), code.word if masked else np.float64)
        shape = code.shape(numbers) if masked else (numbers,)
        words[name] = np.broadcast_to(one, (len(asked.parties), *shape))
    return words


def _read(path: Path) -> Kept:
    try:
        message = decode(path.read_bytes())
        asked = Answered.from_record(message.header["asked"])
        public = {
            name.removeprefix(_PUBLIC): value.copy()
            for name, value in message.arrays.items()
            if name.startswith(_PUBLIC)
        }
        public |= message.header["public"]
    except (KeyError, TypeError, UnpooledError) as wrong:
        raise StudyError(
            f"{path} does not hold the replies of a round, as the run wrote them. "
            f"Remove the run's folder and run the study anew."
        ) from wrong
    return Kept(asked, public, lambda: _replies(path.read_bytes()))
