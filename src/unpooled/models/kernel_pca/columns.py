"""Kernel PCA on a column partition: one secure sum, then the kernel's own arithmetic.

    fit, exact     silos ── squares, one number ── x·y or ‖x - y‖² / 2 of every two
    Nystroem       the same, with l landmark rows: N × l instead of N (N + 1) / 2
    Fourier        silos ── squares ── x W, N × l; all draw the same W
    new rows       silos ── squares ── the same with the landmarks, or x W

With ``scores="coordinator"`` the coordinator opens the sums and solves; with "parties"
the silos do, each for itself, and the coordinator learns the eigenvalues only.
"""

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from unpooled.arrays import Array, Float, Int
from unpooled.federation.federation import Federation
from unpooled.linalg.kernels import KernelMap, fourier_weights, landmark_rows
from unpooled.models.kernel_pca.kernel import Method
from unpooled.models.kernel_pca.steps import STEPS

(
    _LANDMARKS,
    _EXTENT,
    _PRODUCTS,
    _DISTANCES,
    _PRODUCTS_WITH,
    _DISTANCES_WITH,
    _PHASES,
    _MAP,
    _VALUES,
    _COORDINATES,
    _SHOWN,
) = STEPS


def fit_columns(model: Any, federation: Federation) -> None:
    """Fit a `KernelPCA`; sets its attributes."""
    N = federation.n_rows or 0
    model.n_samples_, model.gamma_ = N, _gamma(model, federation)
    model.seed_ = seed_of(model, federation)
    method = method_of(model, federation.n_features)
    chosen = _chosen(model, N)
    if model.approximation == "nystroem":
        model.component_indices_ = chosen
    size = _size(model, N)
    sums = _sums_of_fit(model, federation, method, chosen)
    if federation.coordinator.planned and model.scores == "coordinator":
        # Eigenvectors of placeholders take time, and tell nobody anything.
        zeros = (
            np.zeros((N, size)),
            np.zeros(len(chosen)),
            np.zeros((len(chosen), size)),
        )
        _take(model, KernelMap(np.ones(size), *zeros))
    elif model.scores == "coordinator":
        _take(model, method.map_of(sums, chosen, size))
    else:
        _found_by_parties(model, federation, sums, method, chosen, size)


def coordinates(model: Any, view: Federation) -> Float[Array, "N k"] | None:
    """Return the scores of aligned rows, or None where the silos keep them."""
    method = method_of(model, view.n_features)
    kept_of, to = model.kept_, model.scores
    with view.fitting():
        told = view.sum(_EXTENT, kept_of=kept_of, centred=method.centred)
        squares = model.squares_ + float(told["squares"])
        sums = _sums(model, view, method, squares, to, kept_of)
        if to == "coordinator":
            return (method.values(sums) - model.kernel_means_) @ model.score_weights_
        how, size = vars(method), _size(model, model.n_samples_)
        view.keep(_COORDINATES, kept_of=kept_of, sums=sums, how=how, size=size)
    return None


def gather(model: Any, federation: Federation) -> None:
    """Ask the silos for the axes, which every one of them knows and must allow."""
    size = _size(model, model.n_samples_)
    width = len(_chosen(model, model.n_samples_))
    told = federation.collect(_SHOWN, kept_of=model.kept_, size=size, width=width)
    own = told[federation.parties[0]]
    k = len(model.eigenvalues_)
    model.eigenvectors_ = own["vectors"][:, :k]
    model.kernel_means_, model.score_weights_ = own["offset"], own["dual"][:, :k]


def method_of(model: Any, n_features: int) -> Method:
    """Return what a fitted model makes of the sums of rows."""
    how = (model.kernel, float(model.gamma_), float(model.degree), float(model.coef0))
    return Method(*how, model.approximation, model.seed_, n_features)


def seed_of(model: Any, federation: Federation) -> int:
    """Return the public seed of what is drawn, or 0 where nothing is."""
    seed = model.random_state
    seed = federation.random_state if seed is None else seed
    if model.approximation is None:
        return 0
    if isinstance(seed, int | np.integer):
        return int(seed)
    return int(check_random_state(seed).randint(2**31 - 1))


def _gamma(model: Any, federation: Federation) -> float:
    return float(1.0 / federation.n_features if model.gamma is None else model.gamma)


