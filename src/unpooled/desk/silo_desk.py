"""The desk of a silo: what waits, what ran, its account, its rules, its health.

    GET  /                       five questions about a period, and what waits
    GET  /studies                every study that the log knows
    GET  /studies/KEY            one of them: plan, text, what left, its log, files
    POST /studies/KEY/decision   approve or decline
    GET  /studies/KEY/files/N    a result that stayed in the silo
    GET  /account, /rules, /health

Every page is made from the files of the silo as they are now. Nothing from outside is
part of a path: studies are named by a digest, files by their place in a list.
"""

import getpass
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Any, final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from unpooled.desk import account, health, plan_in_words
from unpooled.desk.answers import answers, last_quarter
from unpooled.desk.history import StudyHistory, histories
from unpooled.desk.pages import Pages, attachment
from unpooled.errors import StudyError, UnpooledError
from unpooled.models.files.apply_in_silo import apply
from unpooled.models.files.model_file import load
from unpooled.party.memory.audit_log import AuditLog
from unpooled.party.memory.audit_state import AuditState
from unpooled.party.memory.hash_chain import Entry
from unpooled.party.memory.studies import MODEL_SUFFIX
from unpooled.party.setup.silo_file import SiloFile
from unpooled.protocol.message import digest
from unpooled.report.facts import named_models
from unpooled.report.text.log_events import event
from unpooled.report.text.people import people_answer
from unpooled.report.text.what_follows import could_learn, could_not_learn
from unpooled.report.text.wording import what_came_in, what_left, what_stayed
from unpooled.results.exhibits import Column, ResultTable
from unpooled.results.summary import summaries_of
from unpooled.study.announcement import Announced, read_announced, stated

_MENU = (
    ("/", "Overview"),
    ("/studies", "Studies"),
    ("/account", "Account"),
    ("/rules", "Rules"),
    ("/health", "Health"),
)
_STATES = {
    "waiting": "waits for your decision",
    "approved": "approved",
    "denied": "declined",
    "unknown": "not announced",
}
# A name and a reason that a person types.
_LONGEST_NAME, _LONGEST_REASON = 100, 2000


@final
@dataclass(frozen=True)
class Look:
    """The silo's file and log, as they are at one moment.

    Attributes
    ----------
    silo : SiloFile
        Its file.
    entries : list of Entry
        Entries of the log; empty where there is none, or where it cannot be read.
    state : AuditState
        What they add up to.
    studies : dict of str to StudyHistory
        By their keys, oldest first.
    problem : str
        Why the log cannot be read; empty where it can.
    """

    silo: SiloFile
    entries: list[Entry]
    state: AuditState
    studies: dict[str, StudyHistory]
    problem: str

    @classmethod
    def at(cls, kit: Path) -> "Look":
        """Read a silo's file and log."""
        silo = SiloFile.of_kit(kit)
        problem, entries, state = "", list[Entry](), AuditState()
        try:
            # Without a log one is kept in memory: to look makes no file.
            audit_log = AuditLog(silo.audit if silo.audit.exists() else None)
            entries, state = audit_log.entries(), audit_log.state()
            audit_log.close()
        except StudyError as wrong:
            problem = str(wrong)
        found = histories(silo.name, entries, state)
        return cls(silo, entries, state, found, problem)

    @property
    def asks(self) -> bool:
        """Whether a person must approve each study."""
        return self.silo.approval != "none"

    def approval(self, one: StudyHistory) -> str:
        """Return the name of a study's state of approval."""
        if not self.asks and one.text:
            return "needs no decision"
        if self.waits(one) and one.is_over:
            return "ended before a decision was asked for"
        return _STATES[self.state.studies[one.name].approval]

    def waits(self, one: StudyHistory) -> bool:
        """Whether a study waits for a person."""
        return self.asks and self.state.studies[one.name].approval == "waiting"

    @property
    def waiting(self) -> list[StudyHistory]:
        """The studies that wait for an approval and have not ended."""
        every = self.studies.values()
        return [one for one in every if self.waits(one) and not one.is_over]


