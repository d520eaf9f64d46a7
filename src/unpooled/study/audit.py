"""Checking the folder of a run: its files against each other, and against silos' logs.

    ledger.jsonl   the chain, every seal, the keys of a roster        silos' logs:
    state.json     number of lines, last hash, finished steps    ──>  every line, and
    models/        class and digest of each step's model              delivered models
    report.html    the same as one written again from the folder

Nothing in the folder is changed, unlike by `RunFolder.open`, which repairs the end of a
file that a killed process left. An edit of any file is found, since the others disagree
with it. Somebody who writes a whole folder anew, report and digests included, cannot
sign for the silos: a roster shows that, or the silos' logs.
"""

import re
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from unpooled.data.toml import Section, read_text
from unpooled.errors import StudyError
from unpooled.ledger import Ledger
from unpooled.party.memory.audit_log import AuditLog
from unpooled.party.memory.studies import MODEL_SUFFIX
from unpooled.party.setup.pinning import trusted_keys
from unpooled.protocol.message import digest
from unpooled.results.finding import Finding
from unpooled.secure.keys.roster import Roster
from unpooled.secure.keys.spoken import spoken
from unpooled.study.reporting import facts_of_run
from unpooled.study.run_folder import RunFolder, RunState, digest_of
from unpooled.study.study_file import read_steps

# A report names the programs that wrote it: the same folder on another machine gives
# another text.
_VERSIONS = re.compile(r'<dl class="versions">.*?</dl>', re.DOTALL)


def audit(
    path: str | Path, *, roster: Path | None = None, logs: Sequence[Path] = ()
) -> list[Finding]:
    """Check the folder of a run; return all checks in their order.

    Parameters
    ----------
    path : str or Path
        The folder.
    roster : Path, optional
        A roster's file with the silos' public keys, present and former, from a source
        that is trusted. Without it the keys are
        those in the ledger, which shows edits but not an invented ledger.
    logs : sequence of Path
        Copies of silos' audit logs (SQLite files).

    Raises
    ------
    StudyError
        When the folder is not that of a run.
    """
    path = Path(path)
    state = RunState.read(path)
    checks = list[Finding]()

    def check(what: str, found: Callable[[], str]) -> bool:
        checks.append(Finding.of(what, found))
        return checks[-1].good

    ledger = Ledger()

    def read_ledger() -> str:
        nonlocal ledger
        ledger = _ledger(path)
        ledger.verify(None if roster is None else _trusted(roster, ledger))
        return f"{len(ledger)} lines, chained, each sealed by its silos."

    if not check("Ledger", read_ledger):
        # Everything else is compared with it.
        return checks
    check("Keys", lambda: _keys(ledger, roster, state))
    check("State", lambda: _state(path, state, ledger))
    if check("Models", lambda: _models(path, state)):
        check("Report", lambda: _report(path))
    for log in logs:
        check(f"Log {log}", lambda log=log: _log(log, path, state, ledger, roster))
    return checks


def _ledger(path: Path) -> Ledger:
    text = read_text(path / "ledger.jsonl") if (path / "ledger.jsonl").exists() else ""
    if text and not text.endswith("\n"):
        raise StudyError("The last line of ledger.jsonl is incomplete.")
    return Ledger.from_json(text)


def _trusted(roster: Path, ledger: Ledger) -> dict[str, tuple[bytes, ...]]:
    keys = trusted_keys(roster)
    if unknown := sorted(set(ledger.libraries) - set(keys)):
        raise StudyError(f"The roster does not have {', '.join(unknown)}.")
    return keys


def _keys(ledger: Ledger, roster: Path | None, state: RunState) -> str:
    keys: dict[str, set[str]] = {}
    for line in ledger:
        for party, seal in line.seals.items():
            keys.setdefault(party, set()).add(seal.key)
    if roster is not None:
        return "Those of the roster."
    several = sorted(party for party, own in keys.items() if len(own) > 1)
    if several and state.simulated and state.resumed:
        return (
            "Those of simulated silos, which have new ones each time that a run is "
            "continued. They prove nothing about who computed."
        )
    if several:
        raise StudyError(
            f"{', '.join(several)} sealed lines under more than one key. Ask the silo "
            f"whether it made a new identity during the study."
        )
    pinned = Roster({party: bytes.fromhex(key) for party, (key,) in keys.items()})
    return (
        f"Those in the ledger. Compare the digest of their roster with the silos by "
        f"phone: {spoken(pinned.digest())} ({pinned.digest()})"
    )


