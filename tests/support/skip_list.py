"""A pytest plugin: a skip that nobody allowed is a failure.

Off unless the environment variable UNPOOLED_ALLOWED_SKIPS names a list, as in CI.
A test that cannot run on one machine, say without a browser, may skip there; in CI the
same skip would be a check that quietly stopped checking.

A line of the list is ``id  # reason``. It allows a skip when both match: the test's id
and the reason that the test itself gives. ``*`` stands for any text; brackets mean
themselves, because ids of parametrised tests are full of them.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

VARIABLE = "UNPOOLED_ALLOWED_SKIPS"


def pytest_configure(config: pytest.Config) -> None:
    """Switch the check on where a list is named."""
    if path := os.environ.get(VARIABLE):
        config.pluginmanager.register(SkipList(read_lines(Path(path)), path))


def read_lines(path: Path) -> list[tuple[re.Pattern[str], re.Pattern[str]]]:
    """Return the list's pairs (id, reason); a line without a reason is refused."""
    if not path.is_file():
        raise pytest.UsageError(f"{VARIABLE} names {path}, which is not a file.")
    pairs = []
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        nodeid, _, reason = (part.strip() for part in line.partition("  # "))
        if not reason:
            raise pytest.UsageError(
                f"{path}, line {number}: {line!r} has no reason. "
                f"Write the test's id, two blanks, # and the reason it skips for."
            )
        pairs.append((_pattern(nodeid), _pattern(reason)))
    return pairs


def _pattern(text: str) -> re.Pattern[str]:
    """Match `text`, with ``*`` for anything."""
    return re.compile(".*".join(map(re.escape, text.split("*"))), re.DOTALL)


class SkipList:
    """Turns the report of a skip that is not on the list into one of a failure."""

    def __init__(
        self, allowed: list[tuple[re.Pattern[str], re.Pattern[str]]], path: str
    ) -> None:
        self.allowed, self.path = allowed, path

    # Outermost, to see what pytest itself has made of skip marks and xfail.
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self) -> Iterator[None]:
        """Judge a test that skipped."""
        report = yield
        self.judge(report)
        return report

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_make_collect_report(self) -> Iterator[None]:
        """Judge a whole module that skipped."""
        report = yield
        self.judge(report)
        return report

    def judge(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        """Fail the report if it is of a skip that no line allows."""
        # An expected failure counts as skipped in pytest's reports, but the test ran.
        if not report.skipped or hasattr(report, "wasxfail"):
            return
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
        reason = reason.removeprefix("Skipped: ")
        if any(
            nodeid.fullmatch(report.nodeid) and why.fullmatch(reason)
            for nodeid, why in self.allowed
        ):
            return
        report.outcome = "failed"
        report.longrepr = (
            f"Skipped, and {self.path} does not allow it.\n"
            f"Make it run, or add the line:\n\n    {report.nodeid}  # {reason}\n"
        )
