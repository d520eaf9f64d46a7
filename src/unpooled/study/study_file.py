"""The content of a study file (TOML), read and checked.

[study]               name, partition, columns or exclude, categorical, label, ids,
                      aligned, distinct, secure_sum, random_state, timeout, versions;
                      and what the study says of itself, such as its purpose:
                      `unpooled.report.statement`
[parties.<name>]      source, exclude, missing, plausible, where, unlabelled, block_mb,
                      policy, and the source's separator, decimal, encoding,
                      sheet or rename;
                      none over a consortium
[policy]              rules of the parties that have none of their own
[derived]             for each new column what it is made of: log_chol = "log(chol)"
[[steps]]             model, name, y and the model's parameters; or model and update;
                      on a column partition disclose, select, score; there a table in
                      the transformers of a ColumnTransformer has its own disclose
[evaluate]            cv, scoring, jackknife
[outputs]             folder, report
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar, final

from unpooled.data.expressions import Expression
from unpooled.data.row_filter import FILTER_KEYS, filter_keys
from unpooled.data.sources.database_address import anchored
from unpooled.data.sources.file_format import FORMAT_KEYS, format_keys
from unpooled.data.toml import Section, is_plain, read_text, suggestion
from unpooled.errors import DataError, StudyError
from unpooled.models.base import FederatedEstimator
from unpooled.models.files.catalogue import estimator, estimators, parameter_names
from unpooled.models.files.model_file import load
from unpooled.models.model_selection.scoring import scorers
from unpooled.models.preprocessing.column_transformer import ColumnTransformer
from unpooled.party.rules.policy import Policy
from unpooled.protocol.library_build import library_build
from unpooled.protocol.shared_blocks import MOST_BLOCKS
from unpooled.report.statement import HEADINGS, read_statement

_TABLES = ("study", "parties", "policy", "derived", "steps", "evaluate", "outputs")
_STUDY_KEYS = (
    *"name partition columns exclude categorical label ids aligned distinct".split(),
    *("secure_sum", "random_state", "timeout", "versions"),
    *HEADINGS,
)
_PARTY_KEYS = ("source", "exclude", "missing", "plausible", "block_mb", "policy")
_PARTY_KEYS += (*FORMAT_KEYS, *FILTER_KEYS)
# The name of an evaluation among the results of a run's steps.
EVALUATION = "evaluation"
# All other keys of a step are parameters of its model.
_STEP_KEYS = ("model", "name", "y", "update", "disclose", "select", "score")
_TIMEOUT = 600.0
# Attributes of a Pipeline, which cannot also be names of steps.
_PIPELINE_NAMES = ("steps", "memory", "verbose", "transform_input")

_AnyStudy = TypeVar("_AnyStudy", bound="StudyFile")


@final
@dataclass(frozen=True)
class StudyParty:
    """A party of the study, [parties.<name>]: its source and its rules.

    Attributes
    ----------
    source : str or None
        Path or address of its rows. None over a consortium, where the silo's own file
        names it.
    missing : mapping of str to list of float and str
        For columns, the values that mean a missing cell.
    policy : Policy
        Its rules.
    block_mb : float or None
        Megabytes of rows that are in memory at a time.
    format : mapping
        How the source writes its cells and names: arguments of `open_source`.
    exclude : tuple of str
        Columns of this party's source that are not features.
    plausible : mapping of str to list of float
        For columns, the smallest and largest plausible value.
    rows : mapping of str to str
        Which rows are read: `where` and `unlabelled`, as of `open_source`.
    """

    # Left out of the repr: the address of a database may contain a password.
    source: str | None = field(repr=False)
    missing: Mapping[str, list[float | str]]
    policy: Policy
    block_mb: float | int | None = None
    format: Mapping[str, Any] = field(default_factory=dict)
    exclude: tuple[str, ...] = ()
    plausible: Mapping[str, list[float]] = field(default_factory=dict)
    rows: Mapping[str, Any] = field(default_factory=dict)


@final
@dataclass(frozen=True)
class StudyStep:
    """A step of the study: a model by its class name, with its parameters.

    Attributes
    ----------
    name, model : str
        The step's own name, and the model's class.
    parameters : mapping
        Arguments of the model's constructor.
    y : tuple of str or None
        Columns of the second view, for models of two views.
    update : Path or None
        File of a fitted model to update, in place of a new fit.
    disclose : tuple of str
        Attributes that silos keep, which they are to disclose.
    disclose_of_parts : tuple of (int, tuple of str)
        The same of the parts of a ColumnTransformer, with their places from 0.
    select : float or None
        Percentage of each silo's columns that the model is to select.
    score : bool
        Whether the rows that were fitted are classified, and the right answers counted.
    scores : bool
        Whether the silos are to keep scores of the rows that were fitted.
    """

    name: str
    model: str
    parameters: Mapping[str, Any]
    y: tuple[str, ...] | None = None
    update: Path | None = None
    disclose: tuple[str, ...] = ()
    disclose_of_parts: tuple[tuple[int, tuple[str, ...]], ...] = ()
    select: float | None = None
    score: bool = False
    scores: bool = False

    def kind(self) -> type[FederatedEstimator]:
        """Return the model's class."""
        kind = estimator(self.model)
        assert kind is not None  # `read_steps` refuses other names
        return kind

    def estimator(self) -> FederatedEstimator:
        """Return a new estimator, or the fitted model that the step updates.

        Raises
        ------
        StudyError
            When the model file is missing, or holds a model of another class.
        """
        if self.update is None:
            return self.kind()(**self.parameters)
        model = load(self.update)
        if (actual := type(model).__name__) != self.model:
            raise StudyError(
                f"{self.update} holds a {actual}, and step {self.name} updates a "
                f"{self.model}. A run has each step's own file in its folder models/."
            )
        return model