def _chosen(model: Any, N: int) -> Int[Array, " l"]:
    """Return the places of the rows that all rows are compared with."""
    if model.approximation == "nystroem":
        return landmark_rows(model.seed_, N, model.n_landmarks)
    # Fourier features compare rows with none; their number is that of the weights.
    return np.arange(N if model.approximation is None else model.n_landmarks)


def _size(model: Any, N: int) -> int:
    """Return how many axes are found; scikit-learn takes N where more are asked for."""
    most = N if model.approximation is None else min(N, model.n_landmarks)
    return most if model.n_components is None else min(model.n_components, most)


def _sums_of_fit(
    model: Any, federation: Federation, method: Method, chosen: Int[Array, " l"]
) -> Any:
    landmarks = chosen if model.approximation != "fourier" else chosen[:0]
    told = federation.sum(_LANDMARKS, chosen=landmarks, centred=method.centred)
    squares = model.squares_ = float(told["squares"])
    _tell(model, federation, len(chosen))
    if model.approximation is not None:
        return _sums(model, federation, method, 2.0 * squares, model.scores, "")
    how = {"to": model.scores, "squares": squares}
    if method.by_distance:
        return federation.sum(_DISTANCES, **how)["distances"]
    return federation.sum(_PRODUCTS, centred=method.centred, **how)["products"]


def _sums(
    model: Any,
    view: Federation,
    method: Method,
    squares: float,
    to: str,
    kept_of: str,
) -> Any:
    """Return rows' sums with the landmarks, or their phases."""
    if method.approximation == "fourier":
        how = (method.seed, method.n_features, model.n_landmarks, method.gamma)
        longest = np.linalg.norm(fourier_weights(*how)[0], axis=0).max()
        # |x·w| ≤ ‖x‖ ‖w‖, for every row and every column w of W.
        radius = float(np.sqrt(squares) * longest) or 1.0
        own = {"seed": method.seed, "gamma": method.gamma, "size": model.n_landmarks}
        places = _places(view)
        return view.sum(_PHASES, to=to, places=places, radius=radius, **own)["phases"]
    chosen = _chosen(model, model.n_samples_)
    how = {"to": to, "kept_of": kept_of, "chosen": chosen, "squares": squares}
    if method.by_distance:
        return view.sum(_DISTANCES_WITH, **how)["distances"]
    return view.sum(_PRODUCTS_WITH, centred=method.centred, **how)["products"]


def _places(view: Federation) -> dict[str, list[int]]:
    """Return where each silo's columns stand among all."""
    ends = np.cumsum([len(own) for own in view.columns_of.values()]).tolist()
    starts = [0, *ends[:-1]]
    return {
        party: [first, after]
        for party, first, after in zip(view.columns_of, starts, ends, strict=True)
    }


def _found_by_parties(
    model: Any,
    federation: Federation,
    sums: Any,
    method: Method,
    chosen: Int[Array, " l"],
    size: int,
) -> None:
    nystroem = model.approximation == "nystroem"
    places = chosen if nystroem else chosen[:0]
    federation.keep(_MAP, sums=sums, chosen=places, how=vars(method), size=size)
    share = 1.0 / len(federation.parties)
    told = federation.sum(_VALUES, share=share, size=size)["eigenvalues"]
    model.eigenvalues_ = told if model.n_components is not None else told[told > 0]


def _take(model: Any, found: KernelMap) -> None:
    if model.n_components is None:
        found = found.trimmed()
    model.eigenvalues_, model.eigenvectors_ = found.values, found.vectors
    model.kernel_means_, model.score_weights_ = found.offset, found.dual


def _tell(model: Any, federation: Federation, width: int) -> None:
    """Tell a plan what opening the sums tells."""
    N, p = federation.n_rows or 0, federation.n_features
    who = "the coordinator" if model.scores == "coordinator" else "every silo"
    if model.approximation is None:
        what = f"sums of every two of {N:,} people: all rows, up to a rotation"
    elif model.approximation == "nystroem":
        what = f"sums of {N:,} people with {width:,} of them"
        what += ": all rows, up to a rotation" * (width > p)
    else:
        what = f"{width:,} known mixtures of {p:,} columns for each of {N:,} people"
        what += ": all rows, by solving for them" * (width >= p)
    federation.coordinator.notes.append(f"KernelPCA shows {who} {what}.")
