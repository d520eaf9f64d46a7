"""Rows on a lattice, and what private estimators are judged by."""

import numpy as np
import pytest

from unpooled import GaussianPrivacy
from unpooled.party.steps import add_noise

P, K = 6, 2
# So much that the noise is below what is compared.
LOOSE = GaussianPrivacy(400.0, 1e-5, 30.0)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(7)
    return rng.standard_normal((3000, P)) * [4, 2, 1, 0.5, 0.5, 0.5] + 1.0


def without_noise(monkeypatch):
    monkeypatch.setattr(
        add_noise, "discrete_gaussian", lambda sigma, size: np.zeros(size, np.int64)
    )


def check_sensitivity(step, others, row, **public):
    """Check that a row moves totals by no more than the step declares."""
    without = step(others, **public)
    with_it = step(np.vstack([others, row]), **public)
    shares = 0.0
    for name, declared in step.declared.items():
        assert declared.noise is not None
        moved = np.linalg.norm(with_it[name] - without[name])
        assert moved <= declared.noise.sensitivity
        assert (with_it[name] == np.rint(with_it[name])).all()
        shares += declared.noise.share
    assert shares == pytest.approx(1.0)
