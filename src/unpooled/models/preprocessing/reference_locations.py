"""The centre and scale of each column, declared by the user rather than estimated.

    reference={"age": (54, 9), ...}   a centre and a scale, in the units of the data
    one round, or one batch of signs  do the rows lie there, within a factor of about 3?

A declared reference is public, and the ledger lists it as an argument of every step
that computes relative to it. It need only be near: any reference that fits leads to the
same λ. One that does not fit is refused.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.yeo_johnson import log_size
from unpooled.models.preprocessing.pooled_lambda import (
    Columns,
    Comparison,
    pooled_count,
)

# The factor by which the rows' root mean square distance from the centre may differ
# from the spread. The spread is rounded to a power of two, so that this is a factor of
# about 3 from the scale.
_FACTOR = 4.0


def declared_columns(
    federation: Federation, comparison: Comparison, reference: Mapping[str, Any]
) -> Columns:
    """Return counts and declared references, which one comparison checks.

    Parameters
    ----------
    federation : Federation
        Rows, cells missing or not.
    comparison : Comparison
        The way to check them.
    reference : mapping of str to (float, float)
        As of `PowerTransformer`.

    Raises
    ------
    DataError
        Where the rows do not lie at their reference.
    """
    centre, spread = _as_logarithms(federation, reference)
    columns = Columns(pooled_count(federation), centre, spread)
    fits = comparison.fits(federation, columns, _FACTOR)
    if not fits.all() and not federation.coordinator.planned:
        names = np.array(federation.feature_names)[~fits]
        raise DataError(
            f"The reference of {', '.join(names)} does not fit the silos' rows: their "
            f"root mean square distance from the centre is not within a factor of "
            f"about 3 of the scale. Declare another, or None to have it found."
        )
    return columns


def check_reference(reference: Any) -> None:
    """Refuse a reference that is not a centre and a positive scale for each name."""
    if reference is None:
        return
    if not isinstance(reference, Mapping):
        raise DataError(
            f"reference={reference!r}; give a centre and a scale for each column, "
            f'reference={{"age": (54.0, 9.0), ...}}, or None to have them found.'
        )
    for name, pair in reference.items():
        try:
            centre, scale = map(float, pair)
            good = np.isfinite([centre, scale]).all() and scale > 0
        except (TypeError, ValueError):
            good = False
        if not good:
            raise DataError(
                f"reference[{name!r}] = {pair!r}; it takes a centre and a scale, two "
                f"finite numbers, the second above 0."
            )


def _as_logarithms(
    federation: Federation, reference: Mapping[str, Any]
) -> tuple[Float[Array, " p"], Float[Array, " p"]]:
    """Return centres and spreads of φ, the spreads rounded to powers of two."""
    names = federation.feature_names
    if absent := [name for name in names if name not in reference]:
        raise DataError(
            f"reference lacks {', '.join(absent)}. Declare every column, or None."
        )
    pairs = np.array([[float(x) for x in reference[name]] for name in names])
    centre, scale = pairs.T
    # Away from zero, because towards it a scale as large as the centre reaches zero.
    size = np.log1p(np.abs(centre) + scale) - np.log1p(np.abs(centre))
    federation.coordinator.notes.append(
        "Centre and scale of every column are declared (reference), not found; that "
        "they fit, within a factor of about 3, is checked."
    )
    return log_size(centre), np.exp2(np.rint(np.log2(size)))
