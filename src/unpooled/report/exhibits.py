"""Tables of a report, and numbers as people write them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True)
class Table:
    """A table: the first cell of each row names it.

    Attributes
    ----------
    caption : str
        What the table shows.
    head : sequence of str
        Names of the columns.
    rows : sequence of sequence of str
        Cells as they are shown.
    note : str
        What was left out, and why.
    total : bool
        Whether the last row adds up the others.
    words : int
        How many columns, from the left, hold words rather than numbers.
    """

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    total: bool = False
    words: int = 1


def number(x: float) -> str:
    """Return a measured number with four significant digits."""
    if not math.isfinite(x):
        return "none" if math.isnan(x) else str(x)
    if x == 0:
        return "0"
    exponent = math.floor(math.log10(abs(x)))
    if -4 <= exponent < 6:
        text = f"{x:,.{max(3 - exponent, 0)}f}"
    else:
        mantissa, _, power = f"{x:.3e}".partition("e")
        text = f"{mantissa} × 10{str(int(power)).translate(_RAISED)}"
    return text.replace("-", "−")


def probability(p: float) -> str:
    """Return a p-value with two significant digits, which are all that it has."""
    if not 0 < p < 1:
        return number(p)
    exponent = math.floor(math.log10(p))
    if exponent >= -4:
        return f"{p:.{1 - exponent}f}"
    mantissa, _, power = f"{p:.1e}".partition("e")
    return f"{mantissa} × 10{str(int(power)).translate(_RAISED)}"


def plain_number(x: int | float) -> str:
    """Return a number that people chose, with the digits they wrote."""
    return f"{x:,g}".replace("-", "−")


def signed(x: float) -> str:
    """Return a number within [-1, 1] to three places, with its sign."""
    return f"{x:+.3f}".replace("-", "−")


def per_cent(share: float) -> str:
    """Return a share as a percentage."""
    return f"{100 * share:.1f} %"


def duration(seconds: float) -> str:
    """Return a time in the unit that suits it."""
    if seconds < 0.0995:
        return f"{1e3 * seconds:.1f} ms"
    return f"{seconds:,.2f} s"


def left_out(shown: int, all_of_them: int, what: str, which: str) -> str:
    """Return a note on what is not in a table, if anything is not."""
    if shown >= all_of_them:
        return ""
    return f"Of {all_of_them:,} {what}, the {which} {shown} are shown."


_RAISED = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
