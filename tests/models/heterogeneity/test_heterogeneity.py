"""How different silos are: the tests of pooled rows with a column of silos."""

import numpy as np
import pandas as pd
import pytest
import scipy.linalg
import scipy.stats
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA

from command_line import call
from unpooled import (
    Heterogeneity,
    Policy,
    heterogeneity,
    load,
    permutation_test,
    plan,
    save,
    simulate,
)
from unpooled.errors import DataError, ReleaseRefusedError
from unpooled.linalg.group_tests import adjusted
from unpooled.results.plots.svg import svg

P = 4
# Differences of sums that are known to twelve digits of their own bounds.
RTOL = 1e-8


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((150, P)) @ rng.standard_normal((P, P))
    return X * [1.0, 10.0, 0.1, 1.0] + [0.0, 1e4, 1.0, -3.0]


def three(X, **options):
    """Return silos of which one lies elsewhere and one is wider, and their rows."""
    moved = X[60:110] + X.std(axis=0) * [0.5, 0, 1, 0]
    parts = [X[:60] * 1.5, moved, X[110:].copy()]
    silos = dict(zip("abc", parts, strict=True))
    return simulate(silos, **options), parts


def standardised(parts):
    X = np.concatenate(parts)
    return [(part - X.mean(axis=0)) / X.std(axis=0, ddof=1) for part in parts]


def assert_tests_equal(model, prefix, groups):
    """Compare with scipy, a column at a time."""
    p = groups[0].shape[1]
    f = [scipy.stats.f_oneway(*(g[:, j] for g in groups)) for j in range(p)]
    name = f"{prefix}f_statistic_"
    assert_allclose(getattr(model, name), [one.statistic for one in f], RTOL)
    assert_allclose(
        getattr(model, f"{prefix}p_value_"), [one.pvalue for one in f], 1e-6
    )
    levene = [
        scipy.stats.levene(*(g[:, j] for g in groups), center="mean") for j in range(p)
    ]
    for name, wanted, rtol in (
        ("spread_f_statistic_", [one.statistic for one in levene], RTOL),
        ("spread_p_value_", [one.pvalue for one in levene], 1e-6),
    ):
        assert_allclose(getattr(model, prefix + name), wanted, rtol)


@pytest.mark.parametrize(
    "split", ["balanced", "skewed", "six", "sorted"], indirect=True
)
def test_equals_scipys_tests_of_pooled_rows(federate, split, rows):
    y = np.arange(len(rows)) % 3
    moved = rows + 0.3 * y[:, None] * rows.std(axis=0)
    parts = [moved[own] for own in split(y)]
    # The fixture puts the same rows into the same silos.
    model = heterogeneity(federate(moved, y), 3)

    assert_tests_equal(model, "", parts)
    Z = standardised(parts)
    pooled = PCA(3).fit(np.concatenate(Z))
    assert_tests_equal(model, "component_", [pooled.transform(part) for part in Z])
    assert_allclose(
        model.component_variance_ratio_, pooled.explained_variance_ratio_, RTOL
    )


def test_all_columns_at_once_equals_determinants(rows, secure_sum):
    federation, parts = three(rows, secure_sum=secure_sum)
    model = heterogeneity(federation)

    X = np.concatenate(parts)
    T = np.cov(X.T) * (len(X) - 1)
    W = sum(np.cov(part.T) * (len(part) - 1) for part in parts)
    wilks = np.linalg.det(W) / np.linalg.det(T)
    assert_allclose(model.wilks_["statistic"], wilks, RTOL)
    pillai = np.trace((T - W) @ np.linalg.inv(T))
    assert_allclose(model.pillai_["statistic"], pillai, RTOL)
    N, m = len(X), len(parts)
    M = (N - m) * np.log(np.linalg.det(W / (N - m))) - sum(
        (len(part) - 1) * np.log(np.linalg.det(np.cov(part.T))) for part in parts
    )
    assert_allclose(model.box_m_["statistic"], M, 1e-7)
    assert model.box_m_["p_value"] < 1e-3
    assert model.wilks_["p_value"] < 1e-3


