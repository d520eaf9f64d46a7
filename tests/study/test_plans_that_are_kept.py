"""A plan that says yes is kept: it finds the cells for which a fit would be refused."""

import json
import logging

import numpy as np
import polars
import pytest

import unpooled as up
from command_line import call
from silo_rows import party_of
from unpooled.errors import ReleaseRefusedError, UnpooledError
from unpooled.federation.planning.dry_run import (
    DryRun,
    plan,
    planned_message,
    planned_step,
)
from unpooled.models.files.catalogue import estimators
from unpooled.party.memory.hash_chain import now
from unpooled.protocol.message import decode, encode
from ways import WAYS, Way

HETEROGENEITY = '[[steps]]\nmodel = "Heterogeneity"\n'


@pytest.fixture
def study(tmp_path):
    """Three silos of a study with complete rows; returns what writes it."""
    rng = np.random.default_rng(0)
    frames = {
        silo: polars.DataFrame(rng.normal(size=(40, 4)), list("abcd")).with_columns(
            polars.Series("kind", ["ill", "well"] * 20)
        )
        for silo in ("north", "south", "west")
    }

    def write(*models, policy="", **changed):
        for silo, frame in (frames | changed).items():
            frame.write_csv(tmp_path / f"{silo}.csv")
        parties = "".join(f'[parties.{s}]\nsource = "{s}.csv"\n' for s in frames)
        steps = "".join(f'[[steps]]\nmodel = "{model}"\n' for model in models)
        (tmp_path / "study.toml").write_text(
            f'[study]\nname = "kept"\nlabel = "kind"\n{parties}[policy]\n{policy}\n'
            f"[outputs]\nreport = false\n{steps}"
        )
        return up.Study.from_file(tmp_path / "study.toml")

    return write, frames


def spoiled(frame, column, value, rows=(3, 10, 17, 24)):
    cells = frame[column].to_list()
    for row in rows:
        cells[row] = value
    return frame.with_columns(polars.Series(column, cells))


FAULTS = {
    "missing_values": ("b", None),
    "infinite_values": ("c", float("inf")),
    "missing_labels": ("kind", None),
}


@pytest.mark.slow
@pytest.mark.parametrize("rule", FAULTS)
def test_the_plan_names_silo_rule_and_columns_and_no_count(study, rule):
    write, frames = study
    column, value = FAULTS[rule]
    made = write(
        "StandardScaler",
        "LinearDiscriminantAnalysis",
        south=spoiled(frames["south"], column, value),
    )

    planned = made.plan()

    assert {(party, found) for party, _, found in planned.refusals} == {("south", rule)}
    assert set(planned.refused_columns) == {(column,)}
    shown = call("plan", made.path, width=200)
    assert shown.exit_code == 1
    assert rule in shown.stdout
    assert f"south, columns: '{column}'" in " ".join(shown.stdout.split())
    with pytest.raises(ReleaseRefusedError, match=f"south .*{rule}.*'{column}'"):
        made.run()
    assert not made.folder.exists(), "something may have left"


def test_the_silos_own_log_has_the_rows(study, caplog):
    write, frames = study
    frame = spoiled(frames["south"], "b", None, rows=range(2, 24, 2))
    frame = spoiled(frame, "d", float("-inf"), rows=[7])
    made = write("PCA", south=frame)

    with caplog.at_level(logging.INFO, "unpooled.party"):
        made.plan()

    assert "b: 11 cells missing (data rows 3, 5, 7, 9, 11, 13, 15, 17, ...)" in (
        caplog.messages
    )
    assert "d: 1 cell infinite (data row 8)" in caplog.messages


@pytest.mark.slow
def test_an_imputer_takes_missing_cells(study):
    write, frames = study
    made = write("SimpleImputer", "PCA", south=spoiled(frames["south"], "b", None))

    assert made.plan().refusals == ()
    assert made.run().models["pca"].n_samples_ == 120


