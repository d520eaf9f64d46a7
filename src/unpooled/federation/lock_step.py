"""Several programs over one federation, whose rounds are put into the same messages.

    program 1 ── sum ──┐              ┌── totals ──> program 1 goes on
    program 2 ── sum ──┼── one round ─┼── totals ──> program 2 goes on
    program 3 ── sum ──┘              └── totals ──> program 3 goes on

The programs are fits on the folds of a cross-validation: they ask the same steps, of
different rows. Each runs in a thread of its own, and only one thread at a time, always
in the same order, so that silos that follow make the same requests.

What was asked before in the same session is not asked again: candidates of a search
that differ in shrinkage alone need the same totals.
"""

import contextvars
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, final

from unpooled.coordinator.step_call import RoundRunner, RunnerOver, StepCall
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.federation.turns import Turns
from unpooled.ledger import canonical
from unpooled.protocol.following import Call
from unpooled.protocol.request import Veiled
from unpooled.protocol.view_operations import public_record, view_digest

# A program over a view, which returns anything.
Program = Callable[[Federation], Any]


@final
class LockStep:
    """Runs programs over views of one federation in lock step.

    Parameters
    ----------
    federation : Federation
        In whose session the programs run.
    """

    def __init__(self, federation: Federation) -> None:
        self._runner = federation.coordinator
        self._memory = _Memory()

    def run(self, programs: Iterable[tuple[Federation, Program]]) -> list[Any]:
        """Return the result of each program with its view.

        Parameters
        ----------
        programs : iterable of (Federation, callable)
            Views of the federation, and what is to be done with each.

        Raises
        ------
        Exception
            The first error of a program or of a round. The other programs end there.
        """
        lanes = [_Lane(self._runner, view, program) for view, program in programs]
        try:
            for lane in lanes:
                lane.start()
            while waiting := [lane for lane in lanes if lane.call is not None]:
                self._round(waiting)
        finally:
            for lane in lanes:
                lane.close()
        return [lane.result for lane in lanes]

    def _round(self, waiting: Sequence["_Lane"]) -> None:
        """Answer all programs that wait."""
        together: dict[bytes, StepCall] = {}
        results: dict[bytes, dict[str, Any]] = {}
        alone: list[_Lane] = []
        for lane in waiting:
            call = lane.call
            assert call is not None, "the lane waits for it"
            if not _goes_with_others(call):
                alone.append(lane)
                continue
            known = self._memory.find(lane.key, call)
            if known is None:
                together[lane.key] = call
            else:
                results[lane.key] = known
        answers = self._runner.run_steps(list(together.values())) if together else []
        for (key, call), answer in zip(together.items(), answers, strict=True):
            results[key] = answer
            self._memory.keep(key, call, answer)
        for lane in waiting:
            if lane in alone:
                assert lane.call is not None, "the lane waits for it"
                self._memory.forget(lane.call)
                lane.answer(self._runner.run_step(lane.call))
            else:
                # Each program may change its own.
                lane.answer({n: _copied(v) for n, v in results[lane.key].items()})


@final
@dataclass(eq=False)
class _Memory:
    """Totals opened in this session, while silos keep the arrays that they follow from.

    Attributes
    ----------
    answers : dict of bytes to tuple
        By request, the answer and the requests that had written what it read, by the
        name of the kept array.
    writers : dict of str to dict
        By view, which request last wrote each array that the silos keep of it.
    """

    answers: dict[bytes, tuple[dict[str, Any], dict[str, bytes]]] = field(
        default_factory=dict
    )
    writers: dict[str, dict[str, bytes]] = field(default_factory=dict)

    def find(self, key: bytes, call: StepCall) -> dict[str, Any] | None:
        """Return the answer to a request, if it would be the same again."""
        if key not in self.answers:
            return None
        answer, read = self.answers[key]
        now = self._writers(call)
        wrote = dict.fromkeys(_written(call), key)
        # What it read is still there, and so is what it wrote, for steps after it.
        good = all(now.get(n) == by for n, by in (read | wrote).items())
        return answer if good else None

    def keep(self, key: bytes, call: StepCall, answer: dict[str, Any]) -> None:
        """Note the answer to a request."""
        writers = self._writers(call)
        read = dict(writers) if "kept" in call.step.reads else {}
        wrote = dict.fromkeys(_written(call), key)
        writers |= wrote
        if _is_pure(call):
            read = {n: w for n, w in read.items() if n not in wrote}
            self.answers[key] = answer, read

    def forget(self, call: StepCall) -> None:
        """Note that a request that is not remembered may write anything of its view."""
        self.writers.pop(view_digest(call.operations), None)

    def _writers(self, call: StepCall) -> dict[str, bytes]:
        return self.writers.setdefault(view_digest(call.operations), {})


@final
class _Lane(RunnerOver):
    """Hands each call of a program's step over, and waits for the answer."""

    def __init__(self, runner: RoundRunner, view: Federation, program: Program) -> None:
        self._stand_before(runner)
        self._turns, self._view, self._program = Turns("lock step"), view, program
        self.call: StepCall | None = None
        self.key, self.result = b"", None

    def start(self) -> None:
        """Run the program up to its first call."""
        # Decompositions are recorded, or taken from hints, as in the calling thread.
        self._wait_for(self._turns.begin(self._work, contextvars.copy_context()))

    def answer(self, result: dict[str, Any]) -> None:
        """Run the program up to its next call."""
        self._wait_for(self._turns.go_on(result))

    def close(self) -> None:
        """End the program, wherever it is."""
        self._turns.close(wait=True)

    def _wait_for(self, call: StepCall | None) -> None:
        self.call = call
        self.key = b"" if call is None else _key_of(call)

    def _work(self) -> None:
        self.result = self._program(self._view.over(self))

    def run_step(self, call: StepCall) -> dict[str, Any]:
        """Return the answer, once all programs have made their calls."""
        if call.step.verb == "exchanged":
            raise DataError(
                f"{call.step.name} sends values to neighbours, which cannot be done "
                f"for several folds at a time. Choose another solver."
            )
        return dict(self._turns.hand_over(call))

    def enter(self, call: Callable[[], Call] | None = None) -> None:
        """Do nothing: the session of all programs is open."""

    def exit(self) -> None:
        """Do nothing."""


def _goes_with_others(call: StepCall) -> bool:
    """Whether a call can share its messages: only sums."""
    return call.step.verb == "summed"


def _written(call: StepCall) -> list[str]:
    """Return the names of the arrays that silos keep for later steps.

    What a silo counts and keeps is for its own rules; no step reads it.
    """
    arrays = call.step.declared.items()
    return [name for name, one in arrays if one.kept and not one.counts]


def _is_pure(call: StepCall) -> bool:
    """Whether the same request gives the same totals again."""
    noisy = any(one.noise is not None for one in call.step.declared.values())
    # Totals for the silos alone may have an entry for each person: nobody keeps them.
    veiled = call.to == "parties" or any(
        isinstance(value, Veiled) for value in call.public.values()
    )
    return not (noisy or veiled or call.kept_of)


def _key_of(call: StepCall) -> bytes:
    """Return all that makes a request: equal for equal requests."""
    if not _goes_with_others(call):
        return b""
    public = {
        name: value.release if isinstance(value, Veiled) else value
        for name, value in call.public.items()
    }
    view = view_digest(call.operations)
    arguments = public_record(public)
    return canonical([call.step.name, call.to, view, arguments, call.kept_of])


def _copied(value: Any) -> Any:
    return value.copy() if hasattr(value, "copy") else value
