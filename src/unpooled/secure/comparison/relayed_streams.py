"""TCP streams between computing processes over an untrusted relay.

    process ── TCP ─> tunnel ── encrypted message ─> relay ─> tunnel ── TCP ─> process

At each party the tunnel listens on the ports that its process connects to, and connects
to the port on which its process listens, on this machine only. The bytes of the streams
travel as messages through the relay, so that no silo opens a port. Each message is
encrypted and authenticated under a key of the session, the pair and the direction, with
its number as nonce. So a relay can neither read nor alter a message, nor exchange,
repeat or invent one. It may change the order, which the receiver restores; if it drops
a message, the receiver notices the silence.

The streams themselves are TLS, under certificates that the parties exchanged encrypted
(`unpooled.secure.comparison.protocol`). The encryption here restores the order, and
keeps a relay from sending bytes to a process.
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
# Hands a message to the relay: the receiver, and the bytes.
Carry = Callable[[str, bytes], None]

HOME = "127.0.0.1"
_NUMBER = 8  # bytes of a message's number
_MOST = 2**20  # bytes of a stream in one message
# Messages that may overtake another one. A relay that reorders more is at fault.
_WINDOW = 1024
# Seconds between two checks whether the stream was closed, and seconds until the
# process must listen on its port.
_TICK, _DIALLING = 0.1, 60.0


@final
class Sealer:
    """Encrypts and orders the messages of one party to one other party.

    Parameters
    ----------
    pair_key : bytes
        Shared by the two, for one session.
    sender, receiver : str
        The party that encrypts, and the one that decrypts. Each direction has one
        sealer per session, so that no nonce is used twice.
    """

    def __init__(self, pair_key: bytes, sender: str, receiver: str) -> None:
        direction = b"tunnel" + canonical([sender, receiver])
        key = HKDFExpand(SHA256(), KEY_BYTES, direction).derive(pair_key)
        self._cipher = ChaCha20Poly1305(key)
        self._sealed = self._opened = 0
        self._ahead: dict[int, bytes] = {}
        self._lock = threading.Lock()

    def seal(self, words: bytes) -> bytes:
        """Return the next encrypted message."""
        with self._lock:
            number, self._sealed = self._sealed, self._sealed + 1
        head = number.to_bytes(_NUMBER, "big")
        return head + self._cipher.encrypt(_nonce(head), words, None)

    def opened(self, message: bytes) -> list[bytes]:
        """Return the messages that are now complete up to the first gap, in order.

        A message that was decrypted before adds nothing. An empty message, which means
        that the sender has stopped, is returned at once, even after a gap.

        Raises
        ------
        AggregationError
            When the message is not the sender's, or too far ahead of the others.
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
    """One party's end of the streams to all other parties.

    Parameters
    ----------
    party : str
        This party's name.
    parties : sequence of str
        All computing parties, in the order of their numbers.
    keys : mapping of str to bytes
        The key shared with each of the others, for one session.
    port : int
        Port on which this party's process listens.
    carry : callable
        Hands a message for a party to the relay.
    stopped : callable
        Called once when a stream has ended, here or at another party, which ends the
        computation.

    Attributes
    ----------
    addresses : list of (str, int)
        Where this party's process connects to the others, by their numbers.
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
        own_number = parties.index(party)
        self._carry, self._stopped = carry, stopped
        self._over, self._lock = False, threading.Lock()
        # A relay may deliver from several threads; the lock keeps the order.
        self._arriving = threading.Lock()
        self._last = time.monotonic()
        self._sealers: dict[str, tuple[Sealer, Sealer]] = {}
        self._streams: dict[str, _Connection] = {}
        self.addresses: list[SocketAddress] = []
        for number, peer in enumerate(parties):
            if number == own_number:
                self.addresses.append((HOME, port))
                continue
            key = keys[peer]
            self._sealers[peer] = Sealer(key, party, peer), Sealer(key, peer, party)
            # A process connects to those of higher numbers, and listens for the others.
            stream = _Connection(
                port, number > own_number, self._sends(peer), self.stop
            )
            self._streams[peer] = stream
            self.addresses.append((HOME, stream.port))

    @property
    def silent_for(self) -> float:
        """Seconds since the last message in either direction."""
        return time.monotonic() - self._last

    def arrived(self, peer: str, message: bytes) -> None:
        """Receive a message of a peer from the relay."""
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
        """Send every party the end of the computation, and close."""
        with self._lock:
            first, self._over = not self._over, True
        if not first:
            return
        for peer, (sealer, _) in self._sealers.items():
            # A party that does not receive it will notice the silence.
            with suppress(Exception):
                self._carry(peer, sealer.seal(b""))
        self._end()
        self._stopped()

    def close(self) -> None:
        """Close without a message, at the end of the session."""
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
class _Connection:
    """One TCP connection of the process, served by two threads."""

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
        """Pass the bytes of a peer's process on to this one."""
        self._inbox.put(words)
        self._first.set()

    def close(self) -> None:
        """Close the connection and end the threads."""
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
                connection = self._dial()
            else:
                with listener:
                    connection = self._accept(listener)
            with connection:
                self._socket = connection
                if self._closed.is_set():
                    return
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                inwards = threading.Thread(target=self._inwards, args=(connection,))
                inwards.start()
                while words := connection.recv(_MOST):
                    self._send(words)
                self._inbox.put(b"")
                inwards.join()
        except Exception:
            # The process has ended or the relay refuses messages: the stream ends.
            self._inbox.put(b"")
        if not self._closed.is_set():
            self._ended()

    def _inwards(self, connection: socket.socket) -> None:
        with suppress(OSError):
            while words := self._inbox.get():
                connection.sendall(words)

    def _accept(self, listener: socket.socket) -> socket.socket:
        while not self._closed.is_set():
            with suppress(TimeoutError):
                connection = listener.accept()[0]
                connection.settimeout(None)
                return connection
        raise OSError("closed")

    def _dial(self) -> socket.socket:
        # The connecting side sends first: the peer's process has reached its tunnel.
        self._first.wait()
        until = time.monotonic() + _DIALLING
        while not self._closed.is_set() and time.monotonic() < until:
            with suppress(ConnectionRefusedError):
                return socket.create_connection((HOME, self.port))
            self._closed.wait(_TICK)
        raise OSError("the process does not listen")
