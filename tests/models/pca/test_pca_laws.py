"""PCA's laws: silos, columns and fits in any order give the same model."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from federations import open_silos
from pooled_pca import P, correlated_rows, pooled, three_silos
from twins import assert_close, assert_same_pca
from unpooled import PCA, Policy, partition_rows, simulate


@pytest.fixture(scope="module")
def rows():
    return correlated_rows()


ATTRIBUTES = (
    "mean_",
    "components_",
    "explained_variance_",
    "explained_variance_ratio_",
    "singular_values_",
    "noise_variance_",
)


def assert_equal_models(first, second, rtol=1e-12):
    for name in ATTRIBUTES:
        assert_close(getattr(first, name), getattr(second, name), rtol)


@pytest.mark.slow
def test_order_of_the_silos_does_not_matter(rows):
    silos = partition_rows(rows, 5)
    turned = dict(reversed(silos.items()))
    first = PCA(3).fit(simulate(silos, policy=Policy.open()))
    # Names too: parties are sorted by name before their parts are added.
    renamed = dict(zip("edcba", silos.values(), strict=True))
    for other in (turned, renamed):
        assert_equal_models(PCA(3).fit(simulate(other, policy=Policy.open())), first)


def test_splitting_a_silo_in_two_does_not_matter(rows):
    a, b, c = partition_rows(rows, 3).values()
    whole = PCA(3).fit(simulate({"a": a, "b": b, "c": c}, policy=Policy.open()))
    cut = {"a": a[:7], "d": a[7:], "b": b, "c": c}
    assert_equal_models(PCA(3).fit(simulate(cut, policy=Policy.open())), whole)


def test_order_of_the_columns_goes_through_to_the_loadings(rows):
    order = np.array([3, 0, 5, 1, 2, 4])
    first = PCA(4).fit(open_silos(rows))
    second = PCA(4).fit(open_silos(rows[:, order]))
    assert_close(second.components_, first.components_[:, order], 1e-12)
    assert_close(second.mean_, first.mean_[order], 1e-12)
    assert_close(second.explained_variance_, first.explained_variance_, 1e-12)


def test_largest_loading_of_every_component_is_positive(rows):
    axes = PCA().fit(open_silos(-rows)).components_
    assert (axes[np.arange(P), np.abs(axes).argmax(axis=1)] > 0).all()


def test_one_silo_is_the_pooled_case(rows):
    # In clear: nobody could share a mask with it.
    federation = simulate({"a": rows}, policy=Policy.open(), secure_sum="plain")
    assert_same_pca(PCA().fit(federation), pooled(rows))


def test_fitting_twice_gives_the_same(rows):
    federation = open_silos(rows)
    pca = PCA(3).fit(federation)
    first = {name: np.copy(getattr(pca, name)) for name in ATTRIBUTES}
    pca.fit(federation)
    for name, value in first.items():
        assert_array_equal(getattr(pca, name), value)


@pytest.mark.slow
def test_refitting_forgets_the_names_of_the_fit_before(rows):
    names = [f"c{j}" for j in range(P)]
    import pandas as pd

    frames = [
        pd.DataFrame(part, columns=names) for part in partition_rows(rows, 3).values()
    ]
    pca = PCA(2).fit(simulate(dict(zip("abc", frames, strict=True))))
    assert_array_equal(pca.feature_names_in_, names)
    pca.fit(three_silos(rows))
    assert not hasattr(pca, "feature_names_in_")
