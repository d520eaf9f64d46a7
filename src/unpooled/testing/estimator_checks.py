"""Checks of an estimator: the pooled answer over every split, and what left for it."""

import inspect
import io
import re
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, final

import numpy as np
import pandas as pd
from rich.console import Console
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from unpooled.arrays import Array
from unpooled.cli.results_tables import show_results
from unpooled.coordinator.step_call import RoundRunner, RunnerOver, StepCall
from unpooled.data.categories import category_code, category_name, coded
from unpooled.errors import DataError, UnpooledError
from unpooled.federation.federation import Federation
from unpooled.federation.local import simulate
from unpooled.federation.planning.dry_run import plan
from unpooled.models.base import FederatedEstimator, fitted_names
from unpooled.models.files.catalogue import estimators
from unpooled.models.files.model_file import load, save
from unpooled.models.preprocessing.scaler import StandardScaler
from unpooled.party.rules.policy import Policy
from unpooled.protocol.request import Veiled
from unpooled.protocol.step import find_step, home_of
from unpooled.protocol.view_operations import Select
from unpooled.report.html import report
from unpooled.results.files import StepResults, write_csv, write_json
from unpooled.testing.step_checks import check_step

# What a fit on a column partition calls itself differs from fit to fit.
_ADDRESSES = ("kept_",)
# A sum keeps twelve digits of each number's bound; a solver loses some of them.
_RTOL = 1e-8


def check_estimator(
    estimator: FederatedEstimator,
    X: Any = None,
    y: Any = None,
    *,
    label: str | None = None,
    partition: str = "rows",
    n_parties: int = 3,
    pooled: Any = None,
    exact: bool = True,
    rtol: float = _RTOL,
    ignore: Sequence[str] = (),
    categorical: Sequence[str] = (),
    expected_failed_checks: Mapping[str, str] | None = None,
    generate_only: bool = False,
) -> "list[Check]":
    """Check that an estimator keeps the library's conventions, and its answers.

    It is fitted on rows that lie in silos in several ways, under masked and plain sums,
    and compared: with itself, with the pooled answer where `pooled` gives one, with its
    plan, and with what its steps declare.

    Parameters
    ----------
    estimator : FederatedEstimator
        With the parameters to check. It is cloned, never fitted itself.
    X : DataFrame or (N, p) array, optional
        The pooled rows; 96 made rows of six columns "a" to "f", and of a label "kind"
        with three classes where `label` or `y` names it, when omitted.
    y : optional
        What `fit` takes beside the federation, such as names of columns.
    label : str, optional
        The column of X that is carried along and is never a feature; that named by `y`
        when omitted.
    partition : {"rows", "columns"}, default "rows"
        What the silos have different.
    n_parties : int, default 3
        How many silos there are.
    pooled : estimator, callable or None, default None
        The oracle. An estimator of scikit-learn's form is fitted on the pooled rows and
        compared in every attribute that both have; a callable takes the pooled features
        (N, p) and labels (or None) and returns wanted values by attribute.
    exact : bool, default True
        That the result does not depend on how rows lie in silos.
    rtol : float, default 1e-8
        Largest difference of a number, relative to the largest in its array.
    ignore : sequence of str, optional
        Fitted attributes that may differ from fit to fit.
    categorical : sequence of str, optional
        Columns of X that hold categories, as of `unpooled.simulate`.
    expected_failed_checks : mapping of str to str, optional
        Names of checks that may fail, each with the reason.
    generate_only : bool, default False
        Return the checks rather than run them, for ``pytest.mark.parametrize``; each is
        called without arguments, and prints as its name.

    Returns
    -------
    list of Check
        The checks, which have passed unless they were only generated.

    Raises
    ------
    AssertionError
        From the first check that fails; its message says what to change.
    """
    frame = _frame(X, label if label is not None else y)
    if label is None and isinstance(y, str):
        label = y
    trial = Trial(
        model=estimator,
        frame=frame,
        y=y,
        label=label,
        partition=partition,
        n_parties=n_parties,
        pooled=pooled,
        exact=exact,
        rtol=rtol,
        ignore=(*_ADDRESSES, *ignore),
        categorical=tuple(categorical),
    )
    excused = dict(expected_failed_checks or {})
    if unknown := set(excused) - {function.__name__ for function in CHECKS}:
        raise ValueError(f"There are no checks named {sorted(unknown)}.")
    checks = [Check(one, trial, one.__name__ in excused) for one in CHECKS]
    if not generate_only:
        for check in checks:
            check()
    return checks


