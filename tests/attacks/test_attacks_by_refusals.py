"""What a coordinator learns of one silo from what is refused, and how soon it ends.

Silos count refusals over all studies and plans, hide whose value had no code, and
count the numbers that they have opened.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
import pytest

import unpooled as up
from attacks import PERSON
from unpooled.arrays import Array
from unpooled.errors import AggregationError, ReleaseRefusedError
from unpooled.models.preprocessing import power
from unpooled.party.rules.released_share import pooled_rows
from unpooled.protocol.message import decode
from unpooled.protocol.view_operations import Rows, Select
from wire import COLUMNS, PATIENT, Rogue, Silos, rows, silos

TABLES = {name: rows(40 + 9 * i, 3, seed=i) for i, name in enumerate("abc")}
QUESTIONS = 60
NOW = "2026-01-01T00:00:00+00:00"


def bisect(low: float, high: float, refused: Callable[[float], bool]) -> float:
    """Return the largest place that is refused, of those below it all are."""
    for _ in range(QUESTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if refused(middle) else (low, middle)
    return low


# --- row counts by plans alone --------------------------------------------------------


def planned(rogue: Rogue, share: float) -> str:
    """Ask b, without joining, whether it would answer about a share of its rows."""
    part = (Select(rogue.columns), Rows(0, 0, share, False, -1))
    header, _ = rogue.request("imputer.local_counts", None, part).as_message()
    header |= {"kind": "plan", "parties": list(TABLES)}
    return rogue.say("b", header).header["rule"]


def test_plans_alone_do_not_tell_the_number_of_rows():
    """The share that is `min_rows` of b told its rows: now no share is refused."""
    rogue = Rogue(silos(TABLES, policy={}))
    assert {planned(rogue, share) for share in np.linspace(0.01, 0.99, 25)} == {""}


def test_three_refusals_end_plans_and_studies_whatever_the_study_is_called():
    here = silos({**TABLES, "b": rows(9)}, policy={})
    parts = [("x0",), ("x1",), ("x2",), ("x0", "x1"), ("x1", "x2")]
    said = [
        planned(Rogue(here, study=f"s{k}", columns=columns), 0.5)
        for k, columns in enumerate(parts)
    ]
    assert said == ["min_rows"] * 3 + ["refusals"] * 2
    rules = Rogue(here, study="another").enter().rules("pca.local_total")
    assert rules["b"] == "refusals"
    # The others were asked nothing.
    assert rules["a"] == rules["c"] == ""


# --- own squares, by bounds and permuted columns --------------------------------------


def answers(here: Silos, bound: float, order: tuple[str, ...]) -> tuple[str, bool]:
    """Ask b for its products under a bound of x1's; also tell if all could be opened.

    Each order of the columns is a view of its own.
    """
    rogue = Rogue(here, columns=order).enter()
    rogue.rules("pca.local_squares", {"mean": np.zeros(3)})
    squares = np.where(np.array(order) == "x1", bound, 1e30)
    try:
        rogue.totals("pca.local_scatter", {"squares": squares})
    except AggregationError:
        return "", False
    except KeyError:
        return "refused", False
    return "", True


def orders() -> list[tuple[str, ...]]:
    """Selections with x1 in them: a new view each time, as far as it goes."""
    x, y, z = COLUMNS
    return [(x, y, z), (x, z, y), (y, x, z), (y, z, x), (z, x, y), (z, y, x)]


@pytest.mark.slow
def test_own_squares_are_not_had_by_permuted_columns():
    here = silos(TABLES, policy={})
    own = (TABLES["b"][:, 1] ** 2).sum()
    low, high, refused = 0.0, 1e6, 0
    for number in range(QUESTIONS):
        middle = (low + high) / 2
        said, opened = answers(here, middle, orders()[number % 6])
        refused += said == "refused"
        low, high = (low, middle) if opened else (middle, high)
    # Nobody says which silo it was whose value is beyond the bound; and it ends.
    assert refused > QUESTIONS / 2
    assert abs(high - own) > 0.05 * own


def test_a_silo_beyond_a_bound_does_not_show_among_the_others():
    """All reply alike, and what they send adds up to noise."""
    here = silos({**TABLES, "b": 100.0 * TABLES["b"]}, policy={})
    rogue = Rogue(here).enter()
    rogue.totals("pca.local_squares", {"mean": np.zeros(3)})
    request = rogue.request("pca.local_scatter", {"squares": np.full(3, 1e4)})
    replies = {p: rogue.say(p, *request.as_message()) for p in rogue.names}
    assert {r.header["kind"] for r in replies.values()} == {"released"}
    assert len({tuple(sorted(r.header)) for r in replies.values()}) == 1
    assert len({r.arrays["scatter"].shape for r in replies.values()}) == 1
    # b alone knows, and its person can read it in the log.
    counted = {
        name: list(
            party._studies._audit_log.state().refusals.rules(
                "2020-01-01T00:00:00+00:00", 1e9
            )
        )
        for name, party in here.parties.items()
    }
    assert [name for name, found in counted.items() if found] == ["b"]


# --- own largest value, by overflow ---------------------------------------------------


def at(lam: float) -> dict[str, Array]:
    """Return what ψ is asked with; the number of cells is judged before."""
    count = np.full(1, float(sum(map(len, TABLES.values()))))
    reference = {"centre": np.zeros(1), "spread": np.ones(1)}
    return {"count": count, "lambdas": np.array([lam]), **reference}


def overflows(lam: float) -> bool:
    """Whether ψ of b's largest value is beyond the range of a code for three silos."""
    with np.errstate(all="ignore"):
        sums = power.local_transformed(TABLES["b"][:, [1]], **at(lam))
    return not all(np.abs(x) < 2.0**126 / 3 for x in sums.values())


