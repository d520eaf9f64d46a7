"""Results of a jackknife: each estimate, its standard errors and its interval."""

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING

from unpooled.results.exhibits import Column, Exhibit, ResultTable
from unpooled.results.formats import listed

if TYPE_CHECKING:
    from unpooled.models.model_selection.jackknife import Jackknife

HEADING = "Standard errors by the jackknife"
WORK = (
    "Busing FMTA, Meijer E, van der Leeden R. Delete-m jackknife for unequal m. "
    "Statistics and Computing 1999; 9(1): 3-8."
)

# Attributes with a row for each class, where there are more than two.
_OF_CLASSES = ("coef_", "intercept_", "means_", "priors_")
# The axis of an attribute that counts what has no name, and what that is.
_COUNTED = {
    "components_": (0, "Component"),
    "explained_variance_": (0, "Component"),
    "explained_variance_ratio_": (0, "Component"),
    "eigenvalues_": (0, "Component"),
    "scalings_": (1, "Direction"),
    "canonical_correlations_": (0, "Pair"),
}
_WORDS = {
    "components_": "Loadings",
    "explained_variance_": "Variances of the components",
    "explained_variance_ratio_": "Shares of the variance",
    "eigenvalues_": "Eigenvalues",
    "coef_": "Coefficients",
    "intercept_": "Intercept",
    "means_": "Means of the classes",
    "priors_": "Shares of the classes",
    "scalings_": "Weights of the columns in each direction",
    "canonical_correlations_": "Canonical correlations",
}


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


def _table(found: "Jackknife", name: str) -> ResultTable:
    """Return a table with a row for each number of an attribute."""
    values = found.estimates[name]
    low, high = found.conf_int(name)
    own = found.of_fit.get(name)
    axes = _axes(found, name)
    heads = [head for head, _ in axes] or [Column("Number")]
    heads += [
        Column("Estimate", "number"),
        Column("SE", "number", "se_jackknife"),
    ]
    if own is not None:
        heads.append(Column("Own SE", "number", "se_fit"))
    heads += [
        Column("95 % from", "number", "confidence_low"),
        Column("95 % to", "number", "confidence_high"),
        Column("Bias", "number"),
    ]
    rows = []
    for place in product(*map(range, values.shape)):
        labels = [names[i] for (_, names), i in zip(axes, place, strict=True)]
        own_error = [] if own is None else [own[place]]
        errors = (found.standard_errors[name][place], *own_error)
        ends = (low[place], high[place], found.bias[name][place])
        rows.append((*(labels or ["all rows"]), values[place], *errors, *ends))
    words = _WORDS.get(name)
    return ResultTable(
        f"jackknife_{name.strip('_')}",
        heads,
        rows,
        caption=f"{words} ({name})" if words else name,
        items="numbers",
    )


def _axes(found: "Jackknife", name: str) -> list[tuple[Column, Sequence[str]]]:
    """Return the items along each axis of an attribute, and their names."""
    counted, word = _COUNTED.get(name, (None, "Number"))
    axes: list[tuple[Column, Sequence[str]]] = []
    for axis, size in enumerate(found.estimates[name].shape):
        if axis == 0 and name in _OF_CLASSES and size == len(found.classes):
            axes.append((Column("Class"), found.classes))
        elif axis != counted and size == len(found.columns):
            axes.append((Column("Column"), found.columns))
        else:
            numbers = [str(i + 1) for i in range(size)]
            axes.append((Column(word, key="number"), numbers))
    if len({head.key for head, _ in axes}) < len(axes):
        # Headings of a table differ.
        return [
            (Column(f"{head.heading} {axis + 1}"), names)
            for axis, (head, names) in enumerate(axes)
        ]
    return axes
