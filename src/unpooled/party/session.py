"""One fit, as a party sees it: keys of its own, rounds in order, each answered once.

request ─> rules ─> rows, block by block ─> rules again ─> code ─> masks ─> seals
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.data.table import Table
from unpooled.ledger import Release
from unpooled.party.memory.study_memory import StudyMemory
from unpooled.party.rules.class_sizes import by_class, class_sizes
from unpooled.party.rules.policy import Policy
from unpooled.party.steps.incremental import run_incrementally
from unpooled.party.steps.neighbours import Neighbours
from unpooled.party.steps.private_noise import check_inputs, cost, honest_shares, noised
from unpooled.party.steps.run_step import run_step
from unpooled.party.views.session_views import SessionViews
from unpooled.party.views.view import View
from unpooled.protocol.answered import Answered
from unpooled.protocol.computing_party import ComputingParty
from unpooled.protocol.ledger_lines import code_for, ledger_lines
from unpooled.protocol.neighbour_messages import Inbox
from unpooled.protocol.packing import declared_array, flattened, restored
from unpooled.protocol.refusal import Refusal
from unpooled.protocol.request import Request, Veiled, view_arrays
from unpooled.protocol.sizes import ViewSize
from unpooled.protocol.step import Declared, Step, find_step
from unpooled.secure.comparison.relayed_streams import Carry
from unpooled.secure.keys.agreement import (
    Agreement,
    new_group_key,
    open_sealed,
    seal_for,
)
from unpooled.secure.keys.roster import Roster
from unpooled.secure.sums.fixed_point import Code
from unpooled.secure.sums.masking import MaskedSum, unveil, veil
from unpooled.secure.sums.plain import PlainSum
from unpooled.secure.sums.secure_sum import SecureSum


@final
@dataclass(frozen=True, eq=False)
class _Opened:
    """How a party opens a veiled total of an earlier round."""

    declared: Declared
    code: Code
    shape: tuple[int, ...]
    context: bytes
    public: Mapping[str, Any]


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
        What is remembered between fits.
    agreement : Agreement
        This party's side of the key agreement.
    parties : tuple of str
        The roster of the session, sorted.
    protection : {"masked", "plain"}
        How totals are protected.
    roster : Roster
        The keys that the silo pins.
    partition : {"rows", "columns"}, default "rows"
        As the silo declared it.
    carry : callable, optional
        Hands a message of secure comparisons for a peer to the relay.
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
    ) -> None:
        self.party, self.parties, self.protection = party, parties, protection
        self.partition, self._roster, self._carry = partition, roster, carry
        self._table, self._policy = table, policy
        who = party, roster.part(parties).committee
        self._views = SessionViews(*who, table, policy, study, partition)
        self._agreement, self._neighbours = agreement, Neighbours(party, parties)
        self._keys: dict[str, bytes] = {}
        # None until the keys are agreed: before that nothing may leave.
        self._sum: SecureSum | None = None
        self._group_key: bytes | None = None
        self._computing: ComputingParty | None = None
        self._view_arrays: dict[str, Array] = {}
        self._opened: dict[tuple[int, str], _Opened] = {}

    @property
    def known_arrays(self) -> Mapping[str, Array]:
        """Arrays of transforms that came with earlier requests, by `array_key`."""
        return self._view_arrays

    def agree(self, offers: Mapping[str, tuple[bytes, bytes]]) -> None:
        """Derive the keys of the session from every party's signed offer."""
        self._keys = self._agreement.agree(offers)
        masked = self.protection == "masked"
        self._sum = MaskedSum(self.party, self._keys) if masked else PlainSum()
        who = self.party, self.parties, self._roster.part(self.parties).committee
        self._computing = ComputingParty(*who, self._keys, self._carry)

    def offer_group_key(self) -> dict[str, bytes]:
        """Make the key of totals for the parties alone, sealed for each peer."""
        self._group_key = new_group_key()
        return {
            peer: seal_for(key, self._group_key) for peer, key in self._keys.items()
        }

    def accept_group_key(self, leader: str, sealed: bytes) -> None:
        """Take the group key that the leader sealed for this party."""
        if leader not in self._keys:
            raise Refusal("wrong_roster")
        self._group_key = open_sealed(self._keys[leader], sealed)

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
        """Let go what waited until the round, of this digest, was written down."""
        if self._computing is not None:
            self._computing.proceed(request)

    def close(self) -> None:
        """End what the session has running."""
        if self._computing is not None:
            self._computing.close()

    def keys_for_matching(self) -> tuple[Mapping[str, bytes], bytes]:
        """Return the key shared with every peer, and the one that all parties share."""
        return self._keys, self._key_of_group()

    def check(self, request: Request) -> tuple[Step, View]:
        """Apply every rule that needs no arithmetic on rows."""
        step = find_step(request.step)
        if step.verb == "derived":
            raise Refusal("allowed_steps")
        self._neighbours.check(step, request)
        view = self._views.of(request)
        policy = self._policy
        policy.check_parties(len(self.parties))
        policy.check_step(step, request.to, self.protection, request.chosen)
        label = [self._table.label] if "y" in step.reads and self._table.label else []
        policy.check_columns([*view.source_columns, *label])
        policy.check_rows(view.n_rows, view.left_out)
        check_inputs(step, request.operations)
        for declared in step.leaves.values():
            policy.check_features(declared, len(view.columns), view.n_rows)
        # On a column partition one silo has the label, for all.
        if "y" in step.reads and not label and self.partition == "rows":
            raise Refusal("unknown_columns")
        return step, view

    def answer(
        self, request: Request
    ) -> tuple[list[tuple[Release, str]], dict[str, Array], dict[str, Any]]:
        """Run a step; return its ledger lines, what may leave, and what else to say."""
        if self._sum is None:
            raise Refusal("out_of_order")
        step, view = self.check(request)
        self._views.check_transforms(request, view)
        public, request = self._public(request)
        inbox, request = self._neighbours.heard(step, request)
        n_rows = view.n_rows if self.partition == "columns" else None
        sizes = ViewSize(len(view.columns), n_rows).sizes(step, public)
        if by_class(step) and self._table.label is not None:
            self._policy.check_classes(class_sizes(view, self._table.label))
        # What is not finite is refused when it is encoded; a warning would be noise.
        with np.errstate(all="ignore"):
            totals = self._totals(step, view, request, inbox, public)
        arrays = dict[str, Array]()
        more: dict[str, Any] = {"origins": self._views.origins.digest()}
        if step.polynomial is not None:
            context = self._views.origins.bound(request.context(""))
            more["shares"] = self.computing.take(step, sizes, totals, context)
        else:
            arrays = self._parted(self._sum, step, request, sizes, totals, public)
        self._view_arrays |= view_arrays(request.operations)
        how = (self.protection, self.parties, self.party)
        return ledger_lines(request, step, sizes, *how), arrays, more

    def _parted(
        self,
        total: SecureSum,
        step: Step,
        request: Request,
        sizes: Mapping[str, int],
        totals: Mapping[str, Any],
        public: Mapping[str, Any],
    ) -> dict[str, Array]:
        """Keep what stays, and return what may leave."""
        arrays, shares = {}, honest_shares(len(self.parties), self.protection)
        own: dict[str, Array] = {}
        for name, declared in step.declared.items():
            shape = declared.shape(sizes)
            value = declared_array(totals, name, declared, shape)
            if declared.noise is not None:
                value = noised(value, declared, cost(step, public), shares)
            if declared.kept:
                how = {"value": value, "symmetric": declared.symmetric}
                self._views.keep(request, declared.until, name, **how)
            elif step.verb == "exchanged":
                own[name] = value
            else:
                arrays[name] = self._conceal(total, step, request, name, value, public)
            if request.to == "parties" and not declared.kept:
                context, n_parties = request.context(name), len(self.parties)
                code = code_for(declared, n_parties, public, context)
                what = _Opened(declared, code, shape, context, dict(public))
                self._opened[request.round, name] = what
        if set(totals) != set(step.declared):
            raise Refusal("declaration")
        if own:
            origins = self._views.origins
            arrays |= self._neighbours.told(self._keys, request, own, origins)
        return arrays

    def _totals(
        self,
        step: Step,
        view: View,
        request: Request,
        inbox: Inbox,
        public: Mapping[str, Any],
    ) -> dict[str, Array]:
        kept = self._views.kept_for(request)
        if step.reuses:
            known = self._views.reused
            return run_incrementally(step, view, request.view_digest(), public, known)
        label = self._table.label if "y" in step.reads else None
        own = {"kept": kept, "inbox": inbox, "party": self.party}
        return run_step(step, view, label, own, public)

    def answered(self, request: Request, view: View) -> Answered:
        """Return what to remember of a request that was answered."""
        keys = {party: self._roster[party].hex() for party in self.parties}
        return request.answered(len(view.columns), keys, self.protection)

    def _public(self, request: Request) -> tuple[dict[str, Any], Request]:
        """Open veiled arguments; the request returned knows their shapes."""
        public, shown = dict(request.public), dict[str, Any]()
        for name, value in request.public.items():
            if isinstance(value, Veiled):
                how = self._opened.get((value.round, value.name))
                if how is None:
                    raise Refusal("out_of_order")
                shown[name] = replace(value, shape=how.shape)
                units = self._unveiled(value, how)
                public[name] = restored(units, how.declared, how.shape, how.public)
            elif isinstance(value, np.ndarray) and not np.isfinite(value).all():
                raise Refusal("arguments")
        if shown:
            request = replace(request, public={**request.public, **shown})
        return public, request

    def _conceal(
        self,
        total: SecureSum,
        step: Step,
        request: Request,
        name: str,
        value: Float[Array, "..."],
        public: Mapping[str, Any],
    ) -> Array:
        declared = step.declared[name]
        flat = flattened(value, declared, public)
        if step.verb == "disclosed":
            return PlainSum().conceal(flat, code_for(declared, 1), b"")
        context, place = request.context(name), self.parties.index(self.party)
        code = code_for(declared, len(self.parties), public, context, place)
        words = total.conceal(flat, code, self._views.origins.bound(context))
        veiled = request.to == "parties" and self.protection == "masked"
        if veiled and self.party == self.parties[0]:
            veil(words, code, self._key_of_group(), context)
        return words

    def _unveiled(self, total: Veiled, how: _Opened) -> Float[Array, " d"]:
        numbers = how.declared.numbers(how.shape)
        if self.protection == "plain":
            shape, kind = (numbers,), "float64"
        else:
            shape, kind = how.code.shape(numbers), how.code.word
        if total.words.shape != shape or total.words.dtype != kind:
            raise Refusal("arguments")
        if self.protection == "plain":
            return total.words
        return unveil(total.words, how.code, self._key_of_group(), how.context)

    def _key_of_group(self) -> bytes:
        if self._group_key is None:
            raise Refusal("out_of_order")
        return self._group_key
