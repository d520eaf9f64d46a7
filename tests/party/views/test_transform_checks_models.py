"""Transforms of every model follow from its fit, and no column is one person's.

test_transform_checks.py has what evidence is made of, with imputer, scaler and PCA.
"""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from test_transform_checks import altered, proofs, refused_by_all, shown

import unpooled as up
from attacks import PERSON, scatter
from unpooled.arrays import Array
from unpooled.errors import ReleaseRefusedError
from unpooled.party.rules.policy import Policy
from unpooled.protocol.view_operations import Derive, Operation, Select
from wire import PATIENT, Rogue, Silos, silos

NAMES = tuple(f"x{j}" for j in range(6))
SECOND = ["x4", "x5"]
# More columns than rows need a silo that allows them.
WIDE = {**PATIENT, "max_feature_ratio": np.inf, "max_row_share": 1.0, "min_rows": 2}
WIDE |= {"min_rows_per_class": 1}


def tables(n: int = 40, p: int = 6, seed: int = 0) -> dict[str, pd.DataFrame]:
    """Rows of three classes, the last two columns made of the first two.

    Of person 11 of b, x1 is one more than x0; of all others it is x0 again and a bit.
    """
    found = {}
    for place, name in enumerate("abc"):
        rng = np.random.default_rng([seed, place])
        X, y = rng.standard_normal((n, p)) + 5.0, np.arange(n) % 3
        X[:, :2] += y[:, None] * [1.0, 0.5] + (y[:, None] == 1) * [0.0, 1.5]
        X[:, -2:] = X[:, 2:4] @ [[1.0, -0.5], [0.3, 1.0]] + X[:, -2:]
        frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(p)])
        found[name] = frame.assign(kind=y)
    return found


def here_with(policy: Any = PATIENT, **shape: int) -> Silos:
    return silos(tables(**shape), label="kind", policy=policy)


def lda(**options: Any) -> Any:
    return up.LinearDiscriminantAnalysis(**options)


KIND = {"y": "kind"}
MODELS: dict[str, tuple[Any, dict[str, Any], str]] = {
    "discriminants": (lda(), KIND, "scalings"),
    "shrunk": (lda(n_components=1, shrinkage=0.3), KIND, "scalings"),
    "ledoit-wolf": (lda(shrinkage="auto"), KIND, "scalings"),
    "priors": (lda(priors=[0.5, 0.2, 0.3], shrinkage=0.1), KIND, "scalings"),
    "one shot": (lda(solver="dgep-eigh"), KIND, "scalings"),
    "pair": (
        up.GeneralizedEigen(2, pair="pairs.local_canonical", public={"first": 3}),
        {},
        "vectors",
    ),
    "one-shot pair": (
        up.GeneralizedEigen(
            2, pair="pairs.local_canonical", public={"first": 3}, solver="dgep-eigh"
        ),
        {},
        "vectors",
    ),
    "cca": (up.CCA(2), {"y": SECOND}, "rotations"),
    "regularised": (up.CCA(1, regularisation=0.2), {"y": SECOND}, "rotations"),
    "pls svd": (up.PLSSVD(2), {"y": SECOND}, "rotations"),
    "pls": (up.PLSCanonical(2), {"y": SECOND}, "rotations"),
    "pls regression": (
        up.PLSRegression(2, scale=False),
        {"y": ["x2", "x0"]},
        "rotations",
    ),
    "exponents": (up.PowerTransformer(comparison="summed"), {}, "lambdas"),
    "bare exponents": (
        up.PowerTransformer(comparison="summed", standardize=False),
        {},
        "lambdas",
    ),
}


def fitted(here: Silos, name: str) -> up.Federation:
    model, label, _ = MODELS[name]
    return model.fit(here.federation, **label).transform(here.federation)


@pytest.mark.parametrize("name", MODELS)
def test_a_fit_behind_a_transform_runs_with_its_evidence(name):
    here = here_with()
    view = fitted(here, name)
    behind = up.StandardScaler().fit(view)
    assert behind.n_samples_seen_ == 120
    assert here.ledger.verify()