@dataclass(frozen=True)
class StudyFile:
    """A parsed study file: parties, policies, steps and outputs.

    Attributes
    ----------
    path : Path
        The file.
    text : str
        Its text, as it was read.
    name : str
        The study's name, in every request and ledger line.
    partition : {"rows", "columns"}
        Whether the parties' tables have the same columns or the same rows.
    columns : tuple of str or None
        The columns studied; None for all but `exclude`, which must then be the same at
        every party.
    exclude : tuple of str
        Columns of the parties' tables that are not studied.
    categorical : tuple of str
        Columns of categories at every party. Over a consortium each silo's own file
        names them too.
    label, ids : str or None
        Columns that are never features. On a column partition rows are matched by the
        ids.
    aligned : bool
        Whether the parties' tables already have the same ids in the same order.
    distinct : bool
        Whether simulated parties with the same rows are an error.
    secure_sum : {"masked", "plain"}
        The protocol by which totals are opened.
    random_state : int or None
        Seed for methods that draw starting values.
    timeout : float
        Seconds that a silo of a consortium has for a reply.
    parties : mapping of str to StudyParty
        By name, in order.
    steps : tuple of StudyStep
        In order; each is fitted on the rows as the steps before it transform them.
    folder : Path
        Where a run is written.
    report : bool
        Whether a run writes its report.
    cv : int
        Number of folds that the steps are judged on, [evaluate]; 0 where they are not.
    scoring : str, tuple of str or None
        Names of the scores; None: the last step's own.
    n_blocks : int
        Number of blocks of a jackknife of the last step, [evaluate] jackknife; 0 for
        none.
    statement : mapping of str to str
        Purpose, controllers, contact, legal basis and retention, by heading, as far as
        they are given.
    versions : tuple of str
        Builds of the library that silos may have, beside that of the coordinator's end.
    """

    path: Path
    text: str = field(repr=False)
    name: str
    partition: str
    columns: tuple[str, ...] | None
    exclude: tuple[str, ...]
    categorical: tuple[str, ...]
    label: str | None
    ids: str | None
    aligned: bool
    distinct: bool
    secure_sum: str
    random_state: int | None
    timeout: float
    parties: Mapping[str, StudyParty]
    steps: tuple[StudyStep, ...]
    folder: Path
    report: bool
    cv: int = 0
    scoring: str | tuple[str, ...] | None = None
    n_blocks: int = 0
    statement: Mapping[str, str] = field(default_factory=dict)
    versions: tuple[str, ...] = ()

    @property
    def evaluates(self) -> bool:
        """Whether [evaluate] asks for fits on some of the rows."""
        return bool(self.cv or self.n_blocks)

    @classmethod
    def from_file(cls: type[_AnyStudy], path: str | Path) -> _AnyStudy:
        """Read a study file.

        Parameters
        ----------
        path : str or Path
            A TOML file; relative paths in it start at its folder.

        Raises
        ------
        StudyError
            When the file cannot be read, a key is missing, or a key or a value is not
            known; the message names the file and the key.
        """
        path = Path(path).expanduser()
        return cls.from_text(path, read_text(path))

    @classmethod
    def from_text(cls: type[_AnyStudy], path: Path, text: str) -> _AnyStudy:
        """Read the text of a study file; relative paths start at the folder of `path`.

        There need not be a file at `path`.
        """
        top = Section.from_text(path.name, text)
        top.only(_TABLES, "table")
        head, outputs = top.section("study"), top.section("outputs", {})
        head.only(_STUDY_KEYS)
        outputs.only(("folder", "report"))
        name = head.name("name")
        partition = partition_of(head)
        columns, exclude = head.names("columns"), head.names("exclude") or ()
        for key in ("columns", "exclude"):
            if key in head and partition == "columns":
                head.fail(key, "names columns that every silo has; on a column "
                          "partition each has its own, so leave it out, and name in "
                          "[parties.<name>] exclude what is not studied")  # fmt: skip
        if columns and exclude:
            head.fail("exclude", "leaves out columns where all others are studied; "
                      "beside columns leave it out")  # fmt: skip
        folder = Path(outputs.text("folder") or f"runs/{name}").expanduser()
        steps = read_steps(top, path.parent)
        cv, scoring, n_blocks = read_evaluate(top, steps)
        return cls(
            path=path,
            text=text,
            name=name,
            partition=partition,
            columns=columns,
            exclude=exclude,
            categorical=head.names("categorical") or (),
            label=head.text("label"),
            ids=head.text("ids"),
            aligned=head.flag("aligned", False),
            distinct=head.flag("distinct", False),
            secure_sum=protection_of(head),
            random_state=head.whole("random_state"),
            timeout=_timeout(head),
            parties=_read_parties(top, path.parent),
            steps=steps,
            folder=path.parent / folder,
            report=outputs.flag("report", True),
            cv=cv,
            scoring=scoring,
            n_blocks=n_blocks,
            statement=read_statement(head),
            versions=_builds(head),
        )


