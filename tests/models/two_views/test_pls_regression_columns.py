"""Partial least squares regression of one party's columns on another party's."""

import numpy as np
import pandas as pd
import pytest
import sklearn.cross_decomposition
from numpy.testing import assert_allclose

from line_fields import fields
from party_views import N, chosen, federated, related
from unpooled import PLSRegression, load, plan, save
from unpooled.errors import DataError, ReleaseRefusedError

# Their power method stops at `tol`, the square of a step: far below what is compared.
CONVERGED = {"tol": 1e-28, "max_iter": 100_000}
# Ours stop at a sine of 1e-9; covariances of common factors are far apart.
RTOL = 1e-8
ARRAYS = (
    "x_weights_ y_weights_ x_loadings_ y_loadings_ x_rotations_ y_rotations_".split()
)


def twin_of(views, k, **options):
    return sklearn.cross_decomposition.PLSRegression(k, **CONVERGED, **options).fit(
        *views.values()
    )


def assert_same(ours, theirs, rtol=RTOL):
    """Compare arrays by the length of their difference."""
    assert ours.shape == theirs.shape
    assert np.linalg.norm(ours - theirs) <= rtol * np.linalg.norm(theirs)


def up_to_signs(ours, theirs):
    return ours * np.sign(np.einsum("pk,pk->k", ours, theirs))


@pytest.mark.thinned
@pytest.mark.parametrize("solver", ["direct", "krylov"])
@pytest.mark.parametrize("sizes", [(5, 4), (4, 1), (1, 3), (30, 20)], ids=str)
@pytest.mark.parametrize("scale", [True, False])
def test_equals_the_twin_on_joined_views(solver, sizes, scale, secure_sum):
    # With one column to predict there are more components than columns.
    views, k = related(sizes), min(3, sizes[0])
    twin = twin_of(views, k, scale=scale)

    federation = federated(views, secure_sum=secure_sum)
    model = PLSRegression(k, scale=scale, solver=solver, random_state=0)
    model.fit(federation)

    scores = model.transform(federation).values()
    theirs = twin.transform(*views.values())
    for z, t in zip(scores, theirs, strict=True):
        assert_same(up_to_signs(z, t), t)
    r = [np.corrcoef(t, u)[0, 1] for t, u in zip(*(s.T for s in theirs), strict=True)]
    assert_allclose(np.abs(model.score_correlations_), np.abs(r), atol=RTOL)
    assert_same(model.predict(federation), twin.predict(views["bank"]))
    # What follows is disclosed by both parties, which these allow.
    assert_same(model.coef_, twin.coef_)
    assert_same(model.intercept_, twin.intercept_)
    for name in ARRAYS:
        ours, wanted = getattr(model, name), getattr(twin, name)
        assert_same(up_to_signs(ours, wanted), wanted)


@pytest.mark.slow
def test_more_columns_than_people():
    views = related((90, 3), n=60)
    twin = twin_of(views, 3)
    for solver in ("direct", "krylov"):
        federation = federated(views)
        model = PLSRegression(3, solver=solver, random_state=0).fit(federation)
        assert_same(model.predict(federation), twin.predict(views["bank"]))


def test_new_people_are_predicted_before_anybody_knows_the_outcome():
    views = related((5, 2))
    model = PLSRegression(2).fit(federated(views))
    new = related((5, 2), n=40, seed=1)
    unknown = {"bank": new["bank"], "shop": np.full((40, 2), np.nan)}

    predicted = model.predict(federated(unknown))

    assert_same(predicted, twin_of(views, 2).predict(new["bank"]))


def test_held_out_rows():
    views = related((5, 4))
    train, test = federated(views).train_test_split(test_size=0.2, random_state=0)
    model = PLSRegression(2).fit(train)
    inside, outside = chosen(train), chosen(test)
    twin = twin_of({name: X[inside] for name, X in views.items()}, 2)
    assert_same(model.predict(test), twin.predict(views["bank"][outside]))
    new = twin.transform(*(X[outside] for X in views.values()))
    for z, t in zip(model.transform(test).values(), new, strict=True):
        assert_same(up_to_signs(z, t), t)


@pytest.mark.thinned(1)
@pytest.mark.parametrize("y", ["bank", ["x0", "x1", "x2"]])
def test_y_names_the_party_that_is_predicted(y):
    views = related((3, 4))
    federation = federated(views)
    model = PLSRegression(2).fit(federation, y=y)
    assert (model.x_party_, model.y_party_) == ("shop", "bank")
    assert model.n_features_in_ == 4
    twin = twin_of({"shop": views["shop"], "bank": views["bank"]}, 2)
    assert_same(model.predict(federation), twin.predict(views["shop"]))


