"""A column of zeros and ones for each category, the same in all silos.

    round 1-  silos ── names and counts of categories ─> names  (`agreed_categories`)
    view      silos <── codes, groups, counts ── each silo judges the counts, and
              encodes its own rows; nothing leaves

A category of which all silos together have few rows is merged into the group of rare
ones before a column is made of it.
"""

import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, final

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from unpooled.arrays import Array, Float, Int
from unpooled.data.categories import category_code, category_name, coded
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.models.base import FederatedEstimator, input_names
from unpooled.models.parameter_checks import check_choice
from unpooled.models.preprocessing.agreed_categories import (
    LOOKUP_TABLES,
    Categories,
    agreed_categories,
    local_categories,
)
from unpooled.models.preprocessing.category_groups import (
    CODES,
    CategoryGroups,
    code_arguments,
    grouped,
    groups_of_cells,
)
from unpooled.models.preprocessing.encoder_results import (
    encoder_exhibits,
    own_encoder_exhibits,
)
from unpooled.models.preprocessing.own_categories import (
    OWN_NAMES,
    fit_own_categories,
    own_categories,
    own_groups,
    own_numbers,
    own_rare_names,
    shown_made,
)
from unpooled.protocol.step import derived, public
from unpooled.protocol.widened_columns import widened_columns
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


@derived(fitted_by=("one_hot_encoder.own_categories",), by_column=True, widens="groups")
def own_one_hot(
    cells: Float[Array, "n p"], kept: Any, *, drop: Any, joins: bool = True
) -> Float[Array, "n q"]:
    """Return a column for each group of a silo's categories, and its own numbers.

    Without `joins` names that nobody had in the fit are in no group.
    """
    numbers = own_numbers(cells, kept, drop, numbered=False, joins=joins)
    # Of the selected columns this silo may have none.
    parts = [cells[:, :0]]
    for j, n in enumerate(kept["made"].tolist()):
        own = numbers[:, j, None] == np.arange(1, n + 1)
        parts.append(cells[:, j, None] if n < 0 else own.astype(float))
    return np.hstack(parts)


