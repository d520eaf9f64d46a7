"""Attacks on the masked words themselves, each beside a control that succeeds.

References
----------
Kariyappa et al., Cocktail Party Attack: Breaking Aggregation-Based Privacy in Federated
Learning Using Independent Component Analysis, ICML 2023.

Bonawitz et al., Practical Secure Aggregation for Privacy-Preserving Machine Learning,
CCS 2017.
"""

import math
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from unpooled.arrays import Array
from unpooled.errors import AggregationError
from unpooled.party.operations import Select
from unpooled.secure.fixed_point import WideCode
from unpooled.secure.masking import MaskedSum
from unpooled.secure.message import decode, encode
from wire import Rogue, rows, silos

TABLES = {name: rows(seed=i) for i, name in enumerate("abc")}

# --- independent components of what the silos send ------------------------------------

MANY = 1500
ALL_MANY = (Select(tuple(f"x{j}" for j in range(MANY))),)


def two_valued() -> tuple[dict[str, Array], Array]:
    """Three silos whose columns' means and spreads are coins: (6, MANY) secrets.

    The squares of a column about c are n (spread² + (mean - c)²) = n (spread² + 1 + c²
    - 2 c mean) for means of ±1: what a silo sends in rounds with different c are
    mixtures of its two vectors of coins.
    """
    rng = np.random.default_rng(3)
    coins = rng.choice([-1.0, 1.0], (3, 2, MANY))
    z = np.where(np.arange(30) % 2, 1.0, -1.0)
    tables = {
        name: mean + (1.0 + 0.5 * spread) * z[:, None]
        for name, (mean, spread) in zip("abc", coins, strict=True)
    }
    return tables, coins.reshape(6, MANY)


def unmixed(secure_sum: str, n_components: int | None) -> tuple[Array, int]:
    """Return each secret's best correlation with a component, and how many those are.

    A row of what is unmixed is what one silo sent in one round; of masked words, a row
    for each 64 bits of the number.
    """
    from sklearn.decomposition import FastICA

    tables, secrets = two_valued()
    here = silos(tables, secure_sum=secure_sum)
    rogue = Rogue(here, protection=secure_sum).enter()
    seen = []
    for c in (-2.0, -1.0, -0.5, 0.5, 1.0, 2.0):
        mean = {"mean": np.full(MANY, c)}
        for reply in rogue.step("scaler.local_squares", mean, ALL_MANY).values():
            seen.append(reply.arrays["squares"].reshape(MANY, -1).astype(float))
    ica = FastICA(n_components, max_iter=25, random_state=0)
    with warnings.catch_warnings():
        # On noise it has nothing to converge to.
        warnings.simplefilter("ignore")
        components = ica.fit_transform(np.hstack(seen)).T
    k = len(components)
    return np.abs(np.corrcoef(components, secrets)[:k, k:]).max(axis=0), k


def test_independent_components_of_masked_words_show_nothing():
    """Kariyappa et al. 2023, on what each silo sends instead of on totals.

    The secrets are fair coins u, independent of the words and so of any component w of
    length 1 made of them. By Hoeffding |w . u| exceeds t sqrt(d) with probability at
    most 2 exp(-d t² / 2); at the t below one of all pairs does with at most 1e-9. A
    coin's sample deviation, by which a correlation divides too, is above 0.99.
    """
    found, k = unmixed("masked", None)
    assert k == 6 * 3 * 4
    t = math.sqrt(2 * math.log(2 * 6 * k / 1e-9) / MANY)
    assert t < 0.2
    assert found.max() < t / 0.99


def test_control_independent_components_of_plain_arrays_are_the_secrets():
    found, _ = unmixed("plain", 6)
    assert found.min() > 0.98


# --- one mask, two vectors ------------------------------------------------------------


def test_a_retry_never_reuses_a_mask():
    """A one-time pad used twice is no pad (Bonawitz et al. 2017, section 4)."""
    here = silos(TABLES)
    rogue, door = Rogue(here).enter(), here.parties["b"].handle
    step = "scaler.local_squares"

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
        rules = rogue.rules("scaler.local_squares", {"mean": np.full(3, mean)})
        assert set(rules.values()) == {rule}


def test_control_two_vectors_under_one_context_subtract_to_their_difference():
    rng, code = np.random.default_rng(4), WideCode(3)
    party = MaskedSum("b", {peer: rng.bytes(32) for peer in "ac"})
    x, y = rng.standard_normal((2, 100))

    def difference(one: bytes, other: bytes) -> Array:
        words = party.conceal(x, code, one)
        code.subtract(words, party.conceal(y, code, other))
        return code.decode(words)

    assert_allclose(difference(b"round 1", b"round 1"), x - y, rtol=1e-12, atol=1e-15)
    # Under two contexts the difference is noise over the whole ring, far out of range.
    with pytest.raises(AggregationError):
        difference(b"round 1", b"round 2")
