"""A study: its file, and the verbs plan, run and resume."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from unpooled.coordinator.coordinator import Coordinator
from unpooled.federation.federation import Federation
from unpooled.federation.planning.plan import Plan
from unpooled.federation.progress import CallProgress
from unpooled.study import run, submit
from unpooled.study.evaluation import with_evaluation
from unpooled.study.pipeline import plan_fit, unfitted_pipeline
from unpooled.study.run import Listener, Run
from unpooled.study.simulated_federation import simulated_federation
from unpooled.study.study_file import StudyFile


@final
@dataclass(frozen=True)
class Study(StudyFile):
    """A study file that can be planned, run and resumed.

    Attributes
    ----------
    path, text, name
        The file, its text, and the study's name.
    partition, columns, exclude, label, ids, aligned, distinct
        What the parties' tables have, as of `unpooled.simulate`.
    secure_sum, random_state, timeout
        How totals are opened, the seed, and seconds that a silo has for a reply.
    parties, steps
        By name and in order: sources and policies, and models with their parameters.
    folder, report
        Where a run is written, and whether it writes a report.
    cv, scoring
        Number of folds that the steps are judged on, and names of scores.
    """

    def federation(self, *, verbose: bool | None = None) -> Federation:
        """Open every party's source in this process; see `unpooled.simulate`.

        Parameters
        ----------
        verbose : bool, optional
            Whether calls on the federation show their rounds, as of `simulate`.
        """
        federation = simulated_federation(self)[0]
        assert isinstance(federation.coordinator, Coordinator)
        CallProgress(federation.coordinator, verbose)
        return federation

    def pipeline(self) -> Any:
        """Return the steps as a scikit-learn Pipeline that is not fitted.

        Steps that give no rows, such as `Heterogeneity`, are left out before the last.
        """
        return unfitted_pipeline(self.steps, self.partition)

    def plan(self, *, kit: str | Path | None = None) -> Plan:
        """Return the plan of a run: its exchanges, and the silos' refusals.

        Nothing is computed from rows, and nothing leaves a silo.

        Parameters
        ----------
        kit : str or Path, optional
            The coordinator's startup kit: plan over the silos of a consortium.

        Returns
        -------
        Plan
            `releases`, `rounds`, `bytes`, `refusals`.
        """
        if kit is not None:
            return submit.plan_over(self, Path(kit))
        federation = self.federation()
        planned = plan_fit(self, self.steps, federation)
        return with_evaluation(self, planned, federation)

    def run(
        self,
        folder: str | Path | None = None,
        *,
        kit: str | Path | None = None,
        listener: Listener | None = None,
        planned: Callable[[Plan], None] | None = None,
        stop: Callable[[], bool] | None = None,
        wait: float = 0.0,
        waiting: Callable[[str, float], None] | None = None,
        follow: bool = False,
        verbose: bool | None = None,
    ) -> Run:
        """Fit every step; write models, ledger, log and report into a folder.

        Parameters
        ----------
        folder : str or Path, optional
            Used in place of the folder that the study file names; it must be empty or
            absent.
        kit : str or Path, optional
            The coordinator's startup kit: run over the silos of a consortium. Without
            it all parties are simulated in this process.
        listener : callable, optional
            Called with (party, step, round) whenever a reply has arrived.
        planned : callable, optional
            Called with the plan before the first request.
        stop : callable, optional
            With a kit, called after Ctrl-C: whether to stop the job. If it returns
            False the job continues at the server. Without it the job is stopped.
        wait : float, default 0.0
            With a kit, seconds to wait for silos that are absent, or where a person has
            to approve the study. The study then goes on by itself.
        waiting : callable, optional
            Called with the reason of each wait, and the seconds that are left.
        follow : bool, default False
            Whether simulated silos follow, as of `unpooled.simulate`. Those of a
            consortium always do.
        verbose : bool, optional
            Whether every fit shows its rounds on standard error, as of
            `unpooled.simulate`: by default in a terminal or notebook, where it takes
            more than two seconds and there is no `listener`. With a kit only the
            listener is called.

        Returns
        -------
        Run
            `models`, `pipeline`, `ledger`, `rounds`, `folder`, `report`, `evaluation`.

        Raises
        ------
        StudyError, DataError
            When the folder or a source is not usable.
        ReleaseRefusedError
            When a silo's rules refuse a step. Rules that do not depend on rows refuse
            before anything leaves.
        """
        if kit is None:
            return run.run(
                self,
                folder,
                listener=listener,
                planned=planned,
                follow=follow,
                verbose=_shown(verbose, listener),
            )
        return submit.run_over(
            self,
            Path(kit),
            folder,
            listener=listener,
            planned=planned,
            stop=stop,
            wait=wait,
            waiting=waiting,
        )

    def resume(
        self,
        folder: str | Path | None = None,
        *,
        kit: str | Path | None = None,
        listener: Listener | None = None,
        planned: Callable[[Plan], None] | None = None,
        stop: Callable[[], bool] | None = None,
        wait: float = 0.0,
        waiting: Callable[[str, float], None] | None = None,
        verbose: bool | None = None,
    ) -> Run:
        """Continue a run that ended before it was complete.

        Finished steps are read from the folder and not requested again. The step that
        was under way begins again; the totals that it had opened stay in the ledger.
        A run that is complete is read and returned.

        Parameters
        ----------
        folder : str or Path, optional
            Used in place of the folder that the study file names.
        kit, listener, planned, stop, wait, waiting, verbose : optional
            As in `run`.
        """
        if kit is None:
            return run.resume(
                self,
                folder,
                listener=listener,
                planned=planned,
                verbose=_shown(verbose, listener),
            )
        return submit.run_over(
            self,
            Path(kit),
            folder,
            resume=True,
            listener=listener,
            planned=planned,
            stop=stop,
            wait=wait,
            waiting=waiting,
        )


def _shown(verbose: bool | None, listener: Listener | None) -> bool | None:
    """Return `verbose`; a caller with a listener shows the rounds itself."""
    return False if verbose is None and listener is not None else verbose
