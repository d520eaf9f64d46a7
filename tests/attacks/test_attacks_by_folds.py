"""One person by the difference of two selections of rows, in one job or in several.

Every selection is a union of the blocks that a silo cuts its rows into once, and so is
what two of them differ in: `min_rows` rows of the silo, and of a class
`min_rows_per_class` or all of it.
"""

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest

import unpooled as up
from logged_silos import IDENTITIES
from unpooled.data import heart_disease
from unpooled.data.sources.open_source import open_source
from unpooled.errors import DataError, ReleaseRefusedError
from unpooled.party.memory.audit_log import AuditLog
from unpooled.party.party import Party
from unpooled.party.rules import table_cuts
from unpooled.party.rules.policy import Policy
from unpooled.protocol.view_operations import Rows, Select
from unpooled.secure.keys.roster import Roster
from wire import COLUMNS, PATIENT, Rogue, Silos, rows, silos

# Columns without missing cells.
FEATURES = ["age", "sex", "cp"]


@pytest.mark.thinned(3)
@pytest.mark.parametrize("seed", range(6))
def test_lda_on_all_rows_and_on_a_split_do_not_subtract_to_a_person(seed):
    """A class that the smaller part of a split has one row of gave the row."""
    federation = up.simulate(heart_disease.load(), label="num").select(FEATURES)
    train, _ = federation.train_test_split(test_size=0.1, random_state=seed)
    whole, part = (
        up.LinearDiscriminantAnalysis().fit(view, y="num")
        for view in (federation, train)
    )
    sizes = [m.priors_ * m.n_samples_ for m in (whole, part)]
    left_out = np.rint(sizes[0] - sizes[1])
    assert left_out.sum() >= 4 * 10
    assert not ((left_out > 0) & (left_out < 5)).any()


def test_two_splits_in_two_jobs_do_not_subtract_to_a_row(tmp_path):
    """Each job is a process of its own, with the same audit logs."""
    roster = Roster({name: i.public for name, i in IDENTITIES.items()})
    tables = {name: rows(40, seed=i) for i, name in enumerate("abc")}

    def in_a_job(share: float) -> tuple[float, np.ndarray]:
        parties = {
            name: Party(
                name,
                open_source(X),
                Policy(**PATIENT),
                IDENTITIES[name],
                roster,
                audit_log=AuditLog(tmp_path / f"{name}.sqlite"),
            )
            for name, X in tables.items()
        }
        here = Silos(None, parties, None, roster)  # pyright: ignore
        rogue = Rogue(here, "abc", study=f"share-{round(1000 * share)}").enter()
        chain = (Select(COLUMNS), Rows(0, 0, share, False, -1))
        found = rogue.observed("scaler", chain)
        return float(found["count"][0]), found["total"]

    answers = [in_a_job(k / 40) for k in range(10, 31)]
    everybody = np.concatenate(list(tables.values()))
    for (n, first), (m, second) in itertools.pairwise(sorted(answers, key=str)):
        assert n == m or abs(n - m) >= 10
        nearest = np.abs(np.abs(first - second) - everybody).max(axis=1).min()
        assert nearest > 1e-6


P = 100
WIDE = tuple(f"x{j}" for j in range(P))


def wide(n: int = 1000) -> Silos:
    """Silos with ten rows for each column."""
    return silos({name: rows(n, P, seed=i) for i, name in enumerate("abc")})


def pairs(rogue: Rogue, *chain: Rows) -> set[str]:
    """Ask for the scatter of some rows; return the rules of refusals."""
    view = (Select(WIDE), *chain)
    squares = rogue.totals("pca.local_squares", {"mean": np.zeros(P)}, view)["squares"]
    return set(rogue.rules("pca.local_scatter", {"squares": squares}, view).values())


