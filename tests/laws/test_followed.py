"""Every estimator is followed: each silo makes the same call and finds the same bits.

Three silos, each of which runs the program on totals that it checked, refuse any
request that differs in a bit. So a fit that ends was followed to its end.
"""

import numpy as np
import pytest

import unpooled as up
from unpooled.models.base import fitted_names
from unpooled.models.files.catalogue import estimators
from unpooled.party.following import FOLLOWED
from ways import WAYS, Way

CASES = [
    pytest.param(name, way, id=f"{name}-{number}")
    for name, ways in WAYS.items()
    for number, way in enumerate(ways)
]
# Without a seed of its own, a fit draws from the session's.
SEEDS = [0, None]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("name", "way"), CASES)
def test_a_fit_is_followed_to_its_end(name: str, way: Way, seed: int | None):
    at = way.silos(follow=True, random_state=seed)
    model = way.fitted(estimators()[name](), at)

    # Another call tells the silos how this one ended.
    end(at.federation)

    for party in at.parties.values():
        (note,) = party.audit_log.notes(FOLLOWED)
        assert note["study"] == "study"
    if seed is None:
        return
    alone = way.fitted(estimators()[name](), way.silos(random_state=seed))
    assert fitted_names(model) == fitted_names(alone)
    for attribute in fitted_names(model):
        found, wanted = getattr(model, attribute), getattr(alone, attribute)
        if isinstance(found, np.ndarray) and found.dtype.kind == "f":
            np.testing.assert_array_equal(found, wanted)


def end(federation: up.Federation) -> None:
    if federation.partition == "rows":
        up.StandardScaler().fit(federation)
    else:
        up.PCA(1, svd_solver="gram").fit(federation)
