"""Pictures and tables of how different silos are: of all together, none by itself."""

from typing import Any

import numpy as np

from unpooled.report.exhibit import Exhibit
from unpooled.report.exhibits import Table, number, per_cent, plain_number, probability
from unpooled.report.plots import scatter_plots as planes
from unpooled.report.text.phrases import counted

MOST = 30
_NO_BOX = (
    "Box’s M, of equal covariances, is left out: at one silo a column follows from "
    "others."
)
_HEAD = ("Share between silos", "F", "p-value", "p-value, adjusted", "p-value, spreads")


def site_effects(model: Any, name: str) -> list[Exhibit]:
    """Return the shares of columns and components, and the tests of all at once."""
    text = (
        f"Which share of each column’s variance is between the means of the "
        f"{counted(model.n_silos_, 'silo')}, with a test of equal means (F, of a "
        f"one-way analysis of variance; p-values adjusted for the number of columns by "
        f"Holm’s procedure) and one of equal spreads (Levene’s). Blue bars have an "
        f"adjusted p-value below 0.05, orange ones have not. No silo’s own mean was "
        f"released."
    )
    shown = [_shares(model, "", "Column", "Differences between silos", text, name)]
    if "wilks_" not in vars(model):
        return shown
    text = (
        "The same for principal components of the standardised columns, whose loadings "
        "are below. The angle says how wrong a simpler method would be that adds the "
        "silos’ own covariances and leaves out that their means differ: it is the "
        "largest one between its first components, up to each, and these."
    )
    heading = "Site effects by component"
    shown.append(_shares(model, "component_", "Component", heading, text, name))
    return [*shown, _all_at_once(model)]


def _shares(
    model: Any, prefix: str, head: str, heading: str, text: str, name: str
) -> Exhibit:
    def values(attribute: str) -> list[float]:
        return np.asarray(getattr(model, f"{prefix}{attribute}"), float).tolist()

    share = np.nan_to_num(values("eta_squared_"))
    names = [f"{j + 1}" for j in range(len(share))] if prefix else list(model.columns_)
    order = np.arange(len(share)) if prefix else np.argsort(-share, kind="stable")
    columns = [
        names,
        [per_cent(one) for one in share.tolist()],
        [number(one) for one in values("f_statistic_")],
        *(
            [probability(one) for one in values(attribute)]
            for attribute in ("p_value_", "p_adjusted_", "spread_p_value_")
        ),
    ]
    heads = (head, *_HEAD)
    if prefix:
        heads += ("Angle, degrees",)
        columns.append([number(one) for one in model.angles_.tolist()])
    rows = [tuple(own[int(j)] for own in columns) for j in order[:MOST]]
    note = (
        "" if len(names) <= MOST else f"Of {len(names):,}, the {MOST} largest shares."
    )
    largest = int(np.argmax(share))
    picture = planes.shares(
        model,
        prefix,
        f"{name}-{head.lower()}",
        f"Bars of shares of variance between silos; the largest is "
        f"{per_cent(share[largest])} of {head.lower()} {names[largest]}. The numbers "
        f"are in the table below.",
    )
    return Exhibit(heading, text, [Table("", heads, rows, note)], picture)


def _all_at_once(model: Any) -> Exhibit:
    tests = {
        "Equal means, Wilks’ lambda": (model.wilks_, "F"),
        "Equal means, Pillai’s trace": (model.pillai_, "F"),
        "Equal covariances, Box’s M": (model.box_m_, "χ²"),
    }
    rows = [
        (
            what,
            number(test["statistic"]),
            f"{kind} = {number(test['approximation'])}",
            " and ".join(plain_number(one) for one in test["dof"]),
            probability(test["p_value"]),
        )
        for what, (test, kind) in tests.items()
        if test is not None
    ]
    text = (
        "Tests of all columns together. They hold for normal rows, and with many rows "
        "find differences that do not matter: look at the shares first."
    )
    note = "" if model.box_m_ else _NO_BOX
    heads = ("Test", "Statistic", "Compared as", "Degrees of freedom", "p-value")
    return Exhibit("All columns at once", text, [Table("", heads, rows, note)])
