"""The columns of a study over rows: the same names at every party, in one order."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from unpooled.data.columns import listing
from unpooled.errors import DataError


def agree_on_columns(columns_by_party: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return the columns of a row-partitioned study, in the first party's order.

    Parameters
    ----------
    columns_by_party : mapping of str to a sequence of str
        Feature columns of every party, each in its own order.

    Raises
    ------
    DataError
        When the parties' columns are not the same set. Columns are missing or extra in
        comparison with those of most parties, or of the first party where exactly half
        have a column.
    """
    if not columns_by_party:
        raise DataError("There are no parties. Name at least one with its columns.")
    first = tuple(next(iter(columns_by_party.values())))
    alike = all(tuple(columns) == first for columns in columns_by_party.values())
    if alike and len(set(first)) == len(first):
        return first
    for party, columns in columns_by_party.items():
        if len(set(columns)) < len(columns):
            repeated = [name for name, k in Counter(columns).items() if k > 1]
            raise DataError(
                f"{party} has repeated columns: {listing(repeated)}. Rename or drop "
                f"them."
            )
    expected = _expected(first, columns_by_party)
    wrong = []
    for party, columns in columns_by_party.items():
        present = set(columns)
        missing = [name for name in expected if name not in present]
        extra = [name for name in columns if name not in expected]
        parts = [f"missing {listing(missing)}"] * bool(missing)
        parts += [f"extra {listing(extra)}"] * bool(extra)
        wrong += [f"{party}: {', '.join(parts)}"] * bool(parts)
    if wrong:
        raise DataError(
            f"The parties' columns differ. {'; '.join(wrong)}. Rename them in the "
            f"silos so that they match, or study only the columns common to all: "
            f"{listing(_shared(first, columns_by_party)) or 'there are none'}.",
            rule="unknown_columns",
        )
    return first


def agree_on_categorical(
    columns: Sequence[str], categorical_of: Mapping[str, Collection[str]]
) -> tuple[str, ...]:
    """Return which of the studied columns hold categories, the same at every party.

    Parameters
    ----------
    columns : sequence of str
        The columns studied.
    categorical_of : mapping of str to a collection of str
        The columns of categories of every party.

    Raises
    ------
    DataError
        Where a column holds categories at some parties and numbers at others.
    """
    somewhere = set().union(*categorical_of.values())
    if not somewhere:
        return ()
    for name in columns:
        without = [party for party, own in categorical_of.items() if name not in own]
        if name in somewhere and without:
            raise DataError(
                f"Column {name!r} holds categories at some parties, and numbers at "
                f"{listing(without)}. Name it as one of categories at all of them "
                f"(categorical), or leave it out.",
                rule="unknown_columns",
            )
    return tuple(name for name in columns if name in somewhere)


def _expected(
    first: Sequence[str], columns_by_party: Mapping[str, Sequence[str]]
) -> dict[str, None]:
    """Return the columns of most parties, in order of appearance."""
    m = len(columns_by_party)
    times = Counter(n for columns in columns_by_party.values() for n in columns)
    ties = set(first)
    return {
        name: None
        for name, k in times.items()
        if 2 * k > m or (2 * k == m and name in ties)
    }


def _shared(
    first: Sequence[str], columns_by_party: Mapping[str, Sequence[str]]
) -> list[str]:
    shared = set(first).intersection(*columns_by_party.values())
    return [name for name in first if name in shared]
