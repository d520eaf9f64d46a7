"""Kernel PCA on a row partition: Fourier features in each silo, then PCA of those.

    every silo  z = sqrt(2 / l) cos(x W + b), W and b drawn from one public seed
    round 1     silos ── N, feature sums ──────────────────> mean
    rounds 2, 3 silos ── squares, scatter about the mean ──> axes of the features

The features never leave a silo. A kernel of rows in two silos is a function of both, so
the exact kernel matrix is no sum over silos and is not offered here.
"""

from typing import Any

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg import kernels
from unpooled.linalg.kernels import fourier_weights
from unpooled.models.kernel_pca.columns import seed_of
from unpooled.models.moments import pooled_mean, pooled_scatter
from unpooled.models.pca.check_axes import are_axes
from unpooled.models.pca.spectrum import check_rows_suffice, leading_components
from unpooled.protocol.step import LIBRARY, adopted, derived, public

FITTED_BY = ("kernel_pca.local_total", "kernel_pca.local_squares")
FITTED_BY += ("kernel_pca.local_scatter",)


@derived(fitted_by=())
def fourier(
    X: Float[Array, "n p"], *, seed: int, gamma: float, size: int
) -> Float[Array, "n l"]:
    """Return random Fourier features of rows; every silo draws the same weights."""
    weights, offset = fourier_weights(seed, X.shape[1], size, gamma)
    return kernels.fourier_features(X @ weights, offset)


@derived(
    takes={
        "mean": public("p", "the mean of each random feature over all silos"),
        "components": public("k p", "the principal components of the random features"),
        "scale": public("k", "the number that each component's scores are divided by"),
    },
    fitted_by=FITTED_BY,
    follows=are_axes,
)
def projected(
    X: Float[Array, "n p"],
    *,
    mean: Float[Array, " p"],
    components: Float[Array, "k p"],
    scale: Float[Array, " k"],
) -> Float[Array, "n k"]:
    """Return coordinates of features along their principal axes."""
    return (X - mean) @ components.T / scale


# `unpooled.models.kernel_pca.kernel_pca` has them too, where silos look them up.
TRANSFORMS = adopted(f"{LIBRARY}kernel_pca", fourier, projected)
_FOURIER, _PROJECTED = TRANSFORMS


def fit_rows(model: Any, federation: Federation) -> None:
    """Fit a `KernelPCA`; sets its attributes."""
    if model.approximation != "fourier":
        raise DataError(
            "On a row partition a kernel's values belong to two silos at once, and no "
            'sum over silos gives them. Choose approximation="fourier" with '
            'kernel="rbf".'
        )
    p = federation.n_features
    model.gamma_ = float(1.0 / p if model.gamma is None else model.gamma)
    model.seed_ = seed_of(model, federation)
    view, wanted = featured(model, federation), model.n_components
    N, mean = pooled_mean(view)
    check_rows_suffice(wanted, N, model.n_landmarks)
    S = pooled_scatter(view, mean)
    most = min(N, model.n_landmarks)
    k, values, axes = leading_components(S, wanted, most, float(S.trace()))
    if wanted is None:
        k = max(int((values[:k] > 0).sum()), 1)
    model.n_samples_, model.eigenvalues_ = N, values[:k].copy()
    model.kernel_means_, model.score_weights_ = mean, axes[:, :k].copy()


def featured(model: Any, federation: Federation) -> Federation:
    """Return the view of every silo's features."""
    names = [f"fourier{j}" for j in range(model.n_landmarks)]
    how = {"seed": model.seed_, "gamma": model.gamma_, "size": model.n_landmarks}
    view = federation.derive(_FOURIER, names, **how)
    return view.asked_by(federation.model)


def projection(model: Any, view: Federation, names: list[str]) -> Federation:
    """Return the view of every silo's scores; nothing leaves."""
    axes = np.ascontiguousarray(model.score_weights_.T)
    how = {"mean": model.kernel_means_, "components": axes}
    return featured(model, view).derive(
        _PROJECTED, names, scale=np.ones(len(axes)), **how
    )


def sklearn_twin(model: Any) -> Any:
    """Return the model's features and axes as a fitted Pipeline of scikit-learn's."""
    import sklearn.decomposition
    from sklearn.kernel_approximation import RBFSampler
    from sklearn.pipeline import make_pipeline

    p, size = model.n_features_in_, model.n_landmarks
    sampler = RBFSampler(
        gamma=model.gamma_, n_components=size, random_state=model.seed_
    )
    # It learns nothing of rows but their number of columns.
    sampler.fit(np.zeros((1, p)))
    if hasattr(model, "feature_names_in_"):
        sampler.feature_names_in_ = model.feature_names_in_.copy()
    k, N = len(model.eigenvalues_), model.n_samples_
    twin = sklearn.decomposition.PCA(k)
    twin.mean_ = model.kernel_means_.copy()
    twin.components_ = model.score_weights_.T.copy()
    twin.explained_variance_ = model.eigenvalues_ / (N - 1)
    twin.n_components_, twin.n_samples_, twin.n_features_in_ = k, N, size
    return make_pipeline(sampler, twin)
