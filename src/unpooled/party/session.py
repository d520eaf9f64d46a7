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
from unpooled.party.classes import by_class, class_sizes
from unpooled.party.computing import Computing
from unpooled.party.memory import KeptArrays, Shelf, Study
from unpooled.party.packing import declared_array, flattened, restored
from unpooled.party.policy import Policy, Refusal
from unpooled.party.request import (
    Request,
    Veiled,
    code_for,
    ledger_lines,
    view_arrays,
)
from unpooled.party.step import Declared, Step, find_step
from unpooled.party.view import View
from unpooled.secure.agreement import Agreement, new_group_key, open_sealed, seal_for
from unpooled.secure.fixed_point import Code
from unpooled.secure.masking import MaskedSum, unveil, veil
from unpooled.secure.plain import PlainSum
from unpooled.secure.protocol import SecureSum


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
    study : Study
        What is remembered between fits.
    agreement : Agreement
        This party's side of the key agreement.
    parties : tuple of str
        The roster of the session, sorted.
    protection : {"masked", "plain"}
        How totals are protected.
    """

    def __init__(
        self,
        party: str,
        table: Table,
        policy: Policy,
        study: Study,
        agreement: Agreement,
        parties: tuple[str, ...],
        protection: str,
    ) -> None:
        self.party, self.parties, self.protection = party, parties, protection
        self._table, self._policy, self._study = table, policy, study
        self._agreement = agreement
        self._keys: dict[str, bytes] = {}
        # None until the keys are agreed: before that nothing may leave.
        self._sum: SecureSum | None = None
        self._group_key: bytes | None = None
        self._computing: Computing | None = None
        self._kept = Shelf()
        self._shares: dict[str, float] = {}
        self._view_arrays: dict[str, Array] = {}
        self._views: dict[str, View] = {}
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
    def computing(self) -> Computing:
        """The party's part in secure comparisons."""
        if not self._keys:
            raise Refusal("out_of_order")
        if self._computing is None:
            self._computing = Computing(self.party, self.parties, self._keys)
        return self._computing

    def proceed(self) -> None:
        """Let go what waited until the round was written down."""
        if self._computing is not None:
            self._computing.proceed()

    def close(self) -> None:
        """End what the session has running."""
        if self._computing is not None:
            self._computing.close()

    def check(self, request: Request) -> tuple[Step, View]:
        """Apply every rule that needs no arithmetic on rows."""
        step = find_step(request.step)
        if step.verb == "derived":
            raise Refusal("allowed_steps")
        view = self._view(request)
        policy = self._policy
        policy.check_parties(len(self.parties))
        policy.check_step(step, step.verb)
        label = [self._table.label] if "y" in step.reads and self._table.label else []
        policy.check_columns([*view.source_columns, *label])
        policy.check_rows(view.n_rows, view.left_out)
        for declared in step.leaves.values():
            policy.check_features(declared, len(view.columns), view.n_rows)
        if "y" in step.reads and not label:
            raise Refusal("unknown_columns")
        return step, view

    def answer(
        self, request: Request
    ) -> tuple[list[tuple[Release, str]], dict[str, Array]]:
        """Run a step; return its ledger lines and what may leave, by name."""
        if self._sum is None:
            raise Refusal("out_of_order")
        step, view = self.check(request)
        self._check_transforms(request, view)
        public, request = self._public(request)
        sizes = step.sizes(len(view.columns), public)
        self._check_classes(step, view)
        # What is not finite is refused when it is encoded; a warning would be noise.
        with np.errstate(all="ignore"):
            totals = self._run(step, view, request, public)
        arrays = {}
        if step.polynomial is not None:
            self._compare(step, sizes, totals)
            lines = ledger_lines(request, step, sizes, self.protection, self.parties)
            self._view_arrays |= view_arrays(request.operations)
            return lines, {}
        for name, declared in step.declared.items():
            shape = declared.shape(sizes)
            value = declared_array(totals, name, declared, shape)
            if declared.kept:
                self._keep(request, name, declared, value)
            else:
                arrays[name] = self._conceal(
                    self._sum, step, request, name, value, public
                )
            if request.to == "parties" and not declared.kept:
                self._opened[request.round, name] = _Opened(
                    declared,
                    code_for(
                        declared, len(self.parties), public, request.context(name)
                    ),
                    shape,
                    request.context(name),
                    dict(public),
                )
        if set(totals) != set(step.declared):
            raise Refusal("declaration")
        self._view_arrays |= view_arrays(request.operations)
        lines = ledger_lines(request, step, sizes, self.protection, self.parties)
        return lines, arrays

    def _compare(
        self, step: Step, sizes: Mapping[str, int], totals: Mapping[str, Array]
    ) -> None:
        polynomial, (declared,) = step.polynomial, step.declared.values()
        if polynomial is None or set(totals) != set(polynomial.names):
            raise Refusal("declaration")
        shape = declared.shape(sizes)
        checked = {
            name: declared_array(totals, name, declared, shape) for name in totals
        }
        self.computing.take(polynomial, checked)

    def _view(self, request: Request) -> View:
        key = request.view_digest()
        if key not in self._views:
            try:
                self._views[key] = View(self._table, request.operations)
            except LookupError as unknown:
                raise Refusal("unknown_columns") from unknown
        return self._views[key]

    def _check_transforms(self, request: Request, view: View) -> None:
        before: tuple[str, ...] = ()
        for name in view.transforms:
            transform = find_step(name)
            # One that needs no fitting is held to the dominance rule below alone.
            fitted = not transform.fitted_by or any(
                (step, before) in self._study.fitted for step in transform.fitted_by
            )
            if transform.verb != "derived" or not (
                fitted or self._policy.lists_step(name)
            ):
                raise Refusal("transform_not_fitted")
            before += (name,)
        if view.transforms and self._policy.max_row_share < 1.0:
            key = request.view_digest()
            if key not in self._shares:
                self._shares[key] = self._made_share(view)
            self._policy.check_dominance(self._shares[key])

    def _made_share(self, view: View) -> float:
        """Return the dominance that the transforms made, 0 where the data had it.

        Rare categories and heavy tails give a source column a dominant row too; what a
        transform may not do is to go beyond that, which is how a made-up column turns a
        covariance into one person's record.
        """
        share = view.largest_row_share()
        if share <= self._policy.max_row_share:
            return share
        natural = view.source().largest_row_share()
        return share if share > natural * (1.0 + 1e-9) else 0.0

    def _check_classes(self, step: Step, view: View) -> None:
        if by_class(step) and self._table.label is not None:
            self._policy.check_classes(class_sizes(view, self._table.label))

    def _public(self, request: Request) -> tuple[dict[str, Any], Request]:
        """Open veiled arguments; the request returned knows their shapes."""
        public, shown = dict(request.public), dict(request.public)
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
        return public, replace(request, public=shown)

    def _run(
        self, step: Step, view: View, request: Request, public: Mapping[str, Any]
    ) -> dict[str, Array]:
        inputs: dict[str, Any] = {}
        if "kept" in step.reads:
            inputs["kept"] = KeptArrays(
                request.view_digest(), (self._kept, self._study.kept)
            )
        if not {"X", "y"} & set(step.reads):
            return dict(step(**inputs, **public))
        label = self._table.label if "y" in step.reads else None
        blocks = view.blocks([] if label is None else [label])
        if step.by == "party":
            parts = list(blocks)
            inputs["X"] = np.concatenate([part.X for part in parts])
            if label is not None:
                inputs["y"] = np.concatenate([part.extra[label] for part in parts])
            return dict(step(**_read(step, inputs), **public))
        totals: dict[str, Array] = {}
        for number, block in enumerate(blocks):
            inputs["X"] = block.X
            if label is not None:
                inputs["y"] = block.extra[label]
            for name, value in step(**_read(step, inputs), **public).items():
                # The first block's arrays may be views of the silo's rows.
                if number == 0:
                    totals[name] = value
                elif number == 1:
                    # A sum of numbers is a scalar, which nothing can be added into.
                    totals[name] = np.asarray(np.add(totals[name], value))
                else:
                    totals[name] = np.add(totals[name], value, out=totals[name])
        return totals

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
        words = total.conceal(flat, code, context)
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

    def _keep(
        self, request: Request, name: str, declared: Declared, value: Array
    ) -> None:
        where = self._study.kept if declared.until == "study" else self._kept
        where.put(request.view_digest(), name, value, symmetric=declared.symmetric)


def _read(step: Step, inputs: Mapping[str, Any]) -> dict[str, Any]:
    return {name: inputs[name] for name in step.reads}