def partition_of(head: Section) -> str:
    """Return the partition that the table [study] declares."""
    return head.text("partition", choices=("rows", "columns")) or "rows"


def protection_of(head: Section) -> str:
    """Return how totals travel, of the table [study]."""
    return head.text("secure_sum", choices=("masked", "plain")) or "masked"


def _builds(head: Section) -> tuple[str, ...]:
    builds = head.names("versions") or ()
    for build in builds:
        if "+" not in build:
            head.fail(
                "versions",
                f'"{build}" is not a build of the library, such as '
                f'"{library_build()}"; `unpooled silo check` shows that of a silo',
            )
    return builds


def _timeout(head: Section) -> float:
    seconds = head.number("timeout")
    if seconds is None:
        return _TIMEOUT
    if not 1.0 <= seconds <= 86400.0:
        head.fail("timeout", f"must be from 1 to 86400 seconds, not {seconds}")
    return float(seconds)


def _read_parties(top: Section, folder: Path) -> dict[str, StudyParty]:
    """Read [parties] and [policy]; relative paths start at `folder`."""
    if isinstance(top.content.get("parties"), list):
        top.fail("[[parties]]", "write a table for each, [parties.<name>]")
    tables = top.section("parties")
    shared = _read_policy(top.section("policy", {}))
    parties: dict[str, StudyParty] = {}
    for name in tables:
        # A name becomes a file's name; on some systems two that differ in case only
        # would be the same file.
        tables.check_name(name, name)
        if name.casefold() in map(str.casefold, parties):
            tables.fail(name, "differs from another party's name in case only")
        if isinstance(tables.content[name], str):
            # The short form: u = "u.csv" in [parties].
            tables.content[name] = {"source": tables.text(name)}
        table = tables.section(name)
        table.only(_PARTY_KEYS)
        source = table.text("source")
        parties[name] = StudyParty(
            source=None if source is None else anchored(source, folder),
            missing=table.codes("missing"),
            policy=_policy_of(table, folder, shared),
            block_mb=table.number("block_mb"),
            format=format_keys(table),
            exclude=table.names("exclude") or (),
            plausible=table.ranges("plausible"),
            rows=filter_keys(table),
        )
    if not parties:
        tables.fail("", "needs at least one party, [parties.<name>] with a source")
    return parties


