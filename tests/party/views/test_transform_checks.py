"""A silo applies what its study fitted: evidence, and what passes for none."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

import unpooled as up
from unpooled.arrays import Array
from unpooled.coordinator.coordinator import Coordinator
from unpooled.errors import ReleaseRefusedError
from unpooled.models.moments import local_counts
from unpooled.protocol.message import decode
from unpooled.protocol.request import Request, view_arrays
from unpooled.protocol.view_operations import Derive, Rows, Select
from wire import COLUMNS, Rogue, Silos, kind, rows, silos

TABLES = {name: rows(seed=i) for i, name in enumerate("abc")}
TABLES["b"][[3, 7], 1] = np.nan


@pytest.fixture(params=["plain", "masked"])
def here(request: pytest.FixtureRequest) -> Silos:
    return silos(TABLES, secure_sum=request.param)


def proofs(here: Silos) -> Any:
    coordinator = here.federation.coordinator
    assert isinstance(coordinator, Coordinator)
    return coordinator.fit_evidence


def shown(here: Silos, view: up.Federation, **changed: Any) -> dict[str, str]:
    """Each silo's rule for a view with the evidence that the coordinator has."""
    protection = here.federation.coordinator.protection
    rogue = Rogue(here, protection=protection).enter()
    evidence = changed.pop("evidence", None)
    if evidence is None:
        evidence = proofs(here).evidence(view.operations, set())[0]
    asked = rogue.request("imputer.local_counts", None, view.operations)
    values = {name: getattr(asked, name) for name in Request.__dataclass_fields__}
    values |= {"evidence": tuple(evidence), **changed}
    header, arrays = Request(**values).as_message()
    return {p: rogue.say(p, header, arrays).header.get("rule", "") for p in rogue.names}


def refused_by_all(rules: dict[str, str]) -> bool:
    return set(rules.values()) == {"transform_not_fitted"}


def fitted(here: Silos) -> Any:
    return make_pipeline(up.SimpleImputer(), up.StandardScaler(), up.PCA(2)).fit(
        here.federation
    )


def test_a_chain_of_transforms_is_applied_with_its_evidence(here):
    model = fitted(here)
    assert set(shown(here, model.transform(here.federation)).values()) == {""}
    # Another fit behind it, whose session sees the whole chain for the first time.
    after = up.StandardScaler().fit(model.transform(here.federation))
    assert after.n_samples_seen_ == 90


def test_evidence_is_in_the_ledger_as_planned(here):
    model = make_pipeline(up.SimpleImputer(), up.StandardScaler())
    plan = up.plan(model, here.federation)
    model.fit(here.federation)

    ledger = here.ledger
    names = "round step name shape dtype bytes visibility direction".split()
    told = [[getattr(line, n) for n in names] for line in ledger]
    assert told == [[getattr(line, n) for n in names] for line in plan.releases]
    came = [
        (line.step, line.name, line.shape, line.visibility)
        for line in ledger
        if line.name.startswith("imputer.")
    ]
    # Three silos' words, for the first request of the scaler's session alone.
    assert came == [
        ("imputer.imputed", "imputer.local_counts.count", (3, 3), "summed"),
        ("imputer.imputed", "imputer.local_observed.count", (3,), "public"),
        ("imputer.imputed", "imputer.local_observed.total", (3, 3), "summed"),
    ]
    assert ledger.verify()


def test_cross_validation_applies_a_fit_to_other_rows(here):
    train, test = here.federation.folds(2, random_state=0)[0]
    imputer = up.SimpleImputer().fit(train)
    assert set(shown(here, imputer.transform(test)).values()) == {""}
    assert set(shown(here, imputer.transform(train)).values()) == {""}


def altered(view: up.Federation, name: str, change: Callable[[Array], Array]) -> Any:
    chain = list(view.operations)
    last = chain.pop()
    assert isinstance(last, Derive)
    public = dict(last.public) | {name: change(last.public[name])}
    view = view.over(view.coordinator)
    view.operations = (*chain, Derive(last.step, last.columns, public))
    return view


