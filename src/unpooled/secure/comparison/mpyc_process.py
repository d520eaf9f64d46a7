"""The process in which one party computes with the others, by MPyC.

    parent ── the password of the key, then one JSON line per batch with integers, the
              name of a computation and its constants ──> stdin
    stdout ── one JSON line per batch with what was opened, and the cost ──> parent
    MPyC   <── shares over TLS, on the ports of the command line ──> the other parties

MPyC keeps one global state per process and logs to standard error, so each party
computes in a separate process. The process ends when its standard input closes, so that
no process with shares outlives its parent. MPyC would unpickle bytes of its peers, and
pickles run code: here every use of pickle raises an error.

`unpooled.secure.comparison.protocol` starts this program.
"""

import asyncio
import json
import math
import os
import ssl
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TextIO, final

import numpy as np

from unpooled.arrays import Array
from unpooled.secure.comparison.blinded_signs import ROUNDS, Link, blinded_signs
from unpooled.secure.comparison.matrix_powers import eigenpairs
from unpooled.secure.comparison.polynomial import rounds_before
from unpooled.secure.comparison.shared_products import products

# Values at 1, 2 and 3 of a polynomial of degree 2, so weighted, add up to that at 0.
_WEIGHTS = 3, -3, 1
# Bytes of a key of the comparisons' random numbers.
_SEED_BYTES = 32


class _NoPickle:
    """Replaces pickle in MPyC, so that bytes of a peer never become objects.

    With --mix32-64bit, arrays of peers are read as numbers, without it.
    """

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"pickle.{name} is not used between computing parties")


def main() -> None:
    """Connect to the peers and answer batches until standard input closes."""
    # MPyC prints tracebacks of its coroutines; the parent reads answers only.
    answers, sys.stdout = sys.stdout, sys.stderr
    _unseal_keys(sys.stdin.readline().strip())
    from mpyc import asyncoro, runtime

    runtime.pickle = _NoPickle()
    sent = _count_messages(asyncoro)
    asyncoro.MessageExchanger.connection_lost = _end
    runtime.mpc.run(_serve(runtime.mpc, sent, answers))


async def _serve(mpc: Any, sent: list[int], answers: TextIO) -> None:
    batches: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    threading.Thread(target=_read, args=(loop, batches), daemon=True).start()
    await mpc.start()
    while True:
        batch = await batches.get()
        before = _cost(mpc, sent)
        found = await _COMPUTATIONS[batch["computation"]](mpc, batch)
        after = _cost(mpc, sent)
        spent = [b - a for a, b in zip(before, after, strict=True)]
        # Where not every party sends to every other in a round, the program counts.
        spent[0] = float(found.pop("rounds", spent[0]))
        line = json.dumps({"found": found, "spent": spent})
        print(line, file=answers, flush=True)


def _read(loop: Any, batches: "asyncio.Queue[dict[str, Any]]") -> None:
    for line in sys.stdin:
        loop.call_soon_threadsafe(batches.put_nowait, json.loads(line))
    # Not sys.exit: MPyC may be waiting for a peer that has ended.
    os._exit(0)


async def _signs(mpc: Any, batch: dict[str, Any]) -> dict[str, Any]:
    """Return whether each value of the polynomial of the totals is negative."""
    kind, terms = mpc.SecInt(batch["bits"]), batch["terms"]
    integers = np.array([list(map(int, row)) for row in batch["values"]], dtype=object)
    if mpc.threshold > 1:
        value = _added(_multiplied(mpc, _total(mpc, kind, integers), terms, 1), terms)
        opened = await mpc.output(mpc.np_sgn(value, LT=True))
        return {"negative": [int(sign) != 0 for sign in np.asarray(opened).reshape(-1)]}
    link = _MpycLink(mpc, int(kind.field.modulus))
    degree = max(len(rows) for _, rows in terms)
    if rounds := rounds_before(degree, link.n_parties):
        factors = _multiplied(mpc, _total(mpc, kind, integers), terms, 2)
        # The last product of each term is that of shares, each party's own.
        shares = await mpc.gather(factors)
        own = [[math.prod(share.value for share in row)] for row in shares]
        parts = _added(own, terms) * ([*_WEIGHTS, 0][mpc.pid])
    else:
        # Nothing is multiplied: the parties' integers are parts of the polynomial.
        public = 1 if mpc.pid == 0 else 0
        own = [[integers[rows[0]] if rows else public] for _, rows in terms]
        parts = _added(own, terms)
    parts = np.broadcast_to(parts, integers.shape[1:])
    negative = await blinded_signs(link, parts, batch["bits"])
    return {"negative": negative.tolist(), "rounds": rounds + ROUNDS}


