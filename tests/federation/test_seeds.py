"""Seeds: given ones, the federation's, and those that follow from all silos' keys."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import unpooled as up
from unpooled.federation.federation import Federation
from unpooled.federation.planning.dry_run import DryRun
from unpooled.party.rules.policy import Policy
from unpooled.protocol.message import decode
from unpooled.secure.keys.agreement import Offer, session_seed


def simulated(random_state: int | None = None) -> Federation:
    rng = np.random.default_rng(0)
    tables = {name: rng.standard_normal((40, 9)) for name in ("a", "b", "c")}
    return up.simulate(tables, policy=Policy.open(), random_state=random_state)


def test_a_seed_that_is_given_is_taken():
    assert simulated().seed(5) == 5
    assert simulated(random_state=3).seed(5) == 5
    assert simulated(random_state=3).seed() == 3
    state = np.random.RandomState(0)
    assert simulated(random_state=3).seed(state) is state


def test_without_one_the_seed_is_that_of_the_silos_keys(monkeypatch):
    federation, agreed = simulated(), []
    coordinator: Any = federation.coordinator
    exchange = coordinator.channel.exchange

    def seen(requests: Mapping[str, bytes]) -> Any:
        header = decode(next(iter(requests.values()))).header
        if header["kind"] == "agree":
            agreed.append(header)
        return exchange(requests)

    monkeypatch.setattr(coordinator.channel, "exchange", seen)
    seed = federation.seed()

    (header,) = agreed
    offers = {
        party: Offer(bytes.fromhex(key), bytes.fromhex(signature), head)
        for party, (key, signature, head) in header["offers"].items()
    }
    assert seed == session_seed(header["study"], header["session"], offers)
    # The same throughout a session, another in the next one.
    assert federation.seed() == seed
    with federation.fitting():
        assert federation.seed() != seed


def test_a_plan_has_a_seed_without_asking_anybody():
    assert DryRun(("a", "b"), "study", "masked").seed() == 0


@pytest.mark.parametrize(
    "model",
    [
        up.PCA(2, svd_solver="krylov"),
        up.KernelPCA(2, approximation="fourier", n_landmarks=6),
    ],
    ids=repr,
)
def test_an_unseeded_fit_is_that_of_the_seed(model, monkeypatch):
    from sklearn.base import clone

    unseeded, seeded = simulated(), simulated(random_state=7)
    monkeypatch.setattr(type(unseeded.coordinator), "seed", lambda self: 7)

    ours, theirs = clone(model).fit(unseeded), clone(model).fit(seeded)

    for name in ("components_", "score_weights_"):
        if hasattr(ours, name):
            assert np.array_equal(getattr(ours, name), getattr(theirs, name))


def test_unseeded_folds_and_splits_are_the_same_in_every_session():
    ours, theirs = simulated(), simulated()
    first = [*ours.folds(3), ours.train_test_split()]
    second = [*theirs.folds(3), theirs.train_test_split()]
    assert [a.operations for a, _ in first] == [b.operations for b, _ in second]


@pytest.mark.slow
def test_no_estimator_draws_from_a_generator_of_its_own(monkeypatch):
    """Without a seed, NumPy's generators would be the coordinator's."""

    def refused(*arguments: Any, **named: Any) -> Any:
        raise AssertionError("a generator without a seed")

    draw = np.random.default_rng

    def seeded(seed: Any = None) -> np.random.Generator:
        return refused() if seed is None else draw(seed)

    federation = simulated()
    monkeypatch.setattr(np.random, "default_rng", seeded)
    monkeypatch.setattr(np.random.mtrand, "_rand", None)
    up.PCA(2, svd_solver="krylov").fit(federation)
    up.KernelPCA(2, approximation="fourier", n_landmarks=6).fit(federation)
    federation.folds(2)
    federation.train_test_split()
    up.CCA(1, solver="dcca-power").fit(federation, ["x0", "x1"])
