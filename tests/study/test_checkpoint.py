"""A study that ends in the middle of a search goes on from its last finished batch."""

import json

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from unpooled import PowerTransformer, Study
from unpooled.errors import StudyError
from unpooled.models.preprocessing.pooled_lambda import Columns, Progress
from unpooled.models.preprocessing.signs_in_secret import SignsInSecret

SLOPES = "power.local_slopes"


class Killed(BaseException):
    """A process that dies."""


@pytest.fixture
def study(tmp_path):
    rng = np.random.default_rng(0)
    lines = ["[study]", 'name = "power"']
    for name in ("u", "v", "w"):
        rows = np.exp(rng.standard_normal((30, 2)))
        text = "a,b\n" + "".join(f"{a:.6f},{b:.6f}\n" for a, b in rows)
        (tmp_path / f"{name}.csv").write_text(text)
        lines += [f"[parties.{name}]", f'source = "{name}.csv"']
    lines += ["[[steps]]", 'model = "PowerTransformer"', 'comparison = "summed"']
    lines += [
        "[policy]",
        "min_rows = 5",
        "max_released_share = 1.0",
        "[outputs]",
        "report = false",
        "",
    ]
    return Study.from_text(tmp_path / "power.toml", "\n".join(lines))


def die_at(number):
    seen = []

    def listener(party, step, round_id):
        seen.append(step)
        if seen.count(SLOPES) == number:
            raise Killed

    return listener


def batches(ledger):
    return sum(line.step == SLOPES and line.name == "lam" for line in ledger)


@pytest.mark.slow
def test_no_batch_is_repeated(study, tmp_path):
    whole = study.run(tmp_path / "whole")
    # Three silos answer a batch: the fourth batch is asked and never opened.
    with pytest.raises(Killed):
        study.run(listener=die_at(3 * 3 + 1))
    reached = json.loads((study.folder / "progress.json").read_text())
    assert reached["reached"]["batches"] == 3

    done = study.resume()

    model = done.models["powertransformer"]
    assert_array_equal(
        model.lambdas_, whole.models["powertransformer"].lambdas_, strict=True
    )
    assert batches(whole.ledger) == model.n_iter_
    assert batches(done.ledger) <= model.n_iter_ + 1
    assert [x.step for x in done.ledger].count("power.local_log_sizes") == 2
    assert not (study.folder / "progress.json").exists()


@pytest.mark.slow
def test_a_file_that_is_no_progress_is_named(study):
    with pytest.raises(Killed):
        study.run(listener=die_at(7))
    path = study.folder / "progress.json"
    for text in ("{}", '{"step": "powertransformer", "reached": {"count": 3}}', "["):
        path.write_text(text)
        with pytest.raises(StudyError, match=r"progress\.json is not a checkpoint of"):
            study.resume()


def test_a_record_is_the_progress_to_the_bit():
    columns = Columns(np.array([9, 9]), np.array([0.1, -3.0]), np.array([0.5, 0.0]))
    progress = Progress(columns, SignsInSecret().search(1, 2.0**-27), batches=2)
    progress.search.lo[0] = 1.0 / 3.0
    again = Progress.from_record(json.loads(json.dumps(progress.as_record())))
    assert again.as_record() == progress.as_record()
    assert again.search.hi[0] == np.inf
    with pytest.raises(ValueError, match="do not fit together"):
        Progress.from_record(progress.as_record() | {"count": [9, 9, 9]})


@pytest.mark.slow
def test_a_model_that_was_continued_is_copied_like_others(study):
    import pickle

    model = PowerTransformer().continuing(None, lambda record: None)
    assert pickle.loads(pickle.dumps(study.run().models["powertransformer"]))
    assert model._progress is None
