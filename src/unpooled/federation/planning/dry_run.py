"""Plans: what would leave, before anything does.

The estimator itself is run, against an end that writes the ledger's lines from the same
declarations and answers with placeholders; silos are asked only which of their rules
would refuse.
"""

import copy
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np

from unpooled.coordinator.comparisons import computing_parties, who_computes
from unpooled.coordinator.coordinator import Coordinator
from unpooled.coordinator.fit_evidence import Proofs
from unpooled.coordinator.relay import Relay
from unpooled.coordinator.round_cost import RoundRecord
from unpooled.errors import DataError, UnpooledError
from unpooled.federation.federation import Federation
from unpooled.federation.matching import planned_lines
from unpooled.federation.planning.plan import Plan
from unpooled.ledger import Ledger, Release
from unpooled.protocol.ledger_lines import lines_of_all
from unpooled.protocol.message import encode
from unpooled.protocol.request import Request, Veiled, view_arrays
from unpooled.protocol.sizes import ViewSize
from unpooled.protocol.step import Declared, Step
from unpooled.protocol.topology import Graph
from unpooled.protocol.view_operations import Operation
from unpooled.protocol.wire_format import WireFormat
from unpooled.secure.keys.roster import MOST_COMPUTING, Roster

# Stands for numbers of rows, which a plan does not ask the silos for.
_PLACEHOLDER_ROWS = 10**6


@final
@dataclass(eq=False)
class DryRounds:
    """The coordinator's end of rounds that are planned, not run."""

    parties: tuple[str, ...]
    study: str
    protection: str
    requests: list[Request] = field(default_factory=list)
    lines: list[Release] = field(default_factory=list)
    ledger: Ledger = field(default_factory=Ledger)
    records: list[RoundRecord] = field(default_factory=list)
    depth: int = 0
    sent: set[str] = field(default_factory=set)
    proofs: Proofs = field(default_factory=Proofs)
    fits: int = 0
    notes: list[str] = field(default_factory=list)
    asked: set[tuple[str, str, str]] = field(default_factory=set)
    roster: Roster | None = None  # where it is known, and with it a committee
    computing: bool = False
    rounds: int = 0
    n_rows: int = _PLACEHOLDER_ROWS
    planned: bool = True
    relay: Relay = field(default_factory=Relay)

    def enter(self) -> None:
        """Begin a fit: transforms are sent anew in each."""
        if self.depth == 0:
            self.sent.clear()
            self.computing = False
            self.relay.clear()
            self.fits += 1
        self.depth += 1

    def exit(self) -> None:
        """End a fit."""
        self.depth -= 1

    def begin_computing(self, allow_coordinator_party: bool = False) -> None:
        """Refuse what could not be compared in secret, and note who would compute."""
        if self.computing:
            return
        self.computing = True
        if self.roster is None and len(self.parties) > MOST_COMPUTING:
            return
        roster = self.roster or Roster(dict.fromkeys(self.parties, b""))
        members = computing_parties(roster, allow_coordinator_party)
        self.proofs.committee = tuple(party for party in members if party)
        if (note := who_computes(members, self.parties)) not in ("", *self.notes):
            self.notes.append(note)

    def ask(
        self,
        step: Step,
        operations: tuple[Operation, ...],
        extents: Mapping[str, ViewSize],
        to: str,
        public: Mapping[str, Any],
        kept_of: str = "",
        topology: Graph | None = None,
    ) -> dict[str, Any]:
        """Write the lines of the round and return placeholders of the right shapes."""
        sizes = {party: extents[party].sizes(step, public) for party in self.parties}
        fresh = frozenset(set(view_arrays(operations)) - self.sent)
        evidence, proven = self.proofs.evidence(operations, self.sent)
        self.sent |= fresh | proven
        self.rounds += 1
        where = (self.study, f"planned {self.fits}", self.rounds, step.name, to)
        what = (operations, dict(public), fresh, kept_of, evidence, topology)
        request = Request(*where, *what)
        self.proofs.expect(request, extents, self.protection)
        # Silos are asked once for the rules of a step, however often it may run.
        if (what := (step.name, to, request.view_digest)) not in self.asked:
            self.asked.add(what)
            self.requests.append(request)
        how = (self.protection, self.relay.deliver(step))
        self.lines += [line for line, _ in lines_of_all(request, step, sizes, *how)]
        if topology is not None:
            self.relay.carry(step, topology, sizes, None)
            return {}
        if step.polynomial is not None:
            self.rounds += step.polynomial.rounds - 1
            its = sizes[self.parties[0]]
            return {n: np.zeros(d.shape(its), bool) for n, d in step.declared.items()}
        values = {
            party: _values(step, its, request, self) for party, its in sizes.items()
        }
        return values if step.verb == "disclosed" else values[self.parties[0]]


