"""A silo's desk: five answers, decisions, rules, account, files; and hostile texts."""

import secrets
import sqlite3
from datetime import date

import pandas as pd
import pytest

from audit_command import COLUMNS, NAMES, TEXT, Consortium
from desk_silo import ABOUT, ORIGIN, desk_of, kit_of, opened, read, took_part, words
from unpooled import SimpleImputer
from unpooled.desk.answers import last_quarter
from unpooled.desk.history import key_of
from unpooled.party.memory.audit_log import AuditLog

HEART, LIVER = f"/studies/{key_of('heart')}", f"/studies/{key_of('liver')}"
HOSTILE = '<script>alert(1)</script><img src=x onerror="alert(2)">'


@pytest.fixture(scope="module")
def after(tmp_path_factory) -> Consortium:
    """Silos that took part in a study; no test of this fixture changes them."""
    heart = took_part(tmp_path_factory.mktemp("silos"))
    kit_of(heart)
    return heart


@pytest.fixture(scope="module")
def browser(after):
    return opened(desk_of(after))


@pytest.fixture(scope="module")
def heart(tmp_path_factory) -> Consortium:
    """Silos that tests announce further texts to."""
    return took_part(tmp_path_factory.mktemp("announced"))


@pytest.fixture
def own(tmp_path) -> Consortium:
    """Silos whose files a test may spoil."""
    return took_part(tmp_path)


def announce(heart: Consortium, text: str, name: str = "liver") -> None:
    """Announce a text; a comment makes it another than all before, so that it waits."""
    comment = f"# {secrets.token_hex(8)}\n"
    header = {"kind": "announce", "study": name, "text": f"{comment}{text}"}
    heart.coordinator().send(header)


def liver(name: str = "liver") -> str:
    return ABOUT.replace('name = "heart"', f'name = "{name}"')


def decide(browser, path: str, decision: str, **fields: str):
    form = read(browser.get(path)).fields
    given = {"name": "Dr. Ada", "reason": "As agreed.", "read": "yes"}
    data = {**form, **given, "decision": decision, **fields}
    return browser.post(f"{path}/decision", data=data, headers={"origin": ORIGIN})


# --- What a data-protection officer must be able to answer ---------------------------


@pytest.mark.slow
def test_five_questions_are_answered_from_the_desk_alone(browser):
    page = words(browser.get("/"))

    def answer(question: str, following: str = "") -> str:
        return page.split(question)[1].split(following or "\0")[0]

    asked = answer("What was asked of us?", "What left?")
    assert "1 study" in asked
    assert "Which risk factors vary together?" in asked
    assert "PCA(n_components = 2) on age, chol and rate" in asked
    assert "with berlin, paris and rome" in asked

    left = answer("What left?", "Could anybody have learned one person?")
    # Nine arrays of 32 bytes a number and one of 8: as the ledger of the study has it.
    assert "9 arrays in 8 rounds, 1,024 bytes" in left
    assert "all as masked parts of totals over 3 silos" in left

    learned = answer("Could anybody have learned one person?", "Who approved?")
    assert "No: no array about a single person left" in learned
    assert "heart · No person’s data left a silo." in learned

    approved = answer("Who approved?", "Is the log intact?")
    assert f"Approved by Dr. Livia Conti, {date.today().year}" in approved

    assert "Intact: " in answer("Is the log intact?")


@pytest.mark.slow
def test_what_left_is_what_the_log_has(after, browser):
    journal = AuditLog(after.silo("rome").audit)
    out = [x for x in journal.ledger("heart") if x.direction == "out"]

    assert (len(out), sum(line.bytes for line in out)) == (9, 1024)
    page = words(browser.get(HEART))
    for line in out:
        assert f"{line.step} · {line.name}" in page
    entries = journal.entries("heart")
    assert all(entry.hash[:16] in page for entry in entries)


