"""Kernel principal component analysis over a federation.

    columns   silos ── one sum for every two people ──> kernel, centred = U diag(λ) Uᵀ
    rows      silos ── moments of Fourier features ───> axes of the features

On a column partition a kernel is a function of sums over silos (products, or squared
distances), so the result is that of the joined columns; see
`unpooled.models.kernel_pca.columns`, and `unpooled.models.kernel_pca.rows` for row
partitions.

References
----------
As of `unpooled.linalg.kernels`.
"""

from typing import Any, final

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from unpooled.arrays import Array, Float, Int
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.kernels import KERNELS, fourier_features, fourier_weights
from unpooled.models import moments
from unpooled.models.base import FederatedEstimator
from unpooled.models.kernel_pca import columns as kernel_columns
from unpooled.models.kernel_pca import rows as kernel_rows
from unpooled.models.kernel_pca import steps as kernel_steps
from unpooled.models.kernel_pca.kernel import APPROXIMATIONS

# Silos look steps up under the name of the model that asks.
(
    own_landmarks,
    own_extent,
    own_products,
    own_distances,
    own_products_with,
    own_distances_with,
    own_phases,
    own_map,
    own_values,
    own_coordinates,
    shown_map,
) = kernel_steps.STEPS
fourier, projected = kernel_rows.TRANSFORMS


