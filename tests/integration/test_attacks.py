"""Published attacks on deployed silos, each beside a control that succeeds.

The adversary has the server. A control is the same attack on the same silos, where the
owners' rules are off. The same attacks in one process, and more: tests/attacks/.
"""

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from numpy.testing import assert_allclose

from attacks import (
    COINS,
    PERSON,
    by_chance,
    column_sums,
    filled,
    first_row,
    marked,
    person_and_columns,
    record_from_fills,
    scatter,
    tables_of,
    two_valued,
    unmixed,
    with_a_hole,
)
from integration.captured import captured
from integration.rows import SILOS
from unpooled.party.memory.audit_log import AuditLog
from unpooled.protocol.message import decode, encode
from unpooled.secure.sums.fixed_point import WideCode
from unpooled.secure.sums.masking import MaskedSum
from wire import COLUMNS, Rogue

FIVE = (*SILOS, "budapest", "switzerland")
MARKED = marked(tables_of(FIVE), "va")
HOLED = with_a_hole(tables_of(FIVE), "va")
HOLES = ("h0", "h1", "h2")
OTHERS = ("o0", "o1", "o2")
BY_COIN, SECRETS = two_valued(FIVE)

DEFENDED = "min_rows = 10\n"
OPEN = """
min_parties = 1
min_rows = 0
min_own_cells = 0
max_feature_ratio = inf
max_leverage = 1.0
allow_disclosed = true
allow_roster_change = true
min_changed_rows = 0
allowed_steps = ["*"]
"""


@pytest.fixture(scope="module")
def five(consortium, tmp_path_factory):
    """Five silos, and files with rows for these attacks."""
    folder, sources = tmp_path_factory.mktemp("attacked"), {}
    for silo in FIVE:
        X = np.hstack([MARKED[silo], HOLED[silo], MARKED[silo], BY_COIN[silo]])
        names = [*COLUMNS, *HOLES, *OTHERS, *COINS]
        sources[silo] = folder / f"{silo}.parquet"
        pyarrow.parquet.write_table(pa.table(list(X.T), names), sources[silo])
    consortium.start("budapest", "switzerland")
    yield consortium, sources
    for silo in consortium.spare:
        consortium.kill(silo)


@pytest.fixture(scope="module")
def defended(five):
    consortium, sources = five
    with consortium.settled(DEFENDED, audit="defended", sources=sources):
        with captured(consortium, FIVE) as doors:
            yield doors


@pytest.fixture(scope="module")
def undefended(five):
    consortium, sources = five
    with consortium.settled(OPEN, audit="open", sources=sources):
        with captured(consortium, FIVE) as doors:
            yield doors


def assert_refused(five, replies, study, rule, step):
    """By every silo, in one word, and written down there."""
    for silo, reply in replies.items():
        assert reply.header["rule"] == rule, silo
        assert not reply.arrays
        path = five[0].kit(silo) / "state" / "defended.sqlite"
        entries = AuditLog(path).entries(study)
        written = [
            (e.kind, e.record.get("asked"), e.record.get("rule")) for e in entries
        ]
        assert ("refused", step, rule) in written, silo


# --- covariances with columns that the coordinator made (Huth et al. 2023) ------------


def test_a_made_up_column_does_not_rebuild_a_record(five, defended):
    rogue = Rogue(defended, study="huth").enter()

    said = rogue.step("pca.local_squares", {"mean": np.zeros(4)}, person_and_columns())

    rule = "transform_not_fitted"
    assert_refused(five, said, "huth", rule, "pca.local_squares")


def test_control_a_made_up_column_rebuilds_a_record(undefended):
    S = scatter(Rogue(undefended).enter(), person_and_columns(), 4)

    assert_allclose(S[0, 1:], MARKED["va"][PERSON], rtol=1e-9)


@pytest.mark.parametrize("number", [1e4, 5.0])
def test_a_made_up_filling_does_not_rebuild_a_record(five, defended, number):
    rogue = Rogue(defended, study="filling", columns=HOLES).enter()
    rogue.observed("imputer")

    said = rogue.step("pca.local_squares", {"mean": np.zeros(3)}, filled(number, HOLES))

    rule = "transform_not_fitted"
    assert_refused(five, said, "filling", rule, "pca.local_squares")


def test_control_two_modest_fillings_subtract_to_a_record(undefended):
    rogue = Rogue(undefended, study="filling", columns=HOLES).enter()

    record = record_from_fills(rogue, 5.0, 6.0)

    assert_allclose(record, HOLED["va"][PERSON, [0, 2]], rtol=1e-9)


# --- totals that are subtracted (Denning et al. 1979) ---------------------------------


def refused_study(doors, names, columns):
    study = f"study-of-{'-'.join(names)}"
    rogue = Rogue(doors, names, study=study, columns=columns).enter()
    return study, rogue.step("pca.local_total")


def test_two_studies_do_not_subtract_to_a_silo(five, defended):
    column_sums(defended, FIVE)

    study, said = refused_study(defended, FIVE[:-1], COLUMNS)

    assert_refused(five, said, study, "allow_roster_change", "pca.local_total")