@pytest.mark.slow
def test_another_period_has_other_answers(browser):
    page = words(browser.get("/?since=2020-01-01&until=2020-03-31"))

    assert "Nothing was asked of this silo." in page
    assert "Nothing left this silo." in page
    assert "Who approved? Nobody." in page
    assert browser.get("/?since=yesterday").status_code == 400


@pytest.mark.parametrize(
    ("today", "since"),
    [("2026-11-23", "2026-08-23"), ("2026-02-28", "2025-11-28"),
     ("2026-05-31", "2026-03-03"), ("2026-01-01", "2025-10-01")],
)  # fmt: skip
def test_the_last_quarter_is_three_months(today, since):
    day = date.fromisoformat(today)

    assert last_quarter(day) == (date.fromisoformat(since), day)


@pytest.mark.slow
def test_what_single_values_would_tell_is_said(tmp_path):
    """A study in clear, a silo that asks nobody: the desk says both."""
    heart = Consortium(tmp_path)
    for name in NAMES:
        heart.silo(name).policy.write_text("[policy]\nallow_disclosed = true\n")
    heart.start()
    heart.announce(TEXT.replace("[study]", '[study]\nsecure_sum = "plain"'))
    heart.fit(SimpleImputer(), protection="plain")

    page = words(opened(desk_of(heart)).get("/"))

    assert "Look at heart: it cannot be ruled out." in page
    assert "not masked, so that the coordinator could read this silo’s own" in page
    assert "This silo does not ask a person" in page


@pytest.mark.slow
def test_an_altered_log_is_found(own):
    browser = opened(desk_of(own))
    assert "Is the log intact? Intact" in words(browser.get("/"))
    with sqlite3.connect(own.silo("rome").audit) as database:
        database.execute("DROP TRIGGER entries_stay")
        database.execute(
            "UPDATE entries SET record = replace(record, 'pca', 'pcb') "
            "WHERE number = 33"
        )
    database.close()

    page = words(browser.get("/"))

    assert "Not intact: Entry 33 of the audit log" in page
    assert "The log cannot be read." in page
    assert browser.get("/studies").status_code == 200


# --- Deciding ------------------------------------------------------------------------


@pytest.mark.slow
def test_a_study_that_waits_is_shown_whole_with_its_plan(heart):
    announce(heart, f"{liver('kidney')}# the last line\n", "kidney")
    browser = opened(desk_of(heart))

    assert "kidney, announced" in words(browser.get("/")).replace(" ,", ",")
    page = browser.get(f"/studies/{key_of('kidney')}")
    said = words(page)

    assert "Waits for your decision" in said
    assert "This silo would send 9 arrays of numbers in 8 rounds" in said
    assert "All of it would be masked" in said
    assert "No array would have an entry for a single person." in said
    assert 'role="img"' in page.text
    assert "Fewest silos in a study: 3 This study: 3 silos. Within our rules." in said
    assert "Most numbers opened about a column" in said
    assert "Compared with the study before, heart" in said
    assert "# the last line" in said
    assert "Every kind of array in it left this silo in an earlier study" in said


@pytest.mark.slow
def test_what_changed_is_said(heart):
    text = liver().replace("n_components = 2", "n_components = 1")
    announce(heart, text)
    announce(heart, text.replace('["age", "chol", "rate"]', '["age", "chol"]'))

    said = words(opened(desk_of(heart)).get(LIVER))

    assert "Compared with the last text of this study" in said
    assert "Left out: 1 column, rate." in said
    assert '+ columns = ["age", "chol"]' in said


@pytest.mark.slow
def test_an_approval_is_written_with_name_and_reason(heart):
    announce(heart, liver())
    browser = opened(desk_of(heart))

    page = decide(browser, LIVER, "approve", reason="Ethics vote 12/2026.")

    assert page.status_code == 200
    assert "Approved. With berlin, paris and rome. Approved by Dr. Ada (account " in (
        words(page)
    )
    assert "Ethics vote 12/2026." in words(browser.get("/"))
    journal = AuditLog(heart.silo("rome").audit)
    assert journal.study("liver").approval == "approved"
    assert journal.study("liver").approves("pca.local_scatter")
    assert not journal.study("liver").approves("cca.local_products")
    assert journal.verify([heart.silo("rome").key().public])


