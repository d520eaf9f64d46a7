"""Answers that a silo has forgotten, or compares with too little, each with a control.

The adversary is the coordinator, in as many studies and jobs as it likes; or whoever
gets hold of the file of a silo's audit log.
"""

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import unpooled as up
from attacks import PERSON, scatter, tables_of, with_a_hole
from jobs import Jobs
from unpooled.data.sources.open_source import open_source
from unpooled.errors import ReleaseRefusedError
from unpooled.models.discriminant.classes import names_of
from unpooled.party.rules.row_digests import (
    _SPREAD,
    former_digests,
    row_digests,
)
from unpooled.party.session import Session
from unpooled.protocol.view_operations import Derive, Rows, Select
from wire import COLUMNS, Rogue, rows, silos

HOLED = with_a_hole(tables_of("abc"))
RIDGES = np.geomspace(1.0, 1000.0, 16)
# Of `labelled` rows of three silos: which classes there are, and how many rows of each.
CLASSES = {"classes": names_of([0, 1]), "count": np.full(2, 60.0)}
_studies = itertools.count()
NAMED = list(enumerate("abc"))


def labelled(seed: int, n: int = 40) -> pd.DataFrame:
    """Return rows of one silo with a label; spreads differ between silos."""
    frame = pd.DataFrame(rows(n, seed=seed) * (1 + seed), columns=list(COLUMNS))
    return frame.assign(y=np.arange(n) % 2)


def rogue(doors, names=None) -> Rogue:
    """Enter with a study of its own."""
    return Rogue(doors, names, study=f"study-{next(_studies)}").enter()


@pytest.fixture
def jobs(tmp_path):
    return Jobs(tmp_path, {name: labelled(i) for i, name in enumerate("abc")}, "y")


# --- each silo's own scatter, from many settings of one total -------------------------


def whitened(asker: Rogue, ridge: float) -> float:
    """Return Σ a_s / (b_s + ridge), of one column."""
    public = {**CLASSES, "ridge": ridge}
    column = (Select(("x0",)),)
    return asker.totals("discriminant.local_whitened", public, column)["M"][0, 0]


def within(frame: pd.DataFrame) -> float:
    return sum(((g - g.mean()) ** 2).sum() for _, g in frame.groupby("y")["x0"])


@pytest.mark.slow
def test_many_ridges_do_not_give_each_silos_scatter(jobs):
    whitened(rogue(jobs.start()), 1.0)
    public = {**CLASSES, "ridge": 2.0}
    step, column = "discriminant.local_whitened", (Select(("x0",)),)
    for doors in (jobs.start(), jobs.start()):
        refused = rogue(doors).rules(step, public, column)
        assert set(refused.values()) == {"one_setting"}
        # Nor beside another column, on other rows, or as another model's step.
        some = Rows(0, 2, 0.0, False, 1)
        for chain in ((Select(("x1", "x0")),), (*column, some)):
            refused = rogue(doors).rules(step, public, chain)
            assert set(refused.values()) == {"one_setting"}
    # The same study once more is no other setting; nor is one on other columns.
    whitened(rogue(jobs.start()), 1.0)
    asked = rogue(jobs.start()).rules(step, public, (Select(("x1",)),))
    assert set(asked.values()) == {""}


def test_a_scaler_in_front_is_no_ridge(tmp_path):
    tables = {name: labelled(i) for i, name in enumerate("abc")}
    jobs = Jobs(tmp_path, tables, "y", {"allowed_steps": ["*"]})
    whitened(rogue(jobs.start()), 1.0)
    public = {"mean": np.zeros(1), "scale": np.full(1, 2.0)}
    scaled = (Select(("x0",)), Derive("scaler.standardised", ("x0",), public))
    same = {**CLASSES, "ridge": 1.0}
    refused = rogue(jobs.start()).rules("discriminant.local_whitened", same, scaled)
    assert set(refused.values()) == {"one_setting"}


