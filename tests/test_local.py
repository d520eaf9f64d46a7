"""Simulated federations: the same model from any source, and what is refused."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.pipeline import make_pipeline

from twins import assert_close
from unpooled import (
    PCA,
    Policy,
    SimpleImputer,
    StandardScaler,
    partition_columns,
    partition_rows,
    simulate,
)
from unpooled.data import table as tables
from unpooled.data.sources import open_source
from unpooled.errors import (
    AggregationError,
    DataError,
    ReleaseRefusedError,
    StudyError,
    UnpooledError,
)
from unpooled.federation.local import LocalChannel

NAMES = ["age", "pulse", "weight", "height", "glucose"]


@pytest.fixture(scope="module")
def silos():
    """Return three silos' frames with missing cells, a label and ids."""
    rng = np.random.default_rng(1)
    made = {}
    for i, name in enumerate(["north", "east", "west"]):
        X = rng.standard_normal((40 + i, 5)) @ rng.standard_normal((5, 5)) + 3.0
        X[rng.random(X.shape) < 0.1] = np.nan
        frame = pd.DataFrame(X, columns=NAMES)
        made[name] = frame.assign(
            ward=rng.choice(["a", "b"], len(X)),
            patient=[f"{name}{j}" for j in range(len(X))],
        )
    return made


@pytest.fixture
def numbers():
    return partition_rows(np.random.default_rng(2).standard_normal((60, 4)), 3)


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


@pytest.mark.parametrize("source", list(SOURCES))
def test_any_source_gives_the_same_model(silos, tmp_path, source):
    given = {name: SOURCES[source](f, tmp_path / name) for name, f in silos.items()}
    # To the bit: the same blocks of the same numbers.
    assert_equal_models(fitted(given), fitted(silos))


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


def test_sources_may_differ_from_silo_to_silo(silos, tmp_path):
    mixed = {
        "north": as_csv(silos["north"], tmp_path / "north"),
        "east": pl.from_pandas(silos["east"]),
        "west": as_parquet(silos["west"], tmp_path / "west"),
    }
    assert_equal_models(fitted(mixed), fitted(silos))


def test_columns_may_stand_in_any_order_in_every_silo(silos):
    rng = np.random.default_rng(0)
    turned = {
        name: frame if name == "north" else frame[list(rng.permutation(frame.columns))]
        for name, frame in silos.items()
    }
    federation = simulate(turned, label="ward", ids="patient")
    assert federation.feature_names == tuple(NAMES)
    assert_equal_models(fitted(turned), fitted(silos), rtol=1e-14)


@pytest.mark.parametrize("rows", [3, 20, 40, 41, 1000])
def test_blocks_of_any_size_give_the_same_model(silos, monkeypatch, rows):
    whole = fitted(silos)
    monkeypatch.setattr(tables, "BLOCK_BYTES", 0)
    monkeypatch.setattr(tables, "FEWEST_ROWS", rows)
    assert_equal_models(fitted(silos), whole, rtol=1e-13)


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


def test_sources_are_left_as_they_were(silos, numbers):
    before = {name: frame.copy() for name, frame in silos.items()}
    arrays = {name: part.copy() for name, part in numbers.items()}
    fitted(silos)
    PCA().fit(simulate(numbers))
    for name, frame in before.items():
        pd.testing.assert_frame_equal(silos[name], frame)
    for name, part in arrays.items():
        assert_array_equal(numbers[name], part)


# --- Options -------------------------------------------------------------------------


def test_parties_keep_the_order_they_are_named_in(silos):
    assert simulate(silos, label="ward", ids="patient").parties == tuple(silos)


def test_ledger_names_the_study_and_how_totals_travelled(numbers):
    for secure_sum, dtype in (("masked", "uint256"), ("plain", "float64")):
        federation = simulate(numbers, study="heart", secure_sum=secure_sum)
        PCA().fit(federation)
        assert {line.study for line in federation.ledger} == {"heart"}
        assert federation.ledger[0].dtype == dtype
        assert federation.ledger.verify()


def test_studies_without_a_name_get_one_of_their_own(numbers):
    names = {simulate(numbers).coordinator.study for _ in range(3)}
    assert len(names) == 3


def test_plain_and_masked_sums_agree(numbers):
    plain = PCA().fit(simulate(numbers, secure_sum="plain"))
    masked = PCA().fit(simulate(numbers))
    # The code's quantum is 2^-62 of the bound; the rest is float64.
    assert_close(masked.components_, plain.components_, 1e-13)
    assert_close(masked.explained_variance_, plain.explained_variance_, 1e-14)


def test_fits_repeat_to_the_bit(numbers):
    # Keys are fresh, results are not.
    first, second = (PCA().fit(simulate(numbers)) for _ in range(2))
    assert_array_equal(first.components_, second.components_)