def turned(V: Array) -> Array:
    """Turn the first direction by a thousandth."""
    V = V.astype(float)
    V[..., 0] += 1e-3 * np.abs(V).max() * np.linspace(1.0, -1.0, V.shape[0])
    return V


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("how", ["turned", "made up"])
def test_other_numbers_do_not_follow(name, how):
    here = here_with()
    view = fitted(here, name)
    evidence = proofs(here).evidence(view.operations, set())[0]
    assert set(shown(here, view, evidence=evidence).values()) == {""}
    if MODELS[name][2] == "lambdas":
        # λ is known to a cell that is no wider than it was searched.
        step = 1e-2 if how == "turned" else 30.0
        wrong = altered(view, "lambdas", lambda lam: lam + step)
    else:
        change = turned if how == "turned" else lambda V: np.eye(*V.shape)
        wrong = altered(view, MODELS[name][2], change)

    assert refused_by_all(shown(here, wrong, evidence=evidence))
    assert refused_by_all(shown(here, wrong))


@pytest.mark.parametrize("name", ["cca", "discriminants", "exponents"])
def test_a_transform_behind_a_transform_has_evidence(name):
    """The fit's columns are not the source's, and for two views not the transform's."""
    here = here_with()
    scaled = up.StandardScaler().fit(here.federation).transform(here.federation)
    model, label, _ = MODELS[name]
    view = model.fit(scaled, **label).transform(scaled)
    assert up.StandardScaler().fit(view).n_samples_seen_ == 120


@pytest.mark.parametrize(
    ("model", "label"),
    [
        (lda(shrinkage=0.3), KIND),
        (lda(shrinkage="auto"), KIND),
        (lda(shrinkage=0.2, priors=[0.5, 0.2, 0.3]), KIND),
        (up.CCA(1, regularisation=0.2), {"y": [f"x{j}" for j in range(20, 40)]}),
    ],
)
def test_more_columns_than_rows_have_evidence_of_their_span(model, label):
    here = here_with(WIDE, n=6, p=40)
    view = model.fit(here.federation, **label).transform(here.federation)
    assert up.StandardScaler().fit(view).n_samples_seen_ == 18
    name = "scalings" if "kind" in label.values() else "rotations"
    wrong = altered(view, name, lambda V: np.eye(*V.shape))
    evidence = proofs(here).evidence(view.operations, set())[0]
    assert refused_by_all(shown(here, wrong, evidence=evidence))


@pytest.mark.parametrize("what", ["basis", "mean"])
def test_a_basis_of_ones_own_is_no_span(what):
    """Where columns are more than rows, one direction can be one person's alone."""
    here = here_with(WIDE, n=6, p=40)
    lda(shrinkage=0.3).fit(here.federation, y="kind")
    asked = [k for k in proofs(here)._kept.values() if k[0].operations[1:]]
    chain = list(asked[-1][0].operations)
    spanned = chain[1]
    assert isinstance(spanned, Derive)
    assert spanned.step == "span.spanned"
    rows = np.vstack([t.to_numpy()[:, :-1] for t in tables(6, 40).values()])
    public = dict(spanned.public)
    if what == "mean":
        public["mean"] = public["mean"] + 1e-3
    else:
        # Orthogonal to everybody's distance from the mean but person 7's.
        apart = rows - rows.mean(axis=0)
        marks = np.linalg.pinv(np.delete(apart, 7, axis=0))
        own = apart[7] - marks @ (np.delete(apart, 7, axis=0) @ apart[7])
        public["basis"] = np.linalg.qr(np.column_stack([own, public["basis"]]))[0]
        public["basis"] = public["basis"][:, : spanned.public["basis"].shape[1]]
    view = here.federation.over(here.federation.coordinator)
    view.operations = (chain[0], Derive(spanned.step, spanned.columns, public))
    evidence = proofs(here).evidence(tuple(chain), set())[0]
    assert evidence
    assert refused_by_all(shown(here, view, evidence=evidence))


# --- a column that is one person's ----------------------------------------------------


