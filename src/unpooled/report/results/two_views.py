"""Pictures and tables of discriminants and canonical correlations.

Class means and correlations of columns are totals. Scores of people are among them only
where the silos showed some: `LinearDiscriminantAnalysis(scores="coordinator")`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.report.exhibit import Exhibit
from unpooled.report.exhibits import Table, number, per_cent, probability, signed
from unpooled.report.plots import scatter_plots as planes

MOST = 30


def discriminants(model: Any, name: str) -> list[Exhibit]:
    """Return the shares of discriminant directions, and the classes along them."""
    shares = np.asarray(model.explained_variance_ratio_)
    rows = [(f"{j + 1}", per_cent(share)) for j, share in enumerate(shares)]
    table = Table("", ("Direction", "Share"), rows)
    text = (
        "How much of what separates the classes lies along each direction: its share "
        "of the variance between classes, in units of that within."
    )
    shown = [Exhibit("Discriminant directions", text, [table])]
    means = model.means_ @ model.scalings_[:, :2]
    classes = [str(one) for one in model.classes_]
    if means.shape[1] < 2 or len(classes) > MOST:
        return shown
    people = _people(model, classes)
    picture = planes.classes(
        means,
        classes,
        name,
        f"The means of {len(classes)} classes in the plane of the first two "
        f"discriminants{', and people around them' if people else ''}. The numbers of "
        f"the classes are in the table below.",
        people,
    )
    table = Table(
        "",
        ("Class", "Share of rows", "First", "Second"),
        [
            (one, per_cent(share), signed(x), signed(y))
            for one, share, (x, y) in zip(classes, model.priors_, means, strict=True)
        ],
    )
    text = (
        "Means of the classes along the first two directions. A circle has the radius "
        "of one standard deviation within classes. "
    )
    text += (
        f"The {sum(map(len, people.values())):,} people drawn are those whose "
        f"coordinates the silos showed, as their policies allow."
        if people
        else "People are not drawn: their coordinates stay in the silos."
    )
    return [*shown, Exhibit("Classes", text, [table], picture)]


def _people(model: Any, classes: Sequence[str]) -> dict[str, Float[Array, "_ 2"]]:
    """Return where people lie, by class, as far as silos showed them."""
    found = vars(model)
    if "scores_" not in found:
        return {}
    names = np.array([str(one) for one in found["score_classes_"]])
    return {one: found["scores_"][names == one, :2] for one in classes}


def canonical(model: Any, name: str) -> list[Exhibit]:
    """Return the correlations of scores, and the columns in the correlation circle."""
    found = vars(model).get("canonical_correlations_")
    title = "Correlations of the scores" if found is None else "Canonical correlations"
    r = np.asarray(model.score_correlations_ if found is None else found)
    head, columns = ["Pair", "Correlation"], [[f"{j + 1}" for j in range(len(r))]]
    columns.append([number(float(one)) for one in r])
    if hasattr(model, "all_correlations_"):
        test = model.significance()
        head += ["Wilks’ lambda", "Bartlett’s statistic", "p-value"]
        found = (test.wilks, test.statistic)
        columns += [[number(float(one)) for one in own[: len(r)]] for own in found]
        columns.append([probability(float(one)) for one in test.p_value[: len(r)]])
    table = Table("", tuple(head), list(zip(*columns, strict=True)))
    picture = planes.bars(
        r,
        f"{name}-r",
        title,
        f"Bars of {len(r)} correlations of scores; the first is {r[0]:.2f}. The "
        f"numbers are in the table below.",
    )
    text = "How strongly the scores of the two views go together, pair by pair."
    if len(head) > 2:
        text += (
            " Bartlett’s test asks whether this correlation and all that follow could "
            "be 0; its p-value holds for normal rows."
        )
    shown = [Exhibit(title, text, [table], picture)]
    if len(r) < 2 or not hasattr(model, "x_correlations_"):
        return shown
    return [*shown, _circle(model, f"{name}-circle")]


def generalised(model: Any) -> Exhibit:
    """Return how much three or more parties' scores have in common, pair by pair."""
    rows = [(f"{j + 1}", number(float(v))) for j, v in enumerate(model.eigenvalues_)]
    what = {
        "maxvar": "The eigenvalue is the number of parties where their scores are the "
        "same, and 1 where they have nothing in common (without a regularisation)",
        "sumcor": "The eigenvalue is the sum of covariances between the parties’ "
        "scores, which have a sum of variances of 1, regularisation included",
    }[model.criterion]
    text = f"How strongly the scores of all parties go together. {what}."
    table = Table("", ("Scores", "Eigenvalue"), rows)
    return Exhibit("Generalised correlations", text, [table])


def _circle(model: Any, name: str) -> Exhibit:
    points = np.concatenate([model.x_correlations_, model.y_correlations_])[:, :2]
    names: Sequence[str] = [*model.x_columns_, *model.y_columns_]
    first = np.arange(len(names)) < len(model.x_columns_)
    order = np.argsort(-np.linalg.norm(points, axis=1), kind="stable")[:MOST]
    picture = planes.circle(
        points[order],
        [names[int(j)] for j in order],
        first[order],
        name,
        "The columns of both views, placed by their correlations with the scores of "
        "the first two pairs. The numbers are in the table below.",
    )
    rows = [
        (
            names[int(j)],
            "first" if first[j] else "second",
            *map(signed, points[j].tolist()),
        )
        for j in order
    ]
    text = (
        "Correlations of each column with the scores of its own view; the first view’s "
        "columns are blue, the second’s are orange. The two pairs of scores say nearly "
        "everything about a column near the circle, and little about one near its "
        "centre."
    )
    note = (
        "" if len(names) <= MOST else f"Of {len(names):,} columns, the {MOST} farthest."
    )
    table = Table("", ("Column", "View", "First pair", "Second pair"), rows, note)
    return Exhibit("Correlation circle", text, [table], picture)