def test_what_is_not_studied_is_not_looked_at(study):
    write, frames = study
    made = write("PCA", south=spoiled(frames["south"], "b", None))
    text = made.text.replace("[study]\n", '[study]\ncolumns = ["a", "c", "d"]\n')
    made.path.write_text(text)

    assert up.Study.from_file(made.path).plan().refusals == ()


@pytest.mark.slow
def test_one_plan_of_a_table_with_all_faults_is_one_question(study):
    """Its refusals leave the silo willing to answer when the table is mended."""
    _, frames = study
    bad = frames["south"]
    for column, value in FAULTS.values():
        bad = spoiled(bad, column, value)
    federation = up.simulate(
        {**frames, "south": bad}, label="kind", policy={"max_refusals": 2.0}
    )
    model = up.LinearDiscriminantAnalysis()

    for _ in range(3):
        found = plan(model, federation, "kind").refusals
        assert {rule for _, _, rule in found} == {"missing_labels", "infinite_values"}
    assert plan(up.SimpleImputer(), federation.select(["a"])).refusals == ()
    # A selection of rows is another question: whether few rows have such cells.
    for part, _ in federation.folds(2):
        plan(up.PCA(), part.select(["b"]))
    assert {rule for _, _, rule in plan(model, federation, "kind").refusals} == {
        "refusals"
    }


@pytest.mark.parametrize("value", [None, float("inf")])
def test_no_plan_of_a_private_release_tells_of_a_row(study, value):
    _, frames = study
    spoilt = {**frames, "south": spoiled(frames["south"], "b", value, [3])}
    federation = up.simulate(
        spoilt, label="kind", policy={"max_feature_ratio": 1.0, "require_privacy": True}
    )
    privacy = up.GaussianPrivacy(epsilon=1.0, delta=1e-5, row_norm=4.0)

    assert plan(up.PCA(2, privacy=privacy), federation).refusals == ()


@pytest.fixture
def matched(tmp_path):
    """Three silos with columns of other people; returns what writes their study."""
    rng, frames = np.random.default_rng(0), {}
    for silo, names in {"clinic": "ab", "lab": "cd", "bank": "ef"}.items():
        frame = polars.DataFrame(rng.normal(size=(40, 2)), list(names))
        frames[silo] = frame.with_columns(
            polars.Series("id", [f"p{i}" for i in range(40)])
        )
    # The lab alone has the first two people.
    frames |= {silo: frames[silo][2:] for silo in ("clinic", "bank")}
    # One cell of the lab changes between two runs.
    text = (
        '[study]\nname = "wide"\npartition = "columns"\nids = "id"\n'
        + "".join(f'[parties.{s}]\nsource = "{s}.csv"\n' for s in frames)
        + "[policy]\nallow_row_level = true\nmax_released_share = 100.0\n"
        "min_changed_rows = 0\n[outputs]\nreport = false\n"
        '[[steps]]\nmodel = "PCA"\nn_components = 2\n'
    )

    def write(lab):
        for silo, frame in (frames | {"lab": lab.reverse()}).items():
            frame.write_csv(tmp_path / f"{silo}.csv")
        (tmp_path / "study.toml").write_text(text)
        return up.Study.from_file(tmp_path / "study.toml")

    return write, frames["lab"]


def test_before_rows_are_matched_a_plan_says_what_it_does_not_know(matched):
    """Silos know which rows they would read when these are matched."""
    write, lab = matched
    study = write(spoiled(lab, "c", None, rows=[0, 1]))

    plan = study.plan()

    assert plan.refusals == ()
    (doubt,) = [note for note in plan.notes if "matched" in note]
    assert "lab has cells in 'c'" in doubt
    assert "(missing_values: " in doubt
    shown = call("plan", study.path, width=200)
    assert shown.exit_code == 0
    assert "Not known before rows are matched" in " ".join(shown.stdout.split())
    # They are not common to all silos.
    assert study.run().models["pca"].n_samples_ == 38


def test_a_matched_person_with_a_missing_cell_is_refused(matched):
    write, lab = matched
    study = write(spoiled(lab, "d", None, rows=[34]))

    assert any("in 'd'" in note for note in study.plan().notes)
    with pytest.raises(ReleaseRefusedError, match=r"lab .*missing_values.*'d'"):
        study.run()


