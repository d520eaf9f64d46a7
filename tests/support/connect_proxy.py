"""An HTTP proxy of the tests' own that knows the method CONNECT and nothing else."""

import contextlib
import socket
import threading
from collections.abc import Iterator, Mapping


class ConnectProxy:
    """What `connect_proxy` yields.

    Attributes
    ----------
    port : int
        On 127.0.0.1.
    asked : list of str
        The first lines of all requests.
    headers : list of str
        Their other lines.
    names : Mapping
        Addresses of host names that this proxy alone can look up.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names
        self.asked: list[str] = []
        self.headers: list[str] = []
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        for one in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                visitor, _ = self._listener.accept()
                self._open.append(visitor)
                threading.Thread(
                    target=self._serve, args=(visitor,), daemon=True
                ).start()

    def _serve(self, visitor: socket.socket) -> None:
        with contextlib.suppress(OSError), visitor:
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                if not (byte := visitor.recv(1)):
                    return
                head += byte
            first, *headers = head.decode("latin-1").strip().split("\r\n")
            self.asked.append(first)
            self.headers += headers
            method, target, _ = first.split()
            host, _, port = target.rpartition(":")
            place = self.names.get(host)
            if method != "CONNECT" or place is None:
                visitor.sendall(b"HTTP/1.1 403 Forbidden\r\n\r\n")
                return
            with socket.create_connection((place, int(port))) as server:
                self._open.append(server)
                visitor.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                back = threading.Thread(target=_pass, args=(server, visitor))
                back.start()
                _pass(visitor, server)
                back.join()


def _pass(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(2**16):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def connect_proxy(names: Mapping[str, str]) -> Iterator[ConnectProxy]:
    """Run a proxy that opens connections to these hosts, and refuses others."""
    proxy = ConnectProxy(names)
    try:
        yield proxy
    finally:
        proxy.close()
