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


@pytest.mark.slow
def test_a_number_is_not_compared_with_every_row():
    here = up.simulate(tables(), follow=True, policy={"max_refusals": 1000})
    largest = max(float(table["x"].max()) for table in tables().values())
    said = {refusal(here, number) for number in (largest - 0.1, largest + 0.1, 20.0)}
    assert said == {"derived_order"}


@pytest.mark.slow
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


def flagged(few: int) -> dict[str, pd.DataFrame]:
    """Tables of which one has `few` people with a flag that nobody else has."""
    rng = np.random.default_rng(2)
    made = {
        name: pd.DataFrame({"flag": 0.0, "age": rng.integers(20, 80, 60).astype(float)})
        for name in "abc"
    }
    made["b"].loc[: few - 1, "flag"] = 1.0
    return made


def ages_of_two(**policy: object) -> list[int]:
    here = up.simulate(flagged(2), follow=True, policy=policy)
    view = up.DerivedColumns({"both": "flag * age"}).fit(here).transform(here)
    scaler = up.StandardScaler().fit(view.select(["both"]))
    n = scaler.n_samples_seen_
    total, squares = n * scaler.mean_[0], n * (scaler.var_[0] + scaler.mean_[0] ** 2)
    apart = np.sqrt(2.0 * squares - total**2)
    return sorted(round(one) for one in ((total - apart) / 2, (total + apart) / 2))


def test_control_two_people_with_a_flag_are_solved_for():
    ages = flagged(2)["b"]["age"][:2]
    assert ages_of_two(min_rows_per_class=1) == sorted(ages.astype(int))


def test_a_product_with_a_flag_of_two_people_is_refused():
    with pytest.raises(ReleaseRefusedError, match="derived_rows"):
        ages_of_two()


def doses() -> dict[str, pd.DataFrame]:
    """Tables in which one person of b has next to none of a dose."""
    rng = np.random.default_rng(4)
    made = {
        name: pd.DataFrame(
            {"age": rng.normal(55, 9, 60), "pressure": rng.normal(90, 12, 60)}
        ).assign(dose=rng.lognormal(0.0, 0.5, 60))
        for name in "abc"
    }
    made["b"].loc[3, "dose"] = 0.002
    return made


def record_by_ratios(**policy: object) -> list[float]:
    """Return a record up to one factor, from means and variances of ratios alone."""
    here = up.simulate(doses(), follow=True, policy=policy)
    made = {"one": "age / dose", "two": "pressure / dose"}
    view = up.DerivedColumns(made).fit(here).transform(here)
    scaler = up.StandardScaler().fit(view.select(list(made)))
    assert scaler.var_ is not None
    assert scaler.mean_ is not None
    return list(np.sqrt(180 * (scaler.var_ + scaler.mean_**2)))


def test_control_ratios_by_a_dose_next_to_0_are_one_persons_record():
    person = doses()["b"].loc[3]
    found = record_by_ratios(max_leverage=1.0)
    wanted = [person["age"] / person["dose"], person["pressure"] / person["dose"]]
    assert np.allclose(found, wanted, rtol=1e-3)


def test_ratios_by_a_dose_next_to_0_are_refused():
    with pytest.raises(ReleaseRefusedError, match="derived_rows"):
        record_by_ratios()


def test_a_product_with_a_flag_of_some_people_is_answered():
    here = up.simulate(flagged(5), follow=True)
    view = up.DerivedColumns({"both": "flag * age"}).fit(here).transform(here)
    up.StandardScaler().fit(view)