@final
@dataclass(frozen=True)
class Trial:
    """An estimator, the rows to try it on, and what is known of its answers.

    Attributes are those parameters of `check_estimator`; `frame` has the pooled rows.
    """

    model: FederatedEstimator
    frame: pd.DataFrame
    y: Any
    label: str | None
    partition: str
    n_parties: int
    pooled: Any
    exact: bool
    rtol: float
    ignore: tuple[str, ...]
    categorical: tuple[str, ...] = ()

    @property
    def features(self) -> pd.DataFrame:
        """The pooled rows without the label."""
        return self.frame if self.label is None else self.frame.drop(columns=self.label)

    @property
    def labels(self) -> Array | None:
        """The label of each pooled row."""
        return None if self.label is None else self.frame[self.label].to_numpy()

    def split(self) -> list[Array]:
        """Return the rows of each silo, in parts of like size."""
        return np.array_split(np.arange(len(self.frame)), self.n_parties)

    def federation(
        self,
        parts: Sequence[Array] | None = None,
        secure_sum: str = "plain",
        frame: pd.DataFrame | None = None,
        **options: Any,
    ) -> Federation:
        """Put the rows into silos, whose policies allow everything.

        Parameters
        ----------
        parts : sequence of arrays, optional
            The rows of each silo; of a column partition nothing.
        secure_sum : {"plain", "masked"}
            As of `unpooled.simulate`, and so are further options.
        frame : DataFrame, optional
            Other rows than the trial's.
        """
        table: pd.DataFrame = self.frame if frame is None else frame
        if self.partition == "rows":
            pieces = [table.iloc[rows] for rows in parts or self.split()]
        else:
            features = [name for name in table.columns if name != self.label]
            carried = [] if self.label is None else [self.label]
            cut = np.array_split(np.array(features, dtype=object), self.n_parties)
            pieces = [table[[*names, *carried]] for names in cut]
        silos = {f"silo{i}": piece for i, piece in enumerate(pieces, start=1)}
        options = {"policy": Policy.open(), "random_state": 0, **options}
        if self.categorical:
            options["categorical"] = self.categorical
        return simulate(
            silos,
            partition=self.partition,
            label=self.label,
            secure_sum=secure_sum,
            **options,
        )

    @cached_property
    def plain(self) -> "Fit":
        """The fit under plain sums, with which other fits are compared."""
        return self._fit("plain")

    @cached_property
    def masked(self) -> "Fit":
        """The fit under masked sums."""
        return self._fit("masked")

    def _fit(self, secure_sum: str) -> "Fit":
        federation = self.federation(secure_sum=secure_sum)
        recorder = _Recorder(federation.coordinator)
        model = self.fitted(federation.over(recorder))
        return Fit(model, federation, tuple(recorder.calls))

    def fitted(self, federation: Federation) -> Any:
        """Return a clone that is fitted."""
        return clone(self.model).fit(federation, self.y)


@final
@dataclass(frozen=True)
class Fit:
    """A fit on the trial's rows. Checks only read it: they share it.

    Attributes
    ----------
    model : estimator
        The fitted clone.
    federation : Federation
        What it was fitted on.
    calls : tuple of StepCall
        The steps that the fit ran, in their order.
    """

    model: Any
    federation: Federation
    calls: tuple[StepCall, ...]


