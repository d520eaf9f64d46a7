"""Starting a kit's process, and checking the connection to its server.

NVFlare's own script starts a Python of its choice in the background. Here the kit's
process replaces this one: the same Python, in the foreground, so that a supervisor sees
it end, and its signals arrive.
"""

import contextlib
import logging
import os
import re
import shlex
import socket
import ssl
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn, final

from unpooled.errors import StudyError
from unpooled.federation.nvflare.consortium import need_engine
from unpooled.federation.nvflare.hardening import (
    check_private,
    kind_of,
    place_storage,
    read_kit_file,
)
from unpooled.federation.nvflare.housekeeping import kept_days, prune
from unpooled.federation.nvflare.proxy import PROXY_NAMES, connect, proxy_for
from unpooled.posix import is_locked, lock

_PATIENCE = 10.0  # seconds for a connection to the server
# Days before a certificate expires from which on kits warn.
EXPIRES_SOON = 30.0
_LOCK = ".running"
# How glibc manages the memory of a kit's own process, which only passes messages on.
# The processes of jobs, which compute, have glibc's defaults.
MALLOC = {
    # The size above which a block of memory is mapped on its own, and given back to the
    # system, so that a message leaves no hole. Unless it is set, glibc raises it to the
    # size of the largest block so far.
    "MALLOC_MMAP_THRESHOLD_": str(2**17),
    # Blocks that each thread keeps for itself: none. NVFlare adds threads over dozens
    # of studies, and what they keep pins memory beside it: 7 % more after 30 studies.
    "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0",
}
_LINE = re.compile(r"^\s*exec python3 (-u -m nvflare\.private\.\S+ .*)$", re.MULTILINE)


@final
@dataclass(frozen=True)
class ServerAddress:
    """The address of a kit's server, and the kit's own name.

    Attributes
    ----------
    host : str
        Host name, as in the server's certificate.
    port : int
        Its port for silos.
    participant : str
        The silo's name in its certificate.
    transport : str
        What carries the connection: ``"tcp"`` or ``"grpc"``.
    """

    host: str
    port: int
    participant: str
    transport: str


def address_of(kit: Path) -> ServerAddress:
    """Return the server's address in a silo's kit."""
    if (kind := kind_of(kit)) != "silo":
        raise StudyError(f"{kit} is a {kind}'s kit, not a silo's.")
    content = read_kit_file(kit / "startup" / "fed_client.json")
    try:
        service = content["servers"][0]["service"]
        host, port = service["target"].rsplit(":", 1)
        transport = str(service.get("scheme", ""))
        return ServerAddress(host, int(port), str(content["client"]["fqsn"]), transport)
    except (KeyError, IndexError, TypeError, ValueError) as wrong:
        raise StudyError(
            f"{kit}/startup/fed_client.json is not as NVFlare writes it. Get the kit "
            f"again from whoever provisioned the federation."
        ) from wrong


def check_connection(kit: Path) -> ServerAddress:
    """Connect to the server as the silo would, up to the TLS handshake.

    Where the kit's connections are gRPC's, that is through the proxy which
    ``https_proxy`` names.

    Parameters
    ----------
    kit : Path
        A silo's kit.

    Returns
    -------
    ServerAddress
        The server that answered, under the federation's own root certificate.

    Raises
    ------
    StudyError
        When there is no connection; the message says what to check.
    """
    address = address_of(kit)
    where = f"{address.host}, port {address.port}"
    try:
        through = proxy_for(address.host) if address.transport == "grpc" else None
        with connect(address.host, address.port, through, _PATIENCE) as plain:
            _shake_hands(kit, plain, address.host, where)
    except OSError as wrong:
        raise StudyError(
            f"{where} does not answer: {wrong.strerror or wrong}. Does the server run, "
            f"and does the firewall let connections out to this port? None need to "
            f"come in.{_on_proxies(address.transport)}",
            rule="absent",
        ) from wrong
    return address


def check_reachable(kit: Path) -> None:
    """Connect to the server as a coordinator's kit would, up to TCP.

    NVFlare itself reports a refused connection, an unknown name or an unreadable key
    only after its timeout, or by a traceback.

    Raises
    ------
    StudyError
        When there is no connection, or the kit's files cannot be read, or can be by
        others.
    """
    check_private(kit)
    _, plain = _dialled(kit)
    with plain:
        _certificates(kit)


def why_refused(kit: Path) -> str:
    """Return why a coordinator's kit and its server refuse each other, or nothing.

    The certificates are exchanged, which takes half a second where they are accepted.
    """
    try:
        (host, port), plain = _dialled(kit)
        with plain:
            _shake_hands(kit, plain, host, f"{host}, port {port}")
    except OSError:
        pass
    except StudyError as reason:
        return "" if reason.rule == "absent" else str(reason)
    return ""


