"""The first table of a paper equals tableone's, SciPy's and pandas' of pooled rows."""

import itertools
import math
import re
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.stats
import tableone
from numpy.testing import assert_allclose

import unpooled as up
from line_fields import fields
from unpooled.data import heart_disease
from unpooled.errors import DataError, ReleaseRefusedError
from unpooled.linalg.small_cells import withheld
from unpooled.testing import check_estimator

NUMBERS = ["age", "chol", "oldpeak"]
CATEGORIES = ["sex", "cp"]


@pytest.fixture(scope="module")
def rows():
    """300 rows of two classes, with missing cells, and categories of several sizes."""
    rng = np.random.default_rng(8)
    kind = rng.integers(0, 2, 300)
    frame = pd.DataFrame(
        {
            "age": rng.integers(30, 80, 300) + 3.0 * kind,
            "chol": np.exp(5.5 + 0.2 * rng.standard_normal(300)),
            "oldpeak": rng.standard_normal(300) - 0.5 * kind,
            "sex": rng.integers(0, 2, 300).astype(float),
            "cp": rng.choice([1.0, 2.0, 3.0, 7.0], 300, p=[0.4, 0.3, 0.2, 0.1]),
            "kind": kind,
        }
    )
    frame.loc[rng.permutation(300)[:40], "chol"] = np.nan
    frame.loc[rng.permutation(300)[:50], "cp"] = np.nan
    return frame


def silos(frame, label: str | None = "kind", n=3, **options):
    parts = np.array_split(np.arange(len(frame)), n)
    tables = {f"silo{i}": frame.iloc[own] for i, own in enumerate(parts)}
    return up.simulate(tables, label=label, **options)


@pytest.fixture(scope="module")
def found(rows):
    federation = silos(rows)
    return federation, up.describe(federation, "kind", categorical=CATEGORIES)


@pytest.mark.slow
def test_moments_and_counts_are_those_of_pandas(rows, found):
    model = found[1]
    assert model.groups_ == ["0", "1", "all"]
    groups = [rows[rows.kind == 0], rows[rows.kind == 1], rows]
    for i, group in enumerate(groups):
        own = group[model.columns_]
        assert model.size_[i] == len(own)
        assert_allclose(model.n_[i], own.count())
        assert_allclose(model.n_missing_[i], own.isna().sum())
        number = [model.columns_.index(name) for name in NUMBERS]
        # Sums keep twelve digits.
        assert_allclose(model.mean_[i, number], own[NUMBERS].mean(), rtol=1e-11)
        assert_allclose(model.std_[i, number], own[NUMBERS].std(), rtol=1e-11)
        for k, name in enumerate(CATEGORIES):
            counts = own[name].value_counts().sort_index()
            codes = model.category_codes_[k]
            assert codes[codes >= 0].tolist() == counts.index.tolist()
            assert model.category_counts_[i, k, : len(counts)].tolist() == list(counts)
    assert np.isnan(model.mean_[:, 3:]).all(), "means of categories were shown"


def test_tests_are_scipys(rows, found):
    model = found[1]
    a, b = (rows[rows.kind == k] for k in (0, 1))
    for j, name in enumerate(NUMBERS):
        test = scipy.stats.ttest_ind(
            a[name], b[name], equal_var=False, nan_policy="omit"
        )
        assert_allclose(model.p_value_[j], test.pvalue, rtol=1e-9)
        assert model.tests_[j] == "Welch’s t-test"
    for name in CATEGORIES:
        j = model.columns_.index(name)
        table = pd.crosstab(rows.kind, rows[name])
        wanted = scipy.stats.chi2_contingency(table, correction=False).pvalue
        assert_allclose(model.p_value_[j], wanted, rtol=1e-12)
        assert model.tests_[j] == "chi-squared"


