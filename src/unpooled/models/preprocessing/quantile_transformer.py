"""Columns mapped to a uniform or a normal distribution by their quantiles.

quantiles   by counts or in secret: `unpooled.models.description.quantiles`
transform   x ↦ where x lies among the quantiles, in each silo

A silo answers about a mapped column for one set of quantiles in each version of its
table (`one_setting`). On a column partition each silo finds the quantiles of its own
columns and keeps them.
"""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from types import MappingProxyType
from typing import Any, final

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.preprocessing import QuantileTransformer as Twin
from sklearn.utils.validation import check_is_fitted

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.models.base import FederatedEstimator, input_names
from unpooled.models.description.quantiles import (
    COMPARISONS,
    HYNDMAN_FAN,
    OWN_CELLS,
    STEPS,
    inward_values,
)
from unpooled.models.moments import check_finite
from unpooled.models.parameter_checks import check_choice, whole_number
from unpooled.models.preprocessing.preprocessing_results import quantile_exhibits
from unpooled.protocol.step import derived, kept, public, stays
from unpooled.results.citations import Citation, interpolated

_OUTPUTS = ("uniform", "normal")


@derived(
    takes={
        "quantiles": public("k p", "quantiles of each column over all silos"),
        "references": public("k", "their probabilities"),
    },
    fitted_by=(
        "quantile_transformer.found_quantiles",
        "quantile_transformer.compared_ranks",
    ),
    by_column=True,
    settings=("quantiles",),
)
def among_quantiles(
    X: Float[Array, "n p"],
    *,
    quantiles: Float[Array, "k p"],
    references: Float[Array, " k"],
    output: str,
) -> Float[Array, "n p"]:
    """Return where each value lies among the quantiles; NaN stay NaN."""
    return _twin(quantiles, references, output).transform(X)


@kept(
    by="party",
    takes={"references": public("k", "probabilities of quantiles")},
    quantiles=stays("k p", meaning="quantiles of each of the silo's columns"),
)
def own_quantiles(
    X: Float[Array, "N p"], *, references: Float[Array, " k"]
) -> dict[str, Any]:
    """Return quantiles of the silo's own columns, which nobody else sees."""
    check_finite(X)
    if np.isnan(X).all(axis=0).any():
        raise DataError(
            "A column has no value to take quantiles of.", rule="empty_column"
        )
    found = np.nanquantile(X, references, axis=0)
    found = found.reshape(len(references), X.shape[1])  # of no column too
    # Interpolation may descend by a rounding error.
    return {"quantiles": np.maximum.accumulate(found)}


@derived(
    takes={"references": public("k", "the probabilities of the kept quantiles")},
    fitted_by=("quantile_transformer.own_quantiles",),
    by_column=True,
    by_cells=True,
    settings=("quantiles",),
)
def among_own_quantiles(
    X: Float[Array, "n p"], kept: Any, *, references: Float[Array, " k"], output: str
) -> Float[Array, "n p"]:
    """Return where each value lies among the silo's own quantiles; NaN stay NaN."""
    twin = _twin(kept["quantiles"], references, output)
    return twin.transform(X) if X.shape[1] else X


