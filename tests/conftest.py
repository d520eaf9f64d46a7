"""What more than one test file uses."""

import gc
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import settings

from splits import SPLITS
from tiers import left_out, mostly_slow, thin_out

# Never imported at the top: this file loads before the hook that checks array shapes.
if TYPE_CHECKING:
    import unpooled
    from report_pages import Page
    from unpooled.report.html import Facts

pytest_plugins = ["pytester", "shape_tier", "skip_list"]

# Audit logs wait for the disk at each commit, thousands of times, so temporary folders
# lie in memory where there is plenty of it; a run of everything takes a quarter GiB.
MEMORY = Path("/dev/shm")
if MEMORY.is_dir() and os.access(MEMORY, os.W_OK | os.X_OK):
    runs_programs = not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC
    if runs_programs and shutil.disk_usage(MEMORY).free > 4 * 2**30:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

# No deadlines: a loaded machine is not a mistake. In CI the examples are the same each
# time, so that it judges the change and not the day's luck; elsewhere they are new, and
# those of `make test-long` (--hypothesis-profile=long) are more.
SAME = bool(os.environ.get("CI"))
settings.register_profile("short", deadline=None, max_examples=25, derandomize=SAME)
settings.register_profile("long", deadline=None, max_examples=200, derandomize=SAME)
settings.load_profile("short")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of data sets that are too large for the repository.

    UNPOOLED_DATA names it; otherwise it is ../shared/data beside the checkout, and the
    test skips where there is none.
    """
    if named := os.environ.get("UNPOOLED_DATA"):
        # Whoever names a folder means it: a slip must not turn into a row of skips.
        assert Path(named).is_dir(), f"UNPOOLED_DATA names {named}, not a folder"
        return Path(named)
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not beside.is_dir():
        pytest.skip("shared data absent")
    return beside


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """A PostgreSQL server of the tests' own: the address of its database.

    It skips where PostgreSQL is not installed.
    """
    from databases import postgresql_server

    with postgresql_server() as place:
        yield f"postgresql://owner{place}"


@pytest.fixture(params=mostly_slow(["sqlite", "postgresql"], "sqlite"))
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Every kind of database, empty: its address up to what names the rows.

    `make test` has PostgreSQL in `test_database_postgresql.py` alone.
    """
    from databases import EMPTIED, run

    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/rows.db?"
        return
    address = request.getfixturevalue("postgresql")
    yield f"{address}&"
    run(address, *EMPTIED)


@pytest.fixture(scope="session")
def heart() -> "Facts":
    """What a report of a study of heart disease tells; fitted once, so only read it."""
    from sklearn.pipeline import make_pipeline

    import unpooled as up
    from unpooled.data import heart_disease
    from unpooled.report.facts import facts_of

    federation = up.simulate(heart_disease.load(), label="num", study="heart")
    pipeline = make_pipeline(up.SimpleImputer(), up.StandardScaler(), up.PCA(5))
    return facts_of(pipeline.fit(federation), federation)


@pytest.fixture(scope="session")
def page(heart: "Facts") -> "Page":
    """The page of that report, read strictly."""
    from report_pages import Page
    from unpooled.report.html import render

    return Page(render(heart))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Keep what collection makes out of every search for garbage.

    All modules and eleven thousand tests live to the end: a million objects, which
    Python would look through again whenever a few hundred new ones had come.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        # A fit makes and drops ten thousand objects, few of which refer to themselves.
        gc.set_threshold(20_000, 20, 20)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let `.ci/run` take a sample of the slow tests of each file."""
    parser.addoption(
        "--sample",
        default="1:",
        metavar="N:SEED",
        help="one in N slow tests of each file, chosen by any text",
    )


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Leave most of the grid of secure sums and splits to `make test-long`.

    Of each test that draws from it, `make test` has the second split under masks and
    the first case in clear; of a test that draws splits alone, the first two.
    """
    for item in items:
        if (case := getattr(item, "callspec", None)) is None:
            continue
        others = {name: i for name, i in case.indices.items() if name != "secure_sum"}
        adding = case.params.get("secure_sum") if drawn(item) else None
        split = others.get("split", 1)
        if (
            split > 1
            or (adding == "plain" and any(others.values()))
            or (adding == "masked" and split == 0)
        ):
            item.add_marker(pytest.mark.slow)
    thin_out(items)
    share, _, seed = str(config.getoption("sample")).partition(":")
    if others := left_out(items, int(share), seed):
        config.hook.pytest_deselected(items=[one for one in items if one in others])
        items[:] = [one for one in items if one not in others]


def drawn(item: pytest.Item) -> bool:
    """Whether the fixture chose the secure sum, and not the test itself."""
    names = [mark.args[0] for mark in item.iter_markers("parametrize")]
    return not any("secure_sum" in name for name in names)


@pytest.fixture(params=["plain", "masked"])
def secure_sum(request: pytest.FixtureRequest) -> str:
    """Every way of adding: in clear, which is the oracle, and under masks."""
    return request.param


@pytest.fixture(params=list(SPLITS))
def split(request: pytest.FixtureRequest) -> Callable[[Any], list[Any]]:
    """Every way in which rows may lie in silos."""
    return SPLITS[request.param]


@pytest.fixture
def federate(
    secure_sum: str, split: Callable[[Any], list[Any]]
) -> "Callable[..., unpooled.Federation]":
    """Put an array's rows into silos: on every secure sum and every split.

    The silos' policies allow everything, for some splits have a silo with one row.
    """

    from unpooled import Policy, simulate

    def federate(X: Any, y: Any = None, **options: Any) -> "unpooled.Federation":
        pieces = split(np.arange(len(X)) % 3 if y is None else y)
        options = {"policy": Policy.open(), "secure_sum": secure_sum, **options}
        silos = {f"silo{i}": X[rows] for i, rows in enumerate(pieces, start=1)}
        return simulate(silos, **options)

    return federate