def _state(path: Path, state: RunState, ledger: Ledger) -> str:
    if state.digest != digest_of(read_text(path / "study.toml")):
        raise StudyError("study.toml is not the text that the run began with.")
    if not state.begins(ledger):
        raise StudyError(
            f"state.json counts {state.lines} lines of the ledger at the end of the "
            f"last finished step, with another last line: lines were cut or added."
        )
    if foreign := {line.study for line in ledger} - {state.study}:
        raise StudyError(f"The ledger has lines of {', '.join(sorted(foreign))}.")
    if foreign := set(ledger.libraries) - set(state.parties):
        raise StudyError(f"The ledger has seals of {', '.join(sorted(foreign))}.")
    done = "complete" if state.done else "not complete"
    return f"Study {state.study}, {done}, {len(state.finished)} steps finished."


def _models(path: Path, state: RunState) -> str:
    place = RunFolder(path, state, Ledger(), [])
    steps = read_steps(Section.from_text("study.toml", read_text(path / "study.toml")))
    planned = [(step.name, step.model) for step in steps]
    fitted = [(name, type(model).__name__) for name, model in place.models()]
    if fitted != planned[: len(fitted)]:
        raise StudyError(
            f"The folder models has {_listed(fitted)}, and study.toml asks for "
            f"{_listed(planned)}."
        )
    files = sorted((path / "models").glob(f"*{MODEL_SUFFIX}"))
    if len(files) != len(fitted):
        raise StudyError(
            f"The folder models has {len(files)} files for {len(fitted)} finished "
            f"steps."
        )
    known = place.digests()
    for name, former in known.items():
        if not (path / name).is_file():
            raise StudyError(f"{name} is missing.")
        if digest((path / name).read_bytes()) != former:
            raise StudyError(f"{name} was altered after it was written.")
    if known:
        noted = f"{len(known)} files as they were written"
    elif state.done:
        noted = "a run of version 0.1, which did not note their digests"
    else:
        noted = "their digests are noted once the run is complete"
    return f"{len(fitted)} models of the study's steps; {noted}."


def _listed(steps: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{name} ({model})" for name, model in steps) or "none"


def _report(path: Path) -> str:
    file = path / "report.html"
    if not file.exists():
        return "There is none."
    from unpooled.report.html import render

    written = file.read_text("utf-8")
    place = RunFolder.open(path)
    again = render(facts_of_run(place))
    if written == again:
        return "The same as one written again from ledger and models."
    head = place.ledger[-1].hash if len(place.ledger) else ""
    if head not in written:
        raise StudyError("report.html is of another ledger: its hash is not in it.")
    if _VERSIONS.findall(written) != _VERSIONS.findall(again):
        return (
            "Of this ledger. Other versions of programs wrote it, so that it cannot be "
            "compared word for word; `unpooled report` writes it again."
        )
    raise StudyError(
        "report.html differs from one written again from ledger and models: it was "
        "altered, or a model was."
    )


def _log(
    log: Path, path: Path, state: RunState, ledger: Ledger, roster: Path | None
) -> str:
    """Compare with a copy of a silo's log, of which nothing is changed."""
    with tempfile.TemporaryDirectory() as work:
        copy = Path(work) / "audit.sqlite"
        shutil.copy(log, copy)
        # What SQLite has not yet moved into the file itself.
        if (beside := log.with_name(f"{log.name}-wal")).exists():
            shutil.copy(beside, copy.with_name(f"{copy.name}-wal"))
        audit_log = AuditLog(copy)
        try:
            party = _silo_of(audit_log, state)
            # Other studies are in it, too, from times when the silo had another key.
            audit_log.verify(None if roster is None else trusted_keys(roster)[party])
            missing = audit_log.check_against(ledger, party)
            delivered = dict(audit_log.study(state.study).models)
        except StudyError as wrong:
            # By the name under which it was given.
            raise StudyError(str(wrong).replace(str(copy), str(log))) from wrong
        finally:
            audit_log.close()
    if missing:
        raise StudyError(
            f"The ledger lacks {missing} of the lines that {party} has of this study: "
            f"they were cut off, or the study was resumed elsewhere."
        )
    _compare_delivered(delivered, party, path)
    return (
        f"{party}: every line of the ledger that it sealed, none lacking; "
        f"{len(delivered)} delivered models as in the run."
    )


def _silo_of(audit_log: AuditLog, state: RunState) -> str:
    for line in audit_log.ledger(state.study):
        for party in line.seals:
            return party
    raise StudyError(f"This log has no line of the study {state.study}.")


def _compare_delivered(delivered: Mapping[str, str], party: str, path: Path) -> None:
    for name, sha in delivered.items():
        file = path / "models" / f"{name}{MODEL_SUFFIX}"
        file = path / "pipeline.unpooled" if name == "pipeline" else file
        if not file.is_file() or digest(file.read_bytes()) != sha:
            raise StudyError(
                f"The model {name} in the run is not the one that was delivered to "
                f"{party}."
            )