@final
@dataclass(eq=False, repr=False)
class QuantileTransformer(OneToOneFeatureMixin, TransformerMixin, FederatedEstimator):
    """Map every column to a uniform or normal distribution by its quantiles.

    Parameters
    ----------
    n_quantiles : int, default 20
        k, the number of quantiles of a column, at equal distances of probability. All
        of them are opened, so that there are fewer than in scikit-learn.
    output_distribution : {"uniform", "normal"}, default "uniform"
        What columns are mapped to.
    comparison : {"summed", "mpc"}, default "summed"
        How silos search for quantiles, as of `Quantiles`.
    min_rows : int, default 10
        How many values lie in the bracket of a quantile at least, as of `Quantiles`.
        The outermost quantiles move inward, to the values that have as many at or
        beyond them: there is no minimum or maximum.
    decimals : int or mapping of str to int, optional
        How many decimals values have, as of `Quantiles`.
    allow_coordinator_party : bool, default False
        With "mpc" and two silos, let the coordinator be the third party.

    Attributes
    ----------
    quantiles_ : (k, p) array
        Ascending. On a column partition the silos keep them.
    references_ : (k,) array
        Probabilities from 0 to 1.
    n_quantiles_ : int
        k.
    n_features_in_ : int
        p, the number of columns seen in `fit`.
    feature_names_in_ : (p,) array of str
        Names of the columns, where the silos' tables have names.

    Raises
    ------
    DataError
        Where a column has fewer than two times `min_rows` values; on a column
        partition, where it has none.

    Notes
    -----
    Released: the quantiles, with the widths of their brackets, and what `Quantiles`
    says. Never released: a row, a minimum or maximum, or any silo's own count.

    On a column partition nothing is released: each silo keeps the quantiles of its own
    columns, which it shows nobody, and `transform` uses them there. They are the exact
    ones, the minimum and maximum too, so that `min_rows`, `decimals` and `comparison`
    change nothing.

    Missing cells are left out, and stay missing in `transform`.

    A silo answers about a mapped column for one set of quantiles in each version of its
    table, over all studies (`one_setting`): the map bends at the quantiles, and totals
    under several maps combine to those of the few rows between two bends. So the
    quantiles are fitted on all rows, before folds, and a column is mapped by its
    quantiles or cut into bins (`KBinsDiscretizer`), not both.

    See Also
    --------
    sklearn.preprocessing.QuantileTransformer : its twin on pooled rows, with
        ``subsample=None``, to which it is equal with ``min_rows=1`` and on columns.

    References
    ----------
    Hyndman and Fan, Sample quantiles in statistical packages, The American Statistician
    50 (1996): definition 7.
    """

    _partitions = ("rows", "columns")
    _gives_views = ("rows", "columns")
    _missing = True
    _kept_by_silos = ("quantiles_",)
    _ways = MappingProxyType({"comparison": COMPARISONS})
    _steps = STEPS
    quantiles_: Float[Array, "k p"] = field(init=False)
    references_: Float[Array, " k"] = field(init=False)
    _exhibits = quantile_exhibits

    _: KW_ONLY
    n_quantiles: int = 20
    output_distribution: str = "uniform"
    comparison: str = "summed"
    min_rows: int = 10
    decimals: Any = None
    allow_coordinator_party: bool = False

    def _units(self) -> Mapping[str, str]:
        unit = "shares of the rows with smaller values, from 0 to 1,"
        if self.output_distribution == "normal":
            unit = "normal scores of their ranks"
        return dict.fromkeys(input_names(self), unit)

    def _citation(self) -> Citation:
        return Citation(
            f"Columns were mapped to a {self.output_distribution} distribution by "
            f"{self.n_quantiles} quantiles over the rows of all silos.",
            (HYNDMAN_FAN,),
            apart_from=interpolated("quantiles", self),
        )

    def _needs_values(self) -> bool:
        return True

    def _fit(self, federation: Federation, y: Any) -> None:
        k = whole_number("n_quantiles", self.n_quantiles, 2)
        check_choice("output_distribution", self.output_distribution, _OUTPUTS)
        references = np.linspace(0.0, 1.0, k)
        self.references_, self.n_quantiles_ = references, k
        if federation.partition == "columns":
            federation.keep(own_quantiles, references=references)
            return
        found = inward_values(self, federation, references)
        # Brackets may overlap.
        self.quantiles_ = np.maximum.accumulate(found)

    @classmethod
    def kept_by_silos(cls) -> tuple[str, ...]:
        """Return no attribute: what silos keep they show nobody."""
        return ()

    def _gather(self, federation: Federation) -> None:
        raise DataError(OWN_CELLS)

    def transform(self, X: Any) -> Any:
        """Return mapped rows.

        Parameters
        ----------
        X : (n, p) array-like or Federation
            For a federation the result is a view of it: each silo maps its own rows
            when they are read, and nothing is released.
        """
        if isinstance(X, Federation) and X.partition == "columns":
            return self._check_view(X).derive(
                among_own_quantiles,
                kept_of=self.kept_,
                references=self.references_,
                output=self.output_distribution,
            )
        check_is_fitted(self)
        arguments = {
            "quantiles": self.quantiles_,
            "references": self.references_,
            "output": self.output_distribution,
        }
        return self._applied(X, among_quantiles, arguments)

    def to_sklearn(self) -> Any:
        """Return a fitted `sklearn.preprocessing.QuantileTransformer`."""
        check_is_fitted(self)
        output = self.output_distribution
        return self._taught(_twin(self.quantiles_, self.references_, output))


def _twin(
    quantiles: Float[Array, "k p"], references: Float[Array, " k"], output: str
) -> Twin:
    """Return scikit-learn's transformer with these quantiles."""
    k, p = quantiles.shape
    twin = Twin(n_quantiles=k, output_distribution=output, subsample=None)
    twin.quantiles_, twin.references_ = quantiles, references
    twin.n_quantiles_, twin.n_features_in_ = k, p
    return twin
