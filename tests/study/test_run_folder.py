"""Where a run continues after its silos followed it only in part."""

import errno
from dataclasses import replace

import pytest

from unpooled.coordinator.step_call import RoundRecord
from unpooled.errors import StudyError
from unpooled.ledger import Release
from unpooled.study.run_folder import RunFolder, RunState

SILOS = ["a", "b", "c"]


def line(number, *parties):
    return Release(
        study="s",
        round=number,
        step="scaler.local_counts",
        name="count",
        shape=(2,),
        dtype="uint256",
        bytes=64,
        visibility="summed",
        direction="out",
        parties=parties,
    )


@pytest.mark.parametrize(
    ("later", "finished"),
    [
        ([], []),
        # A silo that ended before the request came does not know the model.
        ([("a", "b")], []),
        ([("a", "b"), ("a", "c")], []),
        ([("a", "b"), ("a", "b", "c")], ["imputer"]),
    ],
    ids=str,
)
def test_the_last_step_is_repeated_until_all_silos_know_how_it_ended(
    later, finished, tmp_path
):
    state = RunState(
        study="s",
        partition="rows",
        protection="masked",
        digest="",
        file="",
        parties=SILOS,
        columns=["x", "y"],
        policies={},
    )
    folder = RunFolder.create(tmp_path / "run", state, "")
    folder.ledger.append(line(1, *SILOS), {})
    folder.state = replace(
        state, finished=["imputer"], next_round=2, lines=1, head=folder.ledger[-1].hash
    )
    for number, parties in enumerate(later, start=2):
        folder.ledger.append(line(number, *parties), {})

    folder.reopen_last()

    assert folder.state.finished == finished


def test_the_cost_of_a_comparison_takes_the_place_of_its_request(tmp_path):
    """Otherwise the folder gives another report than the one that was written."""
    state = RunState("s", "rows", "masked", "", "s.toml", ["a"], ["x"], {})
    folder = RunFolder.create(tmp_path / "run", state, "")
    request = RoundRecord(1, "power.compared_slopes", 0.1, 100, 10)
    folder.rounds.append(request)
    folder.record()
    folder.rounds.pop()
    folder.rounds += [replace(request, bytes_out=900), replace(request, round=2)]
    folder.record()
    folder.rounds.append(replace(request, round=3))
    folder.record()

    assert RunFolder.open(folder.path).rounds == folder.rounds


def test_a_drive_without_locks_is_named(tmp_path, monkeypatch):
    """It was taken for another process that runs the study."""
    import fcntl

    def refuse(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    state = RunState("s", "rows", "masked", "", "s.toml", ["a"], ["x"], {})
    folder = RunFolder.create(tmp_path / "run", state, "")
    monkeypatch.setattr(fcntl, "flock", refuse)

    with pytest.raises(StudyError, match="drive has no locks"), folder.locked():
        pass
