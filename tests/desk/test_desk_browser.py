"""The desk in a real browser: by keyboard, on a telephone, in the dark, read aloud."""

import shutil
from pathlib import Path

import pytest

from desk_silo import ABOUT, kit_of, took_part
from served_desk import link_of, served
from unpooled.desk.history import key_of
from unpooled.party.memory.audit_log import AuditLog

# What is decided, refused and escaped is in `test_silo_desk.py` and `test_door.py`.
pytestmark = [pytest.mark.browser, pytest.mark.slow]

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
LIVER = f"/studies/{key_of('liver')}"
PATHS = ("/", "/studies", f"/studies/{key_of('heart')}", LIVER, "/account", "/rules",
         "/health")  # fmt: skip
HOSTILE = '<img src=x onerror="document.title=1"><script>alert(1)</script>'
# A page must fit: what is wider scrolls in a box of its own.
BEYOND = """() => [...document.querySelectorAll('body *')]
  .filter(e => !e.closest('.scroll, .skip') && e.getClientRects().length)
  .filter(e => e.getBoundingClientRect().right > innerWidth + 1)
  .map(e => e.outerHTML.slice(0, 80))"""


@pytest.fixture(scope="module")
def silos(tmp_path_factory):
    heart = took_part(tmp_path_factory.mktemp("shown"))
    kit_of(heart)
    quoted = HOSTILE.replace('"', '\\"')
    text = ABOUT.replace('name = "heart"', 'name = "liver"')
    text = text.replace("Which risk factors", quoted)
    header = {"kind": "announce", "study": "liver", "text": text}
    heart.coordinator().send(header)
    return heart


@pytest.fixture(scope="module")
def session(silos):
    """A browser that opened the desk, and the desk's address."""
    if not Path(CHROMIUM).exists():
        pytest.skip("chromium absent")
    from playwright.sync_api import sync_playwright

    with (
        served("silo", "desk", "--kit", silos.folder / "rome") as (_, said),
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        context = browser.new_context()
        link = link_of(said)
        page = context.new_page()
        page.goto(link)
        assert page.get_by_role("heading", name="Overview").is_visible()
        yield context, link.partition("/open")[0]
        browser.close()


@pytest.fixture
def page(session):
    page = session[0].new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
    asked: list[str] = []
    page.on("request", lambda message: asked.append(message.url))
    yield page
    page.close()
    assert said == []
    own = session[1]
    assert [x for x in asked if not x.startswith((f"{own}/", "data:"))] == []


@pytest.mark.parametrize(
    "look",
    [(w, s) for w in (400, 1400) for s in ("light", "dark")],
    ids=lambda look: "-".join(map(str, look)),
)
def test_every_page_fits_and_is_quiet(session, page, look):
    width, scheme = look
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme)
    for path in PATHS:
        page.goto(session[1] + path)

        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        assert page.evaluate(BEYOND) == [], path
        paper = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g)"
        assert (max(map(int, page.evaluate(paper))) < 60) == (scheme == "dark")


def test_reasons_of_refusals_need_no_scrolling_on_a_telephone(session, page, silos):
    log = AuditLog(silos.silo("rome").audit)
    log.refused("liver", "imputer.local_counts", "min_changed_rows")
    log.close()
    page.set_viewport_size({"width": 400, "height": 900})
    page.goto(session[1] + "/account")

    refusals = page.get_by_role("region", name="Refusals")
    assert refusals.evaluate("e => e.scrollWidth <= e.clientWidth")
    assert refusals.get_by_text("differ in too few").is_visible()


def test_a_reader_of_the_screen_hears_what_things_are(session, page):
    for path in PATHS:
        page.goto(session[1] + path)
        tree = page.locator("body").aria_snapshot()

        assert 'navigation "Parts of the desk"' in tree
        assert "- main" in tree
        assert "- heading" in tree
        # Every field has a name, and the present part of the menu is said.
        for field in page.locator("input:not([type=hidden]), textarea").all():
            assert field.evaluate("e => e.labels.length == 1"), path
        assert page.locator("nav [aria-current=page]").count() == 1
    page.goto(session[1] + LIVER)
    tree = page.locator("main").aria_snapshot()
    assert 'form "Approve the study"' in tree
    assert 'img "What would leave rome, and who would see it' in tree
    assert 'textbox "Reason"' in tree
    assert 'checkbox "I read the plan and the whole text."' in tree


def test_a_hostile_text_stays_text(session, page):
    page.goto(session[1] + LIVER)

    assert page.title() == "Study liver · Desk of rome"
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 0
    assert page.get_by_text(HOSTILE).first.is_visible()


def test_a_page_elsewhere_cannot_decide(session, silos, tmp_path):
    """A form of another page, in the browser that has the desk's session."""
    context, own = session
    page = context.new_page()
    page.goto("data:text/html,<p>elsewhere")
    form = (
        f"<form method=post action='{own}{LIVER}/decision'>"
        "<input name=decision value=approve><button>Win a prize</button></form>"
    )
    page.set_content(form)
    page.get_by_role("button").click()
    page.wait_for_url(f"{own}/**")

    # Neither the session's cookie nor the page's origin came along.
    assert "opens the desk once" in page.content()
    assert AuditLog(silos.silo("rome").audit).study("liver").approval == "waiting"
    page.close()


def test_a_study_is_approved_by_keyboard_alone(session, page, silos):
    page.goto(session[1])
    keys = page.keyboard

    def tab_to(name: str) -> None:
        """Press Tab until the element of this name has the focus."""
        said = """() => { const e = document.activeElement;
          return e.labels?.length ? e.labels[0].textContent : e.textContent; }"""
        for _ in range(60):
            keys.press("Tab")
            if page.evaluate(said).strip() == name:
                outline = "getComputedStyle(document.activeElement).outlineStyle"
                assert page.evaluate(outline) != "none"
                return
        raise AssertionError(f"no way to {name} by keyboard")

    tab_to("liver")
    keys.press("Enter")
    page.wait_for_url(f"**{LIVER}")
    tab_to("Your name and role")
    keys.type("Dr. Ada Example, data protection")
    tab_to("Reason")
    keys.type("Agreed at the meeting.")
    tab_to("I read the plan and the whole text.")
    keys.press("Space")
    tab_to("Approve")
    keys.press("Enter")

    page.locator(".answer", has_text="Approved by Dr. Ada Example").wait_for()
    study = AuditLog(silos.silo("rome").audit).study("liver")
    assert study.approval == "approved"
    assert study.decision["reason"] == "Agreed at the meeting."
