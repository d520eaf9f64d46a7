"""Private PCA: the pooled answer with noise, as much as was declared."""

import numpy as np
import pytest
import scipy.linalg
import scipy.stats
import sklearn.decomposition
from numpy.testing import assert_allclose

from federations import open_silos
from line_fields import fields
from private_rows import LOOSE, K, P, rows
from unpooled import (
    PCA,
    GaussianPrivacy,
    Policy,
    load,
    plan,
    save,
    simulate,
)
from unpooled.data.table import ArrayTable
from unpooled.errors import DataError
from unpooled.models.pca.private import local_private
from unpooled.models.private_rows import on_lattice
from unpooled.party.steps import add_noise as noising
from unpooled.protocol.bounds import LATTICE
from unpooled.protocol.message import decode
from wire import silos

# Fixtures of another module.
__all__ = ["rows"]

pytest.importorskip("opendp")


@pytest.mark.parametrize("secure_sum", ["masked", "plain"])
def test_with_little_noise_it_is_the_pooled_answer(rows, secure_sum):
    ours = PCA(K, privacy=LOOSE).fit(open_silos(rows, secure_sum=secure_sum))
    theirs = sklearn.decomposition.PCA(K).fit(rows)

    # Noise of 0.04 lattice steps' worth in each of N = 3,000 rows' products.
    angles = scipy.linalg.subspace_angles(ours.components_.T, theirs.components_.T)
    assert np.degrees(angles.max()) < 2.0
    assert_allclose(ours.mean_, theirs.mean_, atol=0.05)
    assert_allclose(ours.explained_variance_, theirs.explained_variance_, rtol=0.05)
    assert ours.n_samples_ == pytest.approx(len(rows), abs=30)


def test_totals_are_exact_but_for_the_noise(rows, monkeypatch):
    monkeypatch.setattr(
        noising, "discrete_gaussian", lambda sigma, size: np.zeros(size, np.int64)
    )
    privacy = GaussianPrivacy(1.0, 1e-5, 1000.0, centre=[1.0] * P)
    ours = PCA(K, privacy=privacy).fit(open_silos(rows))
    # Rounded to a lattice of 1000 / 8192: 0.12, whose squares over 12 add to variances.
    assert ours.n_samples_ == len(rows)
    assert_allclose(ours.mean_, rows.mean(axis=0), atol=0.01)
    step = 1000.0 / LATTICE
    wanted = sklearn.decomposition.PCA(K).fit(rows).explained_variance_ + step**2 / 12
    assert_allclose(ours.explained_variance_, wanted, rtol=0.01)


def test_rows_on_the_lattice_are_never_longer_than_its_norm():
    rng = np.random.default_rng(1)
    for p in (1, 7, 500):
        X = rng.standard_normal((200, p)) * np.logspace(-3, 200, 200)[:, None]
        Y = on_lattice(X, np.zeros(p), 2.0)
        assert (Y == np.rint(Y)).all()
        assert np.einsum("ij,ij->i", Y, Y).max() <= LATTICE**2


