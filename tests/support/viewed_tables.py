"""Small tables, and the operations on rows that views are made of."""

from typing import Any

import numpy as np
from hypothesis import strategies as st

from unpooled.data.sources.open_source import open_source
from unpooled.protocol.view_operations import (
    Rows,
)

NAMES = ("x0", "x1", "x2")


def table_of(n: int, p: int = 3, seed: int = 0) -> Any:
    return open_source(np.random.default_rng(seed).standard_normal((n, p)))


ROWS = st.builds(
    lambda of, fold, complement, seed: Rows(fold % of, of, 0.0, complement, seed),
    st.integers(1, 7),
    st.integers(0, 6),
    st.booleans(),
    st.integers(-1, 5),
) | st.builds(
    lambda share, complement, seed: Rows(0, 0, share, complement, seed),
    st.floats(0, 1),
    st.booleans(),
    st.integers(-1, 5),
)