@pytest.mark.slow
def test_is_what_tableone_prints(rows, found):
    """Its table of the pooled rows, to the digits that it prints."""
    with warnings.catch_warnings():
        # It uses what pandas will withdraw.
        warnings.simplefilter("ignore")
        theirs = tableone.TableOne(
            rows,
            columns=NUMBERS + CATEGORIES,
            categorical=CATEGORIES,
            groupby="kind",
            pval=True,
            smd=True,
            decimals=6,
            pval_digits=9,
            include_null=False,
        ).tableone
    theirs.columns = [column[-1] for column in theirs.columns]
    model, frame = found[1], found[1].to_frame()
    first = theirs.groupby(level=0, sort=False).first()
    for j, name in enumerate(model.columns_):
        head = f"{name}, {'n (%)' if name in CATEGORIES else 'mean (SD)'}"
        smd = float(first.loc[head, "SMD (0,1)"])
        # Printed with three digits.
        assert abs(smd - model.smd_[0, j]) <= 0.00051
        # Of two categories it has Yates' correction, which this library leaves out.
        if name != "sex":
            assert abs(float(first.loc[head, "P-Value"]) - model.p_value_[j]) < 1e-6
    for name, (i, group) in itertools.product(NUMBERS, enumerate(["0", "1"])):
        cell = theirs.loc[(f"{name}, mean (SD)", ""), group]
        mean, sd = map(float, cell.rstrip(")").split(" ("))
        row = frame[(frame.column == name) & (frame.group == group)].iloc[0]
        assert abs(row["mean"] - mean) < 1e-6
        assert abs(row["sd"] - sd) < 1e-6
        assert row["missing"] == model.n_missing_[i, model.columns_.index(name)]


def test_quartiles_lie_within_their_brackets(rows, found):
    model = found[1]
    groups = [rows[rows.kind == 0], rows[rows.kind == 1], rows]
    for i, group in enumerate(groups):
        wanted = np.nanquantile(group[NUMBERS], [0.25, 0.5, 0.75], axis=0)
        far = np.abs(model.quartiles_[:, i, :3] - wanted)
        assert (far <= model.quartile_errors_[:, i, :3]).all()
        spread = group[NUMBERS].std().to_numpy()
        assert (model.quartile_errors_[:, i, :3] < spread).all()
    assert np.isnan(model.quartiles_[:, :, 3:]).all()


@pytest.mark.slow
def test_more_classes_are_compared_by_analysis_of_variance(rows):
    three = rows.assign(kind=np.arange(300) % 3)
    model = up.describe(silos(three), categorical=CATEGORIES, quartiles=False)
    groups = [three[three.kind == k].oldpeak for k in range(3)]
    wanted = scipy.stats.f_oneway(*groups).pvalue
    assert_allclose(model.p_value_[2], wanted, rtol=1e-9)
    assert model.pairs_ == [["0", "1"], ["0", "2"], ["1", "2"]]
    assert "quartiles_" not in vars(model)


@pytest.mark.slow
def test_without_a_label_there_is_one_group(rows):
    federation = silos(rows.drop(columns="kind"), label=None)
    model = up.describe(federation, categorical=["sex"], decimals={"age": 0})
    assert model.groups_ == ["all"]
    assert_allclose(model.mean_[0, 0], rows.age.mean())
    assert np.isnan(model.p_value_).all()
    assert "p-value" not in str(model.summary())


@pytest.mark.slow
def test_text_is_counted_by_the_numbers_of_its_names(rows):
    names = np.array(["ward", "hall", "icu"])
    frame = rows[["age", "kind"]].assign(site=names[np.arange(300) % 3])
    encoder = up.ColumnTransformer(
        [(up.OrdinalEncoder(), "categorical")], remainder="passthrough"
    ).fit(silos(frame, categorical=["site"]))
    numbered = encoder.transform(silos(frame, categorical=["site"]))

    found = up.describe(numbered, by="kind", categorical=["site"]).to_frame()

    table = encoder.summary().tables["categories"]
    of_name = dict(
        zip(table.column("category"), table.column("encoded_as"), strict=True)
    )
    assert of_name == {"hall": 0, "icu": 1, "ward": 2}
    of_all = found[(found["column"] == "site") & (found["group"] == "all")]
    assert dict(zip(of_all["category"], of_all["count"], strict=True)) == {
        number: 100 for number in of_name.values()
    }


