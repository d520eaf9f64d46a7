"""A column of zeros and ones for each category, the same in all silos.

    round 1-  silos ── names and counts of categories ─> names  (`agreed_categories`)
    view      silos <── codes, groups, counts ── each silo judges the counts, and
              encodes its own rows; nothing leaves

A category of which all silos together have few rows is merged into the group of rare
ones before a column is made of it.
"""

from collections.abc import Sequence
from typing import Any, final

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from unpooled.arrays import Array, Float, Int
from unpooled.data.categories import category_code, category_name, coded
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.models.base import FederatedEstimator, input_names
from unpooled.models.preprocessing.agreed_categories import (
    Categories,
    agreed_categories,
    local_categories,
)
from unpooled.models.preprocessing.category_groups import (
    CODES,
    Groups,
    code_arguments,
    grouped,
    groups_of_cells,
)
from unpooled.models.preprocessing.encoder_results import encoder_exhibits
from unpooled.protocol.step import derived, public
from unpooled.results.citations import Citation
from unpooled.results.exhibits import Exhibit

_UNKNOWN = ("error", "ignore", "infrequent_if_exist")
_RARE = "infrequent_sklearn"


@derived(
    takes={
        **CODES,
        "place": public("c", "the column that is made of each group; -1 for none"),
        "width": "size q",
    }
)
def one_hot(
    cells: Float[Array, "n p"],
    *,
    codes: Float[Array, " l"],
    column: Int[Array, " l"],
    group: Int[Array, " l"],
    unknown: Int[Array, " p"],
    count: Float[Array, " c"],
    place: Int[Array, " c"],
    width: int,
) -> Float[Array, "n q"]:
    """Return a column of zeros and ones for each group that has a place."""
    groups = groups_of_cells(cells, codes, column, group, unknown)
    # A last column takes what has no place, and is cut off.
    made = np.zeros((len(cells), width + 1))
    places = np.append(place, -1)[groups]
    np.put_along_axis(made, np.where(places < 0, width, places), 1.0, axis=1)
    return made[:, :width]


