"""VFedPCA as published: equal to independent code, with every option and its quirks."""

import numpy as np
import pytest
import sklearn.decomposition
from numpy.testing import assert_allclose

import vfedpca_reference as reference
from line_fields import fields
from unpooled import Policy, VFedPCA, load, partition_columns, plan, save, simulate
from unpooled.errors import DataError, ReleaseRefusedError
from vfedpca_silos import N, as_printed, init, rows, silos

# Fixtures of another module.
__all__ = ["init", "rows"]

# Independent code applies the same conventions in another order of operations.
ATOL = 1e-10
OPTIONS = {
    "default": {},
    "no warm start": {"warm_start": False},
    "weight scaling": {"weight_scaling": True},
    "aligned signs": {"align_signs": True},
    "both": {"align_signs": True, "weight_scaling": True},
    "VFedAvgPCA": {"weights": "equal"},
    "scaled, equal": {"weights": "equal", "weight_scaling": True},
    "centred rows": {"centre": "rows"},
    "text": {"centre": "none"},
    "few steps": {"local_iterations": 2, "rounds": 3},
    "one shot": {"rounds": 1},
}


def expected(rows, init, k=1, m=3, **options):
    """Every round's (u, weights), by independent code."""
    parts = list(partition_columns(rows, m).values())
    options = as_printed(options)
    return [only for (only,) in reference.vfedpca(parts, k, init, **options)]


@pytest.mark.thinned(4)
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_equals_independent_code(rows, init, secure_sum, options):
    options = {"rounds": 3, **options}
    theirs = expected(rows, init, k=2, **options)

    ours = VFedPCA(2, init=init, **options).fit(silos(rows, secure_sum=secure_sum))

    assert len(ours.history_) == len(theirs)
    for entry, (u, weights) in zip(ours.history_, theirs, strict=True):
        assert_allclose(entry["u"], u, rtol=0, atol=ATOL)
        if entry["weights"] is not None:
            assert_allclose(entry["weights"], weights, rtol=0, atol=ATOL)
    T = len(theirs) // 2
    last = np.array([u / np.linalg.norm(u) for u, _ in theirs[T - 1 :: T]]).T
    assert_allclose(ours.u_ * np.sign(np.sum(ours.u_ * last, axis=0)), last, atol=ATOL)


@pytest.mark.thinned(1)
@pytest.mark.parametrize("m", [2, 4, 9])
def test_equals_independent_code_in_more_parts(rows, init, m):
    theirs = expected(rows, init, m=m, rounds=3)

    ours = VFedPCA(init=init, rounds=3).fit(silos(rows, m))

    assert_allclose(ours.history_[-1]["u"], theirs[-1][0], rtol=0, atol=ATOL)


@pytest.mark.slow
def test_silos_that_are_copies_of_one_another_share_their_weights(rows, init):
    copies = np.hstack([rows[:, :2]] * 3)

    options = {"weight_scaling": True, "rounds": 2}
    ours = VFedPCA(init=init, **options).fit(silos(copies))

    theirs = expected(copies, init, **options)
    assert_allclose(ours.history_[-1]["u"], theirs[-1][0], rtol=0, atol=ATOL)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "m", "L", "first", "last"),
    [
        ("college", 3, 5, 0.678, 0.697),
        ("vehicle", 3, 5, 0.023, 0.021),
        ("ionosphere", 5, 10, 0.436, 0.326),
        ("glaucomaM", 5, 10, 0.098, 0.058),
        ("sonar", 5, 10, 0.637, 0.559),
        ("musk1", 10, 10, 0.117, 0.043),
    ],
)
def test_gives_the_figures_that_independent_code_gave(
    shared_data, name, m, L, first, last
):
    X = np.load(shared_data / f"{name}.npz")["X"].astype(float)
    if name == "ionosphere":
        X = np.delete(X, 1, axis=1)  # constant
    pooled = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)[0][:, 0]

    def distance(u):
        u = u / np.linalg.norm(u)
        return min(np.linalg.norm(pooled - u), np.linalg.norm(pooled + u))

    found = []
    for seed in range(10):
        model = VFedPCA(local_iterations=L, warm_start=False, random_state=seed)
        history = model.fit(silos(X, m)).history_
        found.append([distance(history[0]["u"]), distance(history[-1]["u"])])

    # Three digits are printed.
    assert_allclose(np.mean(found, axis=0), [first, last], rtol=0, atol=6e-4)


@pytest.mark.slow
def test_rounds_after_the_second_change_nothing(rows, init):
    model = VFedPCA(init=init, rounds=5, warm_start=False)
    history = model.fit(silos(rows)).history_

    for entry in history[2:]:
        assert_allclose(entry["u"], history[1]["u"], rtol=0, atol=1e-14)


def test_one_silo_is_pooled_power_iteration(rows):
    pooled = sklearn.decomposition.PCA(2).fit(rows)

    # One silo has nobody to add masks with.
    model = VFedPCA(2, local_iterations=500, rounds=1)
    ours = model.fit(silos(rows, 1, secure_sum="plain"))

    assert_allclose(np.abs(ours.components_), np.abs(pooled.components_), atol=1e-8)
    assert_allclose(ours.explained_variance_, pooled.explained_variance_, rtol=1e-9)


