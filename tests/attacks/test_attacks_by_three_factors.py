"""Attacks on one person by sums of three factors, in a single study.

Neither of two flags is rare, and one person has both. A derived product is two factors
already, a covariance matrix or a sum by class adds the third; so does the covariance
matrix of one class.
"""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import unpooled as up
from unpooled.errors import ReleaseRefusedError

OTHERS, OPEN = ["age", "pressure"], {"max_leverage": 1.0}
DERIVED = {f"{name}_if_ill": f"ill * {name}" for name in OTHERS}
PERSON = 7


def tables(n_both: int = 1) -> dict[str, pd.DataFrame]:
    """Tables in which few people of b, and nobody else, are ill and treated."""
    rng = np.random.default_rng(0)
    made = {}
    for name in "abc":
        ill = rng.random(120) < 0.2
        treated = (rng.random(120) < 0.2) & ~ill
        made[name] = pd.DataFrame(
            {
                "ill": ill.astype(float),
                "treated": treated.astype(float),
                "age": rng.integers(20, 90, 120).astype(float),
                "pressure": rng.normal(120, 15, 120).round(),
            }
        )
    rows = slice(PERSON, PERSON + n_both - 1)
    made["b"].loc[rows, ["ill", "treated"]] = 1.0
    return made


RECORD = tables()["b"].loc[PERSON, OTHERS].tolist()


def by_products(federation: up.Federation) -> list[float]:
    """Return the products of the derived columns with the other flag."""
    derived = up.DerivedColumns(DERIVED).fit(federation).transform(federation)
    model = up.PCA().fit(derived.select(["treated", *DERIVED]))
    N, mean = model.n_samples_, model.mean_
    S = (N - 1) * model.get_covariance() + N * np.outer(mean, mean)
    return list(S[0, 1:])


def by_classes(federation: up.Federation) -> list[float]:
    """Return the sums of the derived columns over the treated."""
    derived = up.DerivedColumns(DERIVED).fit(federation).transform(federation)
    model = up.LinearDiscriminantAnalysis().fit(derived.select(list(DERIVED)))
    return list(model.class_count_[1] * model.means_[1])


def by_priors(federation: up.Federation) -> list[float]:
    """Return the products with a flag in one class, from two sets of priors."""
    models = [
        up.LinearDiscriminantAnalysis(priors=priors).fit(
            federation.select(["ill", *OTHERS])
        )
        for priors in (None, [0.5, 0.5])
    ]
    n = models[0].class_count_
    one, two = (model.covariance_ for model in models)
    weights = np.array([np.full(2, 1.0 / n.sum()), 0.5 / n])
    S = np.linalg.solve(weights, np.stack([one[0], two[0]]))[1]
    means = models[0].means_[1]
    return list((S + n[1] * means[0] * means)[1:])


ATTACKS = {
    "products": (by_products, None, "derived_rows"),
    "classes": (by_classes, "treated", "derived_rows"),
    "priors": (by_priors, "treated", "max_leverage"),
}


@pytest.mark.thinned(3)
@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize(
    ("attack", "label", "rule"), ATTACKS.values(), ids=ATTACKS.keys()
)
def test_the_one_with_both_flags_is_not_a_total(attack, label, rule, follow):
    here = up.simulate(tables(), label=label, follow=follow)
    with pytest.raises(ReleaseRefusedError) as refused:
        attack(here)
    assert (refused.value.party, refused.value.rule) == ("b", rule)


@pytest.mark.parametrize(
    ("attack", "label", "rule"), ATTACKS.values(), ids=ATTACKS.keys()
)
def test_control_without_a_limit_it_is(attack, label, rule):
    here = up.simulate(tables(), label=label, policy=OPEN)
    assert_allclose(attack(here), RECORD, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("attack", "label", "rule"), ATTACKS.values(), ids=ATTACKS.keys()
)
def test_of_several_people_it_is_answered(attack, label, rule):
    attack(up.simulate(tables(8), label=label, follow=True))


@pytest.mark.slow
def test_shrinkage_that_asks_for_each_class_is_refused_too():
    model = up.LinearDiscriminantAnalysis(shrinkage="auto")
    here = up.simulate(tables(), label="treated", follow=True)
    with pytest.raises(ReleaseRefusedError, match="max_leverage"):
        model.fit(here)
    model.fit(up.simulate(tables(8), label="treated", follow=True))


@pytest.mark.slow
def test_a_class_by_itself_has_enough_rows_for_the_columns():
    """Of 15 people and five columns the scatter would nearly be their records."""
    data = {name: table.assign(kind=0) for name, table in tables(8).items()}
    for name, table in data.items():
        table.loc[:4, "kind"] = 1
        for j in range(2):
            table[f"x{j}"] = np.random.default_rng([ord(name), j]).normal(size=120)
    here = up.simulate(data, label="kind", follow=True)
    columns = ["age", "pressure", "x0", "x1", "ill", "treated"]
    up.LinearDiscriminantAnalysis().fit(here.select(columns))
    with pytest.raises(ReleaseRefusedError, match="max_feature_ratio"):
        up.LinearDiscriminantAnalysis(shrinkage="auto").fit(here.select(columns))


def test_a_ratio_is_a_product_too():
    derived = {f"{name}_over": f"{name} / weight" for name in OTHERS}
    data = tables()
    for table in data.values():
        table["weight"] = np.where(table["ill"] > 0, 1.0, 1e9)
    here = up.simulate(data, label="treated", follow=True)
    view = up.DerivedColumns(derived).fit(here).transform(here)
    with pytest.raises(ReleaseRefusedError, match="derived_rows"):
        up.LinearDiscriminantAnalysis().fit(view.select(list(derived)))


