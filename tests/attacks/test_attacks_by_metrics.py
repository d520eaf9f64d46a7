"""Attacks by judging a model: counts and sums of people on one side of a threshold.

Predictions of a model of one column are in the order of that column, so that bins of
probabilities are intervals of it. Counts are opened, within the budget of numbers; sums
over the people between two thresholds are not.
"""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit, logit

import unpooled as up
from unpooled.arrays import Array
from unpooled.errors import ReleaseRefusedError
from unpooled.federation.federation import Federation
from unpooled.metrics import (
    calibration_curve,
    confusion_matrix,
    mean_squared_error,
    roc_curve,
)

# Nobody's probability is between 1/3 and 2/5, but that of one person.
GAP = (0.30, 0.44)
PERSON = logit(0.37)
OPEN = {"allow_disclosed": True, "max_released_share": 10.0}


def tables() -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng(4)
    p = rng.uniform(0.02, 0.98, 239)
    low = p[(p > GAP[0]) & (p < GAP[1])]
    p[(p > GAP[0]) & (p < GAP[1])] = rng.uniform(0.5, 0.9, len(low))
    x = np.append(logit(p), PERSON)
    ill = (rng.random(240) < expit(x)).astype(int)
    frame = pd.DataFrame({"x": 50.0 + 10.0 * x, "w": rng.standard_normal(240)})
    frame["ill"] = ill
    return {
        name: frame.iloc[i::3].reset_index(drop=True) for i, name in enumerate("abc")
    }


def federation(policy: dict[str, Any] | None = None, follow: bool = True) -> Federation:
    return up.simulate(
        tables(), label="ill", policy=policy, follow=follow, random_state=0
    )


def fitted(here: Federation) -> tuple[Any, Federation]:
    view = here.select(["x"])
    model = up.LinearDiscriminantAnalysis().fit(view, "ill")
    return model, model.predict_proba(view)


def sums(here: Federation, predictions: Federation, bins: int) -> tuple[Array, Array]:
    """Return how many people have a probability in each bin, and its sum, as opened."""
    opened, honest = dict[str, Any](), here.coordinator.run_step

    def run_step(call: Any) -> Any:
        opened[call.step.name] = found = honest(call)
        return found

    here.coordinator.run_step = run_step
    try:
        calibration_curve("ill", predictions, n_bins=bins)
    finally:
        here.coordinator.run_step = honest
    count = opened["classification.local_binned"]["binned"].sum(axis=0)
    return count, opened["classification.local_binned_sums"]["probability"]


def between(here: Federation, predictions: Federation) -> tuple[float, float]:
    """Return how many people are between 1/3 and 2/5, and the sum of probabilities."""
    (n3, s3), (n5, s5) = (sums(here, predictions, bins) for bins in (3, 5))
    return n5[:2].sum() - n3[0], s5[:2].sum() - s3[0]


