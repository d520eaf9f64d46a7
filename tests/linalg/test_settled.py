"""Decompositions that machines agree on: hints are checked, and their bits used."""

from contextlib import suppress

import numpy as np
import pytest
from scipy.linalg import null_space

from unpooled.linalg.canonical_correlation import Covariances, canonical_directions
from unpooled.linalg.eigen import leading_eigenpairs, symmetric_eigenpairs
from unpooled.linalg.generalized_eigen import leading_pencil_pairs
from unpooled.linalg.krylov import leading_ritz_pairs
from unpooled.linalg.partial_least_squares import (
    leading_singular_pairs,
    partial_least_squares,
)
from unpooled.linalg.settled import (
    HintRefused,
    checking,
    completed,
    orthonormal_basis,
    product,
    recording,
    settled,
    unsettled,
)

RNG = np.random.default_rng(0)
X = RNG.standard_normal((200, 12)) * 0.8 ** np.arange(12)
S = X.T @ X
START = RNG.standard_normal((12, 5))
COVARIANCES = Covariances(S[:7, :7], S[:7, 7:], S[7:, 7:])

SOLVERS = {
    "eigenpairs": lambda: leading_eigenpairs(S, 4),
    "of a share": lambda: leading_eigenpairs(S, 12, lambda values: 3),
    "symmetric": lambda: symmetric_eigenpairs(S - 50 * np.eye(12), 4, 12),
    "pencil": lambda: leading_pencil_pairs(S, S + np.diag(np.arange(12.0)), 12, 3),
    "canonical": lambda: canonical_directions(COVARIANCES, 3),
    "singular": lambda: leading_singular_pairs(S[:5], 3),
    "least squares": lambda: partial_least_squares(COVARIANCES, 3, regression=True),
    "canonical least squares": lambda: partial_least_squares(
        COVARIANCES, 3, regression=False
    ),
    "krylov": lambda: leading_ritz_pairs(
        lambda V: S @ V, START, 2, tol=1e-9, max_iter=9
    ),
    "basis": lambda: orthonormal_basis(X),
}
EACH = pytest.mark.parametrize("name", list(SOLVERS))


def hints_of(name):
    with recording() as hints:
        SOLVERS[name]()
    return hints


def arrays_of(result):
    if isinstance(result, np.ndarray):
        return [result]
    return list(result) if isinstance(result, tuple) else list(vars(result).values())


def test_nothing_happens_outside_of_a_run():
    own = {"values": np.zeros(2)}

    assert settled("something", lambda: own, lambda found, own: False) is own


@EACH
def test_a_result_that_is_told_is_the_one_recorded(name):
    with recording() as hints:
        ours = SOLVERS[name]()

    with checking(iter(hints)):
        theirs = SOLVERS[name]()

    for a, b in zip(arrays_of(ours), arrays_of(theirs), strict=True):
        assert np.array_equal(a, b)


@EACH
def test_recording_changes_no_result(name):
    with recording():
        ours = SOLVERS[name]()

    for a, b in zip(arrays_of(ours), arrays_of(SOLVERS[name]()), strict=True):
        assert np.array_equal(a, b)


def changed(hints, where, key, value):
    found = [{n: dict(arrays) for n, arrays in hint.items()} for hint in hints]
    (name,) = found[where]
    found[where][name][key] = value
    return found


def each_array(hints):
    for where, hint in enumerate(hints):
        for arrays in hint.values():
            for key, value in arrays.items():
                if np.size(value):
                    yield where, key, np.asarray(value)


@pytest.mark.slow
@EACH
def test_a_hint_that_is_off_by_more_than_rounding_is_refused(name):
    hints = hints_of(name)
    for where, key, value in each_array(hints):
        for j in range(value.size):
            wrong = value.copy()
            wrong.flat[j] += 1e-9 * np.abs(value).max()
            with (
                checking(iter(changed(hints, where, key, wrong))),
                pytest.raises(HintRefused) as raised,
            ):
                SOLVERS[name]()
            assert raised.value.rule == "hint"


@EACH
def test_a_hint_within_rounding_is_taken(name):
    hints = hints_of(name)
    for where, key, value in each_array(hints):
        if name == "krylov" and where:
            # The residuals that follow are of these very bits.
            break
        close = value + 1e-16 * np.abs(value).max()
        with checking(iter(changed(hints, where, key, close))):
            SOLVERS[name]()


