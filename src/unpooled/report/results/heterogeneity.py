"""Results on differences between silos: shares of variance, multivariate tests."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from unpooled.models.heterogeneity.heterogeneity import Heterogeneity
from unpooled.report.exhibits import Exhibit, Picture, Table
from unpooled.report.plots import charts
from unpooled.report.results.describe import MOST_ROWS, describe
from unpooled.report.results.pca import loadings
from unpooled.report.text.phrases import (
    counted,
    number,
    per_cent,
    plain_number,
    probability,
)

_NO_BOX = (
    "Box’s M (equal covariance matrices) was not computed: in at least one silo a "
    "column is a linear combination of others."
)
_HEAD = (
    "Share between silos",
    "F",
    "p-value",
    "p-value, adjusted",
    "p-value, variances",
)


@describe.register
def _site_effects(model: Heterogeneity, columns: Sequence[str]) -> list[Exhibit]:
    text = (
        f"The share of each column’s variance that lies between the means of the "
        f"{counted(model.n_silos_, 'silo')} (η²), with a test of equal means (F, of a "
        f"one-way analysis of variance; p-values adjusted for the number of columns by "
        f"Holm’s procedure) and a test of equal variances (Levene’s). Blue bars have "
        f"an adjusted p-value below 0.05, orange ones do not. No silo’s own mean was "
        f"released."
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
    return [*exhibits, *loadings(model.components_, columns)]


def _shares(
    model: Heterogeneity, prefix: str, head: str, heading: str, text: str
) -> Exhibit:
    def values(attribute: str) -> list[float]:
        return np.asarray(getattr(model, f"{prefix}{attribute}"), float).tolist()

    share = np.nan_to_num(values("eta_squared_"))
    names = [f"{j + 1}" for j in range(len(share))] if prefix else list(model.columns_)
    order = np.arange(len(share)) if prefix else np.argsort(-share, kind="stable")
    cells = [
        names,
        [per_cent(x) for x in share.tolist()],
        [number(x) for x in values("f_statistic_")],
        *(
            [probability(x) for x in values(attribute)]
            for attribute in ("p_value_", "p_adjusted_", "spread_p_value_")
        ),
    ]
    heads = (head, *_HEAD)
    if prefix:
        heads += ("Angle, degrees",)
        cells.append([number(x) for x in model.angles_.tolist()])
    rows = [tuple(column[int(j)] for column in cells) for j in order[:MOST_ROWS]]
    note = ""
    if len(names) > MOST_ROWS:
        note = f"Of {len(names):,}, the {MOST_ROWS} largest shares are shown."
    largest = int(np.argmax(share))
    picture = Picture(
        "Shares of variance between silos",
        f"Bars of shares of variance between silos; the largest is "
        f"{per_cent(share[largest])} of {head.lower()} {names[largest]}. The numbers "
        f"are in the table below.",
        partial(charts.shares_between_silos, model, prefix),
    )
    return Exhibit(heading, text, [Table("", heads, rows, note)], picture)


def _multivariate_tests(model: Heterogeneity) -> Exhibit:
    tests = {
        "Equal means, Wilks’ lambda": (model.wilks_, "F"),
        "Equal means, Pillai’s trace": (model.pillai_, "F"),
        "Equal covariance matrices, Box’s M": (model.box_m_, "χ²"),
    }
    rows = [
        (
            name,
            number(test["statistic"]),
            f"{distribution} = {number(test['approximation'])}",
            " and ".join(plain_number(x) for x in test["dof"]),
            probability(test["p_value"]),
        )
        for name, (test, distribution) in tests.items()
        if test is not None
    ]
    text = (
        "Multivariate tests of all columns. They assume normality, and with many rows "
        "even unimportant differences are significant: look at the shares first."
    )
    note = "" if model.box_m_ else _NO_BOX
    heads = ("Test", "Statistic", "Approximation", "Degrees of freedom", "p-value")
    return Exhibit("All columns at once", text, [Table("", heads, rows, note)])