def test_control_two_numbers_of_bins_give_one_persons_value():
    here = federation(OPEN)
    model, predictions = fitted(here)
    n, p = between(here, predictions)
    assert n == 1
    x = (logit(p) - model.intercept_[0]) / model.coef_[0, 0]
    assert_allclose(x, 50.0 + 10.0 * PERSON, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("follow", [False, True])
def test_sums_by_bins_are_opened_for_one_number_of_bins(follow):
    here = federation(follow=follow)
    _, predictions = fitted(here)
    with pytest.raises(ReleaseRefusedError, match="one_setting"):
        between(here, predictions)


@pytest.mark.slow
def test_other_models_and_the_same_bins_again_are_no_other_setting():
    here = federation()
    _, predictions = fitted(here)
    first = calibration_curve("ill", predictions, n_bins=2)
    for again, one in zip(
        calibration_curve("ill", predictions, n_bins=2), first, strict=True
    ):
        assert_allclose(again, one)
    other = up.LinearDiscriminantAnalysis(priors=np.array([0.45, 0.55]))
    view = here.select(["x"])
    calibration_curve("ill", other.fit(view, "ill").predict_proba(view), n_bins=2)


@pytest.mark.slow
def test_fine_bins_are_more_numbers_than_the_budget_has():
    here = federation()
    _, predictions = fitted(here)
    with pytest.raises(ReleaseRefusedError, match="max_released_share"):
        roc_curve("ill", predictions, n_bins=1000)


@pytest.mark.slow
def test_a_search_by_thresholds_ends_with_the_budget():
    """Priors move the threshold: whoever bisects finds the largest value of all."""
    here = federation()
    view, answered = here.select(["x"]), list[float]()

    def search(low: float, high: float) -> None:
        middle = 0.5 * (low + high)
        priors = np.array([expit(middle), expit(-middle)])
        model = up.LinearDiscriminantAnalysis(priors=priors).fit(view, "ill")
        above = confusion_matrix("ill", model.predict(view), labels=[0, 1])[:, 1].sum()
        answered.append(middle)
        search(*((middle, high) if above else (low, middle)))

    with pytest.raises(ReleaseRefusedError, match="max_released_share"):
        search(0.0, 60.0)
    # Four numbers for each threshold, of 0.33 * 240.
    assert len(answered) <= 0.33 * 240 / 4


@pytest.mark.slow
def test_rows_whose_classes_are_few_are_not_judged_on():
    frames = tables()
    for name, frame in frames.items():
        frame["ill"] = (np.arange(80) < (2 if name == "a" else 0)).astype(int)
    trained = federation()
    model, _ = fitted(trained)
    here = up.simulate(frames, label="ill", follow=False)
    with pytest.raises(ReleaseRefusedError, match="min_rows_per_class"):
        confusion_matrix("ill", model.predict(here.select(["x"])))


@pytest.mark.slow
def test_a_refused_call_does_not_stop_the_calls_after_it():
    here = federation()
    _, predictions = fitted(here)
    with pytest.raises(ReleaseRefusedError, match="max_released_share"):
        roc_curve("ill", predictions, n_bins=1000)
    assert roc_curve("ill", predictions, n_bins=5).auc > 0.5
    up.PCA(2).fit(here)


# --- a model of columns in other units ------------------------------------------------

HIGHEST = 166.0


def counted() -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng(0)
    made = {}
    for name in "abc":
        pressure = rng.normal(120, 12, 150).round()
        visits = rng.poisson(np.exp(0.3 + (pressure - 120) / 30)).astype(float)
        made[name] = pd.DataFrame({"pressure": pressure, "visits": visits})
        made[name]["ill"] = rng.integers(0, 2, 150)
    made["b"].loc[7, "pressure"] = HIGHEST
    return made


def scaled(view: Federation, scaler: Any) -> Federation:
    transformer = up.make_column_transformer(
        (scaler, ["pressure"]), remainder="passthrough"
    )
    return transformer.fit(view).transform(view)


def judged_in_other_units(here: Federation) -> float:
    """Return the largest pressure by the squared errors of a model of SDs.

    Predicted means grow by a factor for each standard deviation, and here by the same
    for each unit: one row's are all of the squares.
    """
    view = here.select(["pressure", "visits"])
    model = up.GLM("poisson").fit(scaled(view, up.StandardScaler()), "visits")
    centred = scaled(view, up.StandardScaler(with_std=False))
    error = mean_squared_error("visits", model.predict(centred))
    eta = 0.5 * np.log(error * 450)
    mean = up.StandardScaler().fit(view.select(["pressure"])).mean_
    assert mean is not None
    return float(mean[0] + (eta - model.intercept_) / model.coef_[0])


@pytest.mark.slow
def test_a_model_is_not_judged_behind_other_transforms_than_its_fit():
    here = up.simulate(counted(), label="ill", follow=True)
    with pytest.raises(ReleaseRefusedError, match="model_not_followed"):
        judged_in_other_units(here)


def test_control_in_other_units_it_tells_the_largest_value():
    # Where no row's weight is judged, which would refuse it too.
    policy = {"max_leverage": 1.0}
    here = up.simulate(counted(), label="ill", follow=False, policy=policy)
    assert_allclose(judged_in_other_units(here), HIGHEST, atol=0.1)


@pytest.mark.slow
def test_a_model_is_judged_on_other_rows_behind_the_transforms_of_its_fit():
    here = up.simulate(counted(), label="ill", follow=True, random_state=0)
    view = scaled(here.select(["pressure", "visits"]), up.StandardScaler())
    train, test = view.train_test_split()
    model = up.GLM("poisson").fit(train, "visits")
    assert mean_squared_error("visits", model.predict(test)) > 0.0
    assert model.score(test) < 1.0