@pytest.mark.slow
def test_iris_has_the_values_of_r():
    """R 4: summary(manova(...), test=), and heplots::boxM, on iris by species."""
    X, y = load_iris(return_X_y=True)
    model = heterogeneity(simulate({f"silo{c}": X[y == c] for c in range(3)}))

    assert model.wilks_["statistic"] == pytest.approx(0.023439, abs=5e-7)
    assert model.wilks_["approximation"] == pytest.approx(199.15, abs=5e-3)
    assert model.wilks_["dof"] == [8.0, 288.0]
    assert model.pillai_["statistic"] == pytest.approx(1.1919, abs=5e-5)
    assert model.pillai_["approximation"] == pytest.approx(53.466, abs=5e-4)
    assert model.pillai_["dof"] == [8.0, 290.0]
    # Species have 50 flowers each, for which the correction is Box's own.
    assert model.box_m_["approximation"] == pytest.approx(140.94, abs=5e-3)
    assert model.box_m_["dof"] == [20.0]


@pytest.mark.slow
def test_angles_are_what_leaving_the_means_out_costs(rows):
    federation, parts = three(rows)
    model = heterogeneity(federation)

    Z = standardised(parts)
    exact = PCA(4).fit(np.concatenate(Z)).components_
    within = PCA(4).fit(np.concatenate([z - z.mean(axis=0) for z in Z])).components_
    for j in range(3):
        angle = scipy.linalg.subspace_angles(exact[: j + 1].T, within[: j + 1].T)[0]
        assert model.angles_[j] == pytest.approx(np.degrees(angle), rel=1e-6)
    assert model.angles_[3] < 1e-6


@pytest.mark.slow
def test_releases_only_what_the_docstring_says(rows):
    for multivariate in (True, False):
        federation, _ = three(rows)
        model = Heterogeneity(2, multivariate=multivariate)
        planned = plan(model, federation)
        model.fit(federation)
        left = [
            (x.step.removeprefix("heterogeneity."), x.name, x.shape, x.visibility)
            for x in federation.ledger
            if x.direction == "out"
        ]
        pairs, k = ("local_shifts", (P, P)), 2 if multivariate else 1
        matrices = [
            (pairs[0], "scatter", pairs[1], "summed"),
            (pairs[0], "between", pairs[1], "summed"),
            (pairs[0], "logs", (), "summed"),
            (pairs[0], "singular", (), "summed"),
        ]
        columns = [("local_column_shifts", "between", (P,), "summed")]
        assert left == [
            ("local_total", "count", (), "summed"),
            ("local_total", "total", (P,), "summed"),
            ("local_squares", "squares", (P,), "summed"),
            *(matrices if multivariate else columns),
            ("local_distances", "column_total", (P,), "summed"),
            ("local_distances", "column_squares", (P,), "summed"),
            ("local_distances", "axis_total", (k,), "summed"),
            ("local_distances", "axis_squares", (k,), "summed"),
            ("local_spread_shifts", "column", (P,), "summed"),
            ("local_spread_shifts", "axis", (k,), "summed"),
        ]
        lines = [x for x in planned.releases if x.direction == "out"]
        assert [x.name for x in lines] == [one[1] for one in left]
        assert planned.refusals == ()


@pytest.mark.slow
def test_without_matrices_columns_are_the_same(rows):
    whole, columns = (
        heterogeneity(three(rows)[0], multivariate=choice) for choice in (True, False)
    )
    for name in ("eta_squared_", "p_adjusted_", "spread_p_value_"):
        assert_allclose(getattr(columns, name), getattr(whole, name), 1e-9)
    assert not hasattr(columns, "wilks_")
    assert columns.table().num_rows == P


