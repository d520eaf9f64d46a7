"""Exponents that were compared in secret: what the computing silos signed proves them.

test_transform_checks_models.py has those of totals, and all other models.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from test_transform_checks import altered, proofs, refused_by_all, shown
from unpooled.protocol.evidence import Evidence

import unpooled as up
from unpooled.arrays import Array
from unpooled.models.preprocessing.pooled_lambda import Progress
from wire import Silos, silos

pytest.importorskip("mpyc")

REFERENCE = {"x0": (5.0, 1.0), "x1": (5.0, 1.0)}


def model() -> Any:
    return up.PowerTransformer(tol=0.1, reference=REFERENCE)


@pytest.fixture(scope="module")
def here() -> Silos:
    tables = {
        name: np.random.default_rng(place).standard_normal((30, 2)) + 5.0
        for place, name in enumerate("abc")
    }
    return silos(tables)


@pytest.fixture(scope="module")
def view(here) -> up.Federation:
    return model().fit(here.federation).transform(here.federation)


def of_view(here: Silos, view: up.Federation) -> list[Evidence]:
    return list(proofs(here).evidence(view.operations, set())[0])


def changed(one: Evidence, **values: Any) -> Evidence:
    fields = {n: getattr(one, n) for n in type(one).__dataclass_fields__}
    return Evidence(**fields | values)


def test_signs_of_all_that_compute_are_evidence(here, view):
    evidence = of_view(here, view)
    signs = [one for one in evidence if one.step == "power.compared_slopes"]
    assert signs
    assert all(set(one.signed) == set("abc") for one in signs)
    assert set(shown(here, view, evidence=evidence).values()) == {""}
    assert up.StandardScaler().fit(view).n_samples_seen_ == 90
    assert here.ledger.verify()
    told = {x.visibility for x in here.ledger if x.name.endswith("slopes.falling")}
    assert told == {"compared"}


@pytest.mark.parametrize("step", [0.3, -30.0])
def test_another_exponent_is_refused(here, view, step):
    wrong = altered(view, "lambdas", lambda lam: lam + step)
    assert refused_by_all(shown(here, wrong, evidence=of_view(here, view)))


LIES: dict[str, Callable[[Evidence], Evidence]] = {
    "all signs turned": lambda one: changed(
        one, words={name: 1 - w for name, w in one.words.items()}
    ),
    "one silo's signs turned": lambda one: changed(
        one, words={name: _first_turned(w) for name, w in one.words.items()}
    ),
    "a signature that lacks": lambda one: changed(
        one,
        words={name: w[1:] for name, w in one.words.items()},
        signed={p: s for p, s in one.signed.items() if p != "a"},
    ),
    "another name": lambda one: changed(
        one, words=dict.fromkeys(["another"], *one.words.values())
    ),
    "other candidates": lambda one: changed(
        one, public={**one.public, "lam": one.public["lam"] + 1.0}
    ),
}


def _first_turned(words: Array) -> Array:
    words = words.copy()
    words[0] = 1 - words[0]
    return words


@pytest.mark.parametrize("lie", LIES)
def test_signs_that_nobody_found_are_none(here, view, lie):
    evidence = [
        LIES[lie](one) if one.step == "power.compared_slopes" else one
        for one in of_view(here, view)
    ]
    assert refused_by_all(shown(here, view, evidence=evidence))


def test_signs_of_one_batch_are_not_those_of_another(here, view):
    """A reply with signs says of which request they are."""
    evidence = of_view(here, view)
    places = [
        k for k, one in enumerate(evidence) if one.step == "power.compared_slopes"
    ]
    first, second = (evidence[k] for k in places[:2])
    evidence[places[0]] = changed(first, words=second.words, signed=second.signed)
    assert refused_by_all(shown(here, view, evidence=evidence))


def test_a_resumed_fit_asks_again_for_what_proves_it():
    """What was found before it stopped is of another session."""
    tables = {
        name: np.random.default_rng(place).standard_normal((30, 2)) + 5.0
        for place, name in enumerate("abc")
    }
    here, kept = silos(tables), list[dict[str, Any]]()
    whole = up.PowerTransformer(comparison="summed")
    whole.continuing(None, kept.append).fit(here.federation)
    assert len(kept) > 3
    for reached in (kept[1], kept[-2], kept[-1]):
        assert Progress.from_record(reached)
        # Nothing but what the resumed fit does itself can be shown.
        again = silos(tables)
        model = up.PowerTransformer(comparison="summed")
        model.continuing(reached, lambda record: None).fit(again.federation)
        assert (model.lambdas_ == whole.lambdas_).all()
        view = model.transform(again.federation)
        assert up.StandardScaler().fit(view).n_samples_seen_ == 90
