"""A silo that follows: it runs the study's program itself and answers nothing else.

    request ──> round before, opened: checked ──> program goes on ──> Expected
             └─> the same step, view and arguments, bit for bit?  yes: answered
                                                                  no:  `not_followed`

The program is the same call of the same estimator that the coordinator makes, on
totals that this silo checked. Which calls may come is bounded by the announced text of
the study (`StudyText`), or in a simulation by what earlier calls gave: a view's
transforms must be those of a model that was fitted before the silo's eyes.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, final, runtime_checkable

import numpy as np

from unpooled.arrays import Array
from unpooled.errors import UnpooledError
from unpooled.ledger import canonical
from unpooled.party.memory.audit_log import AuditLog
from unpooled.party.rules.policy import Policy
from unpooled.protocol.following import (
    REACHED,
    Call,
    Expected,
    OpenedRound,
    model_digest,
)
from unpooled.protocol.message import digest, signed_by
from unpooled.protocol.refusal import Refusal
from unpooled.protocol.request import Request, Veiled
from unpooled.protocol.step import Step
from unpooled.protocol.view_operations import (
    array_digest,
    features_of_records,
    public_record,
    transforms_of_records,
)
from unpooled.protocol.wire_format import WireFormat
from unpooled.secure.keys.roster import Roster
from unpooled.secure.sums.total_check import check_total

log = logging.getLogger("unpooled.party")

# Kinds of the audit log's notes: calls that were followed to their end, and states of
# searches from which a stopped call may be continued.
FOLLOWED, SEARCHED = "followed", "searched"


@final
@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The outcome of a call that was followed to its end.

    Attributes
    ----------
    model : str
        `model_digest` of the fitted model.
    view : list of mapping, or None
        The operations of the view that the model makes of the call's view.
    """

    model: str
    view: Sequence[Mapping[str, Any]] | None


@runtime_checkable
class Program(Protocol):
    """A call that is run in the silo, from one request to the next."""

    # States of a search from which a later fit may continue, as the call reached them.
    reached: list[Mapping[str, Any]]

    def advance(self, opened: Sequence[OpenedRound]) -> Sequence[Expected]:
        """Go on with what the steps of the last round gave, if there was one.

        Returns
        -------
        sequence of Expected
            The steps of the next round; none where the call has ended.
        """
        ...

    def outcome(self) -> Outcome | None:
        """Return the model of the call; None where it gave none."""
        ...

    def close(self) -> None:
        """End it, wherever it is."""
        ...


@runtime_checkable
class Follow(Protocol):
    """Makes programs; given to a `Party` that follows."""

    # Whether calls may come that no announced text has, as in a simulation.
    interactive: bool

    def program(self, call: Call, **session: Any) -> Program:
        """Return the program of a call in a session."""
        ...

    def text(self, text: str) -> "StudyText":
        """Return the calls that an announced text allows."""
        ...


