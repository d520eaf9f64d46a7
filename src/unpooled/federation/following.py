"""Following: a silo makes the coordinator's calls itself, on totals that it checked.

    Following.program ── the call's model, in a thread ── method(view) ──┐
    Expected  <── a verb of the view: the request that must come now <───┤
    OpenedRound ──> decoded as at the coordinator ── the verb returns ─────────┘

It is the sibling of `unpooled.federation.planning.dry_run`: there totals are
placeholders, here they are those of the study. The two ends run the same code of the
same estimator, so an estimator needs nothing of its own to be followed.
"""

import importlib
import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast, final

import numpy as np

from unpooled.arrays import Array
from unpooled.coordinator.open_totals import disclosed_values, opened_totals
from unpooled.coordinator.step_call import RoundRecord, RoundRunner, StepCall
from unpooled.errors import UnpooledError
from unpooled.federation.calls import METHODS, RECORDS, record_for
from unpooled.federation.federation import Federation
from unpooled.federation.layout import Layout
from unpooled.federation.turns import Turns
from unpooled.ledger import Ledger
from unpooled.linalg.settled import Hint, checking
from unpooled.party.following import Outcome, StudyText
from unpooled.protocol.following import (
    REACHED,
    Call,
    Expected,
    OpenedRound,
    model_digest,
)
from unpooled.protocol.refusal import Refusal
from unpooled.protocol.step import find_step, home_of
from unpooled.protocol.view_operations import Operation, Recorded

# By name, since studies stand above the federation.
_TEXTS = "unpooled.study.announcement"

OwnColumns = Callable[
    [Sequence[Mapping[str, Any]]], tuple[tuple[str, ...], tuple[str, ...]]
]


@final
class FollowedPrograms:
    """Makes the programs that a silo follows.

    Parameters
    ----------
    interactive : bool, default False
        Whether calls may come that no announced text has, as in a simulation.
    """

    def __init__(self, *, interactive: bool = False) -> None:
        self.interactive = interactive

    def program(self, call: Call, **session: Any) -> "RunningCall":
        """Return the program of a call in a session."""
        return RunningCall(call, **session)

    def text(self, text: str) -> StudyText:
        """Return the calls that an announced text makes."""
        return importlib.import_module(_TEXTS).calls_of(text)


@final
class _FollowingRunner(RoundRunner):
    """Hands each call of a step over, and returns what the round gave."""

    def __init__(
        self, parties: tuple[str, ...], study: str, protection: str, seed: int
    ) -> None:
        self.parties, self.study, self.protection = parties, study, protection
        self.planned, self.follows = False, False
        self.ledger, self.records, self.notes = Ledger(), list[RoundRecord](), []
        self.turns = Turns("following")
        self.hints = list[Hint]()
        self.ended = False
        self._seed = seed

    def seed(self) -> int:
        """Return the session's seed, as the coordinator has it."""
        return self._seed

    def enter(self, call: Callable[[], Call] | None = None) -> None:
        """Do nothing: the call has begun."""

    def exit(self) -> None:
        """Do nothing."""

    def begin_computing(self, allow_coordinator_party: bool = False) -> None:
        """Do nothing: messages of comparisons are not the program's."""

    def run_step(self, call: StepCall) -> dict[str, Any]:
        """Return the results of the round, once they have arrived."""
        return self.run_steps([call])[0]

    def run_steps(self, calls: Sequence[StepCall]) -> list[dict[str, Any]]:
        """Return the results of a round's steps, once they have arrived."""
        if self.ended:
            raise Refusal("not_followed")
        opened: Sequence[OpenedRound] = self.turns.hand_over(calls)
        return [_results(self, *pair) for pair in zip(calls, opened, strict=True)]

    def next_hints(self) -> Iterator[Hint]:
        """Yield the hints of the rounds that arrived, in their order."""
        while True:
            if not self.hints:
                raise Refusal("hint")
            yield self.hints.pop(0)


