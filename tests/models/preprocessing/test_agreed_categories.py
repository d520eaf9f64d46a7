"""The federation's categories are those of the pooled rows, and nothing tells whose."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import unpooled as up
from line_fields import fields
from unpooled.data.categories import coded
from unpooled.errors import DataError, ReleaseRefusedError
from unpooled.models.moments import local_counts
from unpooled.models.preprocessing.agreed_categories import (
    SIZES,
    agreed_categories,
    local_categories,
)
from unpooled.testing import check_step

OPEN = up.Policy.open()


def rows(n, names, seed=0):
    rng = np.random.default_rng(seed)
    columns = {"age": rng.normal(50, 9, n), "site": rng.choice(names, n)}
    return pd.DataFrame(columns | {"sex": rng.choice([0, 1], n)})


def found(frames, **options):
    federation = up.simulate(frames, categorical=["site", "sex"], **options)
    view = federation.select(federation.categorical)
    with view.fitting():
        return agreed_categories(view), federation


def assert_as_pooled(frames, column, categories):
    """Compare with the counts of pandas on the pooled rows."""
    counts = pd.concat(frames.values())[column].astype(str).value_counts()
    assert list(categories.names) == sorted(counts.index)
    assert categories.counts.tolist() == [counts[name] for name in categories.names]


@pytest.mark.thinned(1)
@pytest.mark.parametrize("sums", ["masked", "plain"])
@pytest.mark.parametrize("sizes", [(40, 40, 40), (100, 3, 1), (1, 1, 40, 90)])
def test_equal_to_the_pooled_counts(sums, sizes):
    frames = {f"s{i}": rows(n, list("abcd"), i) for i, n in enumerate(sizes)}
    (site, sex), _ = found(frames, secure_sum=sums, policy=OPEN)
    assert_as_pooled(frames, "site", site)
    assert_as_pooled(frames, "sex", sex)
    assert site.n_rows == sum(sizes)


def test_silos_may_lack_categories_or_have_their_own():
    frames = {"a": rows(60, ["x"]), "b": rows(60, ["x", "y"]), "c": rows(60, ["only"])}
    (site, _), _ = found(frames)
    assert_as_pooled(frames, "site", site)


@pytest.mark.thinned("10", "200")
@pytest.mark.parametrize("k", [10, 200, 1000])
def test_many_categories(k):
    names = [f"name {i}" for i in range(k)]
    frames = {f"s{i}": rows(4 * k, names, i) for i in range(2)}
    frames["all"] = pd.concat([rows(k, names).assign(site=names)] * 2)
    (site, _), federation = found(frames, policy=OPEN)
    assert_as_pooled(frames, "site", site)
    cells = [line.shape[1] for line in federation.ledger if line.direction == "out"]
    assert tuple(cells) == SIZES[: len(cells)]
    # Of tables that double, all have four times the cells that a name needs.
    assert sum(cells) <= max(4 * k, 96)


@pytest.mark.slow
def test_too_many_categories_over_all_silos():
    frames = {
        name: rows(1200, [f"{name} {i}" for i in range(600)]) for name in ("a", "b")
    }
    with pytest.raises(DataError, match=r"more than 1,000 categories over all silos"):
        found(frames, policy=OPEN)


def test_single_rows_and_missing_cells():
    frames = {"a": rows(60, ["x", "y"]), "b": rows(60, ["x", "y"], 1)}
    frames |= {"c": rows(60, ["x", "y"], 2)}
    frames["a"].loc[:1, "site"] = ["alone", "alone too"]
    frames["b"].loc[:4, "site"] = None
    (site, _), federation = found(frames)
    assert (site.names, site.n_other, site.n_missing) == (("x", "y"), 2, 5)
    assert site.n_rows == 180
    assert "alone" not in federation.ledger.to_frame().to_string()


def test_released_are_cells_of_names_and_counts_alone():
    _, federation = found({name: rows(60, ["x", "y"]) for name in "abc"})
    lines = fields(federation.ledger, "step name shape visibility", direction="out")
    assert lines == [
        ("agreed_categories.local_categories", "names", (2, SIZES[0], 43), "summed")
    ]


def test_step():
    cells = coded(list("aabbcc") + [None] * 3)[:, None]
    names = dict(zip(coded("abc").tolist(), "abc", strict=True))
    check_step(local_categories, cells, dictionary=names, n_cells=24, number=1)


def test_numbers_are_no_categories():
    federation = up.simulate(
        {name: rows(60, ["x"]) for name in "abc"}, categorical=["site"]
    )
    with pytest.raises(DataError, match="'age', 'sex' hold numbers"):
        agreed_categories(federation)


def test_codes_are_no_numbers():
    federation = up.simulate(
        {name: rows(60, ["x"]) for name in "abc"}, categorical=["site"]
    )
    for model in (up.PCA(1), up.StandardScaler(), up.RareColumns(), up.Heterogeneity()):
        with pytest.raises(DataError, match="'site' holds categories"):
            model.fit(federation)
    # A silo refuses by itself, whatever the coordinator takes the column for.
    federation.layout = replace(federation.layout, categorical=frozenset())
    with pytest.raises(ReleaseRefusedError, match="categories"), federation.fitting():
        federation.sum(local_counts)


def test_silos_must_agree_on_what_is_a_category():
    frame = rows(60, ["x"]).drop(columns="site")
    tables = {
        name: up.open_source(frame, categorical=["sex"] * (name == "a"))
        for name in "abc"
    }
    with pytest.raises(DataError, match="'sex' holds categories at some parties"):
        up.simulate(tables)


def test_categories_are_agreed_on_over_the_same_columns():
    with pytest.raises(DataError, match="differ between the parties of a column"):
        found({"a": rows(60, ["x"])}, partition="columns")
