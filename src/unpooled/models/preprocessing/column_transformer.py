"""Transforms of some columns each, side by side.

    age, chol ── StandardScaler ──> age, chol       ┐
    site      ── OneHotEncoder ───> site_north, ... ├─> one view
    others    ── remainder ───────> others, or none ┘

Each transform is fitted on its own columns, one after the other; a view applies each to
its columns and leaves the others as they are. On a column partition the silos first
show how many columns they have for each. A silo that has none for a transform runs the
same steps on no column.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import Any, final

import numpy as np
from sklearn.base import TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from unpooled.arrays import Array, Int, Shaped
from unpooled.data.columns import check_known, listing
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.federation.layout import Layout
from unpooled.models.base import (
    FederatedEstimator,
    check_federation,
    input_names,
)
from unpooled.models.files.catalogue import estimator
from unpooled.models.parameter_checks import check_choice
from unpooled.protocol.step import disclosed, release
from unpooled.protocol.view_operations import KINDS, Choice, Parts
from unpooled.results.citations import Citation
from unpooled.results.exhibits import Exhibit
from unpooled.results.formats import listed

_PASS = "passthrough"
_NAMED = 6  # columns that a sentence names at most


@disclosed(
    takes={"n_sizes": "size q"},
    sizes=release(
        "q",
        meaning="how many of the silo's columns each transform reads, and how many "
        "pass as they are",
        counts="columns",
    ),
)
def shown_parts(
    columns: Sequence[str], coded: Sequence[str], *, parts: Any, n_sizes: int
) -> dict[str, Any]:
    """Return how many columns of each part a silo has, which sizes of views follow."""
    return {"sizes": np.array(Parts.read(parts).sizes(columns, coded), float)}


def make_column_selector(
    pattern: str = "*", *, kind: str | None = None
) -> dict[str, str]:
    """Return a choice of columns by name and kind, for `ColumnTransformer`.

    Parameters
    ----------
    pattern : str, default "*"
        Pattern of names, with ``*`` as wildcard: ``"lab_*"``.
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
        all columns of a kind, or what `make_column_selector` returns. These are pairs,
        without the name that scikit-learn's class has before them. A study file
        writes tables instead, ``{model = "OneHotEncoder", columns = "categorical"}``,
        with the model's parameters in them.
    remainder : {"drop", "passthrough"}, default "drop"
        What happens to columns that no transform reads.

    Attributes
    ----------
    fitted_ : list of estimator
        The fitted estimators, in their order; "passthrough" for columns that pass. On a
        column partition, reading what silos keep of one, such as the means of a
        `StandardScaler`, asks them to disclose it.
    columns_ : list of (l,) array of str
        The columns of each.
    sizes_ : (m, q) array of int
        Only on a column partition: how many columns of each silo each transform reads,
        and how many pass as they are.
    names_out_ : list of str
        Only on a column partition: names of the columns that are made.
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

    On a column partition each silo applies the transforms to those of its own columns
    that they read, and shows how many these are. A silo may have no column for a
    transform, but must be left with one by all together. The columns of a silo stay
    together, in the order above: those of the first silo, then those of the second.

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

    sizes_: Int[Array, "m q"] = field(init=False)
    names_out_: list[str] = field(init=False)

    _missing = True
    _reads_categories = True
    _partitions = ("rows", "columns")
    _gives_views = ("rows", "columns")

    transformers: Any = ()
    _: KW_ONLY
    remainder: Any = "drop"

    def _exhibits(self, columns: Sequence[str]) -> list[Exhibit]:
        # Results of a part that silos keep are not requested here.
        kept = "sizes_" in vars(self)
        parts = [
            model._all_exhibits((), part=True)
            if kept
            else model._exhibits_with(own, ())
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
        if federation.partition == "columns":
            self._fit_by_columns(federation)
            return
        self._check_columns(federation)
        fitted = list[tuple[Any, list[str]]]()
        names, coded = federation.feature_names, federation.categorical
        for model, choice in self._read():
            own = list(choice.of(names, coded))
            if own:
                done = model
                if model != _PASS:
                    done = clone(model).fit(federation.select(own))
                fitted.append((done, own))
        self._set(fitted)

    def _fit_by_columns(self, federation: Federation) -> None:
        """Fit on a column partition, where a silo may have no column of a part."""
        for model, _ in self.parts():
            if model != _PASS and not model.gives_rows("columns"):
                raise DataError(
                    f"transformers: {model!r} does not transform a silo's own columns. "
                    f"On a column partition each part has a transformer that does."
                )
        if not federation.layout.known_to:
            # A silo that follows does not know which columns others have.
            self._check_columns(federation)
        parts = self._operation()
        shown = federation.collect(
            shown_parts, parts=parts.as_json(), n_sizes=len(parts.choices) + 1
        )
        sizes = [shown[party]["sizes"] for party in federation.parties]
        if federation.coordinator.planned:
            sizes = _planned_sizes(parts, federation.layout)
        self.sizes_ = np.rint(sizes).astype(np.int64)
        models = [model for model, _ in self._read()]
        _, views = self._in_parts(federation)
        self._set(
            [
                (model if model == _PASS else clone(model).fit(view), names)
                for model, view in zip(models, views, strict=True)
                for names in [list(view.feature_names)]
            ]
        )
        self.names_out_ = list(self._of_columns(federation).feature_names)
        for number, model in zip(self._numbers(), self.fitted_, strict=True):
            if model != _PASS:
                model._asks_silos = partial(self._ask, model, number)

    def _set(self, fitted: Sequence[tuple[Any, list[str]]]) -> None:
        self.fitted_ = [model for model, _ in fitted]
        self.columns_ = [np.array(own, dtype=object) for _, own in fitted]

    def _numbers(self) -> list[int]:
        """Return which of `transformers` were fitted on a column partition."""
        return np.flatnonzero(self.sizes_[:, :-1].any(axis=0)).tolist()

    def _fitted_part(self, number: int) -> Any:
        """Return the fitted form of one of `transformers`, by its place from 0."""
        numbers = self._numbers()
        if number not in numbers:
            raise DataError(
                f"Part {number + 1} of the ColumnTransformer, "
                f"{self.parts()[number][0]!r}, has no column to read, so silos keep "
                f"nothing of it."
            )
        return self.fitted_[numbers.index(number)]

    def _ask(self, model: FederatedEstimator, number: int) -> None:
        """Ask the silos for what they keep of a part."""
        if self._silos is None or self._fitted_part(number) is not model:
            raise DataError(
                f"The silos keep a later fit of the ColumnTransformer of which this "
                f"{type(model).__name__} was a part. Read its part, in fitted_."
            )
        with self._silos.calling(self, "_gather", part=number):
            self._gather(self._silos, number)

    def _gather(self, federation: Federation, part: int = 0) -> None:
        """Collect what silos keep of a part: `fitted_` has it, and not this model."""
        model = self._fitted_part(part)
        _, views = self._in_parts(federation)
        view = check_federation(model, views[self._numbers().index(part)])
        model._gather(view)

    def _check_columns(self, federation: Federation) -> None:
        """Refuse columns that there are not, or two times, or no columns."""
        names, coded, read = federation.feature_names, federation.categorical, []
        for _, choice in self._read():
            check_known(choice.names, names, "The federation")
            read += choice.of(names, coded)
        if twice := sorted({name for name in read if read.count(name) > 1}):
            raise DataError(
                f"Two transforms read {listing(twice)}; a column has one transform."
            )
        if not read:
            raise DataError(
                f"No transform has a column to read: none of {listing(names)} is "
                f"chosen by {' or '.join(repr(of) for _, of in self.parts())}. A "
                f'pattern is of names; kind="numeric" and kind="categorical" choose by '
                f"kind."
            )

    def _read(self) -> list[tuple[Any, Choice]]:
        """Return the unfitted estimators, or "passthrough", each with its choice.

        Once it is known how many columns the silos of a column partition have for each,
        those for which some silo has one.
        """
        every = [(model, _choice(of)) for model, of in self.parts()]
        if "sizes_" not in vars(self):
            return every
        return [one for j, one in enumerate(every) if self.sizes_[:, j].any()]

    def _operation(self) -> Parts:
        """Return the operation that puts the columns of each silo into parts."""
        choices = tuple(choice for _, choice in self._read())
        return Parts(choices, self.remainder == _PASS)

    def _in_parts(self, view: Federation) -> tuple[Federation, list[Federation]]:
        """Return the view of a column partition put into parts, and one of each."""
        some = np.append(self.sizes_[:, :-1].any(axis=0), [True])
        view = check_federation(self, view)
        return view.in_parts(self._operation(), self.sizes_[:, some])

    def _of_columns(self, view: Federation) -> Federation:
        """Return a view of a column partition, transformed in each silo."""
        made, views = self._in_parts(view)
        for number, (model, part) in enumerate(zip(self.fitted_, views, strict=True)):
            if model != _PASS:
                made = made.with_own_part(number, part, model.transform(part))
        return made

    def parts(self) -> list[tuple[Any, Any]]:
        """Return the unfitted estimators, or "passthrough", each with its columns."""
        return [_part(one) for one in _listed(self.transformers)]

    @property
    def transformers_(self) -> list[tuple[Any, list[str]]]:
        """The fitted estimators, each with its columns: pairs without names."""
        check_is_fitted(self, "fitted_")
        pairs = zip(self.fitted_, self.columns_, strict=True)
        return [(model, [str(name) for name in own]) for model, own in pairs]

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names of the columns that are made.

        Parameters
        ----------
        input_features : sequence of str, optional
            The names in `fit`.

        Raises
        ------
        ValueError
            When the names are not as many as the columns of the fit.
        """
        check_is_fitted(self)
        if "names_out_" in vars(self):
            return np.array(self.names_out_, dtype=object)
        return np.array(self._names(input_names(self, input_features)), dtype=object)

    def _names(self, names: Sequence[str]) -> list[str]:
        """Return the names of the columns that are made, in the order of parts."""
        made = [
            list(model.get_feature_names_out(own))
            for model, own in self.transformers_
            if model != _PASS
        ]
        return [*self._passed(names), *(name for part in made for name in part)]

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
            if view.partition == "columns":
                return self._of_columns(view)
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
        made = np.hstack(parts)
        if "names_out_" in vars(self):
            # By silo, as views of a column partition have them.
            made = made[:, [self._names(names).index(n) for n in self.names_out_]]
        return made

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
        raise DataError(
            f"transformers: {given!r} is no pair (estimator, columns). The name that "
            f"scikit-learn has before them is left out."
        )
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


def _choice(given: Any) -> Choice:
    """Return a choice of columns as it travels."""
    if isinstance(given, str) and given in KINDS:
        given = {"kind": given}
    if isinstance(given, dict):
        _check_selector(given)
        return Choice(pattern=given.get("pattern", "*"), kind=given.get("kind", ""))
    names = (given,) if isinstance(given, str) else tuple(map(str, given))
    return Choice(names) if names else Choice(pattern="")


def _planned_sizes(parts: Parts, layout: Layout) -> list[list[int]]:
    """Return how many columns of each part a plan assumes that each party has."""
    found, n_parts = list[list[int]](), len(parts.choices)
    for party, own in layout.columns_of.items():
        if layout.known_to in ("", party):
            found.append(parts.sizes(own, layout.categorical))
        else:
            # It is not known which columns another silo has.
            each = max(len(own) // (n_parts + 1), 1)
            found.append([each] * n_parts + [each * parts.rest])
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