@pytest.mark.parametrize("seed", range(5))
def test_one_row_moves_totals_by_no_more_than_the_declared_sensitivity(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((20, 5)) * rng.choice([0.1, 1.0, 50.0], (20, 1))
    public = {"centre": np.zeros(5), "row_norm": 3.0, "epsilon": 1.0, "delta": 1e-5}
    with_it, without = local_private(X, **public), local_private(X[1:], **public)
    spent = 0.0
    for name, declared in local_private.declared.items():
        moved = np.linalg.norm(with_it[name] - without[name])
        assert declared.noise is not None
        assert moved <= declared.noise.sensitivity
        spent += declared.noise.share
    assert spent == pytest.approx(1.0)


def test_the_ledger_and_the_plan(rows):
    federation = open_silos(rows)
    model = PCA(K, privacy=LOOSE).fit(federation)
    seen = fields(federation.ledger, "step name shape", direction="out")
    assert seen == [
        ("pca.local_private", "count", ()),
        ("pca.local_private", "total", (P,)),
        ("pca.local_private", "scatter", (P, P)),
    ]
    assert {x.round for x in federation.ledger} == {1}
    planned = plan(PCA(K, privacy=LOOSE), federation)
    assert fields(planned.releases, "name bytes") == fields(
        federation.ledger, "name bytes"
    )
    told = model.privacy_
    assert (told["epsilon"], told["delta"]) == (400.0, 1e-5)
    assert told["neighbours"] == "one row more or less, in any silo"
    assert model.signal_to_noise_.shape == (K,)
    assert (np.diff(model.signal_to_noise_) <= 0).all()


@pytest.mark.slow
def test_noise_alone_has_a_signal_of_about_one():
    rows = np.zeros((2000, 200))
    model = PCA(privacy=GaussianPrivacy(5.0, 1e-5, 1.0)).fit(open_silos(rows))
    # The edge of the semicircle, with a deviation of 0.018 about 0.98 at p = 200: nine
    # scales of the Tracy-Widom distribution below, and more above.
    assert 0.85 < model.signal_to_noise_[0] < 1.2


@pytest.mark.slow
def test_saves_loads_and_clones(rows, tmp_path):
    model = PCA(K, privacy=LOOSE).fit(open_silos(rows))
    loaded = load(save(model, tmp_path / "model.unpooled"))
    assert loaded.privacy == LOOSE
    assert loaded.privacy_ == model.privacy_
    np.testing.assert_array_equal(loaded.components_, model.components_)
    as_in_a_file = {"epsilon": 400.0, "delta": 1e-5, "row_norm": 30.0}
    assert PCA(K, privacy=as_in_a_file).fit(open_silos(rows)).privacy_["delta"] == 1e-5
    exact = model.set_params(privacy=None).fit(open_silos(rows))
    assert not hasattr(exact, "privacy_")


def test_a_reply_asked_for_again_is_the_same_bytes(rows):
    here = silos({n: rows[i::3] for i, n in enumerate("abc")}, policy=Policy.open())
    again = []

    def twice(party, data):
        if decode(data).header["kind"] == "step":
            again.append(here.parties[party].handle(data))
        return data

    here.wire.on_request = twice
    PCA(K, privacy=LOOSE).fit(here.federation)
    assert again == [data for _, data in here.wire.of_kind("released")]


# --- What it costs, and what is refused ----------------------------------------------


def test_a_row_with_a_missing_or_infinite_value_counts_as_the_centre(rows, monkeypatch):
    monkeypatch.setattr(
        noising, "discrete_gaussian", lambda sigma, size: np.zeros(size, np.int64)
    )
    holes, centred = rows.copy(), rows.copy()
    holes[3, 1], holes[4, 0], holes[5, 2] = np.nan, np.inf, 1e200
    centred[3:6] = 1.0
    privacy = GaussianPrivacy(400.0, 1e-5, 30.0, centre=1.0)
    seen, wanted = (
        PCA(K, privacy=privacy).fit(open_silos(X)) for X in (holes, centred)
    )
    np.testing.assert_array_equal(seen.mean_, wanted.mean_)
    np.testing.assert_array_equal(seen.components_, wanted.components_)
    assert seen.n_samples_ == len(rows)


def test_noise_as_large_as_the_rows(monkeypatch):
    monkeypatch.setattr(
        noising,
        "discrete_gaussian",
        lambda sigma, size: np.full(size, -np.rint(sigma), np.int64),
    )
    silo = ArrayTable(np.zeros((10, 2)))
    federation = simulate({"a": silo, "b": silo, "c": silo})
    with pytest.raises(DataError, match="noise is as large as the number of rows"):
        PCA(1, privacy=GaussianPrivacy(0.01, 1e-5, 1.0)).fit(federation)