@final
class RunningCall:
    """A call that is made in a thread, one round after the other.

    The thread runs only while `advance` waits for it.

    Parameters
    ----------
    call : Call
        As the coordinator sent it.
    study : str
        The study's name.
    operations : sequence of Operation
        Operations of the session's first request: they name the call's view.
    parties : tuple of str
        The roster of the session.
    protection : {"masked", "plain"}
        How totals travel.
    party : str
        This silo.
    own_columns : callable
        Returns its own columns behind the operations of a view, as they travel, and
        those of them that hold categories.
    seed : int
        The session's seed.

    Attributes
    ----------
    reached : list of mapping
        States of a search from which a later fit may continue, in their order.
    """

    def __init__(
        self,
        call: Call,
        *,
        study: str,
        operations: Sequence[Operation],
        parties: tuple[str, ...],
        protection: str,
        party: str,
        own_columns: OwnColumns,
        seed: int,
    ) -> None:
        if call.method not in METHODS or {p for p, _ in call.columns} != set(parties):
            raise Refusal("not_followed")
        order = tuple(name for name, _ in call.columns)
        self._runner = _FollowingRunner(order, study, protection, seed)
        federation = Federation(
            self._runner,
            layout=_layout(call, party, *own_columns(call.view)),
            named=call.named,
            label=call.label,
            random_state=call.random_state,
            operations=_known(call.view, operations),
        )
        records = importlib.import_module(RECORDS)
        record = {**call.model, "fitted": dict(call.model.get("fitted", {}))}
        reached = record.pop(REACHED, None)
        self._model = records.model_of(record, lambda name: call.arrays[name].copy())
        self.reached = list[Mapping[str, Any]]()
        if call.method == "fit":
            self._model.continuing(reached, self.reached.append)
        self._partition = federation.partition
        self._call, self._done = call, False
        self._run = _Run(self._runner, self._model, federation, call)
        self._started = False

    def advance(self, opened: Sequence[OpenedRound]) -> list[Expected]:
        """Go on with what the last round gave; return the steps of the next one."""
        for one in opened:
            self._runner.hints += one.hints
        turns, started, self._started = self._runner.turns, self._started, True
        with warnings.catch_warnings():
            # The coordinator has warned the person who asked.
            warnings.simplefilter("ignore")
            try:
                calls = turns.go_on(opened) if started else turns.begin(self._run)
            except KeyboardInterrupt:  # of whoever waits, and not of the program
                raise
            except BaseException as error:
                self._done = True
                refused = isinstance(error, UnpooledError) and error.rule == "hint"
                raise Refusal("hint" if refused else "not_followed") from error
        self._done = calls is None
        return [Expected.of(call.step.name, call) for call in calls or ()]

    def outcome(self) -> Outcome | None:
        """Return the model that the call gave, and the view that it makes."""
        if not self._done or self._call.method not in ("fit", "update"):
            return None
        arrays = dict[str, Array]()
        record = record_for(self._model, "", self._partition, arrays)
        view = self._run.made
        return Outcome(
            model=model_digest(record, arrays),
            view=None if view is None else [o.as_json() for o in view.operations],
        )

    def close(self) -> None:
        """End the thread, if it still waits."""
        self._runner.turns.close()

    def __del__(self) -> None:
        self.close()


@final
class _Run:
    """The work of a program's thread. It does not refer to the program itself."""

    def __init__(
        self, runner: _FollowingRunner, model: Any, view: Federation, call: Call
    ) -> None:
        self._runner, self._model, self._federation = runner, model, view
        self._call_of = call
        self.made: Federation | None = None

    def __call__(self) -> None:
        with checking(self._runner.next_hints()):
            method = getattr(self._model, self._call_of.method)
            # Not always the first: `select` begins with a percentage.
            names = list(inspect.signature(method).parameters)
            # Steps of other files run under the model's name, as in its `fit`.
            asked = self._federation.asked_by(home_of(type(self._model).__module__))
            view = {"X" if "X" in names else names[0]: asked}
            method(**view, **self._call_of.arguments)
            self.made = self._transformed()

    def _transformed(self) -> Federation | None:
        """Return the view that a fitted model makes, where that takes no rounds."""
        self._runner.ended = True
        try:
            made = self._model.transform(self._federation)
        except Exception:
            return None
        return made if isinstance(made, Federation) else None


def _layout(
    call: Call, party: str, columns: tuple[str, ...], categorical: tuple[str, ...]
) -> Layout:
    """Return the layout of a call's view, as far as this silo knows it."""
    if call.n_rows is None:
        by_party, last, named = dict[str, tuple[str, ...]](), None, ()
        for name, of in call.columns:
            # Forty silos have the same thousands of names.
            if of != last:
                last, named = of, tuple(map(str, of))
            by_party[name] = named
        # A transform makes numbers, whatever the column is called; one that fills
        # missing cells leaves the kind of a column.
        made = {
            name
            for record in call.view
            if record["operation"] == "derive"
            and find_step(record["step"]).by_column != "missing"
            for name in record["columns"]
        }
        coded = frozenset(categorical) - made
        return Layout("rows", by_party, categorical=coded)
    by_party = {
        name: columns
        if name == party
        else tuple(f"{name} {number}" for number in range(int(of)))
        for name, of in call.columns
    }
    coded = frozenset(categorical)
    return Layout("columns", by_party, call.n_rows, categorical=coded, known_to=party)


def _known(
    view: Sequence[Mapping[str, Any]], operations: Sequence[Operation]
) -> tuple[Operation, ...]:
    """Return the view's operations: those of the first request, which begin with it."""
    first = [operation.as_json() for operation in operations]
    if first[: len(view)] == list(view):
        return tuple(operations[: len(view)])
    # Only their records are read: what the program makes of them is compared.
    return cast(tuple[Operation, ...], tuple(map(Recorded, view)))


def _results(
    runner: _FollowingRunner, call: StepCall, opened: OpenedRound
) -> dict[str, Any]:
    """Return the results of a round, equal to those of the coordinator."""
    step, sizes = call.step, call.sizes(runner.parties)
    if step.computation is not None:
        return dict(step.computation.opened(opened.words, list(step.declared)))
    request = call.request(
        study=runner.study,
        session=opened.session,
        round_number=opened.round,
        fresh=frozenset(),
    )
    if step.verb == "summed":
        words = {name: array.copy() for name, array in opened.words.items()}
        return opened_totals(request, step, sizes, words, runner.protection)
    if step.verb == "disclosed":
        words = {place: np.array(array) for place, array in opened.words.items()}
        return disclosed_values(request, step, sizes, words)
    return {}