def refused_from(policy: Any) -> float:
    """Look for the λ from which b says, by a refusal, that ψ overflows."""
    here = silos(TABLES, policy=policy)

    def refuses(lam: float) -> bool:
        view = (Select(("x1",)),)
        rogue = Rogue(here, columns=("x1",)).enter()
        # Without the counts, which silos judge first, no sums are sent.
        rogue.rules("power.local_count", None, view)
        rule = rogue.rules("power.local_transformed", at(lam), view)["b"]
        assert rule in ("", "fixed_point_range", "refusals")
        return bool(rule)

    return bisect(0.0, 500.0, lambda lam: not refuses(lam))


@pytest.mark.slow
@pytest.mark.parametrize("policy", [{}, PATIENT])
def test_an_overflow_does_not_tell_a_silos_own_largest_value(policy):
    edge = bisect(0.0, 500.0, lambda lam: not overflows(lam))
    assert 20 < edge < 100
    assert abs(refused_from(policy) - edge) > 0.2 * edge


# --- many small fits: the budget of numbers -------------------------------------------


def fits(policy: Any, most: int) -> tuple[int, str]:
    """Ask for sums of other shares of the rows until a silo refuses."""
    here, rules = silos(TABLES, policy=policy), set[str]()
    for k in range(most):
        part = (Select(COLUMNS), Rows(k % 3, 3, 0.0, False, k // 3))
        rogue = Rogue(here, study=f"s{k}").enter()
        rules = set(rogue.rules("pca.local_total", None, part).values()) - {""}
        if rules:
            return k, min(rules)
    return most, ""


@pytest.mark.slow
def test_many_small_distinct_fits_end_with_the_budget():
    free = {"min_rows": 0}
    number, rule = fits({**free}, 200)
    assert rule == "max_released_share"
    # Of 40, 49 and 58 rows: 0.33 of 147 cells, 4 numbers a time about 3 columns.
    assert number == math.floor(0.33 * 147 / (4 / 3))
    assert fits({**free, **PATIENT}, 60) == (60, "")


def refused_at(n_rows: int) -> tuple[list[int], str]:
    """Ask b, which counts its own rows only, for one total after another.

    Returns which of the questions it refused, and what it says to one afterwards.
    """
    here = silos({**TABLES, "b": rows(n_rows)}, policy={})
    for party in here.parties.values():
        party.simulated_rows = None
    refused = list[int]()
    for k in range(40):
        # Each column has numbers of its own, and each choice was a refusal of its own.
        columns = ("x0", "x1", "x2")[: 1 + k % 3]
        rogue = Rogue(here, study=f"s{k}", columns=columns).enter()
        said = rogue.rules(
            "pca.local_squares", {"mean": np.full(len(columns), float(k))}
        )
        if said["b"]:
            assert said["b"] == "max_released_share"
            refused.append(k)
    return refused, Rogue(here, study="last").enter().rules("pca.local_total")["b"]


@pytest.mark.slow
def test_what_the_budget_refuses_is_one_refusal_and_tells_rounded_rows():
    """One refusal tells at how many numbers a silo ends; others tell no more.

    So they need not end what the silo answers: studies are repeated, and tried with
    fewer columns.
    """
    refused, said = refused_at(32)
    # All columns have the limit that the first one met: 0.33 of three times 32 cells.
    assert refused == list(range(31, 40))
    assert said in ("", "max_released_share")
    # It tells whether the silo has 32 to 35 rows, or 36 to 39, and not how many.
    assert refused_at(35) == (refused, said)
    assert refused_at(36) != (refused, said)


def test_a_silo_with_more_rows_than_all_had_rounds_them():
    """Its limit is a number of its own then, and found by one refusal."""
    assert pooled_rows(1000, 3, "rows", 1, known=2600) == 2600
    assert {pooled_rows(n, 3, "rows", 1, known=90) for n in range(96, 104)} == {96}


@pytest.mark.slow
def test_the_same_fit_again_costs_nothing():
    here = silos(TABLES, policy={})
    for k in range(40):
        rogue = Rogue(here, study=f"s{k}").enter()
        assert set(rogue.rules("pca.local_total").values()) == {""}


@pytest.mark.slow
def test_changed_rows_are_another_question():
    """A total of a later table is another number, and counts."""
    tables = {name: X.copy() for name, X in TABLES.items()}
    here, rules = silos(tables, policy={"min_changed_rows": 0}), set[str]()
    for k in range(40):
        for X in tables.values():
            X[:, 0] += 1.0
        rogue = Rogue(here, study=f"s{k}").enter()
        rules = set(rogue.rules("pca.local_total").values())
    assert rules - {""} == {"max_released_share"}


@pytest.mark.slow
@pytest.mark.parametrize("wide", [{"max_released_share": 3.0}, PATIENT])
def test_a_silo_may_allow_more(wide):
    assert fits({"min_rows": 0, **wide}, 40) == (40, "")


# --- the largest value, by counts of one beyond an edge -------------------------------


def outlier() -> dict[str, pd.DataFrame]:
    """Tables in which the largest value of b is far from the others."""
    rng = np.random.default_rng(3)
    tables = {
        name: pd.DataFrame({"m": rng.normal(50, 10, 100), "x": np.arange(100.0)})
        for name in "abc"
    }
    tables["b"].loc[PERSON, "m"] = 95.3
    return tables


def alone_beyond(
    here: Silos, edges: Sequence[float], name: str = "b"
) -> list[tuple[float, str]]:
    """Ask for two bins on either side of each edge; return what a silo answers."""
    found = list[tuple[float, str]]()
    view = here.federation.select(["m"])
    for edge in edges:
        ranges = {"m": (2.0 * edge - 150.0, 150.0)}
        here.wire.received.clear()
        model = up.KBinsDiscretizer(2, strategy="uniform", ranges=ranges)
        with suppress(ReleaseRefusedError):
            model.fit(view)
        refused = [data for p, data in here.wire.of_kind("refused") if p == name]
        found.append((edge, decode(refused[0]).header["rule"] if refused else ""))
    return found


@pytest.mark.slow
def test_edges_are_not_tried_until_nobody_is_beyond():
    here = silos(outlier(), policy={}, follow=True)
    found = alone_beyond(here, np.arange(85.0, 96.0, 0.5).tolist())
    rules = [rule for _, rule in found]
    assert rules[:3] == ["min_own_cells"] * 3
    assert set(rules[3:]) == {"refusals"}


def test_control_without_a_limit_of_refusals_they_tell_the_largest_value():
    here = silos(outlier(), policy={"max_refusals": math.inf}, follow=True)
    found = alone_beyond(here, np.arange(85.0, 97.0, 0.25).tolist())
    assert max(edge for edge, rule in found if rule == "min_own_cells") == 95.25


@pytest.mark.slow
def test_the_same_edges_are_one_question():
    here = silos(outlier(), policy={}, follow=True)
    assert {rule for _, rule in alone_beyond(here, [90.0] * 6)} == {"min_own_cells"}


@pytest.mark.slow
def test_categories_of_a_silo_are_not_counted_by_refusals():
    """On a column partition: how small is the smallest one?"""
    rng = np.random.default_rng(0)
    names = np.repeat(["p", "q", "r"], [150, 46, 4]).astype(object)
    tables = {
        "a": pd.DataFrame({"diagnosis": names}),
        "b": pd.DataFrame({"x": rng.normal(size=200)}),
        "c": pd.DataFrame({"z": rng.normal(size=200)}),
    }
    here = up.simulate(
        tables, partition="columns", follow=True, categorical=["diagnosis"]
    )
    rules = []
    for fewest in (None, 2, 2, 3, 4):
        with pytest.raises(ReleaseRefusedError) as refused:
            up.OneHotEncoder(min_frequency=fewest).fit(here)
        rules.append(refused.value.rule)
    assert rules == ["min_rows_per_class"] * 4 + ["refusals"]
    # The others answered first, about no categories of theirs.
    here = up.simulate(
        tables, partition="columns", follow=True, categorical=["diagnosis"]
    )
    with pytest.raises(ReleaseRefusedError, match="min_rows_per_class"):
        up.OneHotEncoder(min_frequency=None).fit(here)
    up.OneHotEncoder(min_frequency=10).fit(here)
