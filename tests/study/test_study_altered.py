"""Runs of a study that do not go on, for something in their folder was changed."""

import json
import shutil

import pytest

from small_study import COLUMNS, killed, quick_disk, study, text_of, write
from unpooled.errors import StudyError

# Fixtures of another module.
__all__ = ["quick_disk", "study", "write"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"fitted": [["a", "b"]]}', '{"fitted": 1}']
)
def test_a_memory_that_is_none_is_refused(study, text):
    assert killed(study, 20)
    (study.folder / "silos" / "west.json").write_text(text)

    with pytest.raises(StudyError):
        study.resume()


@pytest.mark.slow
def test_a_changed_study_is_not_continued(study, write):
    assert killed(study, 20)
    changed = write(text_of(COLUMNS) + "n_components = 2\n")

    with pytest.raises(StudyError, match=r"study\.toml was changed since the run in"):
        changed.resume()


@pytest.mark.thinned(1)
@pytest.mark.parametrize("kept", [0, 1])
def test_a_ledger_that_lacks_what_was_finished_is_refused(study, kept):
    assert killed(study, 20)
    path = study.folder / "ledger.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:kept]))

    with pytest.raises(StudyError, match="lacks lines that the run wrote"):
        study.resume()


@pytest.mark.slow
def test_an_altered_ledger_is_refused(study):
    assert killed(study, 20)
    path = study.folder / "ledger.jsonl"
    path.write_text(path.read_text().replace('"bytes": ', '"bytes": 1', 1))

    with pytest.raises(StudyError, match="was altered"):
        study.resume()


def change(state, key, value):
    content = json.loads(state.read_text())
    if value is None:
        del content[key]
    else:
        content[key] = value
    state.write_text(json.dumps(content))


@pytest.mark.thinned(5)
@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("version", 2, "was written by a newer version"),
        ("version", "1", "is not the state of a run"),
        ("version", None, "is not the state of a run"),
        ("digest", None, "is not the state of a run"),
        ("extra", 1, "is not the state of a run"),
        ("finished", "pca", "is not the state of a run"),
        ("finished", ["../../x"], "is not the state of a run"),
        ("finished", [1], "is not the state of a run"),
        ("finished", ["pca"], "names finished steps that the study does not have"),
        (
            "finished",
            ["simpleimputer", "standardscaler", "pca"],
            "There is no model file",
        ),
        ("next_round", 1.5, "is not the state of a run"),
        ("lines", True, "is not the state of a run"),
        ("done", 0, "is not the state of a run"),
    ],
)
def test_another_state_is_refused(study, key, value, message):
    assert killed(study, 20)
    change(study.folder / "state.json", key, value)

    with pytest.raises(StudyError, match=message):
        study.resume()


@pytest.mark.slow
def test_a_model_file_that_was_swapped_is_refused(study):
    assert killed(study, 36)
    models = study.folder / "models"
    shutil.copy(
        models / "02-standardscaler.unpooled", models / "01-simpleimputer.unpooled"
    )

    with pytest.raises(
        StudyError, match="holds a StandardScaler, not the SimpleImputer"
    ):
        study.resume()
