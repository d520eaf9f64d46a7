"""A fit as a party sees it: rows in blocks, folds and views of them."""

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from session_silos import POOLED, TABLES, block_sizes, here, ran
from unpooled.arrays import Array
from unpooled.data.row_blocks import Block
from unpooled.data.sources.open_source import open_source
from unpooled.data.table import Table
from unpooled.errors import ReleaseRefusedError
from unpooled.protocol.step import summed
from unpooled.protocol.view_operations import Rows, Select
from wire import Rogue, Silos, silos

# Fixtures of another module.
__all__ = ["here"]


class SmallBlocks(Table):
    """A table that is read seven rows at a time."""

    def __init__(self, X: Array) -> None:
        self._inner = open_source(X)
        self.columns, self.named = self._inner.columns, self._inner.named
        self.label = self.ids = None

    @property
    def n_rows(self) -> int:
        return self._inner.n_rows

    def blocks(
        self, columns: Sequence[str], extra: Sequence[str] = (), rows: int | None = None
    ) -> Iterator[Block]:
        return self._inner.blocks(columns, extra, rows=7)


@pytest.fixture
def in_blocks() -> Silos:
    return silos({name: SmallBlocks(X) for name, X in TABLES.items()})


# --- blocks and parties ---------------------------------------------------------------


@summed(by="party", largest="p", count="")
def all_rows_together(X: Array) -> dict[str, Array]:
    ran.append(len(X))
    return {"largest": X.max(axis=0), "count": np.array(float(len(X)))}


@summed(total="p")
def writes_into_rows(X: Array) -> dict[str, Array]:
    X += 1.0
    return {"total": X.sum(axis=0)}


@summed(first="p")
def returns_views(X: Array) -> dict[str, Array]:
    return {"first": X[0]}


def test_a_step_by_rows_runs_block_by_block(in_blocks):
    ran.clear()
    totals = in_blocks.federation.sum(block_sizes)
    assert ran == [7, 7, 7, 7, 2] * 3
    np.testing.assert_allclose(totals["total"], POOLED.sum(axis=0), rtol=1e-13)
    assert totals["count"] == 90


def test_a_step_by_party_sees_the_rows_together(in_blocks):
    ran.clear()
    totals = in_blocks.federation.sum(all_rows_together)
    assert ran == [30, 30, 30]
    expected = sum(X.max(axis=0) for X in TABLES.values())
    np.testing.assert_allclose(totals["largest"], expected, rtol=1e-14)


def test_adding_blocks_never_writes_into_the_silos_rows(in_blocks):
    copies = {name: X.copy() for name, X in TABLES.items()}
    for _ in range(2):
        in_blocks.federation.sum(returns_views)
    with pytest.raises(ReleaseRefusedError, match="failed_in_silo"):
        in_blocks.federation.sum(writes_into_rows)
    for name, X in TABLES.items():
        assert (X == copies[name]).all()


# --- transforms -----------------------------------------------------------------------


@pytest.mark.slow
def test_folds_are_chosen_in_the_silo_and_partition_its_rows(in_blocks):
    federation = in_blocks.federation
    ran.clear()
    pairs = federation.folds(3, random_state=1)
    totals = [fold.sum(block_sizes) for fold in pairs[0] + pairs[1] + pairs[2]]
    for train, test in zip(totals[::2], totals[1::2], strict=True):
        assert train["count"] + test["count"] == 90
        both = train["total"] + test["total"]
        np.testing.assert_allclose(both, POOLED.sum(axis=0), rtol=1e-13)
    assert sum(float(t["count"]) for t in totals[1::2]) == 90


def test_rows_operations_compose():
    """A fold of a training part, on a selection: as numpy says."""
    here = silos(TABLES, policy={"min_rows": 5})
    rogue = Rogue(here).enter()
    train, fold = Rows(0, 0, 0.4, True, -1), Rows(1, 2, 0.0, False, -1)
    chain = (Select(("x1", "x0")), train, fold)
    totals = rogue.observed("scaler", chain)
    expected, blocks = np.zeros(2), fold.chosen(train.chosen(range(20)))
    # 30 rows in 6 blocks at most, of which 5 are common, and these are some.
    n = 3 * 6 * sum(block < 5 for block in blocks)
    assert totals["count"].tolist() == [n, n]
    assert 0 < n < 90
    for name, X in TABLES.items():
        cut = here.parties[name]._studies.cuts.of(here.parties[name].table)
        expected += X[np.isin(cut.block_of, blocks)][:, [1, 0]].sum(axis=0)
    np.testing.assert_allclose(totals["total"], expected, rtol=1e-13)
