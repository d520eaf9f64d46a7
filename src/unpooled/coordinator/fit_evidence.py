"""The signed replies of rounds that fitted transforms, sent when one is applied.

    round of a fit ── every party's signed reply ──> kept, in memory or in a folder
    first request of a session with the transform <── evidence, found by columns and fit

The newest fit whose totals give a transform's arguments is its evidence. In a plan the
same choice is made among rounds that are only planned.
"""

import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, final

from unpooled.coordinator.signed_rounds import (
    Kept,
    Signed,
    Words,
    as_pieces,
    blank,
    read_kept,
    replies_in,
)
from unpooled.protocol.answered import Answered
from unpooled.protocol.evidence import Evidence, beyond, features, features_digest
from unpooled.protocol.evidence_check import after, follows, opened
from unpooled.protocol.message import Message
from unpooled.protocol.request import Request, Veiled
from unpooled.protocol.sizes import ViewSize
from unpooled.protocol.step import FITTING, Fit, Step, find_step
from unpooled.protocol.view_operations import Derive, Operation

# Replies larger than this wait on the disk: a scatter of many columns, of every party.
_IN_MEMORY = 2**25
_SUFFIX = ".replies"


@final
class FitEvidence:
    """The rounds that fitted transforms, newest last.

    Parameters
    ----------
    folder : Path, optional
        Keeps them beyond the process; without it large ones lie in unnamed files.

    Attributes
    ----------
    committee : tuple of str
        In a plan, the silos that would compare in secret; empty where all would.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self.committee: tuple[str, ...] = ()
        # By step and view; several where a solver iterates.
        self._kept: dict[tuple[str, str], tuple[Kept, ...]] = {}
        for path in sorted(folder.glob(f"*{_SUFFIX}")) if folder else ():
            self._remember(read_kept(path))

    def planned(self) -> "FitEvidence":
        """Return a copy that a plan may add to."""
        copy = FitEvidence()
        copy._kept = dict(self._kept)
        return copy

    def keep(
        self,
        request: Request,
        extents: Mapping[str, ViewSize],
        replies: Mapping[str, Message],
        protection: str,
    ) -> None:
        """Keep the signed replies of a round, if a transform is checked against it."""
        if not _fits(request, extents):
            return
        asked = _asked(request, extents, protection)
        load = self._store(request.round, as_pieces(request, asked, replies))
        public, chain = dict(request.public), tuple(features(request.operations))
        self._remember(Kept(asked, public, lambda: replies_in(load()), chain))

    def expect(
        self, request: Request, extents: Mapping[str, ViewSize], protection: str
    ) -> None:
        """Add a round that is only planned."""
        if not _fits(request, extents):
            return
        asked = _asked(request, extents, protection)
        public, chain = dict(request.public), tuple(features(request.operations))
        committee = self.committee

        def nothing() -> tuple[Words, Signed]:
            return blank(asked, request, committee), {}

        self._remember(Kept(asked, public, nothing, chain, True))

    def evidence(
        self, operations: Sequence[Operation], shown: set[str]
    ) -> tuple[tuple[Evidence, ...], set[str]]:
        """Return the evidence of a view's transforms, and names of those transforms.

        Parameters
        ----------
        operations : sequence of Operation
            The view.
        shown : set of str
            Names of transforms whose evidence was sent before in the session.
        """
        found, names = list[Evidence](), set[str]()
        for position, operation in enumerate(operations):
            if not isinstance(operation, Derive):
                continue
            step = find_step(operation.step)
            name = features_digest(operations[: position + 1])
            if step.follows is not None and name not in shown:
                found += self._of(operation, step, operations[:position], position)
                names.add(name)
        return tuple(found), names

    def _of(
        self,
        operation: Derive,
        step: Step,
        before: Sequence[Operation],
        position: int,
    ) -> list[Evidence]:
        for fit in self._fits_on(before, step):
            evidence = [
                _evidence(position, kept, _further(before, step, kept)) for kept in fit
            ]
            if any(kept.planned for kept in fit):
                return evidence
            fits: dict[str, Fit] = {}
            for one, kept in zip(evidence, fit, strict=True):
                fits |= after(fits, one, opened(one, kept.asked))
            if follows(step, fits, operation.public):
                return evidence
        # The silos refuse the transform, unless their policies allow it all the same.
        return []

    def _fits_on(self, before: Sequence[Operation], step: Step) -> Iterator[list[Kept]]:
        fits: dict[tuple[str, str], list[Kept]] = {}
        for rounds in reversed(self._kept.values()):
            asked = rounds[0].asked
            if asked.step not in step.fitted_by:
                continue
            view = [*before, *_further(before, step, rounds[0])]
            if features_digest(view) == asked.features:
                fits.setdefault((asked.session, asked.rows), [])[:0] = rounds
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
            # Joined only when needed: until then they are the arrays of the replies.
            return lambda: b"".join(parts)
        stream = tempfile.TemporaryFile()
        stream.writelines(parts)

        def load() -> bytes:
            stream.seek(0)
            return stream.read()

        weakref.finalize(load, stream.close)
        return load


def _evidence(position: int, kept: Kept, further: tuple[Operation, ...]) -> Evidence:
    words, signed = kept.replies()
    return Evidence(
        transform=position,
        step=kept.asked.step,
        public=kept.public,
        words=words,
        signed=signed,
        further=further,
    )


def _further(
    before: Sequence[Operation], step: Step, kept: Kept
) -> tuple[Operation, ...]:
    return beyond(before, kept.operations) if step.further else ()


def _fits(request: Request, extents: Mapping[str, ViewSize]) -> bool:
    veiled = any(isinstance(value, Veiled) for value in request.public.values())
    # On column partitions silos keep what their transforms read.
    by_rows = all(extent.n_rows is None for extent in extents.values())
    opened = request.to == "coordinator" and not veiled
    return request.step in FITTING and opened and by_rows


def _asked(
    request: Request, extents: Mapping[str, ViewSize], protection: str
) -> Answered:
    (n_features,) = {extent.n_features for extent in extents.values()}
    return request.answered(n_features, dict.fromkeys(extents, ""), protection)
