"""Signs of polynomials of totals, which nobody sees: secure multiparty computation.

    each party   integers of its own means ── Shamir shares ──> every party's process
    together     F = polynomial of the totals, in a ring that holds it exactly
    everybody    whether F < 0, and nothing else

The arithmetic is MPyC's `SecInt`, exact integers under Shamir's scheme with an honest
majority: fewer than half of the computing parties together learn nothing but the signs,
up to a statistical distance of 2^-64 for each comparison. Two parties have no honest
majority: there must be three. The shares travel under TLS with certificates that the
parties make for the session and hand to each other under their pairwise keys.

References
----------
Marchand et al., SecureFedYJ, NeurIPS 2022, algorithm 2, routine SMC-sign. MPyC,
https://github.com/lschoe/mpyc.
"""

import json
import math
import queue
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import final

import numpy as np
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from unpooled.arrays import Array, Bool
from unpooled.errors import AggregationError, StudyError

FEWEST = 3
# Bits by which what is opened in between differs from noise.
_STATISTICAL = 64
# Rounds beside the products of the polynomial and the tree over the bits: shares of the
# input, random bits, opened differences, and the signs.
_OTHER_ROUNDS = 4
_PATIENCE = 600.0


@final
@dataclass(frozen=True)
class Polynomial:
    """What is compared with zero, declared beside a step.

    Attributes
    ----------
    terms : mapping of tuple of str to float
        Coefficients by the names that are multiplied; the empty tuple is a constant.
    weights : mapping of str to int
        How many times `fraction` bits each name's totals are rounded to.
    fraction : int
        Bits after the point of a total of weight 1.
    bits : int
        The ring's: totals and their polynomial lie below 2^(bits - 1).
    """

    terms: Mapping[tuple[str, ...], float]
    weights: Mapping[str, int]
    fraction: int
    bits: int

    @property
    def names(self) -> tuple[str, ...]:
        """The totals, in their order."""
        return tuple(self.weights)

    @property
    def rounds(self) -> int:
        """Rounds that a batch of comparisons takes, however many they are."""
        degree = max(len(names) for names in self.terms)
        tree = math.ceil(math.log2(self.bits + 1))
        return _OTHER_ROUNDS + tree + math.ceil(math.log2(max(degree, 1)))

    def bytes(self, numbers: int, n_parties: int) -> int:
        """Return what a party sends in all for a batch: about, for plan and ledger."""
        # For each bit a random one, its square, and a node of the tree: about two field
        # elements for each peer, as measured.
        element = (self.bits + _STATISTICAL + 9) // 8
        return 2 * numbers * (n_parties - 1) * element * self.bits

    def integers(self, totals: Mapping[str, Array]) -> list[list[int]]:
        """Return this party's part of the totals as integers, name by name."""
        rows = []
        for name, weight in self.weights.items():
            values = np.asarray(totals[name], dtype=float)
            if not np.isfinite(values).all():
                raise AggregationError(
                    "A value to be compared is not finite.", rule="fixed_point_range"
                )
            shift = self.fraction * weight
            rows.append([_rounded(float(value), shift) for value in values])
        return rows

    def scaled_terms(self) -> list[tuple[int, list[int]]]:
        """Return coefficients and factors (positions), all of one scale."""
        place = {name: i for i, name in enumerate(self.names)}
        weigh = {t: sum(self.weights[name] for name in t) for t in self.terms}
        top = max(weigh.values())
        return [
            (_rounded(c, self.fraction * (top - weigh[t])), [place[n] for n in t])
            for t, c in self.terms.items()
        ]


def _rounded(value: float, shift: int) -> int:
    return round(math.ldexp(value, shift))


