"""A silo that took part in studies, and its desk in a browser without a window."""

import re
from html.parser import HTMLParser

from starlette.testclient import TestClient

import kit_folders
from audit_command import NAMES, TEXT, Consortium
from unpooled.desk.door import Door
from unpooled.desk.silo_desk import SiloDesk
from unpooled.federation.nvflare.hardening import harden

PORT = 8765
ORIGIN = f"http://127.0.0.1:{PORT}"
ABOUT = TEXT.replace(
    'label = "sick"',
    'label = "sick"\n'
    'purpose = "Which risk factors vary together?"\n'
    'controllers = ["Hospital of Rome", "Hospital of Berlin"]\n'
    'contact = "dpo@rome.example"',
)


def opened(door: Door) -> TestClient:
    """Return a browser that followed the one-time link."""
    browser = TestClient(door, base_url=ORIGIN, raise_server_exceptions=False)
    assert browser.get(door.path).status_code == 200
    return browser


def desk_of(heart: Consortium, silo: str = "rome") -> Door:
    """Return the desk of one of three silos."""
    return Door(SiloDesk(heart.folder / silo).app(), PORT)


def kit_of(heart: Consortium, silo: str = "rome") -> None:
    """Make a silo's folder a kit as NVFlare lays it out, whose server is not there."""
    kit = heart.folder / silo
    kit_folders.silo(kit, silo, "localhost:1")
    harden(kit)


def took_part(
    folder, *, approval: str = "each-study", decided: bool = True
) -> Consortium:
    """Return three silos after a study that a person approved, and its model."""
    heart = Consortium(folder, approval)
    heart.announce(ABOUT)
    for name in NAMES if decided else ():
        journal = heart.parties[name].audit_log
        journal.decided("heart", approved=True, steps=["*"], by="Dr. Livia Conti")
    model, _ = heart.fit()
    heart.deliver(model)
    return heart


class _Words(HTMLParser):
    """Reads the text of a page, and its forms' fields."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self.fields: dict[str, str] = {}
        self.links: list[str] = []
        self.skipped = 0

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.skipped += tag == "style"
        if tag == "input" and found.get("type") == "hidden":
            self.fields[str(found["name"])] = str(found["value"])
        if tag == "a":
            self.links.append(str(found["href"]))

    def handle_endtag(self, tag):
        self.skipped -= tag == "style"

    def handle_data(self, data):
        if not self.skipped:
            self.words.append(data)


def read(page) -> _Words:
    """Return a response as a reader has it."""
    reader = _Words()
    reader.feed(page.text)
    return reader


def words(page) -> str:
    """Return the words of a response, on one line."""
    return re.sub(r"\s+", " ", " ".join(read(page).words))
