"""The members of a federation: its file, and their definitions for NVFlare."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, final

from unpooled.data.toml import Section, read_text
from unpooled.errors import StudyError
from unpooled.federation.nvflare.hardening import ROLE

# What carries the connections; inside is TLS, with certificates both ways. NVFlare's
# driver for "http" asks no proxy, and gRPC does.
TRANSPORTS = ("tcp", "grpc")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,61}[A-Za-z0-9])?")
_PERSON = re.compile(r"[A-Za-z0-9._%+-]{1,30}@[A-Za-z0-9.-]{1,24}\.[A-Za-z]{2,8}")
_ORGANISATION = re.compile(r"[A-Za-z0-9_]{1,40}")


@final
@dataclass(frozen=True)
class Consortium:
    """The members of a federation: the content of its file.

    Attributes
    ----------
    name : str
        Name of the federation and of its root certificate.
    server : str
        Host name of the server; silos and coordinator connect to it.
    port, admin_port : int
        Its ports for silos and for the coordinator; no other machine listens.
    coordinator : str
        The person who submits studies, as name@organisation.
    silos : mapping of str to str
        The organisation of each silo.
    transport : str
        ``"tcp"``, or ``"grpc"``, which passes HTTP CONNECT proxies.
    """

    name: str
    server: str
    port: int
    admin_port: int
    coordinator: str
    silos: Mapping[str, str]
    transport: str = TRANSPORTS[0]

    @classmethod
    def from_file(cls, path: str | Path) -> "Consortium":
        """Read a federation's file.

        Parameters
        ----------
        path : str or Path
            A TOML file with [federation] and one [silos.<name>] per silo.

        Raises
        ------
        StudyError
            With file and key of what is wrong.
        """
        path = Path(path).expanduser()
        top = Section.from_text(path.name, read_text(path))
        top.only(("federation", "silos"), "table")
        head, silos = top.section("federation"), top.section("silos")
        head.only(("name", "server", "port", "admin_port", "coordinator", "transport"))
        port = _port(head, "port", 8002)
        return cls(
            name=head.name("name"),
            server=_matching(head, "server", _HOST, "a host name"),
            port=port,
            admin_port=_port(head, "admin_port", port + 1),
            coordinator=_matching(
                head, "coordinator", _PERSON, "a person, as name@organisation.org"
            ),
            silos=_organisations(silos, head.required("server")),
            transport=head.text("transport", choices=TRANSPORTS) or TRANSPORTS[0],
        )

    @property
    def organisation(self) -> str:
        """The coordinator's organisation, which also runs the server."""
        return re.sub(r"\W", "_", self.coordinator.partition("@")[2])

    def participants(self) -> list[dict[str, Any]]:
        """Return server, coordinator and silos as NVFlare's project files name them."""
        server = {
            "name": self.server,
            "type": "server",
            "org": self.organisation,
            "fed_learn_port": self.port,
            "admin_port": self.admin_port,
        }
        coordinator = {
            "name": self.coordinator,
            "type": "admin",
            "org": self.organisation,
            "role": ROLE,
        }
        silos = [
            {"name": name, "type": "client", "org": organisation}
            for name, organisation in self.silos.items()
        ]
        return [server, coordinator, *silos]

    def kit_of(self, participant: str) -> Path:
        """Return the path of a participant's kit within the folder of all kits."""
        if participant in self.silos:
            return Path("silos") / participant
        return Path("server" if participant == self.server else "coordinator")


def need_engine() -> None:
    """Raise a `StudyError` where NVFlare is not installed."""
    if find_spec("nvflare") is None:
        raise StudyError(
            "Studies between organisations need NVFlare, which is not installed. "
            'Install it with: pip install "unpooled[nvflare]"'
        )


def builders(transport: str) -> list[dict[str, Any]]:
    """Return NVFlare's builders of kits, as its project files name them."""
    base = "nvflare.lighter.impl"
    static = {
        "config_folder": "config",
        "scheme": transport,
        "require_signed_jobs": True,
    }
    return [
        {"path": f"{base}.workspace.WorkspaceBuilder"},
        {"path": f"{base}.static_file.StaticFileBuilder", "args": static},
        {"path": f"{base}.cert.CertBuilder"},
    ]


def _organisations(silos: Section, server: str) -> dict[str, str]:
    organisations: dict[str, str] = {}
    for name in silos:
        silos.check_name(name, name)
        # Names become those of folders and of certificates.
        if name.casefold() in {server.casefold(), *map(str.casefold, organisations)}:
            silos.fail(name, "is another member's name too, in this or another case")
        silo = silos.section(name)
        silo.only(("organisation",))
        organisation = name.replace("-", "_")
        if "organisation" in silo:
            what = 'a name of letters, digits and "_"'
            organisation = _matching(silo, "organisation", _ORGANISATION, what)
        organisations[name] = organisation
    if not organisations:
        silos.fail("", "needs at least one silo, [silos.<name>]")
    return organisations


def _matching(section: Section, key: str, form: re.Pattern[str], what: str) -> str:
    value = section.required(key)
    if not form.fullmatch(value):
        section.fail(key, f'"{value}" is not {what}')
    return value


def _port(section: Section, key: str, default: int) -> int:
    value = section.whole(key)
    if value is not None and not 1 <= value <= 65535:
        section.fail(key, f"must be a port from 1 to 65535, not {value}")
    return default if value is None else value
