"""One fit, as a party sees it: keys of its own, rounds in order, each answered once.

request ─> rules ─> rows, block by block ─> rules again ─> code ─> masks ─> seals
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.data.table import Table
from unpooled.errors import AggregationError, DataError
from unpooled.party.following import AnsweredRound
from unpooled.party.memory.studies import Studies
from unpooled.party.memory.study_memory import StudyMemory
from unpooled.party.rules.counts_first import CountsFirst
from unpooled.party.rules.leverage import scatter_in
from unpooled.party.rules.leverage_of_products import (
    check_drawn,
    check_functions,
    functions_of,
)
from unpooled.party.rules.policy import Policy
from unpooled.party.rules.refusal_limit import BOUNDS
from unpooled.party.rules.weighted_rows import WeightedRows, check_parts
from unpooled.party.steps.add_noise import check_inputs, honest_shares, noised
from unpooled.party.steps.asked_step import AskedStep
from unpooled.party.steps.incremental import run_incrementally
from unpooled.party.steps.neighbours import Neighbours
from unpooled.party.steps.run_step import run_again, run_on_parts, run_step
from unpooled.party.views.session_views import SessionViews
from unpooled.party.views.view import FindCut, View
from unpooled.protocol.answered import Answered
from unpooled.protocol.block_levels import COUNTED
from unpooled.protocol.computing_party import ComputingParty
from unpooled.protocol.ledger_lines import Lines, ledger_lines
from unpooled.protocol.neighbour_messages import Inbox
from unpooled.protocol.opened_numbers import Opened, opened_by
from unpooled.protocol.refusal import Refusal
from unpooled.protocol.request import Request, Veiled, view_arrays
from unpooled.protocol.sizes import ViewSize
from unpooled.protocol.step import Step, find_step
from unpooled.protocol.view_operations import Derive
from unpooled.protocol.wire_format import WireFormat
from unpooled.secure.comparison.relayed_streams import Carry
from unpooled.secure.keys.agreement import (
    Agreement,
    Offer,
    new_group_key,
    open_sealed,
    seal_for,
)
from unpooled.secure.keys.roster import Roster
from unpooled.secure.sums.fixed_point import Code
from unpooled.secure.sums.mask_graph import mask_peers
from unpooled.secure.sums.masking import MaskedSum, unveil, veil
from unpooled.secure.sums.plain import PlainSum
from unpooled.secure.sums.secure_sum import SecureSum
from unpooled.secure.sums.total_check import check_sums, check_total, seal_sums


@final
@dataclass(frozen=True, eq=False)
class Released:
    """The results of a step, which are all logged before any is sent.

    Attributes
    ----------
    lines : list of (Release, str)
        Ledger lines, each with the name of its array in the reply.
    arrays : dict of str to array
        The arrays of the reply.
    header : dict
        Further entries of the reply's header.
    forms : mapping of str to WireFormat
        The form in which each array leaves.
    opened : Opened
        The numbers that the round opens.
    marked : str
        The rule by which a value had no code, so that noise leaves in its place; empty
        where all values have one.
    """

    lines: Lines
    arrays: dict[str, Array]
    header: dict[str, Any]
    forms: Mapping[str, WireFormat]
    opened: Opened
    marked: str


@final
@dataclass(frozen=True, eq=False)
class _VeiledTotal:
    """How a party opens a total of an earlier round that went to the parties alone."""

    form: WireFormat
    code: Code
    context: bytes


@final
class Session:
    """A party's end of one fit.

    Parameters
    ----------
    party : str
        This party's name.
    table : Table
        The silo's rows.
    policy : Policy
        The silo's rules.
    study : StudyMemory
        The party's memory of the study between fits.
    agreement : Agreement
        This party's side of the key agreement.
    parties : tuple of str
        The roster of the session, sorted.
    protection : {"masked", "plain"}
        How totals are protected.
    roster : Roster
        The parties of the session, with the keys that the silo pins.
    partition : {"rows", "columns"}, default "rows"
        As the silo declared it.
    carry : callable, optional
        Hands a message of secure comparisons for a peer to the relay.
    cut : callable
        Returns the blocks of a table's rows on a row partition.
    follows : bool, default False
        Whether the silo follows the program, and seals sums that check totals.
    planned : bool, default False
        Whether requests are those of a plan.

    Attributes
    ----------
    roster : Roster
        As given.
    seed : int
        The session's public seed, once the keys are agreed.
    """

    def __init__(
        self,
        party: str,
        table: Table,
        policy: Policy,
        study: StudyMemory,
        agreement: Agreement,
        parties: tuple[str, ...],
        protection: str,
        roster: Roster,
        partition: str = "rows",
        carry: Carry | None = None,
        *,
        cut: FindCut,
        follows: bool = False,
        planned: bool = False,
    ) -> None:
        self.party, self.parties, self.protection = party, parties, protection
        self.partition, self.roster, self._carry = partition, roster, carry
        self._table, self._policy = table, policy
        self._committee = roster.committee
        # Written with every round.
        self._pinned = {party: roster[party].hex() for party in parties}
        self._views = SessionViews(party, table, study, partition, cut, planned=planned)
        self._counts = CountsFirst(policy, partition)
        self._follows, self.seed = follows, 0
        self._agreement, self._neighbours = agreement, Neighbours(party, parties)
        self._keys: dict[str, bytes] = {}
        # None until the keys are agreed: before that nothing may leave.
        self._sum: SecureSum | None = None
        self._group_key: bytes | None = None
        self._computing: ComputingParty | None = None
        self._view_arrays: dict[str, Array] = {}
        self._veiled: dict[str, _VeiledTotal] = {}
        # By view, a mean that an earlier step took; later scatters may be about it.
        self._points: dict[str, Array] = {}
        self._counted: tuple[str, _VeiledTotal] | None = None
        # The rule by which the present round's values have no code.
        self._marked = ""

    @property
    def known_arrays(self) -> Mapping[str, Array]:
        """Arrays of transforms that came with earlier requests, by `array_key`."""
        return self._view_arrays

    def agree(self, offers: Mapping[str, Offer], seen: Mapping[str, str]) -> None:
        """Derive the keys of the session; see `Agreement.agree`."""
        peers = mask_peers(self.party, {p: offer.public for p, offer in offers.items()})
        self._keys = self._agreement.agree(offers, seen, self._partners(peers))
        shared = {peer: self._keys[peer] for peer in peers}
        self._sum = MaskedSum(self.party, shared) if self._is_masked else PlainSum()
        self._computing = ComputingParty(
            self.party,
            self.parties,
            self._committee,
            self._keys,
            self._carry,
            masked_with=peers,
        )

    def _partners(self, peers: frozenset[str]) -> frozenset[str]:
        """Return the parties with whom this one needs a key of their own.

        Among many silos that have different people these are few: those with masks in
        common, and those to whom every party sends something sealed, the committee and
        the one that makes the group key. Parties of a column partition match rows and
        may be neighbours in any graph.
        """
        everybody = frozenset(self.parties) - {self.party}
        central = {self.parties[0], *self._committee}
        if self.partition == "columns" or self.party in central:
            return everybody
        return peers | (central & everybody)

    def offer_group_key(self) -> dict[str, bytes]:
        """Make the key of totals for the parties alone, sealed for each peer."""
        if self._group_key is not None:
            raise Refusal("replayed")
        self._group_key = new_group_key()
        about = self._agreement.about
        return {
            peer: seal_for(key, self._group_key, about("group key", self.party, peer))
            for peer, key in self._keys.items()
        }

    def accept_group_key(self, leader: str, sealed: bytes) -> None:
        """Take the group key that the leader sealed for this party."""
        if leader not in self._keys:
            raise Refusal("wrong_roster")
        if self._group_key is not None:
            raise Refusal("replayed")
        about = self._agreement.about("group key", leader, self.party)
        self._group_key = open_sealed(self._keys[leader], sealed, about)

    @property
    def computing(self) -> ComputingParty:
        """The party's part in secure comparisons."""
        if self._computing is None:
            raise Refusal("out_of_order")
        return self._computing

    def carried(self, peer: str, message: bytes) -> None:
        """Take a message of a peer's secure comparisons, if there are any."""
        if self._computing is not None:
            self._computing.carried(peer, message)

    def proceed(self, request: str) -> None:
        """Start the comparison of a request, by its digest, once it is written down."""
        if self._computing is not None:
            self._computing.proceed(request)

    def close(self) -> None:
        """End the session's comparison process, if it has one."""
        if self._computing is not None:
            self._computing.close()

    def conceal_counted(
        self, request: Request, counts: Float[Array, " l"]
    ) -> tuple[dict[str, Array], dict[str, Any], Lines]:
        """Return the silo's counts of its blocks, masked as they may leave.

        Returns
        -------
        (dict of str to array, dict, list)
            Array and header of the reply, and the lines of the ledger.
        """
        if self._sum is None:
            raise Refusal("out_of_order")
        step = COUNTED[request.step]
        ((name, declared),) = step.declared.items()
        form, context = WireFormat.of(declared, {}, {}), request.context(name)
        code = form.code(len(self.parties), context)
        words = self._sum.conceal(form.flattened(counts), code, context)
        header = dict[str, Any]()
        if self._is_masked:
            if self.party == self.parties[0]:
                veil(words, code, self._key_of_group(), context)
            header["checks"] = self._checks(request, {name: words})
        self._counted = step.name, _VeiledTotal(form, code, context)
        lines = ledger_lines(
            request, step, {}, self.protection, self.parties, self.party
        )
        return {name: words}, header, lines

    def open_counted(
        self, arrays: Mapping[str, Array], sealed: Mapping[str, bytes]
    ) -> tuple[str, Float[Array, " l"]]:
        """Return the name of a count of blocks and its total, once for each count."""
        if (counted := self._counted) is None:
            raise Refusal("out_of_order")
        (step, asked), self._counted = counted, None
        (name,) = COUNTED[step].declared
        return step, self._opened(asked, arrays[name], "wrong_total", sealed)

    def keys_for_matching(self) -> tuple[Mapping[str, bytes], bytes]:
        """Return the key shared with every peer, and the one that all parties share."""
        return self._keys, self._key_of_group()

    def check(self, request: Request) -> AskedStep:
        """Apply every rule that needs no arithmetic on rows; return what is to run."""
        step = find_step(request.step)
        if step.verb == "derived":
            raise Refusal("allowed_steps")
        self._neighbours.check(step, request, self._keys)
        view = self._views.of(request)
        # A silo may have no column of a part. It keeps and shows nothing, but reads
        # what the others read (`unpooled.party.memory.kept_arrays`).
        own = self.partition == "columns" and step.verb in ("kept", "disclosed")
        if not (view.columns or own):
            raise Refusal("unknown_columns")
        policy = self._policy
        policy.check_parties(len(self.parties))
        policy.check_step(step, request.to, self.protection, request.chosen)
        policy.check_limits(step, request.public)
        policy.check_alone(step, request.to, len(self.parties))
        if self.partition == "columns":
            policy.check_sum_over_columns(step)
        label = [self._table.label] if "y" in step.reads and self._table.label else []
        policy.check_columns([*view.source_columns, *label])
        if view.coded and {"X", "sums"} & set(step.reads):
            raise Refusal("categories")
        policy.check_rows(view.fewest_rows)
        if len(view.columns) > len(view.source_columns) and view.n_rows:
            # Already the sums of many drawn features show who is in the data.
            policy.check_width(len(view.columns), view.n_rows)
        for operation in request.operations:
            if isinstance(operation, Derive):
                policy.check_groups(operation)
        check_inputs(step, request.operations)
        policy.check_within_silos(step, view.within_silos)
        n_paired = max([len(view.columns), *_columns_of_all(step, request)])
        for declared in step.leaves.values():
            policy.check_features(declared, n_paired, view.n_rows)
        # On a column partition one silo has the label, for all.
        if "y" in step.reads and not label and self.partition == "rows":
            raise Refusal("unknown_columns")
        return AskedStep(request, step, view)

    def answer(self, asked: AskedStep, studies: Studies) -> Released:
        """Run a step that `check` accepted.

        Parameters
        ----------
        asked : AskedStep
            The step.
        studies : Studies
            The rules about the silo's earlier answers: of the leverage of single rows,
            before the step runs or by the scatter that it made, and of rows and parts
            of rows that are judged by themselves too.
        """
        if self._sum is None:
            raise Refusal("out_of_order")
        step, view = asked.step, asked.view
        assert isinstance(view, View), "matching of rows is no step"
        scatter, came = scatter_in(step, view), studies.rows_that_came(asked)
        if not scatter:
            studies.check_leverage(asked)
        request, public = self._open_arguments(asked.request)
        if isinstance(mean := public.get("mean"), np.ndarray):
            self._points[request.view_digest] = mean
        request, inbox = self._neighbours.open_inbox(step, request)
        n_rows = view.n_rows if self.partition == "columns" else None
        sizes = ViewSize(len(view.columns), n_rows).sizes(step, public)
        label = self._table.label
        if label is not None:
            self._counts.check_classes(step, lambda: view.class_sizes(label))
        # What is not finite is refused when it is encoded; a warning would be noise.
        weighted = None
        if step.weighs_rows and self._policy.max_leverage < 1.0:
            limit = self._policy.max_leverage
            weighted = WeightedRows(step, limit, view.columns)
        with np.errstate(all="ignore"):
            totals = self._run(step, view, request, inbox, public, weighted)
        self._counts.check(step, request.view_digest, public, totals)
        self._check_products_by_class(asked, public, totals, studies, came)
        if scatter:
            own = totals.get(scatter)
            point = self._points.get(request.view_digest)
            own = None if own is None else np.asarray(own, float)
            studies.check_leverage(asked, own, point)
        if weighted is not None:
            y = label if "y" in step.reads else None
            with np.errstate(all="ignore"):
                weighted.check(partial(run_again, step, view, y, public))
                for part in came:
                    judge = WeightedRows(step, self._policy.max_leverage)
                    again = partial(run_again, step, part, y, public)
                    for found in again():
                        judge.totals(found)
                    judge.check(again)
                # Sums over clusters are no sums over parts.
                if not step.groups and (parts := studies.cuts.parts(view)):
                    found = run_on_parts(step, view, y, public, parts)
                    check_parts(step, self._policy.max_leverage, found)
        self._marked, arrays = "", dict[str, Array]()
        header: dict[str, Any] = {"origins": self._views.origins.digest()}
        forms = {
            name: WireFormat.of(declared, sizes, public)
            for name, declared in step.declared.items()
        }
        if step.computation is not None:
            context = self._views.origins.bound(request.context(""))
            header["shares"] = self.computing.take(step, sizes, totals, context)
        else:
            if set(totals) - set(step.declared):
                raise Refusal("declaration")
            arrays = self._protected(self._sum, asked, request, forms, totals)
            if self._follows and step.verb == "summed" and self._is_masked:
                header["checks"] = self._checks(asked.request, arrays)
        self._view_arrays |= view_arrays(request.operations)
        lines = ledger_lines(
            request,
            step,
            sizes,
            self.protection,
            self.parties,
            self.party,
            self.roster.n_computing,
        )
        opened = opened_by(step, asked.request, sizes, self.parties, totals)
        leaves = {name: forms[name] for name in step.leaves}
        return Released(lines, arrays, header, leaves, opened, self._marked)

    def foresee(self, asked: AskedStep) -> None:
        """Refuse a planned step for the silo's own counts, as far as they are known.

        A step that counts before anything was fitted counts now what it will count in
        the fit; of others a plan has placeholders.
        """
        step, view, label = asked.step, asked.view, self._table.label
        if not isinstance(view, View):
            return
        if label is not None:
            self._counts.check_classes(step, lambda: view.class_sizes(label))
        counts = any(one.counts == "cells" for one in step.declared.values())
        if counts and not (step.takes or view.transforms):
            nothing = Inbox(self.party)
            totals = self._run(step, view, asked.request, nothing, {}, None)
            self._counts.check(step, asked.request.view_digest, {}, totals)

    def _check_products_by_class(
        self,
        asked: AskedStep,
        public: Mapping[str, Any],
        totals: Mapping[str, Any],
        studies: Studies,
        came: Sequence[View],
    ) -> None:
        """Refuse products of columns in a class that has few rows for them."""
        step, view, label = asked.step, asked.view, self._table.label
        assert isinstance(view, View), "matching of rows is no step"
        if not (sizes := self._counts.class_sizes(step, public)):
            return
        n_columns, own = len(view.columns), list[int]()
        if label is not None:
            own = [n for part in came for n, _ in part.class_sizes(label)]
        check_functions(functions_of(view), [*sizes, *own])
        check_drawn(self._policy, view, [*sizes, *own])
        if apart := self._counts.separates(step, public, totals, view.n_rows):
            for size in [*apart, *own]:
                self._policy.check_made(n_columns, int(size))
            for part in (view, *came):
                studies.check_classes(part)

    @property
    def _is_masked(self) -> bool:
        return self.protection == "masked"

    def _checks(self, request: Request, arrays: Mapping[str, Array]) -> dict[str, str]:
        """Return sealed sums of the words that leave, by which peers check totals."""
        checks, key = {}, self._key_of_group()
        for name, words in arrays.items():
            context = request.context(name)
            sums = check_sums(words, key, context)
            checks[name] = seal_sums(sums, key, self.party, context).hex()
        return checks

    def followed_by(self) -> dict[str, Any]:
        """Return the facts about the session that a program needs."""
        return {
            "parties": self.parties,
            "protection": self.protection,
            "party": self.party,
            "own_columns": self._views.own_columns,
            "seed": self.seed,
        }

    def answered_round(
        self, asked: AskedStep, released: Released, request_digest: str
    ) -> AnsweredRound:
        """Return a round that was answered, by which its totals are checked."""
        return AnsweredRound(
            request=asked.request,
            request_digest=request_digest,
            step=asked.step,
            forms=released.forms,
            parties=self.parties,
            roster=self.roster,
            protection=self.protection,
            key=self._group_key or b"",
        )

    def answered(self, asked: AskedStep) -> Answered:
        """Return the record of a request that was answered."""
        assert isinstance(asked.view, View), "matching of rows is no step"
        return asked.request.answered(
            len(asked.view.columns), self._pinned, self.protection
        )

    def _open_arguments(self, request: Request) -> tuple[Request, dict[str, Any]]:
        """Open veiled arguments; the request returned has the shapes of the totals."""
        public, described = dict(request.public), dict[str, Any]()
        for name, value in request.public.items():
            if isinstance(value, Veiled):
                veiled = self._veiled.get(value.release)
                if veiled is None:
                    raise Refusal("out_of_order")
                described[name] = replace(value, shape=veiled.form.shape)
                flat = self._opened(veiled, value.words, "arguments")
                public[name] = veiled.form.restored(flat)
            elif isinstance(value, np.ndarray) and not np.isfinite(value).all():
                raise Refusal("arguments")
        if described:
            request = replace(request, public={**request.public, **described})
        return request, public

    def _opened(
        self,
        total: _VeiledTotal,
        words: Array,
        rule: str,
        sealed: Mapping[str, bytes] | None = None,
    ) -> Float[Array, " d"]:
        """Return the numbers of a total that the parties alone open.

        Parameters
        ----------
        rule : str
            Under which other words than declared are refused.
        sealed : mapping of str to bytes, optional
            The sums by which the parties check it.
        """
        code = total.code if self._is_masked else None
        if (words.shape, words.dtype) != total.form.words(code):
            raise Refusal(rule)
        if code is None:
            return words
        key = self._key_of_group()
        if sealed is not None:
            if set(sealed) != set(self.parties):
                raise Refusal(rule)
            check_total(words, sealed, key, total.context)
        return unveil(words, code, key, total.context)

    def _run(
        self,
        step: Step,
        view: View,
        request: Request,
        inbox: Inbox,
        public: Mapping[str, Any],
        weighted: WeightedRows | None,
    ) -> dict[str, Array]:
        kept = self._views.kept_for(request)
        if step.reuses:
            cache = self._views.totals_cache
            return run_incrementally(step, view, request.view_digest, public, cache)
        label = self._table.label if "y" in step.reads else None
        inputs = {"kept": kept, "inbox": inbox, "party": self.party}
        inputs |= {"columns": view.columns, "coded": view.coded}
        if "dictionary" in step.reads:
            inputs["dictionary"] = view.dictionary
        return run_step(step, view, label, inputs, public, weighted)

    def _protected(
        self,
        secure_sum: SecureSum,
        asked: AskedStep,
        request: Request,
        forms: Mapping[str, WireFormat],
        totals: Mapping[str, Any],
    ) -> dict[str, Array]:
        """Keep the arrays that stay; return the others as they may leave the silo."""
        arrays: dict[str, Array] = {}
        for_neighbours: dict[str, Array] = {}
        for name, form in forms.items():
            if name not in totals:
                raise Refusal("declaration")
            declared, value = form.declared, form.checked(totals[name])
            if declared.noise is not None:
                honest = honest_shares(len(self.parties), self.protection)
                value = noised(value, declared, asked.rho, honest)
            if declared.kept:
                self._views.keep(request, name, value, declared)
                continue
            if asked.step.verb == "exchanged":
                for_neighbours[name] = value
            elif asked.step.verb == "disclosed":
                in_clear = PlainSum()
                arrays[name] = in_clear.conceal(
                    form.flattened(value), form.code(1), b""
                )
            else:
                arrays[name] = self._conceal(secure_sum, request, name, form, value)
            if request.to == "parties":
                context = request.context(name)
                code = form.code(len(self.parties), context)
                veiled = _VeiledTotal(form, code, context)
                self._veiled[request.veiled_name(name)] = veiled
        assert isinstance(asked.view, View), "matching of rows is no step"
        if self._marked and asked.view.source().has_infinite():
            # This is about the table alone, whatever the arguments are.
            raise DataError("Input X contains infinity.", rule="infinite_values")
        if for_neighbours:
            arrays |= self._neighbours.seal_for_neighbours(
                self._keys, request, for_neighbours, self._views.origins
            )
        return arrays

    def _conceal(
        self,
        secure_sum: SecureSum,
        request: Request,
        name: str,
        form: WireFormat,
        value: Float[Array, "..."],
    ) -> Array:
        """Return one array, encoded and masked; noise where a value has no code.

        A refusal would say of this silo alone that it has a value beyond a bound, which
        anybody could move up and down; so the total is made unreadable.
        """
        context, place = request.context(name), self.parties.index(self.party)
        code = form.code(len(self.parties), context, place)
        bound = self._views.origins.bound(context)
        try:
            words = secure_sum.conceal(form.flattened(value), code, bound)
        except AggregationError as beyond:
            if self.protection != "masked" or beyond.rule not in BOUNDS:
                raise
            self._marked = beyond.rule
            words = code.noise(form.n_numbers)
        veiled = request.to == "parties" and self.protection == "masked"
        if veiled and self.party == self.parties[0]:
            veil(words, code, self._key_of_group(), context)
        return words

    def _key_of_group(self) -> bytes:
        if self._group_key is None:
            raise Refusal("out_of_order")
        return self._group_key


def _columns_of_all(step: Step, request: Request) -> Iterator[int]:
    """Yield how many columns of all silos a release is over, where it says so."""
    for name, taken in step.takes.items():
        size = request.public.get(name)
        if taken.axes == "size q" and type(size) is int:
            yield size
