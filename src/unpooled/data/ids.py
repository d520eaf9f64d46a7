"""Normalised ids, so that the same person has the same id at every silo.

    " Ab-7 "  "ＡＢ-7"  "ab-7"     ──>  "ab-7"
    7   7.0   "7"   "7.0"   " 7"   ──>  "7"
    "007"                          ──>  "007", which is not "7"

White space is removed at the ends and becomes one blank inside; letters are case-folded
and lose compatibility forms (NFKC); invisible format characters are removed. Whole
numbers are written without a decimal point, whether the column holds numbers or text.
Leading zeros are kept, because they may distinguish two people; a silo that has lost
them has a low match rate.
"""

import math
import re
import unicodedata
from collections import Counter
from numbers import Integral, Real
from typing import Any

from unpooled.data.table import Table
from unpooled.errors import DataError

# Up to here every integer is a float64; beyond, only some are.
_MOST_FLOAT = 2.0**53
_WHOLE = re.compile(r"([+-]?[0-9]+)\.0*")


def read_ids(table: Table) -> list[bytes]:
    """Return the normalised ids of a table in the order of its rows, as UTF-8.

    Raises
    ------
    DataError
        Without an id column, for rows without an id, or for a repeated id. Its rule
        may cross the silo boundary.
    """
    if table.ids is None:
        raise DataError(
            "The table has no id column, so its rows cannot be matched. Name the id "
            "column (ids), or declare that all silos' tables are aligned already.",
            rule="no_ids",
        )
    ids: list[bytes] = []
    for block in table.blocks((), [table.ids]):
        for value in block.extra[table.ids].tolist():
            try:
                ids.append(normalised(value).encode())
            except DataError as wrong:
                raise DataError(
                    f"Row {len(ids)}, column {table.ids!r}: {wrong}", rule=wrong.rule
                ) from wrong
    if twice := [name for name, times in Counter(ids).items() if times > 1]:
        shown = ", ".join(name.decode() for name in twice[:3])
        raise DataError(
            f"Column {table.ids!r} has {len(twice)} ids in several rows, such as "
            f"{shown}. Keep one row per id. Case, white space and the form of numbers "
            f"do not distinguish ids.",
            rule="duplicate_ids",
        )
    return ids


def normalised(value: Any) -> str:
    """Return an id in the form in which silos compare ids.

    Parameters
    ----------
    value : text, number, or object with a text
        The function does not change its own result.

    Raises
    ------
    DataError
        When the id is missing (None, NaN, blank text), or is a number that may have
        lost digits.
    """
    if value is None or (isinstance(value, Real) and math.isnan(float(value))):
        raise DataError("a row has no id.", rule="missing_ids")
    if isinstance(value, Real) and not isinstance(value, Integral):
        number = float(value)
        if not abs(number) <= _MOST_FLOAT:
            raise DataError(
                "an id is a floating-point number too large to be exact. Store ids as "
                "text or whole numbers.",
                rule="missing_ids",
            )
        value = int(number) if number.is_integer() else number
    text = _folded(str(value))
    if not text:
        raise DataError("a row has a blank id.", rule="missing_ids")
    whole = _WHOLE.fullmatch(text)
    return whole[1] if whole else text


def _folded(text: str) -> str:
    # One replacement can make another one possible, so they are repeated.
    while True:
        visible = (c for c in text if unicodedata.category(c) != "Cf")
        folded = unicodedata.normalize("NFKC", "".join(visible)).casefold()
        folded = " ".join(unicodedata.normalize("NFKC", folded).split())
        if folded == text:
            return text
        text = folded


def match_report(n_rows: int, n_common: int) -> str:
    """Return a sentence on the match rate, for the silo only."""
    share = n_common / n_rows if n_rows else 0.0
    return f"{n_common:,} of {n_rows:,} rows are common to all silos ({share:.1%})."
