"""Multi-class learning and feature selection over columns, labels at one silo (MMVFL).

    fit       Algorithm 1: `unpooled.models.mmvfl.pseudo_labels`; each silo keeps its
              W_k
    predict   silos ── X_k W_k, under masks ────> Σ X_k W_k, the largest tells the class
    select    silos ── which columns have the largest rows of W_k ──> a view of them

References
----------
Multi-Participant Multi-Class Vertical Federated Learning.
"""

import warnings
from typing import Any, final

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from unpooled.arrays import Array, Float, Int, Shaped
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.row_sparse import row_norms
from unpooled.models.base import FederatedEstimator
from unpooled.models.discriminant import classes as names_of_classes
from unpooled.models.discriminant.classes import (
    agreed_names,
    check_label,
    class_values,
)
from unpooled.models.mmvfl import local_weights as own_weights
from unpooled.models.mmvfl import pseudo_labels as label_sharing
from unpooled.models.mmvfl.pseudo_labels import (
    SETTINGS,
    check_parameters,
    shared_labels,
)
from unpooled.protocol.step import adopted

local_names, local_labels, local_objective = adopted(
    __name__,
    label_sharing.local_names,
    label_sharing.local_labels,
    label_sharing.local_objective,
)
local_scores, local_hits, own_scores, shown_weights, chosen_columns = adopted(
    __name__,
    own_weights.local_scores,
    own_weights.local_hits,
    own_weights.own_scores,
    own_weights.shown_weights,
    own_weights.chosen_columns,
)


