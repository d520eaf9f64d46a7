"""A small study of three silos: its rows, its file, and runs of it that are killed."""

import os

import numpy as np
import polars
import pytest
from numpy.testing import assert_allclose

import unpooled as up

SILOS = ("north", "south", "west")
STEPS = ("simpleimputer", "standardscaler", "pca")
COLUMNS = 'columns = ["a", "b", "c", "d"]'


def rows(silo):
    rng = np.random.default_rng(SILOS.index(silo))
    X = rng.normal(size=(40, 4)) @ rng.normal(size=(4, 4)) + [0.0, 5.0, -3.0, 100.0]
    X[::7, 1] = np.nan
    # 999 was written for "not measured".
    X[::5, 2] = 999.0
    return X


def text_of(
    study="", steps=None, policy="", party="missing = { c = [999] }", report="false"
):
    parties = "".join(
        f'[parties.{silo}]\nsource = "data/{silo}.csv"\n{party}\n' for silo in SILOS
    )
    if steps is None:
        steps = ["SimpleImputer", "StandardScaler", "PCA"]
    tables = "".join(f'[[steps]]\nmodel = "{model}"\n' for model in steps)
    return (
        f'[study]\nname = "small"\nlabel = "kind"\n{study}\n{parties}'
        f"[policy]\n{policy}\n[outputs]\nreport = {report}\n{tables}"
    )


def write_data(folder):
    (folder / "data").mkdir()
    for silo in SILOS:
        frame = polars.DataFrame(rows(silo), list("abcd"))
        kind = polars.Series("kind", ["x", "y"] * 20)
        frame = frame.with_columns(kind, site=polars.lit(silo))
        frame.select("d", "kind", "a", "site", "c", "b").write_csv(
            folder / "data" / f"{silo}.csv"
        )


def writer(folder):
    """Write the silos' data; return what writes a study file beside it and reads it."""
    write_data(folder)

    def write(text):
        (folder / "study.toml").write_text(text)
        return up.Study.from_file(folder / "study.toml")

    return write


def files(folder):
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}


def arrays(run):
    return {
        f"{step}.{name}": np.asarray(value, float)
        for step, model in run.models.items()
        for name, value in vars(model).items()
        if name.endswith("_") and name != "feature_names_in_"
    }


def assert_same_models(one, other):
    assert list(one.models) == list(other.models)
    mine, others = arrays(one), arrays(other)
    assert mine.keys() == others.keys()
    for name, value in mine.items():
        assert_allclose(value, others[name], rtol=1e-12, atol=1e-12, err_msg=name)


class Killed(BaseException):
    """Ends a run from within, as Ctrl-C would."""


def kill_at(event):
    """Return a listener that ends the run at the given event, counted from 1."""
    left = [event]

    def listener(party, step, number):
        left[0] -= 1
        if left[0] == 0:
            raise Killed

    return listener


def killed(study, event):
    """Run until the given event; return whether the run came so far."""
    try:
        study.run(listener=kill_at(event))
    except Killed:
        return True
    return False


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch):
    """A process that dies loses nothing that it has written; only a machine would."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture
def write(tmp_path):
    """Write a study file of this text, and read it."""
    return writer(tmp_path)


@pytest.fixture
def study(write):
    """Without a report, which takes longer than everything else."""
    return write(text_of(COLUMNS))


@pytest.fixture
def reported(write):
    return write(text_of(COLUMNS, report="true"))
