"""Who sees numbers about people on a column partition, by `scores` and by policy."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import unpooled as up
from unpooled.errors import DataError, ReleaseRefusedError
from unpooled.federation.federation import Federation
from wire import Silos, silos

N = 60
PARTIES_ONLY = {"allow_row_level": "parties", "allow_disclosed": True, "min_parties": 2}
WISHED = {**PARTIES_ONLY, "allow_row_level": True}
NEIGHBOURS = {"topology": "ring", "rounds": 2}

# Which fits show the coordinator nobody: the last column of the page's table.
HIDDEN = {
    "gossip": (up.PCA(2, svd_solver="gossip", random_state=0), 3),
    "kernel": (up.KernelPCA(2, gamma=0.1, scores="parties"), 3),
    "landmarks": (
        up.KernelPCA(
            2,
            gamma=0.1,
            approximation="nystroem",
            n_landmarks=7,
            random_state=0,
            scores="parties",
        ),
        3,
    ),
    "vfedakpca": (up.VFedAKPCA(1, topology="ring", random_state=0), 3),
    "ridge": (up.CCA(1, regularisation=0.3), 2),
    "pls": (up.PLSCanonical(1), 2),
    "pls svd": (up.PLSSVD(1), 2),
    "pls regression": (up.PLSRegression(1, scores="parties"), 2),
    "sumcor": (up.CCA(1, regularisation=0.3, criterion="sumcor"), 3),
}
SHOWN = {
    "gram": (up.PCA(2, svd_solver="gram", scores="parties"), 3),
    "krylov": (up.PCA(2, svd_solver="krylov", scores="parties", random_state=0), 3),
    "no scores": (up.PCA(2, scores=None), 3),
    "kernel": (up.KernelPCA(2, gamma=0.1), 3),
    "vfedpca": (up.VFedPCA(1, random_state=0), 3),
    "vfedakpca": (up.VFedAKPCA(1, random_state=0), 3),
    "cca": (up.CCA(1), 3),
    "cca of two": (up.CCA(1, solver="krylov", random_state=0), 2),
}
# These show the coordinator nobody either, but start from numbers about people that it
# draws, and so could choose.
STARTED = {
    "vfedpca": (up.VFedPCA(1, **NEIGHBOURS, random_state=0), 3),
    "mmvfl": (up.MMVFL(1.0, max_iter=2, tol=0.0), 3),
}


def joined(m: int, rules: Any, **options: Any) -> Silos:
    rng = np.random.default_rng(5)
    common = rng.standard_normal((N, 2))
    parts: dict[str, Any] = {}
    for i, name in enumerate("xyz"[:m]):
        X = common @ rng.standard_normal((2, 3)) + rng.standard_normal((N, 3))
        parts[name] = pd.DataFrame(X, columns=[f"{name}{j}" for j in range(3)])
        if i == 0:
            parts[name]["kind"] = np.arange(N) % 2
    policy = {**rules, "min_rows_per_class": 1}
    return silos(parts, partition="columns", label="kind", policy=policy, **options)


def told_to_the_coordinator(here: Silos, monkeypatch: Any) -> list[tuple[str, Any]]:
    """Note every array that a coordinator opens."""
    coordinator = here.federation.coordinator
    run_step, seen = coordinator.run_step, []

    def listening(call):
        opened = run_step(call)
        if call.to == "coordinator":
            for name, value in opened.items():
                # Of a disclosed step, a dict by party.
                own = value if isinstance(value, dict) else {name: value}
                seen.extend((call.step.name, array) for array in own.values())
        return opened

    monkeypatch.setattr(coordinator, "run_step", listening)
    return seen


def fitted(model: Any, federation: Federation) -> Any:
    if isinstance(model, up.MMVFL):
        return clone(model).fit(federation, y="kind")
    return clone(model).fit(federation)


@pytest.mark.thinned(5)
@pytest.mark.parametrize("name", HIDDEN)
def test_fits_that_show_people_to_the_parties_alone(name, monkeypatch):
    model, m = HIDDEN[name]
    # Of 60 people few numbers may be opened, but SUMCOR opens blocks of products.
    here = joined(m, PARTIES_ONLY | {"max_released_share": 1.0})
    seen = told_to_the_coordinator(here, monkeypatch)
    fitted(model, here.federation)
    assert [step for step, array in seen if N in np.shape(array)] == []


@pytest.mark.thinned(1)
@pytest.mark.parametrize(
    ("model", "m"), [*SHOWN.values(), *STARTED.values()], ids=[*SHOWN, *STARTED]
)
def test_other_fits_are_refused_where_the_parties_alone_may_see_people(model, m):
    here = joined(m, PARTIES_ONLY)
    with pytest.raises(ReleaseRefusedError, match="allow_row_level"):
        fitted(model, here.federation)
    left = [line for line in here.ledger if line.direction == "out"]
    assert not [line for line in left if N in line.shape and line.visibility != "kept"]


@pytest.mark.thinned(4)
@pytest.mark.parametrize("name", SHOWN)
def test_control_they_show_people_to_a_coordinator_that_may_see_them(name, monkeypatch):
    model, m = SHOWN[name]
    here = joined(m, WISHED)
    seen = told_to_the_coordinator(here, monkeypatch)
    fitted(model, here.federation)
    assert [step for step, array in seen if N in np.shape(array)]


@pytest.mark.slow
def test_control_what_neighbours_merged_is_not_opened_by_the_coordinator(monkeypatch):
    for model, m in STARTED.values():
        here = joined(m, WISHED)
        seen = told_to_the_coordinator(here, monkeypatch)
        fitted(model, here.federation)
        assert [step for step, array in seen if N in np.shape(array)] == []


@pytest.mark.slow
def test_transforms_and_attributes_go_where_policies_allow():
    here = joined(3, PARTIES_ONLY)
    gossip = clone(HIDDEN["gossip"][0]).fit(here.federation)
    with pytest.raises(ReleaseRefusedError, match="allow_row_level"):
        gossip.transform(here.federation)
    gossip.scores = "parties"
    assert gossip.transform(here.federation) is None
    gossip.scores = None
    with pytest.raises(DataError, match="nobody is to see the scores"):
        gossip.transform(here.federation)
    kernel = clone(HIDDEN["kernel"][0]).fit(here.federation)
    with pytest.raises(ReleaseRefusedError, match="allow_row_level"):
        _ = kernel.eigenvectors_
    pair = joined(2, PARTIES_ONLY)
    pls = clone(HIDDEN["pls"][0]).fit(pair.federation)
    with pytest.raises(ReleaseRefusedError, match="allow_row_level"):
        pls.transform(pair.federation)


@pytest.mark.slow
def test_predictions_go_where_the_page_says(monkeypatch):
    here = joined(3, WISHED)
    seen = told_to_the_coordinator(here, monkeypatch)
    labels = fitted(STARTED["mmvfl"][0], here.federation)
    assert not [step for step, array in seen if N in np.shape(array)]
    assert labels.predict(here.federation).shape == (N,)
    assert [step for step, array in seen if N in np.shape(array)]

    pair = joined(2, PARTIES_ONLY)
    pls = clone(HIDDEN["pls regression"][0]).fit(pair.federation)
    seen = told_to_the_coordinator(pair, monkeypatch)
    assert pls.predict(pair.federation) is None
    assert not [step for step, array in seen if N in np.shape(array)]
    pls.scores = "coordinator"
    with pytest.raises(ReleaseRefusedError, match="allow_row_level"):
        pls.predict(pair.federation)


@pytest.mark.slow
@pytest.mark.parametrize("attribute", ["u_", "scores_"])
def test_directions_of_neighbours_are_shown_when_asked_for(attribute, monkeypatch):
    wished, hidden = joined(3, WISHED), joined(3, PARTIES_ONLY)
    model = up.VFedAKPCA(1, **NEIGHBOURS, random_state=0)
    seen = told_to_the_coordinator(wished, monkeypatch)
    shown = clone(model).fit(wished.federation)
    assert not [step for step, array in seen if N in np.shape(array)]
    assert N in np.shape(getattr(shown, attribute))
    assert [step for step, array in seen if N in np.shape(array)]
    refused = clone(model).fit(hidden.federation)
    with pytest.raises(ReleaseRefusedError, match="allow_row_level"):
        getattr(refused, attribute)


def test_masks_off_the_parties_alone_open_nothing():
    """Unmasked, a total for the parties passes the coordinator in clear."""
    here = joined(3, PARTIES_ONLY, secure_sum="plain")
    with pytest.raises(ReleaseRefusedError, match="allow_row_level"):
        fitted(HIDDEN["kernel"][0], here.federation)


def test_a_list_of_steps_takes_single_ones_away():
    steps = ["pca.own_means", "pca.own_image", "pca.own_loadings"]
    here = joined(3, {**WISHED, "allowed_steps": steps})
    model = up.PCA(2, svd_solver="krylov", random_state=0).fit(here.federation)
    for ask in (
        lambda: up.PCA(2, svd_solver="gram").fit(here.federation),
        lambda: model.transform(here.federation),
    ):
        with pytest.raises(ReleaseRefusedError, match="allowed_steps"):
            ask()


def test_what_a_plan_says_of_it():
    here = joined(3, PARTIES_ONLY)
    refused = up.plan(up.PCA(2), here.federation).refusals
    assert {rule for _, _, rule in refused} == {"allow_row_level"}
    hidden = up.KernelPCA(2, gamma=0.1, scores="parties")
    assert up.plan(hidden, here.federation).refusals == ()
