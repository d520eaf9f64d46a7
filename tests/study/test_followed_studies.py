"""Studies of every estimator, whose silos follow the announced text alone."""

import pytest

from integration.matrix import CASES, RULES, text_of
from integration.rows import WRITERS
from server_end import ServerEnd

# The others take two minutes.
FEW = ("PCA", "LinearDiscriminantAnalysis", "StandardScaler-columns")


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n in FEW else pytest.mark.slow) for n in CASES],
)
def test_a_study_is_followed_from_its_announced_text(tmp_path, name):
    case = CASES[name]
    server = ServerEnd(
        tmp_path,
        write=WRITERS[case.partition],
        partition=case.partition,
        rules=RULES[case.partition],
    )

    outcome, place = server.ask("run", text_of(name))

    assert outcome["error"] is None
    assert place is not None
    assert place.state.done
