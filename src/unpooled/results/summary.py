"""A model's results at a prompt, in a notebook and as data frames.

>>> summary = pca.summary()
>>> print(summary)
>>> summary.to_frame("loadings")
"""

import abc
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, final

from unpooled.errors import DataError
from unpooled.results.exhibits import Exhibit, ResultTable
from unpooled.results.fitted_attributes import fitted_attributes
from unpooled.results.formats import clean, listed
from unpooled.results.subjects import title_of

if TYPE_CHECKING:
    import pandas as pd

_WIDTH = 80
_FEW = 8  # columns that a sentence on units names


@final
class Summary:
    """The results of a fitted model: tables, sentences and pictures.

    It prints as text, is shown with pictures in a notebook, and has the numbers with
    all their digits: the same that a run writes into its folder ``results``.

    Attributes
    ----------
    title : str
        The model's class, and what it does.
    exhibits : list of Exhibit
        In the order in which a report shows them.
    """

    def __init__(self, title: str, exhibits: Sequence[Exhibit]) -> None:
        self.title, self.exhibits = title, list(exhibits)

    @property
    def tables(self) -> Mapping[str, ResultTable]:
        """The tables by name, with all their rows."""
        return {
            table.name: table
            for exhibit in self.exhibits
            for table in exhibit.tables
            if table.place != "pages"
        }

    def to_frame(self, name: str | None = None) -> "pd.DataFrame":
        """Return a table as a pandas data frame, with all rows and digits.

        Parameters
        ----------
        name : str, optional
            One of `tables`; the first when omitted.

        Returns
        -------
        DataFrame
            Columns are named as in the CSV file of a run, for example
            "cumulative_share"; shares are parts of 1. A missing number is NaN.

        Raises
        ------
        DataError
            If there is no table of that name, or pandas is not installed.
        """
        tables = self.tables
        if name is None and tables:
            name = next(iter(tables))
        if name is None or name not in tables:
            have = listed([f'"{one}"' for one in tables]) or "no tables"
            wanted = "table" if name is None else f'table "{name}"'
            raise DataError(f"There is no {wanted} in {self.title}; it has {have}.")
        try:
            import pandas as pd
        except ImportError as missing:
            raise DataError(
                "Data frames need pandas, which is not installed. Install it with: pip "
                "install pandas, or read the rows of summary.tables."
            ) from missing
        table = tables[name]
        return pd.DataFrame.from_records(
            table.rows, columns=[column.key for column in table.columns]
        )

    def __str__(self) -> str:
        """Return headings, sentences and tables as text."""
        parts = [clean(self.title)]
        for exhibit in self.exhibits:
            parts.append(f"{clean(exhibit.heading)}\n{'-' * len(exhibit.heading)}")
            if exhibit.text:
                parts.append(textwrap.fill(clean(exhibit.text), _WIDTH))
            for table in exhibit.on_pages:
                parts += [textwrap.fill(clean(table.caption), _WIDTH), _grid(table)]
                parts.append(textwrap.fill(clean(table.notes), _WIDTH))
        return "\n\n".join(filter(None, parts))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from unpooled.results.plots.notebook import html

        return html(self)


class Tabular(abc.ABC):
    """Values with names that print as tables, and are shown as such in notebooks."""

    @abc.abstractmethod
    def summary(self) -> Summary:
        """Return the values as tables."""

    def to_frame(self) -> "pd.DataFrame":
        """Return the values as a pandas data frame, with all digits."""
        return self.summary().to_frame()

    def __str__(self) -> str:
        return str(self.summary())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_()


def summaries_of(models: Sequence[Any]) -> list[Summary]:
    """Return the summaries of a study's models, in the order of its steps.

    Where steps before a model changed the units of its columns, its summary begins
    with what a unit is: "for one unit of the column" means nothing without it.
    """
    found, units = [], dict[str, tuple[str, str]]()
    for i, model in enumerate(models):
        summary = summary_of(model, models[i + 1 :])
        if text := _units_read(model, units):
            summary.exhibits.insert(0, Exhibit("Units", text))
        found.append(summary)
        if hasattr(type(model), "_units"):
            given = model._units()
            units |= {
                name: (unit, type(model).__name__) for name, unit in given.items()
            }
    return found


def summary_of(model: Any, later: Sequence[Any] = ()) -> Summary:
    """Return a model's summary; of another library's model, its fitted attributes.

    `later` are the models of the steps after it.
    """
    if hasattr(type(model), "_exhibits"):
        return model.summary(later)
    fitted = {
        name: value
        for name, value in vars(model).items()
        if name.endswith("_") and name[0] != "_"
    }
    return Summary(title_of(model), fitted_attributes(fitted))


def _units_read(model: Any, units: Mapping[str, tuple[str, str]]) -> str:
    """Return the units of a model's columns, of which earlier steps changed some.

    `units` has by column the unit and the class of the step that gave it.
    """
    fitted = vars(model)
    names = [str(name) for name in fitted.get("feature_names_in_", ())]
    response = fitted.get("response_")
    answers = fitted.get("y_columns_", [] if response is None else [response])
    names += [str(name) for name in answers if str(name) not in names]
    changed: dict[tuple[str, str], list[str]] = {}
    for name in names:
        if name in units:
            changed.setdefault(units[name], []).append(name)
    left = [name for name in names if name not in units]
    sentences = []
    for (unit, step), own in changed.items():
        which = _few(own) if left or len(changed) > 1 else "All columns"
        verb = "is" if len(own) == 1 and which != "All columns" else "are"
        sentences.append(f"{which} {verb} in {unit} here, as {step} gives them.")
    if changed and left:
        one = len(left) == 1
        others = left[0] if one else f"The other {len(left):,} columns"
        sentences.append(f"{others} {'is' if one else 'are'} not rescaled.")
    return " ".join(sentences)


def _few(names: Sequence[str]) -> str:
    """Return "a, b and 7 other columns"."""
    if len(names) <= _FEW:
        return listed(names)
    return f"{', '.join(names[:_FEW])} and {len(names) - _FEW} other columns"


def _grid(table: ResultTable) -> str:
    """Return a table as aligned text, numbers at the right."""
    cells = [
        tuple(clean(c.heading) for c in table.columns),
        *(tuple(map(clean, row)) for row in table.shown),
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(
            f"{cell:>{width}}" if column.numeric else f"{cell:<{width}}"
            for cell, width, column in zip(row, widths, table.columns, strict=True)
        ).rstrip()
        for row in cells
    ]
    return "\n".join(lines)
