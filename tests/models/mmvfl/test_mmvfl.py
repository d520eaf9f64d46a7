"""MMVFL against independent code for the paper's updates, and for what it predicts."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import MultiTaskLasso

import unpooled as up
from mmvfl_silos import published, silos, three_kinds


@pytest.fixture(scope="module")
def data():
    return three_kinds()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("secure_sum", "owner"), [("plain", "a"), ("masked", "c"), ("masked", "d")]
)
def test_equals_the_published_algorithm(data, secure_sum, owner):
    X, y = data
    W, values, _ = published(X, y, 0.1, 8, owner)

    model = up.MMVFL(0.1, max_iter=8, tol=0.0)
    model.fit(silos(X, y, owner, secure_sum=secure_sum), y="tree")

    # Both stop the inner passes by the same rule; inverses of ill-conditioned systems
    # (weights of 1 / (2e-8) on rows near zero) leave about 1e-8 of them.
    assert_allclose(model.objective_, values, rtol=1e-7)
    for party, weights in W.items():
        assert_allclose(model.coef_[party], weights, atol=1e-6)
        assert_allclose(
            model.feature_importances_[party],
            np.linalg.norm(weights, axis=1),
            atol=1e-6,
        )
    assert model.classes_.tolist() == ["ash", "elm", "oak"]
    assert model.n_iter_ == 8


@pytest.mark.slow
def test_the_objective_never_rises_and_ends_at_the_tolerance(data):
    X, y = data
    model = up.MMVFL(0.1, max_iter=300).fit(silos(X, y), y="tree")
    values = np.array(model.objective_)
    # ε smooths each norm: the printed objective may differ by β p ε at most.
    assert (np.diff(values) <= 0.1 * 49 * 1e-8 + 1e-12 * values[0]).all()
    assert values[-2] - values[-1] <= 1e-6 * values[-2]


@pytest.mark.slow
def test_converged_weights_are_those_of_shared_labels(data):
    """The pseudo-labels tend to Y; scikit-learn's multi-task lasso on Y is supFL."""
    X, y = data
    model = up.MMVFL(0.5, max_iter=500, tol=1e-9).fit(silos(X, y), y="tree")
    Y = np.eye(3)[np.unique(y, return_inverse=True)[1]]
    for party, A in X.items():
        lasso = MultiTaskLasso(0.5 / (2 * len(A)), fit_intercept=False, tol=1e-10)
        theirs = lasso.fit(A, Y).predict(A)
        # Z is within (1 / zeta) of Y, times residuals of order one, m silos.
        assert_allclose(A @ model.coef_[party], theirs, atol=0.02)


@pytest.mark.slow
def test_masked_sums_change_nothing(data):
    X, y = data
    models = [
        up.MMVFL(max_iter=5, tol=0.0).fit(silos(X, y, secure_sum=how), y="tree")
        for how in ("plain", "masked")
    ]
    # 2^-62 of the bound sqrt(N) in every entry, five times.
    assert_allclose(models[0].objective_, models[1].objective_, rtol=1e-12)


@pytest.mark.slow
def test_the_order_of_silos_does_not_matter(data):
    X, y = data
    turned = {k: X[k] for k in reversed(X)}
    one, other = (
        up.MMVFL(max_iter=6, tol=0.0).fit(silos(A, y), y="tree") for A in (X, turned)
    )
    assert_allclose(one.objective_, other.objective_, rtol=1e-10)


@pytest.mark.slow
def test_new_rows_are_predicted_by_all_silos_and_by_each(data):
    X, y = data
    train, test = np.arange(0, 36, 2), np.arange(1, 36, 2)
    with pytest.warns(ConvergenceWarning, match="max_iter=20"):
        model = up.MMVFL(0.1, max_iter=20, tol=1e-12).fit(
            silos({k: A[train] for k, A in X.items()}, y[train]), y="tree"
        )
    new = silos({k: A[test] for k, A in X.items()}, y[test])

    scores = np.sum([X[k][test] @ W for k, W in model.coef_.items()], axis=0)

    assert_allclose(model.decision_function(new), scores, atol=1e-12)
    expected = model.classes_[scores.argmax(1)]
    assert (model.predict(new) == expected).all()
    assert model.score(new) == pytest.approx((expected == y[test]).mean(), abs=1e-15)
    for party, told in model.predict_by_party(new).items():
        own = model.classes_[(X[party][test] @ model.coef_[party]).argmax(1)]
        assert (told == own).all()


@pytest.mark.slow
def test_the_score_opens_no_row_to_the_coordinator(data):
    X, y = data
    federation = silos(X, y)
    model = up.MMVFL(max_iter=2, tol=0.0).fit(federation, y="tree")
    before = len(federation.ledger)
    model.score(federation)
    seen = [(x.step, x.name, x.visibility) for x in federation.ledger[before:]]
    assert seen == [
        ("mmvfl.local_scores", "classes", "public"),
        ("mmvfl.local_scores", "scores", "veiled"),
        ("mmvfl.local_hits", "classes", "public"),
        ("mmvfl.local_hits", "scores", "veiled"),
        ("mmvfl.local_hits", "hits", "summed"),
        ("mmvfl.local_hits", "judged", "summed"),
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("percent", "kept"), [(1, 1), (20, 1), (21, 2), (40, 2), (100, 5)]
)
def test_a_share_of_each_silos_columns_is_selected(data, percent, kept):
    X, y = data
    model = up.MMVFL(0.5, max_iter=30, tol=0.0).fit(silos(X, y), y="tree")
    view = model.select(percent)
    assert len(view.columns_of["a"]) == kept
    assert len(view.columns_of["c"]) == 1
    for party, columns in view.columns_of.items():
        importance = model.feature_importances_[party]
        best = np.argsort(-importance, kind="stable")[: len(columns)]
        assert set(columns) == {f"{party}{j}" for j in best}


@pytest.mark.slow
def test_a_selection_is_fitted_and_scaled_like_any_view(data):
    X, y = data
    federation = silos(X, y)
    view = up.MMVFL(0.5, max_iter=10, tol=0.0).fit(federation, y="tree").select(50)
    scaled = up.StandardScaler().fit(view).transform(view)
    again = up.MMVFL(0.1, max_iter=5, tol=0.0).fit(scaled, y="tree")

    means = {k: A - A.mean(0) for k, A in X.items()}
    chosen = {
        k: (means[k] / X[k].std(0))[:, [int(c[1:]) for c in columns]]
        for k, columns in view.columns_of.items()
    }
    assert_allclose(again.objective_, published(chosen, y, 0.1, 5)[1], rtol=1e-7)


@pytest.mark.slow
def test_more_than_ten_silos_and_numbers_as_labels():
    X, y = load_iris(return_X_y=True)
    X = np.column_stack([X, X**2, np.sqrt(X)])  # twelve silos with a column each
    model = up.MMVFL(0.01, max_iter=40, tol=0.0).fit(
        silos({f"s{j:02}": X[:, [j]] for j in range(12)}, y, "s07"), y="tree"
    )
    assert model.classes_.tolist() == [0, 1, 2]
    assert all(W.shape == (1, 3) for W in model.coef_.values())