@final
class Computation:
    """One party's process, and what is said to it.

    Parameters
    ----------
    party : int
        Its number among the computing parties, from 0.
    n_parties : int
        How many compute, at least three.
    """

    def __init__(self, party: int, n_parties: int) -> None:
        if find_spec("mpyc") is None:
            raise StudyError(
                "Secure comparisons need MPyC, which is not installed. Install it "
                'with: pip install "unpooled[mpc]"',
                rule="comparison",
            )
        if n_parties < FEWEST:
            raise AggregationError(
                "Fewer than three parties cannot compute together.", rule="two_parties"
            )
        self.party, self.n_parties = party, n_parties
        self._folder = tempfile.TemporaryDirectory(prefix="unpooled-")
        self.port = _free_port()
        self.certificate = self._make_certificate()
        self._child: subprocess.Popen[str] | None = None
        self._answers: queue.SimpleQueue[str] = queue.SimpleQueue()

    def begin(
        self, addresses: Sequence[tuple[str, int]], certificates: Sequence[bytes]
    ) -> None:
        """Start the process; it dials the others and waits for them to dial it.

        Parameters
        ----------
        addresses : sequence of (str, int)
            Host and port of every computing party as seen from here, its own included.
        certificates : sequence of bytes
            Theirs, in PEM; no other is accepted.
        """
        config = Path(self._folder.name) / ".config"
        (config / "mpyc_ca.crt").write_bytes(b"".join(certificates))
        words = [word for host, port in addresses for word in ("-P", f"{host}:{port}")]
        command = [
            *(sys.executable, "-m", "unpooled.secure.computing", *words),
            *("-I", str(self.party), "-T", str((self.n_parties - 1) // 2)),
            *("-K", str(_STATISTICAL), "--mix32-64bit", "--ssl", "--no-log"),
        ]
        # What MPyC says of a failure is for the silo, and goes with the folder.
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
        self._test()

    def ask(self, polynomial: Polynomial, values: list[list[int]]) -> None:
        """Hand this party's part of a batch to the process, and return at once."""
        if self._child is None or self._child.stdin is None:
            raise AggregationError("Nobody computes.", rule="comparison")
        batch = {
            "bits": polynomial.bits,
            "values": [list(map(str, row)) for row in values],
            "terms": [[str(c), factors] for c, factors in polynomial.scaled_terms()],
        }
        # Where the process has ended, the next answer tells.
        with suppress(OSError):
            self._child.stdin.write(json.dumps(batch) + "\n")
            self._child.stdin.flush()

    def signs(
        self, timeout: float = _PATIENCE
    ) -> tuple[Bool[Array, " l"], list[float]]:
        """Wait for the signs of the batch asked first.

        Returns
        -------
        negative : (l,) array of bool
        spent : list of float
            Rounds, bytes sent, seconds of processor time.

        Raises
        ------
        AggregationError
            When the process ended, here or at another party, or did not answer in time.
        """
        try:
            line = self._answers.get(timeout=timeout)
        except queue.Empty:
            line = ""
        if not line:
            self.close()
            raise AggregationError(
                "A party stopped computing before the signs were known.",
                rule="comparison",
            )
        answer = json.loads(line)
        return np.array(answer["negative"], dtype=bool), answer["spent"]

    def close(self) -> None:
        """End the process, and forget its certificate's key."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.wait()
            if child.stdin is not None:
                with suppress(OSError):
                    child.stdin.close()
            self._listener.join()
        self._folder.cleanup()

    def _test(self) -> None:
        """Have signs computed that are known, about zero and at the ring's ends."""
        self.ask(_TEST, _TEST.integers(_test_values(self.party)))

    def tested(self, timeout: float = _PATIENCE) -> None:
        """Wait for the self-test, before the first value is handed over."""
        negative, _ = self.signs(timeout)
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

    def _listen(self) -> None:
        child = self._child
        assert child is not None
        assert child.stdout is not None
        with child.stdout as answers:
            for line in answers:
                self._answers.put(line)
        self._answers.put("")

    def _make_certificate(self) -> bytes:
        """Write a key and a certificate of the session's own; return the latter."""
        config = Path(self._folder.name) / ".config"
        config.mkdir(mode=0o700)
        key = ec.generate_private_key(ec.SECP256R1())
        name = f"MPyC party {self.party}"
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        today = datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            # Clocks of organisations differ.
            .not_valid_before(today - timedelta(days=2))
            .not_valid_after(today + timedelta(days=30))
            .sign(key, SHA256())
            .public_bytes(Encoding.PEM)
        )
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (config / f"party_{self.party}.key").write_bytes(private)
        (config / f"party_{self.party}.crt").write_bytes(certificate)
        return certificate


# x³ - 3x: all kinds of operations, with roots at which rounding would show.
_TEST = Polynomial(
    terms={("a", "a", "a"): 1.0, ("a",): -3.0},
    weights={"a": 1},
    fraction=20,
    bits=127,
)


def _test_values(party: int) -> dict[str, Array]:
    quantum = 2.0**-20
    values = [-(2.0**9), -2.0, -quantum, 0.0, quantum, 1.0, 2.0, 2.0**9]
    # Parts whose sums are of the same kind: positive, negative, none.
    return {"a": np.array(values) * (1.0, -2.0, 3.0, 0.0)[party % 4]}


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
