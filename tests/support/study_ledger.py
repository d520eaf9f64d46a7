"""A study with lines of every kind, and its ledger."""

import pytest
from sklearn.pipeline import make_pipeline

import unpooled as up
from unpooled.arrays import Array
from unpooled.ledger import Ledger
from unpooled.models.moments import local_squares, local_total
from unpooled.protocol.step import disclosed, kept
from wire import Silos, rows, silos


@disclosed(total="p")
def shown(X: Array) -> dict[str, Array]:
    return {"total": X.sum(axis=0)}


@kept(total="p")
def stays_here(X: Array) -> dict[str, Array]:
    return {"total": X.sum(axis=0)}


@pytest.fixture(scope="module")
def here() -> Silos:
    """A study with lines of every kind."""
    tables = {name: rows(seed=i) for i, name in enumerate("abc")}
    made = silos(tables, policy={"allow_disclosed": True})
    federation = made.federation
    make_pipeline(up.SimpleImputer(), up.StandardScaler(), up.PCA(2)).fit(federation)
    with federation.fitting():
        asked = federation.asked_by("pca")
        veiled = asked.sum(local_total, to="parties")["total"]
        asked.sum(local_squares, mean=veiled)
        federation.collect(shown)
        federation.keep(stays_here)
    return made


@pytest.fixture(scope="module")
def ledger(here) -> Ledger:
    assert len(here.ledger) > 15
    assert {line.visibility for line in here.ledger} == {
        "summed", "veiled", "disclosed", "kept", "public",
    }  # fmt: skip
    return here.ledger
