"""Multi-class learning and feature selection over columns, with labels at one silo.

    once        silos ── class names, mixed in cells ─────────────────────────> names
    each        silos <── Z, veiled ──  each fits its weights W_k to its own pseudo-
    iteration   labels Z_k, moves Z_k towards Z (in the silo with labels towards Y
                too), and sends Z_k / m under masks ─────────────────────────> Z, veiled
                silos <── Z, veiled ──  silos ── their terms of the objective ──> total
    predict     silos ── X_k W_k, under masks ──> Σ X_k W_k, largest for the class
    select      silos ── which columns have the largest rows of W_k ──> a view of them

Z is the mean of the silos' pseudo-labels. It is opened by the silos alone and is noise
to the coordinator, because Z tends to the labels and argmax Z would reveal them. The
silos do learn the labels: to share them is the purpose of the method.

References
----------
Feng and Yu, Multi-Participant Multi-Class Vertical Federated Learning, 2020, Algorithm
1 and equations (4) to (14). Its constraint Zᵀ Z = I, which a one-hot Y does not meet
(section 4.4 says it does), plays no part in its updates. Algorithm 1 draws every Z_k;
here Z is drawn and every Z_k begins as Z. All silos have one β and one ζ, as in section
6.3. There the server receives Z_k in clear (section 5.3); here only their sum exists.
"""

import math
import time
import warnings
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, final

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from unpooled.arrays import Array, Float, Int, Shaped
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.row_sparse import row_norms, row_sparse_weights
from unpooled.linalg.settled import orthonormal_basis
from unpooled.models.base import FederatedEstimator
from unpooled.models.discriminant.classes import (
    SALTS,
    agreed_classes,
    check_label,
    class_codes,
    class_indicators,
    class_values,
    names_if_held,
    words_of,
)
from unpooled.models.mmvfl.mmvfl_results import mmvfl_exhibits
from unpooled.models.moments import complete
from unpooled.protocol.bounds import Ceiling
from unpooled.protocol.step import disclosed, public, release, stays, summed
from unpooled.results.citations import Citation

# A silo is slow when its last update took this many times the mean over all silos.
_SLOW = 2.0
_CLASSES = public("c w", "the names of the classes")
# Predictions of rows, for steps that compare them with the labels of a silo.
_JUDGED = {
    "classes": _CLASSES,
    "scores": public(
        "N c", "each row's scores for each class, which only the silos can open"
    ),
}
_CONSENSUS = public(
    "N c", "the mean of all pseudo-labels, which only the silos can open"
)
# The others of a fit's settings are the parties' shares and their pace.
_SETTINGS = ("settings.beta", "settings.zeta", "settings.eta")

# --- Steps of the fit ----------------------------------------------------------------


@summed(
    by="party",
    takes={"salts": SALTS},
    cells=release(
        "c 16",
        meaning="class names and sizes, mixed in cells; from the silo with labels",
        repeats=16,
    ),
)
def local_names(
    y: Shaped[Array, " N"] | None, *, salts: Int[Array, " c"]
) -> dict[str, Any]:
    """Return the cells of the silo's class names; zeros without labels."""
    return names_if_held(y, salts)


@summed(
    by="party",
    settings=_SETTINGS,
    takes={"classes": _CLASSES, "consensus": _CONSENSUS},
    consensus=release(
        "N c",
        bound=Ceiling("radius"),
        meaning="the mean of all silos’ pseudo-labels, for the silos alone",
    ),
    weights=stays("p c", meaning="the weight of each own column for each class"),
    target=stays("N c", until="fit", meaning="the silo’s own pseudo-labels"),
    pace=stays(
        "2",
        until="fit",
        meaning="iterations skipped in a row, and seconds of the last update",
    ),
)
def local_labels(
    X: Float[Array, "N p"],
    y: Shaped[Array, " N"] | None,
    kept: Any,
    *,
    classes: Int[Array, "c w"],
    consensus: Float[Array, "N c"],
    settings: Mapping[str, float],
    radius: float,
) -> dict[str, Any]:
    """Return Z_k / m after an update of W_k by (7) and (8), and Z_k by (11) or (12).

    A slow silo may skip the update, up to `max_staleness` times in a row.
    """
    if settings["first"]:
        complete(X)
        target, start, skipped, seconds = consensus, None, 0.0, 0.0
    else:
        target, start = kept["target"], kept["weights"]
        skipped, seconds = kept["pace"]
    slow = seconds > _SLOW * settings["pace"] > 0.0
    if slow and skipped < settings["max_staleness"]:
        weights, skipped = start, skipped + 1.0
    else:
        begun = time.perf_counter()
        weights = row_sparse_weights(X, target, settings["beta"], start=start)
        target = _pseudo_labels(X @ weights, consensus, _one_hot(y, classes), settings)
        skipped, seconds = 0.0, time.perf_counter() - begun
    return {
        "consensus": target * settings["share"],
        "weights": weights,
        "target": target,
        "pace": np.array([skipped, seconds]),
    }


