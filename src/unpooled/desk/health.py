"""Checks of a silo before its next study: server, certificate, log, disk."""

import shutil
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from unpooled.errors import UnpooledError
from unpooled.federation.nvflare.hardening import check_hardened, check_private
from unpooled.federation.nvflare.startup_kits import check_connection, expiry_of
from unpooled.party.memory.audit_log import AuditLog
from unpooled.party.setup.pinning import trusted_keys
from unpooled.party.setup.silo_file import SiloFile
from unpooled.results.finding import Finding
from unpooled.results.formats import byte_size, counted

# Days before its end from which a certificate is a warning.
_SOON = 30
_LITTLE_DISK = 1_000_000_000
_PAGE = 4096
# The module that NVFlare runs a silo by.
_PROCESS = b"nvflare.private.fed.app.client.client_train"


def log_finding(silo: SiloFile) -> Finding:
    """Return whether the silo's log is intact, entry by entry."""
    what = "Log"
    if not silo.audit.exists():
        return Finding(what, "There is no log yet: this silo took part in no study.")
    try:
        # The keys that are pinned: who looks here may not have the private one.
        audit_log = AuditLog(silo.audit)
        audit_log.verify(trusted_keys(silo.roster)[silo.name])
        n = len(audit_log.entries())
        audit_log.close()
    except (UnpooledError, KeyError) as wrong:
        text = "the roster lacks this silo" if isinstance(wrong, KeyError) else wrong
        return Finding(what, f"Not intact: {text}", good=False)
    return Finding(
        what,
        f"Intact: {counted(n, 'entry', 'entries')}, each with the hash of all before "
        f"it, none altered, and this silo’s signatures hold. Entries cut off at its "
        f"end would show in the next study, to the other silos, which remember where "
        f"it ended.",
    )


def process_finding(kit: Path, processes: Path = Path("/proc")) -> Finding:
    """Return whether this silo's process runs on this machine.

    Parameters
    ----------
    processes : Path
        The system's folder of processes.
    """
    what, name = "This silo", str(kit.resolve()).encode()
    if not (processes / "self").exists():
        return Finding(what, "Whether its process runs cannot be told on this system.")
    for path in processes.glob("[0-9]*/cmdline"):
        # A process may end, or be another user's, while one looks.
        with suppress(OSError):
            words = path.read_bytes().split(b"\0")
            if name in words and _PROCESS in words:
                return Finding(what, "Its process runs, and takes part in studies.")
    return Finding(
        what,
        "No process of it was found on this machine, so it takes part in nothing now. "
        "Start it: unpooled silo start",
        good=False,
    )


def connection_finding(kit: Path) -> Finding:
    """Return whether the server answers this silo's kit; waits ten seconds at most."""

    def connected() -> str:
        address = check_connection(kit)
        return (
            f"Connected: {address.host}, port {address.port}, answers as this "
            f"federation’s server."
        )

    return Finding.of("Server", connected)


def certificate_finding(kit: Path, now: datetime | None = None) -> Finding:
    """Return how long the kit's certificate is valid."""
    what = "Certificate"
    try:
        until = expiry_of(kit)
    except UnpooledError as wrong:
        return Finding(what, str(wrong), good=False)
    days = (until - (now or datetime.now(UTC))).days
    end = f"{until.day} {until:%B %Y}"
    if days < 0:
        return Finding(what, f"Expired on {end}. Ask for a new kit.", good=False)
    left = f"Valid for {counted(days, 'more day')}, until {end}."
    if days < _SOON:
        left += " Ask for a new kit now."
    return Finding(what, left, good=days >= _SOON)


def kit_finding(kit: Path) -> Finding:
    """Return whether the kit allows no more than a study needs."""

    def restricted() -> str:
        check_hardened(kit)
        check_private(kit)
        return "Jobs can use this library’s class only, and bring no code."

    return Finding.of("Kit", restricted)


def rows_finding(silo: SiloFile) -> Finding:
    """Return whether the silo's rows, rules, key and roster can be read."""

    def readable() -> str:
        table, _, roster = silo.table(), silo.rules(), silo.pinned()
        return (
            f"{counted(table.n_rows, 'row')}, {counted(len(table.columns), 'column')}; "
            f"{counted(len(roster), 'silo')} on the roster, this one included."
        )

    return Finding.of("Rows and rules", readable)


def disk_finding(silo: SiloFile) -> Finding:
    """Return how much room there is for the log; without any, nothing leaves."""
    what, folder = "Disk", silo.audit.parent
    if not folder.exists():
        folder = silo.path.parent
    free = shutil.disk_usage(folder).free
    # SQLite writes beside its file first.
    parts = (silo.audit, silo.audit.with_name(f"{silo.audit.name}-wal"))
    size = sum(part.stat().st_size for part in parts if part.exists())
    text = f"{byte_size(free)} free. The log has {byte_size(size)}"
    full = False
    if silo.audit_pages is not None:
        most = silo.audit_pages * _PAGE
        text += f" of at most {byte_size(most)}"
        full = size > 0.9 * most
    good = free >= _LITTLE_DISK and not full
    more = "" if good else " Make room: a silo that cannot write its log sends nothing."
    return Finding(what, f"{text}.{more}", good=good)


def findings(kit: Path, silo: SiloFile) -> list[Finding]:
    """Return everything that was looked at."""
    return [
        process_finding(kit),
        connection_finding(kit),
        certificate_finding(kit),
        kit_finding(kit),
        rows_finding(silo),
        log_finding(silo),
        disk_finding(silo),
    ]
