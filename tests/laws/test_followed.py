"""Every estimator is followed: each silo makes the same call and finds the same bits.

Three silos, each of which runs the program on totals that it checked, refuse any
request that differs in a bit. So a fit that ends was followed to its end.
"""

import numpy as np
import pandas as pd
import pytest

import unpooled as up
from unpooled.errors import DataError
from unpooled.ledger import Release
from unpooled.models.base import fitted_names
from unpooled.models.files.catalogue import estimators
from unpooled.party.following import FOLLOWED
from ways import WAYS, Way, every_way

CASES = list(every_way())
# Without a seed of its own, a fit draws from the session's.
SEEDS = [0, pytest.param(None, marks=pytest.mark.slow)]


@pytest.mark.thinned(12)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("name", "way"), CASES)
def test_a_fit_is_followed_to_its_end(name: str, way: Way, seed: int | None):
    at = way.silos(follow=True, random_state=seed)
    model = way.fitted(estimators()[name](), at)

    # Another call tells the silos how this one ended.
    end(at.federation)

    for party in at.parties.values():
        (note,) = party.audit_log.notes(FOLLOWED)
        assert note["study"] == "study"
    if seed is None:
        return
    alone = way.fitted(estimators()[name](), way.silos(random_state=seed))
    assert fitted_names(model) == fitted_names(alone)
    for attribute in fitted_names(model):
        found, wanted = getattr(model, attribute), getattr(alone, attribute)
        if isinstance(found, np.ndarray) and found.dtype.kind == "f":
            if name == "Correlation" and way.partition == "columns":
                # Rounded in secret, up or down.
                np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-11)
            else:
                np.testing.assert_array_equal(found, wanted)


# Plans of searches and iterations have the most rounds that there can be, and do not
# know ranks.
SEARCHES = {"CCA-4", "Heterogeneity-0", "PCA-1", "PCA-3", "PLSCanonical-1"}
SEARCHES |= {"PersonalizedPCA-0", "PersonalizedPCA-1", "MetaAnalysis-1"}
# Plans do not know how many categories there are, either.
SEARCHES |= {"Describe-2", "FAMD-0", "FAMD-1", "MCA-0", "ColumnTransformer-0"}
SEARCHES |= {"ColumnTransformer-1"}
SEARCHES |= {"OneHotEncoder-1", "OrdinalEncoder-1"}
# Nor whether any cell is missing.
SEARCHES |= {"IterativeImputer-0", "IterativeImputer-1"}
SEARCHES |= {"GLM-0", "GLM-1", "GLM-2"}
SEARCHES |= {"LogisticRegression-0", "LogisticRegression-1", "LogisticRegression-2"}
SEARCHES |= {"PLSRegression-1", "PLSSVD-1", "PowerTransformer-0", "PowerTransformer-1"}


@pytest.mark.thinned(8)
@pytest.mark.parametrize(
    ("name", "way"), [case for case in CASES if case.id not in SEARCHES]
)
def test_plans_have_what_silos_that_follow_are_told(name: str, way: Way):
    at = way.silos(follow=True)
    model = estimators()[name]()
    model.set_params(**{**model.get_params(), **way.parameters})
    n_rows = 90 if way.partition == "rows" else None

    view = way.view(at.federation)
    planned = up.plan(model, view, way.y, n_rows=n_rows).releases

    way.fitted(estimators()[name](), at)
    assert list(map(as_planned, planned)) == list(map(as_planned, at.federation.ledger))


def as_planned(line: Release) -> tuple[object, ...]:
    return line.step, line.name, line.direction, line.visibility, line.shape, line.dtype


def end(federation: up.Federation) -> None:
    coded = federation.categorical
    numbers = federation.select(exclude=coded) if coded else federation
    up.StandardScaler().fit(numbers)


@pytest.mark.slow
def test_a_fit_without_a_round_is_followed_too():
    at = WAYS["SimpleImputer"][0].silos(follow=True).federation
    imputer = up.SimpleImputer(strategy="constant", fill_value=1.0).fit(at)
    scaler = up.StandardScaler().fit(imputer.transform(at))
    again = up.SimpleImputer(strategy="constant", fill_value=2.0).fit(at)

    up.PCA(2).fit(scaler.transform(imputer.transform(at)))

    assert again.statistics_[0] == 2.0


@pytest.mark.thinned(1)
@pytest.mark.parametrize(
    "call",
    [
        lambda at: up.PCA(9).fit(at),
        lambda at: up.GLM().fit(at, "nowhere"),
        lambda at: up.permutation_test(up.Correlation(), at),
        lambda at: up.jackknife(up.PCA(9), at),
    ],
    ids=["a parameter", "a column", "a model", "another model's parameter"],
)
def test_a_call_that_fails_before_its_first_round_does_not_stop_the_next(call):
    at = Way().silos(follow=True).federation
    for _ in range(2):
        with pytest.raises(DataError):
            call(at)
    up.PCA(2).fit(at)


@pytest.mark.slow
def test_numbers_of_numpy_in_a_list_of_parameters_are_followed():
    """They travelled as arrays of one, which are no numbers to the silos' program."""
    rng = np.random.default_rng(0)
    frames = {
        name: pd.DataFrame({"x": rng.standard_normal(40), "ill": np.arange(40) % 2})
        for name in "abc"
    }
    here = up.simulate(frames, label="ill", follow=True)
    priors = [np.float64(0.25), np.float64(0.75)]
    model = up.LinearDiscriminantAnalysis(priors=priors).fit(here, y="ill")
    assert model.priors_.tolist() == [0.25, 0.75]
