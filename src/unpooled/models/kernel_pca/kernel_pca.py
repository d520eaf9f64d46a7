"""Kernel principal component analysis over a federation.

    columns   silos ── one sum for every two people ──> kernel, centred = U diag(λ) Uᵀ
    rows      every silo  z = sqrt(2 / l) cos(x W + b), W and b drawn from a public seed
              silos ── N, sums, then scatter of z ────> components of the features

On a column partition a kernel is a function of sums over silos (products, or squared
distances), so the result is that of the joined columns; the steps and their sums are in
`kernel_pca_columns`. On a row partition a kernel value of rows in two silos is no sum
over silos, so only Fourier features, which never leave their silo, are offered there.

References
----------
As of `unpooled.linalg.kernels`.
"""

from dataclasses import KW_ONLY, dataclass, field
from typing import Any, final

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from unpooled.arrays import Array, Float, Int
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg import kernels
from unpooled.models import moments
from unpooled.models.base import FederatedEstimator
from unpooled.models.kernel_pca import kernel_pca_columns
from unpooled.models.kernel_pca.kernel import APPROXIMATIONS, Method
from unpooled.models.kernel_pca.kernel_pca_results import kernel_pca_exhibits
from unpooled.models.moments import pooled_mean, pooled_scatter
from unpooled.models.parameter_checks import check_choice, whole_number
from unpooled.models.pca.spectrum import check_rows_suffice, leading_components
from unpooled.protocol.step import derived, public
from unpooled.results.citations import Citation


# Products with features of many seeds can be solved for those of single values.
@derived(settings=("seed", "gamma", "size"))
def fourier(
    X: Float[Array, "n p"], *, seed: int, gamma: float, size: int
) -> Float[Array, "n l"]:
    """Return random Fourier features of rows; every silo draws the same weights."""
    weights, offset = kernels.fourier_weights(seed, X.shape[1], size, gamma)
    return kernels.fourier_features(X @ weights, offset)


@derived(
    within_silos=True,
    takes={
        "mean": public("p", "the mean of each random feature over all silos"),
        "components": public("k p", "the principal components of the random features"),
        "scale": public("k", "the number that each component's scores are divided by"),
    },
)
def projected(
    X: Float[Array, "n p"],
    *,
    mean: Float[Array, " p"],
    components: Float[Array, "k p"],
    scale: Float[Array, " k"],
) -> Float[Array, "n k"]:
    """Return the scores of features along their principal components."""
    return (X - mean) @ components.T / scale