@final
class OneHotEncoder(TransformerMixin, FederatedEstimator):
    """Encode categories as columns of zeros and ones.

    Parameters
    ----------
    drop : {None, "first", "if_binary"}, default None
        The category of each column that gets no column: none, the first, or the first
        of two.
    min_frequency : int or float, default 5
        Categories of fewer rows of all silos, or of a smaller share of them, are one
        group, "infrequent". Silos refuse groups of fewer rows than their policies ask
        for (`min_rows_per_class`).
    handle_unknown : str, default "infrequent_if_exist"
        Of names that nobody had in `fit`: to count them as infrequent where there are
        infrequent ones, and otherwise to leave the row without a category; "ignore",
        always the latter; or "error", for rows at hand alone. A silo that refused would
        tell that it has such a name, and with "error" does as with "ignore".

    Attributes
    ----------
    categories_ : list of (k,) array of str
        Names of the categories of each column, in the order of text; missing cells are
        NaN, at the end.
    infrequent_categories_ : list of (l,) array of str or None
        Those that are one group; None where a column has no such group.
    drop_idx_ : (p,) array of int or None
        Place of the group that has no column, -1 for none; groups are in the order of
        `categories_`, the infrequent ones last.
    counts_ : list of (k,) array of int
        Number of rows of each name.
    n_other_ : (p,) array of int
        Number of rows whose name too few rows of their silo have; they are infrequent.
    n_missing_ : (p,) array of int
        Number of rows without a name, which have a column of their own.
    n_features_in_ : int
        p, the number of columns seen in `fit`.
    feature_names_in_ : (p,) array of str
        Names of the columns, where the silos' tables have names.

    Notes
    -----
    Released, as totals only: the names of each column's categories and how many rows of
    all silos have each, also of those that are then merged; how many rows have none,
    and how many a name that too few rows of their silo have (`min_own_cells`). Such a
    name is not released, nor which silo has a name. Never released: a row, or any
    silo's own count.

    The result differs from scikit-learn's on the pooled rows in two ways. A name that a
    single row of a silo has counts as infrequent there. And where infrequent ones have
    fewer than five rows together, the smallest other category joins them.

    See Also
    --------
    sklearn.preprocessing.OneHotEncoder : its twin on pooled rows.
    """

    categories_: list[Array]
    infrequent_categories_: list[Array | None]
    drop_idx_: Int[Array, " p"] | None
    counts_: list[Array]
    n_other_: Int[Array, " p"]

    is_model = True
    _missing = True
    _reads_categories = True
    _steps = (local_categories,)

    def __init__(
        self,
        *,
        drop: Any = None,
        min_frequency: Any = 5,
        handle_unknown: Any = "infrequent_if_exist",
    ) -> None:
        self.drop = drop
        self.min_frequency = min_frequency
        self.handle_unknown = handle_unknown

    def _exhibits(self, columns: Sequence[str]) -> list[Exhibit]:
        return encoder_exhibits(self._groups(), columns)

    def _citation(self) -> Citation:
        return Citation(
            f"Categories were encoded as indicator variables, those of fewer than "
            f"{self.min_frequency} rows of all silos as one.",
            (
                "Goodrich MT, Mitzenmacher M. Invertible Bloom lookup tables. Allerton "
                "2011.",
            ),
        )

    def _fit(self, federation: Federation, y: Any) -> None:
        check_min_frequency(self.min_frequency)
        if self.drop not in (None, "first", "if_binary"):
            raise DataError(f'drop={self.drop!r}; choose None, "first" or "if_binary".')
        if self.handle_unknown not in _UNKNOWN:
            raise DataError(
                f"handle_unknown={self.handle_unknown!r}; choose one of {_UNKNOWN}."
            )
        find_categories(self, federation)
        groups = self._groups(federation.feature_names)
        self.infrequent_categories_ = [infrequent(one) for one in groups]
        first = {None: [], "first": [1], "if_binary": [2]}[self.drop]
        dropped = [
            0 if first == [1] or len(one.counts) in first else -1 for one in groups
        ]
        self.drop_idx_ = None if self.drop is None else np.array(dropped)

    def _groups(self, columns: Sequence[str] = ()) -> list[Groups]:
        return groups_of(self, columns)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names of the columns that are made: "site_north".

        Parameters
        ----------
        input_features : sequence of str, optional
            The names in `fit`; x0, x1, ... where the tables have none.
        """
        names = [
            f"{column}_{_RARE if label == '' else 'nan' if label is None else label}"
            for j, column in enumerate(column_names(self, input_features))
            for number, label in enumerate(self._groups()[j].labels)
            if self.drop_idx_ is None or self.drop_idx_[j] != number
        ]
        return np.array(names, dtype=object)

    def transform(self, X: Any) -> Any:
        """Return a column of zeros and ones for each group of categories.

        Parameters
        ----------
        X : (n, p) array-like or Federation
            Names; for a federation the result is a view of it.

        Raises
        ------
        ValueError
            For unknown names in rows at hand, with ``handle_unknown="error"``.
        """
        check_is_fitted(self)
        arguments, place = self._arguments()
        width = int((place >= 0).sum())
        arguments |= {"place": place, "width": width}
        if isinstance(X, Federation):
            view = self._check_view(X)
            names = list(self.get_feature_names_out(view.feature_names))
            return view.derive(one_hot, names, **arguments)
        strict = self.handle_unknown == "error"
        return one_hot(codes_of_rows(self, X, strict=strict), **arguments)

    def _arguments(self) -> tuple[dict[str, Any], Int[Array, " c"]]:
        groups = self._groups()
        arguments = dict(code_arguments(groups, codes_of(self)))
        if self.handle_unknown != "infrequent_if_exist":
            arguments["unknown"] = np.full(len(groups), -1)
        drop = [-1] * len(groups) if self.drop_idx_ is None else self.drop_idx_
        kept = np.concatenate(
            [np.arange(len(g.counts)) != d for g, d in zip(groups, drop, strict=True)]
        )
        if not kept.any():
            raise DataError(
                f"No column is left: every column has a single category, which "
                f"drop={self.drop!r} leaves out."
            )
        return arguments, np.where(kept, np.cumsum(kept) - 1, -1)


def check_min_frequency(given: Any) -> None:
    """Raise unless it is a number of rows, a share of them, or None."""
    whole = isinstance(given, int | np.integer) and not isinstance(given, bool)
    share = isinstance(given, float) and 0 < given < 1
    if not (given is None or share or (whole and given >= 1)):
        raise DataError(
            f"min_frequency={given!r}; give a number of rows of at least 1, a share of "
            f"them between 0 and 1, or None."
        )


def find_categories(model: Any, federation: Federation) -> None:
    """Set the fitted attributes that encoders have in common."""
    found = agreed_categories(federation)
    if federation.coordinator.planned:
        federation.coordinator.narrow()
        federation.coordinator.notes.append(
            f"How many categories {type(model).__name__} finds depends on the data; "
            f"the plan has four for each column."
        )
    model.categories_ = [np.array(one.names, dtype=object) for one in found]
    model.counts_ = [one.counts for one in found]
    model.n_other_ = np.array([one.n_other for one in found])
    model.n_missing_ = np.array([one.n_missing for one in found])


def groups_of(
    model: Any, columns: Sequence[str] = (), *, merges_missing: bool = True
) -> list[Groups]:
    """Return the groups of each column of a fitted encoder."""
    others = zip(model.n_other_.tolist(), model.n_missing_.tolist(), strict=True)
    every = zip(model.categories_, model.counts_, others, strict=True)
    return [
        grouped(
            Categories(tuple(names), counts, *more),
            model.min_frequency,
            columns[j] if columns else f"x{j}",
            merges_missing=merges_missing,
        )
        for j, (names, counts, more) in enumerate(every)
    ]


def infrequent(groups: Groups) -> Array | None:
    """Return the names that are one group; None where there is no such group."""
    if groups.rare < 0:
        return None
    names = np.array(groups.names, dtype=object)
    return names[groups.group == groups.rare]


def codes_of(model: Any) -> list[Array]:
    """Return the codes of the names of each column of a fitted encoder."""
    return [
        np.array([category_code(name) for name in names], float)
        for names in model.categories_
    ]


def column_names(model: Any, given: Any) -> list[str]:
    """Return the names of the columns of a fitted encoder."""
    check_is_fitted(model)
    names, n = input_names(model, given), len(model.categories_)
    if len(names) != n:
        raise ValueError(f"input_features has {len(names)} names; give {n}.")
    return names


def codes_of_rows(model: Any, X: Any, *, strict: bool) -> Float[Array, "n p"]:
    """Return the codes of rows at hand, checked against the fitted columns."""
    known = getattr(model, "feature_names_in_", None)
    if hasattr(X, "columns") and known is not None and set(known) <= set(X.columns):
        X = X[list(known)]
    rows = np.asarray(X, dtype=object)
    if rows.ndim != 2 or rows.shape[1] != len(model.categories_):
        raise ValueError(
            f"X has shape {rows.shape}, but {type(model).__name__} is expecting "
            f"{len(model.categories_)} features as input."
        )
    known_names = model.categories_ if strict else list[Array]()
    for j, names in enumerate(known_names):
        cells = {category_name(cell) for cell in rows[:, j].tolist()}
        allowed = {*names, *([None] if model.n_missing_[j] else [])}
        if unknown := cells - allowed:
            raise ValueError(
                f"Found unknown categories {sorted(map(str, unknown))} in column {j} "
                f"during transform."
            )
    return np.column_stack([coded(column) for column in rows.T])
