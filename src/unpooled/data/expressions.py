"""Columns made of one or two others, as a study file writes them.

    log_chol = "log(chol)"       the natural logarithm
    ratio    = "chol / age"      a ratio
    change   = "after - before"  a difference
    both     = "chol * age"      an interaction
    north    = "site == 'north'" 1 for a category of a column of categories, else 0

    expression   "log" "(" column ")" | column ("/" | "-" | "*") column
                 | column "==" text
    column       a word, or any name in `backquotes`
    text         a name in 'quotes' or "quotes"

The text is matched against the patterns below; nothing of it is evaluated as code.
"""

import re
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.errors import DataError

LOG, RATIO, DIFFERENCE, PRODUCT, EQUAL = range(5)
_COLUMN = r"(?:`(?P<{0}q>[^`]+)`|(?P<{0}>[^\W\d][\w.]*))"
_FIRST, _SECOND = _COLUMN.format("first"), _COLUMN.format("second")
_LOG = re.compile(rf"\s*log\s*\(\s*{_FIRST}\s*\)\s*")
_PAIR = re.compile(rf"\s*{_FIRST}\s*(?P<sign>[-/*])\s*{_SECOND}\s*")
_EQUAL = re.compile(rf"\s*{_FIRST}\s*==\s*(?P<text>'[^']*'|\"[^\"]*\")\s*")
_SIGNS = {"/": RATIO, "-": DIFFERENCE, "*": PRODUCT}


@final
@dataclass(frozen=True)
class Expression:
    """A column as a function of one or two others.

    Attributes
    ----------
    kind : int
        `LOG`, `RATIO`, `DIFFERENCE`, `PRODUCT` or `EQUAL`.
    columns : tuple of str
        The one or two columns that it reads.
    category : str
        For `EQUAL`, the name of the category.
    """

    kind: int
    columns: tuple[str, ...]
    category: str = ""

    @classmethod
    def of(cls, text: Any) -> "Expression":
        """Read an expression; raise a `DataError` where it is none."""
        if not isinstance(text, str):
            raise DataError(f"{text!r} is no expression, which is a text.")
        if found := _LOG.fullmatch(text):
            return cls(LOG, (_name(found, "first"),))
        if found := _PAIR.fullmatch(text):
            columns = _name(found, "first"), _name(found, "second")
            return cls(_SIGNS[found["sign"]], columns)
        if found := _EQUAL.fullmatch(text):
            return cls(EQUAL, (_name(found, "first"),), found["text"][1:-1])
        raise DataError(
            f"The expression {text!r} is not understood. Write log(a), a / b, a - b, "
            f"a * b, or a == 'name of a category', with names of columns that are no "
            f"words in `backquotes`."
        )


def computed(
    kind: int, a: Float[Array, " n"], b: Float[Array, " n"], code: float
) -> Float[Array, " n"]:
    """Return the cells of a column; not finite where they are not defined.

    Parameters
    ----------
    kind : int
        Kind of an `Expression`.
    a, b : (n,) arrays
        Cells of the columns that it reads; `b` is not read where there is one.
    code : float
        The code of the category of `EQUAL`.
    """
    with np.errstate(all="ignore"):
        if kind == LOG:
            return np.log(a)
        if kind == RATIO:
            return a / b
        if kind == DIFFERENCE:
            return a - b
        if kind == PRODUCT:
            return a * b
        return np.where(np.isnan(a), np.nan, a == code)


def _name(found: re.Match[str], which: str) -> str:
    return found[which] or found[f"{which}q"]
