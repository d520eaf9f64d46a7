"""A number for each category, 0, 1, 2, ... in the order of their names.

round 1-  silos ── names and counts of categories ─> names  (`agreed_categories`)
view      silos <── codes, groups, counts ── each silo numbers its own cells
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, final

import numpy as np
from sklearn.base import OneToOneFeatureMixin
from sklearn.utils.validation import check_is_fitted

from unpooled.arrays import Array, Float, Int
from unpooled.federation.federation import Federation
from unpooled.models.preprocessing.agreed_categories import LOOKUP_TABLES
from unpooled.models.preprocessing.category_groups import (
    CODES,
    CategoryGroups,
    groups_of_cells,
)
from unpooled.models.preprocessing.encoder_results import (
    encoder_exhibits,
    own_encoder_exhibits,
)
from unpooled.models.preprocessing.one_hot_encoder import CategoryEncoder
from unpooled.models.preprocessing.own_categories import own_numbers
from unpooled.protocol.step import derived, public
from unpooled.results.citations import Citation
from unpooled.results.exhibits import Exhibit


@derived(
    takes={**CODES, "value": public("c", "the number of each group; -1 for missing")},
    by_column=True,
)
def ordinal(
    cells: Float[Array, "n p"],
    *,
    codes: Float[Array, " l"],
    column: Int[Array, " l"],
    group: Int[Array, " l"],
    unknown: Int[Array, " p"],
    count: Float[Array, " c"],
    value: Float[Array, " c"],
) -> Float[Array, "n p"]:
    """Return the number of each cell's group; NaN where it is missing or unknown."""
    groups = groups_of_cells(cells, codes, column, group, unknown)
    values = np.append(np.where(value < 0, np.nan, value), np.nan)
    return values[groups]


@derived(fitted_by=("ordinal_encoder.own_categories",), by_column=True)
def own_ordinal(cells: Float[Array, "n p"], kept: Any) -> Float[Array, "n p"]:
    """Return the number of each cell's group in a silo's own columns of categories.

    Missing cells stay NaN; columns of numbers stay as they are.
    """
    numbers = own_numbers(cells, kept, None, numbered=True)
    numbers = np.where(np.isnan(cells) | (numbers < 0), np.nan, numbers)
    return np.where(kept["made"] < 0, cells, numbers)


@final
@dataclass(eq=False, repr=False)
class OrdinalEncoder(OneToOneFeatureMixin, CategoryEncoder):
    """Encode categories as 0, 1, 2, ... in the order of their names.

    Parameters
    ----------
    min_frequency : int or float, default 5
        Categories of fewer rows of all silos, or of a smaller share of them, are one
        group, which has the last number. Silos refuse groups of fewer rows than their
        policies ask for (`min_rows_per_class`).

    Attributes
    ----------
    categories_ : list of (k,) array of str
        Names of the categories of each column, in the order of text.
    infrequent_categories_ : list of (l,) array of str or None
        Those that are one group; None where a column has no such group.
    counts_ : list of (k,) array of int
        Number of rows of each name.
    n_other_ : (p,) array of int
        Number of rows whose name too few rows of their silo have; they are infrequent.
    n_missing_ : (p,) array of int
        Number of rows without a name.
    n_features_in_ : int
        p, the number of columns seen in `fit`.
    feature_names_in_ : (p,) array of str
        Names of the columns, where the silos' tables have names.
    n_made_ : (p,) array of int
        On a column partition alone: how many numbers the categories of each column
        have, -1 where it holds numbers. The silos keep the attributes before
        `n_features_in_`.

    Raises
    ------
    DataError
        For columns of numbers, and for one with more categories than are agreed on. On
        a column partition, where no silo has a column of categories, and for folds.

    Notes
    -----
    On a column partition each silo numbers the categories of its own columns and leaves
    its columns of numbers as they are. Disclosed, and never released: what
    `OneHotEncoder` says.

    Released on rows, as totals only: what `OneHotEncoder` releases. Never released: a
    row, or any silo's own count, or which silo has a name.

    Missing cells stay missing. Names that nobody had in `fit` are infrequent, where
    there are infrequent ones, and otherwise missing.

    See Also
    --------
    sklearn.preprocessing.OrdinalEncoder : its twin on pooled rows.

    References
    ----------
    Goodrich and Mitzenmacher, Invertible Bloom lookup tables, Allerton 2011: how the
    silos agree on the names.
    """

    _merges_missing = False

    _: KW_ONLY
    min_frequency: Any = 5

    def _exhibits(self, columns: Sequence[str]) -> list[Exhibit]:
        if "n_made_" in vars(self):
            return own_encoder_exhibits(self.n_made_, columns, "numbers")
        groups = self._groups()
        return encoder_exhibits(groups, columns, [_numbers(one) for one in groups])

    def _citation(self) -> Citation:
        if "n_made_" in vars(self):
            return Citation(
                f"Each organisation numbered the categories of its own columns in the "
                f"order of their names, those of fewer than {self.min_frequency} rows "
                f"as one.",
                (),
            )
        return Citation(
            f"Categories were numbered in the order of their names, those of fewer "
            f"than {self.min_frequency} rows of all silos as one.",
            (LOOKUP_TABLES,),
        )

    def _fit(self, federation: Federation, y: Any) -> None:
        if federation.partition == "columns":
            self._find_own_categories(federation, numbered=True)
            return
        self._find_categories(federation)

    def transform(self, X: Any) -> Any:
        """Return the number of each cell's category.

        Parameters
        ----------
        X : (n, p) array-like or Federation
            Names; for a federation the result is a view of it.
        """
        check_is_fitted(self)
        if isinstance(X, Federation) and X.partition == "columns":
            return self._check_view(X).derive(own_ordinal, kept_of=self.kept_)
        groups = self._groups()
        arguments = self._code_arguments(groups)
        arguments["value"] = np.concatenate([_numbers(one) for one in groups])
        # Missing cells stay missing, however few: nothing is made of them.
        arguments["count"] = np.where(arguments["value"] < 0, 0.0, arguments["count"])
        if isinstance(X, Federation):
            view = self._check_view(X)
            return view.derive(ordinal, view.feature_names, **arguments)
        return ordinal(self._codes_of_rows(X), **arguments)


def _numbers(groups: CategoryGroups) -> Float[Array, " g"]:
    """Return the number of each group, -1 for missing cells of their own group."""
    left = np.arange(len(groups.counts)) != groups.missing
    return np.where(left, np.cumsum(left) - 1.0, -1.0)
