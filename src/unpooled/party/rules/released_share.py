"""How many numbers were opened about each column: a budget over all studies.

    a release of k numbers about q columns ──> k / q numbers about each of them
    numbers about a column, equal totals once ──> at most a share of its N cells

Totals are equations in the cells of the pooled table. With as many numbers as cells the
table can be solved for, whatever each of the totals is (Dinur and Nissim: from far
fewer, nearly). The budget is of columns and not of whole tables, so that columns that
nobody asks about make no room for others.

Answers about some blocks of rows are equations in the cells of these rows alone. So
products and sums with weights over a selection, and over selections within it, are at
most the same share of its own cells. Scores of a fold, which are counts for the most
part, are more numbers than that as a rule: they count for all rows alone.

N is that of all silos. A silo that does not know it takes its own rows, rounded down,
times the number of silos: for the smallest silo this is at most N, and no total is
opened without the smallest silo. Silos that follow a study find N in its totals, and
note it for their next study with the same silos; in one process, where nothing follows
unless asked to, the simulation gives it.

References
----------
Dinur and Nissim, Revealing information while preserving privacy, PODS 2003.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, final

from unpooled.party.rules.policy import Policy, rounded_down
from unpooled.protocol.opened_numbers import Opened
from unpooled.protocol.refusal import Refusal

# Beside a share that was written when N was known.
BEFORE_COUNTED = (
    "Until a study of the same silos has counted all rows, the cells are this silo's "
    "own rows times the number of silos: where other silos are larger, it refuses at a "
    "smaller share."
)
# The version of a table, and some of its blocks.
Part = tuple[str, frozenset[int]]


@final
class OpenedNumbers:
    """The numbers that were opened with a silo's part, over all studies.

    Attributes
    ----------
    total : float
        Numbers of totals, equal ones once; a sign is a bit, 1/64 of a number.
    people : int
        Numbers of releases with an entry for each person: `allow_row_level` governs
        them, and no share does.
    share : float
        Share of its cells of the column that most numbers are about, when last written.
    """

    def __init__(self) -> None:
        self.total, self.people, self.share = 0.0, 0, 0.0
        self._of_column: dict[str, float] = {}
        # Products over some blocks, by these and by column.
        self._of_parts: dict[Part, dict[str, float]] = {}
        self._questions: set[str] = set()
        self._forms: set[str] = set()
        # The columns of the last round, numbers about each of them that are not yet in
        # `_of_column`, and the most that it has of one of them. The rounds of a fit are
        # about the same columns: to count 200,000 of them one by one in every round
        # would take longer than the round.
        self._last: tuple[str, ...] = ()
        self._of_last, self._most = 0.0, 0.0

    @property
    def of_column(self) -> Mapping[str, float]:
        """Numbers of totals about each column, equal ones once."""
        self._turn_to(())
        return dict(self._of_column)

    def see(self, columns: Iterable[str], record: Mapping[str, Any]) -> None:
        """Take in a round's entry, as `record_of` made it."""
        if record["question"] in self._questions:
            return
        self._questions.add(record["question"])
        self._forms.add(record.get("form", ""))
        if columns := tuple(columns):
            self._turn_to(columns)
            self._of_last += record["numbers"] / len(columns)
        self.total += record["numbers"]
        self.people += record["people"]
        self.share = max(self.share, record["share"])
        if columns and (part := record.get("part")):
            own = self._of_parts.setdefault((part[0], frozenset(part[1])), {})
            for column in columns:
                more = record["numbers"] / len(columns)
                own[column] = own.get(column, 0.0) + more

    def has_form(self, form: str) -> bool:
        """Whether a question of a form was answered: `record["form"]` of a round."""
        return form in self._forms

    def share_of_parts(
        self,
        columns: Iterable[str],
        record: Mapping[str, Any],
        rows: Callable[[frozenset[int]], int],
    ) -> float:
        """Return the largest share of a column's cells in some blocks, likewise.

        Parameters
        ----------
        rows : callable
            Returns how many rows some blocks have.
        """
        columns = tuple(columns)
        if not columns or record["question"] in self._questions:
            return 0.0
        table, blocks = record["part"][0], frozenset(record["part"][1])
        more, largest = record["numbers"] / len(columns), 0.0
        known = {own: of for (name, own), of in self._of_parts.items() if name == table}
        for whole in {blocks, *known}:
            if blocks <= whole:
                within = [of for own, of in known.items() if own <= whole]
                most = max(sum(of.get(c, 0.0) for of in within) for c in columns)
                largest = max(largest, (most + more) / max(rows(whole), 1))
        return largest

    def share_with(
        self, columns: Iterable[str], record: Mapping[str, Any], n_rows: int
    ) -> float:
        """Return the largest share of a column's N cells, with one round more."""
        columns = tuple(columns)
        self._turn_to(columns)
        known = record["question"] in self._questions
        more = 0.0 if known else record["numbers"] / max(len(columns), 1)
        return (self._most + self._of_last + more) / max(n_rows, 1)

    def _turn_to(self, columns: tuple[str, ...]) -> None:
        """Settle the numbers about the last columns, unless these are the same."""
        if columns == self._last:
            return
        for column in self._last:
            self._of_column[column] = self._of_column.get(column, 0.0) + self._of_last
        self._last, self._of_last = columns, 0.0
        self._most = 0.0
        if self._of_column:
            found = (self._of_column.get(column, 0.0) for column in columns)
            self._most = max(found, default=0.0)


def record_of(opened: Opened, key: bytes) -> dict[str, Any]:
    """Return the log's record of a round, without its share.

    The question has the silo's own part in it, so that rows that changed make another
    one; its digest is under a key of the silo's, so that nobody can try parts out.
    """
    question = hashlib.blake2b(opened.question, digest_size=16, key=key).hexdigest()
    return {"numbers": opened.numbers, "people": opened.people, "question": question}


def check_share(policy: Policy, share: float, opened: Opened, table: str = "") -> None:
    """Refuse a round with which too many numbers would be opened about a column.

    Parameters
    ----------
    table : str, optional
        The version of the table, where the share is of all its rows. Then the verdicts
        about all columns and steps count as one refusal: N has few digits here, or
        everybody knows it, and how many numbers were opened is known to who opened
        them. Else each study that is repeated, or tried with fewer columns, would be
        another one, until the silo answers nothing.
    """
    if opened.numbers and share > policy.max_released_share:
        raise Refusal("max_released_share", about=["numbers", table] if table else None)


def pooled_rows(
    own: int, n_parties: int, partition: str, n_columns: int, known: int = 0
) -> int:
    """Return N for the budget, or what is certainly no more for the smallest silo.

    Parameters
    ----------
    own : int
        The silo's rows.
    n_parties : int
        Number of silos, of the pinned roster: a coordinator cannot invent any.
    partition : {"rows", "columns"}
        On a column partition all silos have the same people, and totals are about a
        column at least of each other silo too, as if one column had more rows.
    n_columns : int
        Number of the silo's columns that a round is about.
    known : int, default 0
        N, where the silo has verified an opened count; 0 where it has not.
    """
    if partition == "columns":
        return own * (n_columns + n_parties - 1) // max(n_columns, 1)
    # With more rows than all silos had, what it refuses at is a number of its own.
    return max(known, rounded_down(own)) if known else n_parties * rounded_down(own)
