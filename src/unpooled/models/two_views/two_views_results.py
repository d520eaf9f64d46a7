"""Results of canonical correlation analysis and partial least squares.

Correlations of scores and their tests; how well the second view is predicted, by which
coefficients; and the columns of both views by their correlations with the scores.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from unpooled.arrays import Array, Bool, Float, Int
from unpooled.models.two_views.significance import HYPOTHESIS
from unpooled.results.exhibits import (
    MOST_ROWS,
    Column,
    Exhibit,
    Kind,
    Picture,
    ResultTable,
)
from unpooled.results.fitted_attributes import (
    by_column,
    columns_by,
    fitting,
    numbered,
    ordinals,
    without_rounding,
)
from unpooled.results.formats import counted, listed
from unpooled.results.plots import charts, scatter_plots
from unpooled.results.plots.drawing import short

if TYPE_CHECKING:
    from unpooled.models.two_views.cca import CCA
    from unpooled.models.two_views.pls import PartialLeastSquares

_FEW = 6  # responses that a sentence names
_MOST_RESPONSES = 4  # whose coefficients are drawn side by side
_TITLE = 12  # letters of a response above its panel
_EIGENVALUES = {
    "maxvar": "An eigenvalue is the number of silos where all their scores are the "
    "same, and 1 where they are uncorrelated (without a regularisation)",
    "sumcor": "An eigenvalue is the sum of the covariances between the silos’ "
    "scores, whose variances, regularisation included, add up to 1",
}


def cca_exhibits(model: "CCA", columns: Sequence[str]) -> list[Exhibit]:
    """Return the exhibits of a fitted canonical correlation analysis."""
    fitted = vars(model)
    if "canonical_correlations_" in fitted:
        return [
            _canonical(model),
            *_column_correlations(model),
            *_prediction(model),
            *_coefficients(model),
            *_weights(model),
        ]
    if "eigenvalues_" in fitted:
        return [_generalised(model)]
    return _one_shot(model)


def pls_exhibits(model: "PartialLeastSquares", columns: Sequence[str]) -> list[Exhibit]:
    """Return the exhibits of fitted partial least squares."""
    if "score_correlations_" not in vars(model):
        return []
    return [
        *_prediction(model),
        *_importance(model),
        *_coefficients(model),
        _scores(model),
        *_column_correlations(model),
        *_weights(model),
    ]


def _views(model: Any) -> tuple[str, str]:
    """Return the names of the two views: those of the silos where each has one."""
    fitted = vars(model)
    if "x_party_" in fitted:
        return str(fitted["x_party_"]), str(fitted["y_party_"])
    return ("predictors", "responses") if _regresses(model) else ("first", "second")


def _in_words(model: Any) -> tuple[str, str]:
    """Return the names of the two views within a sentence."""
    if _regresses(model) and "x_party_" not in vars(model):
        return "the predictors", "the responses"
    whose = "{}" if "x_party_" in vars(model) else "the {} view"
    one, other = (f"the columns of {whose.format(name)}" for name in _views(model))
    return one, other


def _regresses(model: Any) -> bool:
    """Whether both views are described by the first view's scores."""
    return type(model).__name__ == "PLSRegression"


def _canonical(model: "CCA") -> Exhibit:
    r = np.asarray(model.canonical_correlations_)
    text = "Correlation between the scores of the two views, pair by pair."
    cells = _numbered_correlations(r)
    if "all_correlations_" in vars(model):
        test = model.significance()
        pair, correlation, *tested = test.cells.items()
        text += f" {HYPOTHESIS}"
        errors = {}
        if "canonical_correlations_se_normal_" in vars(model):
            errors = _errors(model, len(test.wilks))
            text += (
                " Standard errors (SE) are for correlations that differ from each "
                "other and from 0; those of normal theory assume normality."
            )
        cells = dict([pair, correlation, *errors.items(), *tested])
        if len(test.wilks) > len(r):
            text += f" The model keeps the first {counted(len(r), 'pair')}."
    table = ResultTable.of("correlations", cells, items="pairs")
    return _drawn_correlations("Canonical correlations", text, table)


def _numbered_correlations(r: Any) -> dict[Column, Any]:
    """Return the first columns of a table of correlations, pair by pair."""
    return {
        Column("Pair"): ordinals(len(r)),
        Column("Correlation", "number", bar=True): r,
    }


