"""First tables by class on column partitions: those of rows, of the joined table."""

import csv
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.stats
import tableone
from numpy.testing import assert_allclose
from typer.testing import CliRunner

import unpooled as up
from unpooled.cli import app
from unpooled.errors import DataError, ReleaseRefusedError

N = 300
KNOWS = {"allow_disclosed": True, "allow_row_level": "parties"}
OF = {"clinic": ["age", "sex"], "lab": ["chol", "rare", "ulcer"], "tax": ["income"]}
NUMBERS = ["age", "chol", "income", "ulcer"]


@pytest.fixture(scope="module")
def joined():
    """Missing cells in chol; a small count of them in income; a rare value in rare."""
    rng = np.random.default_rng(11)
    kind = rng.choice(["a", "b", "c"], N, p=[0.5, 0.3, 0.2])
    frame = pd.DataFrame(
        {
            "age": rng.integers(30, 80, N) + 4.0 * (kind == "b"),
            "sex": rng.choice(["f", "m"], N).astype(object),
            "chol": np.exp(5.5 + 0.2 * rng.standard_normal(N)),
            "rare": rng.choice([0.0, 1.0, 2.0], N),
            "ulcer": (rng.random(N) < 0.3).astype(float),
            "income": rng.lognormal(10, 0.5, N),
            "kind": kind,
        }
    )
    frame.loc[rng.permutation(N)[:90], "chol"] = np.nan
    frame.loc[frame.index[frame.kind == "a"][:3], "income"] = np.nan
    frame.loc[frame.index[frame.kind == "b"][:9], "income"] = np.nan
    frame.loc[frame.index[frame.kind == "c"][0], "rare"] = 3.0
    # Two rows in each of two silos, where there is a silo for every third row.
    frame.loc[[0, 1, 3, 4], "sex"] = "x"
    return frame


def parts_of(joined, labelled=("lab",)):
    return {
        silo: joined[[*columns, *(["kind"] if silo in labelled else [])]]
        for silo, columns in OF.items()
    }


def federation_of(joined, labelled=("lab",), **options):
    options = {"policy": KNOWS, "label": "kind", "categorical": ["sex"]} | options
    parts = parts_of(joined, labelled)
    return up.simulate(parts, partition="columns", aligned=True, **options)


@pytest.mark.slow
@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("labelled", [("lab",), ("lab", "tax"), tuple(OF)], ids=str)
def test_the_table_is_that_of_the_joined_rows(joined, labelled, follow):
    federation = federation_of(joined, labelled, follow=follow)
    model = up.describe(federation, "kind")
    out = [line for line in federation.ledger if line.direction == "out"]
    sent = {(line.step, line.name, line.visibility) for line in out}
    names = {("describe.held_names", "cells", "summed")}
    members = {("describe.held_classes", "members", "veiled")}
    kept = {one for one in sent if one[2] == "kept"}
    assert sent - kept == (names if labelled == tuple(OF) else names | members)

    # The same rows over silos, of which each has all columns.
    rows = up.simulate(
        {f"s{i}": joined.iloc[i::3] for i in range(3)},
        label="kind",
        categorical=["sex"],
    )
    wanted = up.describe(rows, "kind", quartiles=False)

    order = [wanted.columns_.index(name) for name in model.columns_]
    shown = np.array([name != "rare" for name in model.columns_])
    assert model.groups_ == wanted.groups_ == ["a", "b", "c", "all"]
    assert_allclose(model.size_, wanted.size_)
    for name in ("n_", "n_missing_", "mean_", "std_"):
        own, theirs = getattr(model, name), getattr(wanted, name)[:, order]
        assert_allclose(own[:, shown], theirs[:, shown], rtol=1e-11)
        assert np.isnan(own[:, ~shown]).all(), "one value of rare has a single row"
    assert_allclose(model.category_counts_, wanted.category_counts_)
    assert model.categories_ == [[1, 2]]
    tested = np.array(wanted.tests_, dtype=object)[order]
    assert [t for t, s in zip(model.tests_, shown, strict=True) if s] == [
        t for t, s in zip(tested, shown, strict=True) if s
    ]
    assert_allclose(model.p_value_[shown], wanted.p_value_[order][shown], rtol=1e-9)
    assert_allclose(model.smd_[:, shown], wanted.smd_[:, order][:, shown], rtol=1e-9)
    income = model.columns_.index("income")
    assert np.isnan(model.n_missing_[0, income]), "three cells of class a"
    assert np.isnan(model.n_missing_[:3, income]).sum() >= 2, "they would follow"
    assert np.isnan(model.p_value_[income])
    text = str(model)
    assert "chol, mean (SD)" in text
    assert "sex = 1, n (%)" in text
    assert "1, 2, ... are the first, the second" in text.replace("\n", " ")
    assert "chi-squared" not in text, "counts of x are withheld"
    assert not hasattr(model, "quartiles_")


