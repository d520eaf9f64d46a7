"""A fit inside the party: what is declared holds, what is kept stays."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import unpooled as up
from unpooled.arrays import Array
from unpooled.data.sources import open_source
from unpooled.data.table import Block, Table
from unpooled.errors import DataError, ReleaseRefusedError
from unpooled.models.imputer import imputed
from unpooled.models.scaler import local_squares
from unpooled.party.operations import Derive, Rows, Select
from unpooled.party.request import Veiled
from unpooled.party.step import derived, disclosed, kept, release, stays, summed
from unpooled.secure.message import decode
from wire import COLUMNS, Rogue, Silos, rows, silos

TABLES = {name: rows(seed=i) for i, name in enumerate("abc")}
POOLED = np.concatenate(list(TABLES.values()))
ran: list[Any] = []


class SmallBlocks(Table):
    """A table that is read seven rows at a time."""

    def __init__(self, X: Array) -> None:
        self._inner = open_source(X)
        self.columns, self.named = self._inner.columns, self._inner.named
        self.label = self.ids = None

    @property
    def n_rows(self) -> int:
        return self._inner.n_rows

    def blocks(
        self, columns: Sequence[str], extra: Sequence[str] = (), rows: int | None = None
    ) -> Iterator[Block]:
        return self._inner.blocks(columns, extra, rows=7)


@pytest.fixture
def here() -> Silos:
    return silos(TABLES)


@pytest.fixture
def in_blocks() -> Silos:
    return silos({name: SmallBlocks(X) for name, X in TABLES.items()})


def refuses(here: Silos, step: Any, rule: str, **public: Any) -> None:
    with pytest.raises((ReleaseRefusedError, DataError), match=rule):
        here.federation.sum(step, **public)
    assert not here.wire.of_kind("released")
    assert len(here.ledger) == 0


# --- a step's result against its declaration ------------------------------------------


@summed(total="p")
def more_than_declared(X: Array) -> dict[str, Array]:
    return {"total": X.sum(axis=0), "rows": X}


@summed(total="p", count="")
def less_than_declared(X: Array) -> dict[str, Array]:
    return {"total": X.sum(axis=0)}


@summed(total="p")
def one_row_per_person(X: Array) -> dict[str, Array]:
    return {"total": X}


@summed(total="")
def a_vector_for_a_number(X: Array) -> dict[str, Array]:
    return {"total": X[0]}


@summed(total="p p")
def transposed_shape(X: Array) -> dict[str, Array]:
    return {"total": np.zeros((3, 4))}


@summed(total="p")
def nothing(X: Array) -> dict[str, Array]:
    return {}


@summed(total="4")
def fixed_size(X: Array) -> dict[str, Array]:
    return {"total": np.zeros(5)}


@summed(total="p", kept=stays("p"))
def kept_of_another_shape(X: Array) -> dict[str, Array]:
    return {"total": X.sum(axis=0), "kept": X}


@pytest.mark.parametrize(
    "step",
    [
        more_than_declared,
        less_than_declared,
        one_row_per_person,
        a_vector_for_a_number,
        transposed_shape,
        nothing,
        fixed_size,
        kept_of_another_shape,
    ],
)
def test_a_result_that_is_not_declared_does_not_leave(here, step):
    refuses(here, step, "declaration")


@summed(total="p")
def not_finite(X: Array, *, value: float) -> dict[str, Array]:
    total = X.sum(axis=0)
    total[1] = value
    return {"total": total}


@pytest.mark.parametrize("code", [1.0, 2.0**126, -(2.0**125)])
def test_values_without_a_word_do_not_leave(here, code):
    for value in (code * 1e300, -code * 1e300) if abs(code) == 1 else (code,):
        with pytest.raises(Exception, match="fixed_point_range"):
            here.federation.sum(not_finite, value=value)
    assert not here.wire.of_kind("released")


@summed(total="p")
def nan_total(X: Array) -> dict[str, Array]:
    return {"total": X.sum(axis=0) * np.nan}


@summed(total="p")
def inf_total(X: Array) -> dict[str, Array]:
    return {"total": X.sum(axis=0) * np.inf}


@pytest.mark.parametrize("step", [nan_total, inf_total])
@pytest.mark.parametrize("secure_sum", ["masked", "plain"])
def test_nan_and_infinity_do_not_leave(step, secure_sum):
    here = silos(TABLES, secure_sum=secure_sum)
    with pytest.raises(Exception, match="fixed_point_range"):
        here.federation.sum(step)
    assert not here.wire.of_kind("released")


# --- arguments ------------------------------------------------------------------------


@summed(takes={"mean": "p", "axes": "k p"}, out="k", square="k k")
def projects(X: Array, *, mean: Array, axes: Array, power: int) -> dict[str, Array]:
    out = ((X - mean) @ axes.T) ** power
    return {"out": out.sum(axis=0), "square": out.T @ out}


def test_argument_axes_bind_the_sizes_of_results(here):
    axes = np.arange(6.0).reshape(2, 3)
    mean = np.ones(3)
    totals = here.federation.sum(projects, mean=mean, axes=axes, power=1)
    expected = (POOLED - mean) @ axes.T
    np.testing.assert_allclose(totals["out"], expected.sum(axis=0), rtol=1e-13)
    np.testing.assert_allclose(totals["square"], expected.T @ expected, rtol=1e-13)


@pytest.mark.parametrize(
    "wrong",
    [
        {"mean": np.ones(4)},
        {"mean": np.ones((1, 3))},
        {"mean": 1.0},
        {"mean": [1.0, 1.0, 1.0]},
        {"axes": np.ones((2, 4))},
        {"axes": np.ones(3)},
        {"axes": np.ones((3, 2))},
        {"power": np.ones(1)},
        {"mean": np.array([1.0, np.nan, 1.0])},
        {"axes": np.full((2, 3), np.inf)},
        {"more": 1},
    ],
)
def test_other_arguments_are_refused_at_the_party_too(here, wrong):
    good = {"mean": np.ones(3), "axes": np.ones((2, 3)), "power": 1}
    rogue = Rogue(here).enter()
    rules = rogue.rules("test_session.projects", {**good, **wrong})
    assert set(rules.values()) == {"arguments"}
    assert set(rogue.rules("test_session.projects", {"power": 1}).values()) == {
        "arguments"
    }


# --- blocks and parties ---------------------------------------------------------------


@summed(total="p", count="")
def block_sizes(X: Array) -> dict[str, Array]:
    ran.append(len(X))
    return {"total": X.sum(axis=0), "count": np.array(float(len(X)))}


@summed(by="party", largest="p", count="")
def all_rows_together(X: Array) -> dict[str, Array]:
    ran.append(len(X))
    return {"largest": X.max(axis=0), "count": np.array(float(len(X)))}


@summed(total="p")
def writes_into_rows(X: Array) -> dict[str, Array]:
    X += 1.0
    return {"total": X.sum(axis=0)}


@summed(first="p")
def returns_views(X: Array) -> dict[str, Array]:
    return {"first": X[0]}


def test_a_step_by_rows_runs_block_by_block(in_blocks):
    ran.clear()
    totals = in_blocks.federation.sum(block_sizes)
    assert ran == [7, 7, 7, 7, 2] * 3
    np.testing.assert_allclose(totals["total"], POOLED.sum(axis=0), rtol=1e-13)
    assert totals["count"] == 90


def test_a_step_by_party_sees_the_rows_together(in_blocks):
    ran.clear()
    totals = in_blocks.federation.sum(all_rows_together)
    assert ran == [30, 30, 30]
    expected = sum(X.max(axis=0) for X in TABLES.values())
    np.testing.assert_allclose(totals["largest"], expected, rtol=1e-14)


def test_adding_blocks_never_writes_into_the_silos_rows(in_blocks):
    copies = {name: X.copy() for name, X in TABLES.items()}
    for _ in range(2):
        in_blocks.federation.sum(returns_views)
    with pytest.raises(ReleaseRefusedError, match="failed_in_silo"):
        in_blocks.federation.sum(writes_into_rows)
    for name, X in TABLES.items():
        assert (X == copies[name]).all()


# --- what is kept ---------------------------------------------------------------------


@kept(mean=stays("p", until="study"))
def keeps_for_the_study(X: Array) -> dict[str, Array]:
    return {"mean": X.mean(axis=0)}


@kept(mean=stays("p", until="fit"))
def keeps_for_the_fit(X: Array) -> dict[str, Array]:
    return {"mean": X.mean(axis=0) + 1.0}


@kept(square=stays("p p", symmetric=True))
def keeps_a_triangle(X: Array) -> dict[str, Array]:
    square = X.T @ X
    square[np.tril_indices(len(square), -1)] = -1.0
    return {"square": square}


@summed(mean="p")
def uses_kept(kept: Any) -> dict[str, Array]:
    return {"mean": kept["mean"]}


@summed(square="p p")
def uses_triangle(kept: Any) -> dict[str, Array]:
    return {"square": kept["square"]}


MEANS = np.sum([X.mean(axis=0) for X in TABLES.values()], axis=0)


def test_what_is_kept_until_the_study_ends(here):
    federation = here.federation
    with federation.fitting():
        assert federation.keep(keeps_for_the_study) is None
    with federation.fitting():
        np.testing.assert_allclose(federation.sum(uses_kept)["mean"], MEANS)
    (line, *_) = here.ledger
    assert (line.visibility, line.direction, line.bytes) == ("kept", "in", 0)


def test_what_is_kept_until_the_fit_ends(here):
    federation = here.federation
    with federation.fitting():
        federation.keep(keeps_for_the_fit)
        np.testing.assert_allclose(federation.sum(uses_kept)["mean"], MEANS + 3.0)
    with federation.fitting(), pytest.raises(ReleaseRefusedError, match="nothing_kept"):
        federation.sum(uses_kept)


def test_what_the_fit_keeps_hides_what_the_study_keeps(here):
    federation = here.federation
    with federation.fitting():
        federation.keep(keeps_for_the_study)
        federation.keep(keeps_for_the_fit)
        np.testing.assert_allclose(federation.sum(uses_kept)["mean"], MEANS + 3.0)
    with federation.fitting():
        np.testing.assert_allclose(federation.sum(uses_kept)["mean"], MEANS)


def test_what_is_kept_belongs_to_its_view(here):
    federation = here.federation
    other = federation.select(["x2", "x1"])
    with federation.fitting():
        federation.keep(keeps_for_the_study)
        for view in (other, federation.folds(2, random_state=0)[0][0]):
            with pytest.raises(ReleaseRefusedError, match="nothing_kept"):
                view.sum(uses_kept)
        other.keep(keeps_for_the_study)
        np.testing.assert_allclose(other.sum(uses_kept)["mean"], MEANS[[2, 1]])


def test_a_symmetric_array_is_kept_as_its_triangle(here):
    federation = here.federation
    with federation.fitting():
        federation.keep(keeps_a_triangle)
        square = federation.sum(uses_triangle)["square"]
    np.testing.assert_allclose(square, POOLED.T @ POOLED, rtol=1e-13)


def test_another_study_sees_nothing_that_was_kept(here):
    first = Rogue(here, study="one").enter()
    first.step("test_session.keeps_for_the_study")
    assert set(first.rules("test_session.uses_kept").values()) == {""}
    second = Rogue(here, study="two").enter()
    rules = second.rules("test_session.uses_kept")
    assert set(rules.values()) == {"nothing_kept"}


# --- verbs ----------------------------------------------------------------------------


@disclosed(total="p")
def shown(X: Array) -> dict[str, Array]:
    return {"total": X.sum(axis=0)}


def test_verbs_are_for_steps_declared_with_them(here):
    federation = here.federation
    for verb, step in [
        (federation.sum, shown),
        (federation.sum, keeps_for_the_fit),
        (federation.collect, block_sizes),
        (federation.keep, block_sizes),
        (federation.sum, imputed),
    ]:
        with pytest.raises(DataError, match="is declared"):
            verb(step)
    with pytest.raises(DataError, match='choose "coordinator" or "parties"'):
        federation.sum(block_sizes, to="everybody")
    with pytest.raises(DataError, match="is declared summed, not derived"):
        federation.derive(block_sizes, ["x"])
    assert not here.wire.sent


def test_disclosed_values_come_by_party_and_as_they_are():
    here = silos(TABLES, policy={"allow_disclosed": True})
    shows = here.federation.collect(shown)
    assert list(shows) == ["a", "b", "c"]
    for name, X in TABLES.items():
        assert (shows[name]["total"] == X.sum(axis=0)).all()
    (line,) = here.ledger
    assert (line.visibility, line.dtype, line.bytes) == ("disclosed", "float64", 24)


# --- veiled totals as an oracle -------------------------------------------------------


@summed(total=release("p"))
def secret_total(X: Array) -> dict[str, Array]:
    return {"total": X.sum(axis=0)}


@pytest.mark.xfail(
    raises=(AssertionError, pytest.fail.Exception),
    reason="a total that only the parties may open is opened by any step with an "
    "argument of its shape: squares about it tell it to the coordinator",
)
def test_a_veiled_total_cannot_be_had_from_another_step(here):
    """Two sums of squares, about 0 and about the veiled total, give the total away."""
    federation = here.federation
    with federation.fitting():
        veiled = federation.sum(secret_total, to="parties")["total"]
        assert isinstance(veiled, Veiled)
        N = 90
        zero = federation.sum(local_squares, mean=np.zeros(3))["squares"]
        one = federation.sum(local_squares, mean=np.ones(3))["squares"]
        try:
            at_total = federation.sum(local_squares, mean=veiled)["squares"]
        except ReleaseRefusedError:
            return
    # sum (x - v)^2 = s2 - 2 v s1 + N v^2, with s1 from the first two.
    s1 = (zero - one + N) / 2
    v = (s1 + np.sqrt(s1**2 - N * (zero - at_total))) / N
    assert not np.allclose(v, POOLED.sum(axis=0))


# --- transforms -----------------------------------------------------------------------


@derived(takes={"mean": "p"}, fitted_by=("scaler.local_observed",))
def shifted(X: Array, *, mean: Array) -> Array:
    return X - mean


@derived(takes={"mean": "p", "scale": "p"}, fitted_by=("scaler.local_observed",))
def scaled(X: Array, *, mean: Array, scale: Array) -> Array:
    return (X - mean) / scale


def test_a_transform_is_applied_only_after_its_fit(here):
    """Those that declare no `follows`; test_transforms.py has the others."""
    rogue = Rogue(here).enter()
    mean, scale = np.zeros(3), np.ones(3)
    scaled = Derive("test_session.scaled", COLUMNS, {"mean": mean, "scale": scale})
    filled = Derive("test_session.shifted", COLUMNS, {"mean": mean})

    def rules(*operations: Any) -> set[str]:
        chain = (Select(COLUMNS), *operations)
        return set(rogue.rules("pca.local_total", operations=chain).values())

    assert rules(scaled) == {"transform_not_fitted"}
    rogue.totals("scaler.local_observed")
    assert rules(scaled) == {""}
    # The order is the pipeline's: nothing was fitted behind another transform.
    assert rules(scaled, filled) == {"transform_not_fitted"}
    assert rules(filled, scaled) == {"transform_not_fitted"}
    # A step that is no transform, and one that is not there.
    for name in ("pca.local_total", "scaler.local_observed", "os.system"):
        refused = rules(Derive(name, COLUMNS, {"mean": mean, "scale": scale}))
        assert refused <= {"transform_not_fitted", "allowed_steps", "arguments"}
        assert refused


def test_another_studys_fit_does_not_count(here):
    first = Rogue(here, study="one").enter()
    first.totals("imputer.local_observed")
    filled = Derive("imputer.imputed", COLUMNS, {"statistics": np.zeros(3)})
    chain = (Select(COLUMNS), filled)
    second = Rogue(here, study="two").enter()
    rules = second.rules("pca.local_total", operations=chain)
    assert set(rules.values()) == {"transform_not_fitted"}


def test_a_listed_transform_needs_no_fit():
    other = up.SimpleImputer().fit(silos(TABLES).federation)
    listed = ["imputer.imputed", "pca.*"]
    here = silos(TABLES, policy={"allowed_steps": listed})
    view = other.transform(here.federation)
    assert up.PCA(2).fit(view).n_samples_ == 90
    for listed in (None, ["imputer.*", "pca.*"]):
        here = silos(TABLES, policy={"allowed_steps": listed})
        with pytest.raises(ReleaseRefusedError, match="transform_not_fitted"):
            up.PCA(2).fit(other.transform(here.federation))


# One mean or weight per row, instead of per column, would let the coordinator choose
# whose rows count: `axes` are checked in the silo.
PER_ROW = np.arange(30.0)[:, None] + np.zeros(3)


@pytest.mark.parametrize(
    "public",
    [
        {"mean": np.zeros(3), "scale": np.where(PER_ROW == 7, 1.0, 1e12)},
        {"mean": PER_ROW, "scale": np.ones(3)},
        {"mean": np.zeros(3), "scale": np.ones((30, 1))},
        {"mean": np.zeros((1, 3)), "scale": np.ones(3)},
        {"mean": 0.0, "scale": 1.0},
        {"mean": np.zeros(3)},
        {"mean": np.zeros(3), "scale": np.ones(3), "out": np.zeros(3)},
        {"mean": np.zeros(3), "scale": np.full(3, np.inf)},
        {"mean": np.full(3, -np.inf), "scale": np.ones(3)},
        {},
    ],
)
def test_a_transform_takes_the_axes_that_it_declares(here, public):
    rogue = Rogue(here).enter()
    rogue.totals("scaler.local_observed")
    chain = (Select(COLUMNS), Derive("scaler.standardised", COLUMNS, public))
    rules = rogue.rules("scaler.local_observed", operations=chain)
    assert set(rules.values()) == {"arguments"}


# A silo that takes transforms without a fit still judges what they do.
LISTED = {"allowed_steps": ["*"]}


def test_transforms_that_divide_by_zero_pick_no_rows_out():
    """(x - c) / 0 is NaN where x is c and infinite elsewhere: a question about c."""
    c, here = TABLES["a"][4], silos(TABLES, policy=LISTED)
    rogue = Rogue(here).enter()
    rogue.totals("scaler.local_observed")
    chain = (
        Select(COLUMNS),
        Derive("scaler.standardised", COLUMNS, {"mean": c, "scale": np.zeros(3)}),
    )
    for step in ("imputer.local_observed", "scaler.local_observed"):
        rules = rogue.rules(step, operations=chain)
        assert set(rules.values()) == {"infinite_values"}


def test_a_transform_that_overflows_is_refused():
    rogue = Rogue(silos(TABLES, policy=LISTED)).enter()
    public = {
        "mean": np.zeros(3),
        "components": np.full((1, 3), 1e308),
        "scale": np.ones(1),
    }
    chain = (Select(COLUMNS), Derive("pca.projected", ("y",), public))
    rules = rogue.rules("imputer.local_observed", operations=chain)
    assert set(rules.values()) == {"infinite_values"}


def test_a_transform_gives_the_columns_that_it_names():
    rogue = Rogue(silos(TABLES, policy=LISTED)).enter()
    rogue.totals("imputer.local_observed")
    for columns in (("x0",), (), (*COLUMNS, "x3")):
        chain = (
            Select(COLUMNS),
            Derive("imputer.imputed", columns, {"statistics": np.zeros(3)}),
        )
        rules = rogue.rules("imputer.local_observed", operations=chain)
        assert set(rules.values()) == {"failed_in_silo"}


def test_folds_are_chosen_in_the_silo_and_partition_its_rows(in_blocks):
    federation = in_blocks.federation
    ran.clear()
    pairs = federation.folds(3, random_state=1)
    totals = [fold.sum(block_sizes) for fold in pairs[0] + pairs[1] + pairs[2]]
    for train, test in zip(totals[::2], totals[1::2], strict=True):
        assert train["count"] + test["count"] == 90
        both = train["total"] + test["total"]
        np.testing.assert_allclose(both, POOLED.sum(axis=0), rtol=1e-13)
    assert sum(float(t["count"]) for t in totals[1::2]) == 90


def test_messages_of_a_round_hold_no_rows_and_no_counts(here):
    with here.federation.fitting():
        here.federation.sum(block_sizes)
    for _, data in here.wire.received:
        message = decode(data)
        for array in message.arrays.values():
            assert array.dtype == np.uint64
        assert "30" not in {str(v) for v in message.header.values()}


def test_rows_operations_compose():
    """A fold of a training part, on a selection: as numpy says."""
    here = silos(TABLES, policy={"min_rows": 9})
    rogue = Rogue(here).enter()
    train, fold = Rows(0, 0, 0.4, True, -1), Rows(1, 2, 0.0, False, -1)
    chain = (Select(("x1", "x0")), train, fold)
    totals = rogue.totals("scaler.local_observed", operations=chain)
    assert totals["count"].tolist() == [27.0, 27.0]
    # 30 rows: the first 12 are left out, then every second of the other 18.
    expected = sum(X[12:][1::2][:, [1, 0]].sum(axis=0) for X in TABLES.values())
    np.testing.assert_allclose(totals["total"], expected, rtol=1e-13)
