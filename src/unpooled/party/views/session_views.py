"""The views that a session reads: made once, and their transforms checked."""

from collections.abc import Mapping, Sequence
from typing import Any, final

from unpooled.arrays import Array
from unpooled.data.table import Table
from unpooled.party.memory.kept_arrays import (
    KeptArrays,
    KeptAs,
    KeptStore,
    Origins,
    shared_kept,
)
from unpooled.party.memory.partial_totals import TotalsCache
from unpooled.party.memory.study_memory import StudyMemory
from unpooled.party.views.view import FindCut, View, shared_by_all
from unpooled.protocol.declaration import Declared
from unpooled.protocol.message import digest
from unpooled.protocol.refusal import Refusal
from unpooled.protocol.request import Request
from unpooled.protocol.step import find_step
from unpooled.protocol.view_operations import Parts, split_address
from unpooled.protocol.widened_columns import KEPT_AS, widened_columns


@final
class SessionViews:
    """The views of a silo's table that the requests of one session read.

    Parameters
    ----------
    party : str
        This party's name.
    table : Table
        The silo's rows.
    study : StudyMemory
        The party's memory of the study between fits.
    partition : {"rows", "columns"}
        As the silo declared it.
    cut : callable
        Returns the blocks of a table's rows on a row partition.
    planned : bool
        Whether requests are those of a plan, for which nothing was fitted.

    Attributes
    ----------
    origins : Origins
        Origins of the kept arrays that the present step has read, in transforms too.
    """

    def __init__(
        self,
        party: str,
        table: Table,
        study: StudyMemory,
        partition: str,
        cut: FindCut,
        *,
        planned: bool,
    ) -> None:
        self.party, self.partition = party, partition
        self.origins = Origins()
        self._table, self._study, self._planned = table, study, planned
        self._cut = cut if partition == "rows" else shared_by_all
        self._of_fit = KeptStore()
        self._views: dict[str, View] = {}

    @property
    def totals_cache(self) -> TotalsCache:
        """Cached totals of steps that only read rows that were appended."""
        return self._study.totals_cache

    def own_columns(
        self, records: Sequence[Mapping[str, Any]]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the silo's columns, and those of them that hold categories.

        Parameters
        ----------
        records : sequence of mapping
            The operations of a view as they travel. On a column partition the columns
            are those behind them, which no other silo names.
        """
        columns, coded = self._table.columns, self._table.categorical
        if self.partition == "rows":
            return columns, coded
        parts = list[tuple[str, ...]]()
        for record in records:
            if record["operation"] == "select":
                known = set(columns)
                columns = tuple(name for name in record["columns"] if name in known)
            elif record["operation"] == "parts":
                columns, parts = Parts.read(record).of(columns, coded)
            elif record["operation"] == "derive":
                step, part = find_step(record["step"]), record.get("part", -1)
                read = made = columns if part < 0 else parts[part]
                if record.get("adds"):
                    own = set(columns).issuperset(record["of"])
                    added = tuple(record["columns"]) if own else ()
                    columns, made = (*columns, *added), (*read, *added)
                else:
                    if step.widens and read:
                        kept = self.kept(str(record.get("kept_of", "")))
                        n_made = kept[KEPT_AS[step.widens]].tolist()
                        pairs = widened_columns(step.widens, read, n_made)
                        made = tuple(name for name, _ in pairs)
                    columns = (*(n for n in columns if n not in set(read)), *made)
                    # An encoder makes numbers of categories.
                    if step.by_column not in ("missing", "indicator"):
                        coded = tuple(name for name in coded if name not in read)
                if part >= 0:
                    parts[part] = made
        return columns, tuple(name for name in columns if name in coded)

    def of(self, request: Request) -> View:
        """Return the view of a request."""
        key = request.view_digest
        if key not in self._views:
            try:
                self._views[key] = View(
                    self._table,
                    request.operations,
                    self.kept,
                    self.partition,
                    self._cut,
                    planned=self._planned,
                )
            except LookupError as unknown:
                raise Refusal("unknown_columns") from unknown
        return self._views[key]

    def kept(self, address: str) -> KeptArrays:
        """Return the arrays that this silo kept for a fit, of this or another study."""
        try:
            study, view = split_address(address)
        except ValueError as wrong:
            raise Refusal("nothing_kept") from wrong
        other = shared_kept(self.party, study)
        stores = [self._study.kept, *([] if other is None else [other])]
        return KeptArrays(view, stores, self.origins)

    def kept_for(self, request: Request) -> KeptArrays:
        """Return the `kept` of a request's step, which is to run now."""
        self.origins = Origins()
        if request.kept_of:
            return self.kept(request.kept_of)
        stores = (self._of_fit, self._study.kept)
        return KeptArrays(request.view_digest, stores, self.origins)

    def keep(
        self, request: Request, name: str, value: Array, declared: Declared
    ) -> None:
        """Keep an array to the end of the fit or of the study, as it is declared."""
        store = self._study.kept if declared.until == "study" else self._of_fit
        origin = digest(self.origins.bound(request.context(name)))
        store.put(
            request.view_digest,
            name,
            value,
            symmetric=declared.symmetric,
            origin=origin,
            about=KeptAs(
                request.step,
                declared.letters,
                self._views[request.view_digest].columns,
            ),
        )
