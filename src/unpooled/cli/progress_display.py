"""The progress of a study on the terminal: a bar, or a line for each round.

Nothing is stored; the checkpoint of a long fit, which is, belongs to the run's folder.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, final

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from unpooled.cli.terminal import printable
from unpooled.federation.planning.plan import Plan
from unpooled.results.formats import byte_size, counted


@final
class ProgressDisplay:
    """Shows the progress of a run, from its plan and its events.

    Parameters
    ----------
    console : Console
        Where to write.
    quiet : bool
        Write lines even on a terminal.

    Notes
    -----
    The methods `planned` and `listener` are arguments of `Study.run`. Numbers of bytes
    come from the plan, which equals the ledger line by line.
    """

    def __init__(self, console: Console, *, quiet: bool = False) -> None:
        self._console = console
        self._plain = quiet or not console.is_terminal
        self._bar: Progress | None = None
        self._parties = 0
        # Steps and bytes of each planned round; the place of the round that was
        # answered last; the bytes that its steps, and all rounds, have sent.
        self._planned: list[tuple[set[str], int]] = []
        self._place, self._sent = -1, 0
        self._of_step: dict[str, int] = {}
        self._waits_for = ""
        self._round, self._answered, self._done = 0, set[str](), 0

    def __enter__(self) -> "ProgressDisplay":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._show("done" if error is None else "stopped")
            self._bar.stop()

    def waiting(self, reason: str, left: float) -> None:
        """Say for what a study waits, once for each reason."""
        if reason != self._waits_for:
            self._waits_for = reason
            hours = f"{left / 3600.0:.1f} hours" if left > 5400 else f"{left:.0f} s"
            self._console.print(
                f"{printable(reason)} Waiting, at most {hours} more.", markup=False
            )

    @property
    def rounds(self) -> int:
        """The number of rounds of the plan."""
        return len(self._planned)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Hide the bar while the terminal shows a question."""
        if self._bar is not None:
            self._bar.stop()
        try:
            yield
        finally:
            if self._bar is not None:
                self._bar.start()

    def planned(self, plan: Plan) -> None:
        """Show the progress bar for a plan."""
        by_round: dict[int, tuple[set[str], int]] = {}
        for line in plan.releases:
            steps, sent = by_round.get(line.round, (set(), 0))
            sent += line.bytes if line.direction == "out" else 0
            by_round[line.round] = steps | {line.step}, sent
        self._parties = len(plan.parties)
        self._planned = [by_round[number] for number in sorted(by_round)]
        if not self._plain:
            self._bar = _bar(self._console)
            self._bar.add_task("starting", total=self.rounds, **self._fields())
            self._bar.start()

    def listener(self, party: str, step: str, number: int) -> None:
        """Count a party's reply to a step."""
        if "." not in step:
            # The messages that begin and end a fit are not rounds.
            if step != "leave":
                self._show("agreeing on keys")
            return
        if number != self._round:
            self._round, self._answered = number, set()
        self._answered.add(party)
        if len(self._answered) == self._parties:
            self._done += 1
            sent = self._bytes_of(step)
            self._sent += sent
            if self._plain:
                self._line(step, sent)
        self._show(printable(step))

    def _fields(self) -> dict[str, Any]:
        return {
            "sent": byte_size(self._sent),
            "silos": f"{len(self._answered)}/{self._parties} silos",
        }

    def _show(self, step: str) -> None:
        if self._bar is not None:
            fields: dict[str, Any] = {"completed": self._done, "description": step}
            self._bar.update(self._bar.task_ids[0], **fields, **self._fields())

    def _bytes_of(self, step: str) -> int:
        """Return the bytes of the next planned round with a step.

        A search may need fewer rounds than the plan has, or more: these have the bytes
        of the step's last one.
        """
        for place in range(self._place + 1, self.rounds):
            steps, sent = self._planned[place]
            if step in steps:
                self._place, self._of_step[step] = place, sent
                break
        return self._of_step.get(step, 0)

    def _line(self, step: str, sent: int) -> None:
        self._console.print(
            f"round {self._done} of {self.rounds}: {printable(step)}, "
            f"{counted(self._parties, 'silo')}, {byte_size(sent)} from each",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )


def _bar(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}", style="dim"),
        BarColumn(bar_width=14, complete_style="cyan", finished_style="green"),
        TextColumn("{task.completed}/{task.total} rounds"),
        TextColumn("{task.fields[sent]} per silo", style="dim"),
        TextColumn("{task.fields[silos]}", style="dim"),
        console=console,
    )