def _errors(model: "CCA", n_pairs: int) -> dict[Column, Any]:
    """Return standard errors of the correlations, of the pairs that the model keeps."""
    of_fit = {
        Column("SE", "number"): vars(model).get("canonical_correlations_se_"),
        Column("SE (normal)", "number"): model.canonical_correlations_se_normal_,
    }
    return {
        head: [*errors.tolist(), *[None] * (n_pairs - len(errors))]
        for head, errors in of_fit.items()
        if errors is not None
    }


def _scores(model: Any) -> Exhibit:
    """Return how scores of both views are related, and what components explain."""
    cells = _numbered_correlations(model.score_correlations_)
    text = "Correlation between the scores of the two views, pair by pair."
    if "x_explained_variance_ratio_" in vars(model):
        x, y = model.x_explained_variance_ratio_, model.y_explained_variance_ratio_
        cells |= {
            Column("Share of predictors", "share", "x_share"): x,
            Column("Cumulative, predictors", "share", "x_cumulative"): np.cumsum(x),
            Column("Share of responses", "share", "y_share"): y,
            Column("Cumulative, responses", "share", "y_cumulative"): np.cumsum(y),
        }
        text += (
            " Shares are those of the variance of the predictors and of the responses "
            "that each component explains."
        )
    table = ResultTable.of("correlations", cells, items="pairs")
    return _drawn_correlations("Correlations of the scores", text, table)


def _drawn_correlations(title: str, text: str, table: ResultTable) -> Exhibit:
    r = np.array(table.column("correlation"), dtype=float)[:MOST_ROWS]
    picture = Picture(
        "correlations",
        title,
        f"Bars of {len(r)} correlations of scores; the first is {r[0]:.2f}. The "
        f"numbers are in the table below.",
        partial(charts.correlations, r),
        (table.name,),
    )
    return Exhibit(title, text, [table], picture)


def _prediction(model: Any) -> list[Exhibit]:
    """Return how well each response is predicted, where the model predicts."""
    if "r2_" not in vars(model):
        return []
    table = ResultTable.of(
        "responses",
        {
            Column("Response"): model.y_columns_,
            Column("R²", "number", "r2", bar=True): model.r2_,
            Column("RMSE", "number", "rmse"): model.rmse_,
            Column("Mean", "number"): without_rounding(model.y_mean_, model.rmse_),
        },
        items="responses",
    )
    text = (
        f"How well {listed([str(y) for y in model.y_columns_[:_FEW]])}"
        f"{' and others' if len(model.y_columns_) > _FEW else ''} "
        f"{'is' if len(model.y_columns_) == 1 else 'are'} predicted from "
        f"{counted(len(model.x_columns_), 'column')}: R² is the share of the "
        f"response’s variance that is predicted, RMSE the root of the mean squared "
        f"error in the response’s units. Both are of the {model.n_samples_:,} rows "
        f"that the model was fitted on; of new rows predictions are usually worse."
    )
    if not _regresses(model):
        text += (
            f" The directions of {type(model).__name__} are not chosen to predict, and "
            f"R² may be below 0, where the mean would be the better prediction; "
            f"PLSRegression is for predicting."
        )
    return [Exhibit("Prediction", text, [table])]


def _importance(model: Any) -> list[Exhibit]:
    if "vip_" not in vars(model):
        return []
    order = np.argsort(-model.vip_, kind="stable")
    vip, names = model.vip_[order], [str(model.x_columns_[int(j)]) for j in order]
    cells = {Column("VIP", "number", "vip"): vip}
    table = by_column("vip", names, cells, which="most important")
    text = (
        "Variable importance in projection (VIP): how much each predictor contributes "
        "to the components, each weighted by what it explains of the responses. The "
        "mean of the squares is 1, so that a column above 1 contributes more than the "
        "average; it is a rule of thumb, not a test."
    )
    picture = Picture(
        "vip",
        "Variable importance in projection",
        f"Bars of importance; the largest is {vip[0]:.2f} of {names[0]}. The numbers "
        f"are in the table below.",
        partial(charts.importance, vip[:MOST_ROWS], names[:MOST_ROWS]),
        (table.name,),
    )
    return [Exhibit("Importance of columns", text, [table], picture)]


