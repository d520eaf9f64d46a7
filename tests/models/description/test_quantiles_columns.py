"""Quantiles on column partitions: each silo's own columns, and what it shows."""

import csv

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import unpooled as up
from federations import federation_of
from line_fields import fields
from unpooled.errors import DataError, ReleaseRefusedError
from unpooled.models.description.quantiles import own_quantiles
from unpooled.testing import check_estimator, check_step

N = 120
Q = [0.1, 0.25, 0.5, 0.75, 0.9]
SHOWS = {"allow_disclosed": True}
SORTED = {**SHOWS, "allow_order_statistics": True}


@pytest.fixture(scope="module")
def parts():
    """Return columns of several shapes: b has missing cells, e ties, f few values."""
    rng = np.random.default_rng(5)
    rows = rng.normal(10.0, 3.0, (N, 6))
    rows[:30, 1] = np.nan
    rows[:, 3] = np.exp(rows[:, 3])
    rows[:, 4] = rng.integers(0, 4, N)
    rows[12:, 5] = np.nan
    whole = pd.DataFrame(rows, columns=list("abcdef"))
    return {n: whole[list(c)] for n, c in {"x": "ab", "y": "cde", "z": "f"}.items()}


@pytest.fixture(scope="module")
def whole(parts):
    return pd.concat(list(parts.values()), axis=1)


@pytest.mark.slow
def test_order_statistics_are_numpys(parts, whole):
    federation = federation_of(parts, policy=SORTED, follow=True)
    found = up.quantiles(federation, Q, min_rows=1)
    # The search ends at single numbers, and interpolates as NumPy does.
    assert_allclose(found, whole.quantile(Q), rtol=1e-12)
    assert list(found.columns) == list("abcdef")


@pytest.mark.slow
def test_brackets_have_enough_values_as_on_rows(parts, whole):
    model = up.Quantiles(Q).fit(federation_of(parts, policy=SHOWS))
    theirs = whole.quantile(Q).to_numpy()
    shown = ~np.isnan(model.quantiles_)
    assert_array_equal(shown, ~np.isnan(model.errors_))
    assert (abs(model.quantiles_ - theirs)[shown] <= model.errors_[shown]).all()
    # Twelve values have fewer than ten at or beyond each of their quantiles.
    assert not shown[:, 5].any()
    assert shown[1:4, :5].all()
    found = np.array([model.quantiles_, model.errors_])
    for j, name in enumerate("abcd"):
        for value, error in found[:, :, j].T:
            near = abs(whole[name] - value) <= error
            assert np.isnan(error) or near.sum() >= 10
    rows = up.simulate(up.partition_rows(whole[list("abcde")].to_numpy(), 3))
    same = up.Quantiles(Q).fit(rows)
    assert_allclose(model.quantiles_[:, :5], same.quantiles_, rtol=1e-9)


def test_the_fit_releases_nothing_and_reading_shows_quantiles_alone(parts):
    federation = federation_of(parts, policy=SHOWS)
    model = up.Quantiles(Q).fit(federation)
    assert {line.visibility for line in federation.ledger} <= {"kept", "public"}
    assert "its folder of results" in str(model.summary())
    _ = model.quantiles_
    out = fields(federation.ledger, "step name shape visibility", direction="out")
    assert set(out) == {
        ("quantiles.shown_quantiles", name, (p, len(Q)), "disclosed")
        for name in ("value", "error")
        for p in (1, 2, 3)
    }
    assert "interpolated" in str(model.summary())


@pytest.mark.slow
def test_silos_that_do_not_allow_it_show_nothing(parts):
    model = up.Quantiles().fit(federation_of(parts))
    with pytest.raises(ReleaseRefusedError, match="allow_disclosed"):
        _ = model.quantiles_
    for rules in ({}, SHOWS):
        fewer = up.Quantiles(min_rows=3)
        with pytest.raises(ReleaseRefusedError, match="allow_order_statistics"):
            fewer.fit(federation_of(parts, policy=rules))


def test_nothing_is_shown_behind_a_silos_own_medians(parts):
    """The quantiles of a column that its median fills are near this median."""
    federation = federation_of(parts, policy=SHOWS)
    filled = up.SimpleImputer(strategy="median").fit_transform(federation)
    model = up.Quantiles().fit(filled)
    with pytest.raises(ReleaseRefusedError, match="own_cells"):
        _ = model.quantiles_


@pytest.mark.slow
def test_decimals_and_what_is_for_rows(parts, whole):
    federation = federation_of(parts, policy=SHOWS)
    model = up.Quantiles([0.5], decimals=0).fit(federation.select(["e", "a", "f"]))
    j = list(model.columns_).index("e")
    assert model.quantiles_[0, j] == whole["e"].median()
    assert model.errors_[0, j] == 0.0
    with pytest.raises(DataError, match="give decimals as one number"):
        up.Quantiles(decimals={"a": 1}).fit(federation)
    privacy = up.GaussianPrivacy(epsilon=1.0, delta=1e-5, row_norm=3.0)
    with pytest.raises(DataError, match="Leave privacy out"):
        up.Quantiles(privacy=privacy).fit(federation)


@pytest.mark.slow
def test_from_a_study_file_to_each_silos_own_results(parts, whole, tmp_path):
    text = '[study]\nname = "own"\npartition = "columns"\naligned = true\n'
    text += "[policy]\nallow_order_statistics = true\n"
    text += '[[steps]]\nmodel = "Quantiles"\nmin_rows = 1\n'
    for name, part in parts.items():
        part.to_csv(tmp_path / f"{name}.csv", index=False)
        text += f'[parties.{name}]\nsource = "{name}.csv"\n'
    (tmp_path / "study.toml").write_text(text)
    up.Study.from_file(tmp_path / "study.toml").run()
    (path,) = (tmp_path / "runs" / "own" / "silos" / "x").rglob("*_quantile.csv")
    rows = list(csv.reader(path.read_text("utf-8").splitlines()))[1:]
    assert [row[0] for row in rows] == ["a", "b"]
    theirs = whole[["a", "b"]].quantile([0.25, 0.5, 0.75]).T
    assert_allclose([list(map(float, row[1:])) for row in rows], theirs, rtol=1e-12)


@pytest.mark.parametrize(
    "check",
    check_estimator(up.Quantiles(), partition="columns", generate_only=True),
    ids=repr,
)
def test_convention(check):
    check()


def test_step(parts):
    probabilities = np.array(Q)
    X = parts["x"].to_numpy()
    check_step(own_quantiles, X, probabilities=probabilities, least=10, unit=0.0)
