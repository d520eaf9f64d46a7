"""The rows of a source that studies may read, as a condition in the silo's file.

    where = "age >= 18 and site in ['north', 'south'] and not `on trial` == 1"

    condition   all-of ("or" all-of)*            all-of   part ("and" part)*
    part        "not" part | "(" condition ")" | comparison
    comparison  column (== != < <= > >=) value | column ["not"] "in" "[" values "]"
    column      a word, or any name in `backquotes`
    value       a number, or a text in 'quotes' or "quotes"

The text is read by the few functions below; nothing of it is evaluated as code. A
comparison with a missing cell is neither true nor false, and nor is its negation: the
row is left out either way.

Texts have the order of the alphabet, in which '100' is before '50' and '04.10.2023'
before '2020-01-01'. So texts are compared by order with a date or a number only where
that order is the one of the dates, which each cell must then be written as.
"""

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, final

import numpy as np

from unpooled.arrays import Array, Bool, Shaped
from unpooled.data.toml import Section
from unpooled.errors import DataError

FILTER_KEYS = ("where", "unlabelled")
DROP = "drop"

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?!\w))
      | (?P<text>'[^']*'|"[^"]*")
      | (?P<name>`[^`]+`)
      | (?P<word>[^\W\d][\w.]*)
      | (?P<sign><=|>=|==|!=|=|<|>|[][(),])
      | (?P<end>$)
    )""",
    re.VERBOSE,
)
_WORDS = ("and", "or", "not", "in")
_ORDERS = ("<", "<=", ">", ">=")
# A date as it must be written, with a time or without, so that the order of texts is
# the order in time; and other texts that somebody means as a date or a number.
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ].*)?")
_DATE_OR_NUMBER = re.compile(r"\s*[-+]?\d[\d.,/-]*(?:[T ].*)?")
_COMPARE: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
# Which rows fulfil a condition, and which do not; a row with a missing cell neither.
_Verdict = tuple[Bool[Array, " n"], Bool[Array, " n"]]
_Columns = Mapping[str, Shaped[Array, " n"]]
_Value = float | str


@final
@dataclass(frozen=True)
class Condition:
    """A condition on the cells of a row.

    Attributes
    ----------
    text : str
        As it was written.
    columns : tuple of str
        The columns that it reads, each once.
    """

    text: str
    columns: tuple[str, ...]
    _verdict: Callable[[_Columns], _Verdict]

    @classmethod
    def of(cls, text: str) -> "Condition":
        """Read a condition; raise a `DataError` that says where it is none."""
        reader = _Reader(text)
        verdict = reader.condition()
        reader.expect("end", "and, or, or the end")
        return cls(text, tuple(dict.fromkeys(reader.columns)), verdict)

    def fulfilled(self, columns: _Columns) -> Bool[Array, " n"]:
        """Return which rows fulfil the condition.

        Parameters
        ----------
        columns : mapping of str to (n,) array
            The cells of each column that the condition reads: numbers with NaN for a
            missing cell, texts with None, or dates.

        Raises
        ------
        DataError
            Where a column of numbers is compared with a text, or the other way round.
        """
        return self._verdict(columns)[0]


def filter_keys(section: Section) -> dict[str, str]:
    """Return the keys of a table of a file that choose rows, checked."""
    found = {
        "where": section.text("where"),
        "unlabelled": section.text("unlabelled", choices=(DROP,)),
    }
    if found["where"] is not None:
        try:
            Condition.of(found["where"])
        except DataError as wrong:
            section.fail("where", str(wrong).rstrip("."))
    return {key: value for key, value in found.items() if value is not None}


@final
class _Reader:
    """Reads a condition from left to right."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self.columns: list[str] = []
        self._kind, self._token = "", ""
        self._next()

    def condition(self) -> Callable[[_Columns], _Verdict]:
        """Return the condition of one or more parts with ``or`` between them."""
        return _any_of(list(self._parts("or", self._all_of)))

    def _all_of(self) -> Callable[[_Columns], _Verdict]:
        return _all_of(list(self._parts("and", self._part)))

    def _parts(
        self, word: str, read: Callable[[], Callable[[_Columns], _Verdict]]
    ) -> Iterator[Callable[[_Columns], _Verdict]]:
        yield read()
        while self._take("word", word):
            yield read()

    def _part(self) -> Callable[[_Columns], _Verdict]:
        if self._take("word", "not"):
            inner = self._part()
            return _not(inner)
        if self._take("sign", "("):
            inner = self.condition()
            self.expect("sign", "a closing bracket", ")")
            return inner
        return self._comparison()

    def _comparison(self) -> Callable[[_Columns], _Verdict]:
        column = self._column()
        inverted = self._take("word", "not")
        if self._take("word", "in"):
            values = self._values()
            found = _any_of([_compared(column, "==", value) for value in values])
            return _not(found) if inverted else found
        sign = self._token
        if inverted or self._kind != "sign" or sign not in _COMPARE:
            self._fail("a comparison (==, !=, <, <=, >, >= or in)")
        self._next()
        return _compared(column, sign, self._value())

    def _column(self) -> str:
        if self._kind == "name":
            column = self._token[1:-1]
        elif self._kind == "word" and self._token not in _WORDS:
            column = self._token
        else:
            self._fail("the name of a column (`in backquotes` where it is no word)")
        self._next()
        self.columns.append(column)
        return column

    def _values(self) -> list[_Value]:
        opening = self._token
        if self._kind != "sign" or opening not in "[(":
            self._fail("a list, such as ['a', 'b']")
        self._next()
        values = [self._value()]
        while self._take("sign", ","):
            values.append(self._value())
        self.expect("sign", "a comma or the end of the list", "])"["[(".index(opening)])
        return values

    def _value(self) -> _Value:
        kind, token = self._kind, self._token
        if kind not in ("number", "text"):
            self._fail("a number, or a text in quotes")
        self._next()
        return float(token) if kind == "number" else token[1:-1]

    def expect(self, kind: str, what: str, token: str | None = None) -> None:
        """Go past a token, which must be this one."""
        if not self._take(kind, self._token if token is None else token):
            self._fail(what)

    def _take(self, kind: str, token: str) -> bool:
        if (self._kind, self._token) != (kind, token):
            return False
        self._next()
        return True

    def _next(self) -> None:
        found = _TOKEN.match(self._text, self._at)
        if found is None:
            self._kind = ""
            self._fail("something that a condition can have")
        self._kind = str(found.lastgroup)
        self._token = found[self._kind]
        self._at = found.end()

    def _fail(self, expected: str) -> NoReturn:
        place = self._at if not self._kind else self._at - len(self._token)
        before, after = self._text[:place].strip(), self._text[place:].strip()
        where = f"after {before[-20:]!r}" if before else "at the beginning"
        came = f"{after[:20]!r} stands" if after else "it ends"
        raise DataError(
            f"The condition {self._text!r} is not understood: {came} {where}, where "
            f"{expected} is needed."
        )


def _not(part: Callable[[_Columns], _Verdict]) -> Callable[[_Columns], _Verdict]:
    def verdict(columns: _Columns) -> _Verdict:
        yes, no = part(columns)
        return no, yes

    return verdict


def _any_of(
    parts: Sequence[Callable[[_Columns], _Verdict]],
) -> Callable[[_Columns], _Verdict]:
    return _not(_all_of([_not(part) for part in parts]))


def _all_of(
    parts: Sequence[Callable[[_Columns], _Verdict]],
) -> Callable[[_Columns], _Verdict]:
    def verdict(columns: _Columns) -> _Verdict:
        yes, no = zip(*(part(columns) for part in parts), strict=True)
        return np.logical_and.reduce(yes), np.logical_or.reduce(no)

    return verdict


def _compared(column: str, sign: str, value: _Value) -> Callable[[_Columns], _Verdict]:
    def verdict(columns: _Columns) -> _Verdict:
        cells = columns[column]
        known = ~is_missing(cells)
        other = _comparable(column, cells[known], value, sign)
        yes = np.zeros(len(cells), bool)
        yes[known] = _COMPARE[sign](cells[known], other)
        return yes, known & ~yes

    return verdict


def _comparable(
    column: str, cells: Shaped[Array, " n"], value: _Value, sign: str
) -> Any:
    """Return a value in the type of cells that are not missing."""
    kind = cells.dtype.kind
    if kind == "M" and isinstance(value, str):
        try:
            return np.datetime64(value)
        except ValueError:
            raise DataError(
                f"Column {column!r} holds dates, and {value!r} is none: write "
                f"'2020-12-31'."
            ) from None
    holds = "text" if kind in "OUS" else "dates" if kind == "M" else "numbers"
    fits = holds == ("text" if isinstance(value, str) else "numbers")
    if holds == "text" and sign in _ORDERS:
        _check_order(column, cells, value)
    elif not fits and len(cells):
        remedy = "in quotes" if holds == "text" else "without quotes"
        remedy = "as '2020-12-31'" if holds == "dates" else remedy
        raise DataError(
            f"Column {column!r} holds {holds}, and the condition compares it with "
            f"{value!r}; write the value {remedy}."
        )
    return value


def _check_order(column: str, cells: Shaped[Array, " n"], value: _Value) -> None:
    """Raise where the order of texts is not the one that the condition means."""
    if isinstance(value, str) and _DATE.fullmatch(value):
        if all(_DATE.fullmatch(str(cell).strip()) for cell in cells):
            return
        raise DataError(
            f"Column {column!r} holds text, not all of it dates as 2020-12-31, so that "
            f"it cannot be compared with {value!r}. Write the dates of the source as "
            f"2020-12-31, or choose the rows before they are written."
        )
    if isinstance(value, str) and not _DATE_OR_NUMBER.fullmatch(value):
        return
    if len(cells):
        raise DataError(
            f"Column {column!r} holds text, whose order is that of the alphabet and "
            f"not that of {value!r}. Numbers need a column without other text, and "
            f"dates are written as 2020-12-31, in the source and in the condition."
        )


def is_missing(cells: Shaped[Array, " n"]) -> Bool[Array, " n"]:
    """Return which cells are missing: None, NaN, or no date."""
    if cells.dtype.kind == "O":
        return np.array([x is None or x != x for x in cells], bool)
    if cells.dtype.kind == "M":
        return np.isnat(cells)
    return np.isnan(cells) if cells.dtype.kind == "f" else np.zeros(len(cells), bool)