@pytest.mark.slow
def test_components_scores_and_new_rows(rows):
    federation = silos(rows)
    model = VFedPCA(2, rounds=2).fit(federation)
    mean, P = rows.mean(axis=0), model.components_

    M = (rows - mean).T @ model.u_
    assert_allclose(P, (M / np.linalg.norm(M, axis=0)).T, rtol=0, atol=1e-12)
    assert_allclose(model.scores_, (rows - mean) @ P.T, rtol=0, atol=1e-9)
    assert_allclose(
        model.explained_variance_, np.sum(M**2, axis=0) / (N - 1), rtol=1e-11
    )
    new = np.random.default_rng(9).standard_normal((15, 9))
    assert_allclose(model.transform(silos(new)), (new - mean) @ P.T, rtol=0, atol=1e-9)
    assert_allclose(np.linalg.norm(model.u_, axis=0), 1.0, rtol=1e-14)
    assert (model.u_[np.abs(model.u_).argmax(axis=0), [0, 1]] > 0).all()


def left(federation):
    return fields(federation.ledger, "step name shape visibility", direction="out")


def test_releases_only_what_the_docstring_says(rows):
    federation = silos(rows)
    VFedPCA(rounds=2).fit(federation)

    merge = [
        ("vfedpca.local_weighted", "vector", (N,), "summed"),
        ("vfedpca.local_weighted", "weight", (), "summed"),
    ]
    assert left(federation) == [
        *merge,
        *merge,
        ("vfedpca.local_squares", "squares", (1,), "summed"),
        ("vfedpca.local_scores", "scores", (N, 1), "summed"),
    ]
    assert federation.ledger.verify()


@pytest.mark.thinned(1)
@pytest.mark.parametrize(
    ("options", "disclosed"),
    [
        ({"weight_scaling": True}, {"eigenvalue"}),
        ({"align_signs": True}, {"vector", "eigenvalue"}),
        ({"weights": "equal"}, set()),
    ],
)
def test_discloses_where_sums_do_not_do(rows, options, disclosed):
    federation = silos(rows)
    VFedPCA(rounds=1, **options).fit(federation)

    shown = {name for _, name, _, how in left(federation) if how == "disclosed"}
    assert shown == disclosed


@pytest.mark.slow
def test_disclosures_need_every_silo_to_allow_them(rows):
    rules = Policy(allow_row_level=True)
    VFedPCA(rounds=1).fit(silos(rows, policy=rules))

    for model in (VFedPCA(weight_scaling=True), VFedPCA(align_signs=True)):
        with pytest.raises(ReleaseRefusedError, match="allow_disclosed"):
            model.fit(silos(rows, policy=rules))
    with pytest.raises(ReleaseRefusedError, match="allow_row_level"):
        VFedPCA().fit(silos(rows, policy=Policy()))
    model = VFedPCA(rounds=1).fit(silos(rows, policy=rules))
    with pytest.raises(ReleaseRefusedError, match="allow_disclosed"):
        _ = model.components_


@pytest.mark.slow
def test_plan_says_what_is_released(rows):
    federation = silos(rows)
    planned = plan(VFedPCA(2, rounds=3), federation)

    VFedPCA(2, rounds=3).fit(federation)

    names = [(line.step, line.name, line.shape) for line in planned.releases]
    assert names == [(x.step, x.name, x.shape) for x in federation.ledger]


@pytest.mark.slow
def test_saved_models_come_back(rows, tmp_path):
    model = VFedPCA(2, rounds=2, align_signs=True).fit(silos(rows))
    _ = model.components_

    save(model, tmp_path / "model.unpooled")
    read = load(tmp_path / "model.unpooled")

    for name in ("u_", "scores_", "components_", "explained_variance_"):
        assert_allclose(getattr(read, name), getattr(model, name), rtol=0)
    for one, other in zip(read.history_, model.history_, strict=True):
        assert_allclose(one["u"], other["u"], rtol=0)
        assert_allclose(one["weights"], other["weights"], rtol=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_components": 0}, "n_components=0; choose a whole number from 1 to 40"),
        ({"rounds": 0}, "rounds=0; choose a whole number from 1"),
        ({"local_iterations": 0}, "local_iterations=0; choose"),
        ({"centre": "both"}, 'centre=\'both\'; choose "columns", "rows" or'),
        ({"weights": "mine"}, "weights='mine'"),
        ({"init": np.zeros(N)}, "not all 0"),
        ({"init": np.ones(3)}, r"it is \(40,\)"),
    ],
)
def test_what_is_no_option_is_refused(rows, options, message):
    with pytest.raises(DataError, match=message):
        VFedPCA(**options).fit(silos(rows))


def test_rows_that_cannot_be_used_are_refused_by_rule(rows):
    holes = rows.copy()
    holes[3, 4] = np.nan
    with pytest.raises(DataError, match="missing_values"):
        VFedPCA().fit(silos(holes))
    flat = rows.copy()
    flat[:, 3:6] = 1.0
    with pytest.raises(DataError, match="no_variance"):
        VFedPCA().fit(silos(flat))
    # A row less its mean over one column is nothing.
    with pytest.raises(DataError, match="no_variance"):
        VFedPCA(centre="rows").fit(silos(rows, 9))


def test_a_row_partition_is_refused(rows):
    with pytest.raises(DataError, match="partitions by columns"):
        VFedPCA().fit(simulate({"a": rows}, policy=Policy.open()))
