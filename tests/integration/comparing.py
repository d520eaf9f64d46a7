"""What it means that two runs gave the same."""

from collections.abc import Mapping

import numpy as np
import pytest

import unpooled as up

FIELDS = "study round step name shape dtype bytes visibility direction parties"


def lines(ledger):
    """Return a ledger up to what must differ: times, seals and hashes."""
    return [tuple(getattr(line, name) for name in FIELDS.split()) for line in ledger]


def assert_equal_models(ours, theirs):
    """Compare everything that was fitted."""
    fitted = {
        key: value
        for key, value in vars(theirs).items()
        if key.endswith("_") and not key.startswith("_")
    }
    assert fitted
    assert type(ours) is type(theirs)
    # Equal totals give equal arrays; BLAS may add blocks in another order. Correlations
    # of columns in different silos are rounded in secret, up or down by 1e-13; partial
    # ones are of their inverse.
    in_secret = isinstance(theirs, up.Correlation) and "mean_" not in fitted
    for key, value in fitted.items():
        assert_equal(getattr(ours, key), value, key, 1e-9 if in_secret else 1e-12)


def assert_equal(ours, theirs, where, tol):
    if isinstance(theirs, np.ndarray) and theirs.dtype.kind == "f":
        np.testing.assert_allclose(ours, theirs, rtol=tol, atol=tol, err_msg=where)
    elif isinstance(theirs, np.ndarray):
        assert ours.tolist() == theirs.tolist(), where
    elif isinstance(theirs, float):
        assert ours == pytest.approx(theirs, rel=tol, nan_ok=True), where
    elif isinstance(theirs, Mapping):
        assert ours.keys() == theirs.keys(), where
        for key, value in theirs.items():
            assert_equal(ours[key], value, f"{where}[{key!r}]", tol)
    elif isinstance(theirs, list | tuple):
        assert len(ours) == len(theirs), where
        for number, value in enumerate(theirs):
            assert_equal(ours[number], value, f"{where}[{number}]", tol)
    elif hasattr(theirs, "__dict__") and not isinstance(theirs, type):
        assert type(ours) is type(theirs), where
        assert_equal(vars(ours), vars(theirs), where, tol)
    else:
        assert ours == theirs, where