@pytest.mark.slow
def test_tests_and_differences_are_scipys_and_tableones(joined):
    model = up.describe(federation_of(joined), "kind")
    groups = [joined[joined.kind == one] for one in "abc"]
    for name in ("age", "chol"):
        j = model.columns_.index(name)
        test = scipy.stats.f_oneway(*(group[name].dropna() for group in groups))
        assert_allclose(model.p_value_[j], test.pvalue, rtol=1e-9)
    with warnings.catch_warnings():
        # It uses what pandas will withdraw.
        warnings.simplefilter("ignore")
        theirs = tableone.TableOne(
            joined[["age", "chol", "kind"]],
            columns=["age", "chol"],
            groupby="kind",
            pval=True,
            smd=True,
            decimals=6,
            pval_digits=9,
        ).tableone
    theirs.columns = [column[-1] for column in theirs.columns]
    first = theirs.groupby(level=0, sort=False).first()
    for name in ("age", "chol"):
        j, line = model.columns_.index(name), first.loc[f"{name}, mean (SD)"]
        for i, (a, b) in enumerate(model.pairs_):
            printed = line[f"SMD ({a},{b})"]
            # Printed with three digits.
            assert abs(float(printed) - model.smd_[i, j]) <= 0.00051
        assert abs(float(line["P-Value"]) - model.p_value_[j]) < 1e-6


@pytest.mark.slow
def test_who_learns_classes_must_be_allowed(joined):
    refused = {
        "allow_row_level": {"allow_disclosed": True},
        "allow_disclosed": {"allow_row_level": "parties"},
    }
    for rule, policy in refused.items():
        with pytest.raises(ReleaseRefusedError, match=rule):
            up.describe(federation_of(joined, policy=policy), "kind")
    # Where all have the label, nobody's class leaves.
    own = federation_of(joined, tuple(OF), policy={"allow_disclosed": True})
    assert up.describe(own, "kind").mean_.shape == (4, 6)


@pytest.mark.slow
def test_correlations_of_the_same_columns_are_answered_after_it(joined):
    """What was sent about people is the label, which is none of these columns."""
    parts = {name: joined[[name]] for name in ("age", "ulcer", "rare")}
    parts["age"] = parts["age"].assign(kind=joined.kind)
    federation = up.simulate(
        parts, partition="columns", aligned=True, label="kind", policy=KNOWS
    )
    up.describe(federation, "kind")
    found = up.Correlation().fit(federation).correlation_
    wanted = joined[["age", "ulcer", "rare"]].corr()
    assert_allclose(found, wanted, atol=1e-9)


def test_labels_that_differ_are_refused_by_name(joined):
    parts = parts_of(joined, ("lab", "tax"))
    parts["tax"] = parts["tax"].assign(kind=np.roll(joined.kind, 1))
    federation = up.simulate(
        parts,
        partition="columns",
        aligned=True,
        label="kind",
        policy=KNOWS,
        categorical=["sex"],
    )
    with pytest.raises(DataError, match="different classes for the same people"):
        up.describe(federation, "kind")