@pytest.mark.parametrize(
    ("rule", "name"), [("duplicate_ids", " P7"), ("missing_ids", None)]
)
def test_a_plan_refuses_ids_that_match_nobody_or_two(matched, rule, name):
    write, lab = matched
    study = write(spoiled(lab, "id", name, rows=[9]))

    assert {(party, found) for party, _, found in study.plan().refusals} == {
        ("lab", rule)
    }
    assert call("plan", study.path).exit_code == 1
    with pytest.raises(UnpooledError, match=rule):
        study.run()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("models", "refused"),
    [
        (["LinearDiscriminantAnalysis"], True),
        (["SimpleImputer", "StandardScaler", "LinearDiscriminantAnalysis"], True),
        (["Heterogeneity"], True),
        (["PCA"], False),
        (["PCA", "LinearDiscriminantAnalysis"], False),
    ],
)
@pytest.mark.parametrize("west", [3.0, 4.0])
def test_a_plan_refuses_columns_that_are_constant_over_all_silos(
    study, models, refused, west
):
    write, frames = study
    values = {"north": 3.0, "south": 3.0, "west": west}
    same = {
        silo: frame.with_columns(c=polars.lit(values[silo]))
        for silo, frame in frames.items()
    }
    # Constant in one silo alone, and of no matter.
    same["west"] = same["west"].with_columns(a=polars.lit(1.0))
    made = write(*models, **same)
    refused = refused and west == 3.0

    plan = made.plan()

    rules = {(party, rule) for party, _, rule in plan.refusals}
    assert rules == ({(s, "constant_columns") for s in same} if refused else set())
    assert set(plan.refused_columns) == ({("c",)} if refused else set())
    assert not [note for note in plan.notes if "Constant in every silo" in note]
    shown = call("plan", made.path).stdout
    assert ("constant_columns" in shown) == refused
    if refused:
        with pytest.raises(UnpooledError):
            made.run()
    elif west == 4.0 or models == ["PCA"]:
        # Otherwise a component has no variance, which is no column.
        made.run()


def test_constant_columns_are_told_of_all_rows_only(study):
    _, frames = study
    same = {
        silo: frame.with_columns(c=polars.lit(3.0)) for silo, frame in frames.items()
    }
    federation = up.simulate(same, label="kind", policy={"max_refusals": 1.0})
    model = up.LinearDiscriminantAnalysis()

    (note,) = plan(model, federation.folds(2)[0][0], "kind").notes
    assert note.startswith("How many classes the label has")
    # It is an answer about rows, and the silo gives one of these: of the value none.
    (note,) = [
        note
        for note in plan(model, federation, "kind").notes
        if "Constant in every silo" in note
    ]
    assert {rule for *_, rule in plan(model, federation, "kind").refusals} == {
        "refusals"
    }


# By the number of the silo's rows that lack b, which a policy compares with 10.
ROWS_READ = {
    "all rows, then the few less that are complete": ("Describe", "Correlation", 4),
    "complete rows, then all": ("Correlation", "SimpleImputer", 4),
    "all rows, then many less": ("Describe", "Correlation", 15),
    "complete rows twice": ("Correlation", "Correlation", 4),
}


@pytest.mark.thinned(1)
@pytest.mark.parametrize("case", ROWS_READ)
def test_the_plan_compares_the_rows_that_its_steps_read(study, case):
    """A step is refused for what an earlier one of the same study read."""
    write, frames = study
    *models, n_missing = ROWS_READ[case]
    bad = spoiled(frames["south"], "b", None, range(n_missing))
    refuses = not (n_missing > 10 or models[0] == models[1])

    study = write(*models, south=bad, policy="max_released_share = 10.0")
    planned = study.plan()

    assert {(party, rule) for party, _, rule in planned.refusals} == (
        {("south", "min_changed_rows")} if refuses else set()
    )
    assert set(planned.refused_columns) == ({("b",)} if refuses else set())
    if refuses:
        return
    assert study.run().ledger