def test_a_few_rows_that_a_split_leaves_out_are_not_solved_for():
    """The scatter of 30 rows of 100 columns has rank 30, and gave whole rows."""
    rogue = Rogue(wide(), columns=WIDE).enter()
    assert pairs(rogue) == {""}
    assert pairs(rogue, Rows(0, 0, 10 / 1000, True, 0)) == {"max_feature_ratio"}
    assert pairs(rogue, Rows(0, 0, 0.5, True, 0)) == {""}


def test_the_rows_between_two_splits_are_not_solved_for():
    here = wide()
    assert pairs(Rogue(here, columns=WIDE).enter(), Rows(0, 0, 0.5, True, 0)) == {""}
    again = Rogue(here, study="another", columns=WIDE).enter()
    assert pairs(again, Rows(0, 0, 0.55, True, 0)) == {"max_feature_ratio"}
    assert pairs(again, Rows(0, 0, 0.5, False, 0)) == {""}


def test_cross_validation_with_as_many_columns_is_answered():
    rogue = Rogue(wide(), columns=WIDE).enter()
    for k in range(4):
        assert pairs(rogue, Rows(k, 4, 0.0, True, 1)) == {""}


# Only the first has as many blocks as a study may name.
UNEVEN = {name: rows(n, seed=n) for name, n in (("a", 400), ("b", 61), ("c", 32))}


def test_nobody_is_alone_in_the_blocks_of_high_numbers():
    """A silo with many rows was: the total of such a block was its own."""
    rogue = Rogue(silos(UNEVEN)).enter()
    answered = set[int]()
    for number in range(20):
        view = (Select(COLUMNS), Rows(number, 20, 0.0, False, -1))
        if set(rogue.rules("scaler.local_counts", None, view).values()) != {""}:
            continue
        answered.add(number)
        counts = rogue.totals("scaler.local_counts", None, view)["count"]
        # Blocks 0 to 2 are those of all three; the others' rows are part of them.
        assert (counts >= 6 * 20 + 2 * 10 + 10).all()
    assert answered == {0, 1, 2}


def test_a_selection_that_three_silos_do_not_have_is_refused():
    here = up.simulate(UNEVEN, policy=PATIENT, follow=True, random_state=0)
    for train, test in here.folds(3):
        assert up.StandardScaler().fit(train).n_samples_seen_ < 493
        up.StandardScaler().fit(test)
    refused = []
    for _, test in here.folds(5):
        try:
            up.StandardScaler().fit(test)
        except ReleaseRefusedError as refusal:
            refused.append(refusal.rule)
    assert refused == ["shared_blocks"] * 2


def test_blocks_stay_merged_where_other_silos_grow():
    """Merged and apart they would differ in blocks of one silo."""
    own = Party(
        "a",
        open_source(UNEVEN["a"]),
        Policy(),
        IDENTITIES["a"],
        Roster({"a": IDENTITIES["a"].public}),
    )
    cuts = own._studies.cuts
    for most, kept in ((5, 5), (20, 5), (3, 3)):
        cuts.take_common(own.table, most)
        assert len(cuts.of(own.table).sizes) == kept


def test_a_silo_selects_nothing_before_the_silos_counted_their_blocks():
    rogue = Rogue(silos(UNEVEN)).enter()
    rogue._has_blocks = True  # it does not ask
    view = (Select(COLUMNS), Rows(0, 2, 0.0, False, -1))
    rules = set(rogue.rules("scaler.local_counts", None, view).values())
    assert rules == {"out_of_order"}


