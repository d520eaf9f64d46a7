"""Connections through an HTTP proxy, found and opened as gRPC does.

    silo ── CONNECT relay:8002 ──> proxy ──> server
         <═══════════ TLS, certificates both ways ═══════════>

gRPC, which NVFlare uses where the federation's file says ``transport = "grpc"``, reads
``grpc_proxy``, ``https_proxy`` and ``http_proxy``, in this order and in small letters,
and ``no_grpc_proxy`` or ``no_proxy``. A check of the connection must take the same way,
or it would vouch for another one. NVFlare's other drivers, of "tcp" and "http", connect
directly whatever these say.
"""

import base64
import ipaddress
import os
import socket
from urllib.parse import SplitResult, unquote, urlsplit

PROXY_NAMES = ("grpc_proxy", "https_proxy", "http_proxy")
_EXCEPT = ("no_grpc_proxy", "no_proxy")
_MOST = 2**14  # bytes of a proxy's reply, which are a few lines


def proxy_for(host: str) -> SplitResult | None:
    """Return the address of the proxy for a host, or None for none.

    Raises
    ------
    OSError
        When it is no address such as http://proxy.example.org:3128.
    """
    given = next((os.environ[name] for name in PROXY_NAMES if os.environ.get(name)), "")
    if not given or _is_excepted(host):
        return None
    try:
        proxy = urlsplit(given)
        if proxy.scheme == "http" and proxy.hostname and proxy.port:
            return proxy
    except ValueError:
        pass  # as a port that is no number
    # Not repeated: it may hold a password.
    raise OSError("the proxy's address is not of the form http://host:port")


def connect(
    host: str, port: int, proxy: SplitResult | None, patience: float
) -> socket.socket:
    """Return a socket that leads to a host, through a proxy or directly.

    Parameters
    ----------
    host, port : str and int
        Where it leads to. The proxy looks the name up.
    proxy : SplitResult or None
        From `proxy_for`.
    patience : float
        Seconds for each reply.

    Raises
    ------
    OSError
        When there is no connection, or the proxy refuses it.
    """
    if proxy is None:
        return socket.create_connection((host, port), patience)
    assert proxy.hostname
    where = f"the proxy {proxy.hostname}, port {proxy.port}"
    try:
        opened = socket.create_connection((proxy.hostname, proxy.port or 0), patience)
    except OSError as wrong:
        raise OSError(f"{where}: {wrong.strerror or wrong}") from wrong
    try:
        opened.sendall(_request(host, port, proxy))
        reply = b""
        # Byte by byte: what follows the empty line belongs to the server.
        while not reply.endswith(b"\r\n\r\n") and len(reply) < _MOST:
            if not (byte := opened.recv(1)):
                break
            reply += byte
        status = reply.split(b"\r\n")[0].decode("latin-1").split(" ", 2)
        if len(status) < 2 or not status[0].startswith("HTTP/") or status[1] != "200":
            said = " ".join(status[1:]) or "nothing"
            raise OSError(f"{where}, answered {said} to CONNECT {host}:{port}")
    except BaseException:
        opened.close()
        raise
    return opened


def _request(host: str, port: int, proxy: SplitResult) -> bytes:
    lines = [f"CONNECT {host}:{port} HTTP/1.1", f"Host: {host}:{port}"]
    if proxy.username is not None:
        login = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
        encoded = base64.b64encode(login.encode()).decode()
        lines.append(f"Proxy-Authorization: Basic {encoded}")
    return "\r\n".join([*lines, "", ""]).encode()


def _is_excepted(host: str) -> bool:
    given = next((os.environ[name] for name in _EXCEPT if os.environ.get(name)), "")
    for entry in filter(None, map(str.strip, given.split(","))):
        if host.casefold().endswith(entry.casefold()):
            return True
        try:
            if ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False):
                return True
        except ValueError:
            continue  # one of the two is a name
    return False
