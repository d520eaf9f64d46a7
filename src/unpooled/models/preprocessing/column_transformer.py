"""Transforms of some columns each, side by side.

    age, chol ── StandardScaler ──> age, chol       ┐
    site      ── OneHotEncoder ───> site_north, ... ├─> one view
    others    ── remainder ───────> others, or none ┘

Each transform is fitted on its own columns, one after the other; a view applies each to
its columns and leaves the others as they are.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any, final

import numpy as np
from sklearn.base import TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from unpooled.arrays import Array, Shaped
from unpooled.data.columns import check_known, listing
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.models.base import FederatedEstimator, input_names
from unpooled.models.files.catalogue import estimator
from unpooled.models.parameter_checks import check_choice
from unpooled.results.citations import Citation
from unpooled.results.exhibits import Exhibit
from unpooled.results.formats import listed

KINDS = ("numeric", "categorical")
_PASS = "passthrough"
_NAMED = 6  # columns that a sentence names at most


def make_column_selector(
    pattern: str = "*", *, kind: str | None = None
) -> dict[str, str]:
    """Return a choice of columns by name and kind, for `ColumnTransformer`.

    Parameters
    ----------
    pattern : str, default "*"
        Of names, with ``*`` as wildcard: ``"lab_*"``.
    kind : {"numeric", "categorical"}, optional
        Columns of numbers, or of categories; None: both.

    Returns
    -------
    dict of str to str
        As study files write it.
    """
    chosen = {"pattern": pattern} | ({} if kind is None else {"kind": kind})
    _check_selector(chosen)
    return chosen


def make_column_transformer(
    *transformers: tuple[Any, Any], remainder: str = "drop"
) -> "ColumnTransformer":
    """Return a `ColumnTransformer` of pairs.

    Parameters
    ----------
    *transformers : (estimator, columns)
        As of `ColumnTransformer`.
    remainder : {"drop", "passthrough"}, default "drop"
        What happens to other columns.
    """
    return ColumnTransformer(list(transformers), remainder=remainder)


@final
@dataclass(eq=False, repr=False)
class ColumnTransformer(TransformerMixin, FederatedEstimator):
    """Apply transforms to some columns each.

    Parameters
    ----------
    transformers : list of (estimator, columns)
        Estimators of the library that transform rows, or ``"passthrough"``, and the
        columns that each reads: a list of names, ``"numeric"`` or ``"categorical"`` for
        all columns of a kind, or what `make_column_selector` returns. A study file
        writes tables instead, ``{model = "OneHotEncoder", columns = "categorical"}``,
        with the model's parameters in them.
    remainder : {"drop", "passthrough"}, default "drop"
        What happens to columns that no transform reads.

    Attributes
    ----------
    fitted_ : list of estimator
        The fitted estimators, in their order; "passthrough" for columns that pass.
    columns_ : list of (l,) array of str
        The columns of each.
    n_features_in_ : int
        p, the number of columns seen in `fit`.
    feature_names_in_ : (p,) array of str
        Names of the columns, where the silos' tables have names.

    Raises
    ------
    DataError
        Where `transformers` are not pairs of an estimator that transforms rows and
        columns that there are, where two of them read a column, or where none has a
        column to read.

    Notes
    -----
    Released, as totals only: what each of the estimators releases, about its own
    columns. Never released: a row, or any silo's own part of a total.

    Columns that pass unchanged stand first, and then those of each transform; names
    have no prefix.

    References
    ----------
    Buitinck et al., API design for machine learning software: experiences from the
    scikit-learn project, 2013: transformers that are composed of others.

    See Also
    --------
    sklearn.compose.ColumnTransformer : its twin on rows in one place.
    """

    fitted_: list[Any] = field(init=False)
    columns_: list[Array] = field(init=False)

    _missing = True
    _reads_categories = True
    _instead_by_columns = (
        " On a column partition OneHotEncoder and OrdinalEncoder encode each silo's "
        "columns of categories and leave its columns of numbers as they are: let the "
        "models stand one after the other."
    )

    transformers: Any = ()
    _: KW_ONLY
    remainder: Any = "drop"

    def _exhibits(self, columns: Sequence[str]) -> list[Exhibit]:
        parts = [
            model._exhibits_with(own, ())
            for model, own in self.transformers_
            if model != _PASS
        ]
        found = _named_apart(parts)
        # Where it only chooses columns, what else it has is a list of the word.
        passed = listed(self._passed(columns))
        return found or [
            Exhibit("Columns", f"These columns pass as they are: {passed}.")
        ]

    def _units(self) -> Mapping[str, str]:
        parts = [model._units() for model, _ in self.transformers_ if model != _PASS]
        return {name: unit for own in parts for name, unit in own.items()}

    def _citation(self) -> Citation:
        fitted = self.transformers_ if "fitted_" in vars(self) else []
        cited = [(m._citation(), own) for m, own in fitted if m != _PASS]
        works = dict.fromkeys(work for one, _ in cited for work in one.references)
        apart = dict.fromkeys(one.apart_from for one, _ in cited if one.apart_from)
        text = " ".join(
            f"Of {_counted_names(own)}: {one.sentence[:1].lower()}{one.sentence[1:]}"
            for one, own in cited
        )
        return Citation(
            text or "Columns were selected.",
            tuple(works),
            exact=all(one.exact for one, _ in cited),
            apart_from=listed(apart),
        )

    def _fit(self, federation: Federation, y: Any) -> None:
        check_choice("remainder", self.remainder, ("drop", _PASS))
        chosen = [(model, _columns(of, federation)) for model, of in self.parts()]
        names = [name for _, own in chosen for name in own]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise DataError(
                f"Two transforms read {listing(twice)}; a column has one transform."
            )
        fitted = list[tuple[Any, list[str]]]()
        for model, own in chosen:
            if not own:
                continue
            done = model
            if model != _PASS:
                done = clone(model).fit(federation.select(own))
            fitted.append((done, own))
        if not fitted:
            raise DataError(
                f"No transform has a column to read: none of "
                f"{listing(federation.feature_names)} is chosen by "
                f"{' or '.join(repr(of) for _, of in self.parts())}. A pattern is of "
                f'names; kind="numeric" and kind="categorical" choose by kind.'
            )
        self.fitted_ = [model for model, _ in fitted]
        self.columns_ = [np.array(own, dtype=object) for _, own in fitted]

    def parts(self) -> list[tuple[Any, Any]]:
        """Return the unfitted estimators, or "passthrough", each with its columns."""
        return [_part(one) for one in _listed(self.transformers)]

    @property
    def transformers_(self) -> list[tuple[Any, list[str]]]:
        """The fitted estimators, each with its columns."""
        check_is_fitted(self, "fitted_")
        pairs = zip(self.fitted_, self.columns_, strict=True)
        return [(model, [str(name) for name in own]) for model, own in pairs]

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names of the columns that are made.

        Parameters
        ----------
        input_features : sequence of str, optional
            The names in `fit`.
        """
        check_is_fitted(self)
        names = self._passed(input_names(self, input_features))
        for model, own in self.transformers_:
            if model != _PASS:
                names += list(model.get_feature_names_out(own))
        return np.array(names, dtype=object)

    def transform(self, X: Any) -> Any:
        """Return the columns that pass, and behind them those of each transform.

        Parameters
        ----------
        X : (n, p) array-like or Federation
            For a federation the result is a view of it. Where columns of text pass,
            the result has objects.
        """
        check_is_fitted(self)
        if isinstance(X, Federation):
            view = self._check_view(X)
            passed = self._passed(list(view.feature_names))
            read = [n for m, own in self.transformers_ if m != _PASS for n in own]
            view = view.select([n for n in view.feature_names if n in {*passed, *read}])
            for model, own in self.transformers_:
                if model != _PASS:
                    part = model.transform(view.select(own))
                    view = view.with_part(own, part)
            return view
        rows, names = self._check_objects(X), input_names(self)
        place = {name: j for j, name in enumerate(names)}
        parts = [_numbers(rows[:, [place[n] for n in self._passed(names)]])]
        for model, own in self.transformers_:
            if model != _PASS:
                part = rows[:, [place[name] for name in own]]
                reads = model._reads_categories
                parts.append(model.transform(part if reads else part.astype(float)))
        return np.hstack(parts)

    def _passed(self, names: Sequence[str]) -> list[str]:
        """Return the columns that no transform changes, in their order."""
        read = {n for model, own in self.transformers_ if model != _PASS for n in own}
        passes = {n for model, own in self.transformers_ if model == _PASS for n in own}
        others = self.remainder == _PASS
        return [n for n in names if n in passes or (others and n not in read)]


