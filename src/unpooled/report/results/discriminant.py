"""Results of linear discriminant analysis: directions, and classes along two of them.

People are drawn only where silos disclosed their coordinates:
`LinearDiscriminantAnalysis(scores="coordinator")`.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.models.discriminant.discriminant import LinearDiscriminantAnalysis
from unpooled.report.exhibits import Exhibit, Picture, Table
from unpooled.report.plots import scatter_plots
from unpooled.report.results.describe import MOST_ROWS, describe, fitted_attributes
from unpooled.report.text.phrases import per_cent, signed


@describe.register
def _discriminants(
    model: LinearDiscriminantAnalysis, columns: Sequence[str]
) -> list[Exhibit]:
    if "means_" not in vars(model):
        # A one-shot algorithm finds directions, and no class means to draw.
        return fitted_attributes(model, columns)
    exhibits = [_directions(model)]
    if model.scalings_.shape[1] >= 2 and len(model.classes_) <= MOST_ROWS:
        exhibits.append(_classes(model))
    return exhibits


def _directions(model: LinearDiscriminantAnalysis) -> Exhibit:
    shares = model.explained_variance_ratio_
    rows = [(f"{j + 1}", per_cent(share)) for j, share in enumerate(shares)]
    text = (
        "How much of the separation of the classes lies along each discriminant "
        "direction: its share of the between-class variance, in units of the "
        "within-class variance (proportion of trace)."
    )
    table = Table("", ("Direction", "Share"), rows)
    return Exhibit("Discriminant directions", text, [table])


def _classes(model: LinearDiscriminantAnalysis) -> Exhibit:
    means = model.means_ @ model.scalings_[:, :2]
    classes = [str(name) for name in model.classes_]
    people = _people(model, classes)
    table = Table(
        "",
        # Without priors of the user's own they are the classes' shares of rows.
        ("Class", "Prior probability", "First", "Second")
        if model.priors is not None
        else ("Class", "Share of rows", "First", "Second"),
        [
            (name, per_cent(share), signed(x), signed(y))
            for name, share, (x, y) in zip(classes, model.priors_, means, strict=True)
        ],
    )
    text = (
        "Means of the classes along the first two directions. A circle has the radius "
        "of one standard deviation within classes. "
    )
    text += (
        f"The {sum(map(len, people.values())):,} people drawn are those whose "
        f"coordinates the silos disclosed, as their policies allow."
        if people
        else "People are not drawn: their coordinates stay in the silos."
    )
    picture = Picture(
        "Classes by discriminants",
        f"The means of {len(classes)} classes in the plane of the first two "
        f"discriminants{', and people around them' if people else ''}. The numbers of "
        f"the classes are in the table below.",
        partial(scatter_plots.classes, means, classes, people),
    )
    return Exhibit("Classes", text, [table], picture)


def _people(model: Any, classes: Sequence[str]) -> dict[str, Float[Array, "_ 2"]]:
    """Return the coordinates of people by class, where silos disclosed some."""
    if "scores_" not in vars(model):
        return {}
    names = np.array([str(name) for name in model.score_classes_])
    return {name: model.scores_[names == name, :2] for name in classes}