def test_control_many_ridges_give_each_silos_scatter():
    tables = {name: labelled(i) for i, name in enumerate("abc")}
    here = silos(tables, label="y", policy={"allow_disclosed": True})
    asker = rogue(here)
    values = [whitened(asker, ridge) for ridge in RIDGES]
    own = sorted(within(frame) for frame in tables.values())
    assert_allclose(poles(RIDGES, np.array(values), 3), own, rtol=1e-3)


def poles(r: np.ndarray, M: np.ndarray, m: int) -> list[float]:
    """Return the b_s of Σ a_s / (b_s + r), from a fit of p(r) = M q(r), q monic."""
    unit = r.max()
    powers = np.vander(r / unit, m + 1, increasing=True)
    equations = np.hstack([powers[:, :m], -M[:, None] * powers[:, :m]])
    found = np.linalg.lstsq(equations, M * powers[:, m])[0]
    roots = np.roots([1.0, *found[m:][::-1]])
    return sorted(-unit * roots.real)


# --- one silo's own direction, from several starts of a merged one --------------------


def differences_of_starts(
    how: str, *, disclosed: bool
) -> tuple[dict[str, np.ndarray], list[np.ndarray]]:
    """Return the silos' columns, and how merged directions differ by their starts."""
    rng = np.random.default_rng(0)
    columns = {name: rng.normal(size=60) for name in "abc"}
    policy = {"allow_row_level": True, "allow_disclosed": disclosed}
    tables = {name: pd.DataFrame({f"of {name}": x}) for name, x in columns.items()}
    federation = up.simulate(
        tables, "columns", aligned=True, policy=policy, follow=not disclosed
    )
    merged = []
    for start in range(8):
        init = np.random.default_rng(start).normal(size=60)
        chosen = {"init": init} if how == "init" else {"random_state": start}
        model = up.VFedPCA(rounds=1, weights="equal", **chosen).fit(federation)
        merged.append(model.history_[0]["u"])
    return columns, [a - b for a, b in itertools.combinations(merged, 2)]


@pytest.mark.thinned(1)
@pytest.mark.parametrize("how", ["init", "random_state"])
def test_another_start_does_not_show_one_silos_direction(how):
    with pytest.raises(ReleaseRefusedError, match="one_setting"):
        differences_of_starts(how, disclosed=False)


def test_control_two_starts_subtract_to_one_silos_direction():
    """A silo's own direction has the sign that its product with the start has."""
    columns, differences = differences_of_starts("init", disclosed=True)
    for x in columns.values():
        alike = [np.corrcoef(x, d)[0, 1] ** 2 for d in differences if d.any()]
        assert max(alike) > 1.0 - 1e-9


@pytest.mark.slow
def test_the_same_fit_without_a_start_is_answered_again():
    rng = np.random.default_rng(0)
    tables = {name: pd.DataFrame({name: rng.normal(size=60)}) for name in "abc"}
    federation = up.simulate(
        tables, "columns", aligned=True, policy={"allow_row_level": True}
    )
    first, second = (up.VFedPCA(rounds=2).fit(federation) for _ in range(2))
    assert_allclose(first.u_, second.u_, rtol=0, atol=0)


# --- one person, from a table that changed --------------------------------------------


def classes_of(asker: Rogue) -> dict[str, str]:
    return asker.rules("pca.local_total")


def test_one_changed_label_is_refused(jobs):
    assert set(classes_of(rogue(jobs.start())).values()) == {""}
    changed = jobs.tables["b"].copy()
    changed.loc[PERSON, "y"] = 1 - changed.loc[PERSON, "y"]
    jobs.tables["b"] = changed
    refused = classes_of(rogue(jobs.start()))
    assert refused == {"a": "", "b": "min_changed_rows", "c": ""}