def _coefficients(model: Any) -> list[Exhibit]:
    """Return the exhibit of coefficients and intercept, unless silos keep these."""
    fitted = vars(model)
    if not {"coef_", "intercept_", "x_mean_", "x_std_", "y_std_"} <= set(fitted):
        return []
    names = [str(name) for name in model.x_columns_]
    responses = [str(name) for name in model.y_columns_]
    intercept = model.intercept_ - model.coef_ @ model.x_mean_
    if "rmse_" in fitted:
        intercept = without_rounding(intercept, fitted["rmse_"])
    text = (
        "A prediction is the intercept plus each column times its coefficient, in the "
        "columns’ units. "
    )
    heads = [Column(name, "number", f"response_{name}") for name in responses]
    cells = dict(zip(heads, model.coef_, strict=True))
    above = ("(intercept)", *intercept)
    tables = columns_by("coefficients", names, cells, above=above)
    drawn, table = model.coef_, "coefficients"
    standardised = model.coef_ * model.x_std_ / model.y_std_[:, None]
    # Where an earlier step standardised the columns, the same numbers would stand here
    # twice.
    if (model.x_std_ != 1).any() and not np.allclose(standardised, model.coef_):
        drawn = standardised
        table = "standardised_coefficients"
        text += (
            "Standardised coefficients are per standard deviation of the column, in "
            "standard deviations of the response: their sizes can be compared."
        )
        cells = dict(zip(heads, drawn, strict=True))
        tables += columns_by(table, names, cells, caption="Standardised")
    shown = min(len(responses), _MOST_RESPONSES)
    order = np.argsort(-np.abs(drawn[:shown]).max(axis=0), kind="stable")[:MOST_ROWS]
    if shown < len(responses) or len(order) < len(names):
        text += (
            f" The picture has {counted(shown, 'response')} and the "
            f"{counted(len(order), 'column')} with the largest."
        )
    picture = Picture(
        "coefficients",
        "Coefficients",
        f"Bars of {table.replace('_', ' ')}; the largest is that of "
        f"{names[int(order[0])]}. The numbers are in the table below.",
        partial(
            charts.loadings,
            drawn[:shown][:, order],
            [names[int(j)] for j in order],
            [short(response, _TITLE) for response in responses[:shown]],
        ),
        (table,),
    )
    return [Exhibit("Coefficients", text.strip(), tables, picture)]


def _weights(model: Any) -> list[Exhibit]:
    """Return loadings for pages, and weights and rotations for files."""
    if "x_loadings_" not in vars(model):
        text = (
            "The weights of the columns in the scores. A column is divided by its "
            "standard deviation first, where the model standardises."
        )
        tables = _of_both_views(model, "weights")
        return [Exhibit("Weights", text, tables)] if tables else []
    tables = [
        *_of_both_views(model, "loadings"),
        *_of_both_views(model, "rotations", "files"),
        *_of_both_views(model, "weights", "files"),
    ]
    text = (
        "Loadings are the slopes of the columns on the scores, in standard deviations "
        "where the model standardises. The files also have the rotations, by which "
        "standardised columns are multiplied to give scores, and the weights."
    )
    return [Exhibit("Loadings", text, tables)]


def _of_both_views(
    model: Any,
    kind: str,
    place: Literal["everywhere", "files"] = "everywhere",
    captions: tuple[str, str] | None = None,
    written: tuple[Kind, str] = ("number", "component"),
) -> list[ResultTable]:
    """Return two tables of an attribute that both views have."""
    tables: list[ResultTable] = []
    views = (view.removeprefix("the ") for view in _in_words(model))
    above = captions or tuple(view[:1].upper() + view[1:] for view in views)
    for side, caption in zip("xy", above, strict=True):
        if (values := vars(model).get(f"{side}_{kind}_")) is not None:
            tables += columns_by(
                f"{side}_{kind}",
                [str(name) for name in getattr(model, f"{side}_columns_")],
                numbered(values, *written),
                caption=caption,
                place=place,
            )
    return tables


def _one_shot(model: "CCA") -> list[Exhibit]:
    """Return the directions that a one-shot algorithm finds."""
    text = (
        "Weights of the columns by a published one-shot algorithm, which is "
        "approximate. They are for columns as each silo whitened them for itself, so "
        "that rows of all silos have no scores along them, and no correlation is "
        'known. Use solver="exact" for correlations and their tests.'
    )
    tables = _of_both_views(model, "weights")
    return [Exhibit("One-shot directions", text, tables)] if tables else []