@final
class KernelPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, FederatedEstimator):
    """Kernel principal component analysis: the answer of joined columns.

    Parameters
    ----------
    n_components : int or None, default None
        How many components, at most N; None: all whose eigenvalue is above 0.
    kernel : {"rbf", "linear", "poly", "sigmoid"}, default "rbf"
        ``exp(-gamma ‖x - y‖²)``, ``x·y``, ``(gamma x·y + coef0)^degree`` or
        ``tanh(gamma x·y + coef0)``, over all columns.
    gamma : float, optional
        None: 1 / p, p the columns of all silos.
    degree : float, default 3
        Of "poly".
    coef0 : float, default 1
        Of "poly" and "sigmoid".
    approximation : {None, "nystroem", "fourier"}, default None
        Of the kernel: none; from `n_landmarks` rows; or, with "rbf", from so many
        random features, which alone works on a row partition.
    n_landmarks : int, default 100
        l, of an approximation: landmark rows, or features.
    scores : {"coordinator", "parties"}, default "coordinator"
        On a column partition: who opens the sums for every two people, and so gets what
        `transform` makes. With "parties" the silos find the axes and keep the scores;
        the coordinator learns the eigenvalues.
    random_state : int, RandomState or None, default None
        Of an approximation: draws landmarks or features; None takes the federation's.

    Attributes
    ----------
    eigenvalues_ : (k,) array
        Of the centred kernel matrix (of the approximate one), undivided, in descending
        order.
    eigenvectors_ : (N, k) array
        Only on a column partition: orthonormal; in each the entry of largest magnitude
        is positive. With ``scores="parties"`` asking for it, or for the next two, has
        the silos disclose them.
    score_weights_ : (l, k) array
        ``(f - kernel_means_) @ score_weights_`` are the scores of a row with features
        f, or with kernel values f with the l landmarks; exactly, these are all N rows.
    kernel_means_ : (l,) array
        Means of these over the N rows.
    gamma_ : float
        `gamma`, or what stands for None.
    component_indices_ : (l,) array
        Only with "nystroem": which rows are landmarks.
    n_samples_ : int
        N.
    squares_ : float
        Only on a column partition: squares of all columns, or squared distances from
        their means, added; what sums of two rows are bounded by.
    seed_ : int
        What landmarks or features were drawn from; they are public.
    kept_ : str
        Only on a column partition: under which name the silos keep their landmark rows.
    n_features_in_ : int
        p.
    feature_names_in_ : (p,) array of str
        Names of the columns, where the silos' tables have names.

    Raises
    ------
    DataError
        Missing values; a kernel whose matrix has negative eigenvalues among the k; an
        exact kernel, or Nystroem, on a row partition.

    Notes
    -----
    Released, as totals only: on a column partition one number, the squares of all
    columns; and for every two people (with "nystroem" for each person and each of l
    others) the product of their rows or half their squared distance. These are
    row-level, which every silo must allow, and tell whoever opens them all rows up to a
    rotation, with "poly" and "sigmoid" about zero, with the others about their mean.
    With "fourier" they are l known mixtures of the columns: from l = p on, the rows
    themselves. Whoever opens the sums of new rows learns as much of those. The silos
    keep their means and landmark rows. Never released: a silo's own product, distance,
    mean or column.

    On a row partition they are N, the l sums of features, and their l × l scatter; the
    features stay in the silos. The result is scikit-learn's `RBFSampler` with
    ``n_components=n_landmarks`` and the same `random_state`, then its `PCA`; signs are
    those of that. On a column partition "fourier" gives the same up to signs, and
    "nystroem" scikit-learn's `Nystroem`, then its `PCA`.

    See Also
    --------
    sklearn.decomposition.KernelPCA : its twin on joined columns.
    unpooled.PCA : for the linear kernel of many people, and with less to be seen of new
        ones: their scores alone.
    """

    eigenvalues_: Float[Array, " k"]
    eigenvectors_: Float[Array, "N k"]
    score_weights_: Float[Array, "l k"]
    kernel_means_: Float[Array, " l"]
    component_indices_: Int[Array, " l"]

    _partitions = ("rows", "columns")
    _steps = (moments.local_total, moments.local_squares, moments.local_scatter)
    _kept_by_silos = ("eigenvectors_", "score_weights_", "kernel_means_")

    def __init__(
        self,
        n_components: Any = None,
        *,
        kernel: str = "rbf",
        gamma: Any = None,
        degree: Any = 3,
        coef0: Any = 1,
        approximation: str | None = None,
        n_landmarks: Any = 100,
        scores: Any = "coordinator",
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.approximation = approximation
        self.n_landmarks = n_landmarks
        self.scores = scores
        self.random_state = random_state

    def _fit(self, federation: Federation, y: Any) -> None:
        _check_parameters(self)
        if federation.partition == "rows":
            kernel_rows.fit_rows(self, federation)
        else:
            kernel_columns.fit_columns(self, federation)

    @property
    def _n_features_out(self) -> int:
        return len(self.eigenvalues_)

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Fit, and return the scores of the fitted rows: no more leaves for these.

        Returns
        -------
        (N, k) array, None or Federation
            As of `transform`.
        """
        self.fit(X)
        if X.partition == "rows":
            return self.transform(X)
        if self.scores == "parties":
            # The silos kept them when they found the axes.
            return None
        return self.eigenvectors_ * np.sqrt(self.eigenvalues_)

    def transform(self, X: Any) -> Any:
        """Return scores of aligned rows, or a view of every silo's rows as scores.

        Parameters
        ----------
        X : Federation, or (n, p) array-like
            On a column partition a federation with the fitted columns: its sums with
            the fitted rows go to whom `scores` names. Of a row partition, a view whose
            columns are kernelpca0, ...; nothing leaves. An array only after a fit
            with Fourier features: other kernels compare it with rows in the silos.

        Returns
        -------
        (n, k) array or Federation, or None where the silos keep the scores
        """
        check_is_fitted(self)
        if not isinstance(X, Federation):
            return self._of_array(X)
        view = self._check_view(X)
        by_rows = "kept_" not in vars(self)
        if (view.partition == "rows") != by_rows:
            raise DataError(
                f"This model was fitted on a partition by "
                f"{'rows' if by_rows else 'columns'}; transform one of those."
            )
        if not by_rows:
            return kernel_columns.coordinates(self, view)
        return kernel_rows.projection(self, view, list(self.get_feature_names_out()))

    def _of_array(self, X: Any) -> Float[Array, "n k"]:
        X = self._check_rows(X)
        if self.approximation != "fourier":
            raise DataError(
                "The rows that a kernel compares with are in the silos. Pass a "
                "federation with the fitted columns, in place of an array."
            )
        how = (self.seed_, self.n_features_in_, self.n_landmarks, self.gamma_)
        weights, offset = fourier_weights(*how)
        features = fourier_features(X @ weights, offset)
        return (features - self.kernel_means_) @ self.score_weights_

    def _gather(self, federation: Federation) -> None:
        kernel_columns.gather(self, federation)

    def to_sklearn(self) -> Any:
        """Return scikit-learn's RBFSampler and PCA, fitted, in a Pipeline.

        Raises
        ------
        DataError
            After other fits: the rows that such a kernel compares with are in the
            silos, and would have to stand in the object.
        """
        check_is_fitted(self)
        if self.approximation != "fourier":
            raise DataError(
                "scikit-learn's KernelPCA holds the fitted rows, which are in the "
                'silos. After approximation="fourier" there is a twin without them.'
            )
        return kernel_rows.sklearn_twin(self)


def _check_parameters(model: KernelPCA) -> None:
    """Refuse parameters that cannot be, before anything leaves."""
    for name, allowed in {
        "kernel": KERNELS,
        "approximation": APPROXIMATIONS,
        "scores": ("coordinator", "parties"),
    }.items():
        if getattr(model, name) not in allowed:
            choices = ", ".join(map(repr, allowed))
            raise DataError(f"{name}={getattr(model, name)!r}; choose from {choices}.")
    if model.approximation == "fourier" and model.kernel != "rbf":
        raise DataError(
            f"kernel={model.kernel!r}: Fourier features approximate rbf alone."
        )
    k, most = model.n_components, model.n_landmarks
    for name, value in {
        "n_components": 1 if k is None else k,
        "n_landmarks": most,
    }.items():
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if not whole or value < 1:
            raise DataError(f"{name}={value!r}; choose a whole number above 0.")
    if model.approximation is not None and k is not None and k > most:
        raise DataError(
            f"n_components={k}, but the approximation has {most} dimensions; raise "
            f"n_landmarks."
        )
    if model.gamma is not None and not 0.0 < model.gamma < np.inf:
        raise DataError(f"gamma={model.gamma!r}; choose a number above 0, or None.")
    if not np.isfinite([model.degree, model.coef0]).all():
        raise DataError("degree and coef0 are finite numbers.")