def up_by_one_bit(values: Array) -> Array:
    values = values.copy()
    values[1] = np.nextafter(values[1], np.inf)
    return values


@pytest.mark.parametrize(
    ("model", "name", "change"),
    [
        (up.SimpleImputer(), "statistics", up_by_one_bit),
        (up.StandardScaler(), "mean", up_by_one_bit),
        (up.StandardScaler(), "scale", up_by_one_bit),
        (up.StandardScaler(), "scale", lambda scale: np.array([scale[0], 1.0, 1.0])),
        (up.PCA(2), "mean", up_by_one_bit),
        (up.PCA(2), "scale", lambda scale: scale * [1.0, 2.0]),
        (up.PCA(2), "components", lambda V: V * [1.0, 1.0, 1.0 + 1e-5]),
        (up.PCA(2), "components", lambda V: np.eye(3)[:2]),
        (up.PCA(2), "components", lambda V: np.array([V[0], V[0]])),
    ],
)
def test_altered_numbers_do_not_follow_from_the_fit(model, name, change):
    tables = {key: np.nan_to_num(X, nan=5.0) for key, X in TABLES.items()}
    here = silos(tables)
    view = model.fit(here.federation).transform(here.federation)
    evidence = proofs(here).evidence(view.operations, set())[0]
    assert set(shown(here, view, evidence=evidence).values()) == {""}

    wrong = altered(view, name, change)

    assert refused_by_all(shown(here, wrong, evidence=evidence))
    assert refused_by_all(shown(here, wrong))


PRIVACY = up.GaussianPrivacy(epsilon=50.0, delta=1e-6, row_norm=20.0, centre=5.0)


@pytest.mark.parametrize(
    "how", [{"svd_solver": "krylov"}, {"bits": 16}, {"privacy": PRIVACY}]
)
def test_projections_of_other_solvers_have_evidence_too(how):
    tables = {name: rows(60, 8, seed=i) for i, name in enumerate("abc")}
    here = silos(tables, policy={"privacy_budget": 1000.0})
    model = up.PCA(2, random_state=0, **how).fit(here.federation)
    view = model.transform(here.federation)
    assert up.SimpleImputer().fit(view).statistics_.shape == (2,)
    wrong = altered(view, "components", lambda V: np.eye(8)[:2])
    evidence = proofs(here).evidence(view.operations, set())[0]
    assert refused_by_all(shown(here, wrong, evidence=evidence))


def test_a_projection_may_be_turned_round_and_whitened(here):
    view = fitted(here).transform(here.federation)
    turned = altered(view, "components", lambda V: -V[::-1])
    evidence = proofs(here).evidence(view.operations, set())[0]
    assert set(shown(here, turned, evidence=evidence).values()) == {""}


def test_a_fit_on_other_columns_is_no_evidence(here):
    """The mean of x0 in the holes of x1 is a second filling of the same cells."""
    statistics = up.SimpleImputer().fit(here.federation).statistics_
    swapped = here.federation.select(("x1", "x0", "x2"))
    evidence = proofs(here).evidence(
        up.SimpleImputer().fit(here.federation).transform(here.federation).operations,
        set(),
    )[0]
    view = here.federation.over(here.federation.coordinator)
    names, public = swapped.feature_names, {"statistics": statistics}
    view.operations = (Select(names), Derive("imputer.imputed", names, public))
    assert refused_by_all(shown(here, view, evidence=evidence))


def test_a_fit_about_another_mean_turns_no_direction(here):
    """Scatter about a far mean points where the coordinator likes."""
    tables = {key: np.nan_to_num(X, nan=5.0) for key, X in TABLES.items()}
    here = silos(tables)
    coordinator, federation = here.federation.coordinator, here.federation
    from unpooled.models import moments

    asked = federation.asked_by("pca")
    with federation.fitting():
        N, mean = moments.pooled_mean(asked)
        honest = asked.sum(moments.local_squares, mean=mean)["squares"]
        far = mean + np.array([1e3, -1e3, 0.0])
        asked.sum(moments.local_squares, mean=far)
        # Bounded by what is honest it would be refused; so it is not.
        big = honest + N * (far - mean) ** 2
        S = asked.sum(moments.local_scatter, squares=big)["scatter"]
    V = np.linalg.eigh(S)[1][:, :-2:-1].T
    public = {"mean": mean, "components": V, "scale": np.ones(1)}
    view = federation.over(coordinator)
    view.operations = (*federation.operations, Derive("pca.projected", ("y",), public))
    assert refused_by_all(shown(here, view))