def _dialled(kit: Path) -> tuple[tuple[str, int], socket.socket]:
    """Return the host and port of a coordinator's server, and a connection to it."""
    admin = read_kit_file(kit / "startup" / "fed_admin.json").get("admin", {})
    try:
        host, port = str(admin["host"]), int(admin["port"])
        transport = str(admin.get("scheme", ""))
    except (AttributeError, KeyError, TypeError, ValueError) as wrong:
        raise StudyError(
            f"{kit}/startup/fed_admin.json is not as NVFlare writes it. Get the kit "
            f"again from whoever provisioned the federation."
        ) from wrong
    try:
        through = proxy_for(host) if transport == "grpc" else None
        return (host, port), connect(host, port, through, _PATIENCE)
    except OSError as wrong:
        raise StudyError(
            f"{host}, port {port}, does not answer: {wrong.strerror or wrong}. Does "
            f"the server run, and does the firewall let connections out to this port?"
            f"{_on_proxies(transport)}",
            rule="absent",
        ) from wrong


def check_health(kit: Path) -> str:
    """Return that a server's or a silo's kit runs on this machine, in a sentence.

    Rows are not read and nothing is written.

    Raises
    ------
    StudyError
        When no process runs the kit, or the server does not answer.
    """
    if kind_of(kit) == "coordinator":
        raise StudyError(
            f"{kit} is the coordinator's kit, which no process runs. Which silos are "
            f"connected: unpooled desk --kit {shlex.quote(str(kit))}"
        )
    if is_locked(kit / _LOCK) is False:
        command = "serve" if kind_of(kit) == "server" else "silo start --kit"
        raise StudyError(
            f"No process runs the kit {kit}. Start it: unpooled {command} KIT"
        )
    if kind_of(kit) == "silo":
        address = check_connection(kit)
        return f"It runs, and {address.host}, port {address.port}, answers."
    for host, port in (addresses := _own_addresses(kit)):
        try:
            with socket.create_connection(("localhost", port), _PATIENCE) as plain:
                _shake_hands(kit, plain, host, f"port {port}")
        except OSError as wrong:
            raise StudyError(
                f"The server's port {port} does not answer: {wrong.strerror or wrong}."
            ) from wrong
    return f"It runs, and answers on {' and '.join(f'port {p}' for _, p in addresses)}."


def _shake_hands(kit: Path, plain: socket.socket, host: str, where: str) -> None:
    """Exchange certificates over an open connection; raise where one is refused."""
    context = _certificates(kit)
    # The root certificates of older NVFlare tools lack extensions that Python 3.13
    # requires in its strict mode. The server's host name is still checked.
    context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
    context.set_alpn_protocols(["h2"])  # without which gRPC ends the connection
    try:
        with context.wrap_socket(plain, server_hostname=host) as secure:
            # In TLS 1.3 a server rejects a certificate only after the handshake.
            secure.settimeout(0.5)
            with contextlib.suppress(TimeoutError):
                secure.recv(1)
    except ssl.SSLError as wrong:
        raise StudyError(
            f"{where} answers, but not as this federation's server: {wrong.reason}. "
            f"Compare the kit's certificates with the server's: are both of one "
            f"provisioning, and not expired? Is the clock of this machine right?"
        ) from wrong


def _certificates(kit: Path) -> ssl.SSLContext:
    """Return a context with a kit's certificates and key."""
    startup = kit / "startup"
    own = "server" if kind_of(kit) == "server" else "client"
    try:
        context = ssl.create_default_context(cafile=str(startup / "rootCA.pem"))
        context.load_cert_chain(startup / f"{own}.crt", startup / f"{own}.key")
    except PermissionError as wrong:
        raise StudyError(
            f"The certificates in {startup} cannot be read: {wrong.strerror}. Run the "
            f"command as the user who owns the kit."
        ) from wrong
    except (OSError, ssl.SSLError) as wrong:
        raise StudyError(
            f"The certificates in {startup} cannot be read: "
            f"{wrong.strerror or wrong}. Get the kit again from whoever provisioned "
            f"the federation."
        ) from wrong
    return context


def _on_proxies(transport: str) -> str:
    """Return a sentence where a proxy is named that the connection does not use."""
    if transport == "grpc" or not any(map(os.environ.get, PROXY_NAMES)):
        return ""
    return (
        f" The proxy that the environment names is not used: this federation's "
        f'connections are of transport "{transport}". Through a proxy go those '
        f'of a federation that was provisioned with transport = "grpc".'
    )


def expiry_of(kit: Path) -> datetime:
    """Return the date on which a kit's certificate expires."""
    from cryptography.x509 import load_pem_x509_certificate

    server = kind_of(kit) == "server"
    path = kit / "startup" / ("server.crt" if server else "client.crt")
    try:
        return load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc
    except (OSError, ValueError) as wrong:
        raise StudyError(f"Cannot read the certificate {path}: {wrong}.") from wrong


def days_left(kit: Path) -> float:
    """Return the days until a kit's certificate expires; negative once it has."""
    return (expiry_of(kit) - datetime.now(UTC)).total_seconds() / 86400.0


def expires_soon(kit: Path) -> str:
    """Return a warning in the last 30 days of a kit's certificate; else nothing."""
    if (days := days_left(kit)) > EXPIRES_SOON:
        return ""
    when = "has expired" if days < 0 else f"expires in {days:.0f} days"
    return (
        f"The certificate of this kit {when}. Ask whoever provisioned the federation "
        f"for a new folder `startup`; `local` and `state` stay."
    )


