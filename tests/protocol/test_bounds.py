"""Public bounds: both ends compute them, and what breaks one does not leave."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unpooled.errors import AggregationError
from unpooled.linalg.moments import pack, unpack
from unpooled.protocol.bounds import CauchySchwarz
from unpooled.protocol.step import release
from unpooled.protocol.wire_format import WireFormat
from unpooled.secure.sums.fixed_point import BoundedCode
from wire import Rogue, rows, silos

BOUND = CauchySchwarz("squares")
SCATTER = release("p p", symmetric=True, bound=BOUND)


def parts_of(scales: list[float], n_parties: int, seed: int) -> np.ndarray:
    """Scatters of parties about a common mean, columns of any scale."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_parties, 12, len(scales))) * scales
    X -= X.mean(axis=(0, 1))
    return X.transpose(0, 2, 1) @ X


SCALES = st.lists(st.integers(-8, 8).map(lambda k: 10.0**k), min_size=1, max_size=5)


@given(SCALES, st.integers(2, 6), st.integers(0, 99))
def test_totals_come_back_to_twelve_digits_of_their_bound(scales, n_parties, seed):
    parts = parts_of(scales, n_parties, seed)
    total = parts.sum(axis=0)
    public = {"squares": total.diagonal().copy()}
    code, form = BoundedCode(n_parties), WireFormat(SCATTER, total.shape, public)

    words = code.encode(form.flattened(parts[0]))
    for part in parts[1:]:
        code.add(words, code.encode(form.flattened(part)))
    back = form.restored(code.decode(words))

    bound = np.sqrt(np.outer(public["squares"], public["squares"]))
    assert (np.abs(back - total) <= 1e-12 * bound).all()
    np.testing.assert_allclose(back, back.T, rtol=1e-15)


@given(SCALES, st.integers(2, 6), st.integers(0, 99))
def test_every_part_keeps_the_bound_of_the_total(scales, n_parties, seed):
    """Cauchy-Schwarz over the parties: also the absolute values add to at most 1."""
    parts = parts_of(scales, n_parties, seed)
    public = {"squares": parts.sum(axis=0).diagonal().copy()}
    form = WireFormat(SCATTER, parts.shape[1:], public)
    units = [form.flattened(part) for part in parts]
    assert np.abs(units).sum(axis=0).max() <= 1 + 1e-12


def test_constant_columns_have_no_bound_of_zero():
    public = {"squares": np.array([0.0, 1.0])}
    S = np.array([[0.0, 0.0], [0.0, 1.0]])
    form = WireFormat(SCATTER, (2, 2), public)
    back = form.restored(form.flattened(S))
    np.testing.assert_allclose(back, S, atol=1e-30)


def test_only_the_upper_triangle_is_looked_at():
    public = {"squares": np.ones(3)}
    S = np.triu(np.full((3, 3), 0.5)) + np.tril(np.full((3, 3), np.nan), -1)
    form = WireFormat(SCATTER, (3, 3), public)
    back = form.restored(form.flattened(S))
    np.testing.assert_allclose(back, 0.5)


@given(st.integers(0, 9), st.integers(0, 99))
def test_packing_keeps_a_symmetric_array(p, seed):
    A = np.random.default_rng(seed).standard_normal((p, p))
    S = A + A.T
    packed = pack(S)
    assert packed.shape == (p * (p + 1) // 2,)
    assert (unpack(packed, p) == S).all()
    assert (packed == S[np.triu_indices(p)]).all()


@pytest.mark.parametrize("shape", [(3, 3), (1, 3, 3), (4, 2, 2), (2, 3, 2, 2)])
def test_symmetric_matrices_travel_as_triangles_one_after_another(shape):
    axes = " ".join("bc"[: len(shape) - 2]) + " p p"
    form = WireFormat(release(axes, symmetric=True), shape, {})
    X = np.random.default_rng(0).standard_normal(shape)
    value = X + X.swapaxes(-1, -2)
    flat = form.flattened(value)
    assert (form.n_numbers,) == flat.shape == form.words(None)[0]
    upper = value[..., *np.triu_indices(shape[-1])]
    assert (flat == upper.ravel()).all()
    assert (form.restored(flat) == value).all()


def test_arrays_without_symmetry_or_bound_travel_flat():
    form = WireFormat(release("p k"), (2, 3), {})
    value = np.arange(6.0).reshape(2, 3)
    flat = form.flattened(value)
    assert flat.tolist() == list(range(6))
    assert (form.restored(flat) == value).all()
    number = WireFormat(release(""), (), {})
    assert number.flattened(np.array(5.0)).tolist() == [5.0]
    assert number.restored(np.array([5.0])).shape == ()


@pytest.mark.thinned(1)
@pytest.mark.parametrize("made_up", [1e-3, 1e-30, 0.0, -1.0, -1e30])
def test_a_bound_that_is_too_small_makes_the_total_noise(made_up):
    """A coordinator that makes the bound up gets no clipped words."""
    here = silos()
    rogue = Rogue(here).enter()
    rogue.totals("pca.local_squares", {"mean": np.zeros(3)})
    with pytest.raises(AggregationError, match="outside the range"):
        rogue.totals("pca.local_scatter", {"squares": np.full(3, made_up)})


def test_a_bound_that_only_all_together_break_opens_nothing():
    here = silos({name: rows(30, seed=i) for i, name in enumerate("abcde")})
    rogue = Rogue(here).enter()
    squares = rogue.totals("pca.local_squares", {"mean": np.zeros(3)})["squares"]
    # Each silo has a fifth of the total, and passes; five of them are 4 / 3 of it.
    with pytest.raises(Exception, match="outside the range"):
        rogue.totals("pca.local_scatter", {"squares": squares * 0.75})
    rogue.totals("pca.local_squares", {"mean": np.zeros(3)})
    whole = rogue.totals("pca.local_scatter", {"squares": squares * 1.0})["scatter"]
    np.testing.assert_allclose(whole.diagonal(), squares, rtol=1e-12)


def test_an_enormous_bound_hides_the_total_and_nothing_else():
    rogue = Rogue(silos()).enter()
    rogue.totals("pca.local_squares", {"mean": np.zeros(3)})
    whole = rogue.totals("pca.local_scatter", {"squares": np.full(3, 1e200)})
    # In units of 1e200 the total is 0.
    assert not whole["scatter"].any()