@pytest.mark.parametrize(
    "altered",
    [
        lambda words: words + np.uint64(2),
        lambda words: words.astype(float),
        lambda words: words.view("<i8"),
        lambda words: np.concatenate([words, words[:1]]),
        lambda words: words[:-1],
        lambda words: words[:0],
    ],
    ids=["more", "of reals", "of signed", "longer", "shorter", "none"],
)
def test_a_coordinator_cannot_say_that_more_silos_have_blocks(altered):
    rogue = Rogue(silos(UNEVEN)).enter()
    said, shared = rogue._say, []

    def raised(names, header, arrays):
        if header["kind"] == "share blocks":
            arrays = {name: altered(words) for name, words in arrays.items()}
            shared.append(said(names, header, arrays))
            return shared[0]
        return said(names, header, arrays)

    rogue._say = raised  # pyright: ignore
    view = (Select(COLUMNS), Rows(0, 2, 0.0, False, -1))
    rules = set(rogue.rules("scaler.local_counts", None, view).values())
    assert {reply.header["rule"] for reply in shared[0].values()} == {"wrong_total"}
    assert rules == {"out_of_order"}


def test_products_of_a_selection_need_the_rows_of_its_blocks_counted():
    """A coordinator leaves the second count out, or raises what was counted."""
    for alter in (None, lambda words: words + np.uint64(2)):
        rogue = Rogue(wide(), columns=WIDE).enter()
        said, shared = rogue._say, []

        def counted(names, header, arrays, said=said, shared=shared, alter=alter):
            if header["kind"] == "share blocks" and "rows" in arrays:
                if alter is None:
                    return {}
                arrays = {"rows": alter(arrays["rows"])}
                shared.append(said(names, header, arrays))
                return shared[0]
            return said(names, header, arrays)

        rogue._say = counted  # pyright: ignore
        assert pairs(rogue, Rows(0, 2, 0.0, False, -1)) == {"out_of_order"}
        for replies in shared:
            assert {one.header["rule"] for one in replies.values()} == {"wrong_total"}


def flagged() -> dict[str, np.ndarray]:
    """Rows of which few, all of b, have a flag in the last column."""
    tables = {name: rows(240, seed=i) for i, name in enumerate("abc")}
    flags = {name: np.zeros((240, 1)) for name in tables}
    flags["b"][::16] = 1.0
    return {name: np.hstack([X, flags[name]]) for name, X in tables.items()}


def products_by_fold(**more: Any) -> list[np.ndarray]:
    """Return the flag's products with all columns, of what each fold leaves out."""
    federation = up.simulate(flagged(), **more)

    def products(view: up.Federation) -> np.ndarray:
        model = up.PCA().fit(view)
        N, mean = model.n_samples_, model.mean_
        S = (N - 1) * model.get_covariance() + N * np.outer(mean, mean)
        return S[-1]

    whole = products(federation)
    return [whole - products(train) for train, _ in federation.folds(20)]


def n_alone(found: list[np.ndarray]) -> int:
    """Return how many of the folds have one person with the flag, whose row it is."""
    ill = flagged()["b"][::16]
    distance = [np.abs(ill - one).max(axis=1).min() for one in found]
    return int((np.array(distance) < 1e-6).sum())


def test_a_fold_leaves_out_no_person_with_a_flag_alone():
    found = products_by_fold()
    assert n_alone(found) == 0
    # Others are two together, or more.
    assert min({round(one[-1]) for one in found} - {0}) >= 2


def test_control_by_chance_folds_do(monkeypatch):
    monkeypatch.setattr(table_cuts, "none_alone", lambda blocks, *_: blocks)
    assert n_alone(products_by_fold()) >= 1


@pytest.mark.parametrize(
    ("model", "y"),
    [
        (up.Heterogeneity(), None),
        (up.LinearRegression(site_effects=True), "y"),
        (up.GLM(site_effects=True), "y"),
    ],
)
def test_what_is_about_silos_own_means_is_of_all_rows(model, y):
    """Of many unions of blocks it would be as many equations for the means."""
    rng = np.random.default_rng(0)
    tables = {
        name: pd.DataFrame(rng.normal(size=(40, 3)), columns=list("xzy"))
        for name in "abc"
    }
    train, _ = up.simulate(tables).train_test_split(random_state=0)
    with pytest.raises(DataError, match=r"silos' (means|own intercepts)"):
        model.fit(train, y)
