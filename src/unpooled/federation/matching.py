"""Matching the rows of a column partition: whether it is needed, done, or planned.

`unpooled.coordinator.matching` has the rounds themselves.
"""

from collections.abc import Sequence
from dataclasses import replace

from unpooled.coordinator.coordinator import Coordinator
from unpooled.coordinator.matching import RowMatching, planned_lines
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.ledger import Release


def how_to_match(partition: str, ids: str | None, aligned: bool) -> str:
    """Return `Layout.matching` for a declared partition, column of ids and alignment.

    Parameters
    ----------
    partition : {"rows", "columns"}
        What differs between the parties.
    ids : str or None
        The column that identifies rows.
    aligned : bool
        Whether the tables were declared to have the same ids in the same order.

    Returns
    -------
    {"", "ids", "aligned"}
        Empty also for tables without ids: only their numbers of rows are compared.
    """
    if partition == "rows":
        if aligned:
            raise DataError(
                "aligned=True is for column partitions: silos with the same columns "
                "have different rows."
            )
        return ""
    if ids is None:
        return ""
    return "aligned" if aligned else "ids"


def agree_on_rows(federation: Federation) -> None:
    """Have the silos of a column partition agree on their common rows, if they must.

    Afterwards `n_rows` is the number of common rows, and every silo's table is those
    rows in the common order. Nothing happens where that was done, on row partitions,
    where tables have no ids, and in a plan.

    Parameters
    ----------
    federation : Federation
        Its layout is replaced.

    Raises
    ------
    DataError
        When ids are missing or occur twice, or none is common, or when tables that
        were declared to be aligned are not.
    """
    matching, coordinator = federation.layout.matching, federation.coordinator
    if not matching or not isinstance(coordinator, Coordinator):
        return
    with federation.fitting():
        rows = RowMatching(coordinator)
        n_rows = rows.check() if matching == "aligned" else rows.match()
    federation.layout = federation.layout.matched(n_rows)


def with_matching(
    federation: Federation, lines: Sequence[Release]
) -> tuple[Release, ...]:
    """Return planned lines after those of matching, where that is still to be done.

    The number of common rows is not known yet: the lines are of the most there can be.
    """
    first = planned_lines(
        federation.layout.matching,
        federation.layout.n_rows or 0,
        federation.coordinator.study,
        federation.parties,
    )
    rounds = first[-1].round if first else 0
    return (*first, *(replace(line, round=line.round + rounds) for line in lines))
