"""Streams between computing processes that only a relay connects.

    process ── TCP ─> tunnel ── numbered, sealed ─> relay ─> tunnel ── TCP ─> process

At each party the tunnel listens where its process dials and dials where its process
listens, on this machine only; what passes travels as messages that a relay carries, so
that no silo opens a port. Every message is sealed under a key of the session, the pair
and the direction, with its number for a nonce: a relay can read none, alter none, and
not pass one off as another or deliver one twice. Relays may change the order, which the
receiving end restores; one that drops a message is noticed by the silence.

The streams are TLS already, between certificates that the parties sealed for each
other (`unpooled.secure.comparison.protocol`); the tunnel's own seal is what puts
messages in order, and keeps a relay from feeding bytes to a process.
"""

import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from unpooled.errors import AggregationError
from unpooled.ledger import canonical
from unpooled.secure.keys.agreement import KEY_BYTES

SocketAddress = tuple[str, int]
# What hands a message to the relay: for whom, and the bytes.
Carry = Callable[[str, bytes], None]

HOME = "127.0.0.1"
_NUMBER = 8  # bytes of a message's number
_MOST = 2**20  # bytes of a stream in one message
# Messages that may overtake another; a relay that shuffles more is not one.
_WINDOW = 1024
# Seconds: between two looks whether there is still something to wait for, and for the
# process to listen where it said.
_TICK, _DIALLING = 0.1, 60.0


@final
class Sealer:
    """Messages of one party to one other, in their order.

    Parameters
    ----------
    pair_key : bytes
        Shared by the two, for one session.
    sender, receiver : str
        Who seals, and who opens. A sealer of each direction is made once in a session:
        numbers are never used again.
    """

    def __init__(self, pair_key: bytes, sender: str, receiver: str) -> None:
        about = b"tunnel" + canonical([sender, receiver])
        key = HKDFExpand(SHA256(), KEY_BYTES, about).derive(pair_key)
        self._cipher = ChaCha20Poly1305(key)
        self._sealed = self._opened = 0
        self._ahead: dict[int, bytes] = {}
        self._lock = threading.Lock()

    def seal(self, words: bytes) -> bytes:
        """Return the next message."""
        with self._lock:
            number, self._sealed = self._sealed, self._sealed + 1
        head = number.to_bytes(_NUMBER, "big")
        return head + self._cipher.encrypt(_nonce(head), words, None)

    def opened(self, message: bytes) -> list[bytes]:
        """Return what can be read now, in order: nothing while an earlier one lacks.

        A message that was read before gives nothing. An empty one is told at once,
        whatever is still under way: it says that the sender has stopped.

        Raises
        ------
        AggregationError
            When the message is not the sender's, or far ahead of the others.
        """
        head, number = message[:_NUMBER], int.from_bytes(message[:_NUMBER], "big")
        try:
            words = self._cipher.decrypt(_nonce(head), message[_NUMBER:], None)
        except (InvalidTag, ValueError, OverflowError) as wrong:
            raise AggregationError(
                "A message between computing parties was altered on its way.",
                rule="wrong_signature",
            ) from wrong
        if not words:
            return [words]
        if number >= self._opened + _WINDOW:
            raise AggregationError(
                "Messages between computing parties are lost.", rule="comparison"
            )
        if number >= self._opened:
            self._ahead[number] = words
        ready = []
        while self._opened in self._ahead:
            ready.append(self._ahead.pop(self._opened))
            self._opened += 1
        return ready


def _nonce(head: bytes) -> bytes:
    return head.rjust(12, b"\0")


