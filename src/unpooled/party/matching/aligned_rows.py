"""Which rows of a silo its studies read: all, or those that all silos have.

    stages of matching ─> audit log, ledger ─> state/matches/<study>.csv ─> AlignedTable

The file stays in the silo. It says which row has which place in the common order, and
so whom a score is about.
"""

import csv
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

from unpooled.arrays import Array, Int
from unpooled.data.aligned_table import AlignedTable
from unpooled.data.ids import match_report
from unpooled.data.table import Table
from unpooled.ledger import Ledger, canonical
from unpooled.party.matching.silo_matcher import Matcher
from unpooled.party.memory.signatures import sealed_lines
from unpooled.party.memory.studies import NAME, Answer, Dealings, session_of
from unpooled.party.rules.differencing import IdColumn
from unpooled.party.rules.policy import Policy
from unpooled.protocol.matching_stages import Lines, Place
from unpooled.protocol.message import Message, digest
from unpooled.protocol.refusal import Refusal
from unpooled.protocol.request import Request
from unpooled.secure.keys.roster import Identity

log = logging.getLogger("unpooled.party")


@final
class Aligning:
    """A silo's matching of rows, over all its studies.

    Parameters
    ----------
    policy : Policy
        The silo's rules.
    identity : Identity
        Seals the ledger's lines; the secret of the ids is derived from it.
    dealings : Dealings
        The silo's audit log and memory.
    matches : Path, optional
        Folder for the files that say which row is where; without it none are written.
    """

    def __init__(
        self,
        policy: Policy,
        identity: Identity,
        dealings: Dealings,
        matches: Path | None,
    ) -> None:
        self._policy, self._identity = policy, identity
        self._dealings, self._folder = dealings, matches
        self._matchers: dict[tuple[str, str], Matcher] = {}
        self._aligned: dict[str, AlignedTable] = {}

    def table_of(self, study: str, table: Table) -> Table:
        """Return the rows that a study reads: those matched, else the silo's table."""
        return self._aligned.get(study, table)

    def common_rows(self, study: str) -> Int[Array, " N"] | None:
        """Return which rows a study reads, in its order; None where that is all."""
        return self._aligned[study].rows if study in self._aligned else None

    def answer(
        self,
        message: Message,
        table: Table,
        party: str,
        parties: tuple[str, ...],
        keys: tuple[Mapping[str, bytes], bytes],
    ) -> Answer:
        """Do a stage of matching, and write it down before the reply leaves.

        Parameters
        ----------
        table : Table
            The silo's rows by now; a matching ends with those that it began with.
        keys : (mapping of str to bytes, bytes)
            Those shared with every other party, and the one shared by all of them.
        """
        header = message.header
        (study, session), number = session_of(message), header["round"]
        if type(number) is not int or number < 1:
            raise Refusal("malformed_message")
        if self._folder is not None and not NAME.fullmatch(study):
            # It becomes the name of a file.
            raise Refusal("malformed_message")
        place = Place(study, session, number, party)
        if (study, session) not in self._matchers:
            begun = self._matcher(place, table, parties, keys)
            self._matchers[study, session] = begun
        matcher = self._matchers[study, session]
        request = Request(
            study, session, number, str(header["stage"]), "parties", (), {}
        )
        about = (IdColumn(matcher.source), parties)
        self._dealings.check(request, *about)
        told, arrays, lines = matcher.answer(place, message)
        told["seals"] = []
        if lines:
            told["seals"] = self._written(request, party, message, arrays, lines, about)
        if matcher.rows is not None and study not in self._aligned:
            self._take(study, matcher.source, matcher.rows)
        return told, arrays

    def leave(self, study: str, session: str) -> None:
        """Forget what belongs to one session: points, and scalars used once."""
        self._matchers.pop((study, session), None)

    def _matcher(
        self,
        place: Place,
        table: Table,
        parties: tuple[str, ...],
        keys: tuple[Mapping[str, bytes], bytes],
    ) -> Matcher:
        # Another matching of the study begins: with the rows as they are by now.
        self._aligned.pop(place.study, None)
        salt = canonical(["ids", place.study, list(parties)])
        return Matcher(
            place,
            parties,
            table,
            self._policy,
            keys=keys[0],
            group_key=keys[1],
            # The same in every session of a study, so that the order is the same when
            # it is resumed; unrelated in any other study.
            secret=self._identity.derived(salt),
            salt=salt,
        )

    def _written(
        self,
        request: Request,
        party: str,
        message: Message,
        arrays: Mapping[str, Array],
        lines: Lines,
        about: tuple[IdColumn, tuple[str, ...]],
    ) -> list[list[Any]]:
        study = self._dealings.studies[request.study]
        first = self._dealings.n_own_lines(request.study)
        sent = {name: digest(array.data) for name, array in arrays.items()}
        known = {**message.digests, **sent, "": digest(b"")}
        sealed = sealed_lines(party, self._identity, study.ledger, first, lines, known)
        answered = request.answered(0, {}, "masked")
        self._dealings.released(request, sealed, (request.step, answered), *about)
        study.ledger = Ledger([*study.ledger, *sealed])
        seals = [line.seals[party] for line in sealed]
        return [[seal.sequence, seal.digest, seal.signature] for seal in seals]

    def _take(self, study: str, table: Table, rows: Int[Array, " N"]) -> None:
        self._aligned[study] = AlignedTable(table, rows)
        log.info("%s: %s", study, match_report(table.n_rows, len(rows)))
        if self._folder is None:
            return
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        names = self._aligned[study].blocks((), [str(table.ids)])
        ids = [value for block in names for value in next(iter(block.extra.values()))]
        new = self._folder / f".{study}.csv"
        new.touch(mode=0o600)
        with new.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(["place", "row", "id"])
            writer.writerows(
                [place, row + 1, name]
                for place, (row, name) in enumerate(zip(rows, ids, strict=True), 1)
            )
        new.replace(self._folder / f"{study}.csv")