@final
class SiloDesk:
    """The pages of a silo's desk.

    Parameters
    ----------
    kit : Path
        The silo's kit, with its files in ``local`` and its log in ``state``.
    """

    def __init__(self, kit: Path) -> None:
        self.kit = kit
        # A kit without its file is an error at the start, and not on a page.
        name = SiloFile.of_kit(kit).name
        self._pages = Pages(f"Desk of {name}", _MENU)

    def app(self) -> Starlette:
        """Return the pages as an application."""
        routes = [
            Route("/", self._overview),
            Route("/studies", self._studies),
            Route("/studies/{key}", self._study),
            Route("/studies/{key}/decision", self._decide, methods=["POST"]),
            Route("/studies/{key}/files/{number:int}", self._file),
            Route("/account", self._account),
            Route("/rules", self._rules),
            Route("/health", self._health),
        ]
        return Starlette(routes=routes, exception_handlers=self._pages.handlers)

    def _show(self, request: Request, look: Look, name: str, **facts: Any) -> Response:
        shared = {"look": look, "waiting": look.waiting, "problem": look.problem}
        return self._pages.show(request, name, **shared, **facts)

    # --- The overview --------------------------------------------------------------

    def _overview(self, request: Request) -> Response:
        look = Look.at(self.kit)
        since, until = _period(request)
        parts = (one.within(since, until) for one in look.studies.values())
        inside = [one for one in parts if one is not None]
        models = {one.key: _each_once(_delivered(look.silo, one)[0]) for one in inside}
        found = answers(
            inside, health.log_finding(look.silo), asks=look.asks, models=models
        )
        return self._show(
            request, look, "overview", since=since, until=until, answers=found,
            today=datetime.now(UTC).date(),
        )  # fmt: skip

    # --- Studies -------------------------------------------------------------------

    def _studies(self, request: Request) -> Response:
        look = Look.at(self.kit)
        found = [(one, look.approval(one)) for one in look.studies.values()]
        return self._show(request, look, "studies", studies=found[::-1])

    def _study(self, request: Request, said: str = "", status: int = 200) -> Response:
        look = Look.at(self.kit)
        one = _found(look, request)
        asked = look.waits(one) or (bool(one.text) and not one.rounds)
        plan = _Asked.of(look, one) if asked else None
        delivered, unread = _delivered(look.silo, one)
        models = _each_once(delivered)
        facts = one.facts(models)
        return self._show(
            request, look, "study", status=status,
            one=one, said=said, state=look.approval(one), plan=plan,
            decides=look.asks and bool(one.text),
            waits=look.waits(one),
            user=getpass.getuser(),
            text_digest=digest(one.text.encode()),
            statement=one.says.statement if one.says is not None else {},
            people=people_answer(facts) if one.left else None,
            left=what_left(facts), came=what_came_in(facts), stayed=what_stayed(facts),
            could=could_learn(facts) if one.left else [],
            could_not=could_not_learn(facts) if one.left else [],
            results=list(enumerate(summaries_of([model for _, model in models]), 1)),
            files=_files(look.silo, one), unread=unread,
            log=_log_table(one), finding=health.log_finding(look.silo),
        )  # fmt: skip

    def _decide(self, request: Request) -> Response:
        look = Look.at(self.kit)
        one = _found(look, request)
        form: dict[str, str] = request.scope["desk.form"]
        name, reason = form.get("name", "").strip(), form.get("reason", "").strip()
        decision = form.get("decision", "")
        if decision not in ("approve", "decline"):
            raise HTTPException(400, "The form has no decision.")
        wrong = _wrong_form(name, reason)
        if decision == "approve" and form.get("read") != "yes":
            wrong = wrong or "Confirm that you read the plan and the text."
        if not look.asks:
            wrong = "This silo asks nobody: a decision would have no effect."
        if wrong:
            return self._study(request, f"Nothing was written. {wrong}", 400)
        if form.get("text") != digest(one.text.encode()):
            return self._study(
                request,
                "Nothing was written: the study was announced again meanwhile, with "
                "another text. This page shows it.",
                409,
            )
        approved, steps = decision == "approve", ()
        if approved:
            try:
                steps = _announced(look, one).steps
            except UnpooledError as why:
                return self._study(request, f"Nothing was written. {why}", 400)
        audit_log = AuditLog(look.silo.audit, max_pages=look.silo.audit_pages)
        try:
            audit_log.decided(
                one.name,
                approved=approved,
                steps=steps,
                # The name is what a person typed; the account is the machine's.
                by=f"{name} (account {getpass.getuser()})",
                reason=reason,
                text=one.text,
            )
        finally:
            audit_log.close()
        return RedirectResponse(f"/studies/{one.key}", 303)

    def _file(self, request: Request) -> Response:
        look = Look.at(self.kit)
        one = _found(look, request)
        files, number = _files(look.silo, one), int(request.path_params["number"])
        if not 0 <= number < len(files):
            raise HTTPException(404, "There is no such file.")
        return files[number].response()

    # --- The silo ------------------------------------------------------------------

    def _account(self, request: Request) -> Response:
        look, policy = (now := Look.at(self.kit)), now.silo.rules()
        refused = [x for one in look.studies.values() for x in one.refusals]
        return self._show(
            request, look, "account",
            sentences=account.budget(look.state, policy),
            used=account.used(look.state, policy),
            columns=account.columns_table(look.state),
            rosters=account.rosters_table(look.state),
            left=account.refusals_left(look.state, policy),
            refused=account.refusals_table(sorted(refused, key=lambda one: one.time)),
        )  # fmt: skip

    def _rules(self, request: Request) -> Response:
        look = Look.at(self.kit)
        rules = account.rules(look.silo.rules())
        return self._show(request, look, "rules", rules=rules)

    def _health(self, request: Request) -> Response:
        look = Look.at(self.kit)
        found = health.findings(self.kit, look.silo)
        return self._show(request, look, "health", findings=found)