def test_policies_for_all_or_by_party(numbers, tmp_path):
    two = {name: numbers[name] for name in ("silo1", "silo2")}
    path = tmp_path / "policy.toml"
    path.write_text("min_parties = 2")
    for allowed in (
        {"min_parties": 2},
        Policy(min_parties=2),
        path,
        str(path),
        {"silo1": path, "silo2": {"min_parties": 2}},
        {"silo1": {"min_parties": 2}, "silo2": Policy(min_parties=2)},
    ):
        assert PCA().fit(simulate(two, policy=allowed)).n_samples_ == 40
    for refused, who in (
        (None, "silo1"),
        ({"silo1": {"min_parties": 2}}, "silo2"),
        ({"silo2": {"min_parties": 2}}, "silo1"),
    ):
        with pytest.raises(
            (ReleaseRefusedError, AggregationError), match=f"{who} .*min_p"
        ):
            PCA().fit(simulate(two, policy=refused))
    with pytest.raises(StudyError, match=r"Unknown policy keys .'min_party'"):
        simulate(numbers, policy={"min_party": 2})
    with pytest.raises(StudyError, match="Cannot read the policy"):
        simulate(numbers, policy=tmp_path / "none.toml")


def test_a_channel_calls_every_door_once():
    channel = LocalChannel(
        {"a": lambda data: data + b"1", "b": lambda data: data + b"2"}
    )
    replies = list(channel.exchange({"a": b"x", "b": b"y"}))
    assert replies == [("a", b"x1"), ("b", b"y2")]


# --- Column partitions ---------------------------------------------------------------


def test_column_partitions_know_all_columns(silos):
    frame = silos["north"]
    parts = {"clinic": frame[["age", "pulse"]], "lab": frame[["glucose"]]}
    federation = simulate(parts, partition="columns")
    assert federation.partition == "columns"
    assert federation.feature_names == ("age", "pulse", "glucose")
    X = np.arange(12.0).reshape(3, 4)
    federation = simulate(partition_columns(X, 2), partition="columns")
    assert federation.feature_names == ("x0", "x1", "x2", "x3")
    assert not federation.named


def test_column_partitions_have_the_same_rows_and_other_columns(silos):
    frame = silos["north"][NAMES]
    with pytest.raises(DataError, match="the same rows in the same order"):
        simulate({"a": frame[["age"]], "b": frame[["pulse"]][:9]}, partition="columns")
    with pytest.raises(DataError, match=r".'age'. stand in several"):
        simulate({"a": frame[["age"]], "b": frame[["age"]]}, partition="columns")


# --- Refusals ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"partition": "diagonal"}, 'choose "rows" or "columns"'),
        ({"secure_sum": "homomorphic"}, 'choose "masked" or "plain"'),
    ],
)
def test_unknown_options(numbers, options, said):
    with pytest.raises(DataError, match=said):
        simulate(numbers, **options)


def test_parties_that_are_none(numbers):
    with pytest.raises(DataError, match=r"at least one party.*empty"):
        simulate({})
    with pytest.raises(DataError, match="texts that are not empty"):
        simulate({"": numbers["silo1"]})


def test_text_columns_are_refused_by_silo_and_column(silos):
    with pytest.raises(DataError, match=r"(?s)'north'.*ward.*patient"):
        simulate(silos)
    east = silos["east"].assign(pulse="fast")
    with pytest.raises(DataError, match=r"(?s)'east'.*pulse") as refused:
        simulate({**silos, "east": east}, label="ward", ids="patient")
    assert "north" not in str(refused.value)


def test_missing_and_extra_columns_are_named(silos):
    wrong = silos["west"].drop(columns="glucose").assign(sugar=1.0)
    said = "west: missing 'glucose', extra 'sugar'"
    with pytest.raises(DataError, match=said) as refused:
        simulate({**silos, "west": wrong}, label="ward", ids="patient")
    assert "north:" not in str(refused.value)


def test_a_label_that_a_silo_lacks(silos):
    with pytest.raises(DataError, match=r"(?s)'east'.*ward"):
        simulate(
            {**silos, "east": silos["east"].drop(columns="ward")},
            label="ward",
            ids="patient",
        )


def test_missing_files_and_other_sources(numbers, tmp_path):
    for source, said in (
        (tmp_path / "absent.csv", "There is no file"),
        (np.ones(3), "1 axes"),
        (np.array([["a"]]), "real numbers are needed"),
        ("mysql://me:secret@host/db?table=t", "mysql"),
        (7, "silo2"),
    ):
        with pytest.raises(DataError, match="silo2") as refused:
            simulate({**numbers, "silo2": source})
        assert said in str(refused.value)
        assert "secret" not in str(refused.value)


def test_every_refusal_is_the_librarys_own(numbers):
    for wrong in ({"a": None}, {"a": [[1, 2], [3]]}, {"a": {"x": [1]}}):
        with pytest.raises(UnpooledError):
            simulate(wrong)


def test_columns_that_are_not_wanted_may_hold_text_or_stand_at_one_silo():
    rows = np.random.default_rng(0).standard_normal((60, 2))
    frames = {
        name: pd.DataFrame(part, columns=["age", "pulse"]).assign(name="x")
        for name, part in partition_rows(rows, 3).items()
    }
    one = next(iter(frames))
    frames[one]["only_here"] = 1.0
    federation = simulate(frames, columns=["pulse", "age"])
    assert set(federation.feature_names) == {"age", "pulse"}
    with pytest.raises(DataError, match="name"):
        simulate(frames)
    with pytest.raises(DataError, match="every silo has columns of its own"):
        simulate(frames, "columns", columns=["age"])