@final
@dataclass(eq=False, repr=False)
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
        Approximation of the kernel: none; by `n_landmarks` landmark rows; or, with
        "rbf", by as many random Fourier features, the only choice on a row partition.
    n_landmarks : int, default 100
        l, the number of landmark rows, or of features.
    scores : {"coordinator", "parties"}, default "coordinator"
        On a column partition: who opens the sums for every two people, and so receives
        the scores. With "parties" the silos find the components and keep the scores;
        the coordinator learns the eigenvalues.
    random_state : int, RandomState or None, default None
        Seed of the landmarks or features; None takes the federation's.

    Attributes
    ----------
    eigenvalues_ : (k,) array
        Eigenvalues of the centred kernel matrix, or of its approximation, undivided, in
        descending order.
    eigenvalue_sum_ : float
        Sum of all eigenvalues, kept or not: the trace of the centred kernel matrix, or
        of its approximation. Not with ``scores="parties"``.
    eigenvectors_ : (N, k) array
        Only on a column partition: orthonormal; in each the entry of largest magnitude
        is positive. With ``scores="parties"`` reading it, or one of the next two, asks
        the silos to disclose them.
    score_weights_ : (l, k) array
        ``(f - kernel_means_) @ score_weights_`` are the scores of a row, f its kernel
        values with the l landmarks, or its features. Without an approximation all N
        rows are landmarks.
    kernel_means_ : (l,) array
        Means of the kernel values, or of the features, over the N rows.
    gamma_ : float
        `gamma`, or its default.
    component_indices_ : (l,) array
        Only with "nystroem": positions of the landmark rows.
    n_samples_ : int
        N, the sample size.
    squares_ : float
        Only on a column partition: sum of squares of all columns, about zero or about
        their means, which bounds the sums of every two rows.
    seed_ : int
        Public seed of the landmarks or features.
    kept_ : str
        Only on a column partition: the study and view under which the silos keep their
        landmark rows.
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
    Released, as totals only: on a column partition one number, the sum of squares of
    all columns; and for every two people (with "nystroem" for each person and each of l
    others) the product of their rows or half their squared distance. These have entries
    for people, which every silo must allow, and determine all rows up to a rotation for
    their opener: with "poly" and "sigmoid" about zero, with the others about their
    mean. With "fourier" they are l known combinations of the columns: from l = p on,
    the rows themselves. The sums of new rows reveal as much of those. The silos keep
    their means and landmark rows. Never released: a silo's own product, distance, mean
    or column.

    On a row partition the totals are N, the l sums of features, and their l × l
    scatter; the features stay in the silos. A silo answers for one seed, `gamma` and
    number of features of a column in each version of its table (`one_setting`): give
    `random_state` where a study is to be repeated. The result is that of scikit-learn's
    `RBFSampler` with ``n_components=n_landmarks`` and the same `random_state`, then its
    `PCA`, with the same signs. On a column partition "fourier" gives the same up to
    signs, and "nystroem" the result of scikit-learn's `Nystroem`, then its `PCA`.

    See Also
    --------
    sklearn.decomposition.KernelPCA : its twin on joined columns.
    unpooled.PCA : for the linear kernel of many people; of new rows it releases the
        scores alone.

    References
    ----------
    Schölkopf, Smola and Müller, Nonlinear component analysis as a kernel eigenvalue
    problem, Neural Computation 10 (1998).

    Williams and Seeger, Using the Nyström method to speed up kernel machines, NIPS
    2000: landmarks.

    Rahimi and Recht, Random features for large-scale kernel machines, NIPS 2007:
    `approximation="fourier"`.
    """

    eigenvalues_: Float[Array, " k"] = field(init=False)
    eigenvectors_: Float[Array, "N k"] = field(init=False)
    score_weights_: Float[Array, "l k"] = field(init=False)
    kernel_means_: Float[Array, " l"] = field(init=False)
    component_indices_: Int[Array, " l"] = field(init=False)

    _partitions = ("rows", "columns")
    _steps = (
        *(moments.local_total, moments.local_squares, moments.local_scatter),
        kernel_pca_columns,
    )
    _kept_by_silos = ("eigenvectors_", "score_weights_", "kernel_means_")
    _exhibits = kernel_pca_exhibits

    n_components: Any = None
    _: KW_ONLY
    kernel: str = "rbf"
    gamma: Any = None
    degree: Any = 3
    coef0: Any = 1
    approximation: str | None = None
    n_landmarks: Any = 100
    scores: Any = "coordinator"
    random_state: Any = None

    def _citation(self) -> Citation:
        works = [
            "Schölkopf B, Smola A, Müller KR. Nonlinear component analysis as a kernel "
            "eigenvalue problem. Neural Computation 1998; 10: 1299-1319."
        ]
        how, size = "", f"{self.n_landmarks:,}"
        if self.approximation == "nystroem":
            how = f", approximated by {size} landmark rows (Nyström)"
            works.append(
                "Williams CKI, Seeger M. Using the Nyström method to speed up kernel "
                "machines. NIPS 2000."
            )
        elif self.approximation == "fourier":
            how = f", approximated by {size} random Fourier features"
            works.append(
                "Rahimi A, Recht B. Random features for large-scale kernel machines. "
                "NIPS 2007."
            )
        return Citation(
            f"A kernel principal component analysis with the kernel {self.kernel} was "
            f"computed{how}.",
            tuple(works),
        )

    def _fit(self, federation: Federation, y: Any) -> None:
        self._check_parameters()
        p = federation.n_features
        by_rows = federation.partition == "rows"
        if by_rows and self.approximation != "fourier":
            raise DataError(
                "On a row partition a kernel's values belong to two silos at once, and "
                'no sum over silos gives them. Choose approximation="fourier" with '
                'kernel="rbf".'
            )
        self.gamma_ = float(1.0 / p if self.gamma is None else self.gamma)
        self.seed_ = self._drawn_seed(federation)
        if by_rows:
            self._fit_rows(federation)
        else:
            self._fit_columns(federation)

    def _fit_rows(self, federation: Federation) -> None:
        """Find the principal components of every silo's Fourier features."""
        view, size = self._features(federation), self.n_landmarks
        N, mean = pooled_mean(view)
        check_rows_suffice(self.n_components, N, size)
        S = pooled_scatter(view, mean)
        total = self.eigenvalue_sum_ = float(S.trace())
        k, values, V = leading_components(S, self.n_components, min(N, size), total)
        if self.n_components is None:
            k = max(int((values[:k] > 0).sum()), 1)
        self.n_samples_, self.eigenvalues_ = N, values[:k].copy()
        self.kernel_means_, self.score_weights_ = mean, V[:, :k].copy()

    def _fit_columns(self, federation: Federation) -> None:
        """Find the components of the kernel matrix, or of its approximation."""
        N = self.n_samples_ = federation.n_rows or 0
        method, places = self._method(federation.n_features), self._landmarks()
        k, width = self._axis_count(), len(places)
        if self.approximation == "nystroem":
            self.component_indices_ = places
        self.squares_, sums = kernel_pca_columns.sums_of_fit(
            federation, method, places, to=self.scores
        )
        if self.scores == "parties":
            # Every silo finds the components; the coordinator learns the eigenvalues.
            chosen = places if self.approximation == "nystroem" else places[:0]
            federation.keep(
                kernel_pca_columns.own_map,
                sums=sums,
                chosen=chosen,
                how=vars(method),
                size=k,
            )
            share = 1.0 / len(federation.parties)
            totals = federation.sum(kernel_pca_columns.own_values, share=share, size=k)
            values = totals["eigenvalues"]
            everything = self.n_components is None
            self.eigenvalues_ = values[values > 0] if everything else values
            return
        if federation.coordinator.planned:
            # Eigenvectors of a plan's placeholders take time, and mean nothing.
            axes = kernels.KernelMap(
                values=np.ones(k),
                vectors=np.zeros((N, k)),
                offset=np.zeros(width),
                dual=np.zeros((width, k)),
                total=float(k),
            )
        else:
            axes = method.map_of(sums, places, k)
        if self.n_components is None:
            axes = axes.trimmed()
        self.eigenvalues_, self.eigenvectors_ = axes.values, axes.vectors
        self.kernel_means_, self.score_weights_ = axes.offset, axes.dual
        self.eigenvalue_sum_ = axes.total

    def _drawn_seed(self, federation: Federation) -> int:
        """Return the public seed of landmarks or features; 0 where none are drawn."""
        if self.approximation is None:
            return 0
        seed = federation.seed(self.random_state)
        if isinstance(seed, int | np.integer):
            return int(seed)
        return int(check_random_state(seed).randint(2**31 - 1))

    def _method(self, n_features: int) -> Method:
        """Return the kernel and its approximation."""
        return Method(
            kernel=self.kernel,
            gamma=float(self.gamma_),
            degree=float(self.degree),
            coef0=float(self.coef0),
            approximation=self.approximation,
            seed=self.seed_,
            n_features=n_features,
        )

    def _landmarks(self) -> Int[Array, " l"]:
        """Return the positions of the rows that all rows are compared with."""
        if self.approximation == "nystroem":
            return kernels.landmark_rows(self.seed_, self.n_samples_, self.n_landmarks)
        # Fourier features compare rows with none; their number is that of the weights.
        exact = self.approximation is None
        return np.arange(self.n_samples_ if exact else self.n_landmarks)

    def _axis_count(self) -> int:
        """Return the number of axes: as in scikit-learn, N where more are wanted."""
        most = self.n_samples_
        if self.approximation is not None:
            most = min(most, self.n_landmarks)
        return most if self.n_components is None else min(self.n_components, most)

    @property
    def _n_features_out(self) -> int:
        return len(self.eigenvalues_)

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Fit, and return the scores of the fitted rows, without another round.

        Returns
        -------
        (N, k) array, None or Federation
            As returned by `transform`.
        """
        self.fit(X)
        if X.partition == "rows":
            return self.transform(X)
        if self.scores == "parties":
            # The silos kept them when they found the components.
            return None
        return self.eigenvectors_ * np.sqrt(self.eigenvalues_)

    def transform(self, X: Any) -> Any:
        """Return scores of aligned rows, or a view of every silo's rows as scores.

        Parameters
        ----------
        X : Federation, or (n, p) array-like
            On a column partition a federation with the fitted columns; its sums with
            the landmarks are opened as `scores` says. On a row partition the result is
            a view whose columns are kernelpca0, ...; nothing leaves. An array only
            after a fit with Fourier features: other kernels compare it with rows in
            the silos.

        Returns
        -------
        (n, k) array or Federation, or None where the silos keep the scores

        Raises
        ------
        DataError
            When the model was fitted on the other kind of partition.
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
            return self._scores_of_columns(view)
        return self._features(view).derive(
            projected,
            list(self.get_feature_names_out()),
            mean=self.kernel_means_,
            components=np.ascontiguousarray(self.score_weights_.T),
            scale=np.ones(len(self.eigenvalues_)),
        )

    def _scores_of_columns(self, view: Federation) -> Float[Array, "n k"] | None:
        """Return the scores of aligned rows, or None where the silos keep them."""
        method = self._method(view.n_features)
        with view.calling(self, "transform"):
            totals = view.sum(
                kernel_pca_columns.own_extent,
                kept_of=self.kept_,
                centred=method.centred,
            )
            sums = kernel_pca_columns.sums_with(
                view,
                method,
                self._landmarks(),
                self.squares_ + float(totals["squares"]),
                to=self.scores,
                kept_of=self.kept_,
            )
            if self.scores == "coordinator":
                return (method.values(sums) - self.kernel_means_) @ self.score_weights_
            view.keep(
                kernel_pca_columns.own_coordinates,
                kept_of=self.kept_,
                sums=sums,
                how=vars(method),
                size=self._axis_count(),
            )
        return None

    def _of_array(self, X: Any) -> Float[Array, "n k"]:
        X = self._check_rows(X)
        if self.approximation != "fourier":
            raise DataError(
                "The rows that a kernel compares with are in the silos. Pass a "
                "federation with the fitted columns, in place of an array."
            )
        features = fourier(X, seed=self.seed_, gamma=self.gamma_, size=self.n_landmarks)
        return (features - self.kernel_means_) @ self.score_weights_

    def _features(self, federation: Federation) -> Federation:
        """Return the view of every silo's Fourier features."""
        names = [f"fourier{j}" for j in range(self.n_landmarks)]
        view = federation.derive(
            fourier, names, seed=self.seed_, gamma=self.gamma_, size=self.n_landmarks
        )
        return view.asked_by(federation.model)

    def _gather(self, federation: Federation) -> None:
        # Every silo has the same components; the first one's are taken.
        parts = federation.collect(
            kernel_pca_columns.shown_map,
            kept_of=self.kept_,
            size=self._axis_count(),
            width=len(self._landmarks()),
        )
        axes, k = parts[federation.parties[0]], len(self.eigenvalues_)
        self.eigenvectors_ = axes["vectors"][:, :k]
        self.kernel_means_, self.score_weights_ = axes["offset"], axes["dual"][:, :k]

    def to_sklearn(self) -> Any:
        """Return scikit-learn's RBFSampler and PCA, fitted, in a Pipeline.

        Raises
        ------
        DataError
            After other fits: the rows that such a kernel compares with are in the
            silos, and the object would have to hold them.
        """
        import sklearn.decomposition
        from sklearn.kernel_approximation import RBFSampler
        from sklearn.pipeline import make_pipeline

        check_is_fitted(self)
        if self.approximation != "fourier":
            raise DataError(
                "scikit-learn's KernelPCA holds the fitted rows, which are in the "
                'silos. After approximation="fourier" there is a twin without them.'
            )
        p, size = self.n_features_in_, self.n_landmarks
        sampler = RBFSampler(
            gamma=self.gamma_, n_components=size, random_state=self.seed_
        )
        # The sampler reads nothing from the rows but the number of columns.
        sampler.fit(np.zeros((1, p)))
        self._taught(sampler, ("feature_names_in_",))
        k, N = len(self.eigenvalues_), self.n_samples_
        twin = sklearn.decomposition.PCA(k)
        twin.mean_ = self.kernel_means_.copy()
        twin.components_ = self.score_weights_.T.copy()
        twin.explained_variance_ = self.eigenvalues_ / (N - 1)
        twin.n_components_, twin.n_samples_, twin.n_features_in_ = k, N, size
        return make_pipeline(sampler, twin)

    def _check_parameters(self) -> None:
        """Refuse parameters that do not exist or do not go together."""
        for name, allowed in {
            "kernel": kernels.KERNELS,
            "approximation": APPROXIMATIONS,
            "scores": ("coordinator", "parties"),
        }.items():
            check_choice(name, getattr(self, name), allowed)
        if self.approximation == "fourier" and self.kernel != "rbf":
            raise DataError(
                f"kernel={self.kernel!r}: Fourier features approximate rbf alone."
            )
        k, most = self.n_components, self.n_landmarks
        whole_number("n_components", 1 if k is None else k)
        whole_number("n_landmarks", most)
        if self.approximation is not None and k is not None and k > most:
            raise DataError(
                f"n_components={k}, but the approximation has {most} dimensions; raise "
                f"n_landmarks."
            )
        if self.gamma is not None and not 0.0 < self.gamma < np.inf:
            raise DataError(f"gamma={self.gamma!r}; choose a number above 0, or None.")
        if not np.isfinite([self.degree, self.coef0]).all():
            raise DataError("degree and coef0 are finite numbers.")
