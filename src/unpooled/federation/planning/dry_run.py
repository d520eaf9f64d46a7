"""Plans: the ledger that a fit would write, before anything leaves a silo.

    plan ── a clone of the model ── fit ──> DryRun      lines, requests, placeholders
         └─ the requests ──> silos ──> the rules by which they would refuse

The estimator itself runs, on a dry run in place of the coordinator: the ledger's lines
come from the same declarations, the totals are placeholders. The silos only return the
rules by which they would refuse.
"""

import copy
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np

from unpooled.arrays import Array
from unpooled.coordinator.comparisons import computing_parties, note_computing
from unpooled.coordinator.coordinator import Coordinator
from unpooled.coordinator.opened_rounds import OpenedRounds
from unpooled.coordinator.relay import Relay
from unpooled.coordinator.step_call import Needs, RoundRecord, RoundRunner, StepCall
from unpooled.data.columns import listing
from unpooled.errors import DATA_RULES, RULES, DataError, UnpooledError
from unpooled.federation.federation import Federation
from unpooled.federation.matching import with_matching
from unpooled.federation.planning.constant_columns import compared
from unpooled.federation.planning.plan import Plan
from unpooled.ledger import Ledger, Release
from unpooled.protocol.block_levels import COUNTED
from unpooled.protocol.following import Call
from unpooled.protocol.ledger_lines import lines_of_all
from unpooled.protocol.message import encode
from unpooled.protocol.opened_numbers import opened_by
from unpooled.protocol.planned_step import Foreseen, PlannedStep
from unpooled.protocol.privacy_cost import spent
from unpooled.protocol.request import Request, Veiled, view_arrays
from unpooled.protocol.step import Declared, Step
from unpooled.protocol.view_operations import (
    Derive,
    Operation,
    Rows,
    Select,
    rows_digest,
)
from unpooled.protocol.wire_format import WireFormat
from unpooled.secure.keys.roster import FEWEST_COMPUTING, MOST_COMPUTING, Roster

# Stands for N: a plan does not collect numbers of rows.
_PLACEHOLDER_ROWS = 10**6
_WEIGHTS = (
    "A regression weighs rows by what it has fitted, so only the fit finds whether one "
    "row has nearly all of the weight, which a silo refuses (weighted_rows). Where "
    "columns separate the classes, LogisticRegression(C=0.01) of standardised columns "
    "avoids it."
)


