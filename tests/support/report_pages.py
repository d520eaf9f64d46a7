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
        words = " ".join(self.words).replace("\u00a0%", " %")
        return re.sub("[ \n]+", " ", words)

    def values(self, name: str) -> list[str]:
        return [value or "" for key, value in self.attributes if key == name]


def rows(n=240, p=4, seed=0):
    return np.random.default_rng(seed).standard_normal((n, p)) + 3.0


def fitted(n_parties=4, model=None, **options):
    federation = up.simulate(up.partition_rows(rows(), n_parties), **options)
    return (model or up.PCA(2)).fit(federation), federation


def facts(*args, **options) -> Facts:
    return facts_of(*fitted(*args, **options))
