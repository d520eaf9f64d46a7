"""Eight silos on one machine: the heart study on all, more over six of them.

Six silos select features, and compare in secret by a committee of three.
"""

import contextlib
import os
import signal
import time
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from sklearn.datasets import load_digits

from exact_rounds import exactly
from integration.comparing import assert_equal_models, lines
from integration.computing import batches, processes
from integration.consortium import HEART, Consortium
from integration.many import run_many
from integration.mishaps import (
    LOST,
    as_soon_as,
    assert_ledger_tells_what_left,
    entries,
    within,
)
from unpooled import PowerTransformer
from unpooled.data.heart_disease import load
from unpooled.errors import AggregationError
from unpooled.secure.keys.roster import Roster
from unpooled.study import Study
from unpooled.study.job_messages import error_of

HOSPITALS = ("cleveland", "hungary", "switzerland", "va")
EIGHT = tuple(f"{hospital}-{half}" for hospital in HOSPITALS for half in (1, 2))
SIX, OWNER = EIGHT[:6], EIGHT[2]
# Neither the first by name nor the first in the study.
COMMITTEE = (EIGHT[1], EIGHT[4], EIGHT[5])
# Half a hospital may have one patient with a value: one row of a column's scatter.
ROWS = """
min_rows = 10
min_own_cells = 0
max_leverage = 1.0
max_released_share = 100.0
"""
COLUMNS = """
min_rows = 10
min_rows_per_class = 1
allow_disclosed = true
allow_row_level = true
allow_roster_change = true
max_leverage = 1.0
max_released_share = 100.0
"""
MMVFL = """
[[steps]]
model = "MMVFL"
beta = 1.0
max_iter = 5
tol = 0.0
"""


def write_half(silo: str, folder: Path) -> Path:
    """Write every other patient of a hospital."""
    path = folder / "half.parquet"
    pyarrow.parquet.write_table(half(silo), path)
    return path


def half(silo: str) -> pa.Table:
    hospital, _, which = silo.rpartition("-")
    table = load()[hospital]
    return table.take(pa.array(np.arange(int(which) - 1, len(table), 2)))


def write_pixels(silo: str, folder: Path) -> Path:
    """Write some columns of 200 digits; one silo in the middle has the labels."""
    X, y = _digits()
    own = np.array_split(np.arange(X.shape[1]), len(SIX))[SIX.index(silo)]
    columns = {f"pixel{j}": X[:, j] for j in own}
    if silo == OWNER:
        columns["num"] = y
    path = folder / "pixels.parquet"
    pyarrow.parquet.write_table(pa.table(columns), path)
    return path


@cache
def _digits():
    digits = load_digits()
    X, y = digits.data[:200], digits.target[:200].astype(float)
    return X[:, X.std(axis=0) > 0], y


def text_of(name, silos, steps, partition="rows", sources=None):
    head = f'name = "{name}"\npartition = "{partition}"\nlabel = "num"\ntimeout = 60'
    rules = COLUMNS if partition == "columns" else ROWS
    policy = "" if sources is None else f"[policy]\n{rules}\n"
    parties = [
        f"[parties.{silo}]" + (f'\nsource = "{sources[silo]}"' if sources else "")
        for silo in silos
    ]
    body = "\n".join(parties)
    return f"[study]\n{head}\n{policy}{body}\n{steps}\n[outputs]\nreport = false\n"


@pytest.fixture(scope="module")
def eight(tmp_path_factory):
    pytest.importorskip("nvflare")
    made = Consortium(tmp_path_factory.mktemp("eight"), EIGHT, write_half)
    try:
        made.start()
        yield made
    finally:
        made.stop()


def finished(outcome):
    found, place = outcome
    if found["error"] is not None:
        raise error_of(found["error"])
    assert place is not None
    return place


def assert_same(place, alone):
    fitted = dict(place.models())
    for step, theirs in alone.models.items():
        assert_equal_models(fitted[step], theirs)
    assert lines(place.ledger) == lines(alone.ledger)
    assert place.ledger.verify()


def test_heart_study_of_eight_silos(eight, tmp_path):
    text = text_of("hearts", EIGHT, HEART)
    with contextlib.ExitStack() as changes:
        for silo in EIGHT:
            changes.enter_context(eight.changed(silo, "policy.toml", ROWS))
        studies = {"hearts": text}
        place = finished(
            run_many(eight.coordinator, EIGHT, studies, tmp_path)["hearts"]
        )

    sources = {silo: eight.kit(silo) / "local" / "half.parquet" for silo in EIGHT}
    text = text_of("hearts", EIGHT, HEART, sources=sources)
    alone = Study.from_text(tmp_path / "alone.toml", text).run(follow=True)

    assert_same(place, alone)


