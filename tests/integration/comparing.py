"""What it means that two runs gave the same."""

from collections.abc import Mapping

import numpy as np
import pytest

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
    for key, value in fitted.items():
        assert_equal(getattr(ours, key), value, key)


def assert_equal(ours, theirs, where):
    if isinstance(theirs, np.ndarray) and theirs.dtype.kind == "f":
        # Equal totals give equal arrays; BLAS may add blocks in another order.
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12, err_msg=where)
    elif isinstance(theirs, np.ndarray):
        assert ours.tolist() == theirs.tolist(), where
    elif isinstance(theirs, float):
        assert ours == pytest.approx(theirs, rel=1e-12, nan_ok=True), where
    elif isinstance(theirs, Mapping):
        assert ours.keys() == theirs.keys(), where
        for key, value in theirs.items():
            assert_equal(ours[key], value, f"{where}[{key!r}]")
    elif isinstance(theirs, list | tuple):
        assert len(ours) == len(theirs), where
        for number, value in enumerate(theirs):
            assert_equal(ours[number], value, f"{where}[{number}]")
    elif hasattr(theirs, "__dict__") and not isinstance(theirs, type):
        assert type(ours) is type(theirs), where
        assert_equal(vars(ours), vars(theirs), where)
    else:
        assert ours == theirs, where
