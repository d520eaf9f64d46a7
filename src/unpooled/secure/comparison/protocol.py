"""Results of totals that no party sees, by secure computation.

    each party   integers of its own part, masked ── Shamir shares ──> all processes
    processes    F = polynomial of the totals, in a ring that represents it exactly
    opened       whether F < 0, and nothing else   (`blinded_signs`)
    or           leading eigenpairs of a total   (`shared_eigenpairs`, `matrix_powers`)

The arithmetic is MPyC's `SecInt`, exact integers under Shamir's scheme with an honest
majority: fewer than half of the computing parties, which follow the protocol, together
learn nothing but the result, up to a statistical distance of 2^-64 for each comparison,
and for all of the eigenpairs. A majority can reconstruct the inputs of the others,
which are under the masks of `unpooled.secure.comparison.integer_masks`. Three or four
parties, of which no two may collude, compute signs as in `blinded_signs`; five do by
MPyC's comparison. Two parties have no honest majority, so at
least three must compute. Shares travel under TLS, with certificates that the parties
make for the session and send to each other encrypted under their pairwise keys.

References
----------
Marchand et al., SecureFedYJ, NeurIPS 2022, sections 2 and 4, for signs by secure
multiparty computation. MPyC, https://github.com/lschoe/mpyc.
"""

import json
import queue
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import final

import numpy as np

from unpooled.arrays import Array
from unpooled.errors import AggregationError, StudyError
from unpooled.secure.comparison.certificate import make_certificate
from unpooled.secure.comparison.joint_computation import (
    STATISTICAL_BITS,
    JointComputation,
    Rows,
    Shapes,
)
from unpooled.secure.comparison.polynomial import Polynomial
from unpooled.secure.keys.roster import FEWEST_COMPUTING

# Seconds between two checks whether the other parties still compute.
_TICK = 1.0


