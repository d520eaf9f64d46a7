"""A program in a thread of its own, which takes turns with the one that answers it.

    whoever answers   go_on ──────────────┐          ┌─ go_on(answer) ──> ...
    the program         runs ── hand_over(question) ─┘  answer ── runs on

Only one of the two runs at a time, so that a program that waits for rounds in the
middle of its arithmetic can be written as if nobody interrupted it.
"""

import contextvars
import queue
import threading
from collections.abc import Callable
from typing import Any, final


class _ClosedError(BaseException):
    """Ends a program whose results nobody waits for any more."""


@final
class Turns:
    """Runs a program from one question to the next.

    Parameters
    ----------
    name : str
        Name of its thread.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: threading.Thread | None = None
        # Questions, each with an error in its place where the program failed; None at
        # the end.
        self._questions = queue.SimpleQueue[tuple[Any, BaseException | None]]()
        self._answers = queue.SimpleQueue[Any]()

    def begin(
        self, program: Callable[[], object], context: contextvars.Context | None = None
    ) -> Any:
        """Run a program up to its first question, and return that; None at its end.

        Parameters
        ----------
        program : callable
            Calls `hand_over` with its questions.
        context : Context, optional
            In which it runs; by default in an empty one.
        """
        work = context or contextvars.Context()
        self._thread = threading.Thread(
            target=work.run, args=(self._run, program), daemon=True, name=self._name
        )
        self._thread.start()
        return self._next()

    def go_on(self, answer: Any) -> Any:
        """Answer the last question, and return the next one; None at the end.

        Raises
        ------
        BaseException
            What the program raised.
        """
        self._answers.put(answer)
        return self._next()

    def hand_over(self, question: Any) -> Any:
        """Return the answer to a question of the program, once there is one."""
        self._questions.put((question, None))
        answer = self._answers.get()
        if answer is _ClosedError:
            raise _ClosedError
        return answer

    def close(self, *, wait: bool = False) -> None:
        """End the program, wherever it is; perhaps wait until it has ended."""
        if self._thread is not None and self._thread.is_alive():
            self._answers.put(_ClosedError)
            if wait:
                self._thread.join()

    def _next(self) -> Any:
        question, error = self._questions.get()
        if error is not None:
            raise error
        return question

    def _run(self, program: Callable[[], object]) -> None:
        try:
            program()
        except _ClosedError:
            return
        except BaseException as error:
            self._questions.put((None, error))
        else:
            self._questions.put((None, None))
