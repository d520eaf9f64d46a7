"""Where each column lies, declared by the user in place of being found.

    reference={"age": (54, 9), ...}   a centre and a scale, in the units of the data
    one round, or one batch of signs  do the rows lie there, within a factor of about 3?

What is declared is public, and stands in the ledger as the argument of every step that
computes about it. It need only be near: λ is found from signs about any reference that
fits, so that one which does not is refused rather than searched from.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from unpooled.arrays import Array, Bool, Float
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.yeo_johnson import log_size
from unpooled.models.preprocessing.pooled_lambda import Columns, checked_count
from unpooled.protocol.step import Step

Declared = Mapping[str, Any]
# How far rows' root mean square distance from the centre may be from the spread, which
# is rounded to a power of two: about a factor of 3 from the scale.
_WITHIN = 4.0


def declared_columns(
    federation: Federation, counts: Step, widths: Step, reference: Declared
) -> Columns:
    """Take declared references; one batch of signs says whether they fit.

    Parameters
    ----------
    federation : Federation
        Rows, cells missing or not.
    counts, widths : Step
        `local_count` and `compared_widths` under the model's name.
    reference : mapping of str to (float, float)
        As of `PowerTransformer`.
    """
    centre, spread = _as_logarithms(federation, reference)
    count = checked_count(federation.sum(counts)["count"], federation)
    column = np.repeat(np.arange(len(centre)), 2)
    size = (spread[:, None] * [1.0 / _WITHIN, _WITHIN]).ravel()
    narrower = federation.compare(
        widths, count=count.astype(float), centre=centre, column=column, size=size
    ).reshape(-1, 2)
    _check(federation, ~narrower[:, 0] & narrower[:, 1])
    return Columns(count, centre, spread)


def declared_columns_summed(
    federation: Federation, counts: Step, squares: Step, reference: Declared
) -> Columns:
    """Take declared references; a total of squares says whether they fit.

    `squares` is `local_log_squares` under the model's name; see `declared_columns`.
    """
    centre, spread = _as_logarithms(federation, reference)
    count = checked_count(federation.sum(counts)["count"], federation)
    total = federation.sum(squares, mean=centre)["squares"]
    ratio = np.sqrt(np.maximum(total, 0.0) / count) / spread
    _check(federation, (ratio >= 1.0 / _WITHIN) & (ratio < _WITHIN))
    return Columns(count, centre, spread)


def check_reference(reference: Any) -> None:
    """Refuse what is not a centre and a positive scale for each name."""
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
    federation: Federation, reference: Declared
) -> tuple[Float[Array, " p"], Float[Array, " p"]]:
    """Return centres and spreads of φ, the spreads as powers of two."""
    names = federation.feature_names
    if absent := [name for name in names if name not in reference]:
        raise DataError(
            f"reference lacks {', '.join(absent)}. Declare every column, or None."
        )
    pairs = np.array([[float(x) for x in reference[name]] for name in names])
    centre, scale = pairs.T
    # Outwards, where φ is smooth: inwards a scale as large as the centre meets zero.
    size = np.log1p(np.abs(centre) + scale) - np.log1p(np.abs(centre))
    federation.coordinator.notes.append(
        "Centre and scale of every column are declared (reference), not found; that "
        "they fit, within a factor of about 3, is checked."
    )
    return log_size(centre), np.exp2(np.rint(np.log2(size)))


def _check(federation: Federation, fits: Bool[Array, " p"]) -> None:
    if fits.all() or federation.coordinator.planned:
        return
    names = np.array(federation.feature_names)[~fits]
    raise DataError(
        f"The reference of {', '.join(names)} does not fit the silos' rows: their root "
        f"mean square distance from the centre is not within a factor of about 3 of "
        f"the scale. Declare another, or None to have it found."
    )
