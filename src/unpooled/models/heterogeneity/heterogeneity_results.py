"""Results on differences between silos: shares of variance, multivariate tests."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from unpooled.arrays import Array
from unpooled.models.model_selection.permutation_test import permutation_cells
from unpooled.models.pca.pca_results import loadings
from unpooled.results.exhibits import Column, Exhibit, Picture, ResultTable
from unpooled.results.fitted_attributes import ordinals
from unpooled.results.formats import counted, per_cent
from unpooled.results.plots import charts

if TYPE_CHECKING:
    from unpooled.models.heterogeneity.heterogeneity import Heterogeneity

_NO_BOX = (
    "Box’s M (equal covariance matrices) was not computed: in at least one silo a "
    "column is a linear combination of others."
)


def heterogeneity_exhibits(
    model: "Heterogeneity", columns: Sequence[str]
) -> list[Exhibit]:
    """Return the exhibits of fitted tests of differences between silos."""
    text = (
        f"The share of each column’s variance that lies between the means of the "
        f"{counted(model.n_silos_, 'silo')} (η²), with a test of equal means (F, of a "
        f"one-way analysis of variance, with df1 and df2 degrees of freedom; p-values "
        f"adjusted for the number of columns by Holm’s procedure) and a test of equal "
        f"variances (Levene’s). Orange bars have an adjusted p-value below 0.05, blue "
        f"ones do not. No silo’s own mean was released."
    )
    exhibits = [_shares(model, "", "Column", "Differences between silos", text)]
    if "wilks_" not in vars(model):
        return exhibits
    text = (
        "The same for principal components of the standardised columns, whose loadings "
        "are below. The angle measures the error of a simpler method, which adds the "
        "silos’ own covariance matrices and ignores that their means differ: it is the "
        "largest principal angle between the first components of that method, up to "
        "each, and these."
    )
    heading = "Site effects by component"
    exhibits.append(_shares(model, "component_", "Component", heading, text))
    exhibits.append(_multivariate_tests(model))
    if "permutation_" in vars(model):
        exhibits.append(_permutation_test(model))
    return [*exhibits, *loadings(model.components_, columns)]


def _shares(
    model: "Heterogeneity", prefix: str, head: str, heading: str, text: str
) -> Exhibit:
    share = np.nan_to_num(getattr(model, f"{prefix}eta_squared_"))
    names = ordinals(len(share)) if prefix else list(model.columns_)
    order = np.arange(len(share)) if prefix else np.argsort(-share, kind="stable")

    def values(attribute: str) -> Array:
        return np.asarray(getattr(model, f"{prefix}{attribute}"), float)[order]

    between = Column("Share between silos", "share", "eta_squared", bar=True)
    adjusted = Column("p-value, adjusted", "p-value", "p_adjusted")
    cells = {
        Column(head): [names[int(j)] for j in order],
        between: share[order],
        Column("F", "number", "f_statistic"): values("f_statistic_"),
        Column("df1", "df", "df_between"): model.n_silos_ - 1,
        Column("df2", "df", "df_within"): model.n_samples_ - model.n_silos_,
        Column("p-value", "p-value"): values("p_value_"),
        adjusted: values("p_adjusted_"),
        Column("p-value, variances", "p-value", "spread_p_value"): values(
            "spread_p_value_"
        ),
    }
    if prefix:
        cells[Column("Angle, degrees", "number")] = model.angles_
    items = "components" if prefix else "columns"
    which = "first" if prefix else "largest"
    table = ResultTable.of(items, cells, items=items, which=which)
    largest = int(np.argmax(share))
    picture = Picture(
        f"shares_of_{table.name}",
        "Shares of variance between silos",
        f"Bars of shares of variance between silos; the largest is "
        f"{per_cent(share[largest])} of {head.lower()} {names[largest]}. The numbers "
        f"are in the table below.",
        partial(charts.shares_between_silos, model, prefix),
        (table.name,),
    )
    return Exhibit(heading, text, [table], picture)


def _multivariate_tests(model: "Heterogeneity") -> Exhibit:
    tests = {
        "Equal means, Wilks’ lambda": (model.wilks_, "F"),
        "Equal means, Pillai’s trace": (model.pillai_, "F"),
        "Equal covariance matrices, Box’s M": (model.box_m_, "χ²"),
    }
    rows = [
        (
            name,
            test["statistic"],
            distribution,
            test["approximation"],
            *(*test["dof"], None)[:2],
            test["p_value"],
        )
        for name, (test, distribution) in tests.items()
        if test is not None
    ]
    text = (
        "Multivariate tests of all columns. They assume normality, and with many rows "
        "even unimportant differences are significant: look at the shares first."
    )
    note = "" if model.box_m_ else _NO_BOX
    heads = (
        Column("Test"),
        Column("Statistic", "number"),
        Column("Distribution"),
        Column("Approximation", "number"),
        Column("df1", "df", "df_1"),
        Column("df2", "df", "df_2"),
        Column("p-value", "p-value"),
    )
    table = ResultTable("multivariate_tests", heads, rows, note=note)
    return Exhibit("All columns at once", text, [table])


def _permutation_test(model: "Heterogeneity") -> Exhibit:
    B = model.permutations
    text = (
        f"Pillai’s trace of the silos beside those of {B:,} other groups of the silos’ "
        f"sizes, into which each silo dealt its own rows at random. The test holds for "
        f"rows of any distribution. For it the silos showed their numbers of rows."
    )
    names = {Column("Test"): ["Equal means, Pillai’s trace"]}
    table = ResultTable.of(
        "permutations", names | permutation_cells(**model.permutation_)
    )
    return Exhibit("All columns at once, by permutations", text, [table])
