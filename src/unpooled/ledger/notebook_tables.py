"""Tables as notebooks show them, and as pandas data frames."""

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from unpooled.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

# A notebook keeps what it shows: of a thousand rounds it need not keep every line.
_MOST_ROWS = 60


def html_table(caption: str, head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return a table as HTML, with the first rows of a long one.

    Parameters
    ----------
    caption : str
        A sentence above it.
    head : sequence of str
        The headings.
    rows : sequence of sequences
        The cells; numbers stand at the right. Texts are escaped.
    """
    lines = [f"<p>{escape(caption)}</p>"]
    if rows:
        cells = "".join(f"<th style='text-align: left'>{escape(h)}</th>" for h in head)
        lines.append(f"<table><thead><tr>{cells}</tr></thead><tbody>")
        lines += [f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows[:_MOST_ROWS]]
        lines.append("</tbody></table>")
    if len(rows) > _MOST_ROWS:
        lines.append(f"<p>and {len(rows) - _MOST_ROWS:,} more lines</p>")
    return "".join(lines)


def data_frame(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> "pd.DataFrame":
    """Return rows as a pandas data frame; raise where pandas is not installed."""
    pd = pandas_if_installed()
    return pd.DataFrame.from_records(list(rows), columns=list(head))


def pandas_if_installed() -> Any:
    """Return pandas, which no part of a fit needs; raise where it is not installed."""
    try:
        import pandas
    except ImportError as missing:
        raise DataError(
            "Data frames need pandas, which is not installed. Install it with: pip "
            "install pandas."
        ) from missing
    return pandas


def _cell(value: Any) -> str:
    if isinstance(value, int):
        return f"<td style='text-align: right'>{value:,}</td>"
    return f"<td style='text-align: left'>{escape(str(value))}</td>"
