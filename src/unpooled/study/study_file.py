"""A study file and what it holds.

[study]               name, partition, columns, label, ids, aligned, secure_sum,
                      random_state, timeout
[parties.<name>]      source, missing, block_mb, policy; none where silos have theirs
[policy]              rules of the parties that bring none of their own
[[steps]]             model, name, and the model's own parameters; or update
[outputs]             folder, report
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar, final

from unpooled.data.sources.database_address import anchored
from unpooled.data.toml import Section, is_plain, read_text, suggestion
from unpooled.errors import StudyError
from unpooled.models.base import FederatedEstimator
from unpooled.models.files.catalogue import estimators, parameter_names
from unpooled.models.files.model_file import load
from unpooled.party.rules.policy import Policy

_HEAD = tuple(
    "name partition columns label ids aligned secure_sum random_state timeout".split()
)
TIMEOUT = 600.0
_AnyStudy = TypeVar("_AnyStudy", bound="StudyFile")


@final
@dataclass(frozen=True)
class StudyParty:
    """A party of the study: where its rows are, and its rules.

    `source` is None where the silo knows: in a study over a consortium.
    """

    # Not shown: the address of a database may hold a password.
    source: str | None = field(repr=False)
    missing: Mapping[str, list[float]]
    policy: Policy
    block_mb: float | int | None = None


@final
@dataclass(frozen=True)
class StudyStep:
    """A step of the study: a model by its class name, with its parameters.

    Attributes
    ----------
    name, model : str
        The step's own name, and the model's class.
    parameters : mapping
        Of the model's constructor.
    y : tuple of str or None
        Columns of the second view, for models of two views.
    update : Path or None
        File of a fitted model that is brought up to date, instead of fitting anew.
    """

    name: str
    model: str
    parameters: Mapping[str, Any]
    y: tuple[str, ...] | None = None
    update: Path | None = None

    def estimator(self) -> FederatedEstimator:
        """Return a new estimator, or the fitted one that the step updates.

        Raises
        ------
        StudyError
            When there is no file of such a model.
        """
        if self.update is None:
            return estimators()[self.model](**self.parameters)
        model = load(self.update)
        if (found := type(model).__name__) != self.model:
            raise StudyError(
                f"{self.update} holds a {found}, and step {self.name} updates a "
                f"{self.model}. A run has each step's own file in its folder models/."
            )
        return model


@dataclass(frozen=True)
class StudyFile:
    """What is asked of whom: the content of a study file.

    Attributes
    ----------
    path : Path
        The file.
    text : str
        Its text, as it was read.
    name : str
        The study's name, in every request and ledger line.
    partition : {"rows", "columns"}
        How the parties' tables relate.
    columns : tuple of str or None
        The only columns studied; None for all that every silo has.
    label, ids : str or None
        Columns that travel along and are never features. On a column partition rows
        are matched by the ids.
    aligned : bool
        That the parties' tables have the same ids in the same order already.
    secure_sum : {"masked", "plain"}
        How totals travel.
    random_state : int or None
        Seed for methods that draw starting values.
    timeout : float
        Seconds that a silo has for a round between organisations.
    parties : mapping of str to StudyParty
        By party.
    steps : tuple of StudyStep
        In order; each works on what the ones before it make of the rows.
    folder : Path
        Where a run is written.
    report : bool
        Whether a run writes its report.
    """

    path: Path
    text: str = field(repr=False)
    name: str
    partition: str
    columns: tuple[str, ...] | None
    label: str | None
    ids: str | None
    aligned: bool
    secure_sum: str
    random_state: int | None
    timeout: float
    parties: Mapping[str, StudyParty]
    steps: tuple[StudyStep, ...]
    folder: Path
    report: bool

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
            When the file cannot be read, lacks a key or has one that is not known; the
            message names file and key.
        """
        path = Path(path).expanduser()
        return cls.from_text(path, read_text(path))

    @classmethod
    def from_text(cls: type[_AnyStudy], path: Path, text: str) -> _AnyStudy:
        """Read the text of a study file; `path` is where it stands, or stood."""
        top = Section.from_text(path.name, text)
        top.only(("study", "parties", "policy", "steps", "outputs"), "table")
        head, outputs = top.section("study"), top.section("outputs", {})
        head.only(_HEAD)
        outputs.only(("folder", "report"))
        name = head.name("name")
        partition = head.text("partition", choices=("rows", "columns")) or "rows"
        columns = head.names("columns")
        if columns and partition == "columns":
            head.fail("columns", "names columns that every silo has; on a column "
                      "partition each has its own, so leave it out")  # fmt: skip
        folder = Path(outputs.text("folder") or f"runs/{name}").expanduser()
        return cls(
            path=path,
            text=text,
            name=name,
            partition=partition,
            columns=columns,
            label=head.text("label"),
            ids=head.text("ids"),
            aligned=head.flag("aligned", False),
            secure_sum=head.text("secure_sum", choices=("masked", "plain")) or "masked",
            random_state=head.whole("random_state"),
            timeout=_seconds(head),
            parties=_read_parties(top, path.parent),
            steps=read_steps(top, path.parent),
            folder=path.parent / folder,
            report=outputs.flag("report", True),
        )


