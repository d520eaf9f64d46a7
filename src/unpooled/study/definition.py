"""What a study file says.

[study]               name, partition, columns, label, ids, aligned, secure_sum,
                      random_state, timeout
[parties.<name>]      source, missing, block_mb, policy; none where silos have theirs
[policy]              rules of the parties that bring none of their own
[[steps]]             model, name, and the model's own parameters; or update
[outputs]             folder, report
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from unpooled.data.toml import Section, read_text
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.federation.planning.dry_run import plan
from unpooled.federation.planning.plan import Plan
from unpooled.study.model_updates import part_of
from unpooled.study.study_sections import (
    Silo,
    StudyStep,
    read_silos,
    read_steps,
    target_of,
)

if TYPE_CHECKING:
    from unpooled.study.run import Run

Listener = Callable[[str, str, int], None]


_HEAD = tuple(
    "name partition columns label ids aligned secure_sum random_state timeout".split()
)
TIMEOUT = 600.0


@final
@dataclass(frozen=True)
class Study:
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
    silos : mapping of str to Silo
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
    silos: Mapping[str, Silo]
    steps: tuple[StudyStep, ...]
    folder: Path
    report: bool

    @classmethod
    def from_file(cls, path: str | Path) -> "Study":
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
    def from_text(cls, path: Path, text: str) -> "Study":
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
            silos=read_silos(top, path.parent),
            steps=read_steps(top, path.parent),
            folder=path.parent / folder,
            report=outputs.flag("report", True),
        )

    def federation(self) -> Federation:
        """Open every party's source in this process; see `unpooled.simulate`."""
        from unpooled.study.simulated_federation import assembled

        return assembled(self)[0]

    def pipeline(self) -> Any:
        """Return the steps as a scikit-learn Pipeline, not fitted."""
        return pipeline_of((step.name, part_of(step)) for step in self.steps)

    def plan(self, *, kit: str | Path | None = None) -> Plan:
        """Tell what a run would exchange, and which silo would refuse, and run nothing.

        Parameters
        ----------
        kit : str or Path, optional
            The coordinator's startup kit: ask the silos of a consortium.

        Returns
        -------
        Plan
            `releases`, `rounds`, `bytes`, `refusals`.
        """
        if kit is not None:
            from unpooled.study.submit import plan_over

            return plan_over(self, Path(kit))
        return self.plan_of(self.pipeline(), self.federation())

    def plan_of(self, model: Any, federation: Federation) -> Plan:
        """Tell what fitting a model, in this study, on a federation would exchange."""
        try:
            return plan(model, federation, target_of(self.steps, self.label))
        except DataError as wrong:
            raise DataError(f"{self.path.name}, [[steps]]: {wrong}") from wrong

    def run(
        self,
        folder: str | Path | None = None,
        *,
        kit: str | Path | None = None,
        listener: Listener | None = None,
        planned: Callable[[Plan], None] | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> "Run":
        """Fit every step, and write models, ledger, log and report into a folder.

        Parameters
        ----------
        folder : str or Path, optional
            In place of the file's own; it must be empty or absent.
        kit : str or Path, optional
            The coordinator's startup kit: run over the silos of a consortium. Without
            it every party lives in this process.
        listener : callable, optional
            Called with (party, step, round) whenever a reply has arrived.
        planned : callable, optional
            Called with the plan before anything is asked.
        stop : callable, optional
            With a kit, asked after Ctrl-C whether to stop the job, which otherwise goes
            on at the server; without it the job is stopped.

        Returns
        -------
        Run
            `models`, `pipeline`, `ledger`, `rounds`, `folder`, `report`.

        Raises
        ------
        StudyError, DataError
            When the folder or a source is not what it should be.
        ReleaseRefusedError
            When a silo's rules refuse a step; known before anything leaves where the
            rule needs no rows.
        """
        if kit is not None:
            from unpooled.study.submit import run_over

            return run_over(self, Path(kit), folder, listener, planned, stop)
        from unpooled.study.run import run

        return run(self, folder, listener, planned)

    def resume(
        self,
        folder: str | Path | None = None,
        *,
        kit: str | Path | None = None,
        listener: Listener | None = None,
        planned: Callable[[Plan], None] | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> "Run":
        """Continue a run that ended before it was done.

        Finished steps are read from the folder and not asked for again. The step that
        was under way is asked again from its start; every total that was opened before
        stands in the ledger. A run that is done is read and returned as it is.

        Parameters
        ----------
        folder : str or Path, optional
            In place of the file's own.
        kit, listener, planned, stop : optional
            As of `run`.
        """
        if kit is not None:
            from unpooled.study.submit import resume_over

            return resume_over(self, Path(kit), folder, listener, planned, stop)
        from unpooled.study.run import resume

        return resume(self, folder, listener, planned)


def _seconds(head: Section) -> float:
    seconds = head.number("timeout")
    if seconds is None:
        return TIMEOUT
    if not 1.0 <= seconds <= 86400.0:
        head.fail("timeout", f"must be from 1 to 86400 seconds, not {seconds}")
    return float(seconds)


def pipeline_of(models: Iterable[tuple[str, Any]]) -> Any:
    """Return named models as a scikit-learn Pipeline."""
    from sklearn.pipeline import Pipeline

    return Pipeline(list(models))
