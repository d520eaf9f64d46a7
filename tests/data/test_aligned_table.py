"""Rows in another order: every way of reading them gives the same rows."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from unpooled.data import aligned_table
from unpooled.data.aligned_table import AlignedTable
from unpooled.data.sources.open_source import open_source

N = 23


@pytest.fixture
def frame():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.standard_normal((N, 3)), columns=["a", "b", "c"])
    frame["id"] = [f"p{i}" for i in range(N)]
    frame["y"] = rng.integers(0, 3, N)
    return frame


@given(st.permutations(range(N)), st.integers(1, N), st.integers(1, N + 2))
def test_rows_come_in_the_order_asked(order, count, rows):
    X = np.arange(2.0 * N).reshape(N, 2)
    wanted = np.array(order[:count])

    table = AlignedTable(open_source(X), wanted)
    blocks = list(table.blocks(("x1", "x0"), rows=rows))

    assert_array_equal(np.concatenate([b.X for b in blocks]), X[wanted][:, ::-1])
    assert [b.start for b in blocks] == list(range(0, count, rows))
    assert table.n_rows == count


@pytest.mark.parametrize("in_a_file", [False, True])
def test_label_and_ids_come_along(frame, in_a_file, monkeypatch, tmp_path):
    if in_a_file:
        monkeypatch.setattr(aligned_table, "_MOST_BYTES", 0)
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=5)
    source = open_source(tmp_path / "rows.parquet", label="y", ids="id")
    rows = np.array([7, 0, 22, 3])

    table = AlignedTable(source, rows)
    (block,) = table.blocks(table.columns, ["y", "id"])

    assert_array_equal(block.X, frame[["a", "b", "c"]].to_numpy()[rows])
    assert_array_equal(block.extra["y"], frame["y"].to_numpy()[rows])
    assert_array_equal(block.extra["id"], frame["id"].to_numpy(object)[rows])
    assert (table.label, table.ids, table.named) == ("y", "id", True)
    assert not block.X.flags.writeable


def test_only_ids_can_be_read(frame):
    table = AlignedTable(open_source(frame, label="y", ids="id"), np.array([2, 1]))

    (block,) = table.blocks((), ["id"])

    assert block.X.shape == (2, 0)
    assert_array_equal(block.extra["id"], ["p2", "p1"])