@final
class Tunnel:
    """One party's end of the streams to all others.

    Parameters
    ----------
    party : str
        This party's name.
    parties : sequence of str
        All that compute, in the order of their numbers.
    keys : mapping of str to bytes
        Shared with each of the others, for one session.
    port : int
        Where this party's process listens.
    carry : callable
        Hands a message for a party to the relay.
    stopped : callable
        Called once when a stream has ended, here or at another party: then nothing can
        be computed any more.

    Attributes
    ----------
    addresses : list of (str, int)
        Where this party's process finds the others, by their numbers.
    """

    def __init__(
        self,
        party: str,
        parties: Sequence[str],
        keys: Mapping[str, bytes],
        port: int,
        carry: Carry,
        stopped: Callable[[], None],
    ) -> None:
        own = parties.index(party)
        self._carry, self._stopped = carry, stopped
        self._over, self._lock = False, threading.Lock()
        # A relay may hand over from several threads; what is in order stays so.
        self._arriving = threading.Lock()
        self._last = time.monotonic()
        self._sealers: dict[str, tuple[Sealer, Sealer]] = {}
        self._streams: dict[str, _Stream] = {}
        self.addresses: list[SocketAddress] = []
        for number, peer in enumerate(parties):
            if number == own:
                self.addresses.append((HOME, port))
                continue
            key = keys[peer]
            self._sealers[peer] = Sealer(key, party, peer), Sealer(key, peer, party)
            # A process dials those of higher numbers, and listens for the others.
            stream = _Stream(port, number > own, self._sends(peer), self.stop)
            self._streams[peer] = stream
            self.addresses.append((HOME, stream.port))

    @property
    def silent_for(self) -> float:
        """Seconds since anything passed, either way."""
        return time.monotonic() - self._last

    def arrived(self, peer: str, message: bytes) -> None:
        """Take a message that the relay brought from a peer."""
        if self._over or peer not in self._streams:
            return
        self._last = time.monotonic()
        try:
            with self._arriving:
                words = self._sealers[peer][1].opened(message)
                for part in filter(None, words):
                    self._streams[peer].put(part)
        except AggregationError:
            self.stop()
            raise
        if b"" in words:
            self.stop()

    def stop(self) -> None:
        """Tell every party that this one computes no more, and end."""
        with self._lock:
            first, self._over = not self._over, True
        if not first:
            return
        for peer, (sealer, _) in self._sealers.items():
            # Whom it does not reach will notice the silence.
            with suppress(Exception):
                self._carry(peer, sealer.seal(b""))
        self._end()
        self._stopped()

    def close(self) -> None:
        """End without a word: the session is over for all."""
        with self._lock:
            self._over = True
        self._end()

    def _end(self) -> None:
        for stream in self._streams.values():
            stream.close()

    def _sends(self, peer: str) -> Callable[[bytes], None]:
        def send(words: bytes) -> None:
            self._last = time.monotonic()
            self._carry(peer, self._sealers[peer][0].seal(words))

        return send


@final
class _Stream:
    """One TCP connection of the process, and two threads that serve it."""

    def __init__(
        self,
        port: int,
        dialled: bool,
        send: Callable[[bytes], None],
        ended: Callable[[], None],
    ) -> None:
        self._send, self._ended = send, ended
        self._inbox: SimpleQueue[bytes] = SimpleQueue()
        self._first, self._closed = threading.Event(), threading.Event()
        self._socket: socket.socket | None = None
        self._listener: socket.socket | None = None
        self.port = port
        if dialled:
            self._listener = socket.create_server((HOME, 0), backlog=1)
            self._listener.settimeout(_TICK)
            self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._outwards, daemon=True).start()

    def put(self, words: bytes) -> None:
        """Pass on to the process what a peer's said."""
        self._inbox.put(words)
        self._first.set()

    def close(self) -> None:
        """End the connection and the threads."""
        self._closed.set()
        self._first.set()
        self._inbox.put(b"")
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def _outwards(self) -> None:
        try:
            listener = self._listener
            if listener is None:
                one = self._dial()
            else:
                with listener:
                    one = self._accept(listener)
            with one:
                self._socket = one
                if self._closed.is_set():
                    return
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                inwards = threading.Thread(target=self._inwards, args=(one,))
                inwards.start()
                while words := one.recv(_MOST):
                    self._send(words)
                self._inbox.put(b"")
                inwards.join()
        except Exception:
            # The process has ended, or the relay takes nothing: the others are told.
            self._inbox.put(b"")
        if not self._closed.is_set():
            self._ended()

    def _inwards(self, one: socket.socket) -> None:
        with suppress(OSError):
            while words := self._inbox.get():
                one.sendall(words)

    def _accept(self, listener: socket.socket) -> socket.socket:
        while not self._closed.is_set():
            with suppress(TimeoutError):
                one = listener.accept()[0]
                one.settimeout(None)
                return one
        raise OSError("closed")

    def _dial(self) -> socket.socket:
        # Whoever dials speaks first: the peer's process has dialled its own tunnel.
        self._first.wait()
        until = time.monotonic() + _DIALLING
        while not self._closed.is_set() and time.monotonic() < until:
            with suppress(ConnectionRefusedError):
                return socket.create_connection((HOME, self.port))
            self._closed.wait(_TICK)
        raise OSError("nobody listens")
