"""Newton's method where every evaluation is a round: maximum likelihood from sums.

    coordinator   θ ──> silos        gradient, information and deviance at θ, added
    solve         (information + penalty) step = gradient - penalty θ
    end           once the step is `tol` standard errors long

A second way opens the information within a standard error of the end, and at the end.
Otherwise the silos send gradient and deviance, and the information follows from the
changes of the gradient (the BFGS update): more rounds, and far fewer numbers. So it
does wherever the expected information is not the likelihood's curvature, as of a gamma
with a log link. With a penalty nothing needs the information at the end.

The length of a step in standard errors, sqrt(step' information step), does not depend
on the columns' units. Convergence is quadratic, so that the step taken last is exact
far beyond `tol`. Where classes are separated the likelihood has no maximum: it stops
growing while steps stay long, because the information vanishes with it.

References
----------
Nocedal and Wright, Numerical optimization, 2nd edition, Springer, 2006, chapter 6, for
the update (6.19).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
import scipy.linalg

from unpooled.arrays import Array, Float
from unpooled.errors import ConvergenceError, DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.generalized_eigen import check_definite
from unpooled.linalg.settled import Arrays, by_nearness, near, settled
from unpooled.models.moments import MEAN
from unpooled.protocol.step import public, release

# Arguments and releases of the steps of all regressions.
SCALES = {
    "mean": MEAN,
    "scale": public("p", "the standard deviation of each column, or 1"),
    "width": "size m",
}
GRADIENT = release(
    "m",
    weighed=True,
    meaning="gradient of the log-likelihood (each row's residual times its predictors)",
)
FIRST_STEP = release(
    "m",
    weighed=True,
    meaning="what the first step of the coefficients is found from (each row's working "
    "residual, half way to its response, times its predictors)",
)
INFORMATION = release(
    "m m",
    symmetric=True,
    weighed=True,
    meaning="information matrix (products of predictors, weighted by variances)",
)
DEVIANCE = release(
    "", meaning="deviance (-2 times the log-likelihood, up to a constant)"
)
PEARSON = release(
    "",
    meaning="chi-squared of Pearson (squared residuals divided by their variances, "
    "added over all rows; 0 of families without a dispersion)",
)
SATURATED = release("", meaning="what the log-likelihood needs of the response alone")
SCORE_PRODUCTS = release(
    "m m",
    symmetric=True,
    weighed=True,
    meaning="products of each row's scores (its residual times its predictors), added "
    "over all rows",
)
# Near a maximum each step is far shorter than the one before. So many that are not,
# while next to no likelihood is gained, are on the way to infinity.
_STEADY, _GAIN, _SHORTER = 4, 1e-2, 0.5
_HALVINGS = 30
# Squared length of a step, in standard errors, below which a search by gradients opens
# the information: from further away it would be another one at the end.
_CLOSE = 1.0
# Share of the information about some combination of parameters that is left where
# classes are separated.
_VANISHED = 1e-6
# Relative rounding of a deviance.
_ROUNDING = 1e-10
# With ill-conditioned systems the steps of two machines differ by more than rounding.
_SLACK = 1e6
# The number of rounds depends on the data; a plan lists the most there can be.
_HOW_MANY = (
    "How many rounds the search for the coefficients takes depends on the data; the "
    "plan has the most there can be, max_iter = {max_iter} in each fit."
)


@final
@dataclass(frozen=True, eq=False)
class LogLikelihood:
    """A log-likelihood at some parameters.

    Attributes
    ----------
    deviance : float
        -2 times the log-likelihood, up to a constant.
    gradient : (k,) array
        Gradient of the log-likelihood.
    information : (k, k) array or None
        Expected information, symmetric; None of an evaluation that leaves it out.
    further : mapping of str to float
        Other totals of the round.
    """

    deviance: float
    gradient: Float[Array, " k"]
    information: Float[Array, "k k"] | None
    further: Mapping[str, float] = field(default_factory=dict)


@final
@dataclass(frozen=True, eq=False)
class Maximum:
    """The maximum of a log-likelihood.

    Attributes
    ----------
    parameters : (k,) array
        There.
    last : LogLikelihood
        At parameters that are less than `tol` standard errors away; with a penalty
        perhaps without the information.
    first : LogLikelihood
        At the start.
    n_iter : int
        Number of evaluations.
    """

    parameters: Float[Array, " k"]
    last: LogLikelihood
    first: LogLikelihood
    n_iter: int

    @property
    def information(self) -> Float[Array, "k k"]:
        """The information of the last evaluation."""
        return _information(self.last)


class Searched:
    """A model whose coefficients are searched, from those of a fit of most of the rows.

    Folds of a cross-validation, and the fits of a jackknife, differ little from the fit
    of all rows: from there on a search takes fewer rounds.
    """

    def start_near(self, fitted: Any) -> None:
        """Begin the next fit, and no other, at the coefficients of a fitted model."""
        if "coef_" in vars(fitted) and "intercept_" in vars(fitted):
            self._near = np.atleast_1d(fitted.intercept_), np.atleast_2d(fitted.coef_)

    @property
    def _is_near(self) -> bool:
        """Whether the next fit begins at the coefficients of another."""
        return "_near" in vars(self)

    def _start_near(
        self, mean: Float[Array, " p"], scale: Float[Array, " p"]
    ) -> Float[Array, "q l"] | None:
        """Return where to begin: intercepts and coefficients of standardised columns.

        None where this fit begins as any other.
        """
        if (near := vars(self).pop("_near", None)) is None:
            return None
        intercepts, coefs = near
        moved = intercepts + np.add.reduce(coefs * mean, axis=1)
        return np.column_stack([moved, coefs * scale])


# An evaluation at some parameters, in one round.
_Round = Callable[[Float[Array, " k"]], LogLikelihood]


def maximised(
    federation: Federation,
    evaluate: _Round,
    start: Float[Array, " k"],
    *,
    penalty: Float[Array, "k k"] | None,
    tol: float,
    max_iter: int,
    names: Sequence[str],
    of_classes: bool = False,
    evaluate_gradient: _Round | None = None,
    evaluate_start: _Round | None = None,
    n_gradients: float | int = np.inf,
    is_near: bool = False,
    is_curvature: bool = True,
) -> Maximum:
    """Return the maximum of a log-likelihood; one round for each evaluation.

    Parameters
    ----------
    federation : Federation
        Whose silos evaluate.
    evaluate : callable
        One round.
    start : (k,) array
        Parameters of standardised columns.
    penalty : (k, k) array, optional
        ``½ θ' penalty θ`` is subtracted from the log-likelihood.
    tol : float
        Length of the last step, in standard errors.
    max_iter : int
        Largest number of evaluations.
    names : sequence of str
        Names of the parameters, for errors.
    of_classes : bool, default False
        Whether the deviance is -2 times the sum of logarithms of probabilities.
    evaluate_gradient : callable, optional
        One round without the information, in place of those between the first and the
        last, but for one near the end.
    evaluate_start : callable, optional
        The first round, whose gradient and information give a better step than those
        of the log-likelihood there, or whose information is known without a total.
    n_gradients : float, default inf
        After so many rounds of `evaluate_gradient` all others are with the information:
        a search that begins near the maximum is at its end by then.
    is_near : bool, default False
        Whether it begins there, so that the information at the start serves to the end.
    is_curvature : bool, default True
        Whether the expected information is the curvature of the log-likelihood, as of a
        canonical link. By another one each step leaves a share of the way, of skewed
        responses most of it: then the curvature follows from the gradients' changes.

    Raises
    ------
    DataError
        When columns are collinear, or separate the responses.
    ConvergenceError
        When `max_iter` evaluations were not enough.
    """
    if not (0.0 < tol < 1.0 and max_iter >= 1):
        raise DataError(
            f"tol={tol!r} and max_iter={max_iter!r}: tol is a share of a standard "
            f"error between 0 and 1, and max_iter at least 1."
        )
    P = np.zeros((len(start), len(start))) if penalty is None else penalty
    between = evaluate_gradient or evaluate
    search = _NewtonSearch(
        evaluate,
        between,
        evaluate_start,
        n_gradients,
        P,
        tol,
        max_iter,
        may_open=evaluate_gradient is not None and not is_near,
    )
    if federation.coordinator.planned:
        notes = federation.coordinator.notes
        if (note := _HOW_MANY.format(max_iter=max_iter)) not in notes:
            notes.append(note)
        return search.planned(start)
    # Logarithms differ between machines in their last digits.
    theta = settled("start of the search", lambda: {"start": start}, by_nearness)[
        "start"
    ]
    found = search.begun(theta)
    first, H = found, _information(found)
    if penalty is None:
        check_definite(H, names)
    steady, length = 0, np.inf
    while True:
        gradient = found.gradient - _times(P, theta)
        step = _step(H + P, gradient)
        gain = float(np.add.reduce(step * gradient))
        exact = found.information is not None
        exact = exact and (found is not first or evaluate_start is None)
        if gain <= tol**2 and (exact or penalty is not None):
            return Maximum(theta + step, found, first, search.n_iter)
        if gain <= _CLOSE and search.may_open:
            # No further from the end than this, it is nearly the one there.
            found = search.informed(theta, gain)
            H = _information(found)
            continue
        if gain <= tol**2:
            # The end by an approximate information: from here on with the exact one.
            search.between = evaluate
            found = search.evaluated(theta, gain)
            H = _information(found)
            # Such a search may go to infinity in steps that end by themselves.
            full = _information(first)
            if penalty is None and _has_vanished(H, full):
                least = scipy.linalg.eigh(H, full, subset_by_index=[0, 0])[1]
                raise _separated(least[:, 0], names)
            continue
        shorter = np.abs(step).max() < _SHORTER * length
        # Steps by an approximate information shorten more slowly near a maximum, too.
        if shorter or found.information is None or not is_curvature:
            steady = 0
        else:
            steady += gain < _GAIN
        length = np.abs(step).max()
        if steady == _STEADY:
            raise _separated(step, names)
        # With less, the probability of every row's own class is above one half.
        if of_classes and penalty is None and found.deviance < 2.0 * np.log(2.0):
            raise _separated(step, names)
        here, before = found, theta
        found, theta = search.stepped(here, theta, step, gain)
        # The gradient of a start is another one, of which no change follows.
        began = here is first and evaluate_start is not None
        if found.information is None or not (is_curvature or began):
            H = _updated(H, theta - before, here.gradient - found.gradient)
        else:
            H = found.information


@final
@dataclass(eq=False)
class _NewtonSearch:
    """The rounds of a search, counted.

    Attributes
    ----------
    evaluate, evaluate_start, n_gradients, tol, max_iter
        As `maximised` takes them.
    between : callable
        One round between the first and the last.
    penalty : (k, k) array
        0 where there is none.
    may_open : bool
        Whether a search by gradients may still open the information near the end.
    n_iter : int
        Number of evaluations so far.
    """

    evaluate: _Round
    between: _Round
    evaluate_start: _Round | None
    n_gradients: float | int
    penalty: Float[Array, "k k"]
    tol: float
    max_iter: int
    may_open: bool
    n_iter: int = 0

    def planned(self, start: Float[Array, " k"]) -> Maximum:
        """Return the start, after as many rounds as there can be."""
        # As in a search, every round asks at other parameters, and with another penalty
        # at others again: what folds and candidates ask alike is opened once.
        stride = 1.0 + float(np.trace(self.penalty))
        first = self.begun(start)
        for i in range(1, self.max_iter - 1):
            ask = self.informed if self.may_open else self.evaluated
            ask(start + i * stride, np.inf)
        last = self.evaluate(start - stride) if self.max_iter > 1 else first
        return Maximum(start, last, first, self.max_iter)

    def begun(self, start: Float[Array, " k"]) -> LogLikelihood:
        """Return the evaluation at the start."""
        self.n_iter = 1
        return (self.evaluate_start or self.evaluate)(start)

    def informed(self, theta: Float[Array, " k"], gain: float) -> LogLikelihood:
        """Return the evaluation with the information, as `evaluated`, and once."""
        self.may_open = False
        return self._counted(self.evaluate, theta, gain)

    def evaluated(self, theta: Float[Array, " k"], gain: float) -> LogLikelihood:
        """Return the evaluation at some parameters, in one round more.

        Parameters
        ----------
        gain : float
            The square of the last step's length, in standard errors.

        Raises
        ------
        ConvergenceError
            Where there were as many rounds as there may be.
        """
        by_gradients = self.n_iter <= self.n_gradients
        return self._counted(
            self.between if by_gradients else self.evaluate, theta, gain
        )

    def _counted(
        self, evaluate: _Round, theta: Float[Array, " k"], gain: float
    ) -> LogLikelihood:
        if self.n_iter == self.max_iter:
            raise _too_few(self.max_iter, gain, self.tol)
        found = evaluate(theta)
        self.n_iter += 1
        return found

    def stepped(
        self,
        here: LogLikelihood,
        theta: Float[Array, " k"],
        step: Float[Array, " k"],
        gain: float,
    ) -> tuple[LogLikelihood, Float[Array, " k"]]:
        """Return the evaluation and the parameters after a step, halved as often.

        Until the likelihood does not fall, or `_HALVINGS` times.
        """
        share, before = 1.0, self._objective(here, theta)
        found, trial = here, theta
        for _ in range(_HALVINGS):
            trial = theta + share * step
            found = self.evaluated(trial, gain)
            if self._objective(found, trial) <= before + _ROUNDING * abs(before):
                break
            share /= 2
        return found, trial

    def _objective(self, at: LogLikelihood, theta: Float[Array, " k"]) -> float:
        return at.deviance + float(np.add.reduce(theta * _times(self.penalty, theta)))


def _has_vanished(H: Float[Array, "k k"], start: Float[Array, "k k"]) -> bool:
    """Return whether next to no information about some combination is left.

    Along one that separates classes a row's weight is bounded by its probability to be
    of another class, which is as small as the gradient at the end.
    """
    found = settled(
        "least information",
        lambda: {"value": scipy.linalg.eigvalsh(H, start, subset_by_index=[0, 0])},
        lambda found, own: near(found["value"], own["value"], 1.0, len(H)),
    )
    return bool(found["value"][0] < _VANISHED)


def _information(at: LogLikelihood) -> Float[Array, "k k"]:
    assert at.information is not None
    return at.information


def _updated(
    H: Float[Array, "k k"], s: Float[Array, " k"], y: Float[Array, " k"]
) -> Float[Array, "k k"]:
    """Return the information after a step s that changed the gradient by -y (BFGS)."""
    Hs = _times(H, s)
    along, change = float(np.add.reduce(s * Hs)), float(np.add.reduce(s * y))
    # A log-likelihood of these families is concave: what is not is rounding.
    if not (along > 0.0 and change > _ROUNDING * along):
        return H
    return H + np.outer(y, y) / change - np.outer(Hs, Hs) / along


def _too_few(max_iter: int, gain: float, tol: float) -> ConvergenceError:
    return ConvergenceError(
        f"After {max_iter} rounds a step was still {np.sqrt(gain):.1e} standard errors "
        f"long, more than tol={tol:g}. Raise max_iter."
    )


def _separated(direction: Float[Array, " k"], names: Sequence[str]) -> DataError:
    # A coefficient that moves by about as much in every step diverges.
    worst = names[int(np.abs(direction).argmax())]
    return DataError(
        f"The responses are separated: some combination of columns, {worst!r} "
        f"foremost, predicts them, or those of some rows, without error, so that no "
        f"finite coefficients are the most likely: a category without a response of "
        f"one kind does so. Leave columns out, merge rare categories (min_frequency), "
        f"or use LogisticRegression with a penalty (C)."
    )


def _times(P: Float[Array, "k k"], theta: Float[Array, " k"]) -> Float[Array, " k"]:
    """Return ``P θ``, added in a fixed order."""
    return np.add.reduce(P * theta, axis=1)


def _step(H: Float[Array, "k k"], g: Float[Array, " k"]) -> Float[Array, " k"]:
    """Return ``H⁻¹ g``, which all ends go on with."""
    unit = np.sqrt(np.maximum(H.diagonal(), 0.0))
    unit = np.where(unit > 0.0, unit, 1.0)
    R, r = H / unit / unit[:, None], g / unit

    def solve() -> Arrays:
        return {"step": scipy.linalg.lstsq(R, r, lapack_driver="gelsy")[0]}

    def accept(found: Arrays, own: Arrays) -> bool:
        size = float(np.abs(own["step"]).max(initial=0.0))
        return near(R @ found["step"], R @ own["step"], size, len(R)) and near(
            found["step"], own["step"], _SLACK * size
        )

    return settled("Newton step", solve, accept)["step"] / unit
