"""Checks that a Yeo-Johnson transform follows from the signs and totals of its fit.

    at each candidate for λ   five totals, or a sign that the computing silos signed
    so λ lies in a cell       positive at its lower end, not positive at its upper one
    and at λ                  two totals ──> mean and standard deviation after transform

The coordinator could choose λ anywhere in its cell, so that no cell may be wide.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from unpooled.arrays import Array, Bool, Float
from unpooled.linalg.root_search import SignSearch, place_of
from unpooled.linalg.yeo_johnson import slope_sign, units
from unpooled.protocol.step import Fit

Fits = Mapping[str, Fit]

# Width of the widest cell that a silo accepts, in units of max(1/spread, |λ|).
WIDEST = 0.125
_ROUNDING = 1e-9


def are_exponents(fits: Fits, public: Mapping[str, Any]) -> bool:
    """Whether every λ lies where the likelihood of its column is largest."""
    lambdas = public["lambdas"]
    slopes = fits.get("local_slopes") or fits.get("compared_slopes")
    if slopes is None:
        # Constant columns have no λ of their own.
        return bool((lambdas == 1.0).all())
    centre, spread = slopes.public["centre"], slopes.public["spread"]
    search, searched = _signs(fits, slopes, len(lambdas))
    mirrored = np.where(centre < 0, 2.0 - lambdas, lambdas)
    place = place_of(mirrored * spread)
    inside = (search.lo - _ROUNDING <= place) & (place <= search.hi + _ROUNDING)
    narrow = search.hi - search.lo <= WIDEST
    return bool(np.where(searched, inside & narrow, lambdas == 1.0).all())


def are_gaussianising(fits: Fits, public: Mapping[str, Any]) -> bool:
    """Whether λ, and what is subtracted and divided by, are those of the fit."""
    at = fits["local_transformed"]
    reference = {name: public[name] for name in ("lambdas", "centre", "spread")}
    same = all(np.array_equal(at.public[name], v) for name, v in reference.items())
    if not same or not are_exponents(fits, public):
        return False
    slopes = fits.get("local_slopes") or fits.get("compared_slopes")
    searched = np.zeros(len(public["lambdas"]), bool)
    if slopes is not None:
        searched = _signs(fits, slopes, len(searched))[1]
        for name in ("centre", "spread"):
            if not np.array_equal(
                public[name][searched], slopes.public[name][searched]
            ):
                return False
    rest = ~searched
    if public["centre"][rest].any() or (public["spread"][rest] != 1.0).any():
        return False
    mean = at.totals["total"] / _count(fits)
    variance = np.maximum(at.totals["squares"] / _count(fits) - mean**2, 0.0)
    scale = deviations(variance, rest, reference)
    near = np.abs(public["scale"] - scale) <= _ROUNDING * scale
    return np.array_equal(public["mean"], mean) and bool(near.all())


def deviations(
    variance: Float[Array, " p"],
    constant: Bool[Array, " p"],
    reference: Mapping[str, Array],
) -> Float[Array, " p"]:
    """Return the standard deviations of columns transformed about the reference.

    For columns without variance it is 1 in units of ψ, as in scikit-learn.
    """
    flat = constant | (variance == 0.0)
    factor = units(**reference)[0]
    return np.where(flat, 1.0 / np.where(flat, factor, 1.0), np.sqrt(variance))


def _count(fits: Fits) -> Float[Array, " p"]:
    return np.rint(fits["local_count"].totals["count"])


def _signs(fits: Fits, slopes: Fit, p: int) -> tuple[SignSearch, Bool[Array, " p"]]:
    """Return the cells that the signs leave, and the mask of columns with signs."""
    count, searched = _count(fits), np.zeros(p, bool)
    search = SignSearch(p, WIDEST, 1)
    for one in slopes.rounds:
        column, lam = one.public["column"], one.public["lam"]
        for name in ("centre", "spread"):
            if not np.array_equal(one.public[name], slopes.public[name]):
                raise ValueError("candidates about another reference")
        if not np.array_equal(one.public["count"], count):
            raise ValueError("sums over another number of rows")
        above = (
            slope_sign(one.totals["sums"] / count[column]) > 0
            if "sums" in one.totals
            else ~one.totals["falling"]
        )
        place = place_of(lam * slopes.public["spread"][column])
        order = np.lexsort((place, column))
        search.narrow(column[order], place[order], above[order])
        searched[column] = True
    return search, searched