def test_feature_selection_over_six_silos(eight, tmp_path):
    sources = {}
    with contextlib.ExitStack() as changes:
        for silo in SIX:
            sources[silo] = write_pixels(silo, eight.kit(silo) / "local")
            label = 'label = "num"\n' if silo == OWNER else ""
            own = f'[silo]\nname = "{silo}"\nsource = "{sources[silo]}"\n{label}'
            own += 'partition = "columns"\n'
            changes.enter_context(eight.changed(silo, "silo.toml", own))
            changes.enter_context(eight.changed(silo, "policy.toml", COLUMNS))
        text = text_of("digits", SIX, MMVFL, "columns")
        studies = {"digits": text}
        place = finished(run_many(eight.coordinator, SIX, studies, tmp_path)["digits"])

    text = text_of("digits", SIX, MMVFL, "columns", sources)
    alone = Study.from_text(tmp_path / "alone.toml", text).run(follow=True)

    assert_same(place, alone)
    ((_, model),) = place.models()
    assert model.n_iter_ == 5


# --- A committee computes for six silos -----------------------------------------------

NORMAL = ("age", "chol")
TOL = 0.0001
POWER = f"""
[[steps]]
model = "PowerTransformer"
tol = {TOL}
"""
PATIENCE = 500.0


@pytest.fixture
def six(eight):
    """Six silos, and the server, whose rosters name three of them as the committee."""
    pytest.importorskip("mpyc")
    roster = Roster(dict(eight.roster()), COMMITTEE).to_toml()
    with contextlib.ExitStack() as changes:
        for name in (*EIGHT, "server"):
            changes.enter_context(eight.changed(name, "roster.toml", roster))
        # The heart study has asked all eight about the same columns.
        rules = f"{ROWS}allow_roster_change = true\n"
        for silo in SIX:
            changes.enter_context(eight.changed(silo, "policy.toml", rules))
        yield eight


@pytest.fixture(scope="module")
def exact():
    """The same search by the signs of integers that nobody shared."""
    pieces = [
        np.column_stack([half(silo)[name].to_numpy() for name in NORMAL]).astype(float)
        for silo in SIX
    ]
    federation, _ = exactly(pieces)
    return PowerTransformer(tol=TOL).fit(federation)


def comparing(six, name, resume=False):
    path = six.folder / f"{name}.toml"
    path.write_text(
        text_of(name, SIX, POWER)
        .replace('label = "num"', f'label = "num"\ncolumns = {list(NORMAL)}')
        .replace("timeout = 60", "timeout = 200")
    )
    study = Study.from_file(path)
    start = study.resume if resume else study.run
    return within(PATIENCE, start, kit=six.coordinator)


def assert_same_exponents(model, exact):
    # Signs are exact, so the search takes the same way to the last digit.
    np.testing.assert_array_equal(model.lambdas_, exact.lambdas_)
    assert model.n_iter_ == exact.n_iter_


def test_a_committee_computes_and_the_others_share(six, exact):
    name, computing = "committee", set[str]()

    def late():
        computing.update(silo for silo in SIX if processes(six, silo))
        time.sleep(0.5)  # looking takes time that the silos need
        return entries(six, SIX[0], name) >= 6

    with as_soon_as(late, lambda: None):
        done = comparing(six, name)

    assert_same_exponents(done.models["powertransformer"], exact)
    assert computing == set(COMMITTEE)
    assert not any(processes(six, silo) for silo in SIX)
    signs = [line for line in done.ledger if line.visibility == "compared"]
    assert signs
    # Those that do not compute stand behind every sign too: they handed in shares.
    assert all(set(line.parties) == set(SIX) for line in signs)
    assert_ledger_tells_what_left(six, name, done.ledger, SIX)


def test_a_member_that_dies_is_waited_for_and_no_batch_is_repeated(six, exact):
    name, member, outsider = "committee-killed", COMMITTEE[1], SIX[0]

    def kill_process():
        for pid in processes(six, member):
            os.kill(pid, signal.SIGKILL)

    with (
        as_soon_as(lambda: entries(six, outsider, name) >= 6, kill_process),
        pytest.raises(AggregationError, match=r"comparison .* continue with resume"),
    ):
        comparing(six, name)
    before = entries(six, outsider, name)
    with (
        as_soon_as(
            lambda: entries(six, outsider, name) > before,
            lambda: six.kill(member, "job"),
        ),
        pytest.raises(AggregationError, match=LOST.replace("va", member)),
    ):
        comparing(six, name, resume=True)

    done = comparing(six, name, resume=True)

    model = done.models["powertransformer"]
    assert_same_exponents(model, exact)
    # Each stopped fit had asked for one batch more than it finished, at most; and each
    # resumed one begins anew, since silos that follow do.
    assert batches(done.ledger) <= 3 * (model.n_iter_ + 4)
    assert_ledger_tells_what_left(six, name, done.ledger, SIX)
