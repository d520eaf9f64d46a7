"""`simulate`: whatever rows come in, the model is the same."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.pipeline import make_pipeline

from simulated_silos import NAMES, numbers, silos
from unpooled import (
    PCA,
    SimpleImputer,
    StandardScaler,
    simulate,
)
from unpooled.data import row_blocks
from unpooled.data.sources.open_source import open_source
from unpooled.errors import DataError

# Fixtures of another module.
__all__ = ["numbers", "silos"]


def model():
    return make_pipeline(SimpleImputer(), StandardScaler(), PCA(3))


def fitted(parties, **options):
    options = {"label": "ward", "ids": "patient", **options}
    return model().fit(simulate(parties, **options))


def assert_equal_models(first, second, rtol=0.0):
    for a, b in zip(first, second, strict=True):
        for name in vars(b):
            if name.endswith("_") and isinstance(getattr(b, name), np.ndarray):
                if getattr(b, name).dtype == object:
                    assert_array_equal(getattr(a, name), getattr(b, name))
                else:
                    assert_allclose(getattr(a, name), getattr(b, name), rtol, rtol)


# --- Sources -------------------------------------------------------------------------


def as_csv(frame, path):
    frame.to_csv(path.with_suffix(".csv"), index=False)
    return path.with_suffix(".csv")


def as_tsv(frame, path):
    frame.to_csv(path.with_suffix(".tsv"), index=False, sep="\t", na_rep="NA")
    return str(path.with_suffix(".tsv"))


def as_parquet(frame, path):
    pq.write_table(pa.Table.from_pandas(frame), path.with_suffix(".parquet"))
    return path.with_suffix(".parquet")


SOURCES = {
    "polars": lambda frame, path: pl.from_pandas(frame),
    "pyarrow": lambda frame, path: pa.Table.from_pandas(frame),
    "csv": as_csv,
    "tsv": as_tsv,
    "parquet": as_parquet,
    "table": lambda frame, path: open_source(frame, label="ward", ids="patient"),
}


@pytest.mark.slow
@pytest.mark.parametrize("source", list(SOURCES))
def test_any_source_gives_the_same_model(silos, tmp_path, source):
    given = {name: SOURCES[source](f, tmp_path / name) for name, f in silos.items()}
    # To the bit: the same blocks of the same numbers.
    assert_equal_models(fitted(given), fitted(silos))


@pytest.mark.slow
def test_arrays_give_the_same_model(silos):
    arrays = {name: frame[NAMES].to_numpy() for name, frame in silos.items()}
    ours = fitted(arrays, label=None, ids=None)
    frames = fitted(silos)
    assert not hasattr(ours[0], "feature_names_in_")
    for step, twin in zip(ours, frames, strict=True):
        del twin.feature_names_in_
        assert step.n_features_in_ == 5
    # Columns of a frame and rows of an array may be added in another order.
    assert_equal_models(ours, frames, rtol=1e-14)


@pytest.mark.slow
def test_sources_may_differ_from_silo_to_silo(silos, tmp_path):
    mixed = {
        "north": as_csv(silos["north"], tmp_path / "north"),
        "east": pl.from_pandas(silos["east"]),
        "west": as_parquet(silos["west"], tmp_path / "west"),
    }
    assert_equal_models(fitted(mixed), fitted(silos))


@pytest.mark.slow
def test_columns_may_stand_in_any_order_in_every_silo(silos):
    rng = np.random.default_rng(0)
    turned = {
        name: frame if name == "north" else frame[list(rng.permutation(frame.columns))]
        for name, frame in silos.items()
    }
    federation = simulate(turned, label="ward", ids="patient")
    assert federation.feature_names == tuple(NAMES)
    assert_equal_models(fitted(turned), fitted(silos), rtol=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [3, 20, 40, 41, 1000])
def test_blocks_of_any_size_give_the_same_model(silos, monkeypatch, rows):
    whole = fitted(silos)
    monkeypatch.setattr(row_blocks, "BLOCK_BYTES", 0)
    monkeypatch.setattr(row_blocks, "FEWEST_ROWS", rows)
    assert_equal_models(fitted(silos), whole, rtol=1e-13)


@pytest.mark.slow
def test_label_and_ids_are_never_features(silos):
    federation = simulate(silos, label="ward", ids="patient")
    assert federation.feature_names == tuple(NAMES)
    assert federation.label == "ward"
    coded = {
        n: f.assign(ward=(f["ward"] == "a") * 1e9, patient=7) for n, f in silos.items()
    }
    federation = simulate(coded, label="ward", ids="patient")
    assert federation.feature_names == tuple(NAMES)
    assert_equal_models(fitted(coded), fitted(silos))


@pytest.mark.slow
def test_sources_are_left_as_they_were(silos, numbers):
    before = {name: frame.copy() for name, frame in silos.items()}
    arrays = {name: part.copy() for name, part in numbers.items()}
    fitted(silos)
    PCA().fit(simulate(numbers))
    for name, frame in before.items():
        pd.testing.assert_frame_equal(silos[name], frame)
    for name, part in arrays.items():
        assert_array_equal(numbers[name], part)


@pytest.mark.parametrize("form", [as_csv, as_parquet])
def test_rows_that_change_in_the_middle_end_a_fit_by_rule(silos, tmp_path, form):
    parties = {name: form(frame, tmp_path / name) for name, frame in silos.items()}
    changing = next(iter(silos))
    federation = simulate(parties, label="ward", ids="patient")

    def change(*_):
        form(silos[changing].iloc[1:], tmp_path / changing)

    coordinator: Any = federation.coordinator
    coordinator.listeners.append(change)

    with pytest.raises(DataError, match=f"{changing} could not answer") as ended:
        model().fit(federation)
    assert ended.value.rule == "source_changed"
    assert str(tmp_path) not in str(ended.value)


@pytest.mark.slow
@pytest.mark.parametrize("form", [as_csv, as_parquet])
def test_rows_that_are_away_use_up_no_refusals(silos, tmp_path, form):
    """An outage is no answer about rows: the silo answers again when it is over."""
    parties = {name: form(frame, tmp_path / name) for name, frame in silos.items()}
    file = parties[next(iter(silos))]
    federation = simulate(parties, label="ward", ids="patient")
    file.rename(tmp_path / "away")

    for columns in (["age"], ["pulse"], ["weight"], NAMES):
        with pytest.raises(DataError, match="could not answer") as ended:
            model().fit(federation[columns])
        assert ended.value.rule == "source_unavailable"

    (tmp_path / "away").rename(file)
    assert_equal_models(model().fit(federation), fitted(silos))


@pytest.mark.slow
def test_a_damaged_file_uses_up_no_refusals(silos, tmp_path):
    """Which columns are damaged says nothing of a person; three such locked a silo."""
    long = {
        name: pd.concat([frame] * 500, ignore_index=True)
        for name, frame in silos.items()
    }
    parties = {name: as_parquet(frame, tmp_path / name) for name, frame in long.items()}
    file = parties[next(iter(silos))]
    intact = file.read_bytes()
    # Its head has the pages of the first columns, its end the footer.
    half = len(intact) // 2
    file.write_bytes(intact[:4] + bytes(half) + intact[4 + half :])
    federation = simulate(parties, label="ward", ids="patient")

    for columns in (["age"], ["age", "pulse"], ["age", "weight"], NAMES):
        with pytest.raises(DataError, match="could not answer") as ended:
            model().fit(federation[columns])
        assert ended.value.rule == "source_damaged"