@pytest.mark.slow
def test_declining_is_written_too(heart):
    announce(heart, liver())

    page = decide(opened(desk_of(heart)), LIVER, "decline", reason="No basis.", read="")

    assert "Declined by Dr. Ada" in words(page)
    assert AuditLog(heart.silo("rome").audit).study("liver").approval == "denied"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"name": " "}, "Write your name"),
        ({"name": "x" * 101}, "Write your name"),
        ({"reason": ""}, "Write a reason"),
        ({"read": ""}, "Confirm that you read"),
        ({"decision": "maybe"}, "has no decision"),
    ],
)
def test_an_incomplete_form_decides_nothing(heart, fields, said):
    announce(heart, liver())
    browser = opened(desk_of(heart))

    page = decide(browser, LIVER, **{"decision": "approve", **fields})

    assert page.status_code == 400
    assert said in words(page)
    assert AuditLog(heart.silo("rome").audit).study("liver").approval == "waiting"


@pytest.mark.slow
def test_a_text_that_came_meanwhile_is_not_approved(heart):
    """What a person did not see, a person has not approved."""
    announce(heart, liver())
    browser = opened(desk_of(heart))
    form = read(browser.get(LIVER)).fields
    announce(heart, liver().replace("= 2", "= 3"))

    given = {"decision": "approve", "name": "Ada", "reason": "Yes.", "read": "yes"}
    page = browser.post(
        f"{LIVER}/decision", data=form | given, headers={"origin": ORIGIN}
    )

    assert page.status_code == 409
    assert "announced again meanwhile" in words(page)
    assert AuditLog(heart.silo("rome").audit).study("liver").approval == "waiting"


@pytest.mark.slow
def test_a_silo_that_asks_nobody_has_no_form(tmp_path):
    heart = Consortium(tmp_path)
    heart.announce(ABOUT)

    page = opened(desk_of(heart)).get(HEART)

    assert "Needs no decision" in words(page)
    assert "<form" not in page.text


@pytest.mark.slow
def test_a_study_that_is_over_does_not_wait(tmp_path):
    """It ran before the silo asked a person about each study."""
    heart = took_part(tmp_path, approval="none", decided=False)
    file = heart.silo("rome").path
    file.write_text(file.read_text().replace('"none"', '"each-study"'))
    browser = opened(desk_of(heart))

    assert "No study waits" in words(browser.get("/"))
    assert "Ended before a decision was asked for" in words(browser.get(HEART))
    # A run of the same text would need one: it can be given all the same.
    assert "<form" in browser.get(HEART).text

    # Another text under its name has not run.
    announce(heart, ABOUT, "heart")
    assert "No study waits" not in words(browser.get("/"))


@pytest.mark.slow
def test_what_the_rules_would_refuse_is_named(own):
    own.silo("rome").policy.write_text("[policy]\nmin_rows = 1000\n")
    announce(own, liver())

    said = words(opened(desk_of(own)).get(LIVER))

    assert "Fewest rows behind any array that leaves: 1,000" in said
    assert "Our rules would refuse it." in said


# --- Hostile texts -------------------------------------------------------------------


