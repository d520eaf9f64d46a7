"""Ids in one form, so that the same person has the same id at every silo.

    " Ab-7 "  "ＡＢ-7"  "ab-7"     ──>  "ab-7"
    7   7.0   "7"   "7.0"   " 7"   ──>  "7"
    "007"                          ──>  "007", which is not "7"

White space at the ends goes, inside it becomes one blank; letters lose their case and
compatibility forms (NFKC); invisible format characters go. Whole numbers are written
without a decimal point, whether the column holds numbers or text. Leading zeros stay:
two people may be told apart by them, and a silo that lost them shows it in its match
rate.
"""

import math
import re
import unicodedata
from collections import Counter
from numbers import Integral, Real
from typing import Any

from unpooled.data.table import Table
from unpooled.errors import DataError

# float64 has every whole number up to here, and then only some of them.
_MOST_FLOAT = 2.0**53
_WHOLE = re.compile(r"([+-]?[0-9]+)\.0*")


def read_ids(table: Table) -> list[bytes]:
    """Return the ids of a table in the order of its rows, normalised, in UTF-8.

    Raises
    ------
    DataError
        Without an id column, with rows that have none, or with an id that stands
        twice; under a rule that may cross the silo's boundary.
    """
    if table.ids is None:
        raise DataError(
            "The table has no id column, so its rows cannot be matched. Name it (ids), "
            "or declare that the tables of all silos are aligned already.",
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
            f"{shown}. Keep one row for each id: case, white space, and the form of "
            f"numbers make no difference.",
            rule="duplicate_ids",
        )
    return ids


def normalised(value: Any) -> str:
    """Return an id in the form in which silos compare it.

    Parameters
    ----------
    value : text, number, or anything that has a text
        Applied to its own result it changes nothing.

    Raises
    ------
    DataError
        When there is no id (None, NaN, blank text), or a number that may have lost
        digits.
    """
    if value is None or (isinstance(value, Real) and math.isnan(float(value))):
        raise DataError("a row has no id.", rule="missing_ids")
    if isinstance(value, Real) and not isinstance(value, Integral):
        number = float(value)
        if not abs(number) <= _MOST_FLOAT:
            raise DataError(
                "an id is a floating-point number too large to have all its digits. "
                "Store ids as text or whole numbers.",
                rule="missing_ids",
            )
        value = int(number) if number.is_integer() else number
    text = _folded(str(value))
    if not text:
        raise DataError("a row has a blank id.", rule="missing_ids")
    whole = _WHOLE.fullmatch(text)
    return whole[1] if whole else text


def _folded(text: str) -> str:
    # Each of these can make work for another, so they run until nothing changes.
    while True:
        visible = (c for c in text if unicodedata.category(c) != "Cf")
        folded = unicodedata.normalize("NFKC", "".join(visible)).casefold()
        folded = " ".join(unicodedata.normalize("NFKC", folded).split())
        if folded == text:
            return text
        text = folded


def match_report(n_rows: int, n_common: int) -> str:
    """Say how many of a silo's own rows are common; for the silo alone."""
    share = n_common / n_rows if n_rows else 0.0
    return f"{n_common:,} of {n_rows:,} rows are common to all silos ({share:.1%})."
