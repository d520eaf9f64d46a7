"""A silo's own file: the source of its rows, its rules, its key, and its roster.

    KIT/local   silo.toml  identity.key  roster.toml  policy.toml
    KIT/state   audit.sqlite  models/  results/

Read in the silo only; nothing of it travels. Relative paths start at the file's folder.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from unpooled.data.atomic_file import replacing
from unpooled.data.row_filter import FILTER_KEYS, filter_keys
from unpooled.data.sources.database_address import anchored, where_paths_start
from unpooled.data.sources.file_format import FORMAT_KEYS, format_keys
from unpooled.data.sources.open_source import open_source
from unpooled.data.table import Table
from unpooled.data.toml import Section, read_text
from unpooled.errors import DataError, StudyError
from unpooled.party.following import Follow
from unpooled.party.memory.audit_log import AuditLog
from unpooled.party.memory.kept_arrays import KeptArrays
from unpooled.party.memory.studies import kept_of_fit
from unpooled.party.party import Party
from unpooled.party.rules.policy import Policy
from unpooled.party.setup.locked_key import is_locked, locked, opened, password_here
from unpooled.party.setup.notices import notifier
from unpooled.posix import keep_private, others_may_read
from unpooled.secure.keys.roster import Identity, Roster

_KEYS = (
    "name",
    "source",
    "label",
    "ids",
    "partition",
    "columns",
    "exclude",
    "categorical",
    "missing",
    "plausible",
    "block_mb",
    *FORMAT_KEYS,
    *FILTER_KEYS,
    "policy",
    "identity",
    "roster",
    "audit",
    "audit_pages",
    "models",
    "approval",
    "keep_jobs_days",
    "notify",
)


# What NVFlare writes into the kits that are no silo's.
_OTHER_KITS = {"server": "fed_server.json", "coordinator": "fed_admin.json"}


@final
@dataclass(frozen=True)
class SiloFile:
    """The content of a silo's file.

    Attributes
    ----------
    path : Path
        The file.
    name : str
        As every roster has it.
    source : str
        A file, or a database's address.
    label, ids : str or None
        Columns that travel along and are never features.
    partition : {"rows", "columns"}
        Kind of studies that the silo takes part in: the other silos have the same
        columns about other people, or other columns about the same people.
    columns : tuple of str or None
        The only columns that studies may read; None for all but `exclude`.
    exclude : tuple of str
        Columns that no study may read, such as those that hold free text.
    categorical : tuple of str
        Columns of categories, such as text: see `open_source`.
    missing : mapping of str to list of float and str
        Per column, the cell values that mean missing.
    plausible : mapping of str to list of float
        Per column, the smallest and largest plausible value: with a cell outside, the
        silo takes part in nothing, and says so here alone.
    block_mb : float or None
        Megabytes that a block of rows may take in memory; None for 64.
    format : mapping of str to str
        Separator, decimal, encoding or sheet of the source, and a mapping of names
        that are others there (`rename`), as of `open_source`.
    rows : mapping of str to str
        Which rows studies read, `where` and `unlabelled` of `open_source`.
    policy, identity, roster : Path
        The silo's rules, its private key, the public keys that it pins.
    audit : Path
        The audit log.
    audit_pages : int or None
        Its largest size, in SQLite's pages of 4,096 bytes; beyond it nothing leaves.
    keep_jobs_days : float or None
        Days after which the folders of old jobs are deleted from the kit; None for 30.
    notify : tuple of str
        The command that is run with an event and a study's name; see `notices`.
    models : Path
        Folder for fitted models that studies delivered.
    approval : {"none", "each-study"}
        Whether a person must approve a study before it may begin.
    """

    path: Path
    name: str
    # Not in the repr: the address of a database may hold a password.
    source: str = field(repr=False)
    label: str | None
    ids: str | None
    partition: str
    columns: tuple[str, ...] | None
    exclude: tuple[str, ...]
    categorical: tuple[str, ...]
    missing: Mapping[str, list[float | str]]
    plausible: Mapping[str, list[float]]
    block_mb: float | int | None
    format: Mapping[str, Any]
    rows: Mapping[str, Any]
    policy: Path
    identity: Path
    roster: Path
    audit: Path
    audit_pages: int | None
    keep_jobs_days: float | int | None
    notify: tuple[str, ...]
    models: Path
    approval: str

    @classmethod
    def from_file(cls, path: str | Path) -> "SiloFile":
        """Read a silo's file; a mistake is a `StudyError` with file and key."""
        path = Path(path).expanduser().absolute()
        if not path.exists():
            for kind, name in _OTHER_KITS.items():
                if (path.parents[1] / "startup" / name).exists():
                    raise StudyError(
                        f"{path.parents[1]} is the {kind}'s kit, and no silo's: this "
                        f"command is for the kit of a silo."
                    )
            raise StudyError(
                f"There is no file {path}: this silo is not set up. `unpooled silo "
                f"init --kit KIT --source ROWS` writes it."
            )
        top = Section.from_text(path.name, read_text(path))
        top.only(("silo",), "table")
        own = top.section("silo")
        own.only(_KEYS)

        def file(key: str, default: str) -> Path:
            return path.parent / Path(own.text(key) or default).expanduser()

        return cls(
            path=path,
            name=own.name("name"),
            source=anchored(own.required("source"), path.parent),
            label=own.text("label"),
            ids=own.text("ids"),
            partition=own.text("partition", choices=("rows", "columns")) or "rows",
            columns=own.names("columns"),
            exclude=own.names("exclude") or (),
            categorical=own.names("categorical") or (),
            missing=own.codes("missing"),
            plausible=own.ranges("plausible"),
            block_mb=own.number("block_mb"),
            format=format_keys(own),
            rows=filter_keys(own),
            policy=file("policy", "policy.toml"),
            identity=file("identity", "identity.key"),
            roster=file("roster", "roster.toml"),
            audit=file("audit", "../state/audit.sqlite"),
            audit_pages=_pages(own),
            keep_jobs_days=_days(own),
            notify=own.names("notify") or (),
            models=file("models", "../state/models"),
            approval=own.text("approval", choices=("none", "each-study")) or "none",
        )

    @classmethod
    def of_kit(cls, kit: Path) -> "SiloFile":
        """Read the file of the silo whose startup kit is in a folder."""
        return cls.from_file(kit / "local" / "silo.toml")

    @property
    def matches(self) -> Path:
        """Folder of the files with the place of each row in a study."""
        return self.audit.parent / "matches"

    @property
    def results(self) -> Path:
        """Folder of what the silo keeps of each study by columns, as files."""
        return self.audit.parent / "results"

    def kept(self, address: str) -> KeptArrays:
        """Return the arrays that this silo's steps kept of a fit; see `kept_of_fit`."""
        # Opening a log would make one.
        if not self.audit.exists():
            return KeptArrays(address, ())
        return kept_of_fit(AuditLog(self.audit), address)

    def table(self) -> Table:
        """Open the source; raise a `DataError` where it cannot be read."""
        try:
            return open_source(
                self.source,
                label=self.label,
                ids=self.ids,
                columns=self.columns,
                exclude=self.exclude,
                categorical=self.categorical,
                missing=self.missing,
                plausible=self.plausible,
                block_mb=self.block_mb,
                **self.format,
                **self.rows,
            )
        except DataError as wrong:
            start = where_paths_start(self.source, self.path)
            raise DataError(f"{wrong}{start}", rule=wrong.rule) from wrong

    def rules(self) -> Policy:
        """Read the policy; without its file nothing runs."""
        return Policy.from_file(self.policy)

    def pinned(self) -> Roster:
        """Read the roster; it must have this silo under its own key."""
        roster = Roster.from_file(self.roster)
        if roster.get(self.name) != self.key().public:
            raise StudyError(
                f"{self.roster} does not have {self.name} under the key in "
                f"{self.identity.name}. Put in the line that `silo init` wrote."
            )
        return roster

    def key(self) -> Identity:
        """Read the identity key."""
        return read_identity(self.identity)

    def check_name(self, participant: str) -> None:
        """Raise a `StudyError` for a kit that was made for another silo."""
        if participant != self.name:
            raise StudyError(
                f"{self.path} is of {self.name}, but the kit was made for "
                f"{participant}. Each silo needs its own kit."
            )

    def party(self, follow: Follow | None = None) -> Party:
        """Return a party with the silo's rows, rules, key, roster and audit log.

        Parameters
        ----------
        follow : Follow, optional
            As of `Party`: needed wherever requests come from somebody else.
        """
        self.audit.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        return Party(
            self.name,
            self.table(),
            self.rules(),
            self.key(),
            self.pinned(),
            audit_log=AuditLog(self.audit, max_pages=self.audit_pages),
            approval=self.approval,
            models=self.models,
            partition=self.partition,
            matches=self.matches,
            results=self.results,
            follow=follow,
            notify=notifier(self.notify) if self.notify else None,
        )


