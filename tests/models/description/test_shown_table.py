"""Numbers of a table that would give back a withheld count are withheld or rounded."""

import numpy as np
import pytest

from unpooled.models.description.shown_table import ShownTable, TableTotals


def table_of(ones, n):
    """A column of zeros and ones, in classes of n rows, and all rows behind them."""
    ones, n = (np.append(one, np.sum(one)).astype(float)[:, None] for one in (ones, n))
    squares = ones - ones**2 / n
    totals = TableTotals(
        rows=n[:, 0],
        count=n,
        total=ones,
        squares=squares,
        cells=np.zeros((len(n), 0, 65)),
        categorical=np.zeros(0, np.int64),
        frequent=np.zeros((0, 1), np.int64),
        fewest=5,
    )
    table = ShownTable.of(totals)
    return table, table.moments(totals, least=10)


@pytest.mark.parametrize("ones", [[3, 0], [2, 1]])
def test_a_mean_that_gives_a_withheld_count_is_rounded(ones):
    table, (mean, variance) = table_of(ones, [40, 40])
    assert table.of_all.tolist() == table.rounded.tolist() == [True]
    # 3 / 80 is 0.0375; an eighth of the deviation, 0.19, is rounded to a step of 0.02.
    assert mean[-1, 0] == pytest.approx(0.04)
    assert variance[:-1].tolist() == [[-1.0], [-1.0]]


def test_control_a_mean_of_frequent_values_keeps_its_digits():
    table, (mean, _) = table_of([3, 20], [40, 40])
    assert not table.rounded.any()
    assert mean[-1, 0] == 23 / 80