def test_what_is_for_rows_and_what_is_no_label_is_named(joined):
    federation = federation_of(joined)
    with pytest.raises(DataError, match="is not the label"):
        up.describe(federation, "age")
    with pytest.raises(DataError, match="Leave per_silo and categorical out"):
        up.describe(federation, "kind", per_silo=True)
    with pytest.raises(DataError, match="Describe before folds"):
        up.describe(federation.folds(3)[0][0], "kind")


def test_two_tables_that_withhold_different_counts_are_refused(joined):
    federation = federation_of(joined)
    assert up.describe(federation, "kind").mean_.shape == (4, 6)
    for options in ({}, {"by": "kind", "min_rows_per_class": 6}):
        with pytest.raises(ReleaseRefusedError, match="one_description"):
            _ = up.Describe(**options).fit(federation).mean_
    # The same table again is no other one.
    assert up.describe(federation, "kind").mean_.shape == (4, 6)


@pytest.mark.slow
def test_tables_by_two_labels_are_refused_in_silos_without_either(joined):
    """Their classes may differ in few people, whose counts would follow."""
    federation = federation_of(joined)
    assert up.describe(federation, "kind").mean_.shape == (4, 6)
    later = up.describe(federation, "kind")
    assert later._silos is not None
    later._silos.label = "other"
    with pytest.raises(ReleaseRefusedError, match="one_description"):
        _ = later.mean_


@pytest.mark.slow
def test_a_study_writes_each_silos_own_table(joined, tmp_path):
    out, study = tmp_path / "run", tmp_path / "study.toml"
    text = '[study]\nname = "first"\npartition = "columns"\naligned = true\n'
    text += 'label = "kind"\ncategorical = ["sex"]\n'
    text += '[policy]\nallow_disclosed = true\nallow_row_level = "parties"\n'
    text += '[[steps]]\nmodel = "Describe"\nby = "kind"\n'
    text += 'disclose = ["mean_", "p_value_"]\n'
    for name, part in parts_of(joined).items():
        part.to_csv(tmp_path / f"{name}.csv", index=False)
        text += f'[parties.{name}]\nsource = "{name}.csv"\n'
    study.write_text(text)
    commands = (["plan", study], ["run", study, "--out", out], ["resume", out])
    for command in (*commands, ["report", out], ["results", out]):
        done = CliRunner().invoke(app, [str(part) for part in command])
        assert done.exit_code == 0, done.output
        assert not done.stderr
    assert "chol, mean (SD)" in (out / "report.html").read_text("utf-8")
    groups = [joined[joined.kind == one] for one in "abc"]

    rows = read(out, "lab", "describe_class_median.csv")
    for row in rows:
        wanted = [group[row["column"]].median() for group in groups]
        own = [float(row[f"class_{k}"]) for k in (1, 2, 3)]
        assert_allclose(own, wanted, rtol=1e-13)
    counts = read(out, "clinic", "describe_class_category_counts.csv")
    table = pd.crosstab(joined.sex, joined.kind)
    for row in counts:
        own = [int(row[f"class_{k}"]) for k in (1, 2, 3)]
        assert own == table.loc[row["category"]].tolist()
        assert int(row["rows"]) == sum(own)
    (p_value,) = (
        float(row["value"])
        for row in read(out, "clinic", "describe_p_value.csv")
        if row["column"] == "sex"
    )
    # For the silo's own people "x" is infrequent too.
    merged = joined.sex.replace("x", "other")
    wanted = scipy.stats.chi2_contingency(pd.crosstab(joined.kind, merged))
    assert_allclose(p_value, wanted.pvalue, rtol=1e-9)


def read(out, silo, name):
    (path,) = (out / "silos" / silo).rglob(name)
    with path.open(encoding="utf-8") as lines:
        return list(csv.DictReader(lines))
