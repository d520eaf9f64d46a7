"""Attacks on one person by a direction of the columns that this person carries.

A covariance tells that person's record: the coordinator needs no made-up column, only a
difference of two of the silos' own. Each attack stands beside a control, the same one
where the silos have no limit.
"""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import unpooled as up
from attacks import PERSON, marked, tables_of
from unpooled.arrays import Array
from unpooled.errors import ReleaseRefusedError
from unpooled.party.rules import leverage

TABLES = tables_of("abc")
OPEN = {"max_leverage": 1.0}


def changed(column: Array) -> dict[str, Array]:
    """Put a column in the place of x0, the same in every silo but for b's person."""
    tables = {name: X.copy() for name, X in TABLES.items()}
    for name, X in tables.items():
        X[:, 0] = column
        X[PERSON, 0] = column[PERSON] + float(name == "b")
    return tables


def category_of_one() -> dict[str, Array]:
    """One patient of b has the diagnosis x0, and nobody else."""
    return changed(np.zeros(30))


def twins_up_to_scale() -> dict[str, Array]:
    """x1 is x0 in other units, but for one reading that was corrected in one column."""
    tables = {name: X.copy() for name, X in TABLES.items()}
    for X in tables.values():
        X[:, 1] = 1000.0 * X[:, 0] + 7.0
    tables["b"][PERSON, 1] += 0.01
    return tables


def products(
    tables: dict[str, Array], policy: dict[str, float] | None, follow: bool
) -> Array:
    """Return the scatter about zero, from an ordinary fit of all components."""
    model = up.PCA().fit(up.simulate(tables, policy=policy, follow=follow))
    axes, variance, mean = (
        model.components_,
        model.explained_variance_,
        model.mean_,
    )
    N = model.n_samples_
    return axes.T @ np.diag((N - 1) * variance) @ axes + N * np.outer(mean, mean)


def record(
    tables: dict[str, Array],
    policy: dict[str, float] | None = None,
    follow: bool = False,
) -> Array:
    """Return the person's record from the one direction that it carries."""
    S = products(tables, policy, follow)
    if tables["b"][0, 1] == tables["b"][0, 0]:
        return S[1] - S[0]
    if not tables["b"][0, 0]:
        return S[0]
    total = sum(X.sum(axis=0) for X in tables.values())
    return (S[1] - 1000.0 * S[0] - 7.0 * total) / 0.01


ATTACKS = {
    "two columns that differ in one person": marked(TABLES),
    "a category of one person": category_of_one(),
    "a column in two units, corrected in one": twins_up_to_scale(),
}


@pytest.mark.thinned(1)
@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("tables", ATTACKS.values(), ids=ATTACKS.keys())
def test_a_covariance_does_not_show_the_person_who_carries_a_direction(tables, follow):
    with pytest.raises(ReleaseRefusedError) as refused:
        record(tables, follow=follow)
    assert (refused.value.party, refused.value.rule) == ("b", "max_leverage")


@pytest.mark.thinned(1)
@pytest.mark.parametrize("tables", ATTACKS.values(), ids=ATTACKS.keys())
def test_nor_where_silos_judge_by_the_scatter_itself(tables, monkeypatch):
    monkeypatch.setattr(leverage, "_LEAST_WORK", 0)
    with pytest.raises(ReleaseRefusedError) as refused:
        record(tables)
    assert (refused.value.party, refused.value.rule) == ("b", "max_leverage")


@pytest.mark.parametrize("tables", ATTACKS.values(), ids=ATTACKS.keys())
def test_control_without_a_limit_a_covariance_shows_the_person(tables):
    assert_allclose(record(tables, OPEN), tables["b"][PERSON], rtol=1e-2)


