"""Components and variances, and no other product of two columns.

    rounds 1, 2   as in `unpooled.models.moments`: N, mean, sums of squares about it
    round 3       silos ── shares of the scatter, in units of its trace ──> processes
                  processes compute together; opened: v_1, λ_1, ..., v_k, λ_k

The scatter is never opened: it stays in secret sharing among the silos' processes, of
which fewer than half together learn nothing more (`unpooled.secure.comparison`). The
sums of squares, which are its diagonal, are opened, as for all models that standardise;
their sum is the unit of the fixed-point numbers. A component that is not determined,
because its variance is close to the next one, is not opened, and neither is any after
it: the fit ends and names it.

References
----------
Froelicher et al., Scalable and privacy-preserving federated principal component
analysis, IEEE S&P 2023: components are all that is opened.
"""

from typing import Any

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.eigen import with_positive_peaks
from unpooled.models.moments import SQUARES, local_squares, pooled_mean
from unpooled.models.parameter_checks import check_choice
from unpooled.models.pca.spectrum import (
    Spectrum,
    Wanted,
    check_rows_suffice,
    mean_of_rest,
)
from unpooled.protocol.step import SharedEigenpairs, computed, public, release
from unpooled.secure.keys.roster import FEWEST_COMPUTING

# Matrices of Python integers are multiplied: 100 columns take a quarter of a second.
MOST_COLUMNS = 100


@computed(
    SharedEigenpairs("scatter", vectors="components", values="variances"),
    takes={
        "squares": public("p", SQUARES),
        "n_components": "size q",
    },
    # The first axis is named as columns are, so that the silos' rules treat components
    # as they treat all pairs of columns: p of them determine the covariance.
    components=release(
        "q p", meaning="the principal components (loadings of all columns)"
    ),
    variances=release(
        "q", meaning="the share of the total variance along each component"
    ),
    within_silos=True,
)
def shared_scatter(
    kept: Any, *, squares: Float[Array, " p"], n_components: int
) -> dict[str, Any]:
    """Share the scatter kept by `local_squares`, over its trace, in secret."""
    total = float(np.sum(squares))
    return {"scatter": kept.triangle("scatter") / (total or 1.0)}


def check_components_only(
    open_: Any, k: Any, *, partition: str, defaults: bool, n_features: int
) -> None:
    """Refuse ``open="components"`` where it does not go with other parameters."""
    check_choice("open", open_, ("covariance", "components"))
    if open_ == "covariance":
        return
    if partition == "columns" or not defaults:
        raise DataError(
            'open="components" keeps the scatter of a row partition in secret sharing: '
            "leave svd_solver, privacy, bits, rank, standard_errors and outliers at "
            "their defaults."
        )
    if not isinstance(k, int | np.integer) or isinstance(k, bool):
        raise DataError(
            f'n_components={k!r}: with open="components" give a whole number; a rule '
            f"or a share of variance takes all variances, which are not opened."
        )
    if n_features > MOST_COLUMNS:
        raise DataError(
            f'open="components" takes at most {MOST_COLUMNS} columns, because products '
            f"of matrices in secret sharing are slow; there are {n_features}."
        )


def components_only(federation: Federation, k: Wanted) -> Spectrum:
    """Return k components of a scatter that is never opened; three rounds."""
    assert isinstance(k, int), "check_components_only refuses anything else"
    if (m := len(federation.parties)) < FEWEST_COMPUTING:
        raise DataError(
            f'open="components" takes three silos; there are {m}, and each would see '
            f'the other\'s part. Add a silo, or leave open="covariance".'
        )
    p = federation.n_features
    N, mean = pooled_mean(federation)
    check_rows_suffice(k, N, p)
    squares = federation.sum(local_squares, mean=mean)["squares"]
    found = federation.compute(shared_scatter, squares=squares, n_components=k)
    V, shares = found["components"].T, found["variances"]
    if not (determined := shares > 0).all():
        raise _undetermined(int(np.argmin(determined)))
    total = float(squares.sum()) / (N - 1)
    variance = shares * total
    rest = total - float(variance.sum())
    return Spectrum(
        N=N,
        mean=mean,
        variance=variance,
        axes=with_positive_peaks(V),
        total=total,
        noise=mean_of_rest(rest, p - k) if k < min(N, p) else 0.0,
        attributes={"feature_variance_": squares / (N - 1)},
    )


def _undetermined(place: int) -> DataError:
    fewer = (
        f"Take n_components={place}, which are determined"
        if place
        else "The columns may be uncorrelated, with equal variances"
    )
    return DataError(
        f"Component {place + 1} is not determined, and was not opened: its variance is "
        f"within 0.011 % of the next one's, or under a millionth of the total is left. "
        f'{fewer}; or leave open="covariance".'
    )