def _pages(own: Section) -> int | None:
    pages = own.whole("audit_pages")
    if pages is not None and pages < 1:
        own.fail("audit_pages", f"must be at least 1, not {pages}")
    return pages


def _days(own: Section) -> float | int | None:
    days = own.number("keep_jobs_days")
    if days is not None and not 0.0 < days < 1e6:
        own.fail("keep_jobs_days", f"must be above 0, not {days}")
    return days


def read_identity(path: Path) -> Identity:
    """Read a private key that only its owner may read."""
    try:
        if others_may_read(path):
            raise StudyError(
                f"Other users of this machine may read {path}. Make it "
                f"private (chmod 600); if others were able to copy it, make a new key."
            )
        return Identity(opened(path.read_text("ascii").strip(), path))
    except (OSError, ValueError) as wrong:
        # Without the file's content: part of it may be the key.
        what = wrong.strerror if isinstance(wrong, OSError) else "it is no key"
        raise StudyError(
            f"Cannot read the identity key {path}: {what}. `unpooled silo init` makes "
            f"one where there is none."
        ) from None


def write_identity(path: Path, identity: Identity) -> None:
    """Replace a private key; one that was encrypted stays so, by the same password."""
    former = path.read_text("ascii") if path.exists() else ""
    text = identity.private_bytes().hex()
    if is_locked(former):
        text = locked(identity.private_bytes(), password_here(path))
    with replacing(path) as stream:
        keep_private(stream)
        stream.write(text.encode() + b"\n")


def make_identity(path: Path) -> Identity:
    """Make a private key in a new file that only its owner may read."""
    identity = Identity()
    # Created with its final rights: never readable, not even for a moment.
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(identity.private_bytes().hex() + "\n")
    return identity