def look_after(kit: Path, log: logging.Logger) -> None:
    """Delete what old jobs left in a kit, and warn before its certificate expires."""
    try:
        prune(kit, kept_days(kit))
        if warning := expires_soon(kit):
            log.warning("%s", warning)
    except Exception:
        # A study must not fail for it.
        log.exception("The kit cannot be looked after")


def check_ports(kit: Path) -> None:
    """Raise a `StudyError` where a port of a server's kit is taken."""
    for _, port in _own_addresses(kit):
        with socket.socket() as tried:
            # As NVFlare's own socket has it: a port is free after a restart.
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                tried.bind(("", port))
            except OSError as wrong:
                raise StudyError(
                    f"The server cannot listen on port {port}: {wrong.strerror}. Stop "
                    f"the process that has the port, or provision with another one."
                ) from wrong


def _own_addresses(kit: Path) -> list[tuple[str, int]]:
    """Return the host name and each port of a server's kit."""
    content = read_kit_file(kit / "startup" / "fed_server.json")
    try:
        (server,) = content["servers"]
        host, port = server["service"]["target"].rsplit(":", 1)
        ports = [int(port), int(server["admin_port"])]
    except (KeyError, IndexError, TypeError, ValueError):
        return []  # not as NVFlare writes it: NVFlare says so itself
    return [(host, port) for port in dict.fromkeys(ports)]


@contextlib.contextmanager
def held(kit: Path) -> Iterator[None]:
    """Keep other processes from running the kit, in the body and in what replaces it.

    Raises
    ------
    StudyError
        When another process runs it, on this machine or on one that shares the drive;
        its number and machine are in the message.
    """
    handle, holder = os.open(kit / _LOCK, os.O_RDWR | os.O_CREAT, 0o600), "another"
    try:
        try:
            free = lock(handle)
        except OSError as wrong:
            raise StudyError(
                f"Nothing can keep a second process from running the kit {kit}, since "
                f"its drive has no locks: {wrong.strerror}. Move the kit to a local "
                f"disk."
            ) from wrong
        # For people: a full disk, or a drive that locks the content too, stops nothing.
        with contextlib.suppress(OSError):
            if free:
                os.truncate(handle, 0)
                os.write(handle, f"{os.getpid()} on {socket.gethostname()}".encode())
            else:
                holder = os.read(handle, 300).decode("utf-8", "replace") or holder
        if not free:
            raise StudyError(
                f"The kit {kit} is running already: process {holder}. One process at a "
                f"time may have its identity and its log."
            )
        # The process that replaces this one has the lock, and none that it starts.
        os.set_inheritable(handle, True)
        yield
    finally:
        os.close(handle)


def command_of(kit: Path) -> list[str]:
    """Return the command line that runs a server's or a silo's kit in the foreground.

    Parameters
    ----------
    kit : Path
        The kit of a server or silo. A server's is first set to keep jobs in itself.
    """
    kit = kit.resolve()
    kind = kind_of(kit)
    if kind == "coordinator":
        raise StudyError(
            f"{kit} is the coordinator's kit. It is not started; studies are run with "
            f"it: unpooled run STUDY --kit {shlex.quote(str(kit))}"
        )
    need_engine()
    if not (kit / "local" / "resources.json").is_file():
        # As NVFlare made it, the kit would let jobs name any of NVFlare's classes.
        raise StudyError(
            f"{kit} was not made by `unpooled provision`, and allows jobs that are no "
            f"studies. Get the kit again from whoever provisioned the federation."
        )
    if kind == "server":
        place_storage(kit)
    script = (kit / "startup" / "sub_start.sh").read_text("utf-8")
    found = _LINE.search(script)
    if found is None:
        raise StudyError(
            f"{kit}/startup/sub_start.sh is not as NVFlare 2.9 writes it. Install that "
            f"version, or provision again."
        )
    words = shlex.split(found.group(1))
    return [sys.executable, *(word.replace("$WORKSPACE", str(kit)) for word in words)]


def environment() -> dict[str, str]:
    """Return the environment in which a kit runs."""
    return {
        **os.environ,
        # As in NVFlare's own script: less memory is held idle between rounds.
        "MALLOC_ARENA_MAX": os.environ.get("MALLOC_ARENA_MAX", "4"),
        **{name: os.environ.get(name, value) for name, value in MALLOC.items()},
        # Modules are imported from installed packages, never from the working folder.
        "PYTHONSAFEPATH": "1",
    }


def start(kit: Path, *, quiet: bool = False) -> NoReturn:
    """Replace this process by that of a kit that is `held`.

    Parameters
    ----------
    kit : Path
        Kit of a server or silo.
    quiet : bool, default False
        Write nothing to standard output: NVFlare writes the same to log.txt in the kit,
        of which it keeps ten files of at most 20 MB.
    """
    command = command_of(kit)
    check_private(kit)
    if kind_of(kit) == "server":
        check_ports(kit)
    (kit / "transfer").mkdir(exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    if quiet:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.execve(command[0], command, environment())