def labelled(tables: dict[str, Array]) -> dict[str, Array]:
    """Append a column of zeros and ones, which no column predicts."""
    return {
        name: np.column_stack([X, np.arange(len(X)) // 2 % 2])
        for name, X in tables.items()
    }


REGRESSIONS = {
    "gaussian": (up.GLM(), "x2"),
    "binomial": (up.GLM("binomial"), "x3"),
    "own intercepts": (up.GLM("binomial", site_effects=True), "x3"),
    "logistic": (up.LogisticRegression(C=1.0), None),
    "logistic, own intercepts": (up.LogisticRegression(site_effects=True), None),
    "one shot": (up.CCA(1, solver="dgep-eigh", ridge=0.1), ["x1", "x2"]),
}


def by_regression(model: Any, y: Any, tables: dict[str, Array], **options: Any) -> Any:
    label = None if y else "x3"
    federation = up.simulate(labelled(tables), label=label, **options)
    columns = ["x0", "x1", "x2"] if y != "x3" else ["x0", "x1", "x2", "x3"]
    return model.fit(federation.select(columns), y)


@pytest.mark.thinned(6)
@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize(("model", "y"), REGRESSIONS.values(), ids=REGRESSIONS.keys())
def test_an_information_matrix_is_of_pairs_of_columns_too(model, y, follow):
    policy = {"allow_disclosed": True}
    with pytest.raises(ReleaseRefusedError) as refused:
        by_regression(model, y, category_of_one(), policy=policy, follow=follow)
    assert (refused.value.party, refused.value.rule) == ("b", "max_leverage")


@pytest.mark.thinned(1)
@pytest.mark.parametrize(("model", "y"), REGRESSIONS.values(), ids=REGRESSIONS.keys())
def test_nor_is_one_of_more_columns_than_the_rows_allow(model, y):
    few = {name: X[:11] for name, X in TABLES.items()}
    policy = {"max_feature_ratio": 0.2, "allow_disclosed": True}
    with pytest.raises(ReleaseRefusedError, match="max_feature_ratio"):
        by_regression(model, y, few, policy=policy)


def test_control_without_a_limit_an_information_matrix_shows_the_person():
    tables = category_of_one()
    model = by_regression(up.GLM(), "x2", tables, policy=OPEN)
    information = np.linalg.inv(model.covariance_) * model.dispersion_
    assert_allclose(information[1], [1.0, *tables["b"][PERSON, :2]], rtol=1e-2)


def images() -> dict[str, Array]:
    """Images in three silos; one of b has a pixel lit that no other image has."""
    rng = np.random.default_rng(5)
    tables = {
        name: rng.integers(0, 256, (400, 49)).astype(float) * (rng.random(49) < 0.8)
        for name in "abc"
    }
    for name, X in tables.items():
        X[:, 0] = 0.0
        X[PERSON, 0] = 9.0 * (name == "b")
    return tables


@pytest.mark.thinned(1)
@pytest.mark.parametrize(
    "model",
    [up.PCA(3), up.PCA(3, svd_solver="krylov"), up.LinearDiscriminantAnalysis()],
)
def test_a_pixel_that_is_lit_once_does_not_show_its_image(model):
    tables = images()
    y = {name: np.arange(400) % 2 for name in tables}
    labelled = {name: np.column_stack([X, y[name]]) for name, X in tables.items()}
    federation = up.simulate(labelled, label="x49")
    with pytest.raises(ReleaseRefusedError, match="max_leverage"):
        model.fit(federation, y="x49")


@pytest.mark.slow
def test_a_scale_or_a_selection_hides_no_direction():
    federation = up.simulate(marked(TABLES))
    scaled = up.StandardScaler().fit(federation).transform(federation)
    for view in (scaled, scaled.select(["x1", "x0"])):
        with pytest.raises(ReleaseRefusedError, match="max_leverage"):
            up.PCA().fit(view)
    up.PCA().fit(scaled.select(["x1", "x2"]))


def test_a_plan_tells_the_rule_and_not_the_columns(caplog):
    federation = up.simulate(marked(TABLES))
    with caplog.at_level("INFO", "unpooled.party"):
        plan = up.plan(up.PCA(), federation)
    assert "max_leverage" in str(plan)
    assert "x0" not in str(plan).partition("max_leverage")[2]
    # The columns are in the log of the silo, which is in the same process here.
    assert "x1, x0" in caplog.text or "x0, x1" in caplog.text


def standing_out(column: int = 0) -> dict[str, Array]:
    """One row of b has a leverage of some 0.8."""
    tables = {name: X.copy() for name, X in TABLES.items()}
    tables["b"][PERSON, column] = 10.0
    return tables


@pytest.mark.slow
@pytest.mark.parametrize("by_scatter", [False, True])
def test_plan_and_report_warn_of_a_row_that_carries_half_of_a_direction(
    by_scatter, monkeypatch, tmp_path
):
    if by_scatter:
        monkeypatch.setattr(leverage, "_LEAST_WORK", 0)
    federation = up.simulate(standing_out())
    plan = up.plan(up.PCA(), federation)
    assert (
        "In b one row carries half or more of a direction of the columns 'x0'"
        in str(plan)
    )
    model = up.PCA().fit(federation)
    page = up.report(model, federation, tmp_path / "report.html").read_text("utf-8")
    assert "One person stands out in some columns" in page
    assert "One person" not in up.report(
        up.PCA().fit(others := up.simulate(TABLES)), others, tmp_path / "other.html"
    ).read_text("utf-8")


def test_between_organisations_a_plan_names_such_columns_where_a_policy_allows_it():
    for allowed in (False, True):
        federation = up.simulate(
            standing_out(), policy={"allow_disclosed": allowed, "max_leverage": 0.9}
        )
        # As of silos elsewhere.
        vars(federation.coordinator)["simulated_carried"] = dict
        said = "one row carries half" in str(up.plan(up.PCA(), federation))
        assert said == allowed


# --- more columns than rows -----------------------------------------------------------


def wide_tables() -> dict[str, Array]:
    """Tables with more columns than rows; one patient of b alone has x0."""
    rng = np.random.default_rng(0)
    tables = {}
    for name in "abcdef":
        X = rng.normal(size=(60, 8)) @ rng.normal(size=(8, 62))
        X[:, 0] = 0.0
        tables[name] = X + 0.3 * rng.normal(size=X.shape) * (np.arange(62) > 0)
    tables["b"][PERSON, 0] = 1.0
    return tables


def along_directions(tables: dict[str, Array], **options: Any) -> Array:
    """Return the row of x0 in all products with blocks of directions, solved."""
    federation = up.simulate(tables, **options)
    rows, directions = list[Array](), list[Array]()
    honest = federation.coordinator.run_step

    def run_step(call: Any) -> dict[str, Array]:
        totals = honest(call)
        if "image" in totals:
            rows.append(totals["image"][0])
            directions.append(call.public["V"])
        return totals

    federation.coordinator.run_step = run_step
    mean = up.PCA(12, svd_solver="krylov", random_state=0).fit(federation).mean_
    V, image = np.hstack(directions), np.concatenate(rows)
    return mean + np.linalg.lstsq(V.T, image)[0]


@pytest.mark.thinned(1)
@pytest.mark.parametrize("follow", [False, True])
def test_directions_of_many_columns_do_not_show_who_has_a_rare_one(follow):
    with pytest.raises(ReleaseRefusedError) as refused:
        along_directions(wide_tables(), follow=follow)
    assert (refused.value.party, refused.value.rule) == ("b", "max_leverage")


def test_control_without_a_limit_they_do():
    tables = wide_tables()
    found = along_directions(tables, policy=OPEN)
    assert_allclose(found, tables["b"][PERSON], atol=1e-9)


@pytest.mark.slow
def test_many_columns_that_two_patients_have_are_answered():
    tables = wide_tables()
    for X in tables.values():
        X[:2, 0] = 1.0
    tables["b"][PERSON, 0] = 0.0
    along_directions(tables, follow=True)