@final
class MMVFL(ClassifierMixin, FederatedEstimator):
    """Classification and feature selection over columns, with the labels at one silo.

    Parameters
    ----------
    beta : float, default 0.1
        How much the weights of a column cost; larger selects fewer.
    zeta : float, default 1000.0
        How strongly pseudo-labels are drawn towards their mean over the silos.
    eta : float, default 1000.0
        How strongly the owner's are drawn towards the labels.
    max_iter : int, default 100
        Most iterations, of two rounds each.
    tol : float, default 1e-6
        Stop when the objective falls by less than this share of it; 0 runs all.
    max_staleness : int, default 0
        How many iterations in a row a slow silo may send its last pseudo-labels again.
    random_state : int, optional
        Seed of the first pseudo-labels; None: 0.

    Attributes
    ----------
    classes_ : (c,) array
        Names of the classes, sorted.
    coef_ : dict of str to (p_k, c) array
        Weights by silo, kept there; asking for them asks the silos to disclose them.
    feature_importances_ : dict of str to (p_k,) array
        Norms of the rows of `coef_`, likewise.
    objective_ : list of float
        Equation (4) after each iteration; it never rises.
    n_iter_ : int
        How many iterations.
    kept_ : str
        Under which study and view the silos keep their weights.
    n_features_in_ : int
        Columns of all silos.
    feature_names_in_ : (p,) array of str
        Their names, where the silos' tables have names.

    Raises
    ------
    DataError
        No label, one class, missing values, or a parameter out of range.

    Notes
    -----
    Released, as totals only: class names and sizes, the objective and the seconds of
    an iteration; and, to the silos alone, the mean pseudo-labels. Never released: the
    data or weights of a silo, or its own pseudo-labels. The silos learn the labels: the
    mean tends to them, and sharing them is the method's purpose. The coordinator sees
    them as noise. `predict` releases scores of rows, `select` the names of columns, and
    `score` a number.

    Every array over rows is row-level, so all silos must `allow_row_level`.
    Columns are used as they are: no centring and no intercept, as in the paper.

    References
    ----------
    Multi-Participant Multi-Class Vertical Federated Learning, Algorithm 1.
    """

    classes_: Shaped[Array, " c"]
    coef_: dict[str, Array]
    feature_importances_: dict[str, Array]
    objective_: list[float]

    _partitions = ("columns",)
    _kept_by_silos = ("coef_", "feature_importances_")

    def __init__(
        self,
        beta: float | int = 0.1,
        *,
        zeta: float | int = 1000.0,
        eta: float | int = 1000.0,
        max_iter: int = 100,
        tol: float | int = 1e-6,
        max_staleness: int = 0,
        random_state: int | None = None,
    ) -> None:
        self.beta = beta
        self.zeta = zeta
        self.eta = eta
        self.max_iter = max_iter
        self.tol = tol
        self.max_staleness = max_staleness
        self.random_state = random_state

    def _fit(self, federation: Federation, y: Any) -> None:
        check_parameters(self)
        check_label(federation, y)
        names = agreed_names(federation, local_names, None, 2)
        self.classes_ = class_values(names)
        self.objective_ = []
        settings = {name: float(getattr(self, name)) for name in SETTINGS}
        planned = federation.coordinator.planned
        steps = (local_labels, local_objective)
        for value in shared_labels(
            federation, steps, names, settings, self.random_state
        ):
            self.objective_.append(value)
            if self._has_converged() and not planned:
                break
            if len(self.objective_) == self.max_iter:
                if self.tol > 0 and not planned:
                    self._warn()
                break
        self.n_iter_ = len(self.objective_)

    def _has_converged(self) -> bool:
        if len(self.objective_) < 2 or self.tol == 0:
            return False
        before, value = self.objective_[-2:]
        return before - value <= self.tol * before

    def _warn(self) -> None:
        warnings.warn(
            f"The objective still fell by more than tol={self.tol} of it after "
            f"max_iter={self.max_iter} iterations. Allow more, or set tol=0 to stop "
            f"after a number of iterations.",
            ConvergenceWarning,
            stacklevel=4,
        )

    def _gather(self, federation: Federation) -> None:
        told = federation.collect(
            shown_weights, kept_of=self.kept_, classes=self._names()
        )
        self.coef_ = {party: values["weights"] for party, values in told.items()}
        self.feature_importances_ = {p: row_norms(W) for p, W in self.coef_.items()}

    def decision_function(self, X: Any) -> Float[Array, "N c"]:
        """Return each row's score for each class, added over all silos.

        Parameters
        ----------
        X : Federation
            With the silos and columns of the fit, on the same or on new rows.
        """
        view = self._view(X)
        with view.fitting():
            how = {"kept_of": self.kept_, "classes": self._names()}
            return view.sum(local_scores, **how)["scores"]

    def predict(self, X: Any) -> Shaped[Array, " N"]:
        """Return the class of each row, by all silos together.

        Parameters
        ----------
        X : Federation
            As of `decision_function`, which says what this releases.
        """
        return self.classes_[self.decision_function(X).argmax(axis=1)]

    def predict_by_party(self, X: Any) -> dict[str, Shaped[Array, " N"]]:
        """Return the class of each row by each silo alone, which the silos disclose.

        Parameters
        ----------
        X : Federation
            As of `decision_function`.
        """
        view = self._view(X)
        with view.fitting():
            how = {"kept_of": self.kept_, "classes": self._names()}
            told = view.collect(own_scores, **how)
        return {
            party: self.classes_[values["scores"].argmax(axis=1)]
            for party, values in told.items()
        }

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the share of rows that `predict` puts into their class.

        The scores are opened by the silos alone; the coordinator learns the share.

        Parameters
        ----------
        X : Federation
            As of `decision_function`, with the label that the fit had.
        y : optional
            The label's name, or None: the same.
        sample_weight : None
            Rows count alike.
        """
        view = self._view(X)
        check_label(view, view.label if y is None else y)
        if sample_weight is not None:
            raise DataError("MMVFL.score takes no sample_weight; rows count alike.")
        with view.fitting():
            how = {"kept_of": self.kept_, "classes": self._names()}
            scores = view.sum(local_scores, to="parties", **how)["scores"]
            told = view.sum(local_hits, classes=self._names(), scores=scores)
        return float(told["hits"]) / max(float(told["judged"]), 1.0)

    def select(self, percent: float | int, X: Federation | None = None) -> Federation:
        """Return a view of the columns that count most, of each silo its own share.

        Every silo discloses which of its columns are among them, and nothing else.

        Parameters
        ----------
        percent : float
            Of each silo's columns, above 0 and at most 100; rounded up, so at least
            one.
        X : Federation, optional
            To select from; that of the fit when omitted.
        """
        if not 0.0 < percent <= 100.0:
            raise DataError(f"percent={percent!r}; choose above 0 and at most 100.")
        given = self._silos if X is None else X
        if given is None:
            raise DataError(
                "This MMVFL was read from a file; say which federation to select from: "
                "select(percent, federation)."
            )
        view = self._view(given)
        with view.fitting():
            how = {"kept_of": self.kept_, "percent": float(percent)}
            told = view.collect(chosen_columns, **how)
        columns = [
            column
            for party in view.parties
            for column, chosen in zip(
                view.columns_of[party], told[party]["chosen"], strict=True
            )
            if chosen
        ]
        return view.select(columns)

    def _view(self, X: Any) -> Federation:
        check_is_fitted(self)
        if not isinstance(X, Federation):
            raise DataError(
                f"The weights of MMVFL are kept in the silos, so it predicts rows of a "
                f"Federation, not of {type(X).__name__}."
            )
        return self._check_view(X)

    def _names(self) -> Int[Array, "c w"]:
        return np.array([names_of_classes.words_of(v) for v in self.classes_.tolist()])