@pytest.mark.slow
def test_heart_disease_over_four_silos():
    federation = up.simulate(heart_disease.load(), label="num")
    model = up.describe(federation, categorical=["sex", "cp", "slope"])
    pooled = pd.concat(table.to_pandas() for table in heart_disease.load().values())
    j = model.columns_.index("age")
    wanted = pooled.groupby("num").age.mean()
    assert_allclose(model.mean_[:-1, j], wanted, rtol=1e-11)
    small = pooled.groupby("num").cp.apply(lambda x: (x == 1).sum())
    hidden = np.isnan(model.category_counts_[:-1, 1, 0])
    assert hidden[small.between(1, 4)].all()
    assert hidden.sum() >= 2
    # The table says what its dashes are: a terminal does not show the text above it.
    (exhibit,) = model.summary().exhibits
    shown = exhibit.on_pages[0]
    assert any(cell == "–" for row in shown.rows for cell in row)
    assert shown.note.startswith("– stands for what is withheld: counts below 5")
    assert "SMD is the standardised mean difference" in shown.note


@pytest.mark.slow
def test_a_table_without_dashes_does_not_explain_them():
    rows = {name: np.arange(40.0)[:, None] for name in "abc"}
    (exhibit,) = up.describe(up.simulate(rows)).summary().exhibits
    assert not any("–" in table.notes for table in exhibit.tables)


def test_medians_are_printed_with_the_digits_that_they_are_known_to(found):
    model = found[1]
    (exhibit,) = model.summary().exhibits
    shown = exhibit.on_pages[0]
    cells = {row[0]: dict(zip(shown.columns, row, strict=True)) for row in shown.rows}
    shorter = 0
    for name in NUMBERS:
        j = model.columns_.index(name)
        for i, group in enumerate(model.groups_):
            line = cells[f"{name}, median [quartiles]"]
            text = next(t for c, t in line.items() if c.heading.startswith(group))
            printed = re.findall(r"[−\d.]+", text)
            errors = model.quartile_errors_[[1, 0, 2], i, j]
            for number, error in zip(printed, errors, strict=True):
                places = len(number.partition(".")[2])
                # The last digit is the first one of the error, or above it.
                assert places <= max(-math.floor(math.log10(error)), 0), (text, error)
                shorter += len(number.lstrip("−").replace(".", "")) < 4
    assert shorter, "all had four digits"


def test_quartiles_have_no_zeros_at_their_end(found):
    """1 stood as 1.000 beside 1.8, in one cell."""
    (exhibit,) = found[1].summary().exhibits
    shown = [row for row in exhibit.on_pages[0].rows if "quartiles" in row[0]]
    cells = " ".join(str(cell) for row in shown for cell in row[1:])
    assert re.search(r"\d\.\d", cells)
    assert not re.search(r"\.\d*0\b(?! ×)", cells)


def test_the_sign_of_a_difference_is_that_of_the_other_class(rows, found):
    table = found[1].summary().tables["differences"]
    means = rows.groupby("kind").mean()

    assert "Positive where the mean of the other class is the larger one" in table.note
    for column, first, other, smd in table.rows:
        # Those of categories are distances.
        mean = means[column]
        larger = column in CATEGORIES or mean[int(other)] > mean[int(first)]
        assert (smd > 0) == larger
    assert {smd > 0 for *_, smd in table.rows} == {True, False}


def test_forms_for_papers(found):
    model = found[1]
    assert model.to_markdown().startswith("| Column | all (n = 300) |")
    assert "all (n = 300)" in str(model)
    latex = model.to_latex()
    assert latex.startswith(r"\begin{tabular}{lrrr")
    assert r"\%" in latex
    assert "Welch’s t-test" in str(model.summary())
    frame = model.to_frame()
    assert {"column", "category", "group", "mean", "q1", "count", "p"} <= set(frame)


def test_what_leaves_is_the_table(found):
    federation = found[0]
    opened = [
        (line.step.removeprefix("describe."), line.name)
        for line in federation.ledger
        if line.direction == "out" and line.visibility == "summed"
    ]
    assert opened == [
        ("local_names", "cells"),
        ("found_categories", "frequent"),
        *(
            ("found_table", name)
            for name in ("size", "missing", "mean", "variance", "shown_cells")
        ),
        ("found_quartiles", "quartiles"),
        ("found_quartiles", "errors"),
    ]


