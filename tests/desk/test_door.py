"""The door of a desk: one browser of this machine, by a link that works once."""

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from desk_silo import ORIGIN, PORT
from unpooled.desk.door import Door

FORM = {"content-type": "application/x-www-form-urlencoded"}


def inside(request: Request) -> PlainTextResponse:
    form = request.scope.get("desk.form", {})
    return PlainTextResponse(f"{form} {request.scope['desk.form_token']}")


@pytest.fixture
def door() -> Door:
    return Door(Starlette(routes=[Route("/", inside, methods=["GET", "POST"])]), PORT)


@pytest.fixture
def browser(door) -> TestClient:
    made = TestClient(door, base_url=ORIGIN)
    assert made.get(door.path).status_code == 200
    return made


def token_of(browser: TestClient) -> str:
    return browser.get("/").text.split()[-1]


def post(browser: TestClient, *, origin: str | None = ORIGIN, **fields: str):
    headers = {} if origin is None else {"origin": origin}
    return browser.post("/", data=fields, headers=headers)


def test_the_link_opens_the_desk_once(door, browser):
    assert browser.get("/").status_code == 200

    other = TestClient(door, base_url=ORIGIN)

    assert other.get(door.path).status_code == 403
    assert other.get("/").status_code == 403
    # The session of the first one goes on.
    assert browser.get("/").status_code == 200


def test_the_session_is_a_cookie_that_no_other_site_sends_and_no_script_reads(door):
    browser = TestClient(door, base_url=ORIGIN)

    answer = browser.get(door.path, follow_redirects=False)

    cookie = answer.headers["set-cookie"]
    assert answer.headers["location"] == "/"
    assert cookie.startswith(f"unpooled-desk-{PORT}=")
    assert cookie.endswith("; Path=/; HttpOnly; SameSite=Strict")
    assert door.path.partition("=")[2] not in cookie


@pytest.mark.parametrize(
    "path", ["/open", "/open?token=", "/open?token=None", "/open?token=wrong", "/"]
)
def test_without_the_link_nothing_opens(door, path):
    answer = TestClient(door, base_url=ORIGIN).get(path)

    assert answer.status_code == 403
    # A wrong guess does not use the link up.
    assert TestClient(door, base_url=ORIGIN).get(door.path).status_code == 200


def test_a_link_that_was_used_is_no_key_either(door, browser):
    # The attribute is None by now: nobody opens the desk by its name.
    assert door.path.endswith("=None")

    answer = TestClient(door, base_url=ORIGIN).get("/open?token=None")

    assert answer.status_code == 403


@pytest.mark.parametrize(
    "cookie",
    [
        f"unpooled-desk-{PORT}=",
        f"unpooled-desk-{PORT}=x",
        "unpooled-desk-1=x",
        '"',
        "ä",
    ],
)
def test_a_made_up_session_opens_nothing(door, browser, cookie):
    other = TestClient(door, base_url=ORIGIN)

    answer = other.get("/", headers={"cookie": cookie.encode()})

    assert answer.status_code == 403


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        f"evil.example:{PORT}",
        "127.0.0.1",
        "127.0.0.1:1",
        f"127.0.0.1.evil.example:{PORT}",
        f"localhost.:{PORT}",
        f"127.0.0.1:{PORT}@evil.example",
        f"[::1]:{PORT}",
        "",
    ],
)
def test_a_rebound_name_gets_nothing(door, browser, host):
    """A name of the attacker's that resolves to this machine is another host."""
    for path in ("/", door.path):
        answer = browser.get(path, headers={"host": host})
        assert answer.status_code == 400
        assert "set-cookie" not in answer.headers


def test_a_socket_may_be_forwarded_to_any_port():
    door = Door(Starlette(routes=[Route("/", inside)]))

    for origin in ("http://localhost", "http://localhost:4000"):
        assert TestClient(door, base_url=origin).get("/").status_code == 403
    assert TestClient(door, base_url="http://evil:4000").get("/").status_code == 400


def test_a_form_of_the_desk_is_taken(browser):
    answer = post(browser, form_token=token_of(browser), reason="yes")

    assert answer.status_code == 200
    assert answer.text.startswith("{'reason': 'yes'}")


@pytest.mark.parametrize(
    "origin",
    [
        None,
        "null",
        "http://evil.example",
        # Another program on this machine: the same site to a browser, another port.
        "http://127.0.0.1:1",
        f"https://127.0.0.1:{PORT}",
        f"http://localhost:{PORT}",
    ],
)
def test_a_form_of_another_page_is_refused(browser, origin):
    token = token_of(browser)

    assert post(browser, origin=origin, form_token=token).status_code == 403


@pytest.mark.parametrize(
    "fields",
    [{"reason": "yes"}, {"form_token": "", "reason": "yes"}, {"form_token": "x"}],
)
def test_a_form_without_its_token_is_refused(browser, fields):
    assert post(browser, **fields).status_code == 403


@pytest.mark.parametrize("kind", ["text/plain", "multipart/form-data", ""])
def test_other_kinds_of_content_are_refused(browser, kind):
    """A page elsewhere may send these without a question to the desk."""
    body = f"form_token={token_of(browser)}"
    headers = {"origin": ORIGIN, "content-type": kind}

    assert browser.post("/", content=body, headers=headers).status_code == 400


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS"])
def test_other_methods_are_refused(browser, method):
    answer = browser.request(method, "/", headers={"origin": ORIGIN, **FORM})

    assert answer.status_code == 400


def test_a_long_form_is_refused(browser):
    answer = post(browser, form_token=token_of(browser), reason="x" * 70_000)

    assert answer.status_code == 400


def test_a_header_that_comes_twice_is_none(browser):
    answer = browser.get("/", headers=[("host", f"127.0.0.1:{PORT}"), ("host", "evil")])

    assert answer.status_code == 400


@pytest.mark.parametrize("path", ["/", "/nowhere", "/open"])
def test_every_answer_says_what_a_page_may_do(browser, door, path):
    for one in (browser, TestClient(door, base_url=ORIGIN)):
        headers = one.get(path).headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; ")
        assert "script-src" not in policy
        assert "form-action 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert headers["referrer-policy"] == "same-origin"
