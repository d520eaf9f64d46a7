"""Starting what a kit is for, and asking whether its server can be reached.

NVFlare's script of a kit starts a Python of its own choice, in the background. Here the
kit's process takes the place of this one: the same Python, in the foreground, so that
whatever supervises it sees it end, and its signals arrive.
"""

import contextlib
import json
import os
import re
import shlex
import socket
import ssl
import sys
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn, final

from unpooled.errors import StudyError
from unpooled.federation.nvflare.consortium import need_engine
from unpooled.federation.nvflare.hardening import kind_of, place_storage

_PATIENCE = 10.0  # seconds for a connection to the server
_LINE = re.compile(r"^\s*exec python3 (-u -m nvflare\.private\.\S+ .*)$", re.MULTILINE)


@final
@dataclass(frozen=True)
class Address:
    """Where a kit's server is, and who the kit says that it is.

    Attributes
    ----------
    host : str
        Host name, as in the server's certificate.
    port : int
        Of the connections of silos.
    participant : str
        The kit's own name.
    """

    host: str
    port: int
    participant: str


def address_of(kit: Path) -> Address:
    """Return where a silo's kit dials."""
    if (kind := kind_of(kit)) != "silo":
        raise StudyError(f"{kit} is a {kind}'s kit, not a silo's.")
    content = _startup(kit, "fed_client.json")
    try:
        host, port = content["servers"][0]["service"]["target"].rsplit(":", 1)
        return Address(host, int(port), str(content["client"]["fqsn"]))
    except (KeyError, IndexError, TypeError, ValueError) as wrong:
        raise StudyError(
            f"{kit}/startup/fed_client.json is not as NVFlare writes it. Get the kit "
            f"again from whoever provisioned the federation."
        ) from wrong


def check_connection(kit: Path) -> Address:
    """Connect to the server as the silo would, up to where TLS is agreed on.

    Parameters
    ----------
    kit : Path
        A silo's kit.

    Returns
    -------
    Address
        The server that answered, under the federation's own root certificate.

    Raises
    ------
    StudyError
        Why not, and what to look at.
    """
    address, startup = address_of(kit), kit / "startup"
    where = f"{address.host}, port {address.port}"
    context = ssl.create_default_context(cafile=str(startup / "rootCA.pem"))
    # NVFlare's certificates name the server's host, but root certificates of its older
    # tools lack what Python 3.13 asks for in its strict mode.
    context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
    context.load_cert_chain(startup / "client.crt", startup / "client.key")
    try:
        with (
            socket.create_connection((address.host, address.port), _PATIENCE) as plain,
            context.wrap_socket(plain, server_hostname=address.host) as secure,
        ):
            # In TLS 1.3 a server says no to a certificate only after the agreement.
            secure.settimeout(0.5)
            with contextlib.suppress(TimeoutError):
                secure.recv(1)
    except ssl.SSLError as wrong:
        raise StudyError(
            f"{where} answers, but not as this federation's server: {wrong.reason}. "
            f"Compare the kit's certificates with the server's: are both of one "
            f"provisioning, and not expired?"
        ) from wrong
    except OSError as wrong:
        raise StudyError(
            f"{where} does not answer: {wrong.strerror or wrong}. Does the server run, "
            f"and does the firewall let connections out to this port? None need to "
            f"come in."
        ) from wrong
    return address


def expiry_of(kit: Path) -> datetime:
    """Return until when a silo's or the coordinator's certificate is good."""
    from cryptography.x509 import load_pem_x509_certificate

    path = kit / "startup" / "client.crt"
    try:
        return load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc
    except (OSError, ValueError) as wrong:
        raise StudyError(f"Cannot read the certificate {path}: {wrong}.") from wrong


def command_of(kit: Path) -> list[str]:
    """Return the command line that runs a server's or a silo's kit in the foreground.

    Parameters
    ----------
    kit : Path
        The kit. A server's is told first to keep its jobs in itself.
    """
    kit = kit.resolve()
    kind = kind_of(kit)
    if kind == "coordinator":
        raise StudyError(
            f"{kit} is the coordinator's kit. It is not started; studies are run with "
            f"it: unpooled run STUDY --kit {kit}"
        )
    need_engine()
    if not (kit / "local" / "resources.json").is_file():
        # As NVFlare made it, the kit would let jobs name any of its classes.
        raise StudyError(
            f"{kit} was not made by `unpooled provision` and allows what a study must "
            f"not do. Get the kit again from whoever provisioned the federation."
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
        # As NVFlare's own script has it: less memory lies idle between rounds.
        "MALLOC_ARENA_MAX": os.environ.get("MALLOC_ARENA_MAX", "4"),
        # Modules come from what is installed, never from where it was started.
        "PYTHONSAFEPATH": "1",
    }


def start(kit: Path) -> NoReturn:
    """Become the process of a kit."""
    command = command_of(kit)
    (kit / "transfer").mkdir(exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(command[0], command, environment())


def _startup(kit: Path, name: str) -> dict[str, Any]:
    try:
        return json.loads((kit / "startup" / name).read_text("utf-8"))
    except (OSError, ValueError) as wrong:
        raise StudyError(f"Cannot read {kit}/startup/{name}: {wrong}.") from wrong
