"""Rows for the tests of databases, and all blocks of a pass over them."""

import numpy as np
import pyarrow as pa
import pytest

from databases import write

NAMES = ["age", "chol", "oldpeak"]


def patients():
    """200 rows as silos have them: integers, fractions, missing cells, a text label."""
    rng = np.random.default_rng(5)
    table = {
        "age": pa.array(rng.integers(20, 90, 200)),
        "chol": pa.array([None, 0, *rng.integers(100, 400, 198).tolist()]),
        "oldpeak": pa.array([None] * 90 + (rng.random(110) * 7).tolist()),
        "num": pa.array(
            [None if i % 50 == 3 else f"class {i % 3}" for i in range(200)]
        ),
        "patient": pa.array([f"{i:05d}" for i in range(200)]),
    }
    return pa.table(table)


def whole(table, columns=None, extra=(), rows=None):
    """All blocks of one pass, joined."""
    blocks = list(table.blocks(columns or table.columns, extra, rows))
    X = np.vstack([b.X for b in blocks])
    return X, {n: np.concatenate([b.extra[n] for b in blocks]) for n in extra}


@pytest.fixture
def rows():
    return patients()


@pytest.fixture
def source(database, rows):
    write(database, "rows", rows)
    return f"{database}table=rows"