class CategoryEncoder(TransformerMixin, FederatedEstimator):
    """Base of encoders: the categories of each column over all silos.

    Attributes
    ----------
    categories_ : list of (k,) array of str
        Names of the categories of each column, in the order of text.
    infrequent_categories_ : list of (l,) array of str or None
        Those that are one group; None where a column has no such group.
    counts_ : list of (k,) array of int
        Number of rows of each name.
    n_other_, n_missing_ : (p,) arrays of int
        Number of rows whose name too few rows of their silo have, and without a name.
    n_made_ : (p,) array of int
        On a column partition alone; see the encoders.
    """

    min_frequency: Any
    categories_: list[Array]
    infrequent_categories_: list[Array | None]
    counts_: list[Array]
    n_other_: Int[Array, " p"]
    n_missing_: Int[Array, " p"]
    n_made_: Int[Array, " p"]

    _partitions = ("rows", "columns")
    _gives_views = ("rows", "columns")
    _kept_by_silos = (
        "categories_",
        "infrequent_categories_",
        "counts_",
        "n_other_",
        "n_missing_",
    )
    _missing = True
    _reads_categories = True
    _steps = (
        *(local_categories, own_groups, shown_made),
        *(own_categories, own_rare_names),
    )
    # Whether missing cells, where they are few, are in the group of rare names.
    _merges_missing = True

    @classmethod
    def kept_by_silos(cls) -> tuple[str, ...]:
        """Return no attribute: what silos keep they show nobody."""
        return ()

    def _gather(self, federation: Federation) -> None:
        raise DataError(OWN_NAMES)

    def _find_own_categories(
        self,
        federation: Federation,
        *,
        drop: Any = None,
        numbered: bool,
        joins: bool = True,
    ) -> None:
        """Let each silo of a column partition find and keep its own categories."""
        self._check_frequency()
        self.n_made_ = fit_own_categories(
            federation,
            self.min_frequency,
            drop=drop,
            numbered=numbered,
            joins=joins,
        )
        self._note_plan(federation)

    def _check_frequency(self) -> None:
        given = self.min_frequency
        whole = isinstance(given, int | np.integer) and not isinstance(given, bool)
        share = isinstance(given, float) and 0 < given < 1
        if not (given is None or share or (whole and given >= 1)):
            raise DataError(
                f"min_frequency={given!r}; give a number of rows of at least 1, a "
                f"share of them between 0 and 1, or None."
            )

    def _note_plan(self, federation: Federation) -> None:
        if federation.coordinator.planned:
            federation.coordinator.narrow()
            federation.coordinator.notes.append(
                f"How many categories {type(self).__name__} finds depends on the data; "
                f"the plan has four for each column."
            )

    def _find_categories(self, federation: Federation) -> list[CategoryGroups]:
        """Set the attributes that encoders have in common; return the groups."""
        self._check_frequency()
        found = agreed_categories(federation)
        self._note_plan(federation)
        self.categories_ = [np.array(one.names, dtype=object) for one in found]
        self.counts_ = [one.counts for one in found]
        self.n_other_ = np.array([one.n_other for one in found])
        self.n_missing_ = np.array([one.n_missing for one in found])
        groups = self._groups(federation.feature_names)
        self.infrequent_categories_ = [
            None
            if one.rare < 0
            else np.array(one.names, dtype=object)[one.group == one.rare]
            for one in groups
        ]
        return groups

    def _groups(self, columns: Sequence[str] = ()) -> list[CategoryGroups]:
        """Return the groups of each column's categories."""
        others = zip(self.n_other_.tolist(), self.n_missing_.tolist(), strict=True)
        every = zip(self.categories_, self.counts_, others, strict=True)
        return [
            grouped(
                Categories(tuple(names), counts, *more),
                self.min_frequency,
                columns[j] if columns else f"x{j}",
                merges_missing=self._merges_missing,
            )
            for j, (names, counts, more) in enumerate(every)
        ]

    def _code_arguments(self, groups: Sequence[CategoryGroups]) -> dict[str, Any]:
        """Return the arguments `CODES`, by which steps encode cells."""
        codes = [
            np.array([category_code(name) for name in names], float)
            for names in self.categories_
        ]
        return dict(code_arguments(groups, codes))

    def _codes_of_rows(
        self, X: Any, *, strict: bool = False, warned: bool = False
    ) -> Float[Array, "n p"]:
        """Return the codes of rows at hand, checked against the fitted columns.

        Names that nobody had in the fit are an error with `strict`, a warning with
        `warned`.
        """
        rows = self._check_objects(X)
        known_names = self.categories_ if strict or warned else list[Array]()
        for j, names in enumerate(known_names):
            cells = {category_name(cell) for cell in rows[:, j].tolist()}
            allowed = {*names, *([None] if self.n_missing_[j] else [])}
            if unknown := cells - allowed:
                found = (
                    f"Found unknown categories {sorted(map(str, unknown))} in column "
                    f"{j} during transform."
                )
                if strict:
                    raise ValueError(found)
                warnings.warn(
                    f"{found} They are encoded as the infrequent ones where there are "
                    f"any, and otherwise as zeros, as the category that was dropped "
                    f"is (`drop`).",
                    stacklevel=4,
                )
        return np.column_stack([coded(column) for column in rows.T])