@final
@dataclass(frozen=True)
class _Asked:
    """Contents of the page about a waiting study; `problem`: why it has no plan."""

    announced: Announced | None
    problem: str
    sentences: Sequence[str] = ()
    picture: Any = None
    left: Sequence[Any] = ()
    rules: Sequence[plan_in_words.Touched] = ()
    before: StudyHistory | str | None = None
    changes: Sequence[str] = ()
    text_changes: Sequence[tuple[str, str]] = ()
    fresh: Sequence[str] = ()

    @classmethod
    def of(cls, look: Look, one: StudyHistory) -> "_Asked":
        try:
            announced = _announced(look, one)
            return cls._planned(look, one, announced)
        except UnpooledError as wrong:
            return cls(None, str(wrong))
        except Exception as wrong:
            # Whatever a hostile text does to the planning, it can be declined.
            return cls(None, f"An unexpected {type(wrong).__name__} stopped the plan.")

    @classmethod
    def _planned(cls, look: Look, one: StudyHistory, announced: Announced) -> "_Asked":
        plan, name = announced.plan, look.silo.name
        facts = plan_in_words.facts_of_plan(name, one.name, announced)
        now = stated(one.name, one.text)
        named, text = _before(look, one)
        changed, lines = list[str](), list[tuple[str, str]]()
        if text:
            lines = plan_in_words.text_changes(text, one.text)
            with suppress(UnpooledError):
                changed = plan_in_words.changes(stated(named, text), now)
        others = [x for x in look.studies.values() if x.left]
        return cls(
            announced=announced,
            problem="",
            sentences=plan_in_words.in_words(facts, plan),
            picture=plan_in_words.picture(name, plan),
            left=what_left(facts),
            rules=plan_in_words.rules_touched(
                look.silo.rules(),
                announced,
                facts,
                look.state,
                n_rows=look.silo.table().n_rows,
                partition=now.partition,
            ),
            before=named,
            changes=changed,
            text_changes=lines,
            fresh=plan_in_words.never_sent(plan, others),
        )


def _announced(look: Look, one: StudyHistory) -> Announced:
    """Return the silo's own plan of a study's present text."""
    return read_announced(look.silo.party(), one.name, one.text, look.silo.pinned())


def _before(look: Look, one: StudyHistory) -> tuple[str, str]:
    """Return name and text of what a study is compared with; empty without any.

    That is the study's own last text, or else the study before it.
    """
    if len(one.texts) > 1:
        return one.name, one.texts[-2][1]
    earlier = [x for x in look.studies.values() if x.texts and x.first < one.first]
    if not earlier:
        return "", ""
    return earlier[-1].name, earlier[-1].text


def _found(look: Look, request: Request) -> StudyHistory:
    one = look.studies.get(str(request.path_params["key"]))
    if one is None:
        raise HTTPException(404, "The log has no such study.")
    return one