def test_a_label_names_nobody():
    views = related((3, 4))
    frames = {
        name: pd.DataFrame(X, columns=[f"{name}{j}" for j in range(X.shape[1])])
        for name, X in views.items()
    }
    frames["shop"]["died"] = np.arange(N) % 2
    model = PLSRegression(1).fit(federated(frames, label="died"), y="died")
    assert model.y_party_ == "shop"


@pytest.mark.slow
def test_only_the_second_party_has_predictions_unless_it_shows_them():
    views = related((5, 4))
    federation = federated(views, policy={"min_parties": 2, "allow_row_level": True})
    model = PLSRegression(2, scores="parties").fit(federation)
    before = len(federation.ledger)
    assert model.predict(federation) is None
    left = [
        (line.step, line.name, line.shape, line.visibility)
        for line in list(federation.ledger)[before:]
        if line.direction == "out" or line.visibility == "kept"
    ]
    assert left == [
        ("pls_regression.local_scores", "scores", (N, 2), "veiled"),
        ("pls_regression.own_predictions", "predictions", (N, 5), "kept"),
        ("pls_regression.own_predictions", "predictions", (N, 4), "kept"),
    ]
    with pytest.raises(ReleaseRefusedError, match="allow_disclosed"):
        PLSRegression(2).fit(federation).predict(federation)
    with pytest.raises(DataError, match="nobody may predict"):
        PLSRegression(2, scores=None).fit(federation).predict(federation)


def test_the_coordinator_learns_of_no_column_unless_it_is_shown():
    federation = federated(
        related((5, 4)), policy={"min_parties": 2, "allow_row_level": True}
    )
    model = PLSRegression(2).fit(federation)
    for name in ("coef_", "intercept_", "x_rotations_", "y_mean_"):
        with pytest.raises(ReleaseRefusedError, match="allow_disclosed"):
            getattr(model, name)


def test_what_leaves_is_for_the_parties(secure_sum):
    federation = federated(related((5, 4)), secure_sum=secure_sum)
    planned = plan(PLSRegression(2), federation)
    PLSRegression(2).fit(federation)
    left = fields(federation.ledger, "step name shape visibility", direction="out")
    search = [
        ("pls_regression.local_image", "image", (N, 5), "veiled"),
        ("pls_regression.local_pairs", "squares", (2,), "summed"),
        ("pls_regression.local_pairs", "correlations", (2,), "summed"),
    ]
    last = [
        ("pls_regression.local_length", "norm", (), "veiled"),
        ("pls_regression.local_slopes", "correlations", (2,), "summed"),
    ]
    assert left == search + last
    out = [line for line in planned.releases if line.direction == "out"]
    # A second round of the search would follow if bases were nearly dependent.
    assert [(x.step, x.name, x.shape, x.visibility) for x in out] == search * 2 + last


def test_files_and_the_twin(tmp_path):
    views = related((5, 4))
    federation = federated(views)
    model = PLSRegression(2).fit(federation)
    save(model, tmp_path / "pls.unpooled")
    again = load(tmp_path / "pls.unpooled")
    assert_same(again.predict(federation), model.predict(federation))
    with pytest.raises(DataError, match="kept in the silos"):
        again.predict(views["bank"])
    new = related((5, 4), n=7, seed=2)["bank"]
    twin = model.to_sklearn()
    assert_same(twin.predict(new), twin_of(views, 2).predict(new))
    assert_same(model.predict(new), twin.predict(new))
    assert_same(model.transform(new), twin.transform(new))


@pytest.mark.parametrize(
    ("model", "sizes", "y", "says"),
    [
        (PLSRegression(6), (5, 4), None, "upper bound is 5"),
        (PLSRegression(1), (5, 4, 3), None, "views of 2 parties, not of 3"),
        (PLSRegression(1, solver="gram"), (5, 4), None, "solver='gram'"),
        (PLSRegression(1, scores="all"), (5, 4), None, "scores='all'"),
        (PLSRegression(1), (5, 4), ["x0", "x7"], "all of its columns"),
        (PLSRegression(1), (5, 4), "clinic", "bank or shop"),
    ],
)
def test_what_cannot_be_done_is_refused(model, sizes, y, says):
    with pytest.raises(DataError, match=says):
        model.fit(federated(related(sizes)), y)