@final
@dataclass(frozen=True)
class Check:
    """One check of one estimator; call it."""

    function: Callable[[Trial], None]
    trial: Trial
    may_fail: bool = False

    @property
    def __name__(self) -> str:
        return self.function.__name__

    def __repr__(self) -> str:
        return f"{type(self.trial.model).__name__}-{self.function.__name__}"

    def __call__(self) -> None:
        """Run the check."""
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                self.function(self.trial)
            except Exception:
                if not self.may_fail:
                    raise


def check_parameters(trial: Trial) -> None:
    """The constructor keeps what it is given, and a clone has the same."""
    model = trial.model
    names = [n for n in inspect.signature(type(model)).parameters]
    assert set(model.get_params(deep=False)) == set(names)
    given = model.get_params(deep=False)
    made = type(model)(**given)
    for name, value in given.items():
        assert vars(made)[name] is value, f"{name} is changed by the constructor."
    assert _alike(clone(model).get_params(), model.get_params(), 0.0)
    assert fitted_names(clone(model)) == []
    assert type(model).__name__ in repr(model)


def check_docstring(trial: Trial) -> None:
    """The class documents its parameters, and says what is released and what never."""
    kind = type(trial.model)
    text = inspect.getdoc(kind) or ""
    for name in inspect.signature(kind).parameters:
        assert f"\n{name}" in text or f", {name}" in text, (
            f"{kind.__name__} does not document its parameter {name}."
        )
    words = " ".join(text.split())
    for start in ("Released", "Never released"):
        assert start in words, (
            f'The Notes of {kind.__name__} need a sentence that begins with "{start}": '
            f"a data-protection officer reads them."
        )


def check_federations_only(trial: Trial) -> None:
    """An array, and silos that are cut the other way, are refused by name."""
    model = clone(trial.model)
    with _refused(DataError, "takes a Federation"):
        model.fit(trial.features.to_numpy(), trial.y)
    if trial.partition not in model._partitions:
        raise AssertionError(
            f"{model} does not work on partitions by {trial.partition}."
        )
    others = {"rows", "columns"} - set(model._partitions)
    for other in others:
        turned = replace(trial, partition=other)
        with _refused(DataError, "works on partitions by"):
            model.fit(turned.federation(), trial.y)
    _check_unfitted(model)


def check_pooled_answer(trial: Trial) -> None:
    """The fit equals the oracle on the pooled rows, under every secure sum."""
    if trial.pooled is None:
        return
    wanted = _oracle(trial)
    for secure_sum, fit in (("plain", trial.plain), ("masked", trial.masked)):
        for name, value in wanted.items():
            found = getattr(fit.model, name)
            assert _alike(found, value, trial.rtol), (
                f"{name} is {found!r} under {secure_sum} sums; on the pooled rows it "
                f"is {value!r}."
            )