def test_one_changed_label_is_refused_in_one_process():
    tables = {name: labelled(i) for i, name in enumerate("abc")}
    here = silos(tables, label="y")
    assert set(classes_of(rogue(here)).values()) == {""}
    tables["b"].loc[PERSON, "y"] = 1 - tables["b"].loc[PERSON, "y"]
    changed = tables["b"].copy()
    tables["b"].loc[PERSON, "y"] = 1 - tables["b"].loc[PERSON, "y"]
    here.parties["b"].table = open_source(changed, label="y")
    assert classes_of(rogue(here))["b"] == "min_changed_rows"


@pytest.mark.thinned(1)
@pytest.mark.parametrize("kind", ["numbers", "categories"])
def test_another_label_begins_no_other_account(kind):
    """A silo's file names the next study's label, and a row is gone meanwhile."""
    tables = {name: labelled(i).assign(z=np.arange(40) // 20) for i, name in NAMED}
    coded: dict[str, Any] = {}
    if kind == "categories":
        coded = {"categorical": ["z"]}
        names = {"y": {0: "no", 1: "yes"}, "z": {0: "early", 1: "late"}}
        tables = {name: table.replace(names) for name, table in tables.items()}
    here = silos(tables, label="y", **coded)
    assert set(classes_of(rogue(here)).values()) == {""}
    coded = {"categorical": ["y"]} if coded else {}
    now = tables | {"b": tables["b"].drop(index=PERSON).reset_index(drop=True)}
    for name, party in here.parties.items():
        party.table = open_source(now[name], label="z", **coded)
    refused = classes_of(rogue(here))
    assert refused == {"a": "", "b": "min_changed_rows", "c": ""}
    here.parties["b"].table = open_source(tables["b"], label="z", **coded)
    assert set(classes_of(rogue(here)).values()) == {""}


def test_a_changed_cell_of_another_column_is_refused(jobs):
    """A total of x2 as it was says nothing, but the next one of x0 would."""
    step, one = "scaler.local_counts", (Select(("x0",)),)
    assert set(rogue(jobs.start()).rules(step, None, one).values()) == {""}
    changed = jobs.tables["b"].copy()
    changed.loc[PERSON, "x2"] += 1.0
    jobs.tables["b"] = changed
    assert rogue(jobs.start()).rules(step, None, one)["b"] == "min_changed_rows"


@pytest.mark.slow
def test_the_log_says_which_blocks_a_round_was_about(jobs):
    asker, half = rogue(jobs.start()), (Select(COLUMNS), Rows(0, 2, 0.0, False, 1))
    asker.observed("scaler")
    asker.observed("scaler", half)
    state = jobs.log("a").state()
    (table,) = state.tables
    (blocks,) = state.rows[table]
    assert 0 < len(blocks) < 4
    # The cut is in the log by the first reply that depends on it, in its transaction.
    kinds = [entry.kind for entry in jobs.log("a").entries()]
    assert kinds.index("blocks") < len(kinds) - 1 - kinds[::-1].index("round")


# --- a silo's number of rows ----------------------------------------------------------


def test_counts_of_other_columns_do_not_subtract_to_a_silo(tmp_path):
    jobs, count = Jobs(tmp_path, tables_of("abcd")), "scaler.local_counts"
    rogue(jobs.start()).totals(count, None, (Select(("x0",)),))
    fewer = rogue(jobs.start(), "abc").rules(count, None, (Select(("x1",)),))
    assert set(fewer.values()) == {"allow_roster_change"}


def test_another_table_has_a_roster_of_its_own(tmp_path):
    jobs = Jobs(tmp_path, tables_of("abcd"))
    assert set(classes_of(rogue(jobs.start())).values()) == {""}
    jobs.tables = {name: rows(seed=9 + i) for i, name in enumerate("abcd")}
    assert set(classes_of(rogue(jobs.start(), "abc")).values()) == {""}
    # A table that shares rows is the same one.
    jobs.tables["a"] = np.vstack([jobs.tables["a"][:12], rows(20, seed=30)])
    refused = classes_of(rogue(jobs.start()))
    assert refused["a"] == "allow_roster_change"


# --- a person's row, from two fillings of one cell ------------------------------------


def constant(value: float, *some: Rows) -> tuple:
    return Select(COLUMNS), *some, Derive("imputer.filled", COLUMNS, {"value": value})


FOLDS = [Rows(fold, 2, 0.0, False, 1) for fold in range(2)]


@pytest.mark.slow
@pytest.mark.parametrize("some", [[Rows(0, 0, 1.0, False, -1)], FOLDS])
def test_two_constants_on_other_rows_do_not_subtract(some):
    asker = rogue(silos(HOLED))
    scatter(asker, constant(5.0))
    squares = {"mean": np.zeros(3)}
    for part in some:
        refused = asker.rules("pca.local_squares", squares, constant(6.0, part))
        assert refused == {"a": "", "b": "another_filling", "c": ""}
    # The same number is no other filling, on whatever rows.
    for part in some:
        asked = asker.rules("pca.local_squares", squares, constant(5.0, part))
        assert set(asked.values()) == {""}


def test_control_two_constants_on_two_folds_subtract():
    asker = rogue(silos(HOLED, policy={"min_rows": 0}))
    folds = [scatter(asker, constant(6.0, fold)) for fold in FOLDS]
    record = (sum(folds) - scatter(asker, constant(5.0)))[1]
    assert_allclose(record[[0, 2]], rows(seed=1)[PERSON, [0, 2]], rtol=1e-9)


def fitted(value: float, *some: Rows) -> tuple:
    public = {"statistics": np.array([0.0, value, 0.0])}
    return Select(COLUMNS), *some, Derive("imputer.imputed", COLUMNS, public)


@pytest.mark.slow
@pytest.mark.parametrize("moved", [1e-13, 1e-9, 0.1])
def test_a_filling_moved_a_little_stays_where_it_was(tmp_path, moved):
    """Of silos that take any transform for fitted."""
    jobs = Jobs(tmp_path, HOLED, policy={"allowed_steps": ["*"]})
    first = scatter(rogue(jobs.start()), fitted(5.0))
    assert np.array_equal(scatter(rogue(jobs.start()), fitted(5.0 + moved)), first)
    again = rogue(jobs.start())
    folds = [scatter(again, fitted(5.0 + moved, fold)) for fold in FOLDS]
    assert_allclose(sum(folds), first, rtol=1e-14)


@pytest.mark.parametrize("moved", [1e-9, 0.1])
def test_control_a_filling_moved_a_little_gives_the_row(moved):
    asker = rogue(silos(HOLED, policy={"allowed_steps": ["*"], "min_rows": 0}))
    more = scatter(asker, fitted(5.0 + moved))[1] - scatter(asker, fitted(5.0))[1]
    assert_allclose(more[[0, 2]] / moved, rows(seed=1)[PERSON, [0, 2]], rtol=1e-4)


@pytest.mark.slow
def test_a_block_that_lacks_a_few_cells_decides(tmp_path):
    """Twelve cells are missing in all: two fillings of all, less two of all but one."""
    tables = tables_of("abc", 40)
    tables["b"][:12, 1] = np.nan
    jobs = Jobs(tmp_path, tables, policy={"allowed_steps": ["*"]})
    first = scatter(rogue(jobs.start()), fitted(5.0))
    assert np.array_equal(scatter(rogue(jobs.start()), fitted(6.0)), first)
    part = Rows(0, 2, 0.0, True, 1)
    first = scatter(rogue(jobs.start()), fitted(5.0, part))
    assert np.array_equal(scatter(rogue(jobs.start()), fitted(6.0, part)), first)


@pytest.mark.slow
def test_many_missing_cells_are_filled_as_asked(tmp_path):
    tables = tables_of("abc", 400)
    for X in tables.values():
        X[:320, 1] = np.nan
    policy = {"allowed_steps": ["*"], "min_rows_per_class": 0}
    jobs = Jobs(tmp_path, tables, policy=policy)
    first = scatter(rogue(jobs.start()), fitted(5.0))
    assert not np.array_equal(scatter(rogue(jobs.start()), fitted(6.0)), first)
    assert set(rogue(jobs.start()).rules("pca.local_total").values()) == {
        "missing_values"
    }


def test_a_silos_own_filling_is_for_columns_alone():
    """Kept means of two fits would fill a cell in two ways."""
    asker = rogue(silos(HOLED))
    asker.step("imputer.own_observed")
    asker.step("imputer.own_statistics", {"keep_empty": False})
    where = f"{asker.where['study']}/{'0' * 64}"
    own = Derive("imputer.own_imputed", COLUMNS, {}, where)
    refused = asker.rules(
        "pca.local_squares", {"mean": np.zeros(3)}, (Select(COLUMNS), own)
    )
    assert set(refused.values()) == {"partition"}


@pytest.mark.thinned(1)
@pytest.mark.parametrize(
    ("filling", "policy"),
    [(constant, {}), (fitted, {"policy": {"allowed_steps": ["*"]}})],
)
def test_two_jobs_at_once_do_not_fill_a_cell_in_two_ways(
    tmp_path, monkeypatch, filling, policy
):
    """The second answers while the first is between its rules and its log."""
    jobs, squares = Jobs(tmp_path, HOLED, **policy), {"mean": np.zeros(3)}
    first, second = rogue(jobs.start()), rogue(jobs.start())
    answer, asked = Session.answer, []

    def meanwhile(session, step, *checks):
        released = answer(session, step, *checks)
        if session.party == "b" and not asked:
            asked.append(True)
            theirs = second.rules("pca.local_squares", squares, filling(6.0))
            assert set(theirs.values()) == {""}
        return released

    monkeypatch.setattr(Session, "answer", meanwhile)
    refused = first.rules("pca.local_squares", squares, filling(5.0))
    assert refused["b"] == "another_filling"


# --- cells, from the file of a log ----------------------------------------------------

AGES = np.random.default_rng(0).integers(29, 78, 303).astype(float)[:, None]
KEY = b"a silo's own"


def spread(ages: np.ndarray) -> np.ndarray:
    cells = (ages + 0.0).view(np.uint64)
    for factor in _SPREAD:
        cells = (cells ^ (cells >> np.uint64(33))) * np.uint64(factor)
    return cells ^ (cells >> np.uint64(33))


def ages_from(digests: np.ndarray) -> list[int]:
    """Return all ages, if digests are one secret number times what is known of them."""
    known = dict(
        zip(spread(np.arange(1.0, 120.0)).tolist(), range(1, 120), strict=True)
    )
    numbers = digests.tolist()
    odd = next(number for number in numbers if number % 2)
    for guess in known:
        factor = guess * pow(odd, -1, 2**64)
        found = [known.get(number * factor % 2**64, 0) for number in numbers]
        if all(found):
            return found
    return []


def test_the_file_does_not_give_ages_back():
    digests = row_digests(open_source(AGES), ["x0"], "", KEY)
    assert ages_from(digests) == []
    # Equal rows have equal digests, which is all there is to see.
    assert len(np.unique(digests)) == len(np.unique(AGES))


def test_control_linear_digests_give_ages_back():
    digests = former_digests(open_source(AGES), ["x0"], KEY)
    assert sorted(ages_from(digests)) == sorted(AGES[:, 0])


def test_a_log_has_no_digest_that_another_silo_would_make(jobs):
    rogue(jobs.start()).observed("scaler")
    (a,), (b,) = (jobs.log(n).state().tables.values() for n in "ab")
    assert not set(a.rows) & set(b.rows)
