"""Agreement of a fitted model with its twin on pooled rows, attribute by attribute."""

from typing import Any

import numpy as np
import scipy.linalg
from numpy.testing import assert_allclose

# The promise of the library. Where data need more room, the test says why.
RTOL = 1e-9
# Below this share of the largest eigenvalue, one of pooled rows is rounding: a singular
# value of theirs errs by 1e-15 σ_1 or so, and its square is an eigenvalue.
_NULL = 1e-22


def assert_same_pca(ours: Any, theirs: Any, *, rtol: float = RTOL) -> None:
    """Compare everything that scikit-learn's PCA estimates, signs included."""
    variance = theirs.explained_variance_
    top = variance[0]
    spread = np.sqrt(
        np.einsum("kj,k,kj->j", theirs.components_, variance, theirs.components_)
    )
    # A mean may be zero: what matters is its error beside the column's spread.
    excess = np.abs(ours.mean_ - theirs.mean_) - rtol * np.abs(theirs.mean_)
    assert (excess <= rtol * spread + 1e-300).all()
    for name, atol in {
        "explained_variance_": _NULL * top,
        "explained_variance_ratio_": _NULL,
        "singular_values_": np.sqrt(_NULL) * theirs.singular_values_[0],
        "noise_variance_": _NULL * top,
    }.items():
        assert_allclose(
            getattr(ours, name), getattr(theirs, name), rtol, atol, err_msg=name
        )
    assert_same_components(ours.components_, theirs.components_, variance > _NULL * top)
    for name in ("n_components_", "n_samples_", "n_features_in_"):
        assert getattr(ours, name) == getattr(theirs, name), name


def assert_same_components(
    ours: Any, theirs: Any, firm: Any, rtol: float = RTOL
) -> None:
    """Compare directions by sines and signs; beyond the rank, only their span."""
    for j in np.flatnonzero(firm):
        angle = scipy.linalg.subspace_angles(ours[[j]].T, theirs[[j]].T)[0]
        assert np.sin(angle) <= rtol, f"component {j} is off by {np.sin(angle):.1e}"
    assert_allclose(ours[firm], theirs[firm], rtol=0, atol=rtol, err_msg="signs")
    assert_allclose(ours @ ours.T, np.eye(len(ours)), rtol=0, atol=1e-12)


def assert_close(ours: Any, theirs: Any, rtol: float = RTOL) -> None:
    """Compare arrays to `rtol` of each column's largest entry."""
    ours, theirs = np.atleast_1d(ours), np.atleast_1d(theirs)
    assert ours.shape == theirs.shape
    assert ours.dtype == theirs.dtype
    # Entries that are zero but for rounding have the size of the others' rounding.
    size = np.maximum(np.abs(theirs).max(axis=0), 1e-6 * np.abs(theirs).max())
    worst = (np.abs(ours - theirs) / np.where(size > 0, size, 1.0)).max()
    assert worst <= rtol, f"off by {worst:.1e}"
