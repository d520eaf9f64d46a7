"""Attacks on deployed silos by whoever has the server; all of them are refused.

The adversary announces a study, as it must, and then asks for something else. Between
organisations silos always follow, so controls without that are in tests/attacks/, where
these attacks and many more are carried out in one process.
"""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import unpooled as up
from cheating import asking, instead
from integration.captured import captured
from integration.rows import SILOS
from unpooled.coordinator.coordinator import Coordinator
from unpooled.errors import ReleaseRefusedError
from unpooled.federation.federation import Federation
from unpooled.protocol.view_operations import Rows
from unpooled.study.server_job import federation_of
from unpooled.study.study_file import StudyFile

RULES = "min_rows = 10\n"
COLUMNS = ("age", "sex", "cp", "exang")
LDA = 'model = "LinearDiscriminantAnalysis"\nsolver = "dgep-eigh"\nridge = 0.1'


@pytest.fixture(scope="module")
def guarded(consortium):
    with consortium.settled(RULES, audit="attacked"):
        yield consortium


@pytest.fixture(scope="module")
def doors(guarded):
    with captured(guarded) as doors:
        yield doors


def announced(doors, name: str, *steps: str) -> Federation:
    """Announce a study to the silos; return its federation, over their doors."""
    lines = ["[study]", f'name = "{name}"', 'label = "num"']
    lines += [
        f"columns = {json.dumps(COLUMNS)}",
        *(f"[parties.{silo}]" for silo in SILOS),
    ]
    lines += [line for step in steps for line in ("[[steps]]", step)]
    text = "\n".join([*lines, "[outputs]", "report = false", ""])
    study = StudyFile.from_text(Path(f"{name}.toml"), text)
    coordinator = Coordinator(doors, doors.roster.part(SILOS), study=name, follows=True)
    coordinator.send({"kind": "announce", "study": name, "text": text})
    return federation_of(study, coordinator)


def test_control_what_was_announced_is_answered(doors):
    federation = announced(doors, "honest", 'model = "StandardScaler"')

    model = up.StandardScaler().fit(federation, "num")

    assert np.isfinite(model.mean_).all()


def test_each_silos_scatter_by_many_ridges(doors):
    """Attack 1: a total at many ridges has each silo's own scatter as its poles."""
    federation = announced(doors, "ridges", LDA)
    model = up.LinearDiscriminantAnalysis(solver="dgep-eigh", ridge=0.1)

    with pytest.raises(ReleaseRefusedError) as refused:
        model.fit(asking(federation, "discriminant.local_whitened", ridge=0.2), "num")

    assert refused.value.rule == "not_followed"


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_one_row_by_splits_in_two_jobs(doors, guarded, share):
    """Attack 3: no job asks for rows that the announced study does not select."""
    name = f"split-{int(10 * share)}"

    def part(call):
        return replace(call, operations=(*call.operations, Rows(0, 0, share, True, 1)))

    with captured(guarded) as later:
        for where in (doors, later):
            federation = announced(where, name, 'model = "StandardScaler"')
            with pytest.raises(ReleaseRefusedError) as refused:
                up.StandardScaler().fit(instead(federation, part), "num")
            assert refused.value.rule == "not_followed"


@pytest.mark.parametrize(
    "other", [up.PCA(2), up.StandardScaler(with_mean=False), up.SimpleImputer()]
)
def test_approval_of_one_text_and_questions_of_another(doors, other):
    """Attack 14: whoever approved the announced text approved nothing else."""
    name = f"approved-{type(other).__name__}"
    federation = announced(doors, name, 'model = "StandardScaler"')

    with pytest.raises(ReleaseRefusedError) as refused:
        other.fit(federation, "num")

    assert refused.value.rule == "not_followed"


def test_two_jobs_at_once_share_one_account(doors, guarded):
    """Attack 20: what one job answered counts in another that runs beside it."""
    with captured(guarded) as beside:
        one = announced(doors, "one", FILLED.format(1.0), 'model = "StandardScaler"')
        two = announced(beside, "two", FILLED.format(2.0), 'model = "StandardScaler"')
        scaled(one, 1.0)
        with pytest.raises(ReleaseRefusedError) as refused:
            scaled(two, 2.0)

    assert refused.value.rule == "another_filling"


FILLED = 'model = "SimpleImputer"\nstrategy = "constant"\nfill_value = {}'


def scaled(federation: Federation, value: float) -> None:
    imputer = up.SimpleImputer(strategy="constant", fill_value=value)
    filled = imputer.fit(federation, "num").transform(federation)
    up.StandardScaler().fit(filled, "num")