@pytest.mark.parametrize("what", ["word", "absent", "signer", "public", "step"])
def test_evidence_that_was_tampered_with_is_none(here, what):
    view = up.StandardScaler().fit(here.federation).transform(here.federation)
    *first, second = proofs(here).evidence(view.operations, set())[0]
    values = {n: getattr(second, n) for n in type(second).__dataclass_fields__}
    if what == "word":
        words = second.words["squares"].copy()
        words[0, 0] += 1
        values["words"] = {"squares": words}
    elif what == "absent":
        values["words"] = {n: w[1:] for n, w in second.words.items()}
        values["signed"] = {p: s for p, s in second.signed.items() if p != "a"}
    elif what == "signer":
        values["signed"] = {**second.signed, "a": second.signed["b"]}
    elif what == "public":
        values["public"] = {**second.public, "mean": second.public["mean"] + 1.0}
    elif what == "step":
        values["step"] = "scaler.local_counts"
    evidence = [*first, type(second)(**values)]
    assert refused_by_all(shown(here, view, evidence=evidence))


def test_replies_of_another_study_are_no_evidence():
    here = silos(TABLES)
    model = up.SimpleImputer().fit(here.federation)
    view = model.transform(here.federation)
    evidence = proofs(here).evidence(view.operations, set())[0]
    rogue = Rogue(here, study="another").enter()
    asked = rogue.request("imputer.local_counts", None, view.operations)
    values = {name: getattr(asked, name) for name in Request.__dataclass_fields__}
    header, arrays = Request(**values | {"evidence": evidence}).as_message()
    said = {p: rogue.say(p, header, arrays).header for p in rogue.names}
    rules = {party: header.get("rule", "") for party, header in said.items()}
    assert refused_by_all(rules)


def test_fits_on_two_sets_of_rows_do_not_mix(here):
    train, test = here.federation.folds(2, random_state=0)[0]
    view = up.StandardScaler().fit(train).transform(here.federation)
    evidence = list(proofs(here).evidence(view.operations, set())[0])
    other = up.StandardScaler().fit(test).transform(here.federation)
    mixed = [evidence[0], proofs(here).evidence(other.operations, set())[0][1]]
    assert refused_by_all(shown(here, view, evidence=mixed))


def test_what_was_shown_needs_no_second_showing(here):
    view = up.SimpleImputer().fit(here.federation).transform(here.federation)
    here.wire.sent.clear()
    with view.fitting():
        view.asked_by("imputer").sum(local_counts)
        view.asked_by("imputer").sum(local_counts)
    asked = [data for _, data in here.wire.sent if kind(data) == "step"]
    assert ["evidence" in decode(data).header for data in asked] == [
        *[True] * 3,
        *[False] * 3,
    ]


def test_a_model_of_elsewhere_is_refused_by_name(here):
    other = up.SimpleImputer().fit(silos(TABLES).federation)
    with pytest.raises(ReleaseRefusedError, match="transform_not_fitted"):
        up.StandardScaler().fit(other.transform(here.federation))


def test_rows_are_no_part_of_what_was_fitted():
    from unpooled.protocol.evidence import features_digest

    select, other = Select(COLUMNS), Select(("x1", "x0"))
    part = Rows(0, 2, 0.0, False, 1)
    filled = Derive("imputer.imputed", ("x1", "x0"), {"statistics": np.ones(2)})
    same = [(other,), (select, other), (select, part, other), (part, other, part)]
    assert len({features_digest(chain) for chain in same}) == 1
    assert features_digest((other, filled, other)) == features_digest((other, filled))
    different = [(select,), (other,), (other, filled), (select, filled)]
    assert len({features_digest(chain) for chain in different}) == 4
    assert view_arrays((other, filled))
