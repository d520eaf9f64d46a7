"""`simulate`: parties, partitions, policies and sums of one process."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from simulated_silos import NAMES, numbers, silos
from twins import assert_close
from unpooled import (
    PCA,
    Policy,
    partition_columns,
    simulate,
)
from unpooled.coordinator.channel import LocalChannel
from unpooled.errors import (
    AggregationError,
    DataError,
    ReleaseRefusedError,
    StudyError,
)

# Fixtures of another module.
__all__ = ["numbers", "silos"]


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


@pytest.mark.slow
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
    with pytest.raises(StudyError, match="no policy file"):
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