def _counted_names(names: Sequence[str]) -> str:
    """Return some names of columns, or how many there are."""
    return listed(names) if len(names) <= _NAMED else f"{len(names):,} columns"


def _numbers(rows: Shaped[Array, "n p"]) -> Shaped[Array, "n p"]:
    """Return rows as float64, or as they are where cells are text.

    A text of digits stays text: it is the name of a category.
    """
    texts = any(isinstance(cell, str) for cell in rows.flat)
    return rows if texts else rows.astype(float)


def _listed(transformers: Any) -> list[Any]:
    if not isinstance(transformers, list | tuple) or not transformers:
        raise DataError(
            "transformers takes a list of pairs (estimator, columns), at least one."
        )
    return list(transformers)


def _part(given: Any) -> tuple[Any, Any]:
    """Return an unfitted estimator and its columns, of a pair or a study's table."""
    if isinstance(given, dict):
        rest = {key: v for key, v in given.items() if key not in ("model", "columns")}
        name, columns = given.get("model"), given.get("columns")
        kind = estimator(name) if isinstance(name, str) and name != _PASS else None
        if columns is None or (kind is None and name != _PASS):
            raise DataError(
                f"transformers: {given!r} needs model, one of the library's, and "
                f"columns."
            )
        try:
            return (_PASS if kind is None else kind(**rest)), columns
        except TypeError as unknown:
            raise DataError(f"transformers: {unknown}") from unknown
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise DataError(f"transformers: {given!r} is no pair (estimator, columns).")
    model, columns = given
    gives = isinstance(model, FederatedEstimator) and model.gives_rows("rows")
    if model != _PASS and not gives:
        raise DataError(
            f"transformers: {model!r} does not transform rows of a federation. Each "
            f"part has one of the library's transformers. Where a pipeline would have "
            f"several, let one ColumnTransformer follow another, the first with "
            f'remainder="passthrough".'
        )
    return model, columns


