"""One cut of a table's version: for all labels, orders, jobs and processes."""

import itertools

import numpy as np
import pandas as pd
import pytest

import unpooled as up
from unpooled.data.sources.open_source import open_source
from unpooled.data.table import Table
from unpooled.party.memory.audit_log import AuditLog
from unpooled.party.rules.policy import Policy
from unpooled.party.rules.row_digests import row_digests
from unpooled.party.rules.table_cuts import TableCuts
from unpooled.protocol.refusal import Refusal
from unpooled.protocol.view_operations import Rows, Select
from wire import COLUMNS, Rogue, rows, silos

KEY = b"a silo's secret"


def frame(n: int = 100, seed: int = 0) -> pd.DataFrame:
    made = pd.DataFrame(rows(n, seed=seed), columns=list(COLUMNS))
    return made.assign(sick=np.arange(n) % 2, smokes=np.arange(n) % 5 // 4)


def cut_of(
    table: pd.DataFrame,
    log: AuditLog | None = None,
    label: str | None = "sick",
    key: bytes = KEY,
    policy: Policy | None = None,
    answered: bool = True,
) -> np.ndarray:
    log = log or AuditLog()
    cuts = TableCuts(key, log, policy or Policy())
    source = open_source(table, label=label)
    block_of = cuts.of(source).block_of
    if answered:
        note(log, cuts, source)
    return block_of


def note(log: AuditLog, cuts: TableCuts, source: Table) -> None:
    """Write what a round about blocks would."""
    log._chain.append([("blocks", "", cuts._made(source)[1])])


def test_the_cut_is_the_same_in_every_process():
    np.testing.assert_array_equal(cut_of(frame()), cut_of(frame()))


def test_a_later_version_of_the_library_has_the_cut_of_an_earlier_one():
    """The account of a silo holds for blocks that were made before an update."""
    n = np.arange(40)
    table = pd.DataFrame({"x0": n * 1.0, "x1": n % 7 * 1.0, "sick": n % 2})

    blocks = "".join(map(str, cut_of(table)))

    assert blocks == "1123131002313101203023022332302210110203"


def test_no_silo_has_the_cut_of_another():
    assert (cut_of(frame()) != cut_of(frame(), key=b"another's")).mean() > 0.8


def test_the_order_of_rows_has_no_part_in_it():
    turned = frame().iloc[::-1]
    np.testing.assert_array_equal(cut_of(turned)[::-1], cut_of(frame()))


def test_blocks_are_stratified_by_the_label():
    counts = np.zeros((10, 2), int)
    np.add.at(counts, (cut_of(frame()), frame()["sick"]), 1)
    assert (counts == 5).all()


def test_a_later_label_has_the_first_ones_cut(tmp_path):
    log = AuditLog(tmp_path / "log")
    first = cut_of(frame(), log, "sick")
    again = AuditLog(tmp_path / "log")
    np.testing.assert_array_equal(cut_of(frame(), again, "smokes"), first)
    np.testing.assert_array_equal(cut_of(frame(), again, None), first)
    # Otherwise there would be two cuts, as of two silos.
    assert (cut_of(frame(), None, "smokes") != first).any()


@pytest.mark.thinned(1)
@pytest.mark.parametrize("kind", ["number", "text"])
@pytest.mark.parametrize("label", ["rare", "ward", None])
def test_another_label_leaves_the_blocks_as_they_are(kind, label):
    """Also one that few rows have, or one of text, whose column has codes else."""
    n, rng = 240, np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(n, 2)), columns=["x", "z"])
    labels = {"sick": np.arange(n) % 2, "ward": np.arange(n) % 7 % 3}
    labels["rare"] = np.arange(n) % 60 == 3
    for name, values in labels.items():
        rows[name] = [f"w{v:d}" for v in values] if kind == "text" else 1.0 * values

    def blocks(label: str | None, log: AuditLog) -> np.ndarray:
        coded = [name for name in labels if name != label] if kind == "text" else None
        source = open_source(rows, label=label, categorical=coded)
        cuts = TableCuts(KEY, log, Policy())
        found = cuts.of(source).block_of
        log.note("blocks", cuts._made(source)[1])
        return found

    log = AuditLog()
    first = blocks("sick", log)
    np.testing.assert_array_equal(blocks(label, log), first)
    np.testing.assert_array_equal(blocks("sick", log), first)
    assert (blocks(label, AuditLog()) != first).any()


@pytest.mark.parametrize("label", ["sick", "smokes", None])
def test_digests_do_not_depend_on_which_column_is_the_label(label):
    table, whole = open_source(frame(), label=label), open_source(frame())
    digests = row_digests(table, table.columns, label or "", KEY)
    expected = row_digests(whole, whole.columns, "", KEY)
    np.testing.assert_array_equal(digests, expected)


def test_another_version_is_cut_anew_and_unrelated():
    """A cut that moved a little would differ from the last in few rows a block."""
    log, changed = AuditLog(), frame()
    before = cut_of(frame(), log)
    changed.loc[:11, "x1"] += 1.0
    after = cut_of(changed, log)
    kept = [set(np.flatnonzero(before == block)) for block in range(10)]
    new = [set(np.flatnonzero(after == block)) for block in range(10)]
    assert min(len(a ^ b) for a, b in itertools.product(kept, new)) >= 4
    # The earlier version has its cut again.
    np.testing.assert_array_equal(cut_of(frame(), log), before)