@pytest.mark.slow
def test_units_and_order_change_nothing(rows):
    federation, parts = three(rows)
    units = np.array([1e-6, 1.0, 1e6, -3.0])
    turned = {name: part * units for name, part in zip("cba", parts, strict=True)}
    one, other = heterogeneity(federation), heterogeneity(simulate(turned))
    for name in ("eta_squared_", "component_eta_squared_", "spread_f_statistic_"):
        assert_allclose(getattr(other, name), getattr(one, name), 1e-7)
    assert_allclose(other.box_m_["statistic"], one.box_m_["statistic"], 1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("follow", [False, True])
def test_permutations_are_those_of_a_permutation_test(rows, follow):
    options = {"policy": {"allow_disclosed": True}, "random_state": 4}
    federation, _ = three(rows, follow=follow, **options)
    model = heterogeneity(federation, 2, permutations=49)

    test = permutation_test(Heterogeneity(), three(rows, **options)[0],
                            n_permutations=49)  # fmt: skip
    found = model.permutation_
    assert found["exceeding"] == test.exceeding_[0]
    assert found["p_value"] == test.p_value_[0] < 0.05
    assert_allclose(found["statistic"], model.pillai_["statistic"], RTOL)
    assert_allclose(found["reference"], test.reference_[0], RTOL)
    # Another seed deals other groups, and the test of the same silos is the same.
    other = heterogeneity(three(rows, **options)[0], permutations=49, random_state=5)
    assert other.permutation_["reference"] != found["reference"]
    assert other.permutation_["statistic"] == pytest.approx(found["statistic"])
    assert not hasattr(heterogeneity(federation), "permutation_")
    exhibit = model.summary().exhibits[3]
    assert exhibit.heading == "All columns at once, by permutations"
    assert exhibit.tables[0].rows[0][1:] == (
        *(found["statistic"], found["reference"], found["exceeding"]),
        found["p_value"],
    )


@pytest.mark.slow
def test_what_leaves_for_permutations(rows):
    federation, _ = three(rows, policy={"allow_disclosed": True})
    model = Heterogeneity(2, permutations=19)
    planned = plan(model, federation)
    before = plan(Heterogeneity(2), federation).rounds
    model.fit(federation)
    assert planned.rounds == before + 3
    for lines in (federation.ledger, planned.releases):
        left = [
            (x.step.removeprefix("heterogeneity."), x.name, x.shape, x.visibility)
            for x in lines
            if x.direction == "out"
        ]
        for one in (
            ("own_size", "size", (), "disclosed"),
            ("local_dealt_rows", "products", (19, P, 3), "veiled"),
            ("local_dealt_rows", "observed", (), "veiled"),
            ("found_differences", "exceeding", (1,), "summed"),
        ):
            assert one in left


@pytest.mark.parametrize(
    ("options", "policy", "says"),
    [
        ({"permutations": 49}, {}, "allow_disclosed"),
        ({"permutations": 18}, {"allow_disclosed": True}, "permutations=18"),
        ({"permutations": True}, {"allow_disclosed": True}, "permutations=True"),
        (
            {"permutations": 49, "multivariate": False},
            {"allow_disclosed": True},
            "leave multivariate",
        ),
    ],
)
def test_permutations_are_refused(rows, options, policy, says):
    with pytest.raises((DataError, ReleaseRefusedError), match=says):
        heterogeneity(three(rows, policy=policy)[0], **options)


STUDY = """
[study]
name = "sites"
columns = ["age", "chol", "thal", "oldpeak"]
random_state = 1
[policy]
allow_disclosed = true
[[steps]]
model = "Heterogeneity"
permutations = 49
"""


@pytest.mark.slow
def test_a_study_has_permutations_in_report_and_files(rows, tmp_path):
    text = STUDY
    for name, part in zip("abc", three(rows)[1], strict=True):
        frame = pd.DataFrame(part, columns=["age", "chol", "thal", "oldpeak"])
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
        text += f'[parties.{name}]\nsource = "{name}.csv"\n'
    (tmp_path / "study.toml").write_text(text)
    for command in ("plan", "run"):
        result = call(command, str(tmp_path / "study.toml"))
        assert (result.exit_code, result.stderr) == (0, "")
    [file] = (tmp_path / "runs").rglob("permutations.csv")
    [row] = pd.read_csv(file).to_dict("records")
    assert row["p_value"] == (1 + row["exceeding"]) / 50
    report = (tmp_path / "runs" / "sites" / "report.html").read_text()
    assert "All columns at once, by permutations" in report


@pytest.mark.slow
def test_silos_alike_are_not_told_apart():
    X = np.random.default_rng(5).standard_normal((600, 3))
    model = heterogeneity(simulate({f"silo{i}": X[i::4] for i in range(4)}))
    # The seed is fixed, so this is no matter of luck.
    assert model.p_adjusted_.min() > 0.05
    assert min(model.wilks_["p_value"], model.box_m_["p_value"]) > 0.05
    assert model.eta_squared_.max() < 0.02


@pytest.mark.slow
def test_constant_and_collinear_columns(rows):
    _, parts = three(rows)
    with_constant = [np.column_stack([part, np.ones(len(part))]) for part in parts]
    silos = dict(zip("abc", with_constant, strict=True))
    with pytest.raises(DataError, match="constant or collinear"):
        heterogeneity(simulate(silos))
    columns = heterogeneity(simulate(silos), multivariate=False)
    assert np.isnan(columns.f_statistic_).tolist() == [False] * P + [True]
    assert "nan" in str(columns)
    # Constant in one silo alone: nothing can be said of its own covariance.
    parts[2][:, 1] = 1e4
    model = heterogeneity(simulate(dict(zip("abc", parts, strict=True))))
    assert model.box_m_ is None
    assert model.wilks_["p_value"] < 1.0


@pytest.mark.slow
def test_table_figure_files_and_report(rows, tmp_path):
    frames = {
        name: pd.DataFrame(part, columns=["age", "chol", "thal", "a_b$c$"])
        for name, part in zip("abc", three(rows)[1], strict=True)
    }
    federation = simulate(frames)
    model = heterogeneity(federation, 2)
    table = model.table().to_pandas()
    assert table["what"].tolist()[-3:] == ["a_b$c$", "component 1", "component 2"]
    assert_allclose(table["share"][:P], model.eta_squared_)
    assert str(model).splitlines()[0] == "3 silos, 150 rows"
    texts = [one.get_text() for one in model.figure().axes[0].get_yticklabels()]
    order = np.argsort(-model.eta_squared_)
    assert texts == [model.columns_[j] for j in order]
    save(model, tmp_path / "sites.unpooled")
    assert load(tmp_path / "sites.unpooled").wilks_ == model.wilks_

    shown = {exhibit.heading: exhibit for exhibit in model.summary().exhibits}
    picture = shown["Differences between silos"].picture
    assert picture is not None
    assert ">chol<" in svg(picture, "picture")
    assert len(shown["Site effects by component"].tables[0].rows) == 2
    assert len(shown["All columns at once"].tables[0].rows) == 3


@pytest.mark.parametrize(
    ("silos", "options", "says"),
    [
        (1, {}, "two are needed"),
        (3, {"n_components": 5}, "n_components=5"),
        pytest.param(75, {}, "nothing is left to compare", marks=pytest.mark.slow),
    ],
)
def test_what_cannot_be_tested_is_refused(rows, silos, options, says):
    X = rows[:77]
    parts = {f"silo{i}": X[i::silos] for i in range(silos)}
    with pytest.raises(DataError, match=says):
        heterogeneity(simulate(parts, policy=Policy.open()), **options)


def test_missing_cells_are_named(rows):
    X = rows.copy()
    X[3, 1] = np.nan
    with pytest.raises(DataError, match="missing_values"):
        heterogeneity(three(X)[0])


def test_blocks_of_rows_add_up(rows, tmp_path):
    _, parts = three(rows)
    paths = {}
    for name, part in zip("abc", parts, strict=True):
        paths[name] = tmp_path / f"{name}.parquet"
        frame = pd.DataFrame(part, columns=list("wxyz"))
        frame.to_parquet(paths[name], row_group_size=17)
    ours = heterogeneity(simulate(paths))
    assert_tests_equal(ours, "", parts)


def test_holms_procedure():
    p = np.array([0.01, np.nan, 0.04, 0.03])
    assert_allclose(adjusted(p), [0.03, np.nan, 0.06, 0.06])
