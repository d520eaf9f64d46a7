"""A silo counts the mixtures of its columns: directions, and waves by other seeds."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

import unpooled as up
from logged_silos import Place
from unpooled.arrays import Array
from unpooled.errors import ReleaseRefusedError
from unpooled.party.memory.audit_log import AuditLog
from unpooled.protocol.view_operations import Derive, Operation, Select
from wire import COLUMNS, Rogue, Silos, rows, silos

P = 40
NAMES = tuple(f"x{j}" for j in range(P))
TABLES = {name: rows(60, P, seed=i) for i, name in enumerate("abc")}
# 60 rows and a ratio of 0.33: no more than 19 columns in one covariance.
ROOM = 19


def visitor(here: Silos, study: str = "study") -> Rogue:
    return Rogue(here, study=study, columns=NAMES).enter()


def mean_and_squares(rogue: Rogue) -> tuple[Array, Array]:
    chain = (Select(NAMES),)
    total = rogue.totals("pca.local_total", None, chain)
    mean = total["total"] / total["count"]
    return mean, rogue.totals("pca.local_spread", {"mean": mean}, chain)["squares"]


def asked(rogue: Rogue, V: Array) -> tuple[str, dict[str, Array | int]]:
    mean, squares = mean_and_squares(rogue)
    N = sum(len(X) for X in TABLES.values())
    return "pca.local_image", {"mean": mean, "squares": squares, "V": V, "N": N}


def by_columns(rogue: Rogue, most: int) -> dict[int, str]:
    """Ask for the covariance column by column; return the rules that refused."""
    mean, squares = mean_and_squares(rogue)
    N = sum(len(X) for X in TABLES.values())
    refused = {}
    for j in range(most):
        public = {"mean": mean, "squares": squares, "V": np.eye(P)[:, [j]], "N": N}
        said = rogue.rules("pca.local_image", public, (Select(NAMES),))
        if rule := said["a"]:
            refused[j] = rule
    return refused


def test_a_covariance_is_not_had_column_by_column():
    here = silos(TABLES)
    refused = by_columns(visitor(here), P)
    # What tells of rows also ends a study, after a while.
    assert min(refused) == ROOM
    assert refused[ROOM] == "max_feature_ratio"
    assert set(range(ROOM, P)) == set(refused)
    # Nor in a study of another name, nor with a column fewer.
    rogue = visitor(here, "later")
    fewer = NAMES[:-1]
    total = rogue.totals("pca.local_total", None, (Select(fewer),))
    mean = total["total"] / total["count"]
    public = {"mean": mean, "squares": np.full(P - 1, 1e4), "V": np.eye(P - 1)[:, -1:]}
    said = rogue.rules("pca.local_image", {**public, "N": 180}, (Select(fewer),))
    assert set(said.values()) == {"max_feature_ratio"}


def test_control_unit_vectors_give_the_covariance():
    here = silos(TABLES, policy={"max_feature_ratio": math.inf})
    rogue = visitor(here)
    chain = (Select(NAMES),)
    mean, squares = mean_and_squares(rogue)
    N = sum(len(X) for X in TABLES.values())
    S = np.column_stack(
        [
            rogue.totals(
                "pca.local_image",
                {"mean": mean, "squares": squares, "V": np.eye(P)[:, [j]], "N": N},
                chain,
            )["image"]
            for j in range(P)
        ]
    )
    X = np.vstack(list(TABLES.values())) - mean
    assert_allclose(S, X.T @ X, rtol=1e-9, atol=1e-8)


def test_directions_asked_again_tell_nothing_more():
    rogue = visitor(silos(TABLES))
    V = np.eye(P)[:, :ROOM]
    for _ in range(3):
        assert set(rogue.rules(*asked(rogue, V), (Select(NAMES),)).values()) == {""}
    other = np.eye(P)[:, -1:]
    said = rogue.rules(*asked(rogue, other), (Select(NAMES),))
    assert set(said.values()) == {"max_feature_ratio"}


def test_where_the_covariance_is_allowed_directions_are_not_counted():
    """A fit by default on many rows, again and again."""
    few = {name: X[:, :15] for name, X in TABLES.items()}
    federation = up.simulate(few)
    fits = [
        up.PCA(2, svd_solver="krylov", random_state=seed).fit(federation)
        for seed in range(4)
    ]
    assert all(fit.n_iter_ > 1 for fit in fits)


def test_a_fit_of_many_columns_has_room():
    rng = np.random.default_rng(0)
    wide = rng.standard_normal((1200, 3)) @ (5.0 * rng.standard_normal((3, 500)))
    wide += 0.1 * rng.standard_normal(wide.shape)
    federation = up.simulate(up.partition_rows(wide, 3))
    fit = up.PCA(3, svd_solver="krylov", random_state=0).fit(federation)
    # A third of the 500 columns, for there are fewer rows in each silo.
    assert 1 < fit.n_iter_ * 7 <= 165


def test_no_more_directions_than_rows_whatever_the_columns():
    wide = {name: rows(30, 400, seed=i) for i, name in enumerate("abc")}
    here = silos(wide)
    names = tuple(f"x{j}" for j in range(400))
    rogue = Rogue(here, columns=names).enter()
    chain = (Select(names),)
    total = rogue.totals("pca.local_total", None, chain)
    mean = total["total"] / total["count"]
    squares = rogue.totals("pca.local_spread", {"mean": mean}, chain)["squares"]
    for first, rule in ((0, ""), (15, ""), (30, "max_feature_ratio")):
        V = np.eye(400)[:, first : first + 15]
        public = {"mean": mean, "squares": squares, "V": V, "N": 90}
        assert set(rogue.rules("pca.local_image", public, chain).values()) == {rule}


def waves(seed: int, size: int = 12) -> tuple[Operation, ...]:
    public = {"seed": seed, "gamma": 0.1, "size": size}
    names = tuple(f"fourier{j}" for j in range(size))
    return Select(NAMES), Derive("kernel_pca.fourier", names, public)


def test_other_seeds_are_other_waves():
    rogue = visitor(silos(TABLES))
    for _ in range(2):
        said = rogue.rules("kernel_pca.local_total", None, waves(1))
        assert set(said.values()) == {""}
    said = rogue.rules("kernel_pca.local_total", None, waves(2))
    assert set(said.values()) == {"max_feature_ratio"}
    assert set(rogue.rules("kernel_pca.local_total", None, waves(2, 7)).values()) == {
        ""
    }


def test_control_waves_of_many_seeds_are_answered():
    rogue = visitor(silos(TABLES, policy={"max_feature_ratio": math.inf}))
    for seed in range(5):
        said = rogue.rules("kernel_pca.local_total", None, waves(seed))
        assert set(said.values()) == {""}


def test_a_kernel_pca_is_fitted_once_more_by_its_seed_only():
    federation = up.simulate({name: X[:, :5] for name, X in TABLES.items()})

    def fit(seed: int) -> None:
        model = up.KernelPCA(
            2, approximation="fourier", n_landmarks=12, random_state=seed
        )
        model.fit(federation)

    fit(0)
    fit(0)
    with pytest.raises(ReleaseRefusedError, match="max_feature_ratio"):
        fit(1)


def test_a_log_remembers_mixtures_over_restarts(tmp_path):
    place = Place(tmp_path, {}).start()
    three = COLUMNS

    def fit(seed: int) -> None:
        model = up.KernelPCA(
            2, approximation="fourier", n_landmarks=6, random_state=seed
        )
        model.fit(place.federation("abc", f"seed {seed}").select(three))

    fit(0)
    place.start()
    fit(0)
    # 30 rows allow 9 mixtures.
    with pytest.raises(ReleaseRefusedError, match="max_feature_ratio"):
        fit(1)
    (size,) = (
        AuditLog(place.log("a"))
        .state()
        .answered_columns.mixtures(("x1", "another"))
        .values()
    )
    assert size == 6
    assert (
        AuditLog(place.log("a")).state().answered_columns.mixtures(("another",)) == {}
    )
    assert AuditLog(place.log("a")).verify()
