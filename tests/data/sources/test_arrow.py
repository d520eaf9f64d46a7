import datetime
import decimal

import numpy as np
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal

from unpooled.data.sources.arrow import is_number, numbers_of, values_of


def column(cells, kind=None):
    return pa.chunked_array([pa.array(cells, kind)])


@pytest.mark.parametrize(
    ("cells", "kind", "expected"),
    [
        ([1.5, None, np.inf], pa.float64(), [1.5, np.nan, np.inf]),
        ([1.5, None], pa.float32(), [1.5, np.nan]),
        ([np.float16(1.5), None], pa.float16(), [1.5, np.nan]),
        ([1, None, -3], pa.int8(), [1.0, np.nan, -3.0]),
        ([2**63 + 2**11, None], pa.uint64(), [2.0**63 + 2.0**11, np.nan]),
        ([2**53 + 1], pa.int64(), [2.0**53]),
        ([True, None, False], pa.bool_(), [1.0, np.nan, 0.0]),
        ([decimal.Decimal("1.25"), None], pa.decimal128(20, 2), [1.25, np.nan]),
        ([None, None], pa.null(), [np.nan, np.nan]),
        ([None, None], pa.string(), [np.nan, np.nan]),
        ([], pa.float64(), []),
    ],
)
def test_cells_become_float64(cells, kind, expected):
    numbers = numbers_of(column(cells, kind))

    assert numbers.dtype == np.float64
    assert_array_equal(numbers, expected)


@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.float32(), pa.bool_(), pa.decimal128(3), pa.null()]
)
def test_numbers_are_recognised(kind):
    assert is_number(kind)


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.date32(), pa.duration("s"), pa.list_(pa.int8())]
)
def test_what_is_no_number_is_not(kind):
    assert not is_number(kind)


@pytest.mark.parametrize(
    ("cells", "kind", "has_missing", "expected", "dtype"),
    [
        ([0, 1], pa.int32(), False, [0, 1], np.int32),
        ([0, 1], pa.int32(), True, [0.0, 1.0], np.float64),
        ([0, None], pa.int32(), True, [0.0, np.nan], np.float64),
        ([True], pa.bool_(), False, [True], np.bool_),
        ([True], pa.bool_(), True, [1.0], np.float64),
        ([decimal.Decimal(2)], pa.decimal128(3), False, [2.0], np.float64),
    ],
)
def test_numeric_labels_have_one_dtype_in_all_blocks(
    cells, kind, has_missing, expected, dtype
):
    values = values_of(column(cells, kind), has_missing)

    assert values.dtype == dtype
    assert_array_equal(values, expected)


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.dictionary(pa.int8(), pa.string()),
    ],
)
def test_text_labels_are_objects_with_none(kind):
    values = values_of(column(["a", None, "b"]).cast(kind), True)

    assert values.dtype == object
    assert values.tolist() == ["a", None, "b"]


def test_labels_without_any_value_are_none():
    assert values_of(column([None, None]), True).tolist() == [None, None]


def test_dates_stay_dates():
    day = datetime.date(2020, 1, 31)

    assert values_of(column([day]), False).tolist() == [day]