@pytest.mark.slow
def test_rounds_of_sixty_columns():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((400, 60))
    X[:, 40:] = rng.integers(0, 3, (400, 20))
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(60)])
    frame["kind"] = np.arange(400) % 2
    federation = silos(frame, n=4)
    categorical = [f"x{j}" for j in range(40, 60)]
    brief = up.Describe(categorical=categorical, quartiles=False)
    assert up.plan(brief, federation).rounds <= 8
    assert up.plan(up.Describe(categorical=categorical), federation).rounds <= 20


@pytest.mark.slow
@pytest.mark.parametrize(("quartiles", "most"), [(False, 8), (True, 20)])
def test_rounds_of_sixty_columns_of_which_twenty_are_text(quartiles, most):
    """Names are agreed on first, and a plan cannot know how many there are."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.standard_normal((400, 40))).add_prefix("x")
    texts = [f"t{j}" for j in range(20)]
    for j, name in enumerate(texts):
        frame[name] = rng.choice([f"name {i}" for i in range(2 + j % 5)], 400)
    frame["kind"] = np.arange(400) % 2
    federation = silos(frame, n=4, categorical=texts)
    planned = up.plan(up.Describe(quartiles=quartiles), federation)
    assert planned.rounds <= most
    up.describe(federation, by="kind", quartiles=quartiles)
    assert len({line.round for line in federation.ledger}) <= most


@pytest.mark.slow
def test_silos_follow(rows, found):
    model = up.describe(silos(rows, follow=True), categorical=CATEGORIES)
    assert model.to_frame().equals(found[1].to_frame())


@pytest.mark.slow
def test_mistakes_are_named(rows):
    with pytest.raises(DataError, match="which are no columns"):
        up.describe(silos(rows), categorical=["heart"])
    with pytest.raises(DataError, match="is not the label"):
        up.describe(silos(rows), "age")
    with pytest.raises(ReleaseRefusedError, match="min_rows_per_class"):
        up.describe(silos(rows), min_rows_per_class=4)
    with pytest.raises(ReleaseRefusedError, match="allow_order_statistics"):
        up.describe(silos(rows), min_rows=4)


@pytest.mark.parametrize(
    ("counts", "groups", "lines"),
    [
        # One small count takes a second group with it, and no line of "all".
        ([[50, 3, 40], [50, 60, 30]], [0, 1, 1], [0, 0]),
        # The rest of the two groups would be 3 people, and the third is taken too.
        ([[50, 3, 0], [50, 60, 30]], [1, 1, 1], [0, 0]),
        # A line that is small in all groups is withheld with another.
        ([[0, 3, 0], [50, 60, 30], [9, 9, 9]], [0, 1, 1], [1, 0, 1]),
        ([[5, 5, 0], [50, 60, 30]], [0, 0, 0], [0, 0]),
        # Only empty groups and lines are left to be withheld with what is small.
        ([[3, 0], [0, 0]], [1, 1], [1, 1]),
    ],
)
def test_what_is_withheld(counts, groups, lines):
    found = withheld(np.array(counts, float), 5)
    assert [one.astype(int).tolist() for one in found] == [groups, lines]


def pooled(X, y):
    by = [X[y == k] for k in range(3)]
    return {
        "mean_": np.array([part.mean(axis=0) for part in [*by, X]]),
        "std_": np.array([part.std(axis=0, ddof=1) for part in [*by, X]]),
        "p_value_": scipy.stats.f_oneway(*by).pvalue,
    }


@pytest.mark.parametrize(
    "check",
    check_estimator(
        up.Describe(min_rows_per_class=1), label="kind", pooled=pooled,
        generate_only=True,
    ),
    ids=repr,
)  # fmt: skip
def test_conventions(check):
    check()


@pytest.mark.slow
@pytest.mark.parametrize("values", [(0.0, 1.0), (1.0, 2.0), (-1.0, 1.0), (0.0, 10.0)])
def test_a_mean_of_two_values_does_not_tell_a_small_count(values):
    """Three of the second class have the larger value: n times the mean said so."""
    rng = np.random.default_rng(0)
    kind = np.repeat([0, 1], [200, 100])
    flag = np.where(rng.permutation(200) < 60, *values[::-1])
    flag = np.concatenate([flag, np.where(np.arange(100) < 3, *values[::-1])])
    other = rng.integers(0, 4, 300).astype(float)
    frame = pd.DataFrame({"flag": flag, "other": other, "kind": kind})
    frame = frame.sample(frac=1.0, random_state=1)
    parts = {f"s{i}": frame[i::3] for i in range(3)}
    federation = up.simulate(parts, label="kind", follow=True)

    found = up.describe(federation, "kind", min_rows=10)

    # Both classes: one would follow from the other and all.
    assert np.isnan(found.mean_[:2, 0]).all()
    assert np.isnan(found.quartiles_[:, :2, 0]).all()
    assert np.isnan(found.p_value_[0])
    assert_allclose(found.mean_[2, 0], flag.mean(), rtol=1e-12)
    # Values that are more than two are described as before.
    wanted = [other[kind == k].mean() for k in (0, 1)]
    assert_allclose(found.mean_[:2, 1], wanted, rtol=1e-12)


@pytest.mark.slow
def test_a_mean_of_two_frequent_values_is_shown():
    flag = np.tile([0.0, 1.0, 1.0], 100)
    frame = pd.DataFrame({"flag": flag, "kind": np.repeat([0, 1], 150)})
    parts = {f"s{i}": frame[i::3] for i in range(3)}
    parts = {f"s{i}": frame[i * 100 : (i + 1) * 100] for i in range(3)}
    found = up.describe(up.simulate(parts, label="kind"), "kind")
    assert_allclose(found.mean_[:, 0], 2 / 3, rtol=1e-12)


@pytest.mark.slow
def test_a_mean_over_few_values_is_withheld():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"few": np.nan, "many": rng.normal(size=90)}, index=range(90))
    frame.loc[:7, "few"] = rng.normal(size=8)
    parts = {f"s{i}": frame[i::3] for i in range(3)}
    found = up.describe(up.simulate(parts), min_rows=10)
    assert found.n_[0].tolist() == [8, 90]
    assert np.isnan([found.mean_[0, 0], found.std_[0, 0]]).all()
    assert_allclose(found.mean_[0, 1], frame.many.mean(), rtol=1e-12)


def of_text(n_rows=420):
    """Rows of two classes with three columns of text, missing and rare names."""
    rng = np.random.default_rng(3)
    kind = rng.integers(0, 2, n_rows)
    frame = pd.DataFrame(
        {
            "site": rng.choice(["hall", "icu", "ward", "Ärzte, 2. Stock"], n_rows),
            "age": rng.integers(30, 80, n_rows).astype(float),
            "smoking": np.where(rng.random(n_rows) < 0.4, "never", "now"),
            "blood": rng.choice(["0", "A", "AB", "B"], n_rows, p=[0.4, 0.4, 0.1, 0.1]),
            "kind": kind,
        }
    )
    frame.loc[rng.permutation(n_rows)[:60], "smoking"] = None
    return frame


TEXTS = ["site", "smoking", "blood"]


@pytest.mark.slow
def test_text_is_counted_by_its_names():
    """Also where a silo lacks a name, and beside codes of categories."""
    frame = of_text().sort_values(["site", "kind"], ignore_index=True)
    coded = frame.assign(stage=np.tile([1.0, 2.0, 4.0], 140))
    model = up.describe(
        silos(coded, categorical=TEXTS), categorical=["stage"], quartiles=False
    )
    # Columns of categories are behind those of numbers.
    assert model.columns_ == ["age", "stage", *TEXTS]
    assert model.categorical_ == ["stage", *TEXTS]
    for name in model.categorical_:
        place = model.categorical_.index(name)
        for i, group in enumerate([coded[coded.kind == 0], coded[coded.kind == 1]]):
            wanted = group[name].value_counts().sort_index()
            assert model.categories_[place] == list(wanted.index)
            counts = model.category_counts_[i, place]
            assert counts[: len(wanted)].tolist() == list(wanted)
            assert not counts[len(wanted) :].any()
        j = model.columns_.index(name)
        assert_allclose(model.n_missing_[2, j], coded[name].isna().sum())
        table = pd.crosstab(coded.kind, coded[name])
        wanted = scipy.stats.chi2_contingency(table, correction=False).pvalue
        assert_allclose(model.p_value_[j], wanted, rtol=1e-12)
    assert_allclose(model.mean_[2, 0], coded.age.mean(), rtol=1e-11)
    printed = str(model.summary())
    assert "smoking = never, n (%)" in printed
    assert "site = Ärzte, 2. Stock, n (%)" in printed
    assert "stage = 4, n (%)" in printed


@pytest.mark.slow
@pytest.mark.parametrize("n_names", [3, 20, 64])
def test_as_many_names_as_are_described(n_names):
    rng = np.random.default_rng(n_names)
    name = np.tile(np.arange(n_names), 12)
    # 300 further names of two rows each, both in one silo.
    rare = [f"rare {k // 2}" for k in range(600)] if n_names == 64 else []
    names = [f"name {k}" for k in name] + rare
    frame = pd.DataFrame({"name": names, "x": rng.normal(size=len(names))})
    model = up.describe(
        silos(frame, label=None, categorical=["name"], follow=True), quartiles=False
    )
    assert model.categories_ == [sorted(f"name {k}" for k in range(n_names))]
    assert (model.category_counts_[0, 0, :n_names] == 12).all()
    assert model.category_counts_[0, 0, n_names] == len(rare)


@pytest.mark.slow
def test_more_names_than_are_described_are_refused():
    more = pd.DataFrame({"name": [f"name {k % 1001}" for k in range(10010)], "x": 0.0})
    with pytest.raises(DataError, match="1,001 categories that at least 5 rows have"):
        up.describe(silos(more, label=None, categorical=["name"]), quartiles=False)


@pytest.mark.slow
@pytest.mark.parametrize("per_silo", [True, "classes"])
def test_two_hundred_names_silo_by_silo(per_silo):
    """Each silo has at least five rows of each name in each class."""
    n = 200 * 2 * 5 * 3
    frame = pd.DataFrame({"code": [f"code {k % 200:03}" for k in range(n)]})
    frame["kind"] = np.arange(n) // 200 % 2
    frame["x"] = np.random.default_rng(6).normal(size=n)
    parts = {name: frame.iloc[i * n // 3 :][: n // 3] for i, name in enumerate("abc")}
    federation = up.simulate(
        parts,
        label="kind",
        categorical=["code"],
        policy={"allow_disclosed": True, "max_released_share": 3.0},
    )

    model = up.describe(federation, per_silo=per_silo, quartiles=False)

    names = sorted(frame.code.unique())
    assert model.categories_ == [names]
    for i, own in enumerate(parts.values()):
        if per_silo is True:
            wanted = own.code.value_counts()[names]
            found = model.silo_category_counts_[i, 0, :200]
        else:
            wanted = pd.crosstab(own.kind, own.code)[names]
            found = model.silo_class_category_counts_[i, :2, 0, :200]
        assert (found == wanted.to_numpy()).all()


@pytest.mark.slow
@pytest.mark.parametrize("follow", [False, True])
def test_two_hundred_names_by_class(follow):
    """One silo lacks half of them. Columns of few names and of codes stand beside."""
    rng = np.random.default_rng(4)
    n = 6000
    code = np.array([f"code {k:03}" for k in range(200)])[rng.permutation(n) % 200]
    stage = rng.integers(0, 4, n)
    frame = pd.DataFrame({"code": code, "stage": stage, "kind": rng.integers(0, 2, n)})
    frame["site"] = rng.choice(["north", "south"], n)
    # So many in each class that nothing is withheld.
    frame["kind"] = np.where(np.arange(n) % 3 == 0, 1 - frame.kind, frame.kind)
    last = (np.arange(n) % 4 == 3) & (frame.code < "code 100")
    parts = {"a": frame[~last][::2], "b": frame[~last][1::2], "c": frame[last]}
    federation = up.simulate(
        parts, label="kind", categorical=["code", "site"], follow=follow
    )

    model = up.describe(federation, categorical=["stage"], quartiles=False)

    counts = pd.crosstab(frame.kind, frame.code)
    assert counts.to_numpy().min() >= 5
    k = model.categorical_.index("code")
    assert model.categories_[k] == list(counts.columns)
    assert (model.category_counts_[:2, k, :200] == counts.to_numpy()).all()
    assert model.category_counts_[2, k, :200].tolist() == counts.sum().tolist()
    stages = pd.crosstab(frame.kind, frame.stage).to_numpy()
    sites = pd.crosstab(frame.kind, frame.site).to_numpy()
    for name, table in (("code", counts), ("stage", stages), ("site", sites)):
        k, n_codes = model.categorical_.index(name), table.shape[1]
        assert (model.category_counts_[:2, k, :n_codes] == table).all(axis=None)
        wanted = scipy.stats.chi2_contingency(table, correction=False).pvalue
        found = model.p_value_[model.columns_.index(name)]
        assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.slow
def test_names_that_few_have_are_not_told():
    """Two of "rare" in each of two silos: a name of four people is "other"."""
    frame = of_text()
    for start in (0, 140):
        frame.loc[[start, start + 1], "blood"] = "rare"
    federation = silos(frame, categorical=TEXTS, follow=True)
    model = up.describe(federation, quartiles=False)
    place = model.categorical_.index("blood")
    assert model.categories_[place] == ["0", "A", "AB", "B"]
    assert np.isnan(model.category_counts_[:, place, 4]).all()
    assert np.isnan(model.p_value_[model.columns_.index("blood")])
    opened = set(
        fields(federation.ledger, "step name", direction="out", visibility="summed")
    )
    assert ("describe.local_texts", "names") not in opened
    assert ("describe.found_names", "frequent") in opened


@pytest.fixture
def wards():
    """Three hospitals: three deaths in the first, one rare disease in the second."""
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(rng.standard_normal((180, 4)), columns=list("abcd"))
    frame["died"] = np.isin(np.arange(180), [1, 2, 3, *range(60, 80), *range(120, 150)])
    frame["rare"] = np.isin(np.arange(180), [70, *range(125, 135)]).astype(float)
    return frame


@pytest.mark.slow
def test_small_classes_and_a_rare_disease_of_one_silo_are_described(wards):
    """Counts are judged over all silos, and no products of columns are formed."""
    federation = silos(wards, label="died", follow=True)
    assert not up.plan(up.Describe(), federation).refusals
    model = up.describe(federation)
    every = model.groups_.index("all")
    assert_allclose(model.mean_[every, :4], wards[list("abcd")].mean())
    assert_allclose(model.mean_[1, :4], wards[wards.died][list("abcd")].mean())
    assert up.Histogram(4).fit(silos(wards, label="died")).counts_
    with pytest.raises(ReleaseRefusedError, match="max_leverage"):
        up.PCA(2).fit(silos(wards, label="died"))


@pytest.mark.slow
def test_the_budget_of_a_table_is_of_all_rows(wards):
    """Before, quartiles were refused: three times the smallest silo's rows are few."""
    parts = {"a": wards[:20], "b": wards[20:70], "c": wards[70:]}
    for part in parts.values():
        part.loc[part.index[:4], "died"] = True
    federation = up.simulate(parts, label="died", follow=True)
    assert len(up.describe(federation).quartiles_) == 3


@pytest.mark.slow
def test_columns_of_text_alone_and_a_plan():
    frame = of_text()[[*TEXTS, "kind"]]
    federation = silos(frame, categorical=TEXTS)
    brief = up.Describe(quartiles=False)
    # Names 3; sizes, columns, squares, table.
    assert up.plan(brief, federation).rounds == 7
    model = brief.fit(federation)
    assert max(line.round for line in federation.ledger) == 7
    assert np.isnan(model.mean_).all()
    assert_allclose(model.size_, [*frame.kind.value_counts().sort_index(), 420])