@final
@dataclass(frozen=True, kw_only=True)
class StudyText:
    """The calls that the announced text of a study makes, in their order.

    Attributes
    ----------
    calls : tuple of mapping
        "method", "class", "parameters" and "arguments" of each: of the fits, and last
        of what judges the models, if anything does.
    further : tuple of (int, mapping)
        The calls on models that were fitted, such as for attributes that silos keep:
        each with the place of the fit in `calls`, on whose view it is made.
    reads : tuple of int
        For each call, the place of the call whose transform of rows it reads; -1 where
        it reads the first view.
    parties : tuple of str
        Sorted.
    protection : {"masked", "plain"}
        How totals travel.
    columns : tuple of str or None
        The columns of the first view; None: those that all silos have, but for
        `exclude`.
    exclude : tuple of str
        Columns that no view may have.
    label, random_state
        As of `Call`.
    """

    calls: tuple[Mapping[str, Any], ...]
    reads: tuple[int, ...]
    further: tuple[tuple[int, Mapping[str, Any]], ...] = ()
    parties: tuple[str, ...]
    protection: str
    columns: tuple[str, ...] | None
    label: str | None
    random_state: int | None
    exclude: tuple[str, ...] = ()


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class AnsweredRound:
    """A round that this silo answered, by which it checks what was opened.

    Attributes
    ----------
    request : Request
        As it came.
    request_digest : str
        SHA-256 of its message.
    step : Step
        The step that ran.
    forms : mapping of str to WireFormat
        Forms of its arrays.
    parties : tuple of str
        The roster of the session.
    roster : Roster
        Their pinned keys.
    protection : {"masked", "plain"}
        How totals travel.
    key : bytes
        Shared by the parties and unknown to the coordinator.
    """

    request: Request
    request_digest: str
    step: Step
    forms: Mapping[str, WireFormat]
    parties: tuple[str, ...]
    roster: Roster
    protection: str
    key: bytes

    def check(self, opened: OpenedRound) -> None:
        """Refuse anything but what this round gave."""
        request = self.request
        here = request.session, request.round, request.step, request.to
        if (opened.session, opened.round, opened.step, opened.to) != here:
            raise Refusal("not_followed")
        if self.step.computation is not None:
            self._check_computed(opened)
        elif self.step.verb == "summed":
            self._check_totals(opened)
        elif self.step.verb == "disclosed":
            self._check_disclosed(opened)
        elif opened.words:
            raise Refusal("not_followed")

    def _check_totals(self, opened: OpenedRound) -> None:
        masked = self.protection == "masked"
        if set(opened.words) != set(self.forms):
            raise Refusal("wrong_total")
        if masked and set(opened.sealed) != set(self.parties):
            raise Refusal("wrong_total")
        for name, form in self.forms.items():
            words, context = opened.words[name], self.request.context(name)
            code = form.code(len(self.parties), context)
            if (words.shape, words.dtype) != form.words(code if masked else None):
                raise Refusal("wrong_total")
            # Without masks the silos have nothing to check a total against, and the
            # coordinator sees their values anyway.
            if masked:
                sealed = {
                    party: bytes.fromhex(sums.get(name, ""))
                    for party, sums in opened.sealed.items()
                }
                check_total(words, sealed, self.key, context)

    def counted(self, opened: OpenedRound) -> int:
        """Return how many rows a checked total counts, at most N; 0 if it counts none.

        The total is `count`: of all rows, of the observed cells of each column or of
        the rows of each class. Or it is `size`, of the groups of a table, of which the
        last one has all rows.
        """
        name = "count" if "count" in self.forms else "size"
        form = self.forms.get(name)
        sums = self.step.verb == "summed" and self.protection == "masked"
        if form is None or not sums or form.declared.veiled:
            return 0
        if (letters := form.declared.letters) not in ((), ("p",), ("c",), ("g",)):
            return 0
        code = form.code(len(self.parties), self.request.context(name))
        counts = code.decode(opened.words[name].copy())
        return round(float(counts.sum() if letters == ("c",) else counts.max()))

    def _check_disclosed(self, opened: OpenedRound) -> None:
        by_party = {party: dict[str, Array]() for party in self.parties}
        for place, words in opened.words.items():
            party, _, name = place.rpartition("/")
            by_party.get(party, {})[name] = words
        if set(opened.signed) != set(self.parties) or self.request.inbox:
            raise Refusal("not_followed")
        for party, arrays in by_party.items():
            digests = {name: digest(words.data) for name, words in arrays.items()}
            self._check_signed(opened, party, "released", "request", digests)

    def _check_computed(self, opened: OpenedRound) -> None:
        computation, words = self.step.computation, opened.words
        assert computation is not None, "the step declares one"
        committee = self.roster.part(self.parties).committee or self.parties
        shapes = {name: form.shape for name, form in self.forms.items()}
        found = {name: (array.shape, array.dtype) for name, array in words.items()}
        if found != computation.forms(shapes) or set(opened.signed) != set(committee):
            raise Refusal("wrong_total")
        digests = {name: digest(array.data) for name, array in words.items()}
        for party in committee:
            self._check_signed(opened, party, "compared", "about", digests)

    def _check_signed(
        self,
        opened: OpenedRound,
        party: str,
        kind: str,
        about: str,
        digests: Mapping[str, str],
    ) -> None:
        """Refuse arrays that a party did not sign as its reply to this request."""
        header, signed = signed_by(self.roster, party, *opened.signed[party])
        good = (header.get("kind"), header.get("party")) == (kind, party)
        if not good or header.get(about) != self.request_digest or signed != digests:
            raise Refusal("wrong_total")


