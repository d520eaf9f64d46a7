"""Numbers opened about each column are added up, whatever the order of the rounds."""

import numpy as np
import pytest

from unpooled.party.rules.released_share import OpenedNumbers


def entry(numbers: float, question: object) -> dict:
    return {"numbers": numbers, "people": 0, "question": str(question), "share": 0.0}


def test_rounds_about_several_choices_of_columns_add_up():
    rng, opened = np.random.default_rng(0), OpenedNumbers()
    choices = [("a",), ("a", "b"), ("b", "a"), ("b", "c", "d"), ()]
    known = dict.fromkeys("abcd", 0.0)

    for question in range(60):
        columns = choices[rng.integers(len(choices))]
        record = entry(float(rng.integers(1, 40)), question)
        more = record["numbers"] / max(len(columns), 1)
        most = max((known[column] for column in columns), default=0.0)
        # Some tens of additions of numbers below 1e3.
        share = opened.share_with(columns, record, 7)
        assert share == pytest.approx((most + more) / 7, rel=1e-13)
        opened.see(columns, record)
        opened.see(columns, record)  # the same question opens nothing more
        for column in columns:
            known[column] += more

    assert opened.of_column == pytest.approx(known, rel=1e-13)
    again = entry(5.0, 0)
    assert opened.share_with(("c",), again, 1) == pytest.approx(known["c"], rel=1e-13)