@summed(
    by="party",
    settings=_SETTINGS,
    takes={"classes": _CLASSES, "consensus": _CONSENSUS},
    objective=release(
        "",
        meaning="the objective: squared residuals of all silos (squared distances of "
        "weighted columns from pseudo-labels and labels) plus the penalties on their "
        "weights",
    ),
    seconds=release("", meaning="the seconds that all silos’ last updates took"),
)
def local_objective(
    X: Float[Array, "N p"],
    y: Shaped[Array, " N"] | None,
    kept: Any,
    *,
    classes: Int[Array, "c w"],
    consensus: Float[Array, "N c"],
    settings: Mapping[str, float],
) -> dict[str, Any]:
    """Return the silo's terms of the objective (4), and the seconds of its update."""
    W, Z = kept["weights"], kept["target"]
    value = np.square(X @ W - Z).sum() + settings["beta"] * row_norms(W).sum()
    value += settings["zeta"] * np.square(Z - consensus).sum()
    if y is not None:
        value += settings["eta"] * np.square(Z - _one_hot(y, classes)).sum()
    return {"objective": np.array(value), "seconds": np.array(kept["pace"][1])}


# --- Steps on fitted weights --------------------------------------------------------


@summed(
    by="party",
    takes={"classes": _CLASSES},
    scores=release("N c", meaning="each row’s score for each class, over all silos"),
)
def local_scores(
    X: Float[Array, "N p"], kept: Any, *, classes: Int[Array, "c w"]
) -> dict[str, Any]:
    """Return the silo's part of the rows' scores, X_k W_k."""
    complete(X)
    return {"scores": X @ kept["weights"]}


@summed(
    by="party",
    takes=_JUDGED,
    hits=release("", meaning="how many rows are classified correctly"),
    judged=release("", meaning="how many rows have a label to compare with"),
)
def local_hits(
    y: Shaped[Array, " N"] | None,
    *,
    classes: Int[Array, "c w"],
    scores: Float[Array, "N c"],
) -> dict[str, Any]:
    """Return the number of rows classified correctly; zeros without labels."""
    if y is None:
        return {"hits": np.array(0.0), "judged": np.array(0.0)}
    right = scores.argmax(axis=1) == class_codes(y, classes)
    return {"hits": np.array(float(right.sum())), "judged": np.array(float(len(y)))}


@summed(
    by="party",
    takes=_JUDGED,
    hits=release("c", meaning="how many rows of each class are classified correctly"),
    judged=release("", meaning="how many rows have a label to compare with"),
)
def local_class_hits(
    y: Shaped[Array, " N"] | None,
    *,
    classes: Int[Array, "c w"],
    scores: Float[Array, "N c"],
) -> dict[str, Any]:
    """Return the rows of each class classified correctly; zeros without labels."""
    if y is None:
        return {"hits": np.zeros(len(classes)), "judged": np.array(0.0)}
    codes = class_codes(y, classes)
    right = codes[codes == scores.argmax(axis=1)]
    hits = np.bincount(right, minlength=len(classes)).astype(float)
    return {"hits": hits, "judged": np.array(float(len(y)))}


@disclosed(
    by="party",
    takes={"classes": _CLASSES},
    scores=release("N c", meaning="each row’s score for each class, by this silo"),
)
def own_scores(
    X: Float[Array, "N p"], kept: Any, *, classes: Int[Array, "c w"]
) -> dict[str, Any]:
    """Return the silo's part of the rows' scores, X_k W_k, to be disclosed."""
    return local_scores(X, kept, classes=classes)


@disclosed(
    takes={"classes": _CLASSES},
    weights=release(
        "p c", meaning="the weight of each of the silo’s columns for each class"
    ),
)
def shown_weights(kept: Any, *, classes: Int[Array, "c w"]) -> dict[str, Any]:
    """Return W_k."""
    return {"weights": kept["weights"]}