def _total(mpc: Any, kind: Any, integers: Array) -> Any:
    """Return the sum of all parties' integers in shares."""
    shared = mpc.input(kind.array(integers))
    return sum(shared[1:], shared[0])


def _multiplied(mpc: Any, total: Any, terms: list[Any], most: int) -> list[list[Any]]:
    """Return the factors of each term, multiplied until so many are left."""
    factors = [[total[i] for i in rows] for _, rows in terms]
    while any(len(row) > most for row in factors):
        pairs = [(t, *row[:2]) for t, row in enumerate(factors) if len(row) > most]
        # One product of stacked arrays sends one message for all of them.
        left, right = (mpc.np_stack([pair[side] for pair in pairs]) for side in (1, 2))
        products = left * right
        for k, (t, _, _) in enumerate(pairs):
            factors[t] = [*factors[t][2:], products[k]]
    return factors


def _added(factors: list[list[Any]], terms: list[Any]) -> Any:
    """Return the sum of terms, each of which has one factor left or none."""
    value = 0
    for (coefficient, _), row in zip(terms, factors, strict=True):
        value = value + (row[0] * int(coefficient) if row else int(coefficient))
    return value


@final
class _MpycLink(Link):
    """Connections to the other parties by the messages of MPyC, under its keys."""

    def __init__(self, mpc: Any, modulus: int) -> None:
        self._mpc, self.party, self.modulus = mpc, mpc.pid, modulus
        self.n_parties = len(mpc.parties)

    def seeds(self) -> Mapping[int, bytes]:
        """Return by party a seed that all parties but this one can compute."""
        # MPyC's counter is the same at all parties, and used once.
        counter = self._mpc._prss_uci()
        return {
            absent: prf(counter).to_bytes(_SEED_BYTES, "little")
            for members, prf in self._mpc.prfs(1 << 8 * _SEED_BYTES).items()
            for absent in set(range(self.n_parties)) - set(members)
        }

    async def swapped(
        self, sent: Mapping[int, bytes], senders: Sequence[int] = ()
    ) -> list[bytes]:
        """Send messages by party, and return those of the senders."""
        # The counter is also the label of a message.
        self._mpc._program_counter[0] += 1
        for party, message in sent.items():
            self._mpc._send_message(party, message)
        waiting = [self._mpc._receive_message(party) for party in senders]
        return await self._mpc.gather(waiting)


_COMPUTATIONS: Mapping[str, Callable[[Any, dict[str, Any]], Awaitable[Any]]] = {
    "signs": _signs,
    "eigenpairs": eigenpairs,
    "products": products,
}


def _unseal_keys(password: str) -> None:
    """Make MPyC, which passes no password, read its key from an encrypted file."""
    read = ssl.SSLContext.load_cert_chain

    def unsealed(self: ssl.SSLContext, certificate: str, keyfile: str) -> None:
        read(self, certificate, keyfile, password)

    ssl.SSLContext.load_cert_chain = unsealed  # type: ignore[method-assign]


def _end(exchanger: Any, error: Exception | None) -> None:
    """End this process, because a peer's process has ended."""
    # MPyC raises in a callback of the event loop, where nothing catches it, and then
    # waits for the peer's shares for ever.
    os._exit(1)


def _count_messages(asyncoro: Any) -> list[int]:
    """Count messages to peers; one to each of them is a round."""
    count, send = [0], asyncoro.MessageExchanger.send

    def counted(self: Any, *arguments: Any) -> None:
        count[0] += 1
        send(self, *arguments)

    asyncoro.MessageExchanger.send = counted
    return count


def _cost(mpc: Any, sent: list[int]) -> tuple[float, float, float]:
    """Return the rounds, bytes sent and seconds of processor time so far."""
    peers = [p for p in mpc.parties if p.pid != mpc.pid]
    return (
        sent[0] / len(peers),
        float(sum(p.protocol.nbytes_sent for p in peers)),
        time.process_time(),
    )


if __name__ == "__main__":
    main()