def _policy_of(party: Section, folder: Path, shared: Policy) -> Policy:
    """Return a party's policy: from its own file or table, or the shared one."""
    value = party.content.get("policy")
    if value is None:
        return shared
    if not isinstance(value, str):
        return _read_policy(party.section("policy"))
    path = folder / Path(value).expanduser()
    try:
        text = read_text(path)
    except StudyError as wrong:
        party.fail("policy", str(wrong).rstrip("."))
    top = Section.from_text(path.name, text)
    if "policy" in top:
        top.only(("policy",), "table")
        top = top.section("policy")
    return _read_policy(top)


def _read_policy(section: Section) -> Policy:
    section.only(tuple(Policy.__dataclass_fields__))
    for key in section:
        default = getattr(Policy(), key)
        if (key, section.content[key]) == ("allow_row_level", "parties"):
            continue
        if isinstance(default, bool):
            section.flag(key, default)
        elif isinstance(default, int):
            section.whole(key)
        elif isinstance(default, float):
            section.number(key)
        else:
            section.names(key, empty=True)
    return Policy.of(section.content)


def read_steps(top: Section, folder: Path = Path()) -> tuple[StudyStep, ...]:
    """Read [[steps]]: models of this library, with parameters that they have.

    Relative paths of models to update start at `folder`.
    """
    by_columns = top.section("study", {}).content.get("partition") == "columns"
    tables = top.content.get("steps")
    if isinstance(tables, dict):
        top.fail("[steps]", "is one table; write [[steps]] with two brackets, once for "
                 "each step")  # fmt: skip
    if not isinstance(tables, list) or not tables:
        top.fail("[[steps]]", 'needs at least one table with a key model = "..."')
    steps = _derived_step(top)
    for number, table in enumerate(tables, 1):
        section = Section(top.file, f"steps {number}", table)
        kind = _read_model(section)
        parameters = {k: v for k, v in table.items() if k not in _STEP_KEYS}
        asked = ()
        if kind is ColumnTransformer:
            parameters, asked = _read_parts(section, parameters, by_columns)
        inner = Section(top.file, section.title, parameters)
        inner.only(parameter_names(kind), f"parameter of {kind.__name__}")
        for key, value in parameters.items():
            if not is_plain(value):
                section.fail(key, "must be a number, a text, true, false or a list")
        steps.append(
            StudyStep(
                name=section.name("name") if "name" in section else "",
                model=kind.__name__,
                parameters=parameters,
                y=section.names("y", one=True),
                update=_read_update(section, kind, folder),
                disclose=_read_disclose(section, kind, by_columns),
                disclose_of_parts=asked,
                select=_read_select(section, kind, by_columns),
                score=_read_score(section, kind, by_columns),
                scores=by_columns and kind.forms_scores(parameters),
            )
        )
    return _named(top, steps)