def _seconds(head: Section) -> float:
    seconds = head.number("timeout")
    if seconds is None:
        return TIMEOUT
    if not 1.0 <= seconds <= 86400.0:
        head.fail("timeout", f"must be from 1 to 86400 seconds, not {seconds}")
    return float(seconds)


def _read_parties(top: Section, folder: Path) -> dict[str, StudyParty]:
    """Read [parties] and [policy]; relative paths start at `folder`."""
    if isinstance(top.content.get("parties"), list):
        top.fail("[[parties]]", "write a table for each, [parties.<name>]")
    parties = top.section("parties")
    shared = _policy(top.section("policy", {}))
    silos = {}
    for party in parties:
        # Names become names of files; two that differ in case alone would be one.
        parties.check_name(party, party)
        if party.casefold() in map(str.casefold, silos):
            parties.fail(party, "differs from another party's name in case only")
        if isinstance(parties.content[party], str):
            # The short form: u = "u.csv" within [parties].
            parties.content[party] = {"source": parties.text(party)}
        own = parties.section(party)
        own.only(("source", "missing", "block_mb", "policy"))
        source = own.text("source")
        if source is not None:
            source = anchored(source, folder)
        silos[party] = StudyParty(
            source,
            own.codes("missing"),
            _own_policy(own, folder, shared),
            own.number("block_mb"),
        )
    if not silos:
        parties.fail("", "needs at least one party, [parties.<name>] with a source")
    return silos


def _own_policy(own: Section, folder: Path, shared: Policy) -> Policy:
    value = own.content.get("policy")
    if value is None:
        return shared
    if not isinstance(value, str):
        return _policy(own.section("policy"))
    path = folder / Path(value).expanduser()
    try:
        text = read_text(path)
    except StudyError as wrong:
        own.fail("policy", str(wrong).rstrip("."))
    top = Section.from_text(path.name, text)
    if "policy" in top:
        top.only(("policy",), "table")
        top = top.section("policy")
    return _policy(top)


def _policy(section: Section) -> Policy:
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
    """Read [[steps]]: models that are installed, with parameters that they have.

    Relative paths of models to update start at `folder`.
    """
    tables = top.content.get("steps")
    if not isinstance(tables, list) or not tables:
        top.fail("[[steps]]", 'needs at least one table with a key model = "..."')
    known = estimators()
    steps: list[StudyStep] = []
    for number, table in enumerate(tables, 1):
        section = Section(top.file, f"steps {number}", table)
        if "model" not in section:
            section.fail("model", f"this key is missing; it takes {', '.join(known)}")
        model = section.required("model")
        if model not in known:
            hint = suggestion(model, known)
            section.fail("model", f'"{model}" is unknown. {hint}Known are '
                         f"{', '.join(known)}")  # fmt: skip
        own = ("model", "name", "y", "update")
        parameters = {k: v for k, v in table.items() if k not in own}
        inner = Section(top.file, section.title, parameters)
        inner.only(parameter_names(known[model]), f"parameter of {model}")
        for key, value in parameters.items():
            if not is_plain(value):
                section.fail(key, "must be a number, a text, true, false or a list")
        name = section.name("name") if "name" in section else ""
        y, update = section.names("y"), _read_update(section, model, folder)
        steps.append(StudyStep(name, model, parameters, y, update))
    return _named(top, steps)


def _read_update(section: Section, model: str, folder: Path) -> Path | None:
    file = section.text("update")
    if file is None:
        return None
    known = estimators()
    if not hasattr(known[model], "update"):
        able = [name for name, kind in known.items() if hasattr(kind, "update")]
        section.fail("update", f"a {model} cannot be brought up to date; known to be "
                     f"able are {', '.join(able)}")  # fmt: skip
    for key in section:
        if key not in ("model", "name", "update"):
            section.fail(key, "an update keeps what the model was fitted with; leave "
                         "it out, or leave out update to fit anew")  # fmt: skip
    return folder / Path(file).expanduser()


def target_of(steps: Sequence[StudyStep], label: str | None) -> Any:
    """Return what all steps are fitted to: the last one's `y`, or the label."""
    named = [list(step.y) for step in steps if step.y]
    return named[-1] if named else label


def _named(top: Section, steps: list[StudyStep]) -> tuple[StudyStep, ...]:
    """Name steps as `make_pipeline` does where the file does not."""
    lower = [step.model.lower() for step in steps if not step.name]
    counts: dict[str, int] = {}
    named = []
    for step in steps:
        name, base = step.name, step.model.lower()
        if not name:
            counts[base] = counts.get(base, 0) + 1
            name = f"{base}-{counts[base]}" if lower.count(base) > 1 else base
        if "__" in name or name in ("steps", "memory", "verbose", "transform_input"):
            top.fail("[[steps]] name", f'"{name}" cannot name a step of a Pipeline')
        named.append(replace(step, name=name))
    names = [step.name for step in named]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        top.fail("[[steps]] name", f"{', '.join(twice)} names more than one step")
    return tuple(named)
