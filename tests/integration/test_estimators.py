"""Every estimator gives over a consortium what it gives in one process."""

import contextlib

import pyarrow.parquet
import pytest

from integration.comparing import assert_equal_models, lines
from integration.matrix import CASES, RULES, in_one_process, text_of
from integration.rows import SILOS, WRITERS
from unpooled.study.job_messages import error_of


@pytest.fixture(scope="module")
def runs(consortium, tmp_path_factory):
    """Run all cases, those of the same silos and kind of data in one job."""
    from integration.many import run_many

    found = {}

    def job(case):
        return case.data, case.partition, case.silos, case.categorical

    for kind in sorted(set(map(job, CASES.values()))):
        texts = {
            name: text_of(name) for name, case in CASES.items() if job(case) == kind
        }
        data, partition, silos, categorical = kind
        folder = tmp_path_factory.mktemp(f"by-{partition}")
        with contextlib.ExitStack() as changes:
            for silo in SILOS:
                settle(changes, consortium, silo, data, partition, categorical)
            found |= run_many(consortium.coordinator, silos, texts, folder)
    return found


def settle(changes, consortium, silo, data, partition, categorical):
    """Let a silo have the rows, or the columns, of the cases, and rules for them."""
    local = consortium.kit(silo) / "local"
    source = WRITERS[data](silo, local)
    own = f'[silo]\nname = "{silo}"\nsource = "{source}"\nlabel = "num"\n'
    if partition == "columns":
        own += 'partition = "columns"\n'
    if partition == "columns":
        known = pyarrow.parquet.read_schema(source).names
        categorical = [name for name in categorical if name in known]
    own += f"categorical = {list(categorical)}\n" if categorical else ""
    changes.enter_context(consortium.changed(silo, "silo.toml", own))
    rules = RULES[partition]
    changes.enter_context(consortium.changed(silo, "policy.toml", rules))


@pytest.mark.parametrize("name", CASES)
def test_every_estimator_equals_one_process(runs, name, tmp_path):
    outcome, place = runs[name]
    if outcome["error"] is not None:
        raise error_of(outcome["error"])

    alone = in_one_process(name, tmp_path)

    fitted = dict(place.models())
    assert list(fitted) == list(alone.models)
    for step, theirs in alone.models.items():
        assert_equal_models(fitted[step], theirs)
    assert lines(place.ledger) == lines(alone.ledger)
    assert place.ledger.verify()