def hostile(place: str) -> str:
    """Return a study's text with markup at one place."""
    quoted = HOSTILE.replace('"', '\\"')
    return {
        "purpose": liver().replace("Which risk factors", quoted),
        "contact": liver().replace("dpo@rome.example", quoted),
        "silo": liver().replace("[parties.rome]", f'[parties."{quoted}"]'),
        "column": liver().replace('"rate"]', f'"rate", "{quoted}"]'),
        "model": liver().replace('"PCA"', f'"{quoted}"'),
        "comment": f"{liver()}# {HOSTILE}\n",
        "no study": HOSTILE,
        "name": liver().replace('"liver"', f'"{quoted}"'),
        "turned": f"{liver()}# \u202e\u2066 {HOSTILE} \x9b[2J\n",
        "deep": "a = " + "[" * 900 + "]" * 900,
    }[place]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    "place",
    ["purpose", "contact", "silo", "column", "model", "comment", "no study", "name",
     "turned", "deep"],
)  # fmt: skip
def test_a_hostile_text_is_shown_and_does_nothing(heart, place):
    announce(heart, hostile(place))
    browser = opened(desk_of(heart))

    for path in ("/", "/studies", LIVER):
        page = browser.get(path)
        assert page.status_code == 200
        assert "<script" not in page.text
        assert "<img" not in page.text
        assert "\u202e" not in page.text
        assert "\x9b" not in page.text
    shown = browser.get(LIVER)
    if place != "deep":
        assert "&lt;script&gt;" in shown.text
    # Whatever it is, it can be declined.
    assert "Declined by" in words(decide(browser, LIVER, "decline"))


@pytest.mark.slow
def test_hostile_names_in_the_log_are_only_text(tmp_path):
    """A session is refused under a name that nobody checked."""
    heart = Consortium(tmp_path)
    journal = heart.parties["rome"].audit_log
    journal.refused(f"../../{HOSTILE}", HOSTILE, "min_rows", "question")
    browser = opened(desk_of(heart))

    listed = browser.get("/studies")
    one = browser.get(read(listed).links[-1])

    for page in (listed, one, browser.get("/account")):
        assert page.status_code == 200
        assert "<script" not in page.text


@pytest.mark.slow
def test_a_reason_is_only_text(heart):
    announce(heart, liver())
    browser = opened(desk_of(heart))

    decide(browser, LIVER, "decline", reason=HOSTILE, name=HOSTILE[:100])

    for path in ("/", LIVER):
        assert "<script" not in browser.get(path).text


# --- Files ---------------------------------------------------------------------------


@pytest.mark.slow
def test_scores_of_own_rows_are_made_when_asked_for(after, browser, tmp_path):
    page = browser.get(HEART)
    (link,) = [link for link in read(page).links if "/files/" in link]

    answer = browser.get(link)

    assert answer.headers["content-disposition"] == (
        'attachment; filename="heart-pipeline-rome.csv"'
    )
    (tmp_path / "scores.csv").write_bytes(answer.content)
    scores = pd.read_csv(tmp_path / "scores.csv")
    rows = pd.read_csv(after.silo("rome").source)
    model, _ = after.fit()
    expected = model.transform(rows[list(COLUMNS)])
    assert list(scores["id"]) == list(rows["id"])
    assert abs(scores.iloc[:, -2:].to_numpy() - expected).max() < 1e-12
    # It was made for this download alone.
    state = after.silo("rome").audit.parent
    assert not list(state.rglob("scores.csv"))


@pytest.mark.slow
def test_own_results_are_found_and_links_are_not(own):
    folder = own.silo("rome").results / "heart"
    folder.mkdir(parents=True)
    (folder / "pca_scores.csv").write_text("id,component_1\na,1\n")
    secret = own.folder / "secret.csv"
    secret.write_text("secret")
    (folder / "zzz.csv").symlink_to(secret)
    (folder / ".hidden.csv").write_text("hidden")
    browser = opened(desk_of(own))

    links = [x for x in read(browser.get(HEART)).links if "/files/" in x]
    contents = [browser.get(link).text for link in links]

    assert contents[0] == "id,component_1\na,1\n"
    assert "secret" not in contents
    assert "hidden" not in contents


@pytest.mark.thinned(1)
@pytest.mark.parametrize(
    "path",
    [
        f"{HEART}/files/7",
        f"{HEART}/files/-1",
        f"{HEART}/files/..%2f..%2flocal%2fidentity.key",
        f"{HEART}/files/../../local/identity.key",
        f"{HEART}/files/0/../../../local/identity.key",
        "/studies/../../local/identity.key",
        "/studies/..%2f..%2f/files/0",
        "/studies/heart",
        "/studies/%00/files/0",
        "/local/identity.key",
        "/static/../../identity.key",
    ],
)
def test_no_path_leads_out_of_the_list(after, browser, path):
    key = after.silo("rome").identity.read_text().strip()

    page = browser.get(path)

    assert page.status_code == 404
    assert key not in page.text


