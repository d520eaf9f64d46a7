"""Delete-one-block jackknife: standard errors of whatever a model estimates.

    all rows      ── fit ──┐
    without block 1 ─ fit ─┼── the rounds of all fits in the same messages
    ...                    │
    without block g ─ fit ─┘      spread of the g estimates ─> standard errors

The blocks are those of the folds: unions of blocks that each silo cuts its rows into.
So what two fits differ in is a union of blocks too, and the silos' rules for selections
hold. `CrossValidation` makes the fits, and those of its own folds in the same messages.

References
----------
Busing, Meijer and van der Leeden, Delete-m jackknife for unequal m, Statistics and
Computing 9 (1999), equations 3 to 5; with blocks of equal size it is the jackknife of
Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapter 11.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
import scipy
from scipy.linalg import orthogonal_procrustes
from sklearn.base import clone

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.models.base import fitted_names, input_names
from unpooled.models.model_selection.jackknife_results import jackknife_exhibits
from unpooled.models.model_selection.scoring import last_step
from unpooled.models.parameter_checks import check_alpha
from unpooled.results.summary import Summary

ALIGNMENTS = ("signs", "rotation")
# Attributes of models that do not say what they estimate: no estimates.
_NO_ESTIMATES = ("_se_", "_se_normal_", "_bound_", "p_value_", "p_values_")
_NO_ESTIMATES += ("statistic_", "errors_", "size_", "probabilities_", "n_samples_seen_")


@final
@dataclass(frozen=True, eq=False)
class Jackknife:
    """Estimates of a model and their standard errors by the jackknife.

    Attributes
    ----------
    columns : list of str
        The p columns that the model was fitted on.
    block_rows : (g,) array
        Rows that each fit leaves out; equal where the model does not count rows.
    n_rows : float
        N, the rows of all silos; g where the model does not count rows.
    estimates : dict of str to array
        By attribute: that of the fit on all rows, its directions as they are.
    standard_errors : dict of str to array
        By attribute, in its shape: the jackknife's, with g - 1 degrees of freedom.
    bias : dict of str to array
        By attribute, in its shape: the jackknife's estimate of its bias, which is to be
        subtracted from the estimate.
    of_fit : dict of str to array
        Standard errors that the model has itself, such as `components_se_`, by the
        attribute that they belong to.
    replicates : dict of str to (g, ...) array
        By attribute: that of each fit without a block, its directions aligned with
        those of all rows. Empty where the jackknife was read from a file.
    test_scores : dict of str to (cv,) array
        With `cv`: scores on the folds of a cross-validation by their names.
    classes : list of str
        The classes of a classifier's label.
    model : estimator or Pipeline, optional
        Fitted on all rows. None where the jackknife was read from a file.
    """

    columns: list[str]
    block_rows: Float[Array, " g"]
    n_rows: float
    estimates: Mapping[str, Float[Array, "..."]]
    standard_errors: Mapping[str, Float[Array, "..."]]
    bias: Mapping[str, Float[Array, "..."]]
    of_fit: Mapping[str, Float[Array, "..."]]
    replicates: Mapping[str, Float[Array, "g ..."]] = field(default_factory=dict)
    test_scores: Mapping[str, Float[Array, " k"]] = field(default_factory=dict)
    classes: list[str] = field(default_factory=list)
    model: Any = None

    def conf_int(
        self, attribute: str, alpha: float | int = 0.05
    ) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """Return the ends of confidence intervals, in the attribute's shape.

        Parameters
        ----------
        attribute : str
            One of `estimates`.
        alpha : float, default 0.05
            One minus the level. The quantile is that of Student's t with g - 1 degrees
            of freedom: g numbers tell a standard error only so far.
        """
        check_alpha(alpha)
        if attribute not in self.estimates:
            raise DataError(
                f"There is no jackknife of {attribute!r}; there is of "
                f"{', '.join(self.estimates)}."
            )
        half = self.standard_errors[attribute] * scipy.stats.t.ppf(
            1 - alpha / 2, len(self.block_rows) - 1
        )
        return self.estimates[attribute] - half, self.estimates[attribute] + half

    def summary(self) -> Summary:
        """Return a table for each attribute: estimates, errors, intervals at 95 %."""
        g = len(self.block_rows)
        return Summary(f"Jackknife over {g} blocks", jackknife_exhibits(self))

    def __str__(self) -> str:
        return str(self.summary())

    def as_json(self) -> dict[str, Any]:
        """Return the fields for a run's folder: all but model and replicates."""
        named = ("estimates", "standard_errors", "bias", "of_fit")
        return {
            "columns": self.columns,
            "classes": self.classes,
            "block_rows": self.block_rows.tolist(),
            "n_rows": self.n_rows,
            **{name: _as_lists(getattr(self, name)) for name in named},
        }

    @classmethod
    def of_json(cls, content: Mapping[str, Any]) -> "Jackknife":
        """Return one from what `as_json` gave."""
        named = ("estimates", "standard_errors", "bias", "of_fit")
        return cls(
            columns=[str(name) for name in content["columns"]],
            classes=[str(name) for name in content.get("classes", ())],
            block_rows=np.array(content["block_rows"], dtype=float),
            n_rows=float(content["n_rows"]),
            **{name: _as_arrays(content[name]) for name in named},
        )


