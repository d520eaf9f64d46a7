"""Small studies to report on, and a strict reader of the page."""

import re
from html.parser import HTMLParser

import numpy as np

import unpooled as up
from unpooled.report.facts import facts_of
from unpooled.report.html import Facts

VOID = {"meta", "link", "br", "hr", "img", "input", "path", "use", "rect"}


class Page(HTMLParser):
    """Reads a page strictly: every element is closed, in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        assert len({name for name, _ in attrs}) == len(attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.words.append(data)

    @property
    def text(self) -> str:
        # Numbers and their units are kept on one line.
        words = re.sub("\u00a0(?=%|bytes|[kMGT]B)", " ", " ".join(self.words))
        return re.sub("[ \n]+", " ", words)

    def values(self, name: str) -> list[str]:
        return [value or "" for key, value in self.attributes if key == name]


def reads_well(html: str) -> None:
    """Assert that a report has none of the slips that readers have met in one."""
    text = Page(html).text
    slips = r"\w'\w|(?<!['\w])\w+s' |\b1 others|\bnan\b|darker"
    assert re.findall(f".{{0,30}}(?:{slips}).{{0,30}}", text) == []
    for title in re.findall("<h3><bdi>(.*?)</bdi></h3>", html):
        assert title.count(": ") < 2, "what a model is, in one breath"
    for table in re.findall("<table.*?</table>", html, re.DOTALL):
        head, *lines = (
            [
                re.sub("<.*?>", "", cell)
                for cell in re.findall("<t[hd].*?</t[hd]>", line)
            ]
            for line in re.findall("<tr.*?</tr>", table, re.DOTALL)
        )
        # On a telephone each cell of a row stands beside its heading.
        assert len(set(head)) == len(head), head
        if "signatures" not in table:
            assert all(any(cells[1:]) for cells in lines), "a row without a number"


def rows(n=240, p=4, seed=0):
    return np.random.default_rng(seed).standard_normal((n, p)) + 3.0


def fitted(n_parties=4, model=None, **options):
    federation = up.simulate(up.partition_rows(rows(), n_parties), **options)
    return (model or up.PCA(2)).fit(federation), federation


def facts(*args, **options) -> Facts:
    return facts_of(*fitted(*args, **options))
