"""The oracle hides nothing, adds exactly what it is given, and is never a default."""

import numpy as np
import pytest

import unpooled as up
from unpooled.errors import AggregationError, DataError
from unpooled.models.moments import local_total
from unpooled.protocol.message import decode
from unpooled.secure.sums.fixed_point import WideCode
from unpooled.secure.sums.plain import PlainSum
from wire import Rogue, silos

CODE = WideCode(3)


def test_values_travel_as_they_are():
    values = np.array([1.0, -2.5, 1e300])
    assert (PlainSum().conceal(values, CODE, b"") == values).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused(bad):
    with pytest.raises(AggregationError, match="not finite") as refused:
        PlainSum().conceal(np.array([1.0, bad]), CODE, b"")
    assert refused.value.rule == "fixed_point_range"


def test_adding_is_in_order_and_leaves_the_parts_alone():
    parts = [np.array([1e16]), np.array([1.0]), np.array([-1e16])]
    copies = [part.copy() for part in parts]

    total = PlainSum().added(iter(parts), CODE)

    assert total == ((1e16 + 1.0) + -1e16)
    assert all((a == b).all() for a, b in zip(parts, copies, strict=True))


def test_plain_and_masked_agree_to_the_last_digits():
    tables = {
        n: np.random.default_rng(i).normal(size=(40, 4)) for i, n in enumerate("abc")
    }
    fits = [
        up.PCA().fit(up.simulate(tables, secure_sum=s)) for s in ("plain", "masked")
    ]

    for name in ("mean_", "components_", "explained_variance_"):
        plain, masked = (getattr(fit, name) for fit in fits)
        np.testing.assert_allclose(plain, masked, rtol=0, atol=1e-14)


def test_plain_shows_each_partys_own_values_and_the_ledger_its_type():
    here = silos(secure_sum="plain")
    here.federation.asked_by("pca").sum(local_total)

    seen = [decode(data).arrays["total"] for _, data in here.wire.of_kind("released")]
    own = [party.table for party in here.parties.values()]
    for total, table in zip(seen, own, strict=True):
        (block,) = table.blocks(table.columns)
        np.testing.assert_allclose(total, block.X.sum(axis=0))
    assert {line.dtype for line in here.ledger} == {"float64"}


def test_a_coordinator_cannot_switch_the_masks_off():
    """Silos of a masked study refuse one in clear, whoever asks."""
    here = silos()
    rogue = Rogue(here, protection="plain")

    replies = rogue.join()

    assert {r.header["rule"] for r in replies.values()} == {"allow_disclosed"}
    assert set(rogue.rules("pca.local_total").values()) == {"out_of_order"}


def test_a_silo_that_discloses_may_answer_in_clear():
    here = silos(policy={"a": {"allow_disclosed": True}, "b": {}, "c": {}})
    replies = Rogue(here, protection="plain").join()
    assert replies["a"].header["kind"] == "offer"
    assert replies["b"].header["rule"] == "allow_disclosed"


def test_only_two_protections_exist():
    with pytest.raises(DataError, match='choose "masked" or "plain"'):
        silos(secure_sum="none")
    replies = Rogue(silos(), protection="none").join()
    assert {r.header["rule"] for r in replies.values()} == {"malformed_message"}