@final
class Computation:
    """Handle to one party's MPyC process and its command channel.

    Parameters
    ----------
    party : int
        Number of the party among the computing parties, from 0.
    n_parties : int
        Number of computing parties, at least three.
    """

    def __init__(self, party: int, n_parties: int) -> None:
        if find_spec("mpyc") is None:
            raise StudyError(
                "Secure comparisons need MPyC, which is not installed. Install it with "
                'pip install "unpooled[mpc]", or use comparison="summed" or '
                'open="covariance".',
                rule="mpc",
            )
        if n_parties < FEWEST_COMPUTING:
            raise AggregationError(
                "Secure comparisons need at least three parties.", rule="two_parties"
            )
        self.party, self.n_parties = party, n_parties
        self._folder = tempfile.TemporaryDirectory(
            prefix="unpooled-", ignore_cleanup_errors=True
        )
        self._reserved = _reserved_port()
        self.port = int(self._reserved.getsockname()[1])
        made = make_certificate(Path(self._folder.name), party)
        self.certificate, self._password = made
        self._child: subprocess.Popen[str] | None = None
        self._answers: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._computing: list[JointComputation] = []

    def begin(
        self, addresses: Sequence[tuple[str, int]], certificates: Sequence[bytes]
    ) -> None:
        """Start the process, which connects to those of the other parties.

        Parameters
        ----------
        addresses : sequence of (str, int)
            Host and port of every computing party, seen from here; includes this one.
        certificates : sequence of bytes
            Certificates of all computing parties, in PEM; no other is accepted.
        """
        config = Path(self._folder.name) / ".config"
        (config / "mpyc_ca.crt").write_bytes(b"".join(certificates))
        words = [word for host, port in addresses for word in ("-P", f"{host}:{port}")]
        command = [
            *(sys.executable, "-m", "unpooled.secure.comparison.mpyc_process", *words),
            *("-I", str(self.party), "-T", str((self.n_parties - 1) // 2)),
            *("-K", str(STATISTICAL_BITS), "--mix32-64bit", "--ssl", "--no-log"),
        ]
        if sys.platform != "linux":
            # Elsewhere the process could not listen beside the socket that reserves.
            self._reserved.close()
        # MPyC's own error messages are for the silo, and are deleted with the folder.
        with (config / "errors").open("wb") as errors:
            self._child = subprocess.Popen(
                command,
                cwd=self._folder.name,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self._tell(self._password)
        self._test()

    def ask(
        self, computation: JointComputation, values: Rows, shapes: Shapes | None = None
    ) -> None:
        """Send this party's part of a batch to the process, without waiting.

        Parameters
        ----------
        computation : JointComputation
            What is computed.
        values : list of list of int
            This party's part of its totals.
        shapes : mapping of str to tuple of int, optional
            Shapes of the arrays that the step declares, where the computation depends
            on them.
        """
        self._tell(json.dumps(computation.job(values, shapes or {})))
        self._computing.append(computation)

    def found(
        self,
        timeout: float | None = None,
        lost: Callable[[], bool] | None = None,
    ) -> tuple[dict[str, Array], list[float]]:
        """Wait for the result of the earliest batch that has none yet.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait; None, as long as the computation may take.
        lost : callable, optional
            Returns whether another party has stopped; called while waiting.

        Returns
        -------
        words : dict of str to array
            What was opened, as the computation declares it.
        spent : list of float
            Rounds, bytes sent, seconds of processor time.

        Raises
        ------
        AggregationError
            When the process ended, here or at another party, or did not answer in time.
        """
        if not self._computing:
            raise AggregationError("Nothing is computed.", rule="comparison")
        computation = self._computing.pop(0)
        patience = computation.patience if timeout is None else timeout
        line, until = "", time.monotonic() + patience
        while time.monotonic() < until and not (lost is not None and lost()):
            with suppress(queue.Empty):
                line = self._answers.get(timeout=min(_TICK, patience))
                break
        if not line:
            self.close()
            raise AggregationError(
                "A party stopped computing before the result was known.",
                rule="comparison",
            )
        answer = json.loads(line)
        return computation.words(answer["found"]), answer["spent"]

    def kill(self) -> None:
        """Kill the process; a thread that waits for its result gets an error."""
        if self._child is not None:
            self._child.kill()

    def close(self) -> None:
        """End the process and delete the key of its certificate."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.wait()
            if child.stdin is not None:
                with suppress(OSError):
                    child.stdin.close()
            self._listener.join()
        self._reserved.close()
        self._folder.cleanup()

    def _tell(self, line: str) -> None:
        if self._child is None or self._child.stdin is None:
            raise AggregationError(
                "The computing process is not running.", rule="comparison"
            )
        # If the process has ended, reading the next answer shows it.
        with suppress(OSError):
            self._child.stdin.write(line + "\n")
            self._child.stdin.flush()

    def _test(self) -> None:
        """Start a self-test on known signs, near zero and at the ends of the ring."""
        self.ask(_TEST, _TEST.integers(_test_values(self.party)))

    def tested(
        self, timeout: float | None = None, lost: Callable[[], bool] | None = None
    ) -> None:
        """Wait for the result of the self-test, before the first value is sent."""
        words, _ = self.found(timeout, lost)
        (negative,) = _TEST.opened(words, ["negative"]).values()
        totals = [
            sum(column)
            for column in zip(
                *(_test_values(party)["a"] for party in range(self.n_parties)),
                strict=True,
            )
        ]
        exact = [total**3 - 3.0 * total < 0 for total in totals]
        if negative.tolist() != exact:
            self.close()
            raise AggregationError(
                "The computing parties' arithmetic is not exact.", rule="comparison"
            )
        self._reserved.close()
        # The process has read its files, so they can be deleted: a process killed from
        # here on leaves nothing behind. A folder that is in use is deleted at the end.
        self._folder.cleanup()

    def _listen(self) -> None:
        child = self._child
        assert child is not None
        assert child.stdout is not None
        with child.stdout as answers:
            for line in answers:
                self._answers.put(line)
        self._answers.put("")


# x³ - 3x uses all operations, and has roots at which rounding would show.
_TEST = Polynomial(
    terms={("a", "a", "a"): 1.0, ("a",): -3.0},
    weights={"a": 1},
    fraction=20,
    bits=127,
)


def _test_values(party: int) -> dict[str, Array]:
    quantum = 2.0**-20
    values = [-(2.0**9), -2.0, -quantum, 0.0, quantum, 1.0, 2.0, 2.0**9]
    # Parts of either sign, and zeros, whose totals have known signs.
    return {"a": np.array(values) * (1.0, -2.0, 3.0, 0.0)[party % 4]}


def _reserved_port() -> socket.socket:
    """Return a socket that keeps a free port from other programs.

    On Linux the process may listen on the port meanwhile: both allow it, and only one
    of the two listens.
    """
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("127.0.0.1", 0))
    return reserved
