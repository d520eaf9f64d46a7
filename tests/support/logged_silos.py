"""Silos with audit logs in a folder, which a test restarts or edits."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

import scribe
from unpooled import Policy
from unpooled.coordinator.channel import LocalChannel
from unpooled.coordinator.coordinator import Coordinator
from unpooled.data.sources.open_source import open_source
from unpooled.federation.federation import Federation
from unpooled.federation.layout import Layout
from unpooled.party.memory.audit_log import AuditLog
from unpooled.party.party import Party
from unpooled.protocol.message import Message, decode, encode
from unpooled.protocol.step import summed
from unpooled.secure.keys.roster import Identity, Roster
from wire import COLUMNS, Wire, rows

NAMES = "abcd"
IDENTITIES = {name: Identity() for name in NAMES}
TEXT = '[study]\nname = "s"\n'
QUICK = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@summed(out="")
def counted(X: np.ndarray) -> dict[str, np.ndarray]:
    return {"out": np.array(float(len(X)))}


@dataclass
class Place:
    """Silos with audit logs in a folder; `start` is a restart of all of them."""

    folder: Path
    parties: dict[str, Party]

    def start(self, **options) -> "Place":
        for name in NAMES:
            self.restart(name, **options)
        return self

    def restart(self, name: str, **options) -> None:
        roster = Roster({n: i.public for n, i in IDENTITIES.items()})
        pages = options.pop("max_pages", None)
        self.parties[name] = Party(
            name,
            open_source(rows(seed=ord(name))),
            options.pop("policy", Policy()),
            IDENTITIES[name],
            roster,
            audit_log=AuditLog(self.log(name), max_pages=pages),
            models=self.folder / f"{name}-models",
            **options,
        )

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.sqlite"

    def federation(self, names: str = "abc", study: str = "s", **more) -> Federation:
        channel = LocalChannel({n: self.parties[n].handle for n in names})
        roster = Roster({n: IDENTITIES[n].public for n in names})
        coordinator = Coordinator(Wire(channel), roster, study=study, **more)
        layout = Layout.of_rows(names, COLUMNS)
        return Federation(coordinator, layout=layout, named=False, label=None)

    def say(self, name: str, header: dict, arrays: dict | None = None) -> Message:
        return decode(self.parties[name].handle(encode(header, arrays or {})))


def a_round(journal: AuditLog, study: str = "s", lines: int = 2) -> None:
    scribe.a_round(journal, IDENTITIES["a"], study, lines)


@pytest.fixture
def place(tmp_path_factory) -> Place:
    return Place(tmp_path_factory.mktemp("silos"), {}).start()