def _derived_step(top: Section) -> list[StudyStep]:
    """Return the step that [derived] stands for, before all others; none without it."""
    if "derived" not in top:
        return []
    section = top.section("derived")
    if not section.content:
        section.fail("", 'needs at least one column, such as log_a = "log(a)"')
    for name, text in section.content.items():
        try:
            Expression.of(text)
        except DataError as wrong:
            section.fail(name, str(wrong).rstrip("."))
    parameters = {"columns": dict(section.content)}
    return [StudyStep(name="", model="DerivedColumns", parameters=parameters)]


def read_evaluate(
    top: Section, steps: Sequence[StudyStep]
) -> tuple[int, str | tuple[str, ...] | None, int]:
    """Read [evaluate]: number of folds, names of scores, and blocks of a jackknife.

    Without the table there are no folds and no blocks.
    """
    if "evaluate" not in top:
        return 0, None, 0
    section = top.section("evaluate")
    section.only(("cv", "scoring", "jackknife"))
    if partition_of(top.section("study")) == "columns":
        if not steps[-1].kind()._scored_by_columns:
            top.fail("[evaluate]", f"on a column partition LinearRegression, Ridge and "
                     f"MMVFL are judged on folds, not {steps[-1].model}")  # fmt: skip
        if "jackknife" in section:
            section.fail("jackknife", "is of a partition by rows only")
    if any(step.name == EVALUATION for step in steps):
        top.fail("[[steps]] name", f'"{EVALUATION}" names the results of [evaluate]')
    if any(step.update is not None for step in steps):
        top.fail("[evaluate]", "an update starts from a model that was fitted on all "
                 "rows, so no fold is new to it; leave one of both out")  # fmt: skip
    if steps and n_on_all_rows(steps) == len(steps):
        top.fail("[evaluate]", f"{steps[-1].model} is fitted on all rows, and no step "
                 f"behind it is left to judge; leave [evaluate] out")  # fmt: skip
    cv = 5 if (given := section.whole("cv")) is None else given
    n_blocks = section.whole("jackknife") or 0
    if not (2 <= cv <= MOST_BLOCKS or (cv == 0 and n_blocks)):
        section.fail("cv", f"must be from 2 to {MOST_BLOCKS} folds, not {cv}; or 0 "
                     f"beside jackknife")  # fmt: skip
    if "jackknife" in section and not 2 <= n_blocks <= MOST_BLOCKS:
        section.fail("jackknife", f"must be from 2 to {MOST_BLOCKS} blocks, not "
                     f"{n_blocks}")  # fmt: skip
    names = section.content.get("scoring")
    several = isinstance(names, list)
    wanted = section.names("scoring") if several else section.text("scoring")
    try:
        scorers(wanted)
    except DataError as unknown:
        section.fail("scoring", str(unknown).rstrip("."))
    return cv, wanted, n_blocks


def n_on_all_rows(steps: Sequence[StudyStep]) -> int:
    """Return how many first steps are fitted on all rows, and not within folds.

    Up to the last that fills cells from others: in a fold few rows may lack the same
    cells, so that silos refuse it there (`imputed_parts`).
    """
    places = (i for i, step in enumerate(steps, 1) if step.kind().on_all_rows)
    return max(places, default=0)


def _read_model(section: Section) -> type[FederatedEstimator]:
    if "model" not in section:
        known = ", ".join(estimators())
        section.fail("model", f"this key is missing; it takes {known}")
    model = section.required("model")
    kind = estimator(model)
    if kind is None or not kind.is_model:
        known = estimators()
        section.fail("model", f'"{model}" is unknown. {suggestion(model, known)}Known '
                     f"are {', '.join(known)}")  # fmt: skip
    return kind


def _those_with(method: str) -> str:
    """Return the names of the estimators that have a method."""
    able = [name for name, kind in estimators().items() if hasattr(kind, method)]
    return ", ".join(able)


def _read_update(
    section: Section, kind: type[FederatedEstimator], folder: Path
) -> Path | None:
    file = section.text("update")
    if file is None:
        return None
    if not hasattr(kind, "update"):
        section.fail("update", f"a {kind.__name__} cannot be updated; models that can "
                     f"are {_those_with('update')}")  # fmt: skip
    for key in section:
        if key not in ("model", "name", "update"):
            section.fail(key, "an update keeps the parameters of the fitted model; "
                         "leave it out, or leave out update for a new fit")  # fmt: skip
    return folder / Path(file).expanduser()


