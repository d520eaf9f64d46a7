"""What columns about each silo's own mean tell, by functions that bend.

A flag less its share in the silo has two values there, -s and 1 - s. A count of values
between two edges says whether an edge is beyond -s; so counts, quantiles, scores above
a threshold and weights of rows tell the share, where totals of squares do not.
"""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

import unpooled as up
from unpooled.errors import ReleaseRefusedError

SIZES = {"a": 60, "b": 75, "c": 90}
AGES = {"a": 40.0, "b": 50.0, "c": 65.0}


def tables() -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng(1)
    tables = {}
    for name, n in SIZES.items():
        age = AGES[name] + 8.0 * rng.standard_normal(n)
        weight = 70.0 + 10.0 * rng.standard_normal(n)
        risk = rng.random(n) < 1.0 / (1.0 + np.exp(-(age - AGES[name]) / 8.0))
        tables[name] = pd.DataFrame(
            {
                "age": age,
                "weight": weight,
                "visits": rng.poisson(3.0, n).astype(float),
                "ill": np.where(risk, "yes", "no"),
            }
        )
    return tables


def flags() -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng(2)
    shares = {"a": 0.2, "b": 0.45, "c": 0.7}
    return {
        name: pd.DataFrame({"smokes": (rng.random(n) < shares[name]).astype(float)})
        for name, n in SIZES.items()
    }


def centred(federation: up.Federation) -> up.Federation:
    return up.CentreBySite().fit_transform(federation)


def test_counts_of_a_centred_flag_would_tell_each_silos_share():
    # The attack itself, where silos allow it: bins whose ends are 1/20 apart.
    own = flags()
    here = up.simulate(own, policy={"allow_disclosed": True})
    found = up.Histogram(40, ranges={"smokes": (-1.0, 1.0)}).fit(centred(here))
    edges, counts = found.bin_edges_[0], found.counts_[0]
    middles = (edges[1:] + edges[:-1]) / 2.0
    guessed = [-middle for middle in middles[(counts > 0) & (middles < 0.0)]]
    shares = [float(frame["smokes"].mean()) for frame in own.values()]
    assert np.allclose(sorted(guessed), sorted(shares), rtol=0.0, atol=1.0 / 40.0)


MODELS = [
    up.Describe(),
    up.Histogram(),
    up.Quantiles(),
    up.RobustScaler(),
    up.QuantileTransformer(n_quantiles=5),
    up.KBinsDiscretizer(3, encode="onehot-dense", strategy="uniform"),
    up.PowerTransformer(),
    up.KernelPCA(
        2, kernel="rbf", approximation="fourier", n_landmarks=10, random_state=0
    ),
    up.LogisticRegression(),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_functions_that_bend_are_refused_behind_own_means(model):
    def simulate(**options: Any) -> up.Federation:
        own = tables()
        label = isinstance(model, up.LogisticRegression | up.Describe)
        kept = {n: t if label else t.drop(columns="ill") for n, t in own.items()}
        found = up.simulate(kept, label="ill" if label else None, **options)
        return found.select(["age", "weight", "visits"])

    model.fit(simulate())
    with pytest.raises(ReleaseRefusedError, match="within_silos"):
        model.fit(centred(simulate()))
    model.fit(centred(simulate(policy={"allow_disclosed": True})))


def test_weights_of_rows_that_depend_on_own_means_are_refused():
    here = up.simulate(tables(), label="ill").select(["age", "weight", "visits"])
    both = up.ColumnTransformer(
        [(up.CentreBySite(), ["age", "weight"])], remainder="passthrough"
    )
    view = both.fit_transform(here)
    up.LinearRegression().fit(view, "visits")
    up.LinearRegression(cov_type="HC1").fit(view, "visits")
    with pytest.raises(ReleaseRefusedError, match="within_silos"):
        up.GLM("poisson").fit(view, "visits")


def test_transforms_between_do_not_hide_it():
    here = up.simulate(tables(), label="ill").select(["age", "weight"])
    components = make_pipeline(up.CentreBySite(), up.StandardScaler(), up.PCA(2))
    view = components.fit_transform(here)
    up.PCA(1).fit(view)
    for model in (up.Quantiles(), up.KBinsDiscretizer(3, strategy="uniform")):
        with pytest.raises(ReleaseRefusedError, match="within_silos"):
            model.fit(view)


def test_columns_without_own_means_are_answered_as_before():
    here = up.simulate(tables(), label="ill").select(["age", "weight"])
    both = up.ColumnTransformer([(up.CentreBySite(), ["age"])], remainder="passthrough")
    view = both.fit_transform(here)
    up.PCA(1).fit(view)
    with pytest.raises(ReleaseRefusedError, match="within_silos"):
        up.Quantiles().fit(view)
    up.Quantiles().fit(view.select(["weight"]))


def test_classes_behind_own_means_are_fitted_and_not_counted():
    here = up.simulate(tables(), label="ill").select(["age", "weight"])
    view = centred(here)
    model = up.LinearDiscriminantAnalysis().fit(view)
    with pytest.raises(ReleaseRefusedError, match="within_silos"):
        model.score(view, "ill")


def test_predictions_with_site_effects_are_judged_by_sums_alone():
    here = up.simulate(tables(), label="ill").select(["age", "weight"])
    model = up.LogisticRegression(site_effects=True).fit(here)
    assert model.score(here, "ill") > 0.5
    with pytest.raises(ReleaseRefusedError, match="within_silos"):
        up.metrics.roc_auc_score("ill", model.predict_proba(here))


def test_a_plan_refuses_it_too():
    here = up.simulate(tables(), label="ill").select(["age", "weight"])
    plan = up.plan(make_pipeline(up.CentreBySite(), up.Quantiles()), here)
    assert "within_silos" in str(plan)
