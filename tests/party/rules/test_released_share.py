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


def test_products_over_some_blocks_count_for_all_that_have_these_blocks():
    opened, rows = OpenedNumbers(), {0: 10, 1: 10, 2: 20}

    def share(blocks: list[int], question: str = "new") -> float:
        record = {"numbers": 6.0, "people": 0, "question": question}
        record |= {"share": 0.0, "part": ["table", blocks]}
        found = opened.share_of_parts(
            ["a", "b"], record, lambda some: sum(rows[block] for block in some)
        )
        opened.see(["a", "b"], record)
        return found

    # Three numbers about each of the columns.
    assert share([0, 1], "both") == 3.0 / 20
    assert share([0], "one") == max(3.0 / 10, 6.0 / 20)
    assert share([0], "one") == 0.0
    # Of the two together there are nine, of the other block by itself three.
    assert share([1], "other") == max(3.0 / 10, 9.0 / 20)
    assert share([2], "third") == 3.0 / 20
    # What was opened about all three is about neither of them alone.
    assert share([0, 1, 2], "all") == 15.0 / 40