def test_control_two_studies_subtract_to_a_silo(undefended):
    rest = column_sums(undefended, FIVE[:-1], "pca.local_total")

    own = column_sums(undefended, FIVE) - rest

    assert_allclose(own, MARKED[FIVE[-1]].sum(axis=0), rtol=1e-12)


# No silo sees all three, and none but `both` sees the first two.
a, b, both, d, e = FIVE
OVERLAPPING = ([a, b, both], [both, d, e], [a, b, d, e])


def test_three_overlapping_studies_do_not_combine_to_a_silo(five, defended):
    first, second, third = OVERLAPPING
    column_sums(defended, first, columns=OTHERS)

    study, said = refused_study(defended, second, OTHERS)
    assert_refused(five, {both: said[both]}, study, "allow_roster_change",
                   "pca.local_total")  # fmt: skip
    study, said = refused_study(defended, third, OTHERS)
    assert_refused(five, {a: said[a], b: said[b]}, study, "allow_roster_change",
                   "pca.local_total")  # fmt: skip


def test_control_three_overlapping_studies_combine_to_a_silo(undefended):
    one, two, three = (column_sums(undefended, names) for names in OVERLAPPING)

    assert_allclose((one + two - three) / 2, MARKED[both].sum(axis=0), rtol=1e-12)


# --- one row, or one silo, that a total is made of ------------------------------------


@pytest.mark.parametrize("complement", [False, True])
def test_one_row_cannot_be_picked(five, defended, complement):
    """A vector with a single 1 over each silo's rows, or with a single 0."""
    rogue = Rogue(defended, study="picked").enter()

    part = rogue.totals("scaler.local_counts", None, first_row(complement))["count"]

    # The smallest share is a block of each silo.
    every, few = sum(map(len, MARKED.values())), 10 * len(MARKED)
    assert (few <= part).all()
    assert (part <= every - few).all()


def test_control_few_rows_of_each_silo_are_picked(undefended):
    """Without a least number of rows a block may have one."""
    rogue = Rogue(undefended, study="picked").enter()

    part = rogue.totals("scaler.local_counts", None, first_row())["count"]

    assert (part <= 2 * len(MARKED)).all()


def test_a_silo_alone_makes_no_total(five, defended):
    """A vector with a single 1 over the silos."""
    said = Rogue(defended, ["va"], study="alone").join()

    assert_refused(five, said, "alone", "min_parties", "join")


def test_control_a_silo_alone_is_its_total(undefended):
    rogue = Rogue(undefended, ["va"], study="alone", protection="plain").enter()

    own = rogue.totals("pca.local_total")["total"]

    assert_allclose(own, MARKED["va"].sum(axis=0), rtol=1e-12)


# --- independent components of what silos send (Kariyappa et al. 2023) ----------------

THREE = SECRETS[: 2 * len(SILOS)]


def test_independent_components_of_masked_words_show_nothing(defended):
    rogue = Rogue(defended, SILOS, study="masked", columns=COINS).enter()

    found, k = unmixed(rogue, THREE, None)

    assert k == 6 * len(SILOS) * 4
    assert found.max() < by_chance(k, len(THREE))


def test_totals_in_clear_are_refused(five, defended):
    said = Rogue(defended, study="clear", protection="plain").join()

    assert_refused(five, said, "clear", "allow_disclosed", "join")


def test_control_independent_components_of_plain_arrays_are_the_secrets(undefended):
    how = {"study": "plain", "protection": "plain", "columns": COINS}
    rogue = Rogue(undefended, SILOS, **how).enter()

    found, _ = unmixed(rogue, THREE, len(THREE))

    assert found.min() > 0.98


# --- one mask, two vectors (Bonawitz et al. 2017) -------------------------------------


def test_a_retry_never_reuses_a_mask(five, defended):
    rogue = Rogue(defended, study="retried").enter()
    step = "scaler.local_squares"

    def first_round(number):
        rogue.round = 0
        asked = rogue.request(step, {"mean": np.full(3, number)}).as_message()
        return defended.answers({"va": encode(*asked)})["va"]

    first = first_round(0.0)
    for other in (1.0, np.nan):
        reply = decode(first_round(other))
        assert_refused(five, {"va": reply}, "retried", "replayed", step)
    # A reply that was lost is sent again, byte for byte.
    assert first_round(0.0) == first

    again = Rogue(defended, study="retried").enter().step(step, {"mean": np.zeros(3)})
    words = decode(first).arrays["squares"]
    assert (again["va"].arrays["squares"] != words).all()


def test_control_one_mask_twice_shows_the_difference():
    """Silos have no switch that lets them; this is what they would send."""
    rng, code = np.random.default_rng(4), WideCode(3)
    party = MaskedSum("va", {peer: rng.bytes(32) for peer in SILOS[:2]})
    x, y = rng.standard_normal((2, 100))

    words = party.conceal(x, code, b"round 1")
    code.subtract(words, party.conceal(y, code, b"round 1"))

    assert_allclose(code.decode(words), x - y, rtol=1e-12, atol=1e-15)
