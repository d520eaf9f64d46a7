"""Silos whose logs are files: each job of a federation is a process of its own."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

from unpooled.data.sources.open_source import open_source
from unpooled.party.memory.audit_log import AuditLog
from unpooled.party.party import Party
from unpooled.party.rules.policy import Policy
from unpooled.protocol.message import joined
from unpooled.secure.keys.roster import Identity, Roster


@final
class Jobs:
    """Silos with logs in a folder.

    Parameters
    ----------
    folder : Path
        Of the logs.
    tables : mapping of str to object
        What `open_source` reads, by silo.
    label : str, optional
        The column of the label.
    policy : mapping, optional
        Of every silo.
    """

    def __init__(
        self,
        folder: Path,
        tables: Mapping[str, Any],
        label: str | None = None,
        policy: Mapping[str, Any] | None = None,
    ) -> None:
        self.tables, self._folder, self._label = dict(tables), folder, label
        self._policy = Policy.of(policy)
        self._identities = {name: Identity() for name in tables}
        keys = {name: one.public for name, one in self._identities.items()}
        self.roster = Roster(keys)

    def log(self, name: str) -> AuditLog:
        """Open a silo's log."""
        return AuditLog(self._folder / f"{name}.sqlite")

    def start(self) -> "Job":
        """Start another process in each silo."""
        parties = {
            name: Party(
                name,
                open_source(table, label=self._label),
                self._policy,
                self._identities[name],
                self.roster,
                audit_log=self.log(name),
            )
            for name, table in self.tables.items()
        }
        return Job(parties, self.roster)


@final
class Job:
    """The doors of one job's processes, for a rogue coordinator."""

    def __init__(self, parties: dict[str, Party], roster: Roster) -> None:
        self.parties, self.roster = parties, roster

    def answers(self, requests: Mapping[str, bytes]) -> dict[str, bytes]:
        """Knock at doors."""
        return {p: joined(self.parties[p].handle(data)) for p, data in requests.items()}