def _as_lists(values: Mapping[str, Array]) -> dict[str, Any]:
    # JSON has no NaN.
    return {
        name: np.where(np.isnan(own), np.array(None), own.astype(object)).tolist()
        for name, own in values.items()
    }


def _as_arrays(content: Mapping[str, Any]) -> dict[str, Float[Array, "..."]]:
    return {str(name): np.array(own, dtype=float) for name, own in content.items()}


def replicated(estimator: Any) -> Any:
    """Return an unfitted clone for the fits without a block.

    It asks the silos for no standard errors, of which the jackknife makes its own.

    Raises
    ------
    DataError
        For a model whose fits would not differ by the rows alone.
    """
    copy = clone(estimator)
    last = last_step(copy)
    given = last.get_params(deep=False)
    if given.get("privacy") is not None:
        raise DataError(
            f"A jackknife of a {type(last).__name__} with privacy would measure the "
            f"noise, and spend the budget of each fit. Leave privacy out."
        )
    k = given.get("n_components")
    if isinstance(k, str | float):
        raise DataError(
            f"n_components={k!r} may give each fit another number of components. "
            f"Name the number for a jackknife."
        )
    if "standard_errors" in given:
        last.set_params(standard_errors=False)
    return copy


def jackknife_of(
    whole: Any,
    parts: Sequence[Any],
    *,
    align: str = "signs",
    attributes: Iterable[str] | None = None,
    test_scores: Mapping[str, Float[Array, " k"]] | None = None,
) -> Jackknife:
    """Return the jackknife of fitted models.

    Parameters
    ----------
    whole : estimator or Pipeline
        Fitted on all rows.
    parts : sequence of estimator or Pipeline
        Fitted without one block each.
    align, attributes
        As of `jackknife`.
    test_scores : dict of str to (cv,) array, optional
        Scores of a cross-validation in the same rounds.
    """
    model, others = last_step(whole), [last_step(part) for part in parts]
    axes = _estimates_of(model, attributes)
    found = {name: _numbers(model, name) for name in axes}
    replicates = {
        name: np.array([_numbers(other, name) for other in others]) for name in axes
    }
    directed = {name: axis for name, axis in axes.items() if axis is not None}
    for j in range(len(others)):
        own = {name: replicates[name][j] for name in directed}
        for name, value in _aligned(own, found, directed, align).items():
            replicates[name][j] = value
    N, rows = _rows_of(model, others)
    if not rows.all():
        raise DataError(
            f"Of {len(rows)} blocks {np.count_nonzero(rows == 0.0)} have no rows, and "
            f"a fit without them is the fit of all rows. Choose fewer blocks."
        )
    errors, bias = {}, {}
    for name, of_all in found.items():
        errors[name], bias[name] = _error_and_bias(of_all, replicates[name], rows, N)
    of_fit = {
        name: _numbers(model, f"{name}se_")
        for name in found
        if f"{name}se_" in vars(model)
    }
    return Jackknife(
        columns=input_names(model),
        block_rows=rows,
        n_rows=N,
        estimates=found,
        standard_errors=errors,
        bias=bias,
        of_fit=of_fit,
        replicates=replicates,
        test_scores=dict(test_scores or {}),
        classes=[str(value) for value in vars(model).get("classes_", ())],
        model=whole,
    )