def _columns(chosen: Any, federation: Federation) -> list[str]:
    """Return the names of a choice of columns."""
    if isinstance(chosen, str) and chosen in KINDS:
        chosen = {"kind": chosen}
    names = federation.feature_names
    if isinstance(chosen, dict):
        _check_selector(chosen)
        coded = set(federation.categorical)
        kind, pattern = chosen.get("kind"), chosen.get("pattern", "*")
        return [
            name
            for name in names
            if fnmatchcase(name, pattern)
            and (kind is None or (name in coded) == (kind == "categorical"))
        ]
    found = [chosen] if isinstance(chosen, str) else list(chosen)
    check_known(found, names, "The federation")
    return found


def _check_selector(chosen: dict[str, Any]) -> None:
    known = set(chosen) <= {"kind", "pattern"} and isinstance(
        chosen.get("pattern", "*"), str
    )
    if not known or chosen.get("kind", KINDS[0]) not in KINDS:
        raise DataError(
            f"{chosen!r} chooses no columns; give a pattern of names, and kind as "
            f'"numeric" or "categorical".'
        )


def _named_apart(parts: Sequence[Sequence[Exhibit]]) -> list[Exhibit]:
    """Return the exhibits of parts, whose tables and pictures have files of their own.

    Two imputers both have a table "columns": that of the second is "columns_2".
    """
    seen, found = Counter[str](), list[Exhibit]()
    for part in parts:
        pictures = [one.picture for one in part if one.picture is not None]
        tables = {table.name for one in part for table in one.tables}
        own = tables | {picture.name for picture in pictures}
        seen.update(own)
        new = {name: f"{name}_{seen[name]}" if seen[name] > 1 else name for name in own}
        for one in part:
            picture = one.picture and replace(
                one.picture,
                name=new[one.picture.name],
                tables=tuple(new[name] for name in one.picture.tables),
            )
            renamed = [replace(table, name=new[table.name]) for table in one.tables]
            found.append(replace(one, tables=renamed, picture=picture))
    return found