def _wrong_form(name: str, reason: str) -> str:
    if not name or len(name) > _LONGEST_NAME:
        return "Write your name, for the log."
    if not reason or len(reason) > _LONGEST_REASON:
        return f"Write a reason, of at most {_LONGEST_REASON:,} characters."
    return ""


def _period(request: Request) -> tuple[date, date]:
    """Return the asked period, or the last three months."""
    given = request.query_params
    since, until = last_quarter(datetime.now(UTC).date())
    try:
        since = date.fromisoformat(given.get("since") or since.isoformat())
        until = date.fromisoformat(given.get("until") or until.isoformat())
    except ValueError:
        raise HTTPException(400, "A day is written as 2026-01-31.") from None
    return min(since, until), max(since, until)


# --- What stayed in the silo --------------------------------------------------------


@final
@dataclass(frozen=True)
class _File:
    """A file that a person can take away.

    Attributes
    ----------
    name, what : str
        For people, and what is in it.
    content : callable
        Returns the bytes; an error where they cannot be had any more.
    """

    name: str
    what: str
    content: Callable[[], bytes]

    def response(self) -> Response:
        """Return the file as a download."""
        try:
            return attachment(self.name, self.content())
        except OSError:
            raise HTTPException(404, "The file is not there any more.") from None


def _files(silo: SiloFile, one: StudyHistory) -> list[_File]:
    """Return the results of a study that this silo has, in a fixed order."""
    folder = silo.results / one.name
    found = [
        _File(path.name, _what(path.stem), path.read_bytes)
        for path in sorted(folder.glob("[!.]*.csv"))
        # Nothing that points elsewhere.
        if path.is_file() and not path.is_symlink() and not folder.is_symlink()
    ]
    for name, model in _delivered(silo, one)[0].items():
        if hasattr(model, "transform"):
            found.append(
                _File(
                    f"{one.name}-{name}-{silo.name}.csv",
                    f"This silo’s rows under the model {name}: scores, or values as it "
                    f"transforms them. Made when it is asked for; it never leaves.",
                    partial(_scores, silo, model),
                )
            )
    return found


def _scores(silo: SiloFile, model: Any) -> bytes:
    """Return the scores of a silo's rows under a model as CSV."""
    # Beside the log: a folder for its owner alone, on a disk of the silo.
    with tempfile.TemporaryDirectory(dir=silo.audit.parent) as work:
        path = Path(work) / "scores.csv"
        apply(model, silo.table(), path, silo.kept)
        return path.read_bytes()


def _what(stem: str) -> str:
    step, _, name = stem.partition("_")
    return f"{name.partition('-')[0].replace('_', ' ')} of {step}, kept here alone"


def _delivered(silo: SiloFile, one: StudyHistory) -> tuple[dict[str, Any], list[str]]:
    """Return the models that are as they were delivered, and why others are not."""
    found, unread = dict[str, Any](), list[str]()
    for name, sha in one.models.items():
        path = silo.models / one.name / f"{name}{MODEL_SUFFIX}"
        try:
            if digest(path.read_bytes()) != sha:
                unread.append(f"{name}: the file was altered after it was delivered.")
                continue
            found[name] = load(path)
        except (OSError, UnpooledError) as wrong:
            unread.append(f"{name}: {wrong}")
    return found, unread


def _each_once(delivered: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the models of a study by name, without the pipeline made of them."""
    parts = {n: model for n, model in delivered.items() if not hasattr(model, "steps")}
    return named_models(parts or delivered)


def _log_table(one: StudyHistory) -> ResultTable:
    """Return a study's entries, with the hashes by which they are verified."""
    rows = []
    for entry in one.entries:
        what = event(entry)
        if entry.kind == "line":
            line = entry.record
            way = {"out": "left", "in": "came in"}[line["direction"]]
            way = "stays" if line["visibility"] == "kept" else way
            what = f"{way}: {line['step']}, {line['name']}"
        elif entry.kind == "round":
            what = f"round {entry.record['round']} answered: {entry.record['step']}"
        signed = "yes" if entry.signature else ""
        when = entry.time[:19].replace("T", " ")
        rows.append((entry.number, when, what, signed, entry.hash[:16]))
    heads = (
        Column("Entry", "count"),
        Column("When (UTC)", "setting"),
        Column("What"),
        Column("Signed"),
        Column("Hash begins", "setting"),
    )
    return ResultTable("log", heads, rows, most=None)