@pytest.mark.thinned(1)
@EACH
@pytest.mark.parametrize("how", ["shape", "type", "nan", "infinite", "name", "array"])
def test_a_hint_of_another_form_is_refused(name, how):
    hints = hints_of(name)
    for where, key, value in each_array(hints):
        found = changed(hints, where, key, value)
        (solved,) = found[where]
        arrays = found[where][solved]
        if how == "shape":
            arrays[key] = value[None]
        elif how == "type":
            arrays[key] = value.astype(np.float32)
        elif how == "nan":
            arrays[key] = np.full_like(value, np.nan)
        elif how == "infinite":
            arrays[key] = np.full_like(value, np.inf)
        elif how == "name":
            found[where] = {"something else": arrays}
        else:
            arrays["another"] = arrays.pop(key)
        with checking(iter(found)), pytest.raises(HintRefused):
            SOLVERS[name]()


def test_a_hint_that_is_missing_is_refused():
    with checking(iter([])), pytest.raises(HintRefused, match="not sent"):
        leading_eigenpairs(S, 2)


def test_other_directions_of_a_pencil_or_a_spectrum_are_refused():
    # Eigenpairs, orthonormal and exact, but not the leading ones.
    values, V = leading_eigenpairs(S, 6)
    hint = {"leading eigenpairs": {"values": values[1:3], "vectors": V[:, 1:3]}}

    with checking(iter([hint])), pytest.raises(HintRefused):
        leading_eigenpairs(S, 2)


def test_what_is_told_is_a_copy():
    hints = hints_of("eigenpairs")
    vectors = hints[0]["leading eigenpairs"]["vectors"]

    with checking(iter(hints)):
        found = settled(
            "leading eigenpairs",
            lambda: hints[0]["leading eigenpairs"],
            lambda found, own: True,
        )

    assert not found["vectors"].flags.writeable
    assert not np.shares_memory(found["vectors"], vectors)


def test_a_silos_own_steps_are_left_alone():
    with recording() as hints, unsettled():
        leading_eigenpairs(S, 2)
    assert hints == []

    with checking(iter([])), unsettled():
        leading_eigenpairs(S, 2)


def test_an_end_by_an_error_ends_the_run():
    with suppress(ZeroDivisionError), recording() as hints:
        raise ZeroDivisionError
    leading_eigenpairs(S, 2)
    assert hints == []


@pytest.mark.parametrize("r", [0, 1, 5, 11, 12])
def test_a_completed_basis_is_orthonormal_and_begins_as_before(r):
    V = np.linalg.qr(RNG.standard_normal((12, 12)))[0][:, :r]

    W = completed(V, 12)

    assert np.array_equal(W[:, :r], V)
    assert np.abs(W.T @ W - np.eye(12)).max() < 1e-14


def test_a_null_space_is_no_matter_of_choice():
    # Three columns are combinations of the others, one is constant.
    Y = X.copy()
    Y[:, 9:11], Y[:, 11] = Y[:, :2] + Y[:, 2:4], 0.0
    A = Y.T @ Y
    with recording() as hints:
        values, V = leading_eigenpairs(A, 12)

    assert (values[9:] == 0).all()
    assert np.abs(V.T @ V - np.eye(12)).max() < 1e-12
    assert np.abs(A @ V[:, 9:]).max() < 1e-9
    assert hints[0]["leading eigenpairs"]["vectors"].shape == (12, 9)
    others = {
        "values": values,
        "vectors": np.hstack([V[:, :9], null_space(V[:, :9].T)]),
    }
    with checking(iter([{"leading eigenpairs": others}])), pytest.raises(HintRefused):
        leading_eigenpairs(A, 12)


def test_a_product_in_a_fixed_order_is_the_product():
    A, B = RNG.standard_normal((30, 7)), RNG.standard_normal((7, 4))

    assert np.abs(product(A, B) - A @ B).max() < 1e-14


def test_equal_eigenvalues_leave_no_choice_of_directions():
    Q = np.linalg.qr(RNG.standard_normal((12, 12)))[0]
    A = (Q * np.array([9.0, 5.0, 5.0, 5.0, *np.linspace(2, 1, 8)])) @ Q.T
    A = (A + A.T) / 2
    with recording() as hints:
        values, ours = leading_eigenpairs(A, 5)
    turned = hints[0]["leading eigenpairs"]["vectors"].copy()
    turned[:, 1:4] = turned[:, 1:4] @ np.linalg.qr(RNG.standard_normal((3, 3)))[0]
    hint = {"leading eigenpairs": {"values": values, "vectors": turned}}

    with checking(iter([hint])):
        theirs = leading_eigenpairs(A, 5)[1]

    assert np.abs(ours - theirs).max() < 1e-13
    assert np.abs(ours.T @ ours - np.eye(5)).max() < 1e-13
    assert np.abs(A @ ours - ours * values).max() < 1e-12