@final
@dataclass(eq=False)
class DryRun(RoundRunner):
    """Writes the lines of each round and answers with placeholders; nothing leaves.

    Attributes
    ----------
    parties, study, protection
        As of `RoundRunner`.
    n_rows : int
        Stands for N.
    requests : list of (Request, Needs)
        One for each step and view, for the silos' rules; with each, what its model
        needs of cells.
    numbers : dict of (str, str, str) to float
        How many numbers each of them opens at least: in its first round.
    lines : list of Release
        The ledger lines of all rounds.
    narrowed : bool
        Whether the fit leaves out columns that only its totals tell. Then silos are not
        asked about products of columns, which the fit may not have.
    follows : bool
        Whether the silos follow, and receive what each round gave.
    roster : Roster or None
        Where it is known, for its committee.
    """

    parties: tuple[str, ...]
    study: str
    protection: str
    n_rows: int = _PLACEHOLDER_ROWS
    requests: list[tuple[Request, Needs]] = field(default_factory=list)
    numbers: dict[tuple[str, str, str], float] = field(default_factory=dict)
    lines: list[Release] = field(default_factory=list)
    ledger: Ledger = field(default_factory=Ledger)
    records: list[RoundRecord] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    planned: bool = True
    narrowed: bool = False
    follows: bool = False
    roster: Roster | None = None
    _opened_rounds: OpenedRounds = field(default_factory=OpenedRounds)
    _relay: Relay = field(default_factory=Relay)
    _sent: dict[str, set[str]] = field(default_factory=dict)
    _requested: set[tuple[str, str, str]] = field(default_factory=set)
    _depth: int = 0
    _fits: int = 0
    _round: int = 0
    _computing: bool = False
    _has_blocks: bool = False

    def enter(self, call: Callable[[], Call] | None = None) -> None:
        """Begin a fit: transforms are sent anew in each."""
        if self._depth == 0:
            if self.follows and call is not None:
                self._opened_rounds.begin(call())
            self._sent.clear()
            self._computing = self._has_blocks = False
            self._relay.clear()
            self._fits += 1
        self._depth += 1

    def exit(self) -> None:
        """End a fit."""
        self._depth -= 1
        if self._depth == 0:
            self._opened_rounds.end()

    def begin_computing(self, allow_coordinator_party: bool = False) -> None:
        """Refuse what could not be compared in secret, and note who would compute."""
        if self._computing:
            return
        self._computing = True
        if self.roster is None and len(self.parties) > MOST_COMPUTING:
            return
        roster = self.roster or Roster(dict.fromkeys(self.parties, b""))
        committee = computing_parties(roster, allow_coordinator_party)
        note_computing(self.notes, committee, self.parties)

    def narrow(self) -> None:
        """Ask no silo about products of columns from now on."""
        self.narrowed = True

    def seed(self) -> int:
        """Return 0: no keys were agreed, and no result depends on a plan's seed."""
        return 0

    def run_step(self, call: StepCall) -> dict[str, Any]:
        """Write the lines of the round and return placeholders of the right shapes."""
        return self.run_steps([call])[0]

    def run_steps(self, calls: Sequence[StepCall]) -> list[dict[str, Any]]:
        """Write the lines of several steps of one round."""
        self._share_blocks(calls)
        self._round += 1
        due = self._opened_rounds.due(f"planned {self._fits}", calls[0].step.name)
        self._opened_rounds.was_sent()
        # The first step carries to the silos what the round before gave.
        rest = [dict[str, Any]()] * (len(calls) - 1)
        return [self._planned(*pair) for pair in zip(calls, [due, *rest], strict=True)]

    def _share_blocks(self, calls: Sequence[StepCall]) -> None:
        """Write the lines of what silos count before rows are selected."""
        rows = all(one.n_rows is None for one in calls[0].extents.values())
        selects = rows and any(call.selects_rows for call in calls)
        if self._has_blocks or not selects:
            return
        self._has_blocks = True
        sizes = {party: dict[str, int]() for party in self.parties}
        for step in COUNTED.values():
            self._round += 1
            session = f"planned {self._fits}"
            request = Request.between_silos(step.name, self.study, session, self._round)
            lines = lines_of_all(request, step, sizes, self.protection, {})
            self.lines += [line for line, _ in lines]

    def _planned(self, call: StepCall, due: Mapping[str, Any]) -> dict[str, Any]:
        step, sizes = call.step, call.sizes(self.parties)
        # A model that was fitted on other folds has other numbers.
        of_part = self._sent.setdefault(_folds_of(call.operations), set())
        fresh = call.new_arrays(of_part)
        of_part |= fresh
        request = call.request(
            study=self.study,
            session=f"planned {self._fits}",
            round_number=self._round,
            fresh=fresh,
            **due,
        )
        self._opened_rounds.add(request, self._words(request, step, sizes))
        key = _key_of(request)
        opened = opened_by(step, request, sizes[self.parties[0]], self.parties, {})
        # A search may end after its first round.
        self.numbers.setdefault(key, opened.numbers)
        products = any(len(declared.letters) > 1 for declared in step.leaves.values())
        if key not in self._requested and not (self.narrowed and products):
            self._requested.add(key)
            self.requests.append((request, call.needs))
        if step.weighs_rows and _WEIGHTS not in self.notes:
            self.notes.append(_WEIGHTS)
        inboxes = self._relay.deliver(step)
        lines = lines_of_all(
            request, step, sizes, self.protection, inboxes, self._n_computing
        )
        self.lines += [line for line, _ in lines]
        if call.topology is not None:
            self._relay.carry(step, call.topology, sizes, None)
            return {}
        of_total = sizes[self.parties[0]]
        if step.computation is not None:
            self._round += step.computation.rounds(self._n_computing) - 1
            return dict(step.computation.placeholders(step.shapes(of_total)))
        if step.verb == "disclosed":
            return {party: self._values(request, step, sizes[party]) for party in sizes}
        return self._values(request, step, of_total)

    @property
    def _n_computing(self) -> int:
        """Number of computing parties: of more than five, five if none are named."""
        if self.roster is not None:
            return self.roster.n_computing
        return min(max(len(self.parties), FEWEST_COMPUTING), MOST_COMPUTING)

    def _words(
        self, request: Request, step: Step, sizes: Mapping[str, Mapping[str, int]]
    ) -> dict[str, Array]:
        """Return zeros in place of the words that silos which follow receive."""
        if not self.follows or step.verb in ("kept", "exchanged"):
            return {}
        of_total, words = sizes[min(sizes)], dict[str, Array]()
        if step.computation is not None:
            forms = step.computation.forms(step.shapes(of_total))
            return {name: np.zeros(*form) for name, form in forms.items()}
        for name, declared in step.leaves.items():
            form = WireFormat.of(declared, of_total, request.public)
            if step.verb == "disclosed":
                for party, own in sizes.items():
                    form = WireFormat.of(declared, own, request.public)
                    words[f"{party}/{name}"] = np.zeros(*form.words(None))
            else:
                code = form.code(len(sizes)) if self.protection == "masked" else None
                words[name] = np.zeros(*form.words(code))
        return words

    def _values(
        self, request: Request, step: Step, sizes: Mapping[str, int]
    ) -> dict[str, Any]:
        return {
            name: self._placeholder(request, name, declared, declared.shape(sizes))
            for name, declared in step.leaves.items()
        }

    def _placeholder(
        self, request: Request, name: str, declared: Declared, shape: tuple[int, ...]
    ) -> Any:
        if request.to == "parties":
            form = WireFormat(declared, shape, request.public)
            code = form.code(n_parties=2)
            words = np.zeros(*form.words(None if self.protection == "plain" else code))
            return Veiled(request.veiled_name(name), shape, words, code.dtype)
        if declared.symmetric:
            return np.broadcast_to(np.eye(shape[-1]), shape).copy()
        # Classes share the rows; columns have all of them.
        parts = shape[0] if declared.letters == ("c",) else 1
        return np.full(shape, max(self.n_rows // parts, 1) if name == "count" else 1.0)


def _folds_of(operations: Iterable[Operation]) -> str:
    """Name the folds that a view is part of: its own rows, or all others."""
    rows = [replace(o, complement=False) for o in operations if isinstance(o, Rows)]
    return rows_digest(rows)


def _key_of(request: Request) -> tuple[str, str, str]:
    return request.step, request.to, request.view_digest


@final
class PlannedNumbers:
    """The numbers of a plan, request by request, as the budgets of silos count them.

    Parameters
    ----------
    dry : DryRun
        The federation that the study was planned with.
    columns : sequence of str
        All columns of the study.
    """

    def __init__(self, dry: DryRun, columns: Sequence[str]) -> None:
        self._dry, self._columns = dry, frozenset(columns)
        self._of = dict[frozenset[str], float]()

    def opens(self, request: Request) -> tuple[float, float]:
        """Return numbers about each column before a request, and its own in all."""
        asked, found = self._about(request), defaultdict[str, float](float)
        before = self._of.get(asked, 0.0)
        for columns, numbers in self._of.items():
            for name in columns & asked if columns != asked else ():
                found[name] += numbers
        most = before + max(found.values(), default=0.0)
        return most, self._dry.numbers[_key_of(request)]

    def add(self, request: Request, *, further: bool) -> None:
        """Count a request for later ones, unless its numbers were opened before."""
        if further and (asked := self._about(request)):
            more = self._dry.numbers[_key_of(request)] / len(asked)
            self._of[asked] = self._of.get(asked, 0.0) + more

    def _about(self, request: Request) -> frozenset[str]:
        columns = self._columns
        for operation in request.operations:
            if not isinstance(operation, Select):
                break
            columns = frozenset(operation.columns)
        return columns


def planned_message(
    request: Request, parties: Sequence[str], partition: str, about: PlannedStep
) -> bytes:
    """Return the message that asks a silo by which rule it would refuse a request.

    Parameters
    ----------
    request : Request
        As a dry run made it.
    parties : sequence of str
        The study's parties.
    partition : {"rows", "columns"}
        The study's partition.
    about : PlannedStep
        The question about its step.
    """
    everything = frozenset(view_arrays(request.operations))
    whole = replace(request, fresh=everything, calls=(), opened=())
    header, arrays = whole.as_message()
    header |= {"kind": "plan", "parties": sorted(parties), "partition": partition}
    return encode(header | about.as_header(), arrays)


def planned_step(
    needs: Needs,
    *,
    matched: bool,
    earlier: Iterable[tuple[str, ...]],
    opens: tuple[float, float],
    rho: float = 0.0,
) -> PlannedStep:
    """Return the question about a step of a model with these needs.

    The other arguments are the attributes of `PlannedStep`.
    """
    return PlannedStep(
        complete=needs.complete,
        varying=needs.varying,
        valued=needs.valued,
        matched=matched,
        earlier=tuple(earlier),
        opens=opens,
        rho=rho,
    )


def tells_again(request: Request, rules: Iterable[str]) -> bool:
    """Whether a silo that refused by some rules would count one more of a request.

    A silo gives few refusals that depend on its rows, over all studies. One of them
    ends the study, and each fold of a plan would be another one.
    """
    selects = any(isinstance(one, Rows) for one in request.operations)
    return selects and not DATA_RULES.keys().isdisjoint(rules)


def add_rows_read(earlier: list[tuple[str, ...]], foreseen: Foreseen) -> None:
    """Add the rows that a planned request would read, as a silo's reply names them."""
    read = foreseen.complete_in
    if read is not None and read not in earlier:
        earlier.append(read)


@dataclass(frozen=True)
class _Answers:
    """The silos' replies to a plan.

    Attributes
    ----------
    refusals : list of ((str, str, str), tuple of str)
        Party, step and rule, and the columns that the party names.
    notes : list of str
        Sentences on columns that are constant in every silo that has their rows, and
        on cells of rows that may be matched or not.
    latency : float
        The shortest time that a reply took, in seconds; 0 where nothing was asked.
    """

    refusals: list[tuple[tuple[str, str, str], tuple[str, ...]]]
    notes: list[str]
    latency: float


def _by_silo(request: Request) -> bool:
    """Return whether each silo transforms its rows by arrays of its own."""
    return any(isinstance(o, Derive) and o.kept_of for o in request.operations)


def _answers(
    coordinator: Coordinator,
    dry: DryRun,
    columns: Sequence[str],
    *,
    matched: bool,
    rho: float,
) -> _Answers:
    """Ask every silo about each request."""
    refusals, notes, latency = list[Any](), list[str](), math.inf
    earlier, counted = list[tuple[str, ...]](), PlannedNumbers(dry, columns)
    equal = dict[str, bool]()  # of columns that are constant in every silo
    rules: dict[str, list[str]] = {party: [] for party in coordinator.parties}
    for request, needs in dry.requests:
        asked = [party for party in rules if not tells_again(request, rules[party])]
        if not asked:
            continue
        data = planned_message(
            request,
            coordinator.parties,
            coordinator.partition,
            planned_step(
                needs,
                matched=matched,
                earlier=earlier,
                opens=counted.opens(request),
                rho=rho,
            ),
        )
        began = time.perf_counter()
        replies = coordinator.exchange(dict.fromkeys(asked, data), "plan")
        latency = min(latency, time.perf_counter() - began)
        if replies.problem:
            raise replies.problem
        said = {
            party: Foreseen.from_header(reply.header)
            for party, reply in replies.messages.items()
        }
        counted.add(request, further=any(one.further for one in said.values()))
        for party, one in said.items():
            add_rows_read(earlier, one)
            if one.rule:
                rules[party].append(one.rule)
                refusals.append(((party, request.step, one.rule), one.columns))
            if one.carried:
                coordinator.told_carried[party] = one.carried
            if one.doubt:
                notes.append(doubtful_note(party, *one.doubt))
        refusals += [
            ((party, request.step, "empty_column"), empty)
            for party, empty in _empty(coordinator.partition, said).items()
        ]
        constant = {
            party: [name for name in one.constant if name not in needs.except_of]
            for party, one in said.items()
        }
        if coordinator.partition == "columns":
            # A silo has all values of its columns, so these vary nowhere.
            refusals += [
                ((party, request.step, "constant_columns"), tuple(own))
                for party, own in constant.items()
                if own
            ]
            continue
        everywhere = _named_by_all(constant)
        # What each silo takes its own means from is 0 everywhere.
        within = needs.within or _by_silo(request)
        if not within and (new := [c for c in everywhere if c not in equal]):
            equal |= compared(coordinator, new)
        refused = tuple(c for c in everywhere if within or equal.get(c))
        if refused:
            refusals += [
                ((party, request.step, "constant_columns"), refused) for party in said
            ]
        if unknown := [c for c in everywhere if c not in refused and c not in equal]:
            model = request.step.rpartition(".")[0]
            notes.append(
                f"Constant in every silo: {listing(unknown)}. Unless its values "
                f"differ between silos, {model} finds no solution: leave it out."
            )
    notes += [
        carried_note(party, columns) for party, columns in coordinator.carried.items()
    ]
    return _Answers(
        refusals=list(dict.fromkeys(refusals)),
        notes=list(dict.fromkeys(notes)),
        latency=latency if math.isfinite(latency) else 0.0,
    )


def carried_note(party: str, columns: Sequence[str]) -> str:
    """Return the warning that one row carries much of a direction of columns."""
    return (
        f"In {party} one row carries half or more of a direction of the columns "
        f"{listing(columns)}: their covariances tell much about that person. "
        f"RareColumns leaves such columns out."
    )


def doubtful_note(party: str, rule: str, columns: Sequence[str]) -> str:
    """Return the warning that rows may be read which the model does not take."""
    sentence, remedy = RULES[rule]
    return (
        f"Not known before rows are matched: {party} has cells in {listing(columns)} "
        f"for which the run is refused ({rule}: {sentence}) if all silos have these "
        f"people. {remedy}"
    )


def _empty(partition: str, said: Mapping[str, Foreseen]) -> dict[str, tuple[str, ...]]:
    """Return by silo the columns without a value; by rows, those empty in all silos."""
    empty = {party: one.empty for party, one in said.items()}
    if partition == "rows":
        empty = dict.fromkeys(empty, _named_by_all(empty))
    return {party: columns for party, columns in empty.items() if columns}


def _named_by_all(columns: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return the columns that every silo names, in the order of the first silo."""
    first, *others = columns.values()
    return tuple(c for c in first if all(c in other for other in others))


def plan(
    model: Any,
    federation: Federation,
    y: Any = None,
    *,
    n_rows: int | None = None,
    update: bool = False,
) -> Plan:
    """Return the exchanges that fitting a model would make, without making them.

    Parameters
    ----------
    model : estimator or Pipeline
        Not changed; a clone is run, or with `update` a copy.
    federation : Federation
        Its silos only return the rules by which they would refuse.
    y : str or list of str, optional
        As for ``model.fit``.
    n_rows : int, optional
        Rows of all silos, if you know; a plan does not collect them. It matters where
        columns may outnumber rows; 1,000,000 when omitted.
    update : bool, default False
        Plan ``model.update(federation)`` of a fitted model, in place of a fit.

    Returns
    -------
    Plan
        `releases`, `rounds`, `bytes`, `refusals`.

    Raises
    ------
    DataError
        When the federation, the number of rows or the model is none to plan with, or
        the fit would raise it.
    AggregationError
        When a silo does not answer.
    """
    if not isinstance(federation, Federation):
        raise DataError(
            f"plan takes a model and a Federation, not {type(federation).__name__}. "
            f"Make one with unpooled.simulate({{name: data, ...}})."
        )
    if n_rows is not None and n_rows < 2:
        raise DataError(f"n_rows={n_rows!r}; choose a whole number of at least 2.")
    if update and not hasattr(model, "update"):
        raise DataError(f"{type(model).__name__} has no update to plan.")
    live, rows = federation.coordinator, int(n_rows or _PLACEHOLDER_ROWS)
    dry = _rehearsed(model, federation, y, rows, update=update)
    said = _Answers([], [], 0.0)
    if isinstance(live, Coordinator):
        matched = federation.layout.matching != "ids"
        cost = spent(dry.lines)
        rho = 0.0 if cost is None else cost.rho
        said = _answers(live, dry, federation.feature_names, matched=matched, rho=rho)
    explain = getattr(live, "explain", None) or (lambda party, rule: "")
    lines = with_matching(federation, dry.lines)
    planned = Plan(
        releases=lines,
        refusals=tuple(refusal for refusal, _ in said.refusals),
        refused_columns=tuple(columns for _, columns in said.refusals),
        parties=live.parties,
        protection=live.protection,
        notes=(*dry.notes, *said.notes),
        latency=said.latency,
        n_columns=len(federation.feature_names),
        columns_at=columns_at(federation),
        explanations={
            (party, rule): more
            for (party, _, rule), _ in said.refusals
            if (more := explain(party, rule))
        },
    )
    if update:
        return planned
    others = _other_ways(model, federation, y, rows, planned)
    return replace(planned, notes=(*planned.notes, *others))


def columns_at(federation: Federation) -> dict[str, int]:
    """Return how many columns each silo has of its own; empty by rows."""
    if federation.partition == "rows":
        return {}
    return {party: len(own) for party, own in federation.columns_of.items()}


def rounds_to_come(model: Any, federation: Federation, y: Any) -> tuple[int, float]:
    """Return the number of rounds of a fit, and an estimate of its seconds.

    No silo is asked: a clone of the model is fitted on a dry run.
    """
    lines = tuple(_rehearsed(model, federation, y, _PLACEHOLDER_ROWS).lines)
    live = federation.coordinator
    planned = Plan(lines, (), live.parties, live.protection)
    return planned.rounds, planned.seconds


def _rehearsed(
    model: Any, federation: Federation, y: Any, n_rows: int, *, update: bool = False
) -> DryRun:
    """Return the dry run of a clone of the model's fit, or of a copy's update."""
    from sklearn.base import clone

    live = federation.coordinator
    dry = DryRun(live.parties, live.study, live.protection, n_rows=n_rows)
    if isinstance(live, Coordinator):
        dry.follows, dry.roster = live.follows, live.roster
    if update:
        copy.copy(model).update(federation.over(dry))
    else:
        clone(model).fit(federation.over(dry), *([] if y is None else [y]))
    return dry


def _other_ways(
    model: Any, federation: Federation, y: Any, n_rows: int, planned: Plan
) -> Iterator[str]:
    """Yield a sentence on the cost of each way to run, where the model has several."""
    from sklearn.base import clone

    if federation.partition == "columns":
        # Each silo does for itself what there are several ways for over rows.
        return
    for name, part in {"": model, **model.get_params()}.items():
        for parameter, choices in getattr(type(part), "_ways", {}).items():
            key = f"{name}__{parameter}".removeprefix("__")
            for choice in choices:
                other = clone(model).set_params(**{key: choice})
                try:
                    lines = tuple(_rehearsed(other, federation, y, n_rows).lines)
                except UnpooledError as wrong:
                    yield f'{parameter}="{choice}": not here. {wrong}'
                    continue
                cost = replace(planned, releases=lines)
                yield (
                    f'{parameter}="{choice}": {cost.rounds} rounds, each party sends '
                    f"{cost.bytes:,} bytes, about {cost.seconds:.2g} s at "
                    f"{1000 * planned.latency:.3g} ms an answer."
                )
