"""How a silo's missing cells were filled before: two fillings subtract to rows.

    products with a filled column = those of the cells that are there
                                    + the filling × the rows whose cell is missing

So two numbers, fitted on two splits or chosen, give the sum of those rows: a person's
own row where one cell is missing. A silo fills the same few cells in one way only: with
what a fit gave within a study, and with one chosen number ever.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, final
from weakref import WeakKeyDictionary

import numpy as np

from unpooled.party.memory.audit_log import AuditLog
from unpooled.party.rules.policy import Policy
from unpooled.party.views.view import CHOSEN, View
from unpooled.protocol.refusal import Refusal

_KIND = "filled"
# By column: how it is filled, a digest of the cells before, and how many are missing.
Found = Mapping[str, list[Any]]


@final
class ImputedCells:
    """The fillings that a silo answered about.

    Parameters
    ----------
    key : bytes
        Of the digests of cells, the same after a restart.
    audit_log : AuditLog
        Keeps them.
    """

    def __init__(self, key: bytes, audit_log: AuditLog) -> None:
        self._key, self._audit_log = key, audit_log
        self._found: WeakKeyDictionary[View, dict[str, Any]] = WeakKeyDictionary()

    def check(self, policy: Policy, view: View, study: str) -> None:
        """Refuse to fill few cells otherwise than before."""
        if policy.min_rows <= 1 or not (now := self._note_of(view)):
            return
        for earlier in self._audit_log.notes(_KIND):
            if earlier["rows"] != now["rows"]:
                continue
            for column, (how, cells, missing) in now["columns"].items():
                before = earlier["columns"].get(column, [how, cells])
                # Other cells are other data: the table has changed.
                if before[0] == how or before[1] != cells or missing >= policy.min_rows:
                    continue
                # In another study a mean differs where another silo's rows changed.
                if earlier["study"] == study or CHOSEN in how + before[0]:
                    raise Refusal("another_filling")

    def record(self, policy: Policy, view: View, study: str) -> None:
        """Remember how an answer was filled."""
        if policy.min_rows <= 1 or not (now := self._note_of(view)):
            return
        self._audit_log.note(_KIND, {**now, "study": study})

    def _note_of(self, view: View) -> dict[str, Any]:
        if view not in self._found:
            columns = self._columns(view)
            rows = hashlib.sha256(np.packbits(view.rows()).data).hexdigest()
            note = {"rows": rows if view.left_out else "all", "columns": columns}
            self._found[view] = note if columns else {}
        return self._found[view]

    def _columns(self, view: View) -> Found:
        fillings = view.fillings()
        if not fillings:
            return {}
        source = view.source()
        missing = np.zeros(len(source.columns), int)
        digests = [hashlib.blake2b(digest_size=16, key=self._key) for _ in missing]
        for block in source.blocks():
            missing += np.isnan(block.X).sum(axis=0)
            for column, found in zip(block.X.T, digests, strict=True):
                # One form for zero and one for cells that are missing.
                found.update(np.where(np.isnan(column), np.nan, column + 0.0).tobytes())
        return {
            column: [fillings[column], found.hexdigest(), int(number)]
            for column, found, number in zip(
                source.columns, digests, missing, strict=True
            )
            if number and column in fillings
        }
