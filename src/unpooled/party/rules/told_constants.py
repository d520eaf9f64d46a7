"""Constant columns that a silo reported to a plan, to compare with other silos'.

A silo reports to a plan which of its columns are constant, and counts the report as a
refusal. Only these are compared with the other silos' values, by
`secure/comparison/equal_constants.py`, and only for the silos of that plan: they could
read them from the totals of the fit, to which this silo found no objection. Silos of
other plans could combine what they learn, so that a comparison is written to the
account as an answer to its roster is, before the shares leave.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

from unpooled.party.views.view import View
from unpooled.protocol.message import Message
from unpooled.protocol.refusal import Refusal
from unpooled.secure.comparison.equal_constants import ComparedConstants
from unpooled.secure.keys.agreement import offers_of
from unpooled.secure.keys.roster import Identity, Roster

# Studies whose plans are remembered.
_MOST_STUDIES = 64


@final
@dataclass(frozen=True)
class Told:
    """The constant columns that a silo reported to the plan of a study.

    Attributes
    ----------
    roster : Roster
        The silos of the plan.
    view : View
        Of the table.
    constants : dict of str to float
        The only value of each column.
    """

    roster: Roster
    view: View
    constants: dict[str, float]


@final
class ToldConstants:
    """A silo's end of the comparison of constant columns.

    Parameters
    ----------
    party : str
        The silo's name.
    identity : Identity
        Signs its offers.
    """

    def __init__(self, party: str, identity: Identity) -> None:
        self._party, self._identity = party, identity
        self._told = dict[str, Told]()
        self._begun = dict[tuple[str, str], ComparedConstants]()

    def tell(
        self, study: str, roster: Roster, view: View, constants: Mapping[str, float]
    ) -> None:
        """Keep a report to a plan until the study is planned with other silos.

        NaN for a column that is not compared.
        """
        before = self._told.pop(study, None)
        known = dict[str, float]()
        if before is not None and before.roster.digest() == roster.digest():
            known = before.constants
        known |= {c: value for c, value in constants.items() if not math.isnan(value)}
        self._told[study] = Told(roster, view, known)
        while len(self._told) > _MOST_STUDIES:
            del self._told[next(iter(self._told))]

    def told(self, study: str) -> Told:
        """Return the report to the last plan of a study; refuse if there is none."""
        if study not in self._told:
            raise Refusal("out_of_order")
        return self._told[study]

    def offer(self, study: str, session: str, roster: Roster) -> dict[str, Any]:
        """Begin a comparison, in place of one of the study that was begun before.

        Raises
        ------
        Refusal
            "out_of_order": no constant columns were reported to a plan of these silos.
        """
        if self.told(study).roster.digest() != roster.digest():
            raise Refusal("out_of_order")
        self._begun = {key: one for key, one in self._begun.items() if key[0] != study}
        begun = ComparedConstants(self._party, self._identity, roster, study, session)
        self._begun[study, session] = begun
        return {"kind": "offer", **begun.offer().as_header()}

    def share(self, study: str, session: str, message: Message) -> dict[str, Any]:
        """End a comparison with a share of each column that was reported.

        Raises
        ------
        Refusal
            "out_of_order" where it was not begun, or is over.
        AggregationError
            As `ComparedConstants.shares`.
        """
        begun, told = self._begun.pop((study, session), None), self.told(study)
        if begun is None:
            raise Refusal("out_of_order")
        columns = message.header["columns"]
        known = {c: told.constants[c] for c in columns if c in told.constants}
        shares = begun.shares(offers_of(message.header["offers"]), known)
        return {
            "kind": "compared",
            "shares": {column: share.hex() for column, share in shares.items()},
        }