def marked() -> dict[str, pd.DataFrame]:
    """Make x1 x0 again, but for one person, and x2 near 0 for that person alone."""
    found = tables()
    for frame in found.values():
        frame["x1"] = frame["x0"]
        frame["x2"] = frame["x2"].abs() + 4.0
    found["b"].loc[PERSON, "x1"] += 1.0
    found["b"].loc[PERSON, "x2"] = 0.0
    return found


def made(step: str, **public: Any) -> tuple[Operation, ...]:
    """One column that marks the person, and all others as they are."""
    onto = np.column_stack([[-1.0, 1.0, 0, 0, 0, 0], np.eye(6)])
    ways = {
        "discriminant.discriminated": {
            "scalings": onto, "shrinkage": None, "priors": None
        },
        "eigenproblem.projected": {"vectors": onto},
        "twoviews.scored": {
            "mean": np.zeros(6),
            "scale": np.ones(6),
            "rotations": onto,
            "regularisation": 0.0,
        },
        "span.spanned": {"mean": np.zeros(6), "basis": onto},
    }  # fmt: skip
    names = tuple(f"y{j}" for j in range(7))
    return Select(NAMES), Derive(step, names, ways[step])


STEPS = {
    "discriminant.discriminated": "discriminants",
    "eigenproblem.projected": "pair",
    "twoviews.scored": "cca",
    "span.spanned": "discriminants",
}


@pytest.mark.parametrize("step", STEPS)
def test_no_column_of_one_person_is_made(step):
    frames = marked()
    here = silos(frames, label="kind")
    zero = {"mean": np.zeros(7)}
    rogue = Rogue(here, columns=NAMES).enter()
    unfitted = rogue.rules("pca.local_squares", zero, made(step))
    assert set(unfitted.values()) == {"transform_not_fitted"}
    # A fit of that kind is no leave to send other numbers; x1 is x0 but for a bit.
    here = here_with()
    fitted(here, STEPS[step])
    rogue = Rogue(here, columns=NAMES).enter()
    after = rogue.rules("pca.local_squares", zero, made(step))
    assert set(after.values()) == {"transform_not_fitted"}


@pytest.mark.parametrize("step", STEPS)
def test_control_a_column_of_one_person_is_the_record(step):
    here = silos(marked(), label="kind", policy=Policy.open())
    rogue = Rogue(here, columns=NAMES).enter()
    S = scatter(rogue, made(step), 7)
    record = marked()["b"].iloc[PERSON, :6].to_numpy(float)
    assert_allclose(S[0, 1:], record, rtol=1e-9, atol=1e-9)


def saturated() -> tuple[Operation, ...]:
    """λ of x2 at which all but those near zero are the same."""
    lambdas = np.array([1.0, 1.0, -40.0, 1.0, 1.0, 1.0])
    return Select(NAMES), Derive("power.transformed", NAMES, {"lambdas": lambdas})


def test_no_exponent_marks_a_person():
    here = silos(marked(), label="kind")
    up.PowerTransformer(comparison="summed", standardize=False).fit(here.federation)
    rogue = Rogue(here, columns=NAMES).enter()
    rules = rogue.rules("pca.local_squares", {"mean": np.zeros(6)}, saturated())
    assert set(rules.values()) == {"transform_not_fitted"}


def test_control_an_exponent_that_marks_a_person_gives_the_record():
    here = silos(marked(), label="kind", policy=Policy.open())
    rogue = Rogue(here, columns=NAMES).enter()
    sums = rogue.totals("pca.local_total")["total"]
    # 1/40 for everybody else, and 0 for that person.
    left_out = sums - 40.0 * scatter(rogue, saturated(), 6)[2]
    record = marked()["b"].iloc[PERSON, :6].to_numpy(float)
    others = [0, 1, 3, 4, 5]
    assert_allclose(left_out[others], record[others], rtol=1e-9)


def test_a_power_method_that_stopped_early_is_not_applied():
    """Its directions are nobody's eigenvectors, so anybody's choice."""
    here = here_with()
    model = lda(solver="dgep-power", max_iter=1, random_state=0)
    view = model.fit(here.federation, y="kind").transform(here.federation)
    with pytest.raises(ReleaseRefusedError, match="transform_not_fitted"):
        up.StandardScaler().fit(view)
