"""Eight silos on one machine: the heart study on all, feature selection over six."""

import contextlib
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from sklearn.datasets import load_digits

from integration.comparing import assert_equal_models, lines
from integration.consortium import HEART, Consortium
from integration.many import run_many
from unpooled.data.heart_disease import load
from unpooled.study import Study
from unpooled.study.outcomes import error_of

HOSPITALS = ("cleveland", "hungary", "switzerland", "va")
EIGHT = tuple(f"{hospital}-{half}" for hospital in HOSPITALS for half in (1, 2))
SIX, OWNER = EIGHT[:6], EIGHT[2]
# Half a hospital may have one patient with a value: one row of a column's scatter.
ROWS = """
min_rows = 10
max_row_share = 1.0
"""
COLUMNS = """
min_rows = 10
min_rows_per_class = 1
allow_disclosed = true
allow_row_level = true
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
    hospital, _, half = silo.rpartition("-")
    table = load()[hospital]
    path = folder / "half.parquet"
    rows = np.arange(int(half) - 1, len(table), 2)
    pyarrow.parquet.write_table(table.take(pa.array(rows)), path)
    return path


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
    alone = Study.from_text(tmp_path / "alone.toml", text).run()

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
    alone = Study.from_text(tmp_path / "alone.toml", text).run()

    assert_same(place, alone)
    ((_, model),) = place.models()
    assert model.n_iter_ == 5