def _values(
    step: Step, its: Mapping[str, int], request: Request, dry: DryRounds
) -> dict[str, Any]:
    return {
        name: _placeholder(name, declared, declared.shape(its), request, dry)
        for name, declared in step.leaves.items()
    }


def _placeholder(
    name: str,
    declared: Declared,
    shape: tuple[int, ...],
    request: Request,
    dry: DryRounds,
) -> Any:
    if request.to == "parties":
        form = WireFormat(declared, shape, request.public)
        code = form.code(n_parties=2)
        words = np.zeros(*form.words(None if dry.protection == "plain" else code))
        return Veiled(request.round, name, shape, words, code.dtype)
    if declared.symmetric:
        return np.eye(shape[0])
    # Classes share the rows; columns have all of them.
    parts = shape[0] if declared.letters == ("c",) else 1
    return np.full(shape, max(dry.n_rows // parts, 1) if name == "count" else 1.0)


def with_matching(
    federation: Federation, lines: Sequence[Release]
) -> tuple[Release, ...]:
    """Return planned lines after those of matching rows, if that is still to be done.

    How many rows are common is not known yet: the lines are of the most there can be.
    """
    first = planned_lines(federation)
    rounds = first[-1].round if first else 0
    return (*first, *(replace(line, round=line.round + rounds) for line in lines))


def would_refuse(
    coordinator: Coordinator, requests: Iterable[Request]
) -> list[tuple[str, str, str]]:
    """Ask each silo which planned steps its rules refuse: (party, step, rule)."""
    return _asked_for_rules(coordinator, requests)[0]


def _asked_for_rules(
    coordinator: Coordinator, requests: Iterable[Request]
) -> tuple[list[tuple[str, str, str]], float]:
    """Return what `would_refuse` does, and the shortest time that an answer took."""
    found, latency = [], math.inf
    for request in requests:
        everything = frozenset(view_arrays(request.operations))
        whole = replace(request, fresh=everything, evidence=())
        header, arrays = whole.as_message()
        header |= {"kind": "plan", "parties": sorted(coordinator.parties)}
        header["partition"] = coordinator.partition
        data, began = encode(header, arrays), time.perf_counter()
        replies = coordinator.exchange(dict.fromkeys(coordinator.parties, data), "plan")
        latency = min(latency, time.perf_counter() - began)
        if replies.problem:
            raise replies.problem
        for party, reply in replies.messages.items():
            if rule := reply.header.get("rule", ""):
                found.append((party, request.step, rule))
    return list(dict.fromkeys(found)), latency if math.isfinite(latency) else 0.0


def plan(
    model: Any,
    federation: Federation,
    y: Any = None,
    *,
    n_rows: int | None = None,
    update: bool = False,
) -> Plan:
    """Tell what fitting a model would exchange, without exchanging it.

    Parameters
    ----------
    model : estimator or Pipeline
        Not changed; a clone is run, or with `update` a copy.
    federation : Federation
        Its silos are asked for their rules only.
    y : str or list of str, optional
        As for ``model.fit``.
    n_rows : int, optional
        How many rows all silos have together, as far as you know: silos are not asked.
        It matters where columns may outnumber rows. Many, when omitted.
    update : bool, default False
        Plan ``model.update(federation)``, of a fitted model, in place of a fit.

    Returns
    -------
    Plan
        `releases`, `rounds`, `bytes`, `refusals`.
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
    refusals, latency = list[tuple[str, str, str]](), 0.0
    if isinstance(live, Coordinator):
        refusals, latency = _asked_for_rules(live, dry.requests)
    lines = with_matching(federation, dry.lines)
    found = Plan(lines, tuple(refusals), live.parties, live.protection, latency=latency)
    others = () if update else _other_ways(model, federation, y, rows, found)
    return replace(found, notes=(*dry.notes, *others))


def _rehearsed(
    model: Any, federation: Federation, y: Any, n_rows: int, *, update: bool = False
) -> DryRounds:
    """Run a clone of the model against rounds that write lines, and ask nobody."""
    from sklearn.base import clone

    live = federation.coordinator
    dry = DryRounds(live.parties, live.study, live.protection, n_rows=n_rows)
    if isinstance(live, Coordinator):
        dry.proofs, dry.roster = live.proofs.planned(), live.roster
    if update:
        copy.copy(model).update(federation.over(dry))
    else:
        clone(model).fit(federation.over(dry), *([] if y is None else [y]))
    return dry


def _other_ways(
    model: Any, federation: Federation, y: Any, n_rows: int, found: Plan
) -> Iterator[str]:
    """Yield what the model's ways to run would cost, where it has several."""
    from sklearn.base import clone

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
                cost = replace(found, releases=lines)
                yield (
                    f'{parameter}="{choice}": {cost.rounds} rounds, each party sends '
                    f"{cost.bytes:,} bytes, about {cost.seconds:.2g} s at "
                    f"{1000 * found.latency:.3g} ms an answer."
                )