def test_silos_compare_rows_with_any_that_a_coordinator_names(study):
    """Each comparison that a silo refuses is a question of its own, and counted."""
    _, frames = study
    frames = frames | {"south": spoiled(frames["south"], "b", None)}
    federation = up.simulate({n: f.drop("kind") for n, f in frames.items()})
    dry = DryRun(federation.parties, federation.coordinator.study, "masked")
    up.StandardScaler().fit(federation.over(dry))
    request, needs = dry.requests[0]
    south = party_of(federation, "south")

    about = planned_step(needs, matched=True, earlier=(), opens=(0.0, 0.0))
    sound = decode(planned_message(request, dry.parties, "rows", about))

    def asked(earlier):
        message = encode(sound.header | {"earlier": earlier}, sound.arrays)
        header = decode(south.handle(message)).header
        return header["rule"], header.get("columns"), header.get("complete_in")

    def n_refusals():
        return len(south._studies._audit_log.state().refusals.rules(now(), 1.0))

    assert asked([]) == asked([["a"]]) == ("", [], [])
    assert asked([["a"], ["a", "b"]]) == ("min_changed_rows", ["b"], [])
    assert asked([["z"]])[0] == "unknown_columns"
    assert asked([[1]])[0] == "malformed_message"
    before = n_refusals()
    asked([["a"], ["a", "b"]])
    assert n_refusals() == before
    asked([["b"]])
    assert n_refusals() == before + 1


# --- Of every estimator the plan and the run agree. ----------------------------------


def cases():
    for name, kind in estimators().items():
        for number, way in enumerate(WAYS.get(name, [Way()])):
            if way.named and way.parties == 3:
                for fault in (*FAULTS, "none"):
                    usual = number == 0 and fault in ("missing_values", "none")
                    yield pytest.param(
                        *(kind, way, fault),
                        id=f"{name}-{number}-{fault}",
                        marks=() if usual else pytest.mark.slow,
                    )


def refused_plan(model, federation, y):
    return {rule for _, _, rule in plan(model, federation, y).refusals}


def refused_run(model, federation, y):
    try:
        model.fit(federation, y)
    except ReleaseRefusedError as refused:
        return {refused.rule}
    except up.errors.UnpooledError as other:
        return {other.rule}
    return set()


@pytest.mark.thinned(24)
@pytest.mark.parametrize(("kind", "way", "fault"), [*cases()])
def test_a_plan_of_every_estimator_is_kept(kind, way, fault):
    at = spoiled_silos(way, fault)
    model = kind().set_params(**{**kind().get_params(), **way.parameters})

    foreseen = refused_plan(model, way.view(at.federation), way.y)

    again = spoiled_silos(way, fault)
    happened = refused_run(model, way.view(again.federation), way.y)
    assert bool(foreseen) == bool(happened), (foreseen, happened)
    if fault == "none":
        assert not foreseen


OF_ALL = {"empty": np.nan, "constant": 2.0}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Constant columns are left:UserWarning")
@pytest.mark.parametrize("fault", OF_ALL)
@pytest.mark.parametrize(
    ("kind", "way"),
    [
        pytest.param(kind, way, id=f"{name}-{number}")
        for name, kind in estimators().items()
        for number, way in enumerate(WAYS.get(name, [Way()]))
        # A user's step says nothing of the columns that it takes.
        if way.named and way.parties == 3 and name != "GeneralizedEigen"
    ],
)
def test_a_plan_of_every_estimator_knows_columns_without_variance(kind, way, fault):
    def silos():
        tables = way.tables()
        for table in tables.values():
            if "a" in table.columns:
                table["a"] = OF_ALL[fault]
        return way.silos_of(tables)

    model = kind().set_params(**{**kind().get_params(), **way.parameters})

    foreseen = refused_plan(model, way.view(silos().federation), way.y)
    happened = refused_run(model, way.view(silos().federation), way.y)

    assert bool(foreseen) == bool(happened), (foreseen, happened)


