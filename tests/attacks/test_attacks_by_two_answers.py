"""Attacks on one person by two answers, about columns that are equal but for one row.

A column and the same one after a correction, last year's diagnosis and this year's, a
label and a column that is the label but for one person: each is asked for with the
person's other columns, in a study of its own, and the two results are subtracted.
"""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import unpooled as up
from policy_steps import squares
from unpooled.arrays import Array
from unpooled.data.sources.open_source import open_source
from unpooled.data.table import Table
from unpooled.errors import ReleaseRefusedError
from unpooled.models.discriminant.classes import names_of
from unpooled.party.memory.audit_log import AuditLog
from unpooled.party.rules.leverage_together import LeverageTogether
from unpooled.party.rules.policy import Policy
from unpooled.party.views.view import View
from unpooled.protocol.refusal import Refusal
from unpooled.protocol.step import find_step
from unpooled.protocol.view_operations import Select
from wire import Rogue, silos

PERSON, OPEN = 7, {"max_leverage": 1.0}
OTHERS, WARDS = ["age", "pressure"], ["ward", "ward_later"]


def tables(**more: int) -> dict[str, pd.DataFrame]:
    """Tables with a diagnosis of two years, which differs in one person of b."""
    rng = np.random.default_rng(0)
    made = {}
    for name in "abc":
        ill = (rng.random(100) < 0.4).astype(float)
        made[name] = pd.DataFrame(
            {
                "ill": ill,
                "ill_later": ill,
                "age": rng.integers(20, 90, 100).astype(float),
                "pressure": rng.normal(120, 15, 100).round(),
                "group": rng.integers(0, 2, 100),
            }
        )
    made["b"].loc[PERSON, "ill_later"] = 1.0 - made["b"].loc[PERSON, "ill"]
    return made


RECORD = tables()["b"].loc[PERSON, OTHERS].tolist()
SIGN = float(np.diff(tables()["b"].loc[PERSON, ["ill", "ill_later"]]).item())


def by_covariances(federation: up.Federation) -> list[float]:
    """Return the difference of two studies' products with the diagnosis."""
    found = []
    for diagnosis in ("ill", "ill_later"):
        model = up.PCA().fit(federation.select([diagnosis, *OTHERS]))
        N, mean = model.n_samples_, model.mean_
        S = (N - 1) * model.get_covariance() + N * np.outer(mean, mean)
        found.append(S[0, 1:])
    return list(SIGN * (found[1] - found[0]))


def by_derived_columns(federation: up.Federation) -> list[float]:
    """Return the difference of the means of products, one study for each number."""
    found = []
    for column in OTHERS:
        sums = []
        for diagnosis in ("ill", "ill_later"):
            derived = up.DerivedColumns({"both": f"{diagnosis} * {column}"})
            view = derived.fit(federation).transform(federation).select(["both"])
            scaler = up.StandardScaler().fit(view)
            assert scaler.mean_ is not None
            sums.append(float(scaler.mean_[0] * scaler.n_samples_seen_))
        found.append(SIGN * (sums[1] - sums[0]))
    return found


def by_classes(federation: up.Federation) -> list[float]:
    """Return sums of a class less the products with the other diagnosis."""
    of_class = up.LinearDiscriminantAnalysis().fit(federation.select(OTHERS))
    ill = of_class.means_[1] * of_class.priors_[1] * 300
    model = up.PCA().fit(federation.select(["ill_later", *OTHERS]))
    N, mean = model.n_samples_, model.mean_
    S = (N - 1) * model.get_covariance() + N * np.outer(mean, mean)
    return list(SIGN * (S[0, 1:] - ill))


ATTACKS = {
    "covariances": (by_covariances, None),
    "derived columns": (by_derived_columns, None),
    "classes": (by_classes, "ill"),
}


@pytest.mark.thinned(3)
@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize(("attack", "label"), ATTACKS.values(), ids=ATTACKS.keys())
def test_two_answers_do_not_show_whom_two_columns_differ_in(attack, label, follow):
    here = up.simulate(tables(), label=label, follow=follow)
    with pytest.raises(ReleaseRefusedError) as refused:
        attack(here)
    assert (refused.value.party, refused.value.rule) == ("b", "max_leverage")


@pytest.mark.slow
def test_nor_among_more_columns_than_rows_can_judge_at_once():
    """70 columns and the diagnoses were multiplied with the age, of 100 rows."""
    rng, data = np.random.default_rng(1), tables()
    names = [f"x{j}" for j in range(70)]
    for name, frame in data.items():
        others = pd.DataFrame(rng.standard_normal((100, 70)), columns=names)
        data[name] = pd.concat([frame, others], axis=1)
    here = up.simulate(data)
    for some in (["ill"], names[:30], names[30:60], names[60:]):
        up.PCA().fit(here.select([*some, "age"]))
    with pytest.raises(ReleaseRefusedError, match="max_leverage"):
        up.PCA().fit(here.select(["ill_later", "age"]))


