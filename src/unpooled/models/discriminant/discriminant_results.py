"""Results of linear discriminant analysis: directions, and classes along two of them.

People are drawn only where silos disclosed their coordinates:
`LinearDiscriminantAnalysis(scores="coordinator")`.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.results.exhibits import MOST_ROWS, Column, Exhibit, Picture, Table
from unpooled.results.plots import scatter_plots

if TYPE_CHECKING:
    from unpooled.models.discriminant.discriminant import LinearDiscriminantAnalysis


def discriminant_exhibits(
    model: "LinearDiscriminantAnalysis", columns: Sequence[str]
) -> list[Exhibit]:
    """Return the exhibits of a fitted discriminant analysis."""
    if "means_" not in vars(model):
        # A one-shot algorithm finds directions, and no class means to draw.
        return []
    exhibits = [_directions(model)]
    if model.scalings_.shape[1] >= 2 and len(model.classes_) <= MOST_ROWS:
        exhibits.append(_classes(model))
    return exhibits


def _directions(model: "LinearDiscriminantAnalysis") -> Exhibit:
    shares = model.explained_variance_ratio_
    rows = [(f"{j + 1}", share) for j, share in enumerate(shares)]
    text = (
        "How much of the separation of the classes lies along each discriminant "
        "direction: its share of the between-class variance, in units of the "
        "within-class variance (proportion of trace)."
    )
    heads = (Column("Direction"), Column("Share", "share", bar=True))
    table = Table("proportion_of_trace", heads, rows, items="directions")
    return Exhibit("Discriminant directions", text, [table])


def _classes(model: "LinearDiscriminantAnalysis") -> Exhibit:
    means = model.means_ @ model.scalings_[:, :2]
    classes = [str(name) for name in model.classes_]
    people = _people(model, classes)
    # Without priors of the user's own they are the classes' shares of rows.
    own = model.priors is not None
    table = Table(
        "classes",
        (
            Column("Class"),
            Column("Prior probability" if own else "Share of rows", "share", "prior"),
            Column("First", "signed", "first_discriminant"),
            Column("Second", "signed", "second_discriminant"),
        ),
        [
            (name, share, *mean)
            for name, share, mean in zip(classes, model.priors_, means, strict=True)
        ],
        items="classes",
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
        "classes",
        "Classes by discriminants",
        f"The means of {len(classes)} classes in the plane of the first two "
        f"discriminants{', and people around them' if people else ''}. The numbers of "
        f"the classes are in the table below.",
        partial(scatter_plots.classes, means, classes, people),
        (table.name,),
    )
    return Exhibit("Classes", text, [table], picture)


def _people(
    model: "LinearDiscriminantAnalysis", classes: Sequence[str]
) -> dict[str, Float[Array, "_ 2"]]:
    """Return the coordinates of people by class, where silos disclosed some."""
    if "scores_" not in vars(model):
        return {}
    names = np.array([str(name) for name in model.score_classes_])
    return {name: model.scores_[names == name, :2] for name in classes}