def check_splits(trial: Trial) -> None:
    """The result does not depend on how the rows lie in silos, nor on their order."""
    _assert_as_plain(trial, trial.masked.model, "under masks")
    if trial.partition == "columns" or not trial.exact:
        return
    N = len(trial.frame)
    rows = np.arange(N)
    splits = {
        "with the silos in another order": trial.split()[::-1],
        "with most rows at one silo": np.split(rows, [max(N // 20, 1), N // 8]),
        "with one row at a silo": np.split(rows, [1, N // 2]),
        "with one more silo": np.array_split(rows, trial.n_parties + 1),
    }
    if (labels := trial.labels) is not None:
        order = np.argsort(labels, kind="stable")
        splits["with classes missing at silos"] = np.array_split(order, trial.n_parties)
    for what, parts in splits.items():
        _assert_as_plain(trial, trial.fitted(trial.federation(parts)), what)


def check_refit(trial: Trial) -> None:
    """Fitting again gives the same, and leaves nothing of an earlier fit."""
    frame = trial.frame.copy()
    features = list(trial.features.columns)
    frame[features] = frame[features].to_numpy()[::-1] * 1.5
    model = trial.fitted(trial.federation(frame=frame))
    model.fit(trial.federation(), trial.y)
    _assert_as_plain(trial, model, "after another fit")


def check_ledger(trial: Trial) -> None:
    """The ledger holds, says what the steps declare, and was planned."""
    federation = trial.federation(secure_sum="masked")
    planned = plan(clone(trial.model), federation, trial.y)
    ledger = trial.masked.federation.ledger
    assert ledger.verify()
    own = f"{home_of(type(trial.model).__module__)}."
    lines = set()
    for line in ledger:
        if line.direction == "out" or line.visibility == "kept":
            declared = find_step(line.step).declared[line.name]
            assert len(line.shape) == len(declared.letters), line
            if type(trial.model).__name__ in estimators():
                assert line.step.startswith(own), (
                    f"{line.step} does not say that {type(trial.model).__name__} asks: "
                    f"list it in `_steps`."
                )
        lines.add((line.step, line.name, line.visibility, line.direction))
    foreseen = {(p.step, p.name, p.visibility, p.direction) for p in planned.releases}
    assert lines <= foreseen, f"not in the plan: {sorted(lines - foreseen)}"


def check_steps(trial: Trial) -> None:
    """Every step that the fit asks for keeps what it declares: see `check_step`."""
    if trial.partition == "columns":
        return
    calls = trial.plain.calls
    assert calls or not trial.plain.federation.ledger, "the steps went unnoticed"
    for call in calls:
        step, selection = call.step, call.operations[0]
        from_rows = {"X", "cells", "y"} & set(step.reads) and "kept" not in step.reads
        if not from_rows or step.computation is not None or len(call.operations) > 1:
            continue
        if any(isinstance(value, Veiled) for value in call.public.values()):
            continue
        assert isinstance(selection, Select)
        rows, names = _cells(trial, selection.columns)
        check_step(step, rows, trial.labels, dictionary=names, **call.public)


def _cells(trial: Trial, columns: Sequence[str]) -> tuple[Array, Mapping[float, str]]:
    """Return the rows as a silo's steps read them, and the names of its categories."""
    cells = trial.frame[list(columns)].to_numpy(dtype=float, copy=True)
    names = dict[float, str]()
    for j, column in enumerate(columns):
        if column in trial.categorical:
            known = [category_name(cell) for cell in cells[:, j]]
            names |= {category_code(name): name for name in known if name is not None}
            cells[:, j] = coded(known)
    return cells, names


def check_policies(trial: Trial) -> None:
    """A refusal by the silos' default rules stops the fit and leaves no model."""
    model = clone(trial.model)
    closed = trial.federation(policy=Policy(allowed_steps=(), min_parties=2))
    if not plan(clone(trial.model), closed, trial.y).rounds:
        return
    with _refused(UnpooledError, "allowed_steps"):
        model.fit(closed, trial.y)
    _check_unfitted(model)


def check_missing_cells(trial: Trial) -> None:
    """Missing cells are refused by rule, where the model does not take them."""
    model = clone(trial.model)
    if model._missing:
        return
    frame = trial.frame.copy()
    frame.loc[frame.index[1], trial.features.columns[0]] = np.nan
    # A model that says nothing of them meets the codes' rule: they hold no NaN.
    with _refused(UnpooledError, ("missing", "fixed_point_range")):
        model.fit(trial.federation(frame=frame), trial.y)
    _check_unfitted(model)


def check_transform(trial: Trial) -> None:
    """A view of the silos' rows has the values that `transform` gives an array."""
    if not hasattr(trial.model, "transform") or trial.partition == "columns":
        return
    model = trial.plain.model
    view = model.transform(trial.federation())
    assert isinstance(view, Federation)
    inputs = list(getattr(model, "feature_names_in_", trial.features.columns))
    scores = np.asarray(model.transform(trial.features[inputs]))
    assert scores.shape == (len(trial.frame), view.n_features)
    scaler = StandardScaler().fit(view)
    # A mean may be rounding beside the spread; missing cells stay missing.
    mean, variance = np.nanmean(scores, axis=0), np.nanvar(scores, axis=0)
    spread = float(np.sqrt(variance.max(initial=0.0)))
    assert _alike(scaler.mean_, mean, 1e-7, spread), "the view has other means"
    assert _alike(scaler.var_, variance, 1e-7), "the view has other variances"


def check_model_file(trial: Trial) -> None:
    """A saved model comes back with the same attributes, to the bit."""
    if type(trial.model).__name__ not in estimators():
        return
    model = trial.plain.model
    with tempfile.TemporaryDirectory() as folder:
        save(model, Path(folder) / "model.unpooled")
        same = load(Path(folder) / "model.unpooled")
    assert fitted_names(same) == fitted_names(model)
    for name in fitted_names(model):
        assert _alike(vars(same)[name], vars(model)[name], 0.0), name


def check_report(trial: Trial) -> None:
    """Report, summary and terminal show the results; figures have numbers in a file."""
    model, federation = trial.plain.model, trial.plain.federation
    lines = len(federation.ledger)
    _check_summary(model)
    terminal = io.StringIO()
    show_results(Console(file=terminal, width=80), "step", model.summary())
    assert type(model).__name__ in terminal.getvalue()
    assert len(federation.ledger) == lines, "its summary asks the silos"
    with tempfile.TemporaryDirectory() as folder:
        report(model, federation, Path(folder) / "report.html")
        page = (Path(folder) / "report.html").read_text()
    assert type(model).__name__.lower() in page.lower()


def _check_summary(model: FederatedEstimator) -> None:
    """Check names of tables and pictures, and that files can be written of them."""
    summary = model.summary()
    assert summary.exhibits, "a summary says at least that results stay in the silos"
    assert type(model).__name__ in str(summary)
    tables = [
        table.name
        for exhibit in summary.exhibits
        for table in exhibit.tables
        if table.place != "pages"
    ]
    pictures = [one.picture for one in summary.exhibits if one.picture is not None]
    for names in (tables, [picture.name for picture in pictures]):
        assert len(set(names)) == len(names), f"names occur twice: {names}"
        bad = [name for name in names if not re.fullmatch(r"\w+", name)]
        assert not bad, f"no file is named so: {bad}"
    for name, table in summary.tables.items():
        keys = [column.key for column in table.columns]
        assert len(set(keys)) == len(keys), f"{name} has columns twice: {keys}"
    for picture in pictures:
        absent = set(picture.tables) - set(tables)
        assert picture.tables, f"{picture.name} names no table with its numbers"
        assert not absent, f"{picture.name} names tables that are not there: {absent}"
    step = StepResults("step", type(model).__name__, model.get_params(), summary)
    with tempfile.TemporaryDirectory() as folder:
        written = write_csv(Path(folder), [step])
        assert len(written) == len(tables)
        write_json(Path(folder), [step], {})


CHECKS: tuple[Callable[[Trial], None], ...] = (
    check_parameters,
    check_docstring,
    check_federations_only,
    check_pooled_answer,
    check_splits,
    check_refit,
    check_ledger,
    check_steps,
    check_policies,
    check_missing_cells,
    check_transform,
    check_model_file,
    check_report,
)


@final
class _Recorder(RunnerOver):
    """The coordinator of a federation, which notes the steps that it is to run."""

    def __init__(self, runner: RoundRunner) -> None:
        self._stand_before(runner)
        self.calls: list[StepCall] = []

    def run_step(self, call: StepCall) -> dict[str, Any]:
        """Note the call, and run it."""
        self.calls.append(call)
        return self._runner.run_step(call)


@final
class _refused:  # noqa: N801 - reads as the sentence that it is
    """Expect an error whose message has certain words."""

    def __init__(self, error: type[Exception], words: str | tuple[str, ...]) -> None:
        self._error = error
        self._words = (words,) if isinstance(words, str) else words

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, raised: Any, trace: Any) -> bool:
        assert raised is not None, f"no {self._error.__name__} about {self._words!r}"
        if not isinstance(raised, self._error):
            return False
        assert any(one in str(raised) for one in self._words), (
            f"{raised} does not say {' or '.join(self._words)}"
        )
        return True


def _frame(X: Any, label: Any) -> pd.DataFrame:
    if isinstance(X, pd.DataFrame):
        return X
    if X is None:
        rng = np.random.default_rng(0)
        kind = np.arange(96) % 3
        X = rng.standard_normal((96, 6)) @ rng.standard_normal((6, 6)) + 2.0
        frame = pd.DataFrame(X + kind[:, None] * np.linspace(0.0, 2.0, 6))
        frame.columns = list("abcdef")
        return frame.assign(kind=kind) if label == "kind" else frame
    X = np.asarray(X, dtype=float)
    return pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])


def _oracle(trial: Trial) -> Mapping[str, Any]:
    X, labels = trial.features, trial.labels
    if isinstance(trial.pooled, BaseEstimator):
        twin = clone(trial.pooled)
        own = set(fitted_names(trial.plain.model))
        if isinstance(trial.y, list):
            twin.fit(X.drop(columns=trial.y), X[trial.y])
        else:
            twin.fit(X, labels)
        shared = own & {n for n in dir(twin) if n.endswith("_") and n[0] != "_"}
        assert shared, "the estimator and its oracle have no attribute in common"
        return {name: getattr(twin, name) for name in shared - set(trial.ignore)}
    return trial.pooled(X.to_numpy(), labels)


def _assert_as_plain(trial: Trial, model: Any, what: str) -> None:
    """Raise where a fit differs from that on the trial's rows under plain sums."""
    reference = trial.plain.model
    names = set(fitted_names(reference))
    differing = sorted(set(fitted_names(model)) ^ names)
    assert not differing, f"{what}, the fit has other attributes: {differing}"
    for name in names - set(trial.ignore):
        found, wanted = vars(model)[name], vars(reference)[name]
        assert _alike(found, wanted, trial.rtol), (
            f"{name} differs {what}: {found!r}, not {wanted!r}."
        )


def _check_unfitted(model: Any) -> None:
    assert fitted_names(model) == [], f"a failed fit left {fitted_names(model)}"
    try:
        check_is_fitted(model)
    except NotFittedError:
        return
    raise AssertionError("a failed fit left a model that counts as fitted")


def _alike(found: Any, wanted: Any, rtol: float, scale: float = 0.0) -> bool:
    """Whether two fitted values agree; numbers relative to the largest beside them."""
    if isinstance(wanted, Mapping):
        return set(found) == set(wanted) and all(
            _alike(found[name], wanted[name], rtol) for name in wanted
        )
    if isinstance(wanted, list | tuple) and any(
        isinstance(one, np.ndarray | Mapping) for one in wanted
    ):
        return len(found) == len(wanted) and all(
            _alike(a, b, rtol) for a, b in zip(found, wanted, strict=True)
        )
    a, b = np.asarray(found), np.asarray(wanted)
    if a.shape != b.shape:
        return False
    if a.dtype.kind not in "fiu" or b.dtype.kind not in "fiu":
        return bool(np.all(a == b)) or found is wanted or repr(found) == repr(wanted)
    finite = np.abs(b[np.isfinite(b)])
    scale = max(scale, float(finite.max()) if finite.size else 0.0)
    return bool(np.allclose(a, b, rtol=rtol, atol=rtol * scale, equal_nan=True))
