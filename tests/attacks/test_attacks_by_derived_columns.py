"""One silo's largest value by what derived columns refuse.

A logarithm has no value for some numbers, and a silo that has such a row refuses. With
constants, which are ratios and sums of columns, and differences to them the refusal
compared every row with a number that the analyst chose: bisection gave the largest
value of one silo to as many digits as one liked, and no refusal was counted.
"""

import numpy as np
import pandas as pd
import pytest

import unpooled as up
from unpooled.errors import DATA_RULES, DataError, ReleaseRefusedError

BITS = 10


def tables():
    rng = np.random.default_rng(0)
    return {
        name: pd.DataFrame({"x": 1.0 + rng.lognormal(0, 0.5, 60)}) for name in "abc"
    }


def above(number: float) -> list[up.DerivedColumns]:
    """Return steps that end with the logarithm of a number less the column."""
    chain = [{"one": "x / x", "zero": "x - x"}, {"less": "zero - one"}]
    chain.append({"two": "one - less"})
    now, bits = "one", bin(round(number * 2**BITS))[3:]
    for i, bit in enumerate(bits):
        chain.append({f"d{i}": f"{now} * two"})
        now = f"d{i}"
        if bit == "1":
            chain.append({f"e{i}": f"{now} - less"})
            now = f"e{i}"
    for i in range(BITS):
        chain.append({f"f{i}": f"{now} / two"})
        now = f"f{i}"
    chain += [{"gap": f"{now} - x"}, {"log": "log(gap)"}]
    return [up.DerivedColumns(made) for made in chain]


def refusal(here: up.Federation, number: float) -> str:
    view = here
    for step in above(number):
        view = step.fit(view).transform(view)
    try:
        up.StandardScaler().fit(view.select(["log"]))
    except (DataError, ReleaseRefusedError) as refused:
        return refused.rule
    return ""


def test_a_number_is_not_compared_with_every_row():
    here = up.simulate(tables(), follow=True, policy={"max_refusals": 1000})
    largest = max(float(table["x"].max()) for table in tables().values())
    said = {refusal(here, number) for number in (largest - 0.1, largest + 0.1, 20.0)}
    assert said == {"derived_order"}


def test_what_no_logarithm_has_is_a_refusal_that_counts():
    assert DATA_RULES["derived_cells"] == "view"
    names = [f"x{j}" for j in range(4)]
    rows = np.random.default_rng(1).standard_normal((90, 4))
    frames = {n: pd.DataFrame(rows[i::3], columns=names) for i, n in enumerate("abc")}
    here, said = up.simulate(frames, follow=True), list[str]()
    for name in names:
        view = up.DerivedColumns({"log": f"log({name})"}).fit(here).transform(here)
        with pytest.raises((DataError, ReleaseRefusedError)) as refused:
            up.StandardScaler().fit(view)
        said.append(refused.value.rule)
    assert said == ["derived_cells"] * 3 + ["refusals"]
