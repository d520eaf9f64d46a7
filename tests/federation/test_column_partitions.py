"""Column partitions: aligned rows, each silo's own columns, and what each is told."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from unpooled import Policy, partition_columns, plan, simulate
from unpooled.arrays import Array
from unpooled.coordinator.coordinator import Coordinator
from unpooled.data.sources.open_source import open_source
from unpooled.errors import DataError, ReleaseRefusedError, UnpooledError
from unpooled.federation.planning.dry_run import planned_message
from unpooled.models.base import FederatedEstimator
from unpooled.party.memory.kept_arrays import KeptArrays
from unpooled.party.steps.run_step import run_step
from unpooled.party.views.view import View
from unpooled.protocol.planned_step import PlannedStep
from unpooled.protocol.step import derived, disclosed, kept, release, stays, summed
from wire import Rogue, silos

N = 40
OPEN = Policy.open()


@summed(by="party", images="N k", takes={"V": "N k"})
def own_images(X: Array, *, V: Array) -> dict[str, Array]:
    return {"images": X @ (X.T @ V)}


@summed(total="p")
def over_columns(X: Array) -> dict[str, Array]:
    return {"total": X.sum(axis=0)}


@summed(number="")
def squares(X: Array) -> dict[str, Array]:
    return {"number": np.array((X * X).sum())}


@summed(number="")
def labelled(y: Array | None) -> dict[str, Array]:
    return {"number": np.array(0.0 if y is None else y.sum())}


@kept(largest="p", here=stays("", until="fit"))
def own_largest(X: Array) -> dict[str, Array]:
    return {"largest": X.max(axis=0), "here": np.array(len(X), float)}


@disclosed(largest=release("p", meaning="the largest value of each column"))
def shown_largest(kept: Array) -> dict[str, Array]:
    return {"largest": kept["largest"]}


@derived(fitted_by=("test_column_partitions.own_largest",))
def below_largest(X: Array, kept: Array) -> Array:
    return X - kept["largest"]


@disclosed(by="party", rows="N p")
def everything(X: Array) -> dict[str, Array]:
    return {"rows": X}


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(3).standard_normal((N, 7)) + 2.0


@pytest.fixture(scope="module")
def frames(rows):
    frame = pd.DataFrame(rows, columns=list("abcdefg"))
    return {"clinic": frame[["a", "b"]], "lab": frame[["c"]], "home": frame[[*"defg"]]}


@pytest.fixture
def federation(frames):
    return simulate(frames, partition="columns", policy=OPEN)


# --- What a view knows ---------------------------------------------------------------


def test_a_view_knows_whose_columns_and_how_many_rows(federation):
    assert federation.n_rows == N
    assert federation.columns_of == {
        "clinic": ("a", "b"),
        "lab": ("c",),
        "home": ("d", "e", "f", "g"),
    }
    assert federation.feature_names == tuple("abcdefg")
    train, test = federation.train_test_split(test_size=0.25, random_state=0)
    assert (train.n_rows, test.n_rows) == (30, 10)


def test_a_row_partition_knows_no_number_of_rows(frames):
    federation = simulate({"x": frames["clinic"], "y": frames["clinic"]}, policy=OPEN)
    assert federation.n_rows is None
    assert federation.columns_of == {"x": ("a", "b"), "y": ("a", "b")}


def test_a_selection_leaves_every_party_its_own(federation, rows):
    view = federation.select(["g", "a", "c", "d"])
    assert view.columns_of == {"clinic": ("a",), "lab": ("c",), "home": ("g", "d")}
    X = [told["rows"] for told in view.collect(everything).values()]
    assert_array_equal(np.hstack(X), rows[:, [0, 2, 6, 3]])


def test_bare_arrays_are_numbered_on(rows):
    parties = partition_columns(rows, 3)
    federation = simulate(parties, partition="columns", policy=OPEN)
    view = federation.select(["x6", "x0", "x4"])
    X = [told["rows"] for told in view.collect(everything).values()]
    assert_array_equal(np.hstack(X), rows[:, [0, 4, 6]])
    assert not view.named


def test_parts_of_the_rows_are_the_same_at_every_party(frames, rows):
    twice = {"x": frames["clinic"], "y": frames["clinic"].rename(columns=str.upper)}
    federation = simulate(twice, partition="columns", policy=OPEN)
    for part in (p for pair in federation.folds(3, random_state=1) for p in pair):
        mine, theirs = (told["rows"] for told in part.collect(everything).values())
        assert_array_equal(mine, theirs)
        assert len(mine) == part.n_rows


# --- Steps over aligned rows ---------------------------------------------------------


@pytest.mark.parametrize("secure_sum", ["masked", "plain"])
def test_totals_over_people_are_those_of_all_columns(frames, rows, secure_sum):
    federation = simulate(
        frames, partition="columns", secure_sum=secure_sum, policy=OPEN
    )
    V = np.random.default_rng(0).standard_normal((N, 2))
    images = federation.sum(own_images, V=V)["images"]
    assert_allclose(images, rows @ (rows.T @ V), rtol=1e-12)
    last = federation.ledger[-1]
    assert (last.name, last.shape, last.visibility) == ("images", (N, 2), "summed")
    assert set(last.parties) == set(frames)


def test_lines_are_written_for_each_shape(federation, frames):
    with federation.fitting():
        federation.keep(own_largest)
        told = federation.collect(shown_largest)
    assert {party: len(v["largest"]) for party, v in told.items()} == {
        "clinic": 2,
        "lab": 1,
        "home": 4,
    }
    lines = [(x.name, x.shape, x.visibility, x.parties) for x in federation.ledger]
    assert sorted(lines) == [
        ("here", (), "kept", ("clinic", "lab", "home")),
        ("largest", (1,), "disclosed", ("lab",)),
        ("largest", (1,), "kept", ("lab",)),
        ("largest", (2,), "disclosed", ("clinic",)),
        ("largest", (2,), "kept", ("clinic",)),
        ("largest", (4,), "disclosed", ("home",)),
        ("largest", (4,), "kept", ("home",)),
    ]
    assert federation.ledger.verify()
    assert federation.ledger.bytes_out("lab") == 8
    assert federation.ledger.bytes_out() == 32


class Largest(FederatedEstimator):
    """Asks for everything above."""

    _partitions = ("columns",)

    def _fit(self, federation, y):
        federation.keep(own_largest)
        self.largest_ = federation.collect(shown_largest)
        self.images_ = federation.sum(own_images, V=np.ones((N, 2)))


def test_the_plan_is_the_ledger(federation):
    planned = plan(Largest(), federation)
    Largest().fit(federation)

    def seen(lines):
        return [(x.step, x.name, x.shape, x.bytes, set(x.parties)) for x in lines]

    assert seen(planned.releases) == seen(federation.ledger)
    assert planned.bytes == federation.ledger.bytes_out("home")
    assert not planned.refusals


def test_a_label_is_at_one_silo(frames, rows):
    with_label = {**frames, "lab": frames["lab"].assign(sick=np.arange(N) % 2)}
    federation = simulate(with_label, partition="columns", label="sick", policy=OPEN)
    assert "sick" not in federation.feature_names
    assert federation.sum(labelled)["number"] == N // 2
    with pytest.raises(DataError, match="No silo has the label column 'sick'"):
        simulate(frames, partition="columns", label="sick")


def test_files_are_read_where_they_lie(rows, tmp_path):
    mapped = np.memmap(tmp_path / "rows", float, "w+", shape=rows.shape)
    mapped[:] = rows
    seen = []

    def look(X, *, V):
        seen.append(np.shares_memory(X, mapped))
        return {"images": X @ (X.T @ V)}

    table = open_source(mapped[:, :3])
    V = np.ones((N, 2))
    step = replace(own_images, function=look)
    run_step(step, View(table, ()), None, {"kept": KeptArrays("", ())}, {"V": V})
    assert seen == [True]


# --- What silos keep -----------------------------------------------------------------


def test_a_transform_reads_what_the_silo_kept(federation, rows):
    federation.keep(own_largest)
    view = federation.derive(below_largest, kept_of=federation.kept_here)
    assert view.columns_of == federation.columns_of
    X = [told["rows"] for told in view.collect(everything).values()]
    assert_allclose(np.hstack(X), rows - rows.max(axis=0), rtol=1e-15)


def test_other_rows_are_transformed_by_what_was_kept_before(federation, frames, rows):
    federation.keep(own_largest)
    other = {name: frame[:15] + 1.0 for name, frame in frames.items()}
    later = simulate(other, partition="columns", policy=OPEN)
    view = later.derive(below_largest, kept_of=federation.kept_here)
    X = [told["rows"] for told in view.collect(everything).values()]
    assert_allclose(np.hstack(X), rows[:15] + 1 - rows.max(axis=0), rtol=1e-12)


@pytest.mark.parametrize(
    ("address", "rule"),
    [
        ("", "nothing_kept"),
        ("other/" + "0" * 64, "nothing_kept"),
        ("nonsense", "malformed_message"),
    ],
)
def test_what_was_never_kept_is_refused(federation, address, rule):
    with pytest.raises(UnpooledError, match=rule):
        federation.derive(below_largest, kept_of=address).collect(everything)


def test_names_stay_in_a_transform(federation):
    with pytest.raises(DataError, match="leaves every silo's names as they are"):
        federation.derive(below_largest, ["a"], kept_of=federation.kept_here)


# --- Refusals ------------------------------------------------------------------------


def test_totals_over_different_columns_are_a_mistake(federation):
    with pytest.raises(DataError, match="sums total over the columns p"):
        federation.sum(over_columns)


def test_an_axis_over_aligned_people_needs_all_rows_together():
    with pytest.raises(TypeError, match='needs by="party"'):
        summed(images="N")(lambda X: {})


def test_every_party_has_a_column(federation):
    with pytest.raises(DataError, match="has no column of lab"):
        federation.select(["a", "d"])
    with pytest.raises(DataError, match="no column"):
        federation.select(["a", "c", "d", "z"])


def test_people_are_not_seen_unless_each_silo_allows_it(frames):
    federation = simulate(frames, partition="columns")
    with pytest.raises(ReleaseRefusedError, match="allow_row_level"):
        federation.sum(own_images, V=np.ones((N, 1)))
    # Two of these would subtract to one silo's own.
    with pytest.raises(ReleaseRefusedError, match="allow_row_level"):
        federation.sum(squares)
    some = Policy(allow_row_level="parties")
    federation = simulate(frames, partition="columns", policy=some)
    assert federation.sum(squares)["number"] > 0
    with pytest.raises(ReleaseRefusedError, match="allow_disclosed"):
        federation.collect(shown_largest)


@pytest.mark.parametrize("declared", ["rows", "columns"])
def test_a_silo_takes_part_in_the_partition_it_declared_only(frames, declared):
    """A coordinator that says otherwise is refused at every door, also for a plan."""
    tables = frames if declared == "columns" else dict.fromkeys("xyz", frames["lab"])
    here = silos(tables, partition=declared)
    other = {"rows": "columns", "columns": "rows"}[declared]
    rogue = Rogue(here, partition=other)
    assert {r.header["rule"] for r in rogue.join().values()} == {"partition"}
    coordinator = here.federation.coordinator
    assert isinstance(coordinator, Coordinator)
    coordinator.partition = other
    with pytest.raises(ReleaseRefusedError, match="partition"):
        here.federation.sum(squares)
    request = rogue.request("test_column_partitions.squares", operations=())
    parties = here.federation.parties
    asked = planned_message(request, parties, other, PlannedStep())
    replies = coordinator.exchange(dict.fromkeys(parties, asked), "plan")
    assert {r.header["rule"] for r in replies.messages.values()} == {"partition"}
