"""The values of a silo's source that mean a missing cell, such as 0, -9 or "n/d".

    missing = { chol = [0], haemoglobin = ["n/d", "-"], smoker = ["unknown", 9] }

Numbers of columns of numbers are replaced when the table is read (`RecodedTable`).
Texts in such columns are the reader's own affair, since a column is one of numbers only
without them. Of a column of categories the values are names.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, final

import numpy as np

from unpooled.data.categories import category_name
from unpooled.errors import DataError

_NUMBER = re.compile(r"[-+]?(?:\d+[.,]?\d*|[.,]\d+)(?:[eE][-+]?\d+)?")


@final
@dataclass(frozen=True)
class MissingCodes:
    """The values that mean a missing cell, by what reads them, and by column.

    Attributes
    ----------
    numbers : dict of str to a list of float
        For columns of numbers, their numbers.
    texts : dict of str to a set of str
        For columns of numbers, their texts.
    names : dict of str to a set of str
        For columns of categories, names as of `category_name`.
    """

    numbers: dict[str, list[float]] = field(default_factory=dict)
    texts: dict[str, Collection[str]] = field(default_factory=dict)
    names: dict[str, Collection[str]] = field(default_factory=dict)


def missing_codes(missing: Any, categorical: Collection[str]) -> MissingCodes:
    """Return the values that mean a missing cell, by what reads them.

    Parameters
    ----------
    missing : mapping of str to a sequence of numbers and texts
        As a user gives them, by column.
    categorical : collection of str
        The columns of categories.

    Raises
    ------
    DataError
        Unless they are lists of numbers and texts.
    """
    if not isinstance(missing, Mapping):
        raise DataError(
            f"missing={missing!r}: name the columns, each with a list of the values "
            f"that mean a missing cell: {{'chol': [0, 'n/d']}}."
        )
    found = MissingCodes()
    for name, values in missing.items():
        _check(name, values)
        if name in categorical:
            names = {category_name(value) for value in values}
            found.names[name] = {text for text in names if text is not None}
            continue
        texts = {value.strip() for value in values if isinstance(value, str)}
        numbers = [float(value) for value in values if not isinstance(value, str)]
        for text in filter(_NUMBER.fullmatch, texts):
            # The text "0" would match cells written 0, and none written 0.0 or 0,00.
            raise DataError(
                f"missing[{name!r}] has the number {text} in quotes, and the column is "
                f"one of numbers. Write it without quotes."
            )
        if texts:
            found.texts[name] = texts
        if numbers or not texts:
            found.numbers[name] = numbers
    return found


def _check(name: str, values: Any) -> None:
    listed = isinstance(values, Sequence | np.ndarray) and not isinstance(values, str)
    if not listed or not all(isinstance(value, Real | str) for value in values):
        raise DataError(
            f"missing[{name!r}] is {values!r}; it must be a list of numbers or texts. "
            f'Write, for instance, {name} = [0, "n/d"].'
        )