def _generalised(model: "CCA") -> Exhibit:
    text = (
        f"How strongly the scores of all silos are correlated with each other. "
        f"{_EIGENVALUES[model.criterion]}."
    )
    table = ResultTable.of(
        "eigenvalues",
        {
            Column("Scores"): ordinals(len(model.eigenvalues_)),
            Column("Eigenvalue", "number"): model.eigenvalues_,
        },
        items="components",
    )
    return Exhibit("Generalised correlations", text, [table])


def _column_correlations(model: Any) -> list[Exhibit]:
    """Return correlations of columns with scores: a circle, or bars of one pair."""
    y_name = "y_cross_correlations_" if _regresses(model) else "y_correlations_"
    if not {"x_correlations_", y_name} <= set(vars(model)):
        return []
    values = np.concatenate([model.x_correlations_, vars(model)[y_name]])
    names = [str(name) for name in (*model.x_columns_, *model.y_columns_)]
    first = np.arange(len(names)) < len(model.x_columns_)
    order = _farthest(values, first)
    k, score = values.shape[1], "x-score" if _regresses(model) else "pair"
    key = score.replace("-", "_")
    heads = [
        Column(f"{score.capitalize()} {j}", "signed", f"{key}_{j}") for j in ordinals(k)
    ]
    table = by_column(
        "column_correlations",
        [names[int(j)] for j in order],
        {Column("View"): np.where(first, *_views(model))[order]}
        | dict(zip(heads, values[order].T, strict=True)),
        which="largest of both views",
    )
    tables = fitting(table, range(2, 2 + k), f"{score}s")
    tables += _cross_correlations(model)
    one, other = _in_words(model)
    whose = (
        f"the scores of {one}, from which {other} are predicted"
        if _regresses(model)
        else "the scores of its own view"
    )
    text = f"Correlations of each column with {whose}"
    top = order[:MOST_ROWS]
    labels = [names[int(j)] for j in top]
    if k == 1:
        picture = Picture(
            "column_correlations",
            "Correlations of columns with the scores",
            f"Bars of correlations of columns with the scores; the largest is that of "
            f"{labels[0]}. The numbers are in the table below.",
            partial(charts.loadings, values[top].T, labels, [""]),
            (table.name,),
        )
        return [Exhibit("Correlations of columns", f"{text}.", tables, picture)]
    text += (
        f". In the picture {one} are blue and {other} orange. A column near the "
        f"circle is almost completely represented by the two pairs of scores, one near "
        f"the centre hardly at all. Columns in the same direction go together, those "
        f"opposite each other go against each other."
    )
    if type(model).__name__ == "PLSSVD" or model.regularisation:
        text += (
            " The scores of a view are correlated with each other here, so that a "
            "column may lie outside of the circle."
        )
    whole = "x-scores" if _regresses(model) else "pairs of scores"
    picture = Picture(
        "correlation_circle",
        "Correlation circle",
        f"The columns of both views, placed by their correlations with the first two "
        f"{whole}. The numbers are in the table below.",
        partial(
            scatter_plots.correlation_circle,
            values[top, :2],
            labels,
            first[top],
            ("first x-score", "second x-score")
            if _regresses(model)
            else ("first pair", "second pair"),
        ),
        (table.name,),
    )
    return [Exhibit("Correlation circle", text, tables, picture)]


def _farthest(
    values: Float[Array, "l k"], first: Bool[Array, " l"]
) -> Int[Array, " l"]:
    """Return the order of columns: first those that a page shows, some of each view."""
    order = np.argsort(-np.linalg.norm(values[:, :2], axis=1), kind="stable")
    # A view of few columns is not crowded out by one of many.
    own = [order[first[order] == view][: MOST_ROWS // 3] for view in (True, False)]
    others = order[~np.isin(order, np.concatenate(own))]
    room = MOST_ROWS - sum(map(len, own))
    shown = np.isin(order, np.concatenate([*own, others[:room]]))
    return np.concatenate([order[shown], order[~shown]])


def _cross_correlations(model: Any) -> list[ResultTable]:
    """Return, for files, correlations of columns with the other view's scores."""
    about = "Correlations with the scores of the"
    captions = f"{about} second view", f"{about} first view"
    return _of_both_views(
        model, "cross_correlations", "files", captions, ("signed", "pair")
    )
