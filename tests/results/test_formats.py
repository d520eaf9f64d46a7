"""Numbers as people write them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unpooled.results.formats import known_to, number, plain_number, ratio


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        # 20 leaves the tens, 5.1 the ones, 0.5 one decimal.
        (45.3123, 20.0, "50"),
        (45.3123, 5.1, "45"),
        (45.3123, 0.5, "45.3"),
        (-45.3123, 5.1, "−45"),
        (1234.5, 300.0, "1,200"),
        (0.00345, 0.0009, "0.0034"),
        (3.2, 5.0, "3"),
        # Rounded up to one digit more.
        (99.99, 0.3, "100.0"),
        (9.7, 2.0, "10"),
        # Nothing is known but that it is small beside the error.
        (3.2, 50.0, "0"),
        (2.5e7, 4e5, "2.50 × 10⁷"),
        # Exact, or as good as: four digits, as of any measured number.
        (45.3, 0.0, "45.30"),
        (54.0, 1e-14, "54.00"),
        (54.0, math.nan, "54.00"),
        (0.0, 3.0, "0"),
    ],
)
def test_digits_end_where_the_error_begins(value, error, text):
    assert known_to(value, error) == text


@given(
    st.floats(-1e12, 1e12, allow_subnormal=False),
    st.floats(0.0, 1e12, allow_subnormal=False),
)
def test_what_is_printed_lies_within_the_error(value, error):
    text = known_to(value, error).replace(",", "").replace("−", "-")
    digits, _, power = text.partition(" × 10")
    ordinary = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
    printed = float(f"{digits}e{power.translate(ordinary) or 0}")
    # Half a step, which is at most the error; or half a unit of the fourth digit.
    assert abs(printed - value) <= max(0.51 * error, 0.51e-3 * abs(value))
    if error and "." in digits and not power:
        # The last digit is not below the first one of the error.
        assert 10.0 ** -len(digits.partition(".")[2]) >= 0.09 * error


def test_measured_numbers_have_four_digits():
    assert [number(x) for x in (0.000123456, 12.3456, 123456.7, 1e9, -0.5)] == [
        "0.0001235",
        "12.35",
        "123,457",
        "1.000 × 10⁹",
        "−0.5000",
    ]


def test_chosen_numbers_have_their_own_digits_and_no_e():
    chosen = (10.0, 0.5, 1e-5, -2.5e-7, 80_000)
    assert [plain_number(x) for x in chosen] == [
        "10",
        "0.5",
        "10⁻⁵",
        "−2.5 × 10⁻⁷",
        "80,000",
    ]


def test_ratios_near_one_have_digits_of_what_tells_them_from_one():
    ratios = 1.0, 1.0164, 0.9968, 1.0000436, 0.9999968, 1.0 + 1e-12, 2.5, np.inf
    texts = ["1.000", "1.016", "0.9968", "1.000044", "0.9999968", "1.000", "2.500"]
    assert [ratio(x) for x in ratios] == [*texts, "inf"]