@disclosed(
    chosen=release("p", meaning="which of the silo’s columns have the largest weights")
)
def chosen_columns(kept: Any, *, percent: float) -> dict[str, Any]:
    """Return 1 for the `percent` per cent of columns with the largest weights, else 0.

    At least one column is 1.
    """
    importance = row_norms(kept["weights"])
    number = max(math.ceil(round(percent * len(importance) / 100.0, 9)), 1)
    chosen = np.zeros(len(importance))
    # Stable, so that the first of equal columns is taken.
    chosen[np.argsort(-importance, kind="stable")[:number]] = 1.0
    return {"chosen": chosen}


@final
@dataclass(eq=False, repr=False)
class MMVFL(ClassifierMixin, FederatedEstimator):
    """Classification and feature selection over columns, with the labels at one silo.

    Parameters
    ----------
    beta : float, default 0.1
        Penalty on the norm of each column's weights; a larger one selects fewer
        columns.
    zeta : float, default 1000.0
        Penalty on the distance of a silo's pseudo-labels from their mean over silos.
    eta : float, default 1000.0
        Penalty on the distance of the pseudo-labels from the labels, in the silo that
        has them.
    max_iter : int, default 100
        Largest number of iterations, of two rounds each.
    tol : float, default 1e-6
        Stop when the objective falls by at most this share of it; 0 runs all
        iterations.
    max_staleness : int, default 0
        How many iterations in a row a slow silo may send its last pseudo-labels again.
    random_state : int, optional
        Seed of the first pseudo-labels; 0 when omitted.

    Attributes
    ----------
    classes_ : (c,) array
        Names of the classes, sorted.
    coef_ : dict of str to (p_k, c) array
        Weights of each silo's columns, kept there; reading the attribute requests that
        the silos disclose them.
    feature_importances_ : dict of str to (p_k,) array
        Norms of the rows of `coef_`, disclosed with it.
    objective_ : list of float
        Equation (4) after each iteration; it never rises.
    class_count_ : (c,) array of int
        Number of rows of each class.
    class_hits_ : (c,) array of int
        Number of these that are classified correctly, where a study asked for it.
    selected_features_, selected_silos_ : (s,) arrays of str
        Names of the columns that a study selected, and their silos.
    n_iter_ : int
        Number of iterations.
    kept_ : str
        The study and view under which the silos keep their weights.
    n_features_in_ : int
        Number of columns of all silos.
    feature_names_in_ : (p,) array of str
        Names of the columns, where the silos' tables have names.

    Raises
    ------
    DataError
        No label, one class, missing values, or a parameter out of range.

    Notes
    -----
    Released, as totals only: class names and sizes, the objective and the seconds of
    an iteration; and, to the silos alone, the mean pseudo-labels. Never released: the
    data or weights of a silo, or its own pseudo-labels. The silos learn the labels,
    because the mean tends to them; sharing them is the method's purpose. To the
    coordinator the mean is noise. `predict` releases scores of rows, `select` the names
    of columns, `score` a number, and `class_hits` one for each class.

    Every array over rows is row-level, so that all silos must `allow_row_level`.
    Columns are used as they are, without centring or intercept, as in the paper.

    References
    ----------
    Feng and Yu, Multi-Participant Multi-Class Vertical Federated Learning, 2020,
    Algorithm 1.
    """

    classes_: Shaped[Array, " c"] = field(init=False)
    coef_: dict[str, Array] = field(init=False)
    feature_importances_: dict[str, Array] = field(init=False)
    objective_: list[float] = field(init=False)
    class_count_: Int[Array, " c"] = field(init=False)
    class_hits_: Int[Array, " c"] = field(init=False)
    selected_features_: Shaped[Array, " s"] = field(init=False)
    selected_silos_: Shaped[Array, " s"] = field(init=False)

    _partitions = ("columns",)
    _kept_by_silos = ("coef_", "feature_importances_")
    _exhibits = mmvfl_exhibits
    _scored_by = _scored_by_columns = ("accuracy",)

    beta: float | int = 0.1
    _: KW_ONLY
    zeta: float | int = 1000.0
    eta: float | int = 1000.0
    max_iter: int = 100
    tol: float | int = 1e-6
    max_staleness: int = 0
    random_state: int | None = None

    def _citation(self) -> Citation:
        return Citation(
            f"Columns were selected, and rows classified, by multi-participant "
            f"multi-class vertical federated learning (penalty {self.beta:g}).",
            (
                "Feng S, Yu H. Multi-participant multi-class vertical federated "
                "learning. arXiv:2001.11154, 2020.",
            ),
            exact=False,
        )

    def _fit(self, federation: Federation, y: Any) -> None:
        self._check_parameters()
        check_label(federation, y)
        names, sizes = agreed_classes(federation, local_names, None, 2)
        self.classes_ = class_values(names)
        N, c = federation.n_rows or 0, len(names)
        settings = {
            "beta": float(self.beta),
            "zeta": float(self.zeta),
            "eta": float(self.eta),
            "max_staleness": float(self.max_staleness),
            "share": 1.0 / len(federation.parties),
            "pace": 0.0,
            "first": 1.0,
        }
        # No Z_k has a larger norm: each is a mean, or a ridge fit, of such matrices.
        radius = math.sqrt(max(N, c))
        planned = federation.coordinator.planned
        consensus: Any = _orthonormal(N, c, self.random_state)
        self.objective_ = []
        while len(self.objective_) < self.max_iter:
            consensus = federation.sum(
                local_labels,
                to="parties",
                consensus=consensus,
                radius=radius,
                classes=names,
                settings=settings,
            )["consensus"]
            totals = federation.sum(
                local_objective, consensus=consensus, classes=names, settings=settings
            )
            self.objective_.append(float(totals["objective"]))
            if self._has_converged() and not planned:
                break
            pace = float(totals["seconds"]) * settings["share"]
            settings = settings | {"pace": pace, "first": 0.0}
        else:
            if self.tol > 0 and not planned:
                self._warn()
        self.n_iter_ = len(self.objective_)
        # Where several silos have the label, each has counted the same rows.
        times = max(round(float(sizes.sum()) / max(N, 1)), 1)
        self.class_count_ = np.rint(sizes / times).astype(np.int64)

    def _check_parameters(self) -> None:
        """Refuse parameters out of range, before anything is released."""
        for name in ("beta", "zeta", "eta"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or not 0.0 < value < math.inf:
                raise DataError(f"{name}={value!r}; choose a number above 0.")
        for name, least in {"max_iter": 1, "max_staleness": 0}.items():
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or value < least:
                raise DataError(
                    f"{name}={value!r}; choose a whole number from {least}."
                )
        if not isinstance(self.tol, int | float) or not 0.0 <= self.tol < 1.0:
            raise DataError(f"tol={self.tol!r}; choose a share from 0 to below 1.")

    def _has_converged(self) -> bool:
        """Return whether the objective fell by at most `tol` of it at the end."""
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
        shown = federation.collect(
            shown_weights, kept_of=self.kept_, classes=self._class_words()
        )
        self.coef_ = {party: values["weights"] for party, values in shown.items()}
        self.feature_importances_ = {p: row_norms(W) for p, W in self.coef_.items()}

    def decision_function(self, X: Any) -> Float[Array, "N c"]:
        """Return each row's score for each class, added over all silos.

        The scores are released to the coordinator.

        Parameters
        ----------
        X : Federation
            With the silos and columns of the fit, on the same or on new rows.
        """
        view = self._view(X)
        with view.calling(self, "decision_function"):
            totals = view.sum(
                local_scores, kept_of=self.kept_, classes=self._class_words()
            )
        return totals["scores"]

    def predict(self, X: Any) -> Shaped[Array, " N"]:
        """Return the class of each row, by the columns of all silos.

        The rows' scores are released to the coordinator.

        Parameters
        ----------
        X : Federation
            As of `decision_function`.
        """
        return self.classes_[self.decision_function(X).argmax(axis=1)]

    def predict_by_party(self, X: Any) -> dict[str, Shaped[Array, " N"]]:
        """Return the class of each row by the columns of each silo alone.

        Every silo discloses its own scores of the rows.

        Parameters
        ----------
        X : Federation
            As of `decision_function`.
        """
        view = self._view(X)
        with view.calling(self, "predict_by_party"):
            shown = view.collect(
                own_scores, kept_of=self.kept_, classes=self._class_words()
            )
        return {
            party: self.classes_[values["scores"].argmax(axis=1)]
            for party, values in shown.items()
        }

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the accuracy: the share of rows that `predict` classifies correctly.

        The scores are opened by the silos alone. Released to the coordinator are the
        number of rows with a label, and of those that are classified correctly.

        Parameters
        ----------
        X : Federation
            As of `decision_function`, with the label of the fit.
        y : optional
            Name of the label; that of the federation when omitted.
        sample_weight : None
            Not supported; all rows have the same weight.

        Raises
        ------
        DataError
            When weights are given.
        """
        view = self._view(X)
        check_label(view, view.label if y is None else y)
        if sample_weight is not None:
            raise DataError("MMVFL.score takes no sample_weight; rows count alike.")
        with view.calling(self, "score", **({} if y is None else {"y": y})):
            totals = view.sum(local_hits, **self._judged(view))
        return float(totals["hits"]) / max(float(totals["judged"]), 1.0)

    def _judged(self, view: Federation) -> dict[str, Any]:
        """Return the scores that the silos compare labels with, and alone open."""
        words = self._class_words()
        scores = view.sum(
            local_scores, to="parties", kept_of=self.kept_, classes=words
        )["scores"]
        return {"classes": words, "scores": scores}

    def class_hits(self, X: Any) -> Int[Array, " c"]:
        """Return how many rows of each class `predict` classifies correctly.

        The scores are opened by the silos alone; the coordinator receives the counts.

        Parameters
        ----------
        X : Federation
            As of `decision_function`, with the label of the fit.

        Returns
        -------
        (c,) array of int
            In the order of `classes_`.
        """
        view = self._view(X)
        check_label(view, view.label)
        with view.calling(self, "class_hits"):
            totals = view.sum(local_class_hits, **self._judged(view))
        # Where several silos have the label, each has counted the same rows.
        times = max(round(float(totals["judged"]) / max(view.n_rows or 0, 1)), 1)
        return np.rint(totals["hits"] / times).astype(np.int64)

    def select(self, percent: float | int, X: Federation | None = None) -> Federation:
        """Return a view of the columns with the largest weights in each silo.

        Every silo discloses which of its columns are among them, and nothing else.

        Parameters
        ----------
        percent : float
            Percentage of each silo's columns, above 0 and at most 100. The number of
            columns is rounded up, so that every silo has at least one.
        X : Federation, optional
            The federation to select from; that of the fit when omitted.

        Raises
        ------
        DataError
            When the percentage is not above 0 and at most 100, or a model
            that was read from a file is given no federation.
        """
        if not 0.0 < percent <= 100.0:
            raise DataError(f"percent={percent!r}; choose above 0 and at most 100.")
        federation = self._silos if X is None else X
        if federation is None:
            raise DataError(
                "This MMVFL was read from a file; say which federation to select from: "
                "select(percent, federation)."
            )
        view = self._view(federation)
        with view.calling(self, "select", percent=percent):
            shown = view.collect(
                chosen_columns, kept_of=self.kept_, percent=float(percent)
            )
        columns = [
            column
            for party in view.parties
            for column, chosen in zip(
                view.columns_of[party], shown[party]["chosen"], strict=True
            )
            if chosen
        ]
        return view.select(columns)

    def _view(self, X: Any) -> Federation:
        """Return a federation with the fitted columns, in the fitted order."""
        check_is_fitted(self)
        if not isinstance(X, Federation):
            raise DataError(
                f"The weights of MMVFL are kept in the silos, so it predicts rows of a "
                f"Federation, not of {type(X).__name__}."
            )
        return self._check_view(X)

    def _class_words(self) -> Int[Array, "c w"]:
        """Return the names of the classes as words, which steps take."""
        return np.array([words_of(value) for value in self.classes_.tolist()])


def _one_hot(
    y: Shaped[Array, " N"] | None, classes: Int[Array, "c w"]
) -> Float[Array, "N c"] | None:
    """Return the labels as rows of an identity matrix; None without labels."""
    return None if y is None else class_indicators(y, classes)


def _pseudo_labels(
    fit: Float[Array, "N c"],
    consensus: Float[Array, "N c"],
    labels: Float[Array, "N c"] | None,
    settings: Mapping[str, float],
) -> Float[Array, "N c"]:
    """Return Z_k, a weighted mean of its fit, the consensus and the labels.

    Equation (12); with labels, (11).
    """
    zeta, eta = settings["zeta"], settings["eta"]
    if labels is None:
        return (fit + zeta * consensus) / (1.0 + zeta)
    return (fit + zeta * consensus + eta * labels) / (1.0 + zeta + eta)


def _orthonormal(N: int, c: int, random_state: int | None) -> Float[Array, "N c"]:
    """Return the first Z, random with orthonormal columns (Algorithm 1, line 1)."""
    rng = np.random.default_rng(0 if random_state is None else random_state)
    return orthonormal_basis(rng.standard_normal((max(N, c), c)))[:N]
