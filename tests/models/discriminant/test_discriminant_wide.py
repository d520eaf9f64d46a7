"""Discriminants of more columns than rows: in the span of the rows, as pooled."""

import numpy as np
import pytest
from test_discriminant import pooled, silos

from line_fields import fields
from twins import assert_close
from unpooled import LinearDiscriminantAnalysis, Policy, plan
from unpooled.errors import DataError


@pytest.mark.thinned
@pytest.mark.parametrize("shrinkage", [0.3, "auto"])
@pytest.mark.parametrize("options", [{}, {"priors": [0.2, 0.3, 0.5]}])
def test_more_columns_than_rows_equal_the_pooled_twin(options, shrinkage):
    rng = np.random.default_rng(0)
    y = np.arange(105) % 3
    X = rng.standard_normal((105, 150)) * np.linspace(0.1, 3.0, 150) + 5.0
    X += 0.3 * rng.standard_normal((3, 150))[y]
    # A gene that is nowhere expressed, and one that is silent in a class.
    X[:, 3], X[y == 1, 4] = 2.0, 0.0
    options = {"shrinkage": shrinkage, **options}

    federation = silos(X, y, m=5, policy=Policy.open())
    ours = LinearDiscriminantAnalysis(**options).fit(federation, "class")

    theirs, new = pooled(X, y, **options), rng.standard_normal((9, 150)) + 5.0
    for name in ("means_", "coef_", "intercept_", "explained_variance_ratio_"):
        assert_close(getattr(ours, name), getattr(theirs, name), 1e-8)
    signs = np.sign(np.sum(ours.scalings_ * theirs.scalings_[:, :2], axis=0))
    assert_close(ours.transform(new), theirs.transform(new) * signs, 1e-8)
    # No silo sends, and nobody forms, as many numbers as columns squared. What comes
    # in as evidence of the span is what all silos sent, side by side.
    sent = [line for line in federation.ledger if line.direction == "out"]
    assert max(int(np.prod(line.shape)) for line in sent) < 150**2


@pytest.mark.slow
@pytest.mark.parametrize("shrinkage", [0.3, "auto"])
def test_a_plan_for_more_columns_than_rows(shrinkage):
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    X = rng.standard_normal((60, 80)) + rng.standard_normal((3, 80))[y]
    model = LinearDiscriminantAnalysis(shrinkage=shrinkage, classes=[0, 1, 2])
    federation = silos(X, y, policy=Policy.open())
    planned = plan(model, federation, "class", n_rows=60)
    assert len(federation.ledger) == 0
    model.fit(federation, "class")
    assert fields(planned.releases, "step name shape") == fields(
        federation.ledger, "step name shape"
    )
    # Nobody said how many rows there are: then there are many.
    whole = plan(model, federation, "class")
    assert any(line.shape == (80, 80) for line in whole.releases)
    with pytest.raises(DataError, match="n_rows=1"):
        plan(model, federation, "class", n_rows=1)


@pytest.mark.slow
def test_units_of_columns_do_not_matter_to_ledoit_and_wolf():
    rng = np.random.default_rng(1)
    y = np.arange(60) % 3
    X = rng.standard_normal((60, 90)) + 0.5 * rng.standard_normal((3, 90))[y]
    units = np.geomspace(1e-6, 1e6, 90)
    new = rng.standard_normal((9, 90))

    fits = []
    for scale in (1.0, units):
        federation = silos(X * scale, y, policy=Policy.open())
        model = LinearDiscriminantAnalysis(shrinkage="auto").fit(federation, "class")
        fits.append(model.decision_function(new * scale))

    assert_close(fits[1], fits[0], 1e-8)
    theirs = pooled(X, y, shrinkage="auto")
    assert_close(fits[0], theirs.decision_function(new), 1e-8)