@pytest.mark.slow
def test_a_model_that_was_altered_is_not_used(own):
    path = own.silo("rome").models / "heart" / "pipeline.unpooled"
    path.write_bytes(path.read_bytes()[:-1] + b"x")

    said = words(opened(desk_of(own)).get(HEART))

    assert "pipeline: the file was altered after it was delivered." in said
    assert "This silo has no results of this study" in said


@pytest.mark.slow
def test_models_that_stand_in_the_pipeline_too_are_shown_once(tmp_path):
    """As a run delivers them: each step by itself, and the pipeline of those."""
    heart = took_part(tmp_path)
    model, _ = heart.fit()
    for number, (name, step) in enumerate(model.steps, 1):
        heart.deliver(step, f"{number:02}-{name}")

    page = words(opened(desk_of(heart)).get(HEART))

    for _, step in model.steps:
        assert page.count(f"{type(step).__name__}: ") == 1


# --- Account, rules, health ----------------------------------------------------------


@pytest.mark.slow
def test_the_account_shows_budgets_rosters_and_refusals(own):
    own.parties["rome"].audit_log.refused("heart", "pca.local_x", "min_rows", "q")

    said = words(opened(desk_of(own)).get("/account"))

    opened_numbers = AuditLog(own.silo("rome").audit).state().opened
    assert f"{opened_numbers.total:,.0f} numbers were opened" in said
    assert f"a share of {opened_numbers.share:.2g}" in said
    assert "Until a study of the same silos has counted all rows" in said
    assert "berlin, paris and rome" in said
    assert "1 refusal in the last 30 days depended on the rows, of at most 3" in said
    assert "pca.local_x" in said


@pytest.mark.slow
def test_the_rules_are_words_and_cannot_be_changed(own):
    own.silo("rome").policy.write_text("[policy]\nmin_rows = 5\nmin_parties = 4\n")
    page = opened(desk_of(own)).get("/rules")

    said = words(page)

    assert "Fewest rows behind any array that leaves 5" in said
    assert "It allows more than the default, 10." in said
    assert "Fewest silos in a study 4 It differs from the default, 3." in said
    assert "<form" not in page.text
    assert "<input" not in page.text


def test_health_names_what_is_wrong(browser):
    said = words(browser.get("/health"))

    # A kit without a certificate, a process and a server.
    assert "3 things to look at: This silo, Server and Certificate." in said
    assert "40 rows, 3 columns; 3 silos on the roster" in said
    assert "Intact: " in said
    assert "free. The log has" in said


@pytest.mark.slow
def test_looking_writes_nothing(after, browser):
    log = after.silo("rome").audit
    before = AuditLog(log).n_entries

    for path in ("/", "/studies", HEART, "/account", "/rules", "/health"):
        assert browser.get(path).status_code == 200

    assert AuditLog(log).n_entries == before


@pytest.mark.slow
def test_a_silo_without_a_log_has_a_desk(tmp_path):
    heart = Consortium(tmp_path)
    heart.parties.clear()
    heart.silo("rome").audit.unlink()

    browser = opened(desk_of(heart))

    assert "There is no log yet" in words(browser.get("/"))
    for path in ("/studies", "/account", "/rules", "/health"):
        assert browser.get(path).status_code == 200
    assert not heart.silo("rome").audit.exists()


@pytest.mark.slow
def test_files_of_the_silo_that_are_wrong_are_a_page(own):
    browser = opened(desk_of(own))
    own.silo("rome").policy.write_text("nonsense = 1\n")

    page = browser.get("/rules")

    assert page.status_code == 500
    assert "Unknown policy keys" in words(page)
