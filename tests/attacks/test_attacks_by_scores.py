"""Attacks on one person's record by scores and chi-squared of models with a log link.

Where a model's mean is an exponential of the predictors, one person far out can have a
term of a sum that exceeds all others, and its logarithm is an equation for the record.
Fits of other predictors, or steps of one fit, give as many equations as it has cells.
"""

import numpy as np
import pandas as pd
import pytest

import unpooled as up
from unpooled.errors import ReleaseRefusedError
from unpooled.models.regression import newton

N = 80


def tables(outlier: float) -> dict[str, pd.DataFrame]:
    """Return costs that grow exponentially with a dose, one person's the largest."""
    rng, made = np.random.default_rng(3), {}
    for name in "abc":
        X = pd.DataFrame(
            {"age": rng.integers(30, 80, N).astype(float), "dose": rng.normal(size=N)}
        )
        mean = np.exp(0.02 * (X["age"] - 55) + X["dose"] + 0.3)
        X["cost"] = mean * rng.gamma(4, 0.25, N) + 0.001
        X["ill"] = (rng.random(N) < 1 / (1 + np.exp(-X["dose"]))).astype(float)
        X["visits"] = rng.poisson(np.minimum(mean, 20)).astype(float)
        made[name] = X
    made["b"].loc[17, "dose"] = outlier
    return made


@pytest.mark.parametrize("score", ["mean_squared_error", "r2_score"])
@pytest.mark.parametrize("follow", [False, True])
def test_no_score_is_the_prediction_of_one_person(score, follow):
    """Squared residuals are μ², of which the logarithm is linear in the record."""
    here = up.simulate(tables(8.0), follow=follow).select(["age", "dose", "cost"])
    model = up.GLM("gamma").fit(here, "cost")

    with pytest.raises(ReleaseRefusedError, match="weighted_rows"):
        getattr(up.metrics, score)("cost", model.predict(here))


def test_nor_of_one_who_was_not_fitted():
    """The deviance of a count from a mean that is far too large is that mean."""
    made = tables(8.0)
    fitted = up.simulate({n: X.drop(index=17) for n, X in made.items()})
    model = up.GLM("poisson").fit(fitted.select(["age", "dose", "visits"]), "visits")
    here = up.simulate(made).select(["age", "dose", "visits"])

    with pytest.raises(ReleaseRefusedError, match="weighted_rows"):
        model.score(here, "visits")


@pytest.mark.parametrize("response", ["ill", "visits"])
def test_chi_squared_of_counts_and_classes_is_not_sent(response, monkeypatch):
    """A person with a mean next to 0 adds 1 / μ, in each step of a search."""
    made = tables(-9.0)
    made["b"].loc[17, response] = 1.0
    here = up.simulate({n: X[["age", "dose", response]] for n, X in made.items()})
    opened, state = [], newton.LogLikelihood

    def seen(*found):
        opened.append(found[-1])
        return state(*found)

    monkeypatch.setattr(newton, "LogLikelihood", seen)
    up.GLM("binomial" if response == "ill" else "poisson").fit(here, response)
    assert len(opened) > 3
    assert {totals["pearson"] for totals in opened} == {0.0}


@pytest.mark.parametrize("heavy", [False, True])
def test_scores_of_ordinary_rows_are_given(heavy):
    rng = np.random.default_rng(0)
    made = tables(1.0)
    for X in made.values():
        noise = rng.standard_t(2, N) if heavy else rng.normal(size=N)
        X["y"] = X["age"] + 5 * noise
    # One response far from all others, as heavy tails have them.
    made["c"].loc[3, "y"] = 200.0 if heavy else 60.0
    here = up.simulate(made)
    costs = here.select(["age", "dose", "cost"])
    up.GLM("gamma").fit(costs, "cost").score(costs, "cost")
    line = here.select(["age", "dose", "y"])
    up.LinearRegression().fit(line, "y").score(line, "y")
    up.cross_validate(up.LinearRegression(), line, "y", cv=3)
