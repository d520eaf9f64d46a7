"""Ids in one form: what makes no difference, what does, and what is refused."""

import math
import unicodedata

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unpooled.data.ids import match_report, normalised, read_ids
from unpooled.data.sources.open_source import open_source
from unpooled.errors import RULES, DataError


def visible(text):
    return "".join(c for c in text if unicodedata.category(c) != "Cf").strip()


TEXTS = st.text(min_size=1).filter(lambda t: visible(unicodedata.normalize("NFKC", t)))


@pytest.mark.parametrize(
    ("value", "same"),
    [
        (" Ab-7\t", "ab-7"),
        ("ＡＢ－７", "ab-7"),
        ("Straße", "STRASSE"),
        ("é", "é"),
        ("a  b\n c", "a b c"),
        ("a\u200bb\ufeff", "ab"),
        (7, "7"),
        (7.0, "7"),
        (np.float64(7), "7"),
        (np.int32(7), "7"),
        ("7.0", "7"),
        ("7.", "7"),
        ("-7.00", "-7"),
        (2**70, str(2**70)),
        (0.5, "0.5"),
    ],
)
def test_makes_no_difference(value, same):
    assert normalised(value) == normalised(same)


@pytest.mark.parametrize(
    ("one", "other"),
    [("007", "7"), ("a b", "ab"), ("7.5", "7"), ("a", "b"), ("1", "l"), ("+7", "7")],
)
def test_makes_a_difference(one, other):
    assert normalised(one) != normalised(other)


@given(TEXTS)
def test_form_is_the_same_when_normalised_again(text):
    assert normalised(normalised(text)) == normalised(text)


@given(TEXTS, st.sampled_from([" ", "\t", "\u00a0", "\u3000", "\u200b"]))
def test_case_and_space_around_make_no_difference(text, space):
    assert normalised(space + text + space) == normalised(text)
    assert normalised(unicodedata.normalize("NFD", text)) == normalised(
        unicodedata.normalize("NFC", text)
    )


@given(st.integers())
def test_numbers_are_their_text(number):
    assert normalised(number) == normalised(str(number)) == normalised(f" {number}.0")


@given(st.integers(-(2**53), 2**53))
def test_numbers_may_have_passed_through_floating_point(number):
    assert normalised(float(number)) == normalised(number)


@pytest.mark.parametrize(
    "value", [None, math.nan, "", "  ", "\u200b", np.float64("nan"), 1e17, math.inf]
)
def test_no_id_is_refused(value):
    with pytest.raises(DataError) as refused:
        normalised(value)

    assert refused.value.rule == "missing_ids"


def table(values, **options):
    frame = pd.DataFrame({"id": values, "x": np.arange(len(values), dtype=float)})
    return open_source(frame, **{"ids": "id", **options})


def test_ids_are_read_in_order():
    assert read_ids(table(["B ", "a", "7.0"])) == [b"b", b"a", b"7"]
    assert read_ids(table([3, 1, 2])) == [b"3", b"1", b"2"]


@pytest.mark.parametrize(
    ("ids", "rule", "message"),
    [
        (["a", "b", " A"], "duplicate_ids", "1 ids in several rows, such as a"),
        (["a", None], "missing_ids", "Row 1, column 'id': a row has no id"),
        (["a", " "], "missing_ids", "blank"),
    ],
)
def test_bad_ids_are_refused_under_a_rule(ids, rule, message):
    with pytest.raises(DataError, match=message) as refused:
        read_ids(table(ids))

    assert refused.value.rule == rule
    assert rule in RULES


def test_a_table_without_ids_is_refused():
    with pytest.raises(DataError, match="no id column") as refused:
        read_ids(table(["a"], ids=None, label="id"))

    assert refused.value.rule == "no_ids"


def test_match_report_counts():
    assert match_report(1200, 900) == (
        "900 of 1,200 rows are common to all silos (75.0%)."
    )
