"""A ledger's lines are what docstrings say, and what passed the wire."""

from typing import Any

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

import unpooled as up
from line_fields import fields
from study_ledger import here, ledger
from unpooled.ledger import VISIBILITIES, Ledger
from wire import rows

# Fixtures of another module.
__all__ = ["here", "ledger"]


# --- what a fit's ledger says ---------------------------------------------------------


def fitted(*models: Any) -> list[tuple[Any, ...]]:
    tables = {name: rows(seed=i) for i, name in enumerate("abcd")}
    federation = up.simulate(tables)
    make_pipeline(*models).fit(federation)
    assert federation.ledger.verify()
    return fields(
        federation.ledger, "round step name shape dtype bytes visibility direction"
    )


WIDE, NARROW, FLOAT = "uint256", "uint64", "float64"


def test_pca_releases_what_its_docstring_says():
    assert fitted(up.PCA(2)) == [
        (1, "pca.local_total", "count", (), WIDE, 64, "summed", "out"),
        (1, "pca.local_total", "total", (3,), WIDE, 128, "summed", "out"),
        (2, "pca.local_squares", "mean", (3,), FLOAT, 24, "public", "in"),
        (2, "pca.local_squares", "squares", (3,), WIDE, 128, "summed", "out"),
        (2, "pca.local_squares", "scatter", (3, 3), FLOAT, 0, "kept", "in"),
        (3, "pca.local_scatter", "squares", (3,), FLOAT, 24, "public", "in"),
        (3, "pca.local_scatter", "scatter", (3, 3), NARROW, 64, "summed", "out"),
    ]


def test_scaler_releases_what_its_docstring_says():
    assert fitted(up.StandardScaler()) == [
        (1, "scaler.local_counts", "count", (3,), WIDE, 128, "summed", "out"),
        (1, "scaler.local_counts", "total", (3,), FLOAT, 0, "kept", "in"),
        (2, "scaler.local_observed", "count", (3,), FLOAT, 24, "public", "in"),
        (2, "scaler.local_observed", "total", (3,), WIDE, 128, "summed", "out"),
        (3, "scaler.local_squares", "count", (3,), FLOAT, 24, "public", "in"),
        (3, "scaler.local_squares", "mean", (3,), FLOAT, 24, "public", "in"),
        (3, "scaler.local_squares", "squares", (3,), WIDE, 128, "summed", "out"),
    ]


def test_imputer_releases_what_its_docstring_says():
    assert fitted(up.SimpleImputer()) == [
        (1, "imputer.local_counts", "count", (3,), WIDE, 128, "summed", "out"),
        (1, "imputer.local_counts", "total", (3,), FLOAT, 0, "kept", "in"),
        (2, "imputer.local_observed", "count", (3,), FLOAT, 24, "public", "in"),
        (2, "imputer.local_observed", "total", (3,), WIDE, 128, "summed", "out"),
    ]


@pytest.mark.slow
def test_a_pipeline_sends_each_transform_once_per_fit():
    lines = fitted(up.SimpleImputer(), up.StandardScaler(), up.PCA(2))
    came = [(line[0], line[1], line[2], line[6]) for line in lines if line[7] == "in"]
    filled = [("imputer.imputed", "statistics", "public")]
    standardised = [
        ("scaler.standardised", "mean", "public"),
        ("scaler.standardised", "scale", "public"),
    ]
    assert came == [
        (1, "imputer.local_counts", "total", "kept"),
        (2, "imputer.local_observed", "count", "public"),
        *[(3, *line) for line in filled],
        (3, "scaler.local_counts", "total", "kept"),
        (4, "scaler.local_observed", "count", "public"),
        (5, "scaler.local_squares", "count", "public"),
        (5, "scaler.local_squares", "mean", "public"),
        *[(6, *line) for line in (*filled, *standardised)],
        (7, "pca.local_squares", "mean", "public"),
        (7, "pca.local_squares", "scatter", "kept"),
        (8, "pca.local_scatter", "squares", "public"),
    ]
    assert {line[6] for line in lines if line[7] == "out"} == {"summed"}


def test_bytes_are_those_on_the_wire(here, ledger):
    from unpooled.protocol.message import decode

    heard: dict[str, int] = dict.fromkeys("abc", 0)
    for party, data in here.wire.of_kind("released"):
        heard[party] += sum(a.nbytes for a in decode(data).arrays.values())
    for party in "abc":
        assert ledger.bytes_out(party) == heard[party] == ledger.bytes_out()
    assert ledger.bytes_out("mallory") == 0
    assert {line.visibility for line in ledger} <= set(VISIBILITIES)


# --- JSON -----------------------------------------------------------------------------


def test_ledgers_are_sequences_that_grow(here):
    tables = {name: rows(seed=i) for i, name in enumerate("abc")}
    federation = up.simulate(tables)
    up.SimpleImputer().fit(federation)
    ledger = federation.ledger
    first = list(ledger)
    assert ledger[0] is first[0]
    assert list(ledger[:1]) == first[:1]
    assert isinstance(ledger[:1], Ledger)
    up.SimpleImputer().fit(federation)
    assert list(ledger)[: len(first)] == first
    assert len(ledger) == 2 * len(first)
    with pytest.raises(TypeError):
        hash(ledger)
    assert ledger != first
    assert repr(ledger) == "<Ledger: 8 lines, 4 rounds, 512 bytes out per silo>"
    assert len(str(ledger).splitlines()) == 9
    assert "30" not in str(ledger)
    assert np.all([line.time for line in ledger])
