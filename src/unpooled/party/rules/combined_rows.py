"""Rows that sums over several sets of rows combine to: few, or one that is alone there.

    all rows - those with test 1 - those with test 2 + those with both
        = the rows that lack both tests

Any two of these sets may differ in many rows, and what three or four of them combine to
be about one person, or about a dozen of whom one alone has a flag. So a silo looks for
sums and differences of three or four sets that it answered about, and judges the rows
that they leave as it judges those by which two sets differ: there must be
`min_changed_rows` of them, and a request is answered that would be answered about these
rows alone (`unpooled.party.rules.changed_rows`).

Of versions of a table, rows that are gone are counted only. Sets of complete rows are
all of the present table, so that their rows are judged too.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final
from weakref import WeakKeyDictionary

import numpy as np

from unpooled.arrays import Array, Bool, Int
from unpooled.data.aligned_table import AlignedTable
from unpooled.data.filtered_table import complete_rows
from unpooled.data.table import Table
from unpooled.party.memory.audit_log import AuditLog
from unpooled.party.views.view import View
from unpooled.protocol.message import digest

# Columns that rows of a choice have a value in.
Choice = tuple[str, ...]
# The latest choices that are combined: there are n³ / 6 sets of three.
_MOST_CHOICES = 24


@final
@dataclass(frozen=True, eq=False)
class RowsAlone:
    """Rows that answers subtract or combine to: they are judged by themselves.

    Attributes
    ----------
    rows : AlignedTable
        These rows.
    n_columns : int
        Of how many columns there are sums over them.
    """

    rows: AlignedTable
    n_columns: int


@final
@dataclass(frozen=True, eq=False)
class _Combined:
    """Rows that sums over several choices combine to.

    Attributes
    ----------
    rows : AlignedTable
        These rows.
    answers : tuple of Choice
        The choices, in each way that they are combined to.
    """

    rows: AlignedTable
    answers: tuple[tuple[Choice, ...], ...]


@final
class CombinedRows:
    """The choices of complete rows that a silo answered about, and what they leave.

    Parameters
    ----------
    audit_log : AuditLog
        Has the choices.
    """

    def __init__(self, audit_log: AuditLog) -> None:
        self._audit_log = audit_log
        # By table and choices, the last of which is asked for.
        self._found = WeakKeyDictionary[
            Table, dict[tuple[Choice, ...], dict[str, _Combined]]
        ]()

    def tables(self, view: View, whole: Sequence[str]) -> dict[str, RowsAlone]:
        """Return the rows that sums over the view's and earlier choices combine to.

        Parameters
        ----------
        whole : sequence of str
            Names of the versions of the silo's table, before rows were left out.

        Returns
        -------
        dict of str to RowsAlone
            Those of three or four choices, by a name of these rows.
        """
        had, own = self._answered(view, whole), tuple(sorted(view.complete_in))
        earlier = [one for one in had if one != own]
        if len(earlier) < 2:
            return {}
        # All rows come first, and are part of most combinations.
        key = (earlier[0], *earlier[1:][1 - _MOST_CHOICES :], own)
        known = self._found.setdefault(view.whole, {})
        if key not in known:
            known[key] = _left(view.whole, key)
        every, found = set(view.source_columns), dict[str, RowsAlone]()
        for name, one in known[key].items():
            n_columns = len(view.columns)
            # The view's own choice may not have been answered about.
            if n_columns == len(every):
                n_columns = max(
                    len(every.intersection(*(had[c] for c in some if c in had)))
                    for some in one.answers
                )
            found[name] = RowsAlone(one.rows, n_columns)
        return found

    def _answered(self, view: View, whole: Sequence[str]) -> dict[Choice, set[str]]:
        """Return the choices of rows that were answered about, and of which columns.

        Of all rows there may be sums of any column.
        """
        state, found = self._audit_log.state(), dict[Choice, set[str]]()
        every = set(view.source_columns)
        if not state.tables.keys().isdisjoint(whole):
            found[()] = set(view.whole.columns)
        for note in state.notes["multiplied"]:
            choice = tuple(sorted(note.get("complete", ())))
            if choice and note["table"] in whole and every & set(note["columns"]):
                found.setdefault(choice, set()).update(note["columns"])
        return found


def _left(whole: Table, choices: Sequence[Choice]) -> dict[str, _Combined]:
    every = whole.source_rows(np.arange(whole.n_rows))
    sets = np.empty((whole.n_rows, len(choices)), np.int64)
    for j, choice in enumerate(choices):
        some = complete_rows(whole, choice) if choice else whole
        sets[:, j] = np.isin(every, some.source_rows(np.arange(some.n_rows)))
    kinds, kind = np.unique(sets, axis=0, return_inverse=True)
    found = dict[str, _Combined]()
    for support, ways in _smallest(kinds):
        rows = support[kind.ravel()]
        name = f"combined {digest(np.packbits(rows).tobytes())}"
        answers = tuple(tuple(choices[j] for j in way) for way in ways)
        found[name] = _Combined(AlignedTable(whole, np.flatnonzero(rows)), answers)
    return found


def combinations(
    sets: Int[Array, "q k"],
) -> Iterator[tuple[tuple[int, ...], Int[Array, " q"]]]:
    """Yield sums and differences of the last of some sets and of two or three more.

    Parameters
    ----------
    sets : (q, k) array
        How often each kind of row is in each set.

    Yields
    ------
    tuple of int, (q,) array of int
        The places of the sets, and how often each kind is in the combination.
    """
    last = sets.shape[1] - 1
    for n in (2, 3):
        for some in itertools.combinations(range(last), n):
            for signs in itertools.product((1, -1), repeat=n):
                of = zip(signs, some, strict=True)
                yield (*some, last), sets[:, last] + sum(s * sets[:, j] for s, j in of)


def fewest_left(sets: Int[Array, "q k"], sizes: Int[Array, " q"], least: int) -> int:
    """Return the fewest rows that are left of three or four sets, below a limit.

    Rows that come in and that go out of it are counted apart.

    Parameters
    ----------
    sets : (q, k) array
        How often each kind of row is in each set; the last is in all combinations.
    sizes : (q,) array
        Number of rows of each kind.
    least : int
        The limit; it is returned where no combination leaves fewer rows but none.

    Notes
    -----
    Kinds of so many rows must cancel. So combinations are found by what a random sum
    over these kinds has for each pair of sets, in a time that grows as k².
    """
    many = sizes >= least
    # Of two that happen to be equal the rows are counted all the same.
    weights = np.random.default_rng(0).integers(1, 2**40, int(many.sum()))
    hashes = (weights @ sets[many]).tolist()
    *others, last = range(sets.shape[1])
    # Sums of the last and one more, by what two others, or one, must cancel.
    wanted = defaultdict[int, list[tuple[int, int]]](list)
    for i in others:
        for sign in (1, -1):
            wanted[hashes[last] + sign * hashes[i]].append((i, sign))
    fewest = least
    for n in (1, 2):
        for some in itertools.combinations(others, n):
            for signs in itertools.product((1, -1), repeat=n):
                of = tuple(zip(some, signs, strict=True))
                rest = -sum(s * hashes[j] for j, s in of)
                for first in wanted.get(rest, ()):
                    if first[0] in some:
                        continue
                    own = sets[:, last] + sum(s * sets[:, j] for j, s in (first, *of))
                    left = max(own.clip(min=0) @ sizes, -own.clip(max=0) @ sizes)
                    fewest = min(fewest, int(left)) if left else fewest
    return fewest


def _smallest(
    sets: Int[Array, "q k"],
) -> list[tuple[Bool[Array, " q"], list[tuple[int, ...]]]]:
    """Return the kinds of rows that are left of three or four sets, and of no fewer.

    A row that is alone in more rows is so in fewer of them: those that contain others
    are left out, and so are those that one or two sets leave.
    """
    pairs = itertools.combinations(sets.T, 2)
    known = [one != 0 for one in sets.T] + [one != other for one, other in pairs]
    known = [one for one in known if one.any()]
    ways = defaultdict[bytes, list[tuple[int, ...]]](list)
    for way, own in combinations(sets):
        if own.any():
            ways[(own != 0).tobytes()].append(way)
    some = [(np.frombuffer(support, bool), way) for support, way in ways.items()]
    found = list[tuple[Bool[Array, " q"], list[tuple[int, ...]]]]()
    for support, way in sorted(some, key=lambda pair: int(pair[0].sum())):
        smaller = [*known, *(one for one, _ in found)]
        if not any((one <= support).all() for one in smaller):
            found.append((support, way))
    return found
