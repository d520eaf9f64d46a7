"""One study as a party remembers it between fits."""

from dataclasses import dataclass, field
from typing import final

from unpooled.ledger import Ledger
from unpooled.party.memory.audit_state import LoggedStudy
from unpooled.party.memory.kept_arrays import KeptStore
from unpooled.party.memory.partial_totals import TotalsCache


@final
@dataclass(eq=False)
class StudyMemory:
    """One study as a party remembers it between fits.

    Attributes
    ----------
    logged : LoggedStudy
        What the audit log says of it; grows with the log.
    kept : KeptStore
        Arrays that stay until the study ends.
    totals_cache : TotalsCache
        Totals that steps add to when rows were appended.
    ledger : Ledger
        The silo's own record of what crossed its door.
    forgotten : int
        How often the study had been forgotten when `kept` was begun.
    """

    logged: LoggedStudy = field(default_factory=LoggedStudy)
    kept: KeptStore = field(default_factory=KeptStore)
    totals_cache: TotalsCache = field(default_factory=TotalsCache)
    ledger: Ledger = field(default_factory=Ledger)
    forgotten: int = 0