@pytest.mark.parametrize(("attack", "label"), ATTACKS.values(), ids=ATTACKS.keys())
def test_control_without_a_limit_two_answers_show_the_person(attack, label):
    here = up.simulate(tables(), label=label, policy=OPEN)
    assert_allclose(attack(here), RECORD, atol=1e-6)


SUPERVISED = [up.LinearDiscriminantAnalysis(), up.LogisticRegression(C=1.0)]


@pytest.mark.slow
@pytest.mark.parametrize("model", SUPERVISED, ids=lambda model: type(model).__name__)
def test_a_column_that_is_the_label_but_for_one_person_is_refused(model):
    here = up.simulate(tables(), label="ill", follow=True)
    with pytest.raises(ReleaseRefusedError, match="max_leverage"):
        model.fit(here.select(["ill_later", *OTHERS]))


@pytest.mark.slow
@pytest.mark.parametrize("model", SUPERVISED, ids=lambda model: type(model).__name__)
def test_a_column_that_is_the_label_but_for_five_people_is_not(model):
    data = tables()
    for frame in data.values():
        frame.loc[:4, "ill_later"] = 1.0 - frame.loc[:4, "ill"]
    model.fit(up.simulate(data, label="ill", follow=True).select(["ill_later"]))


@pytest.mark.slow
def test_columns_that_no_answer_multiplied_with_the_same_ones_are_answered():
    here = up.simulate(tables(), follow=True)
    up.PCA().fit(here.select(["ill", "age"]))
    up.PCA().fit(here.select(["ill_later", "pressure"]))
    up.PCA().fit(here.select(OTHERS))
    with pytest.raises(ReleaseRefusedError, match="max_leverage"):
        up.PCA().fit(here.select(["ill", "pressure"]))


@pytest.mark.slow
def test_a_name_that_one_row_has_is_read_as_another_and_carries_nothing():
    data = tables()
    for name, frame in data.items():
        towns = np.resize(["north", "south", "east"], 100)
        towns[PERSON] = "abroad" if name == "b" else "north"
        frame["town"] = towns
    here = up.simulate(data, label="group", categorical=["town"], follow=True)
    up.describe(here.select(["town", "age"]))
    up.MCA().fit(here.select(["town"]))


@pytest.mark.slow
def test_a_third_study_of_columns_that_were_answered_is_not_judged_again():
    here = up.simulate(tables(), label="group", follow=True)
    for _ in range(2):
        for columns in (["ill", *OTHERS], ["ill", "age"], OTHERS):
            up.PCA().fit(here.select(columns))
            up.LinearDiscriminantAnalysis().fit(here.select(columns))


def test_the_account_outlives_the_process(tmp_path):
    """A silo with the log of an earlier one remembers what was multiplied."""
    table, step = open_source(tables()["b"]), find_step(squares.name)
    first, later = (
        View(table, [Select((diagnosis, "age"))]) for diagnosis in ("ill", "ill_later")
    )
    log = AuditLog(tmp_path / "audit.db")
    rule = LeverageTogether(log, Policy())
    rule.check(step, first, ["v"])
    for kind, record in rule.notes(step, first, ["v"]):
        log.note(kind, record)
    again = LeverageTogether(AuditLog(tmp_path / "audit.db"), Policy())
    assert again.notes(step, first, ["v"]) == []
    with pytest.raises(Refusal, match="max_leverage"):
        again.check(step, later, ["v"])
    # Another version of the table is another account.
    again.check(step, later, ["w"])


def wards(moved: int) -> dict[str, pd.DataFrame]:
    """Tables with the ward of two years, of which b has few rows in two."""
    made = tables()
    for name, table in made.items():
        few = 4 if name == "b" else 20
        table["ward"] = np.resize(["north", "south"], 100).astype(object)
        table.loc[: few - 1, "ward"] = "west"
        table.loc[few : 2 * few - 1, "ward"] = "east"
        table["ward_later"] = table["ward"]
    made["b"].loc[: moved - 1, "ward_later"] = "east"
    return made


def sums_in_the_west(here: up.Federation, column: str) -> Array:
    """Return the sums of the others over a ward."""
    view = here.select([column, *OTHERS])
    steps = [(up.OneHotEncoder(), [column]), (up.StandardScaler(), OTHERS)]
    transformer = up.ColumnTransformer(steps).fit(view)
    encoded = transformer.transform(view)
    model = up.PCA().fit(encoded)
    N, mean = model.n_samples_, model.mean_
    S = (N - 1) * model.get_covariance() + N * np.outer(mean, mean)
    names = list(encoded.feature_names)
    west, places = names.index(f"{column}_west"), [names.index(n) for n in OTHERS]
    pooled = pd.concat(wards(1).values())[OTHERS]
    scaled = S[west, places] * pooled.std(ddof=0).to_numpy()
    return scaled + S[west, west] * pooled.mean().to_numpy()