def _estimates_of(model: Any, wanted: Iterable[str] | None) -> dict[str, int | None]:
    """Return the attributes to replicate, and the axis of those that are directions."""
    declared = {
        n: a for n, a in getattr(model, "_estimates", {}).items() if n in vars(model)
    }
    if wanted is not None:
        names = list(wanted)
        for name in names:
            if name not in vars(model) or not _is_numeric(vars(model)[name]):
                raise DataError(
                    f"attributes: a {type(model).__name__} has no numbers {name!r}."
                )
        return {name: declared.get(name) for name in names}
    found = declared or {
        name: None
        for name in fitted_names(model)
        if _is_numeric(vars(model)[name])
        and not name.endswith(_NO_ESTIMATES)
        and not name.startswith("n_")
    }
    if not found:
        raise DataError(f"A {type(model).__name__} estimates no numbers.")
    return found


def _is_numeric(value: Any) -> bool:
    if isinstance(value, bool | int) or value is None:
        return False
    try:
        array = np.asarray(value)
    except ValueError:
        return False
    return array.dtype.kind == "f" and array.size > 0


def _numbers(model: Any, name: str) -> Float[Array, "..."]:
    return np.array(vars(model)[name], dtype=float)


def _rows_of(model: Any, others: Sequence[Any]) -> tuple[float, Float[Array, " g"]]:
    """Return N, and how many rows each fit leaves out."""
    n_rows = [getattr(one, "n_samples_", None) for one in (model, *others)]
    if all(isinstance(n, int | np.integer) for n in n_rows):
        counts = np.array(n_rows, dtype=float)
        return float(counts[0]), counts[0] - counts[1:]
    return float(len(others)), np.ones(len(others))


def _aligned(
    own: Mapping[str, Array],
    whole: Mapping[str, Array],
    axes: Mapping[str, int],
    align: str,
) -> dict[str, Array]:
    """Return directions with the signs, or the rotation, nearest to those of all rows.

    All attributes of directions turn together: the weights, loadings and scores of one
    component have a common sign.
    """
    if not own:
        return {}
    # (m, k): everything that belongs to a component in one column.
    stacked, towards = [], []
    for name, axis in axes.items():
        reference = np.moveaxis(whole[name], axis, -1)
        reference = reference.reshape(-1, reference.shape[-1])
        # So that attributes in different units count alike.
        size = float(np.sqrt((reference**2).mean())) or 1.0
        flat = np.moveaxis(own[name], axis, -1).reshape(reference.shape)
        stacked.append(np.nan_to_num(flat) / size)
        towards.append(np.nan_to_num(reference) / size)
    A, B = np.concatenate(stacked), np.concatenate(towards)
    if align == "rotation":
        turn = orthogonal_procrustes(A, B)[0]
    else:
        turn = np.diag(np.where((A * B).sum(axis=0) < 0.0, -1.0, 1.0))
    return {
        name: np.moveaxis(np.moveaxis(own[name], axis, -1) @ turn, -1, axis)
        for name, axis in axes.items()
    }


def _error_and_bias(
    whole: Float[Array, "..."],
    replicates: Float[Array, "g ..."],
    rows: Float[Array, " g"],
    N: float,
) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """Return standard errors and bias, from blocks of any sizes."""
    g = len(replicates)
    column = (g, *([1] * whole.ndim))
    share = (rows / N).reshape(column)
    # Equation 4: the estimate less its bias.
    corrected = g * whole - ((1.0 - share) * replicates).sum(axis=0)
    h = 1.0 / share
    pseudo = h * whole - (h - 1.0) * replicates
    variance = ((pseudo - corrected) ** 2 / (h - 1.0)).sum(axis=0) / g
    return np.sqrt(variance), whole - corrected
