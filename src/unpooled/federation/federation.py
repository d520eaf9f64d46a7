"""The federation: an estimator's access to the silos, in a few verbs.

    federation.sum(step) ── StepCall ──> coordinator ── request ──> every party
    totals <──────────────────────────── opened <────── replies

It takes the place of scikit-learn's X. A view of it (columns, rows, a fitted transform)
is a federation too: the same parties, with a longer chain of operations that each silo
applies to its own rows, lazily.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, final

import numpy as np

from unpooled.arrays import Array, Int
from unpooled.coordinator.step_call import Needs, RoundRecord, RoundRunner, StepCall
from unpooled.data.columns import check_known, listing
from unpooled.errors import DataError
from unpooled.federation.calls import call_of
from unpooled.federation.layout import Layout
from unpooled.federation.splits import checked_seed, fold_rows, split_rows
from unpooled.ledger import Ledger
from unpooled.ledger.notebook_tables import html_table
from unpooled.protocol.request import Veiled
from unpooled.protocol.step import Step, named_for
from unpooled.protocol.topology import Graph, graph_of
from unpooled.protocol.view_operations import (
    Complete,
    Derive,
    Operation,
    Parts,
    Rows,
    Select,
    kept_address,
)
from unpooled.secure.sums.mask_graph import every_pair

_ELSEWHERE = (
    "The rows of a federation stay in their silos, so a function of another library "
    "cannot read them: use unpooled.cross_validate in place of cross_val_score and "
    "cross_validate, unpooled.GridSearchCV in place of GridSearchCV, unpooled.metrics "
    "in place of sklearn.metrics, the federation's own train_test_split and folds in "
    "place of train_test_split and KFold, unpooled.ColumnTransformer in place of "
    "ColumnTransformer, and the estimators of unpooled (unpooled.PCA, "
    "unpooled.StandardScaler, ...) in place of scikit-learn's."
)


@final
@dataclass(frozen=True, eq=False)
class PredictedBy:
    """The model and the method that predicted the columns of a view.

    Attributes
    ----------
    model : estimator
        A fitted model.
    method : {"predict", "predict_proba", "decision_function"}
        Which of its methods gave the view.
    view : Federation
        The view that the method was called with.
    """

    model: Any
    method: str
    view: "Federation"


@final
class Federation:
    """A view of the tables of all parties. Made by `unpooled.simulate` or a study.

    Attributes
    ----------
    partition : {"rows", "columns"}
        Whether the parties have different rows or different columns.
    parties : tuple of str
        Their names, in the study's order.
    feature_names : tuple of str
        Columns of the view, in the parties' order. At each party, a step's X has those
        of them that the party has.
    columns : tuple of str
        The same as `feature_names`.
    categorical : tuple of str
        The columns that hold categories, which encoders read.
    n_features : int
        Number of columns of the view.
    shape : (int or None, int)
        `n_rows` and `n_features`. ``len(federation)`` is N too, and an error where no
        number of rows was opened.
    columns_of : mapping of str to tuple of str
        The columns of each party; on a row partition all have the same.
    n_rows : int or None
        N on a column partition; None on a row partition.
    named : bool
        Whether the column names came with the data (a bare array has none).
    label : str or None
        The column that is kept beside the features, such as a diagnosis.
    ledger : Ledger
        Every array that left or entered a silo so far, shared by all views.
    rounds : list of RoundRecord
        The cost of each round.
    model : str
        The estimator that uses this view, as in the names of its steps: "pca". Empty
        outside a fit.
    predicted_by : PredictedBy or None
        For a view of predictions, the model that makes them.
    """

    def __init__(
        self,
        coordinator: RoundRunner,
        *,
        layout: Layout,
        named: bool,
        label: str | None = None,
        random_state: int | None = None,
        operations: tuple[Operation, ...] = (),
        model: str = "",
    ) -> None:
        self.coordinator, self.model = coordinator, model
        self.layout, self.label, self.named = layout, label, named
        self.random_state = random_state
        # On a column partition every silo reads its own columns, all of them.
        everything = (Select(layout.columns),) if layout.partition == "rows" else ()
        self.operations = operations or everything
        self.predicted_by: PredictedBy | None = None

    @property
    def partition(self) -> str:
        """Whether the parties have different "rows" or different "columns"."""
        return self.layout.partition

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Columns of the view, in the parties' order."""
        return self.layout.columns

    @property
    def categorical(self) -> tuple[str, ...]:
        """Columns of the view that hold categories, in the view's order."""
        layout = self.layout
        return tuple(n for n in layout.columns if n in layout.categorical)

    @property
    def columns_of(self) -> Mapping[str, tuple[str, ...]]:
        """The columns of each party."""
        return self.layout.columns_of

    @property
    def n_rows(self) -> int | None:
        """N on a column partition; None on a row partition."""
        return self.layout.n_rows

    @property
    def kept_here(self) -> str:
        """Address of the arrays that silos keep for a fit on this view: `kept_of`."""
        return kept_address(self.coordinator.study, self.operations)

    @property
    def parties(self) -> tuple[str, ...]:
        """Names of the parties, in the study's order."""
        return self.coordinator.parties

    @property
    def n_features(self) -> int:
        """Number of columns of the view."""
        return len(self.feature_names)

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the view: `feature_names`, by the name that data frames have."""
        return self.feature_names

    @property
    def shape(self) -> tuple[int | None, int]:
        """N, where it is known before any round, and the number of columns."""
        rows = None if self.layout.matching == "ids" else self.n_rows
        return rows, self.n_features

    def __len__(self) -> int:
        rows = self.shape[0]
        if rows is None:
            raise DataError(
                f"The number of rows is not known: each silo has its own, and only a "
                f"fit opens their total (n_samples_ of a model). {_ELSEWHERE}"
            )
        return rows

    def __bool__(self) -> bool:
        # Without this a federation whose rows are not known would have no truth.
        return True

    def __getitem__(self, columns: Any) -> "Federation":
        """Return a view of a column, or of a list of columns, as `select` does."""
        if not isinstance(columns, str) and not (
            isinstance(columns, list) and all(isinstance(n, str) for n in columns)
        ):
            raise DataError(f"Rows of a federation cannot be chosen. {_ELSEWHERE}")
        return self.select(columns)

    @property
    def ledger(self) -> Ledger:
        """Every array that left or entered a silo so far."""
        return self.coordinator.ledger

    @property
    def rounds(self) -> list[RoundRecord]:
        """The cost of each round, in seconds and bytes."""
        return self.coordinator.records

    def __repr__(self) -> str:
        return (
            f"<Federation: {len(self.parties)} parties, {self.n_features} columns, "
            f"partition by {self.partition}>"
        )

    def _repr_html_(self) -> str:
        rows = self.shape[0]
        caption = (
            f"A federation of {len(self.parties)} parties, partition by "
            f"{self.partition}; "
            f"{'an unknown number of' if rows is None else f'{rows:,}'} rows, "
            f"{self.n_features:,} columns"
            f"{'' if self.label is None else f', label {self.label}'}; "
            f"{len(self.rounds)} messages were exchanged so far."
        )
        by_party = [(party, len(own)) for party, own in self.columns_of.items()]
        return html_table(caption, ("party", "columns"), by_party)

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse to be an array, which functions of other libraries ask for."""
        raise DataError(_ELSEWHERE)

    # Hidden from type checkers, which would then take any name for an attribute.
    if not TYPE_CHECKING:

        def __getattribute__(self, name: str) -> Any:
            """Refuse `__len__` as an attribute; `len(federation)` does not come here.

            Before anything else, scikit-learn's functions decide by `hasattr` whether X
            is an array, and then refuse the name of a label in place of y by its type.
            """
            if name == "__len__":
                raise DataError(_ELSEWHERE)
            return object.__getattribute__(self, name)

    def sum(
        self, step: Step, to: str = "coordinator", *, kept_of: str = "", **public: Any
    ) -> dict[str, Any]:
        """Return totals over all parties, and nothing finer.

        Parameters
        ----------
        step : Step
            Declared with `summed`.
        to : {"coordinator", "parties"}, default "coordinator"
            With "parties" the totals come back as `Veiled`: noise to the coordinator,
            opened by the parties when passed as a public argument of a later step.
        kept_of : str, optional
            Address of another view's fit whose kept arrays the step reads: its
            `kept_here`.
        **public
            The step's keyword-only arguments: numbers, texts, arrays or `Veiled`.

        Returns
        -------
        dict of str to array

        Raises
        ------
        ReleaseRefusedError, DataError, AggregationError
            When a silo's policy refuses, its data do not fit, or the protocol fails.
        """
        if to not in ("coordinator", "parties"):
            raise DataError(f'to={to!r}; choose "coordinator" or "parties".')
        return self._run_step("summed", step, to, kept_of, public)

    def collect(
        self, step: Step, *, kept_of: str = "", **public: Any
    ) -> dict[str, dict[str, Array]]:
        """Return each party's own values: a disclosure that every silo must allow."""
        return self._run_step("disclosed", step, "coordinator", kept_of, public)

    def keep(self, step: Step, *, kept_of: str = "", **public: Any) -> None:
        """Run a step whose results stay in the silos."""
        self._run_step("kept", step, "coordinator", kept_of, public)

    def exchange(
        self, step: Step, topology: Any, *, kept_of: str = "", **public: Any
    ) -> None:
        """Have every party send its own values to its neighbours, and nobody else.

        Parameters
        ----------
        step : Step
            Declared with `exchanged`; later steps read the received values as `inbox`.
        topology : {"complete", "ring", "star"} or mapping of str to list of str
            The neighbours of each party; with "star" the first party is in the middle.
            A mapping names every party's neighbours, both ways, and connects all.
        kept_of, **public
            As of `sum`.

        Raises
        ------
        DataError
            Among more than 97 parties with different people, of which not every two
            have a key in common (`unpooled.secure.sums.mask_graph`).
        """
        graph = graph_of(topology, self.parties)
        if self.partition == "rows" and not every_pair(len(self.parties)):
            raise DataError(
                f"Not every two of {len(self.parties)} parties with different people "
                f"have a key in common, so that neighbours exchange nothing. Sum over "
                f"all parties instead."
            )
        self._run_step("exchanged", step, "coordinator", kept_of, public, graph)

    def compare(self, step: Step, **public: Any) -> Array:
        """Return where a `compared` step's polynomial of totals is negative."""
        self.coordinator.begin_computing()
        signs = self._run_step("compared", step, "coordinator", "", public)
        return next(iter(signs.values()))

    def compute(self, step: Step, **public: Any) -> dict[str, Array]:
        """Return the results that the parties compute together from a step's total.

        The total stays in secret sharing among the silos' processes, at least three.
        """
        self.coordinator.begin_computing()
        return self._run_step("computed", step, "coordinator", "", public)

    def _run_step(
        self,
        verb: str,
        step: Step,
        to: str,
        kept_of: str,
        public: Mapping[str, Any],
        topology: Graph | None = None,
    ) -> dict[str, Any]:
        if step.verb != verb:
            raise DataError(f"{step.name} is declared {step.verb}, not {verb}.")
        step = named_for(self.model, step)
        self._check_numbers(step)
        values = {name: _as_argument(value) for name, value in public.items()}
        call = StepCall(
            step=step,
            operations=self.operations,
            extents=self.layout.extents,
            public=values,
            to=to,
            kept_of=kept_of,
            topology=topology,
            needs=self.coordinator.needs,
        )
        return self.coordinator.run_step(call)

    @contextmanager
    def fitting(self) -> Iterator["Federation"]:
        """Hold one session, with keys of its own, for all rounds within.

        For steps that are run one by one: silos that follow answer none of them. An
        estimator's method holds one by `calling`.
        """
        self.coordinator.enter()
        try:
            yield self
        finally:
            self.coordinator.exit()

    @contextmanager
    def calling(
        self, model: Any, method: str = "fit", **arguments: Any
    ) -> Iterator["Federation"]:
        """Hold one session, with keys of its own, for all rounds of a call.

        Parameters
        ----------
        model : estimator
            As it is before the call.
        method : str, default "fit"
            The method that was called, whose rounds are to follow. Silos that follow
            make the same call.
        **arguments : JSON values
            Its arguments, beside this view.
        """
        with ExitStack() as watched:
            for watch in getattr(self.coordinator, "watchers", ()):
                watched.enter_context(watch(model, method, self, arguments))
            self.coordinator.enter(partial(call_of, model, method, self, arguments))
            of_caller = self.coordinator.needs
            self.coordinator.needs = (
                model.needs(self.partition, arguments.get("y"))
                if hasattr(model, "needs")
                else Needs()
            )
            try:
                yield self
            finally:
                self.coordinator.needs = of_caller
                self.coordinator.exit()

    def select(
        self,
        columns: Sequence[str] | None = None,
        *,
        exclude: Sequence[str] | None = None,
    ) -> "Federation":
        """Return a view of some columns.

        On a column partition every party keeps those of its own columns in the list.

        Parameters
        ----------
        columns : sequence of str, optional
            The columns of the view, in this order.
        exclude : sequence of str, optional
            In place of `columns`: all but these, in the order that they have.

        Raises
        ------
        DataError
            When a column is not there or named twice, when a silo of a column partition
            is left without any, or when both or neither of the arguments are given.
        """
        if (columns is None) == (exclude is None):
            raise DataError("select takes columns, or columns to leave out (exclude).")
        if columns is None:
            dropped = [exclude] if isinstance(exclude, str) else list(exclude or ())
            check_known(dropped, self.feature_names, "The federation")
            columns = [n for n in self.feature_names if n not in set(dropped)]
        wanted = tuple([columns] if isinstance(columns, str) else columns)
        return self._view(Select(wanted), self.layout.selected(wanted))

    def complete_rows(self) -> "Federation":
        """Return a view of the rows that have a value in each column of this view.

        Each silo leaves out its own incomplete rows; which these are never leaves it.
        Where columns were imputed before, all rows are complete.

        Raises
        ------
        DataError
            On a column partition, and of a fold or a part of a split.

        Notes
        -----
        The rows that are left are another table to the silo's rules. A silo does not
        answer about two tables that differ in fewer than `min_changed_rows` rows, by
        the first of them it answered about: by their difference these rows would be
        known. So where a silo has a few incomplete rows, it answers either about its
        complete rows or about all of them, and about the complete rows of one choice of
        columns.
        """
        if self.partition != "rows":
            raise DataError(
                "On a column partition no silo knows which rows are complete; impute."
            )
        self._check_whole()
        return self._view(Complete(), self.layout)

    def folds(
        self, n: int = 5, *, shuffle: bool = True, random_state: int | None = None
    ) -> "list[tuple[Federation, Federation]]":
        """Return n pairs of views (train, test) for cross-validation.

        Each silo cuts its rows once, at random and stratified by the label, into at
        most 20 blocks of at least `min_rows` rows, and deals the blocks to the folds.
        So any two folds, of any call or study, differ in whole blocks, those of the
        same numbers in each silo. Folds have equal numbers of rows only up to a block,
        and a silo with fewer than 50 rows may have none in some of them. More folds
        than a silo with 50 rows or more has blocks are refused. Which rows a block has
        never leaves the silo.

        On a column partition all silos have the same blocks: row i is in block i modulo
        their number.

        Parameters
        ----------
        n : int, default 5
            Number of folds, from 2 to 20.
        shuffle : bool, default True
            Deal the blocks at random rather than in their own order, which gives the
            same folds each time.
        random_state : int, optional
            Seed of the shuffle. None: the federation's, or else the same one each time,
            so that models are judged on the same folds. The blocks are random already,
            and silos with few rows refuse folds that differ from earlier ones.

        Raises
        ------
        DataError
            When n is not possible, or a fold on a column partition has no rows.
        """
        seed = self._seed_of_blocks(random_state) if shuffle else -1
        pairs = fold_rows(n, seed)
        return [(self._part(train), self._part(test)) for train, test in pairs]

    def train_test_split(
        self,
        *,
        test_size: float | None = None,
        train_size: float | None = None,
        random_state: int | None = None,
    ) -> "tuple[Federation, Federation]":
        """Return two views (train, test): every silo splits its own rows.

        A silo splits the blocks that its rows are cut into; see `folds`. A share is
        rounded to whole blocks, and both views have at least one where there are two.

        Parameters
        ----------
        test_size : float, optional
            Share of each silo's blocks in the test view; 0.25 when neither size is
            given.
        train_size : float, optional
            Share in the train view, in place of `test_size`: the views share all rows.
        random_state : int, optional
            Seed of the shuffle; None: as of `folds`.
        """
        seed = self._seed_of_blocks(random_state)
        train, test = split_rows(test_size, train_size, seed)
        return self._part(train), self._part(test)

    def derive(
        self,
        step: Step,
        columns: Sequence[str] | None = None,
        *,
        kept_of: str = "",
        **public: Any,
    ) -> "Federation":
        """Return a view whose rows each silo transforms by a fitted, derived step.

        Parameters
        ----------
        step : Step
            Declared with `derived`.
        columns : sequence of str, optional
            Names of the transformed columns. They are given on a row partition; on a
            column partition every silo's names stay as they are.
        kept_of : str, optional
            Address of the fit whose kept arrays the step reads: `kept_here` of its
            view.
        **public
            The step's keyword-only arguments.

        Raises
        ------
        DataError
            When the step is not declared `derived`, does not fit the columns or
            arguments, or would compute with codes of categories.
        """
        if step.verb != "derived":
            raise DataError(f"{step.name} is declared {step.verb}, not derived.")
        step = named_for(self.model, step)
        self._check_numbers(step)
        for extent in self.layout.extents.values():
            extent.sizes(step, public)
        if (columns is None) != (self.partition == "columns"):
            raise DataError(
                f"{step.name}: a transform names its columns on a row partition, and "
                f"leaves every silo's names as they are on a column partition."
            )
        names = () if columns is None else tuple(map(str, columns))
        values = {name: _as_argument(value) for name, value in public.items()}
        layout = self.layout
        if names:
            fills = step.by_column == "missing"
            pairs = zip(self.feature_names, names, strict=True) if fills else ()
            coded = [made for name, made in pairs if name in self.layout.categorical]
            layout = layout.renamed(names, coded=coded)
        elif step.by_column not in ("missing", "indicator"):
            layout = replace(layout, categorical=frozenset())
        view = self._view(Derive(step.name, names, values, kept_of), layout)
        return view.asked_by("")

    def widen(
        self, step: Step, made: Sequence[int], *, kept_of: str, **public: Any
    ) -> "Federation":
        """Return a view in which each silo makes further columns of its own.

        Parameters
        ----------
        step : Step
            Declared with `derived` and `widens`, for column partitions.
        made : sequence of int
            How many it makes of each column of the view, as the silos showed.
        kept_of, **public
            As of `derive`.
        """
        view = self.derive(step, kept_of=kept_of, **public)
        view.layout = self.layout.widened(step.widens, made)
        return view

    def with_part(self, columns: Sequence[str], part: "Federation") -> "Federation":
        """Return the view with some columns replaced by what they were transformed to.

        Parameters
        ----------
        columns : sequence of str
            Columns of this view.
        part : Federation
            ``self.select(columns)``, transformed.

        Returns
        -------
        Federation
            The other columns as they are, and behind them those of the part.

        Raises
        ------
        DataError
            When the part is no transform of these columns, or selects columns itself.
        """
        before = (*self.operations, Select(tuple(columns)))
        further = part.operations[len(before) :]
        same = [o.as_json() for o in part.operations[: len(before)]]
        if same != [o.as_json() for o in before] or not further:
            raise DataError("The part does not transform these columns of this view.")
        view, read = self, tuple(columns)
        for operation in further:
            if not isinstance(operation, Derive) or (
                operation.of and not operation.adds
            ):
                raise DataError(
                    "A transform that selects columns, or transforms some of them, "
                    "cannot be a part: apply it to the whole view."
                )
            if operation.adds:
                layout = view.layout.renamed(operation.columns, view.feature_names)
                read = (*read, *operation.columns)
            else:
                operation = replace(operation, of=read)
                left = operation.left(view.feature_names)
                coded = part.layout.categorical.intersection(operation.columns)
                layout = view.layout.renamed(operation.columns, left, coded)
                read = operation.columns
            view = view._view(operation, layout)
        return view.asked_by("")

    def in_parts(
        self, parts: Parts, sizes: Int[Array, "m q"]
    ) -> "tuple[Federation, list[Federation]]":
        """Return a view of a column partition put into parts, and a view of each part.

        Parameters
        ----------
        parts : Parts
            Which of their columns the silos put into each; a silo may have none of a
            part. The view of a part is for what silos keep or show of their own.
        sizes : (m, q) array of int
            As of `Layout.in_parts`.
        """
        layout, layouts = self.layout.in_parts(parts, sizes)
        views = [
            self._view(Parts((choice,)), own)
            for choice, own in zip(parts.choices, layouts, strict=True)
        ]
        return self._view(parts, layout), views

    def with_own_part(
        self, number: int, part: "Federation", made: "Federation"
    ) -> "Federation":
        """Return the view with what silos made of their columns in a part.

        Parameters
        ----------
        number : int
            Number of the part, in the view's `Parts`.
        part, made : Federation
            Its view as `in_parts` gave it, and as a model transformed it.

        Returns
        -------
        Federation
            In each silo the columns of the part stand last.

        Raises
        ------
        DataError
            When the model selected columns itself, or two columns have the same name.
        """
        view, further = self, made.operations[len(part.operations) :]
        for operation in further:
            if not isinstance(operation, Derive):
                raise DataError(
                    "A transform that selects columns cannot be a part: apply it to "
                    "the whole view."
                )
            view = view._view(replace(operation, part=number), view.layout)
        view.layout = self.layout.with_part(part.layout, made.layout)
        return view.asked_by("")

    def with_derived(
        self, step: Step, of: Sequence[str], columns: Sequence[str], **public: Any
    ) -> "Federation":
        """Return the view with further columns, which a derived step makes of some.

        On a column partition the columns that it reads are all in one silo, which adds
        those that it makes to its own.

        Parameters
        ----------
        step : Step
            Declared with `derived`.
        of : sequence of str
            The columns that it reads.
        columns : sequence of str
            Names of those that it makes.
        **public
            The step's keyword-only arguments.
        """
        if self.partition == "columns":
            step, made = named_for(self.model, step), tuple(columns)
            values = {name: _as_argument(value) for name, value in public.items()}
            operation = Derive(step.name, made, values, of=tuple(of), adds=True)
            layout = self.layout.with_added(of, made)
            return self._view(operation, layout).asked_by("")
        part = self.asked_by(self.model).select(of).derive(step, columns, **public)
        made = part.operations[len(part.operations) - 1]
        assert isinstance(made, Derive)
        operation = replace(made, of=tuple(of), adds=True)
        layout = self.layout.renamed(operation.columns, self.feature_names)
        return self._view(operation, layout).asked_by("")

    def asked_by(self, model: str) -> "Federation":
        """Return the same view, for the steps of another model.

        Parameters
        ----------
        model : str
            First half of its steps' names, such as "pca".
        """
        view = self.over(self.coordinator)
        view.model = model
        return view

    def over(self, coordinator: RoundRunner) -> "Federation":
        """Return the same view over another round runner, such as a dry run."""
        return Federation(
            coordinator,
            layout=self.layout,
            named=self.named,
            label=self.label,
            random_state=self.random_state,
            operations=self.operations,
            model=self.model,
        )

    def seed(self, random_state: Any = None) -> Any:
        """Return a seed for what is drawn at random, the same at every silo.

        Parameters
        ----------
        random_state : int or RandomState, optional
            The one given to a model or a split, which is returned if there is one.

        Returns
        -------
        int or RandomState
            Without one, the federation's `random_state`; without that, a seed that
            follows from fresh keys of all silos, so that nobody chooses it.
        """
        for given in (random_state, self.random_state):
            if given is not None:
                return given
        return self.coordinator.seed()

    def _seed_of_blocks(self, random_state: int | None) -> int:
        given = self.random_state if random_state is None else random_state
        return checked_seed(0 if given is None else given)

    def _check_numbers(self, step: Step) -> None:
        """Raise where a step would take codes of categories for numbers."""
        if self.categorical and {"X", "sums"} & set(step.reads):
            one = len(self.categorical) == 1
            instead = (
                "Encode them first (unpooled.OneHotEncoder in a ColumnTransformer), or "
                "leave them out: federation.select(exclude=[...]), in a study file "
                "exclude under [study], or a ColumnTransformer before it with "
                '{ model = "passthrough", columns = "numeric" }.'
                if self.partition == "rows"
                else "Encode them first (unpooled.OneHotEncoder, which leaves columns "
                "of numbers as they are), or leave them out: "
                "federation.select(exclude=[...]), in a study file exclude under "
                "[parties.<name>]."
            )
            raise DataError(
                f"{listing(self.categorical)} {'holds' if one else 'hold'} "
                f"categories, and {step.name} computes with numbers. {instead}",
                rule="categories",
            )

    def _check_whole(self) -> None:
        """Refuse complete rows of a part, and parts of complete rows."""
        if any(isinstance(one, Rows | Complete) for one in self.operations):
            raise DataError(
                "Folds and splits of complete rows are not made: their differences are "
                "not blocks of rows. Impute missing cells, or use all rows at once."
            )

    def _part(self, rows: Rows) -> "Federation":
        if any(isinstance(one, Complete) for one in self.operations):
            self._check_whole()
        return self._view(rows, self.layout.of_part(rows))

    def _view(self, operation: Operation, layout: Layout) -> "Federation":
        view = self.over(self.coordinator)
        view.layout = layout
        view.operations = (*self.operations, operation)
        return view


def _as_argument(value: Any) -> Any:
    """Return an argument as it travels: a JSON value, an array or a `Veiled` total."""
    if isinstance(value, np.generic) or (
        isinstance(value, np.ndarray) and value.ndim == 0
    ):
        return value.item()
    if isinstance(value, np.ndarray):
        kind = np.int64 if value.dtype.kind in "iub" else np.float64
        return np.ascontiguousarray(value, dtype=kind)
    if isinstance(value, Veiled | int | float | str | bool | list | dict | None):
        return value
    raise DataError(
        f"A public argument is {type(value).__name__}; numbers, texts and arrays of "
        f"numbers can travel."
    )
