"""Columns made of others, such as logarithms, ratios or interactions.

    view   silos <── which columns, and how ── each silo computes them of its own rows

No round is needed. What is computed is written before a study (`[derived]`), and is the
same in all silos; the columns are judged by every rule as any other column.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from unpooled.arrays import Array, Float, Int
from unpooled.data.categories import category_code, coded
from unpooled.data.columns import check_known, listing
from unpooled.data.expressions import EQUAL, Expression, computed
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.models.base import FederatedEstimator, check_federation, input_names
from unpooled.protocol.step import derived, public
from unpooled.results.citations import Citation
from unpooled.results.exhibits import Column, Exhibit
from unpooled.results.fitted_attributes import by_column

_KINDS = "0 log, 1 ratio, 2 difference, 3 product, 4 a category"


@derived(
    of_source=True,
    takes={
        "kinds": public("q", f"how each column is made: {_KINDS}"),
        "first": public("q", "the first column that each is made of"),
        "second": public("q", "the second column that each is made of"),
        "codes": public("q", "the code of each category (the hash of its name)"),
    },
)
def derived_columns(
    cells: Float[Array, "n p"],
    *,
    kinds: Int[Array, " q"],
    first: Int[Array, " q"],
    second: Int[Array, " q"],
    codes: Float[Array, " q"],
) -> Float[Array, "n q"]:
    """Return the columns that are made of others."""
    every = zip(
        kinds.tolist(), first.tolist(), second.tolist(), codes.tolist(), strict=True
    )
    made = np.column_stack(
        [computed(kind, cells[:, i], cells[:, j], code) for kind, i, j, code in every]
    )
    # A missing cell would be filled by a later step, and no rule would know of which
    # column it is.
    if not np.isfinite(made).all():
        raise DataError(
            "A derived column has no value in some row: a cell that it reads is "
            "missing, 0 below a fraction line, or not positive under a logarithm.",
            rule="derived_cells",
        )
    return made


@final
@dataclass(eq=False, repr=False)
class DerivedColumns(TransformerMixin, FederatedEstimator):
    """Add columns that are made of others.

    Parameters
    ----------
    columns : dict of str to str
        By the name of each new column, what it is: ``"log(chol)"``, ``"chol / age"``,
        ``"after - before"``, ``"chol * age"``, or ``"site == 'north'"`` for a category.
        Names of columns that are no words stand in `backquotes`.

    Attributes
    ----------
    names_out_ : list of str
        Only on a column partition: all columns, the new ones behind their silo's.
    n_features_in_ : int
        p, the number of columns seen in `fit`.
    feature_names_in_ : (p,) array of str
        Names of the columns, where the silos' tables have names.

    Raises
    ------
    DataError
        For an expression that is none, for one of numbers that reads categories, or the
        other way round, and where a name is that of a column already; and where a row
        has no value for a new column: a cell that is missing, 0 below a fraction line,
        or not positive under a logarithm. On a column partition, for one that reads
        columns of two silos.

    Notes
    -----
    Released: nothing. Never released: a row, or what it is made into.

    On a column partition a column is made in the silo that has all columns that it
    reads, and stands behind this silo's columns. What takes columns of two silos would
    bring cells of people of one of them to the other.

    The cells that are read must have values: impute them first. No other transform may
    stand before, nor other derived columns among those that are read: a logarithm of
    a difference that was derived before would be refused just where some row has a
    value below one that is chosen (`derived_order`). A column of one
    category has 0 for all other rows, and for those of a name that a single row of a
    silo has.

    References
    ----------
    Wilkinson and Rogers, Symbolic description of factorial models for analysis of
    variance, Applied Statistics 22 (1973): columns as expressions of others.
    """

    _missing = True
    _reads_categories = True
    _partitions = ("rows", "columns")
    _gives_views = ("rows", "columns")
    names_out_: list[str] = field(init=False)

    columns: Any = None

    def _exhibits(self, columns: Sequence[str]) -> list[Exhibit]:
        made = {Column("Made of"): [self.columns[name] for name in self._made()]}
        table = by_column("derived_columns", self._made(), made)
        text = "Columns that every silo computes of its own rows in the same way."
        return [Exhibit("Derived columns", text, [table])]

    def _citation(self) -> Citation:
        made = "; ".join(f"{name} = {self.columns[name]}" for name in self._made())
        return Citation(f"Columns were derived from others: {made}.")

    def _fit(self, federation: Federation, y: Any) -> None:
        expressions = self._expressions()
        if federation.layout.known_to:
            # A silo that follows does not know the columns of others.
            return
        names, categories = federation.feature_names, set(federation.categorical)
        for name, one in expressions.items():
            check_known(one.columns, names, "The federation")
            if name in names:
                raise DataError(f"{name!r} is a column already; name it otherwise.")
            if (one.kind == EQUAL) != categories.issuperset(one.columns) or (
                one.kind != EQUAL and categories.intersection(one.columns)
            ):
                needs = "a column of categories" if one.kind == EQUAL else "numbers"
                raise DataError(f"{name} = {self.columns[name]!r} needs {needs}.")
            if federation.partition == "columns":
                self._check_one_silo(federation, name, one)
        if federation.partition == "columns":
            self.names_out_ = list(self._added(federation).feature_names)

    def _check_one_silo(
        self, federation: Federation, name: str, one: Expression
    ) -> None:
        """Refuse a column that is made of those of two silos."""
        of = federation.columns_of
        silos = [
            party for party, own in of.items() if not {*own}.isdisjoint(one.columns)
        ]
        if len(silos) > 1:
            raise DataError(
                f"{name} = {self.columns[name]!r} reads columns of {listing(silos)}. "
                f"On a column partition a silo makes columns of its own columns alone: "
                f"of two silos' columns, one silo would receive the other's cells. "
                f"Correlation and LinearRegression take columns of several silos "
                f"together."
            )

    def _added(self, view: Federation) -> Federation:
        """Return a view of a column partition with each column in its own silo."""
        for name, one in self._expressions().items():
            used, arguments = self._arguments(list(dict.fromkeys(one.columns)), [one])
            view = check_federation(self, view)
            view = view.with_derived(derived_columns, used, [name], **arguments)
        return view

    def _expressions(self) -> dict[str, Expression]:
        if not isinstance(self.columns, Mapping) or not self.columns:
            raise DataError(
                f"columns={self.columns!r}; give a dict of names and expressions, such "
                f"as {{'log_chol': 'log(chol)'}}."
            )
        # Sorted, since a dict that travels keeps no order.
        return {name: Expression.of(self.columns[name]) for name in self._made()}

    def _made(self) -> list[str]:
        return sorted(map(str, self.columns))

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names of the columns, with the new ones at the end, sorted.

        Parameters
        ----------
        input_features : sequence of str, optional
            The names in `fit`.

        Raises
        ------
        ValueError
            When the names are not as many as the columns of the fit.
        """
        check_is_fitted(self, "n_features_in_")
        if "names_out_" in vars(self):
            return np.array(self.names_out_, dtype=object)
        given = input_names(self, input_features)
        return np.array([*given, *self._made()], dtype=object)

    def transform(self, X: Any) -> Any:
        """Return rows with the new columns at the end, in the order of their names.

        Parameters
        ----------
        X : data frame, (n, p) array-like or Federation
            For a federation the result is a view of it. Of rows with categories the
            result has objects.
        """
        check_is_fitted(self, "n_features_in_")
        if isinstance(X, Federation):
            view = self._check_view(X)
            if view.partition == "columns":
                return self._added(view)
            used, arguments = self._arguments(view.feature_names)
            return view.with_derived(derived_columns, used, self._made(), **arguments)
        rows, names = self._check_objects(X), input_names(self)
        used, arguments = self._arguments(names)
        compared = {
            one.columns[0] for one in self._expressions().values() if one.kind == EQUAL
        }
        cells = [
            coded(column) if name in compared else column.astype(float)
            for name, column in zip(names, rows.T, strict=True)
            if name in used
        ]
        by_name = dict(zip([n for n in names if n in used], cells, strict=True))
        made = derived_columns(
            np.column_stack([by_name[name] for name in used]), **arguments
        )
        whole = np.hstack([rows, made.astype(object)])
        return whole if compared else whole.astype(float)

    def _arguments(
        self, names: Sequence[str], some: Sequence[Expression] | None = None
    ) -> tuple[list[str], dict[str, Any]]:
        """Return the columns that are read, and the arguments of the step.

        Parameters
        ----------
        names : sequence of str
            Columns that there are.
        some : sequence of Expression, optional
            What is made of them; everything when omitted.
        """
        expressions = some or list(self._expressions().values())
        used = [n for n in names if any(n in one.columns for one in expressions)]
        place = {name: j for j, name in enumerate(used)}
        return used, {
            "kinds": np.array([one.kind for one in expressions]),
            "first": np.array([place[one.columns[0]] for one in expressions]),
            "second": np.array([place[one.columns[-1]] for one in expressions]),
            "codes": np.array(
                [
                    category_code(one.category) if one.kind == EQUAL else 0.0
                    for one in expressions
                ]
            ),
        }