@final
@dataclass(eq=False, repr=False)
class OneHotEncoder(CategoryEncoder):
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
        For names that nobody had in `fit`: to count them as infrequent where there are
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
    n_made_ : (p,) array of int
        On a column partition alone: how many columns each column becomes, -1 where it
        holds numbers. The silos keep their categories, and the attributes before
        `n_features_in_` but for `drop_idx_`.

    Raises
    ------
    DataError
        For columns of numbers, for one with more categories than are agreed on, and
        where no column is left after `drop`. On a column partition, where no silo has a
        column of categories, and for folds.

    Notes
    -----
    On a column partition each silo encodes its own columns of categories, in their
    places, and leaves its columns of numbers as they are. Disclosed: how many columns
    each column becomes, which is the number of its groups. Never released: a row, a
    name of a category, or how many rows have one. Others see the columns as sex_1,
    sex_2, ...: numbers in the order of the names, which the silo has in its own
    results. A silo refuses groups of few of its rows (`min_rows_per_class`), and
    answers about one `min_frequency` (`one_setting`): two would tell how many rows a
    category has.

    Released on rows, as totals only: the names of each column's categories and how many
    rows of all silos have each, also of those that are then merged; how many rows have
    none, and how many a name that too few rows of their silo have (`min_own_cells`).
    Such a name is not released, nor which silo has a name. Never released: a row, or
    any silo's own count.

    The result differs from scikit-learn's on the pooled rows in two ways. A name that a
    single row of a silo has counts as infrequent there. And where infrequent ones have
    fewer than five rows together, the smallest other category joins them.

    See Also
    --------
    sklearn.preprocessing.OneHotEncoder : its twin on pooled rows.

    References
    ----------
    Goodrich and Mitzenmacher, Invertible Bloom lookup tables, Allerton 2011: how the
    silos agree on the names.
    """

    drop_idx_: Int[Array, " p"] | None = field(init=False)

    _: KW_ONLY
    drop: Any = None
    min_frequency: Any = 5
    handle_unknown: Any = "infrequent_if_exist"

    def _exhibits(self, columns: Sequence[str]) -> list[Exhibit]:
        if "n_made_" in vars(self):
            return own_encoder_exhibits(self.n_made_, columns, "columns")
        dropped = None if self.drop_idx_ is None else self.drop_idx_.tolist()
        return encoder_exhibits(self._groups(), columns, dropped=dropped)

    def _citation(self) -> Citation:
        if "n_made_" in vars(self):
            return Citation(
                f"Each organisation encoded the categories of its own columns as "
                f"indicator variables, those of fewer than {self.min_frequency} rows "
                f"as one.",
                (),
            )
        return Citation(
            f"Categories were encoded as indicator variables, those of fewer than "
            f"{self.min_frequency} rows of all silos as one.",
            (LOOKUP_TABLES,),
        )

    def _fit(self, federation: Federation, y: Any) -> None:
        check_choice("drop", self.drop, (None, "first", "if_binary"))
        check_choice("handle_unknown", self.handle_unknown, _UNKNOWN)
        if federation.partition == "columns":
            self._find_own_categories(
                federation, drop=self.drop, numbered=False, joins=self._joins
            )
            return
        groups = self._find_categories(federation)
        first = {None: [], "first": [1], "if_binary": [2]}[self.drop]
        dropped = [
            0 if first == [1] or len(one.counts) in first else -1 for one in groups
        ]
        self.drop_idx_ = None if self.drop is None else np.array(dropped)

    @property
    def _joins(self) -> bool:
        """Whether unknown names are infrequent, where there are such."""
        return self.handle_unknown == "infrequent_if_exist"

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names of the columns that are made: "site_north".

        Parameters
        ----------
        input_features : sequence of str, optional
            The names in `fit`; x0, x1, ... where the tables have none.

        Raises
        ------
        ValueError
            When the names are not as many as the columns of the fit.
        """
        check_is_fitted(self)
        names = input_names(self, input_features)
        if "n_made_" in vars(self):
            pairs = widened_columns("groups", names, self.n_made_.tolist())
            return np.array([name for name, _ in pairs], dtype=object)
        made = [
            f"{column}_{_RARE if label == '' else 'nan' if label is None else label}"
            for j, column in enumerate(names)
            for number, label in enumerate(self._groups()[j].labels)
            if self.drop_idx_ is None or self.drop_idx_[j] != number
        ]
        return np.array(made, dtype=object)

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

        Warns
        -----
        UserWarning
            For unknown names in rows at hand, where a category was dropped.
        """
        check_is_fitted(self)
        if isinstance(X, Federation) and X.partition == "columns":
            view = self._check_view(X)
            made, kept_of = self.n_made_.tolist(), self.kept_
            return view.widen(
                own_one_hot, made, kept_of=kept_of, drop=self.drop, joins=self._joins
            )
        arguments, place = self._arguments()
        width = int((place >= 0).sum())
        arguments |= {"place": place, "width": width}
        if isinstance(X, Federation):
            view = self._check_view(X)
            names = list(self.get_feature_names_out(view.feature_names))
            return view.derive(one_hot, names, **arguments)
        strict = self.handle_unknown == "error"
        # As scikit-learn: where a category was dropped, zeros are no other than it.
        codes = self._codes_of_rows(X, strict=strict, warned=self.drop is not None)
        return one_hot(codes, **arguments)

    def _arguments(self) -> tuple[dict[str, Any], Int[Array, " c"]]:
        groups = self._groups()
        arguments = self._code_arguments(groups)
        if not self._joins:
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