def _read_parts(
    section: Section, parameters: Mapping[str, Any], by_columns: bool
) -> tuple[dict[str, Any], tuple[tuple[int, tuple[str, ...]], ...]]:
    """Return parameters of a ColumnTransformer, and what is asked of its parts.

    The `disclose` of a part is of the study, and no parameter.
    """
    tables, found = parameters.get("transformers"), []
    if not isinstance(tables, list):
        return dict(parameters), ()
    kept = list(tables)
    for place, table in enumerate(tables):
        if not isinstance(table, dict) or "disclose" not in table:
            continue
        part = Section(section.file, f"{section.title} transformers {place + 1}", table)
        kind = estimator(part.required("model"))
        if kind is None:
            part.fail("disclose", "is of a model that silos fit; leave it out")
        if names := _read_disclose(part, kind, by_columns):
            found.append((place, names))
        kept[place] = {k: v for k, v in table.items() if k != "disclose"}
    return {**parameters, "transformers": kept}, tuple(found)


def _read_disclose(
    section: Section, kind: type[FederatedEstimator], by_columns: bool
) -> tuple[str, ...]:
    names = section.names("disclose") or ()
    if names and not by_columns:
        section.fail("disclose", "silos keep attributes on a column partition only; on "
                     "rows all are in the results. Leave it out")  # fmt: skip
    for name in names:
        if name not in kind.kept_by_silos():
            known = kind.kept_by_silos()
            what = f"keep {', '.join(known)}" if known else "keep no attributes"
            if kind is ColumnTransformer:
                what += "; write disclose into the tables of its transformers"
            section.fail("disclose", f'"{name}" is not kept by silos. '
                         f"{suggestion(name, known)}Of {kind.__name__} they "
                         f"{what}")  # fmt: skip
    return names


def _read_select(
    section: Section, kind: type[FederatedEstimator], by_columns: bool
) -> float | None:
    percent = section.number("select")
    if percent is None:
        return None
    if not (by_columns and hasattr(kind, "select")):
        section.fail("select", f"columns are selected on a column partition, by "
                     f"{_those_with('select')}; leave it out")  # fmt: skip
    if not 0.0 < percent <= 100.0:
        section.fail("select", f"is a percentage of each silo's columns, above 0 and "
                     f"at most 100, not {percent}")  # fmt: skip
    return float(percent)


def _read_score(
    section: Section, kind: type[FederatedEstimator], by_columns: bool
) -> bool:
    wanted = section.flag("score", False)
    if wanted and not (by_columns and hasattr(kind, "class_hits")):
        section.fail("score", "is of MMVFL, on a column partition; others are judged "
                     "on rows that were not fitted, by [evaluate]")  # fmt: skip
    return wanted


def _named(top: Section, steps: list[StudyStep]) -> tuple[StudyStep, ...]:
    """Return the steps, those without a name named as `make_pipeline` does."""
    unnamed = [step.model.lower() for step in steps if not step.name]
    counts: dict[str, int] = {}
    named = []
    for step in steps:
        name, model = step.name, step.model.lower()
        if not name:
            counts[model] = counts.get(model, 0) + 1
            several = unnamed.count(model) > 1
            name = f"{model}-{counts[model]}" if several else model
        if "__" in name or name in _PIPELINE_NAMES:
            top.fail("[[steps]] name", f'"{name}" cannot name a step of a Pipeline')
        named.append(replace(step, name=name))
    names = [step.name for step in named]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        top.fail("[[steps]] name", f"{', '.join(twice)} names more than one step")
    return tuple(named)


def target_of(steps: Sequence[StudyStep], label: str | None) -> Any:
    """Return the target of a fit of all steps: the last one's `y`, or the label."""
    targets = [list(step.y) for step in steps if step.y]
    return targets[-1] if targets else label