def moved(here: up.Federation) -> Array:
    """Return what the sums of the two years differ in."""
    one, two = (sums_in_the_west(here, column) for column in WARDS)
    return one - two


@pytest.mark.slow
@pytest.mark.parametrize("follow", [False, True])
def test_who_moved_between_two_small_categories_is_not_a_difference(follow):
    with pytest.raises(ReleaseRefusedError, match="max_leverage"):
        moved(up.simulate(wards(1), categorical=WARDS, follow=follow))
    moved(up.simulate(wards(2), categorical=WARDS, follow=follow))


def test_control_without_a_limit_it_is():
    found = moved(up.simulate(wards(1), categorical=WARDS, policy=OPEN))
    assert_allclose(found, wards(1)["b"].loc[0, OTHERS].tolist(), rtol=1e-9)


# --- two labels -----------------------------------------------------------------------


def labelled(n_classes: int, kind: str, n: int = 120) -> dict[str, pd.DataFrame]:
    """Tables with a label and another coding of it, which differ in one person of b."""
    rng = np.random.default_rng(0)
    made = {}
    for name in "abc":
        y = np.arange(n) % n_classes
        code = n_classes - 1 - y
        if name == "b":
            code[PERSON] = (code[PERSON] + 1) % n_classes
        frame = pd.DataFrame(rng.normal(50, 10, (n, 2)), columns=OTHERS)
        labels = {"ill": y, "ill_later": code}
        for column, values in labels.items():
            frame[column] = [f"c{v}" for v in values] if kind == "text" else values
        made[name] = frame
    return made


def opened_as(table: pd.DataFrame, label: str, kind: str) -> Table:
    """Open a silo's table for a study of one of its labels; the other is a column."""
    others = [name for name in ("ill", "ill_later") if name != label]
    return open_source(
        table, label=label, categorical=others if kind == "text" else None
    )


def by_two_labels(tables: Any, kind: str, policy: dict[str, float]) -> Array:
    """Return the difference of the sums of a person's class, by either label."""
    other = {"categorical": ["ill_later"]} if kind == "text" else {}
    here, sums = silos(tables, label="ill", policy=policy, **other), []
    for label in ("ill", "ill_later"):
        for name, party in here.parties.items():
            party.table = opened_as(tables[name], label, kind)
        asker = Rogue(here, study=label.replace("_", "-"), columns=tuple(OTHERS))
        asker.enter()
        values = sorted(set(tables["a"][label]))
        asked = {"classes": names_of(values)}
        count = asker.totals("discriminant.local_class_counts", asked)["count"]
        asked["count"] = np.rint(count)
        step = "discriminant.local_class_totals"
        if set(rules := asker.rules(step, asked).values()) != {""}:
            raise Refusal(max(rules))
        own = values.index(tables["a"].loc[PERSON, label])
        sums.append(asker.totals(step, asked)["total"][own])
    return sums[0] - sums[1]


# Of 55 a number could be a measurement.
CASES = [(2, "number"), (3, "text"), (55, "number")]


@pytest.mark.slow
@pytest.mark.parametrize(("n_classes", "kind"), CASES)
def test_two_labels_do_not_show_whom_they_differ_in(n_classes, kind):
    tables = labelled(n_classes, kind, 6 * max(n_classes, 20))
    with pytest.raises(Refusal, match="max_leverage"):
        by_two_labels(tables, kind, {})


@pytest.mark.parametrize(("n_classes", "kind"), CASES)
def test_control_without_a_limit_two_labels_do(n_classes, kind):
    tables = labelled(n_classes, kind, 6 * max(n_classes, 20))
    found = by_two_labels(tables, kind, OPEN)
    assert_allclose(found, tables["b"].loc[PERSON, OTHERS].tolist(), rtol=1e-6)


def test_two_labels_are_judged_where_silos_have_two_rows_of_each_class():
    """As many classes and columns as rows, so that any row may carry a direction."""
    table = labelled(20, "number", 40)["b"]
    views = [
        View(opened_as(table, label, "number"), [Select(tuple(OTHERS))])
        for label in ("ill", "ill_later")
    ]
    step, log = find_step("discriminant.local_within_squares"), AuditLog()
    rule = LeverageTogether(log, Policy())
    rule.check(step, views[0], ["v"])
    for kind, record in rule.notes(step, views[0], ["v"]):
        log.note(kind, record)
    rule.check(step, views[0], ["v"])
    with pytest.raises(Refusal, match="max_leverage"):
        rule.check(step, views[1], ["v"])
