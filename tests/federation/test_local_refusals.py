"""`simulate`: options and sources that are none are named."""

import numpy as np
import pandas as pd
import pytest

from simulated_silos import numbers, silos
from unpooled import (
    partition_rows,
    simulate,
)
from unpooled.errors import (
    DataError,
    UnpooledError,
)

# Fixtures of another module.
__all__ = ["numbers", "silos"]


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
    with pytest.raises(DataError, match="is a text that is not empty"):
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