def test_blocks_of_a_common_number_are_alike_and_stay_so_when_merged_again():
    cuts, source = TableCuts(KEY, AuditLog(), Policy()), open_source(frame())
    cuts.take_common(source, 5)
    five = cuts.of(source).block_of
    assert np.bincount(five).tolist() == [20] * 5
    cuts.take_common(source, 3)
    np.testing.assert_array_equal(cuts.of(source).block_of, five % 3)


def test_what_was_answered_by_merged_blocks_keeps_them():
    """Cut alike they would differ from what the log has in a few rows of each."""
    log = AuditLog()
    before, source = cut_of(frame(), log), open_source(frame())
    cuts = TableCuts(KEY, log, Policy())
    cuts.take_common(source, 4)
    np.testing.assert_array_equal(cuts.of(source).block_of, before % 4)


def test_rows_of_all_silos_are_no_fewer_than_the_silos_own():
    cuts, source = TableCuts(KEY, AuditLog(), Policy()), open_source(frame())
    with pytest.raises(Refusal, match="out_of_order"):
        cuts.common_sizes(source)
    cuts.take_common(source, 5)
    assert cuts.common_sizes(source) == (20,) * 5
    with pytest.raises(Refusal, match="public_bound"):
        cuts.take_sizes(source, [20.0] * 4 + [19.0] + [0.0] * 15)


def test_a_version_that_nobody_asked_of_leaves_no_trace():
    log = AuditLog()
    cut_of(frame(), log, answered=False)
    assert not log.state().notes["blocks"]


@pytest.mark.thinned(1)
@pytest.mark.parametrize("more", [10, 25, 60, 300])
def test_appended_rows_leave_the_earlier_blocks_as_they_are(more):
    log, new = AuditLog(), frame(more, seed=1)
    before = cut_of(frame(), log)
    after = cut_of(pd.concat([frame(), new]), log)
    np.testing.assert_array_equal(after[:100], before)
    assert after.max() < 20
    added = np.bincount(after[100:])
    assert added[added > 0].min() >= 10
    # And rows appended to these.
    newer = frame(20, seed=2)
    again = cut_of(pd.concat([frame(), new, newer]), log)
    np.testing.assert_array_equal(again[: 100 + more], after)
    last = np.bincount(again[100 + more :])
    assert last[last > 0].min() >= 10


def test_few_appended_rows_of_a_class_join_a_block_that_has_the_class():
    log, new = AuditLog(), frame(12, seed=1).assign(sick=0)
    new.loc[0, "sick"] = 1
    cut_of(frame(), log)
    after = cut_of(pd.concat([frame(), new]), log)
    assert len(set(after[100:])) == 1
    assert after[100] in after[:100]


def test_a_stricter_policy_is_not_answered_by_the_blocks_of_a_laxer_one():
    log = AuditLog()
    laxer = cut_of(frame(), log, policy=Policy(min_rows=5, min_rows_per_class=2))
    assert np.bincount(laxer).min() == 5
    np.testing.assert_array_equal(cut_of(frame(), log), laxer)


def test_missing_cells_and_labels_have_their_blocks():
    holed = frame()
    holed.loc[3, "x0"] = np.nan
    holed["sick"] = holed["sick"].map({0: "no", 1: "yes"})
    holed.loc[5, "sick"] = None
    assert np.bincount(cut_of(holed)).min() >= 10


def test_a_label_of_measurements_has_no_classes():
    assert np.bincount(cut_of(frame(), label="x2")).tolist() == [10] * 10


@pytest.mark.slow
def test_a_class_of_few_rows_in_a_block_is_refused_to_a_second_label():
    """Blocks are stratified by the first label alone."""
    tables = {name: frame(100, seed=i) for i, name in enumerate("abc")}
    here = silos(tables, label="smokes")
    for name, party in here.parties.items():
        other = open_source(tables[name], label="sick")
        studies = party._studies
        note(studies._audit_log, studies.cuts, other)
    train, _ = here.federation.select(COLUMNS).train_test_split(random_state=0)
    with pytest.raises(up.errors.ReleaseRefusedError, match="min_rows_per_class"):
        up.LinearDiscriminantAnalysis().fit(train, y="smokes")
    up.StandardScaler().fit(train)


def test_the_log_has_the_cut_with_the_first_answer_about_blocks(tmp_path):
    here = silos()
    rogue = Rogue(here).enter()
    log = here.parties["a"]._studies._audit_log
    rogue.observed("scaler")
    assert not log.notes("blocks")
    chain = (Select(COLUMNS), Rows(0, 2, 0.0, False, 1))
    rogue.observed("scaler", chain)
    rogue.observed("scaler", (*chain, Rows(0, 2, 0.0, True, 1)))
    (note,) = log.notes("blocks")
    assert note["label"] == ""
    assert note["fewest"] == [10, 5]
    assert [n for n, _ in note["parts"]] == [30]
