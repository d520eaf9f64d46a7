"""Attacks on the masked words themselves, each beside a control that succeeds.

References
----------
Kariyappa et al., Cocktail Party Attack: Breaking Aggregation-Based Privacy in Federated
Learning Using Independent Component Analysis, ICML 2023.

Bonawitz et al., Practical Secure Aggregation for Privacy-Preserving Machine Learning,
CCS 2017.
"""

import numpy as np
import pandas
import pytest
from numpy.testing import assert_allclose

from attacks import COINS, by_chance, two_valued, unmixed
from unpooled.arrays import Array
from unpooled.errors import AggregationError
from unpooled.protocol.message import decode, encode
from unpooled.secure.sums.fixed_point import WideCode
from unpooled.secure.sums.masking import MaskedSum
from wire import Rogue, rows, silos

TABLES = {name: rows(seed=i) for i, name in enumerate("abc")}

# --- independent components of what the silos send ------------------------------------


def unmixed_under(secure_sum: str, n_components: int | None) -> tuple[Array, int]:
    tables, secrets = two_valued("abc")
    named = {name: dict(zip(COINS, X.T, strict=True)) for name, X in tables.items()}
    frames = {name: pandas.DataFrame(columns) for name, columns in named.items()}
    here = silos(frames, secure_sum=secure_sum)
    rogue = Rogue(here, protection=secure_sum, columns=COINS).enter()
    return unmixed(rogue, secrets, n_components)


@pytest.mark.slow
def test_independent_components_of_masked_words_show_nothing():
    """Kariyappa et al. 2023, on what each silo sends instead of on totals."""
    found, k = unmixed_under("masked", None)
    assert k == 6 * 3 * 4
    assert by_chance(k, 6) < 0.2
    assert found.max() < by_chance(k, 6)


@pytest.mark.slow
def test_control_independent_components_of_plain_arrays_are_the_secrets():
    found, _ = unmixed_under("plain", 6)
    assert found.min() > 0.98


# --- one mask, two vectors ------------------------------------------------------------


def test_a_retry_never_reuses_a_mask():
    """A one-time pad used twice is no pad (Bonawitz et al. 2017, section 4)."""
    here = silos(TABLES)
    rogue, door = Rogue(here).enter(), here.parties["b"].handle
    step = "pca.local_squares"

    def in_first_round(mean: float) -> bytes:
        rogue.round = 0
        return encode(*rogue.request(step, {"mean": np.full(3, mean)}).as_message())

    first = door(in_first_round(0.0))
    for other in (1.0, 1e-300, np.nan):
        refused = decode(door(in_first_round(other)))
        assert refused.header["rule"] == "replayed"
        assert not refused.arrays
        # The reply that was lost is sent again, byte for byte.
        assert door(in_first_round(0.0)) == first

    # The same question in a session of its own meets other keys in every word.
    again = Rogue(here).enter().step(step, {"mean": np.zeros(3)})["b"]
    words = decode(first).arrays["squares"]
    assert (again.arrays["squares"] != words).all()


def test_a_round_that_failed_has_spent_its_masks():
    here = silos(TABLES)
    rogue = Rogue(here).enter()
    for mean, rule in ((np.nan, "arguments"), (0.0, "replayed")):
        rogue.round = 0
        rules = rogue.rules("pca.local_squares", {"mean": np.full(3, mean)})
        assert set(rules.values()) == {rule}


def test_control_two_vectors_under_one_context_subtract_to_their_difference():
    rng, code = np.random.default_rng(4), WideCode(3)
    party = MaskedSum("b", {peer: rng.bytes(32) for peer in "ac"})
    x, y = rng.standard_normal((2, 100))

    def difference(one: bytes, other: bytes) -> Array:
        words = party.conceal(x, code, one)
        code.subtract(words, party.conceal(y, code, other))
        for _ in range(3):  # the guard words of three parties
            code.add(words, code.encode(np.zeros(100)))
        return code.decode(words)

    assert_allclose(difference(b"round 1", b"round 1"), x - y, rtol=1e-12, atol=1e-15)
    # Under two contexts the difference is noise over the whole ring, far out of range.
    with pytest.raises(AggregationError):
        difference(b"round 1", b"round 2")
