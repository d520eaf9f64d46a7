"""Rounds that exchanged the same arrays, in one row: a search has hundreds."""

from collections.abc import Iterable, Sequence
from itertools import groupby

from unpooled.ledger.lines import Release

# With more runs of equal rounds than this, equal rounds are one group wherever they
# stand.
_MANY = 12

Round = Sequence[Release]


def equal_rounds(lines: Iterable[Release]) -> list[list[Round]]:
    """Return lines by round, and rounds in groups that exchanged the same arrays.

    Parameters
    ----------
    lines : iterable of Release
        Lines of a ledger or a plan, in its order.

    Returns
    -------
    list of list of rounds
        Each group in the order of its first round. Rounds that follow one another are
        grouped; where many kinds of rounds alternate, so are those that do not.
    """
    by_round = groupby(lines, key=lambda line: (line.study, line.round))
    rounds: list[Round] = [list(one) for _, one in by_round]
    runs = [list(run) for _, run in groupby(rounds, key=_content)]
    if len(runs) <= _MANY:
        return runs
    equal: dict[tuple[object, ...], list[Round]] = {}
    for run in runs:
        equal.setdefault(_content(run[0]), []).extend(run)
    return list(equal.values())


def rounds_label(numbers: Sequence[int]) -> str:
    """Return "Round 3", "Rounds 3 to 7", or "Rounds 3 to 7, 3 of them"."""
    one = numbers[0] == numbers[-1]
    return f"{'Round' if one else 'Rounds'} {round_numbers(numbers)}"


def round_numbers(numbers: Sequence[int]) -> str:
    """Return "3", "3 to 7", or "3 to 7, 3 of them"."""
    first, last, n = numbers[0], numbers[-1], len(set(numbers))
    count = f", {n} of them" * (last - first >= n > 1)
    return (f"{first}" if first == last else f"{first} to {last}") + count


def _content(lines: Round) -> tuple[object, ...]:
    """Return the arrays that a round exchanged, apart from numbers and time."""
    names = "step name shape dtype bytes visibility direction parties peers".split()
    return tuple(tuple(getattr(line, name) for name in names) for line in lines)