def two_alone() -> dict[str, pd.DataFrame]:
    """Tables in which two people of b, and nobody else, are treated."""
    made = tables()
    for table in made.values():
        table["treated"] = 0.0
    made["b"].loc[[PERSON, 50], "treated"] = 1.0
    return made


@pytest.mark.thinned(1)
@pytest.mark.parametrize("label", [None, "kind"])
def test_sums_of_few_people_by_many_functions_are_refused(label):
    """Sums of age, age squared and age times pressure over two people are both."""
    data = two_alone()
    products = {"squares": "age * age", "both": "age * pressure"}
    if label:
        # Six people of all silos, too few for three of the columns.
        products["others"] = "pressure * ill"
        for table in data.values():
            table["kind"] = (table.index < 2).astype(int)
    here = up.simulate(data, label=label, follow=True)
    view = up.DerivedColumns(products).fit(here).transform(here)
    model = up.LinearDiscriminantAnalysis() if label else up.PCA()
    names = ["age", "pressure", *products, *([] if label else ["treated"])]
    with pytest.raises(ReleaseRefusedError, match="derived_rows"):
        model.fit(view.select(names))


def test_control_two_people_are_solved_for():
    data = two_alone()
    here = up.simulate(data, policy=OPEN)
    products = {"squares": "age * age", "both": "age * pressure"}
    view = up.DerivedColumns(products).fit(here).transform(here)
    model = up.PCA().fit(view.select(["treated", *OTHERS, *products]))
    N, mean = model.n_samples_, model.mean_
    S = (N - 1) * model.get_covariance() + N * np.outer(mean, mean)
    age, pressure, squares, both = S[0, 1:]
    apart = np.sqrt(2.0 * squares - age**2)
    ages = (age + np.array([apart, -apart])) / 2.0
    pressures = np.linalg.solve([[1.0, 1.0], ages], [pressure, both])
    people = data["b"].loc[[PERSON, 50], OTHERS].sort_values("age").to_numpy()
    assert_allclose(np.sort(np.c_[ages, pressures], axis=0)[:, 0], people[:, 0])
    assert_allclose(np.sort(pressures), np.sort(people[:, 1]))


@pytest.mark.slow
def test_products_beside_categories_of_enough_people_are_answered():
    data = two_alone()
    for table in data.values():
        table["ward"] = np.resize(["north", "south", "south"], 120)
    # A name that two of b have, and ten of a.
    data["a"].loc[:9, "ward"] = "west"
    data["b"].loc[:1, "ward"] = "west"
    here = up.simulate(data, categorical=["ward"], follow=True)
    view = up.DerivedColumns({"both": "age * pressure"}).fit(here).transform(here)
    steps = [(up.OneHotEncoder(), ["ward"]), (up.StandardScaler(), ["both"])]
    view = up.ColumnTransformer(steps).fit(view).transform(view)
    up.PCA().fit(view)


# --- flags of other codes, and responses as factors -----------------------------------


def coded(ill: float, well: float) -> dict[str, pd.DataFrame]:
    """Tables in which the diagnosis has other codes than 1 and 0."""
    made = tables()
    for table in made.values():
        table["ill"] = np.where(table["ill"] > 0, ill, well)
    return made


def by_codes(federation: up.Federation, ill: float, well: float) -> list[float]:
    """Return the products with both flags, from those with one and with the product."""
    view = up.DerivedColumns(DERIVED).fit(federation).transform(federation)
    model = up.PCA().fit(view.select(["treated", *OTHERS, *DERIVED]))
    N, mean = model.n_samples_, model.mean_
    S = (N - 1) * model.get_covariance() + N * np.outer(mean, mean)
    return list((S[0, 3:] - well * S[0, 1:3]) / (ill - well))


# 0 and 1 is who alone of the treated is not ill, as the others are.
CODES = [(2.0, 1.0), (0.0, 1.0), (-1.0, 1.0), (31.0, 30.0)]


@pytest.mark.slow
@pytest.mark.parametrize(("ill", "well"), CODES)
def test_another_code_of_a_flag_is_no_way_round(ill, well):
    here = up.simulate(coded(ill, well), follow=True)
    with pytest.raises(ReleaseRefusedError) as refused:
        by_codes(here, ill, well)
    assert (refused.value.party, refused.value.rule) == ("b", "derived_rows")


@pytest.mark.parametrize(("ill", "well"), CODES)
def test_control_without_a_limit_another_code_gives_the_record(ill, well):
    here = up.simulate(coded(ill, well), policy=OPEN)
    assert_allclose(by_codes(here, ill, well), RECORD, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["poisson", "binomial"])
def test_the_first_step_of_a_regression_is_no_product_with_the_response(family):
    """With the mean of all rows for weights it is the covariance of the predictors."""
    here = up.simulate(tables(), follow=True)
    opened, honest = list[tuple[str, dict[str, Any]]](), here.coordinator.run_step

    def run_step(call: Any) -> dict[str, Any]:
        opened.append((call.step.name, honest(call)))
        return opened[-1][1]

    here.coordinator.run_step = run_step
    up.GLM(family).fit(here.select(["treated", "age", "ill"]), "ill")
    information = next(found["information"] for _, found in opened if len(found) == 5)
    X = pd.concat(tables().values())[["treated", "age", "ill"]].to_numpy()
    Z = (X[:, :2] - X[:, :2].mean(axis=0)) / X[:, :2].std(axis=0)
    Z = np.column_stack([np.ones(len(Z)), Z])
    mean = X[:, 2].mean()
    weight = mean if family == "poisson" else mean * (1.0 - mean)
    assert_allclose(information, weight * Z.T @ Z, atol=1e-9)
