"""The silo's audit log: every release, for whom, and under which roster.

    announced ── decided ── joined ── line, line, round ── ... ── delivered ── forgotten

Written before a reply leaves, in one transaction, so that a process killed at any point
leaves either all of a round or nothing of it. After a restart it is the memory of the
silo's earlier answers and of their rosters. A log that cannot be written (a full disk,
a size limit) stops the release: it fails closed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, final

from unpooled.errors import StudyError
from unpooled.ledger import Ledger, Release
from unpooled.party.memory.audit_state import AuditState, LoggedStudy, Ran
from unpooled.party.memory.hash_chain import Entry, HashChain, is_signed
from unpooled.party.rules.released_share import OpenedNumbers
from unpooled.protocol.answered import Answered
from unpooled.protocol.message import digest
from unpooled.secure.keys.roster import Identity

# Entries that a party writes alone carry its signature.
_SIGNED = ("round", "joined")
# What the log must remember of a round beside it: a kind of entry, and its record.
Note = tuple[str, dict[str, Any]]


@final
class AuditLog:
    """A silo's audit log, in a file that several processes may use.

    Parameters
    ----------
    path : str or Path, optional
        The SQLite file; made when absent. Without it the log is kept in memory and ends
        with the process, as in simulations.
    max_pages : int, optional
        SQLite's limit on the file, in pages of 4,096 bytes.

    Raises
    ------
    StudyError
        When the file cannot be opened, or was altered.
    """

    def __init__(
        self, path: str | Path | None = None, *, max_pages: int | None = None
    ) -> None:
        self.path = None if path is None else Path(path)
        self._refusals: set[tuple[str, str, str]] = set()
        self._state = AuditState()
        self._chain = HashChain(self.path, max_pages, self._state.see)
        self._chain.catch_up()

    def study(self, name: str) -> LoggedStudy:
        """Return the state of a study, as the log has it by now."""
        self._chain.catch_up()
        return self._state.studies.get(name, LoggedStudy())

    def studies(self) -> list[str]:
        """Return the names of the studies in the order in which they came up."""
        self._chain.catch_up()
        return list(self._state.studies)

    @property
    def n_entries(self) -> int:
        """How many entries were read so far, those of other processes included."""
        return self._chain.number

    def entries(self, study: str | None = None) -> list[Entry]:
        """Return all entries, or those of one study."""
        entries = self._chain.entries()
        return [entry for entry in entries if study in (None, entry.study)]

    def ledger(self, study: str) -> Ledger:
        """Return the ledger lines of a study as this silo wrote them."""
        records = self._chain.records("line", study)
        return Ledger([Release.from_record(record) for record in records])

    def state(self) -> AuditState:
        """Return the state after all entries so far, also those of other processes."""
        self._chain.catch_up()
        return self._state

    def answered(self) -> Iterator[Answered]:
        """Yield the answered rounds of all studies."""
        self._chain.catch_up()
        for study in self._state.studies.values():
            yield from study.answered.values()

    def spent(self) -> float:
        """Return the ρ charged for private releases, all together."""
        self._chain.catch_up()
        return self._state.spent

    def released(
        self,
        identity: Identity,
        lines: Sequence[Release],
        *,
        ran: Ran,
        request: str,
        answered: Answered,
        columns: Sequence[str],
        parties: Sequence[str],
        table: str,
        rows: Sequence[int] | None,
        notes: Sequence[Note] = (),
        opened: Callable[[OpenedNumbers], dict[str, Any]] | None = None,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """Write one round: its lines, the step that ran, and for which parties.

        Parameters
        ----------
        identity : Identity
            The silo's; signs the log up to here.
        lines : sequence of Release
            With seals whose sequence continues that of the study's earlier lines.
        ran : (str, tuple of str)
            The step and the transforms before it.
        request : str
            SHA-256 of the request.
        answered : Answered
            The record of the round.
        columns : sequence of str
            Source columns that the step read.
        parties : sequence of str
            The roster of the session.
        table : str
            Name of the version of the silo's table.
        rows : sequence of int or None
            The blocks of the table that were selected; None of all rows.
        notes : sequence of (str, dict)
            What later rounds are compared with, beside the round itself.
        opened : callable, optional
            Returns what the round opens, beside what was opened before, when no other
            process can write any more; it may still refuse.
        check : callable, optional
            Called when no other process can write any more; it may still refuse.

        Raises
        ------
        StudyError
            Under the rule "audit_log" when the log cannot be written, or
            "out_of_order" when another process went on with the study meanwhile; then
            nothing was written.
        """
        study = lines[0].study
        first = next(iter(lines[0].seals.values()))

        def in_order() -> None:
            logged = self._state.studies.get(study, LoggedStudy())
            if logged.sealed.get(first.key, 0) != first.sequence:
                raise StudyError(
                    f"Another process answers the study {study} at the same time.",
                    rule="out_of_order",
                )
            check()
            if opened is not None:
                record["opened"] = opened(self._state.opened)

        step, front = ran
        entries = [(kind, "", note) for kind, note in notes]
        entries += [("line", study, line.as_record()) for line in lines]
        record = {
            "session": answered.session,
            "step": step,
            "front": list(front),
            "columns": list(columns),
            "parties": list(parties),
            "table": table,
            "rows": None if rows is None else list(rows),
            "round": lines[0].round,
            "lines": len(lines),
            "request": request,
            "answered": answered.as_record(),
        }
        if self.study(study).keys.get(answered.session) == answered.keys:
            # Repeated in every round, the keys of many silos would be most of the log.
            del record["answered"]["keys"]
        self._chain.append([*entries, ("round", study, record)], identity, in_order)

    def charged(
        self, study: str, step: str, rho: float, check: Callable[[], None]
    ) -> None:
        """Write what a private release costs, before anything is computed for it.

        Parameters
        ----------
        rho : float
            The cost in zero-concentrated differential privacy.
        check : callable
            Called when no other process can write any more; it may still refuse.
        """
        self._chain.append(
            [("charged", study, {"step": step, "rho": rho})], None, check
        )

    def refunded(self, study: str, step: str, rho: float) -> None:
        """Write that a private release was charged, and could not be made."""
        self._chain.append([("refunded", study, {"step": step, "rho": rho})])

    def joined(
        self, identity: Identity, study: str, session: str, keys: Mapping[str, str]
    ) -> str:
        """Write that the silo joined a session; refuse to join it a second time.

        Parameters
        ----------
        keys : mapping of str to str
            The parties of the session, with the public keys that are pinned.

        Returns
        -------
        str
            The head of the log: the hash of all entries up to this one.
        """

        def unseen() -> None:
            if session in self._state.studies.get(study, LoggedStudy()).sessions:
                raise StudyError(
                    f"The session {session} of {study} is over.", rule="replayed"
                )

        record = {"session": session, "parties": list(keys), "keys": dict(keys)}
        return self._chain.append([("joined", study, record)], identity, unseen)

    def pin(self, study: str, heads: Mapping[str, str]) -> None:
        """Write the heads of the other silos' logs, by public key in hexadecimal."""
        self._chain.append([("heads", study, {"heads": dict(heads)})])

    def announced(self, study: str, text: str) -> None:
        """Write the announced text of a study, unless it is the present one."""
        if self.study(study).text != text:
            self._chain.append([("announced", study, {"text": text})])

    def decided(
        self,
        study: str,
        *,
        approved: bool,
        steps: Sequence[str] = (),
        by: str = "",
        reason: str = "",
        text: str | None = None,
    ) -> None:
        """Write what a person decided about a study's text.

        Parameters
        ----------
        approved : bool
            Whether the study may be joined.
        steps : sequence of str
            Steps that may run in it, with ``*`` as wildcard.
        by : str
            Who decided.
        reason : str
            Why, in the person's words.
        text : str, optional
            The text that the person read; the present one when omitted. A text that was
            announced meanwhile waits for a decision of its own.
        """
        present = self.study(study).text
        text = present if text is None else text
        if not present:
            raise self.unknown(study)
        record = {"approved": approved, "text": digest(text.encode())}
        record |= {"steps": list(steps), "by": by}
        record |= {"reason": reason} if reason else {}
        self._chain.append([("decided", study, record)])

    def unknown(self, study: str) -> StudyError:
        """Return the error about a study that was not announced."""
        return StudyError(
            f"No study {study} was announced to this silo. Announced studies: "
            f"{', '.join(self.studies()) or 'none'}."
        )

    def delivered(self, study: str, name: str, content: str, size: int) -> None:
        """Write that a fitted model came in, with the SHA-256 of its file."""
        record = {"name": name, "digest": content, "bytes": size}
        self._chain.append([("delivered", study, record)])

    def resumed(self, study: str, logged: LoggedStudy) -> None:
        """Write what an earlier process of a simulation logged of a study."""
        self._chain.append([("resumed", study, logged.as_record())])

    def forgotten(self, study: str, models: Sequence[str]) -> None:
        """Write that the arrays and models of a study were deleted."""
        self._chain.append([("forgotten", study, {"models": list(models)})])

    def refused(
        self,
        study: str,
        asked: str,
        rule: str,
        question: str = "",
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """Write that a rule refused a request, once per process.

        With a `question` the refusal depends on rows, and is written always: the limit
        on refusals is over all processes. Then `check` is called when no other process
        can write any more; it may still refuse.
        """
        study, asked = study[:100], asked[:100]
        known = (study, asked, rule) in self._refusals
        if not question and (known or len(self._refusals) >= 256):
            return
        self._refusals.add((study, asked, rule))
        record = {"asked": asked, "rule": rule, "telling": bool(question)}
        record |= {"question": question} if question else {}
        may_still_refuse = check if question else lambda: None
        self._chain.append([("refused", study, record)], None, may_still_refuse)

    def compared(
        self,
        study: str,
        parties: Sequence[str],
        table: str,
        columns: Sequence[str],
        check: Callable[[], None],
    ) -> None:
        """Write that constant columns are compared with those of other silos.

        Parameters
        ----------
        study : str
            The study that is planned.
        parties : sequence of str
            The silos that compare.
        table : str
            Name of the version of the silo's table.
        columns : sequence of str
            The columns.
        check : callable
            Called when no other process can write any more; it may still refuse.
        """
        record = {"parties": list(parties), "table": table, "columns": list(columns)}
        self._chain.append([("compared", study, record)], None, check)

    def pardoned(self, by: str) -> None:
        """Write that a person has the refusals forgotten that depended on rows."""
        self._chain.append([("pardoned", "", {"by": by})])

    def notes(self, kind: str) -> list[dict[str, Any]]:
        """Return the notes of one kind; see `AuditState`."""
        return list(self.state().notes[kind])

    def known_arguments(self) -> set[str]:
        """Return the SHA-256 of all arrays that were arguments of answered requests."""
        self._chain.catch_up()
        return {
            value["array"]
            for study in self._state.studies.values()
            for answered in study.answered.values()
            for value in answered.public.values()
            if isinstance(value, dict) and "array" in value
        }

    def note(self, kind: str, record: dict[str, Any]) -> None:
        """Write a note that belongs to no study and to no round, once."""
        if record not in self.notes(kind):
            self._chain.append([(kind, "", record)])

    def check_writable(self) -> None:
        """Raise a `StudyError` where no entry could be written; none is written now."""
        self._chain.check_writable()

    def verify(self, keys: Sequence[bytes] | None = None) -> bool:
        """Check the file, the chain, its signatures, and every study's ledger.

        Parameters
        ----------
        keys : sequence of bytes, optional
            The silo's public keys, present and former. Without them the keys written
            in the file are used, which shows edits but not an invented log.

        Returns
        -------
        bool
            True; otherwise a `StudyError` names the first bad entry. Entries missing at
            the end only show beside a coordinator's ledger: see `check_against`.
        """
        self._chain.check_file()
        lines = 0
        for entry in self._chain.entries():
            good = not (entry.kind in _SIGNED or entry.signature) or is_signed(
                entry, keys
            )
            if entry.kind == "round":
                good = good and entry.record["lines"] == lines
            lines = lines + 1 if entry.kind == "line" else 0
            if not good:
                what = f"Entry {entry.number} of the audit log {self.path} is"
                if is_signed(entry, None):
                    key = entry.signature[:64]
                    raise StudyError(
                        f"{what} signed with the key {key}, which is none of this "
                        f"silo's on the roster. If the silo had it before it made a "
                        f"new identity: unpooled silo log --verify --former-key {key}",
                        rule="audit_log",
                    )
                raise StudyError(
                    f"{what} not signed by this silo as it is written there.",
                    rule="audit_log",
                )
        for study in self.studies():
            self.ledger(study).verify()
        return True

    def check_against(self, ledger: Ledger, party: str) -> int:
        """Compare with a coordinator's ledger, which shows a log cut at its end.

        Parameters
        ----------
        ledger : Ledger
            Ledger of one study or several.
        party : str
            This silo's name there.

        Returns
        -------
        int
            Number of lines of this silo in the same studies that the ledger lacks:
            replies that the coordinator never wrote down.

        Raises
        ------
        StudyError
            At the first line of the ledger that the silo's log lacks.
        """
        theirs = [line for line in ledger if party in line.seals]
        own = {
            line.seals[party]
            for study in {line.study for line in theirs}
            for line in self.ledger(study)
            if party in line.seals
        }
        for number, line in enumerate(ledger):
            if party in line.seals and line.seals[party] not in own:
                raise StudyError(
                    f"Line {number} of the ledger ({line.step}, {line.name}) is sealed "
                    f"by {party}, but its audit log {self.path} lacks it: the log was "
                    f"cut, or restored from an older backup.",
                    rule="audit_log",
                )
        return len(own - {line.seals[party] for line in theirs})

    def close(self) -> None:
        """Close the file."""
        self._chain.close()
