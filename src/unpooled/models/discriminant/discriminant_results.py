"""Results of linear discriminant analysis: classes, directions, decision functions.

Scores are those of scikit-learn's default solver, "svd": centred at the mean of the
classes weighted by their priors. People are drawn only where silos disclosed their
coordinates: `LinearDiscriminantAnalysis(scores="coordinator")`.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.results.exhibits import MOST_ROWS, Column, Exhibit, Picture, ResultTable
from unpooled.results.fitted_attributes import (
    columns_by,
    fitting,
    numbered,
    ordinals,
    without_rounding,
)
from unpooled.results.formats import (
    counted,
    listed,
    number,
    per_cent,
)
from unpooled.results.plots import charts, class_plots
from unpooled.results.plots.drawing import short

if TYPE_CHECKING:
    from unpooled.models.discriminant.discriminant import LinearDiscriminantAnalysis

_MOST_CURVES = 8  # classes along one direction
_MOST_PANELS = 3  # directions whose correlations are drawn side by side
_MOST_COEFFICIENTS = 5  # classes whose coefficients are drawn side by side
_TITLE, _ALONE = 12, 40  # letters of a class above its panel, and above a single one


def discriminant_exhibits(
    model: "LinearDiscriminantAnalysis", columns: Sequence[str]
) -> list[Exhibit]:
    """Return the exhibits of a fitted discriminant analysis."""
    if "means_" not in vars(model):
        return _one_shot(model, columns)
    exhibits = [_classes(model), _directions(model, columns)]
    if "within_correlations_" in vars(model):
        exhibits.append(_structure(model, columns))
    exhibits += [_decisions(model, columns), _class_means(model, columns)]
    if "eigenvalues_" in vars(model) and "n_features_in_" in vars(model):
        exhibits.append(_tests_of_means(model))
    return exhibits


def _tests_of_means(model: "LinearDiscriminantAnalysis") -> Exhibit:
    tests = model.manova()
    table = ResultTable.of(
        "tests_of_means",
        {
            Column("Test"): [name.replace("'", "’") for name in tests.index],
            Column("Value", "number"): tests["value"],
            Column("F", "number"): tests["f_value"],
            Column("df1", "df", "num_df"): tests["num_df"],
            Column("df2", "df", "den_df"): tests["den_df"],
            Column("p-value", "p-value", "p"): tests["p_value"],
        },
    )
    text = (
        "Whether all classes have the same means (MANOVA). The tests assume normal "
        "rows with equal covariances within classes; with many rows small differences "
        "are significant too. "
    )
    if len(model.classes_) > 2:
        text += "The p of Roy’s root is a lower bound."
    else:
        text += "For two classes the four tests are one."
    return Exhibit("Tests of the class means", text, [table])


def _names(model: "LinearDiscriminantAnalysis") -> list[str]:
    return [str(name) for name in model.classes_]


def _centre(model: "LinearDiscriminantAnalysis") -> Float[Array, " p"]:
    """Return what scikit-learn calls `xbar_`."""
    return model.priors_ @ model.means_


def _at_zero(model: "LinearDiscriminantAnalysis") -> bool:
    """Whether columns were centred before: their means are rounding errors."""
    centre = _centre(model)
    apart = np.abs(model.means_ - centre).max(initial=0.0)
    return bool(np.abs(centre).max(initial=0.0) <= 1e-9 * apart)


def _class_scores(model: "LinearDiscriminantAnalysis") -> Float[Array, "c k"]:
    return (model.means_ - _centre(model)) @ model.scalings_


def _centred_at(model: "LinearDiscriminantAnalysis") -> str:
    if model.priors is None:
        return "the mean of all rows"
    return "the mean of the class means, weighted by the prior probabilities"


def _classes(model: "LinearDiscriminantAnalysis") -> Exhibit:
    names, k = _names(model), model.scalings_.shape[1]
    table = _class_table(model, names)
    if len(names) == 2:
        return _two_classes(model, names, table)
    if k < 2 or len(names) > MOST_ROWS:
        return _along_one(model, names, table)
    return _plane(model, names, table)


def _class_table(
    model: "LinearDiscriminantAnalysis", names: Sequence[str]
) -> list[ResultTable]:
    """Return sizes, priors and mean scores of the classes."""
    scores, own = _class_scores(model), model.priors is not None
    sizes = vars(model).get("class_count_")
    cells: dict[Column, Any] = {Column("Class"): names}
    if sizes is not None:
        cells[Column("Rows", "count")] = sizes
    # Without priors of the user's own they are the classes' shares of rows.
    heading = "Prior probability" if own else "Share of rows"
    cells[Column(heading, "share", "prior")] = model.priors_
    before = len(cells)
    for j, mean in zip(ordinals(len(scores.T)), scores.T, strict=True):
        cells[Column(f"Mean score {j}", "number", f"discriminant_{j}")] = mean
    table = ResultTable.of("classes", cells, items="classes")
    return fitting(table, range(before, len(cells)), "directions")


def _plane(
    model: "LinearDiscriminantAnalysis", names: list[str], tables: list[ResultTable]
) -> Exhibit:
    """Return the classes in the plane of the first two directions."""
    means = _class_scores(model)[:, :2]
    covariances, own = _score_covariances(model)
    people = _people(model, names)
    both = Column("Covariance of scores 1 and 2", "number", "covariance_12")
    table = ResultTable.of(
        "score_covariances",
        {
            Column("Class"): names,
            Column("Variance of score 1", "number", "variance_1"): covariances[:, 0, 0],
            both: covariances[:, 0, 1],
            Column("Variance of score 2", "number", "variance_2"): covariances[:, 1, 1],
        },
        caption="Covariances of the scores within classes, which shape the ellipses. "
        "Their denominators are numbers of rows.",
        items="classes",
        place="files",
    )
    whose = "that class’s own covariance" if own else "the covariance all classes share"
    text = (
        f"Means of the classes along the first two discriminant directions, in "
        f"standard deviations within classes from {_centred_at(model)}. An ellipse "
        f"has {whose}; it holds {100 * class_plots.SHARE:.0f} % of a class whose "
        f"scores are normally distributed. Ellipses that overlap are classes that the "
        f"two directions do not tell apart. "
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
        f"The means of {len(names)} classes in the plane of the first two "
        f"discriminants, with an ellipse around each"
        f"{', and people around them' if people else ''}. The numbers of the classes "
        f"are in the table below.",
        partial(class_plots.plane, means, covariances, names, people),
        ("classes", table.name),
    )
    return Exhibit("Classes", text, [*tables, table], picture)


def _score_covariances(
    model: "LinearDiscriminantAnalysis",
) -> tuple[Float[Array, "c 2 2"], bool]:
    """Return the covariances of two scores by class, and whether each has its own."""
    fitted = vars(model)
    if "class_score_covariances_" in fitted:
        return fitted["class_score_covariances_"][:, :2, :2], True
    # A model of an older version: by its scaling it is the identity.
    common = fitted.get("score_covariance_", np.eye(2))[:2, :2]
    return np.array([common] * len(model.classes_)), False


def _people(
    model: "LinearDiscriminantAnalysis", classes: Sequence[str]
) -> dict[str, Float[Array, "_ 2"]]:
    """Return the scores of people by class, where silos disclosed some."""
    if "scores_" not in vars(model):
        return {}
    names = np.array([str(name) for name in model.score_classes_])
    scores = (model.scores_ - _centre(model) @ model.scalings_)[:, :2]
    return {name: scores[names == name] for name in classes}


def _along_one(
    model: "LinearDiscriminantAnalysis", names: list[str], tables: list[ResultTable]
) -> Exhibit:
    """Return the classes along the first direction, where a plane cannot be drawn."""
    means = _class_scores(model)[:, 0]
    text = (
        f"Means of the classes along the discriminant directions, in standard "
        f"deviations within classes from {_centred_at(model)}. "
    )
    if len(names) > _MOST_CURVES or "score_covariance_" not in vars(model):
        return Exhibit("Classes", text.strip(), tables)
    spread = float(np.sqrt(model.score_covariance_[0, 0]))
    table = ResultTable(
        "spread",
        (Column("Quantity"), Column("Score", "number")),
        [("Standard deviation within classes", spread)],
        place="files",
    )
    text += (
        f"The curves are normal, with these means, the standard deviation that all "
        f"classes share ({number(spread)}), and the prior probabilities as areas. "
        f"People are not drawn: their scores stay in the silos."
    )
    picture = Picture(
        "densities",
        "Classes along the first discriminant",
        f"{len(names)} normal curves with a standard deviation of {spread:.2f}. The "
        f"means are in the table below.",
        partial(class_plots.densities, means, spread, model.priors_, names),
        ("classes", table.name),
    )
    return Exhibit("Classes", text, [*tables, table], picture)


def _two_classes(
    model: "LinearDiscriminantAnalysis", names: list[str], tables: list[ResultTable]
) -> Exhibit:
    """Return two classes along the direction of the decision function."""
    coef, intercept = model.coef_[0], float(model.intercept_[0])
    # The decision function has this variance within classes, as the model has it.
    variance = float(coef @ np.diff(model.means_, axis=0)[0])
    if "decision_std_" not in vars(model) or not variance > 0:
        text = "Means of the two classes along the discriminant direction."
        return Exhibit("Classes", text, tables)
    # In these units, and turned as scores are, it is the first discriminant, but for a
    # model with a shrinkage or priors of its own, whose directions are others.
    apart = np.diff(_class_scores(model)[:, 0])[0]
    unit = np.sqrt(variance) if apart >= 0 else -np.sqrt(variance)
    spread = float(model.decision_std_[0]) / np.sqrt(variance)
    centre = _centre(model)
    means = (model.means_ - centre) @ coef / unit
    # With equally likely classes the threshold is 0 up to rounding.
    crossing = np.array([-(intercept + centre @ coef) / unit])
    threshold = float(without_rounding(crossing, 1.0)[0])
    low, high = np.argsort(means)
    shares = [
        f"{name} {per_cent(prior)}"
        for name, prior in zip(names, model.priors_, strict=True)
    ]
    rows = [
        *((f"Mean of {name}", mean) for name, mean in zip(names, means, strict=True)),
        ("Standard deviation within classes", spread),
        ("Threshold", threshold),
        ("Distance between the means", abs(means[1] - means[0])),
    ]
    table = ResultTable(
        "threshold",
        (Column("Quantity"), Column("Score", "number")),
        rows,
        caption="Along the direction of the decision function",
    )
    text = (
        f"Both classes along the direction that separates them best. The score is the "
        f"weighted sum of the columns, in the model’s standard deviations within "
        f"classes from {_centred_at(model)}; a row with a score above "
        f"{number(threshold)} is predicted to be {names[int(high)]}, one below to be "
        f"{names[int(low)]}. The "
        f"curves are normal, with the means of the classes, the standard deviation "
        f"that both share, and the prior probabilities ({listed(shares)}) as "
        f"areas. People are not drawn: their scores stay in the silos."
    )
    if not np.isclose(spread, 1.0, rtol=1e-6):
        text += (
            " The model shrinks the covariance matrix, or weighs classes by the given "
            "priors; the curves have the standard deviation of the rows, so that they "
            "need not cross at the threshold."
        )
    picture = Picture(
        "densities",
        "Two classes along the discriminant",
        f"Two normal curves with means {means[0]:.2f} ({names[0]}) and {means[1]:.2f} "
        f"({names[1]}) and standard deviation {spread:.2f}, and the threshold "
        f"{threshold:.2f}. The numbers are in the tables below.",
        partial(class_plots.densities, means, spread, model.priors_, names, threshold),
        ("threshold", "classes"),
    )
    return Exhibit("Classes", text, [*tables, table], picture)


def _directions(model: "LinearDiscriminantAnalysis", columns: Sequence[str]) -> Exhibit:
    shares = model.explained_variance_ratio_
    table = ResultTable.of(
        "proportion_of_trace",
        {
            Column("Direction"): ordinals(len(shares)),
            Column("Share", "share", bar=True): shares,
        },
        items="directions",
        # The share of a single direction is 1, which nobody needs to read.
        place="everywhere" if len(shares) > 1 else "files",
    )
    scalings = columns_by(
        "scalings",
        columns,
        numbered(model.scalings_, key="discriminant"),
        above=("(constant)", *(-_centre(model) @ model.scalings_))
        if not _at_zero(model)
        else None,
        caption="Weights of the columns in each direction (scalings)",
    )
    text = (
        "How much of the separation of the classes lies along each discriminant "
        "direction: its share of the between-class variance, in units of the "
        "within-class variance (proportion of trace). "
        if len(shares) > 1
        else "The direction along which the classes differ most, in units of the "
        "variance within classes. "
    )
    # As scikit-learn has them: parts of a sum over all eigenvalues.
    every = len(shares) == min(len(model.classes_) - 1, len(columns))
    if every and abs(float(np.sum(shares)) - 1.0) > 1e-9:
        text += (
            "They do not add up to 100 %: where covariance matrices are shrunk, that "
            "between the classes (of all rows less within) has further directions, "
            "some of them negative. "
        )
    text += "A score is the sum of each column times its weight"
    text += "." if _at_zero(model) else ", plus the constant."
    return Exhibit("Discriminant directions", text, [table, *scalings])


def _structure(model: "LinearDiscriminantAnalysis", columns: Sequence[str]) -> Exhibit:
    within, total = model.within_correlations_, model.total_correlations_
    k = within.shape[1]
    tables = [
        *columns_by(
            "within_correlations",
            columns,
            numbered(within, "signed", "discriminant"),
            caption="Within classes: about the means of the classes (pooled)",
        ),
        *columns_by(
            "total_correlations",
            columns,
            numbered(total, "signed", "discriminant"),
            caption="Total: about the means of all rows",
            place="files",
        ),
    ]
    shown = min(k, _MOST_PANELS)
    order = np.argsort(-np.abs(within[:, 0]), kind="stable")[:MOST_ROWS]
    text = (
        "Correlations of the columns with the scores (structure correlations): which "
        "columns a direction stands for. Unlike weights they do not depend on units, "
        "nor on which other columns are in the model. Those within classes, about the "
        "means of the classes (pooled), are shown; the files also have the total ones, "
        "about the means of all rows. The bars are the correlations within classes"
        + (
            f" of the {len(order)} columns with the largest for direction 1."
            if len(order) < len(columns)
            else "."
        )
    )
    titles = [f"direction {j + 1}" for j in range(shown)]
    picture = Picture(
        "structure",
        "Correlations of columns with discriminants",
        f"Bars of correlations within classes; the largest with the first direction "
        f"is that of {columns[int(order[0])]}. The numbers are in the table below.",
        partial(
            charts.loadings,
            within[order, :shown].T,
            [columns[int(j)] for j in order],
            titles,
        ),
        ("within_correlations",),
    )
    return Exhibit("Structure correlations", text, tables, picture)


def _decisions(model: "LinearDiscriminantAnalysis", columns: Sequence[str]) -> Exhibit:
    names = _names(model)
    coef, intercept = model.coef_, model.intercept_
    if len(names) == 2:
        head, key = f"{names[1]} rather than {names[0]}", "coefficient"
        heads = [Column(head, "number", key)]
        text = (
            f"The intercept plus each column times its coefficient is the log odds of "
            f"{names[1]} rather than {names[0]}: {names[1]} is predicted where it is "
            f"above 0."
        )
    else:
        heads = [Column(name, "number", f"class_{name}") for name in names]
        # As of scikit-learn's "svd": about the mean, what all classes have in common
        # left out.
        common = model.priors_ @ coef
        coef, intercept = coef - common, intercept + _centre(model) @ common / 2
        text = (
            "For each class, the intercept plus each column times its coefficient is "
            "the decision function. The class with the largest is predicted, and their "
            "softmax is the classes’ probabilities."
        )
    intercept = without_rounding(intercept, np.abs(coef).max(axis=1))
    cells, above = dict(zip(heads, coef, strict=True)), ("(intercept)", *intercept)
    tables = columns_by("coefficients", columns, cells, above=above)
    if (covariance := vars(model).get("covariance_")) is None:
        return Exhibit("Decision functions", text, tables)
    # Per standard deviation within classes: sizes can be compared between columns.
    per_deviation = coef * np.sqrt(np.diag(covariance))
    tables += columns_by(
        "standardised_coefficients",
        columns,
        dict(zip(heads, per_deviation, strict=True)),
        caption="Per standard deviation of the column within classes",
        place="files",
    )
    titles = [f"{names[1]} / {names[0]}"] if len(names) == 2 else names
    shown = min(len(titles), _MOST_COEFFICIENTS)
    order = np.argsort(-np.abs(per_deviation).max(axis=0), kind="stable")[:MOST_ROWS]
    text += (
        " The bars are coefficients per standard deviation of the column within "
        "classes, so that their lengths can be compared; the files have their numbers."
    )
    if shown < len(titles) or len(order) < len(columns):
        text += f" Drawn are {counted(shown, 'class', 'classes')} and the "
        text += f"{counted(len(order), 'column')} with the largest."
    picture = Picture(
        "coefficients",
        "Coefficients of the decision functions",
        f"Bars of coefficients per standard deviation within classes; the largest is "
        f"that of {columns[int(order[0])]}. The numbers are in the files.",
        partial(
            charts.loadings,
            per_deviation[:shown][:, order],
            [columns[int(j)] for j in order],
            [short(title, _TITLE if shown > 1 else _ALONE) for title in titles[:shown]],
            word="class",
        ),
        ("standardised_coefficients",),
    )
    return Exhibit("Decision functions", text, tables, picture)


def _class_means(
    model: "LinearDiscriminantAnalysis", columns: Sequence[str]
) -> Exhibit:
    centre = _centre(model)
    values = model.means_ - centre
    cells = {
        Column(name, "number", f"class_{name}"): own
        for name, own in zip(_names(model), values, strict=True)
    }
    text = f"Each class’s mean less {_centred_at(model)}"
    if _at_zero(model):
        text += ", which is 0 for every column."
    else:
        own = model.priors is not None
        title = "Weighted mean" if own else "All rows"
        # Standardised columns have a mean of 0 but for rounding.
        rounding = 1e-12 * np.abs(values).max(axis=0)
        centre = np.where(np.abs(centre) <= rounding, 0.0, centre)
        cells = {Column(title, "number", "mean"): centre} | cells
        text += f", which stands under “{title}”."
    tables = columns_by("class_means", columns, cells, largest=False)
    return Exhibit("Class means, centred", text, tables)


def _one_shot(
    model: "LinearDiscriminantAnalysis", columns: Sequence[str]
) -> list[Exhibit]:
    """Return the results of a one-shot algorithm: directions, and sizes of classes."""
    exhibits = []
    if (sizes := vars(model).get("class_count_")) is not None:
        table = ResultTable.of(
            "classes",
            {
                Column("Class"): _names(model),
                Column("Rows", "count"): sizes,
                Column("Share of rows", "share"): sizes / sizes.sum(),
            },
            items="classes",
        )
        exhibits.append(Exhibit("Classes", "", [table]))
    text = (
        "Weights of the columns by a published one-shot algorithm, which is "
        "approximate. They are for columns as each silo whitened them for itself, so "
        "that rows of all silos have no scores along them, and no row is classified. "
        'Use solver="exact" for scores and predictions.'
    )
    cells = numbered(model.scalings_, key="discriminant")
    tables = columns_by("scalings", columns, cells)
    return [*exhibits, Exhibit("One-shot directions", text, tables)]
