"""The progress of a call in Python: a bar where a person looks on, or lines.

    simulate(..., verbose=None)   a bar in a terminal, or in a notebook that has
                                  ipywidgets, after two seconds; in another notebook a
                                  line every ten seconds
    simulate(..., verbose=True)   a bar there, lines elsewhere, and the rounds to come
    simulate(..., verbose=False)  nothing

Whatever the estimator, the rounds are counted where the replies come in.
"""

import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, final

from unpooled.coordinator.coordinator import Coordinator
from unpooled.errors import UnpooledError
from unpooled.federation.federation import Federation
from unpooled.federation.planning.dry_run import rounds_to_come

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

# A shorter call needs no bar; lines are rarer, since they stay.
_PATIENCE = 2.0
_BETWEEN_LINES = 10.0


@final
class CallProgress:
    """Watches the calls of estimators on one coordinator.

    Parameters
    ----------
    coordinator : Coordinator
        Runs the rounds.
    verbose : bool or None
        As of `unpooled.simulate`.
    console : Console, optional
        Where to write; by default standard error, or the notebook.
    clock : callable, optional
        Seconds.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        verbose: bool | None,
        console: "Console | None" = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if verbose is False or not (verbose or console or _is_looked_at()):
            return
        # Only here: a script without a terminal need not load it.
        from rich.console import Console

        self._console = console or Console(stderr=True)
        # Without ipywidgets, rich shows a warning in a notebook for each step of a bar.
        widgets = self._console.is_jupyter and find_spec("ipywidgets") is not None
        self._looked_at = self._console.is_terminal or widgets
        self._verbose, self._clock, self._depth = verbose, clock, 0
        self._bar: Progress | None = None
        self._title, self._total = "", 0
        self._rounds, self._began, self._said = set[int](), 0.0, 0.0
        looked_at = self._looked_at or self._console.is_jupyter
        if verbose or (verbose is None and looked_at):
            coordinator.watchers.append(self.watch)
            coordinator.listeners.append(self.heard)

    @contextmanager
    def watch(
        self,
        model: Any,
        method: str,
        federation: Federation,
        arguments: Mapping[str, Any],
    ) -> Iterator[None]:
        """Show the rounds of a call, from its first to its last."""
        if self._depth:
            yield
            return
        self._depth, self._began = 1, self._clock()
        self._said = self._began
        self._title, self._rounds = f"{type(model).__name__}.{method}", set()
        self._announce(model, method, federation, arguments)
        try:
            yield
            self._end("done")
        except BaseException:
            self._end("stopped")
            raise
        finally:
            self._depth = 0

    def heard(self, party: str, step: str, number: int) -> None:
        """Count a round, once the first of its replies has come."""
        if not self._depth or "." not in step:
            return
        self._rounds.add(number)
        now = self._clock()
        if self._looked_at:
            if self._bar is None and (self._verbose or now - self._began > _PATIENCE):
                self._bar = _bar(self._console)
                self._bar.add_task(
                    self._title, total=self._total or None, step="", rounds=""
                )
                self._bar.start()
            if self._bar is not None:
                # A plan has the most rounds that there can be.
                of = f" of at most {self._total}" if self._total else ""
                rounds = f"{len(self._rounds)}{of} rounds"
                fields: dict[str, Any] = {"completed": len(self._rounds), "step": step}
                fields["rounds"] = rounds
                self._bar.update(self._bar.task_ids[0], **fields)
        elif now - self._said >= _BETWEEN_LINES:
            self._said = now
            of = f" of at most {self._total}" if self._total else ""
            self._line(f"round {len(self._rounds)}{of}: {step}")

    def _announce(
        self,
        model: Any,
        method: str,
        federation: Federation,
        arguments: Mapping[str, Any],
    ) -> None:
        """Say what will take long, and find out how many rounds there will be."""
        slow = getattr(model, "_takes_long", lambda federation, seconds: "")
        self._total, seconds = 0, 0.0
        if method == "fit" and (self._verbose or slow(federation, 0.0)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the fit itself will warn
                try:
                    found = rounds_to_come(model, federation, arguments.get("y"))
                    self._total, seconds = found
                except (UnpooledError, ValueError):
                    pass  # the fit itself will say what is wrong
        if method == "fit" and (sentence := slow(federation, seconds)):
            self._line(sentence)
        elif self._verbose and self._total and not self._looked_at:
            self._line(f"at most {self._total} rounds")

    def _end(self, how: str) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
        elif self._rounds and not self._looked_at:
            seconds = self._clock() - self._began
            # Unasked, only after lines that wait for their end.
            if not self._verbose and self._said == self._began:
                return
            self._line(f"{how} after {len(self._rounds)} rounds, {seconds:.1f} s")

    def _line(self, text: str) -> None:
        self._console.print(
            f"{self._title}: {text}", markup=False, highlight=False, soft_wrap=True
        )


def _is_looked_at() -> bool:
    """Whether there may be a person before a terminal, or a notebook."""
    return sys.stderr.isatty() or "ipykernel" in sys.modules


def _bar(console: "Console") -> "Progress":
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=20, complete_style="cyan", finished_style="green"),
        TextColumn("{task.fields[rounds]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[step]}", style="dim"),
        console=console,
        transient=True,
    )