def spoiled_silos(way, fault):
    """The silos of a way, of which one has a cell that models do not take."""
    made = way.tables()
    bad = made["s0"].copy()
    if fault != "none":
        column, value = FAULTS[fault]
        column = "a" if column != "kind" else "kind"
        bad[column] = bad[column].astype(float)
        bad.loc[7, column] = np.nan if value is None else value
        if way.reads == "categories" and fault == "missing_values":
            bad.loc[7, "site"] = None
    return way.silos_of(made | {"s0": bad})


@pytest.mark.thinned(1)
@pytest.mark.parametrize(
    ("ranges", "steps", "said"),
    [
        (("[100, 230]", "[1.0, 2.3]", "[90, 220]"), "", ", or run Heterogeneity."),
        (("[100, 230]", "[1.0, 2.3]", None), HETEROGENEITY, "Convert it to one unit."),
        (("[100, 230]", "[90, 210]", "[0, 300]"), "", None),
        (("[100, 230]", None, None), "", None),
    ],
)
def test_a_plan_says_where_declared_ranges_do_not_overlap(
    tmp_path, ranges, steps, said
):
    """By the study's text alone: the ranges are declared, and rows are not compared."""
    for silo, limits in zip("abc", ranges, strict=True):
        low, high = (150, 200) if limits is None else json.loads(limits)
        rows = np.linspace(low, high, 30)
        polars.DataFrame({"Height": rows, "x": rows**2 % 7}).write_csv(
            tmp_path / f"{silo}.csv"
        )
    parties = "".join(
        f'[parties.{silo}]\nsource = "{silo}.csv"\n'
        + ("" if limits is None else f"plausible = {{ Height = {limits} }}\n")
        for silo, limits in zip("abc", ranges, strict=True)
    )
    path = tmp_path / "study.toml"
    path.write_text(
        f'[study]\nname = "heights"\n{parties}{steps}'
        f'[[steps]]\nmodel = "StandardScaler"\n'
    )

    notes = [one for one in up.Study.from_file(path).plan().notes if "Height" in one]

    if said is None:
        assert notes == []
        return
    [note] = notes
    assert note.startswith("Height differs between silos more than chance explains")
    assert "a: 100 to 230" in note
    assert "b: 1 to 2.3" in note
    assert note.endswith(said)


# --- What the silo answered before. ---------------------------------------------------


def test_a_plan_foresees_what_the_budget_of_numbers_refuses():
    """And that a study that is repeated opens nothing new."""
    rng = np.random.default_rng(0)
    here = up.simulate({s: rng.normal(size=(30, 5)) for s in "abc"}, follow=True)
    ended = False
    for left in range(5):
        view = here.select([f"x{j}" for j in range(5) if j != left])
        for model in (up.StandardScaler(), up.PCA(2), up.Correlation()):
            planned = plan(model, view)
            rules = {rule for _, _, rule in planned.refusals}
            if rules:
                assert rules == {"max_released_share"}
                with pytest.raises(ReleaseRefusedError, match="max_released_share"):
                    model.fit(view)
                ended = True
            else:
                model.fit(view)
    assert ended
    view = here.select(["x1", "x2", "x3", "x4"])
    assert not plan(up.PCA(2), view).refusals
    up.PCA(2).fit(view)


@pytest.mark.slow
def test_plans_of_three_numbers_of_columns_do_not_end_what_a_silo_answers():
    """All of them are one question, whose answer is a coarse number of rows."""
    rng = np.random.default_rng(0)
    here = up.simulate({s: rng.normal(size=(40, 40)) for s in "abc"}, follow=True)
    for width in (40, 30, 20, 14):
        view = here.select([f"x{j}" for j in range(width)])
        said = {rule for _, _, rule in plan(up.PCA(2), view).refusals}
        assert said == {"max_feature_ratio"}
    # 40 rows are 40 to four binary digits, 41 to 43 are too.
    view = here.select([f"x{j}" for j in range(13)])
    assert not plan(up.PCA(2), view).refusals
    up.PCA(2).fit(view)
    odd = up.simulate({s: rng.normal(size=(43, 14)) for s in "abc"})
    assert plan(up.PCA(2), odd).refusals
