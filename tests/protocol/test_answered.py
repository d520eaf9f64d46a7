"""The record of an answered round in an audit log."""

from dataclasses import replace

import pytest

from unpooled.protocol.answered import Answered

ROUND = Answered(
    study="study",
    session="session",
    round=3,
    step="pca.local_total",
    view="v",
    features="f",
    n_features=2,
    public={"mean": {"array": "00"}},
    keys={"a": "00", "b": "01"},
    protection="masked",
    rows="r",
)


def test_a_record_gives_the_round_back():
    assert Answered.from_record(ROUND.as_record()) == ROUND


def test_of_an_earlier_version_the_view_names_the_rows():
    record = ROUND.as_record()
    del record["rows"]
    assert Answered.from_record(record) == replace(ROUND, rows="v")


@pytest.mark.parametrize(
    "change",
    [
        *({"round": "3"}, {"round": True}, {"n_features": 2.0}, {"step": None}),
        *({"keys": {"a": 1}}, {"keys": {1: "a"}}),
    ],
    ids=str,
)
def test_another_type_is_an_error(change):
    with pytest.raises(TypeError, match="another type"):
        Answered.from_record(ROUND.as_record() | change)