@dataclass(eq=False)
class _Running:
    """A call that a study's silo is following."""

    session: str
    call: Call
    program: Program
    # Steps of the round that must come now, and of the last one that was answered.
    expected: Sequence[Expected] = ()
    last: Sequence[AnsweredRound] = ()


@final
class Following:
    """The calls that a silo follows, one at a time in each study.

    Parameters
    ----------
    follow : Follow
        Makes programs.
    policy : Policy
        The silo's rules.
    audit_log : AuditLog
        Keeps what calls gave.
    """

    def __init__(self, follow: Follow, policy: Policy, audit_log: AuditLog) -> None:
        self._follow, self._policy, self._audit_log = follow, policy, audit_log
        self._running: dict[str, _Running] = {}
        # Sessions that have ended, by study.
        self._ended: dict[str, str] = {}
        # By roster, the most rows that a checked total counted.
        self._counted: dict[tuple[str, ...], int] = {}

    def check(self, requests: Sequence[Request], **session: Any) -> None:
        """Refuse requests that the study's program does not make now.

        Parameters
        ----------
        requests : sequence of Request
            Requests of one round, in the order of arrival; the first one carries the
            results of the round before.
        **session
            What a program needs to know of the session: "parties", "protection",
            "partition", "seed", and "own_columns", which the silo has behind a view.
        """
        try:
            self._check(requests, session)
        except BaseException as wrong:
            # It ends the call: nobody may try other totals until one passes.
            study = requests[0].study
            if (running := self._running.pop(study, None)) is not None:
                running.program.close()
            if isinstance(wrong, UnpooledError | Refusal):
                raise
            # A program that fails must refuse, and never let a request pass.
            raise Refusal("not_followed") from wrong

    def pooled_rows(self, parties: tuple[str, ...]) -> int:
        """Return N of a roster as far as checked totals say, 0 where none does."""
        return self._counted.get(parties, 0)

    def answered(self, answered: Sequence[AnsweredRound]) -> None:
        """Remember the steps of a round, by which what was opened is checked."""
        self._running[answered[0].request.study].last = answered

    def _check(self, requests: Sequence[Request], session: Mapping[str, Any]) -> None:
        request, *others = requests
        if any(other.calls or other.opened for other in others):
            raise Refusal("not_followed")
        running, opened = self._running.get(request.study), list(request.opened)
        if running is None or running.session != request.session:
            before = [one for one in opened if one.session != request.session]
            opened = opened[len(before) :]
            if before:
                self._end(running, before, request.study)
            running = self._begin(request, session)
            if len(opened) > 1:
                raise Refusal("not_followed")
        elif request.calls or not opened:
            raise Refusal("not_followed")
        if running.last:
            self._check_opened(running.last, opened)
            running.last = ()
            running.expected = self._advanced(request.study, running, opened)
        elif not running.expected:
            running.expected = self._advanced(request.study, running, opened)
        pairs = list(zip(running.expected, requests, strict=False))
        whole = len(running.expected) == len(requests)
        if not (whole and all(_is_same(*pair) for pair in pairs)):
            raise Refusal("not_followed")

    def _advanced(
        self, study: str, running: _Running, opened: Sequence[OpenedRound]
    ) -> Sequence[Expected]:
        """Return the steps of the next round; note from where a later fit may go on."""
        program, call = running.program, running.call
        expected = program.advance(opened)
        for reached in program.reached:
            self._audit_log.note(SEARCHED, self._searched(study, call, reached))
        program.reached.clear()
        return expected

    def _searched(
        self, study: str, call: Call, reached: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the note of a state that the search of a call reached."""
        return {
            "study": study,
            "forgotten": self._audit_log.study(study).forgotten,
            "call": digest(canonical(_asked(call, {"method": call.method}))),
            "view": digest(canonical(list(call.view))),
            "reached": digest(canonical(dict(reached))),
        }

    def _check_opened(
        self, last: Sequence[AnsweredRound], opened: Sequence[OpenedRound]
    ) -> None:
        """Refuse anything but what a round gave, and note how many rows it counted."""
        if len(opened) != len(last):
            raise Refusal("not_followed")
        for answered, one in zip(last, opened, strict=True):
            answered.check(one)
            rows = max(answered.counted(one), self.pooled_rows(answered.parties))
            self._counted[answered.parties] = rows

    def _begin(self, request: Request, session: Mapping[str, Any]) -> _Running:
        if not request.calls:
            raise Refusal("not_followed")
        *silent, call = request.calls
        for one in silent:
            self._check_call(request.study, one, session)
            if one.model.get(REACHED) is not None:
                raise Refusal("not_followed")
            program = self._program(one, request, session)
            try:
                rounds = program.advance(())
            except Refusal as failed:
                # As at the coordinator, before its first round: it gave nothing.
                log.info("A call failed before its first round: %s", failed.__cause__)
                continue
            if rounds:
                raise Refusal("not_followed")
            if (outcome := program.outcome()) is not None:
                self._note(request.study, one, outcome)
        self._check_call(request.study, call, session)
        if (before := self._running.pop(request.study, None)) is not None:
            before.program.close()
        program = self._program(call, request, session)
        running = _Running(request.session, call, program)
        self._running[request.study] = running
        return running

    def _program(
        self, call: Call, request: Request, session: Mapping[str, Any]
    ) -> Program:
        return self._follow.program(
            call, study=request.study, operations=request.operations, **session
        )

    def _end(
        self, running: _Running | None, opened: Sequence[OpenedRound], study: str
    ) -> None:
        """Complete the call before this one, and note what it gave."""
        sessions = {one.session for one in opened}
        if sessions == {self._ended.get(study)}:
            return
        if running is None or not running.last or sessions != {running.session}:
            raise Refusal("not_followed")
        if len(opened) != len(running.last):
            raise Refusal("not_followed")
        for answered, one in zip(running.last, opened, strict=True):
            answered.check(one)
        self._ended[study] = running.session
        try:
            rest = running.program.advance(opened)
        except Refusal as failed:
            # It may have failed at both ends; what it gave is not known here.
            log.info("A call was not followed to its end: %s", failed.__cause__)
            return
        # Otherwise the coordinator ended it before its end.
        if not rest and (outcome := running.program.outcome()) is not None:
            self._note(study, running.call, outcome)

    def _note(self, study: str, call: Call, outcome: Outcome) -> None:
        view = outcome.view
        note = {
            "study": study,
            "forgotten": self._audit_log.study(study).forgotten,
            "call": digest(canonical(_asked(call, {"method": call.method}))),
            "view": digest(canonical(list(call.view))),
            "model": outcome.model,
            "made": "" if view is None else digest(canonical(list(view))),
            "features": "" if view is None else features_of_records(view),
            "behind": transforms_of_records(call.view),
        }
        self._audit_log.note(FOLLOWED, note)

    def _check_call(self, study: str, call: Call, session: Mapping[str, Any]) -> None:
        notes = self._known()
        self._check_view(call, notes)
        self._check_model(call, notes)
        reached = call.model.get(REACHED)
        if reached is not None:
            # A stopped search continues where it was when this silo followed it.
            searched = self._searched(study, call, reached)
            if searched not in self._audit_log.notes(SEARCHED):
                raise Refusal("model_not_followed")
        text = self._audit_log.study(study).text
        if text:
            announced = self._follow.text(text)
            here = announced.parties, announced.protection
            if (session["parties"], session["protection"]) != here:
                raise Refusal("not_followed")
            own = [note for note in notes if note["study"] == study]
            _check_text(announced, call, own)
        elif not self._follow.interactive:
            raise Refusal("not_announced")

    def _known(self) -> list[Mapping[str, Any]]:
        """Return the results of calls, except in studies that were forgotten since."""
        return [
            note
            for note in self._audit_log.notes(FOLLOWED)
            if note["forgotten"] == self._audit_log.study(note["study"]).forgotten
        ]

    def _check_view(self, call: Call, notes: Sequence[Mapping[str, Any]]) -> None:
        """Refuse a view with a transform that no followed call gave.

        A model may make several transforms, as kernel PCA does: what a call gave is
        the chain that ends with the last of them.
        """
        known, given = {note["features"] for note in notes}, False
        for place in reversed(range(len(call.view))):
            record = call.view[place]
            if record["operation"] != "derive":
                continue
            given = given or features_of_records(call.view[: place + 1]) in known
            if not (given or self._policy.trusts_transform(str(record["step"]))):
                raise Refusal("transform_not_fitted")

    def _check_model(self, call: Call, notes: Sequence[Mapping[str, Any]]) -> None:
        """Refuse a fitted model that no followed call gave, or behind other transforms.

        Columns in other units make other coefficients of the same ones: a model of
        standardised columns, judged on the columns as they are, would tell one row.
        """
        if not call.model.get("fitted"):
            return
        asked = model_digest(call.model, call.arrays)
        if known := [note for note in notes if note["model"] == asked]:
            behind = transforms_of_records(call.view)
            # Earlier versions noted no transforms.
            if not any(note.get("behind", behind) == behind for note in known):
                raise Refusal("model_not_followed")
            return
        # An update starts from numbers that were arguments of followed requests.
        known = self._audit_log.known_arguments()
        arrays = {array_digest(array) for array in call.arrays.values()}
        # A silo that joins later never followed the fit. The others did: where it was
        # sent other numbers than they, no masks cancel.
        joins = self._policy.allow_roster_change
        if call.method != "update" or not (joins or arrays <= known):
            raise Refusal("model_not_followed")


def _check_text(
    text: StudyText, call: Call, notes: Sequence[Mapping[str, Any]]
) -> None:
    """Refuse a call that the text of the study does not make after those before."""
    if (call.label, call.random_state) != (text.label, text.random_state):
        raise Refusal("not_followed")
    view = digest(canonical(list(call.view)))
    for place, asked in text.further:
        fit = digest(canonical(dict(text.calls[place])))
        if canonical(dict(asked)) == canonical(_asked(call, asked)) and any(
            note["view"] == view and note["call"] == fit for note in notes
        ):
            return
    for asked, source in zip(text.calls, text.reads, strict=True):
        if canonical(dict(asked)) != canonical(_asked(call, asked)):
            continue
        if source < 0:
            if _is_first_view(call, text):
                return
            continue
        before = text.calls[source]
        if any(
            note["made"] == view and note["call"] == digest(canonical(dict(before)))
            for note in notes
        ):
            return
    raise Refusal("not_followed")


def _asked(call: Call, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return a call as texts have it.

    Texts have the file of a model to update: its parameters are in the model, and it
    is fitted anew where the mean has moved far.
    """
    updates = asked["method"] == "update" and call.method in ("update", "fit")
    return {
        "method": "update" if updates else call.method,
        "class": call.model.get("class"),
        "parameters": None if updates else call.model.get("parameters"),
        "arguments": dict(call.arguments),
    }


def _is_first_view(call: Call, text: StudyText) -> bool:
    """Whether a view has all rows of columns that were announced, and no transform."""
    if any(record["operation"] != "select" for record in call.view):
        return False
    if text.columns is None:
        read = [name for record in call.view for name in record["columns"]]
        # Without a selection a view has all columns.
        left_out = not text.exclude or bool(call.view)
        return len(call.view) <= 1 and left_out and set(text.exclude).isdisjoint(read)
    return [list(text.columns)] == [record["columns"] for record in call.view]


def _is_same(expected: Expected, request: Request) -> bool:
    """Whether a request is the expected one, bit for bit."""
    came = Expected.of(request.step, request)
    return expected.record(_arguments(expected.public)) == came.record(
        _arguments(request.public)
    )


def _arguments(public: Mapping[str, Any]) -> dict[str, Any]:
    veiled = {
        name: {"veiled": [value.release, array_digest(value.words)]}
        for name, value in public.items()
        if isinstance(value, Veiled)
    }
    others = {name: value for name, value in public.items() if name not in veiled}
    typed = {
        name: str(np.asarray(value).dtype) + str(np.shape(value))
        for name, value in others.items()
        if isinstance(value, np.ndarray)
    }
    return {"public": public_record(others), "veiled": veiled, "arrays": typed}
