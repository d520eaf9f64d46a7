"""What a request with noise costs, and what ledger lines cost together."""

import pytest

from unpooled.ledger.lines import Release
from unpooled.models.moments import local_total
from unpooled.models.pca.private import local_private_shape
from unpooled.protocol.privacy_cost import cost, spent
from unpooled.protocol.refusal import Refusal
from unpooled.secure.noise import epsilon_of, rho_of

PROMISE = {"epsilon": 1.0, "delta": 1e-5}


def line(step, rho=0.0, delta=0.0, direction="out"):
    return Release(
        study="s",
        round=1,
        step=step,
        name="total",
        shape=(),
        dtype="float64",
        bytes=8,
        visibility="summed",
        direction=direction,
        parties=("a", "b"),
        rho=rho,
        delta=delta,
    )


def test_shares_of_a_promise_cost_it_together():
    whole = rho_of(1.0, 1e-5)
    assert cost(local_private_shape, PROMISE) == whole
    shares = [cost(local_private_shape, {**PROMISE, "share": s}) for s in (0.25, 0.75)]
    assert shares == pytest.approx([0.25 * whole, 0.75 * whole])
    assert cost(local_private_shape, {**PROMISE, "share": 1.0}) == whole
    assert cost(local_total, {}) == 0.0


@pytest.mark.parametrize(
    "changed",
    [
        {"share": share}
        for share in (0.0, -0.5, 1.0 + 1e-9, float("nan"), 1, "0.5", None)
    ]
    + [{"epsilon": e} for e in (0.0, -1.0, float("inf"), float("nan"), 1, None)]
    + [{"delta": d} for d in (0.0, 1.0, -1e-5, float("nan"), 1, None)],
)
def test_what_is_no_promise_is_refused(changed):
    with pytest.raises(Refusal, match="arguments"):
        cost(local_private_shape, PROMISE | changed)


def test_lines_cost_their_sum_at_the_smallest_delta():
    lines = [
        line("scaler.a", 0.02, 1e-5),
        line("pca.b", 0.03, 1e-6),
        line("pca.b", 0.01, 1e-6),
        line("pca.c"),
        # What entered a silo cost nothing there.
        line("pca.d", 5.0, 1e-9, "in"),
    ]
    found = spent(lines)
    assert found is not None
    assert found.rho == pytest.approx(0.06)
    assert found.delta == 1e-6
    assert found.epsilon == epsilon_of(found.rho, 1e-6)
    assert (found.steps, found.exact) == (("scaler.a", "pca.b"), ("pca.c",))
    assert "of all steps" in str(found)
    assert "does not cover what leaves without noise: pca.c" in str(found)
    assert spent(lines[3:]) is None
