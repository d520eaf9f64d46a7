"""Studies of every estimator, whose silos follow the announced text alone."""

import pytest
from numpy.testing import assert_allclose, assert_array_equal

from integration.matrix import CASES, RULES, text_of
from integration.rows import WRITERS
from server_end import ServerEnd

# The others take two minutes.
FEW = ("PCA", "LinearDiscriminantAnalysis", "StandardScaler-columns")


@pytest.mark.slow
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
        categorical=case.categorical,
    )

    place = server.done("run", text_of(name))

    assert place.state.done


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [1, 2, 3, 4, 5])
def test_a_study_whose_job_died_is_continued(tmp_path, rounds):
    """In a new process silos know calls whose end they were told, and no other."""
    server = ServerEnd(tmp_path)
    text = text_of("PCA").replace(
        '[[steps]]\nmodel = "PCA"',
        '[[steps]]\nmodel = "StandardScaler"\n[[steps]]\nmodel = "PCA"',
    )
    place = server.continued(text, rounds)

    assert place.state.done
    whole = _whole(tmp_path, text)
    ((_, model),), ((_, wanted),) = place.models()[-1:], whole.models()[-1:]
    assert_allclose(model.components_, wanted.components_, atol=1e-12)


@pytest.mark.slow
def test_a_search_whose_job_died_is_continued(tmp_path):
    """Silos that follow continue from a state that they followed, and no other."""
    server = ServerEnd(tmp_path)
    text = text_of("PowerTransformer-summed")
    place = server.continued(text, 8)

    whole = _whole(tmp_path, text)
    ((_, model),), ((_, wanted),) = place.models()[-1:], whole.models()[-1:]
    assert_array_equal(model.lambdas_, wanted.lambdas_, strict=True)
    asked, needed = _batches(place), _batches(whole)
    # The batch that died, and the one before it, again.
    assert needed < asked <= needed + 2


def _whole(folder, text):
    """Run a study that does not end early, elsewhere."""
    (folder / "other").mkdir()
    return ServerEnd(folder / "other").done("run", text)


def _batches(place):
    slopes = [x for x in place.ledger if x.step == "power.local_slopes"]
    return sum(line.name == "lam" and line.direction == "in" for line in slopes)
