"""The rows of a silo that its studies read: all, or those common to all silos.

    stages of matching ─> audit log, ledger ─> state/matches/<study>.csv ─> AlignedTable

The file stays in the silo. It has the place of each row in the common order, and so
the person behind each score.
"""

import csv
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import final
from weakref import WeakKeyDictionary

from unpooled.arrays import Array, Int
from unpooled.data.aligned_table import AlignedTable
from unpooled.data.ids import match_report, read_ids
from unpooled.data.table import Table
from unpooled.errors import DataError
from unpooled.ledger import canonical
from unpooled.party.matching.silo_matcher import SiloMatcher
from unpooled.party.memory.studies import NAME, Answer, Studies, session_of
from unpooled.party.rules.policy import Policy
from unpooled.party.rules.round_numbers import check_round
from unpooled.party.steps.asked_step import AskedStep
from unpooled.party.views.view import IdColumn
from unpooled.protocol.matching_stages import STAGES, Place
from unpooled.protocol.message import Message, digest
from unpooled.protocol.refusal import Refusal
from unpooled.protocol.request import Request
from unpooled.secure.keys.roster import Identity

log = logging.getLogger("unpooled.party")


@final
class AlignedRows:
    """A silo's matching of rows, over all its studies.

    Parameters
    ----------
    policy : Policy
        The silo's rules.
    identity : Identity
        The secret of the ids is derived from it.
    studies : Studies
        The silo's audit log and memory.
    matches : Path, optional
        Folder for the files with the places of rows; without it none are written.
    """

    def __init__(
        self,
        policy: Policy,
        identity: Identity,
        studies: Studies,
        matches: Path | None,
    ) -> None:
        self._policy, self._identity = policy, identity
        self._studies, self._folder = studies, matches
        self._matchers: dict[tuple[str, str], SiloMatcher] = {}
        self._aligned: dict[str, AlignedTable] = {}
        self._wrong_ids = WeakKeyDictionary[Table, Refusal | None]()

    def table_of(self, study: str, table: Table) -> Table:
        """Return the table that a study reads: its matched rows, or all rows."""
        return self._aligned.get(study, table)

    def check_ids(self, table: Table) -> None:
        """Refuse a plan where rows could not be matched by the ids of a table."""
        if table not in self._wrong_ids:
            self._wrong_ids[table] = None
            try:
                read_ids(table)
            except DataError as wrong:
                self._wrong_ids[table] = Refusal(wrong.rule, str(wrong))
        if refusal := self._wrong_ids[table]:
            raise Refusal(refusal.rule, refusal.detail)

    def common_rows(self, study: str) -> Int[Array, " N"] | None:
        """Return the rows that a study reads, in its order; None where it reads all."""
        return self._aligned[study].rows if study in self._aligned else None

    def answer(
        self,
        message: Message,
        table: Table,
        party: str,
        parties: tuple[str, ...],
        keys: tuple[Mapping[str, bytes], bytes],
    ) -> Answer:
        """Do a stage of matching; it is in the audit log before the reply leaves.

        Parameters
        ----------
        table : Table
            The silo's present rows; a matching ends with those that it began with.
        keys : (mapping of str to bytes, bytes)
            The keys shared with each other party, and the one shared by all.
        """
        header = message.header
        (study, session), number = session_of(message), header["round"]
        if type(number) is not int:
            raise Refusal("malformed_message")
        check_round(number, 0)
        if self._folder is not None and not NAME.fullmatch(study):
            # It becomes the name of a file.
            raise Refusal("malformed_message")
        place = Place(study, session, number, party)
        if (study, session) not in self._matchers:
            begun = self._matcher(place, table, parties, keys)
            self._matchers[study, session] = begun
        matcher = self._matchers[study, session]
        stage = STAGES.get(str(header["stage"]))
        if stage is None:
            raise Refusal("malformed_message")
        request = Request.between_silos(stage.name, study, session, number)
        asked = AskedStep(request, stage, IdColumn(matcher.source))
        n_entries = self._studies.check(asked, parties)
        reply, arrays, lines = matcher.answer(place, message)
        reply["seals"] = []
        if lines:
            sent = {name: digest(array.data) for name, array in arrays.items()}
            reply["seals"] = self._studies.write_round(
                asked,
                request.answered(0, {}, "masked"),
                party,
                parties,
                lines,
                request=request.step,
                digests={**message.digests, **sent},
                n_entries=n_entries,
            )
        if matcher.rows is not None and study not in self._aligned:
            self._take(study, matcher.source, matcher.rows)
        return reply, arrays

    def leave(self, study: str, session: str) -> None:
        """Forget the points and scalars of one session, which are used once."""
        self._matchers.pop((study, session), None)

    def _matcher(
        self,
        place: Place,
        table: Table,
        parties: tuple[str, ...],
        keys: tuple[Mapping[str, bytes], bytes],
    ) -> SiloMatcher:
        # Another matching of the study begins, with the present rows.
        self._aligned.pop(place.study, None)
        salt = canonical(["ids", place.study, list(parties)])
        return SiloMatcher(
            place,
            parties,
            table,
            self._policy,
            keys=keys[0],
            group_key=keys[1],
            # The same in every session of a study, so that the order is the same when
            # it is resumed; unrelated in any other study.
            secret=self._identity.derivation_secret(salt),
            salt=salt,
        )

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
