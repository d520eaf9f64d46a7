"""Results of a jackknife: each estimate, its standard errors and its interval."""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

from unpooled.arrays import Array
from unpooled.results.exhibits import Column, Exhibit, Table
from unpooled.results.formats import listed

if TYPE_CHECKING:
    from unpooled.models.model_selection.jackknife import Jackknife

HEADING = "Standard errors by the jackknife"
WORK = (
    "Busing FMTA, Meijer E, van der Leeden R. Delete-m jackknife for unequal m. "
    "Statistics and Computing 1999; 9(1): 3-8."
)


def jackknife_exhibits(found: "Jackknife") -> list[Exhibit]:
    """Return one exhibit, with a table for each attribute."""
    g = len(found.block_rows)
    text = (
        f"The model was fitted {g} more times, each time without one block of rows "
        f"that the silos had fixed. The spread of these fits gives the standard "
        f"errors; they assume independent rows, and no distribution. With {g} blocks "
        f"they have {g - 1} degrees of freedom, and the intervals at 95 % are those of "
        f"Student’s t."
    )
    if of_fit := [name for name in found.of_fit if name in found.estimates]:
        text += f" Beside them are the model’s own SE of {listed(of_fit)}."
    tables = [_table(found, name) for name in found.estimates]
    return [Exhibit(HEADING, text, tables)]


def _table(found: "Jackknife", name: str) -> Table:
    """Return a table with a row for each number of an attribute."""
    values = found.estimates[name]
    low, high = found.conf_int(name)
    own = found.of_fit.get(name)
    heads = [Column(head) for head in _heads(values.shape, len(found.columns))]
    heads += [
        Column("Estimate", "number"),
        Column("SE", "number", "se_jackknife"),
    ]
    if own is not None:
        heads.append(Column("Own SE", "number", "se_fit"))
    heads += [
        Column("From", "number", "confidence_low"),
        Column("To", "number", "confidence_high"),
        Column("Bias", "number"),
    ]
    rows = []
    for place, labels in _places(values, found.columns):
        own_error = [] if own is None else [own[place]]
        errors = (found.standard_errors[name][place], *own_error)
        ends = (low[place], high[place], found.bias[name][place])
        rows.append((*labels, values[place], *errors, *ends))
    return Table(
        f"jackknife_{name.strip('_')}", heads, rows, caption=name, items="numbers"
    )


def _heads(shape: Sequence[int], p: int) -> list[str]:
    """Return what each axis of an attribute counts: columns of the data, or others."""
    heads = ["Column" if size == p else "Number" for size in shape] or ["Number"]
    if len(heads) > 1 and len(set(heads)) < len(heads):
        # Headings of a table differ.
        return [f"{head} {axis + 1}" for axis, head in enumerate(heads)]
    return heads


def _places(
    values: Array, columns: Sequence[str]
) -> Iterator[tuple[tuple[int, ...], tuple[str, ...]]]:
    """Yield the place of each number, and what it belongs to along each axis."""
    if not values.ndim:
        yield (), ("all rows",)
        return
    labels: list[Any] = [
        columns if size == len(columns) else [str(i + 1) for i in range(size)]
        for size in values.shape
    ]
    for place in product(*map(range, values.shape)):
        yield place, tuple(labels[axis][i] for axis, i in enumerate(place))
