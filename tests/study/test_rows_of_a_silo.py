"""`where` and `unlabelled`: a silo's own file chooses the rows that studies read."""

import logging

import numpy as np
import polars
import pytest

import unpooled as up
from unpooled.data.sources.open_source import open_source
from unpooled.errors import DataError, ReleaseRefusedError, StudyError
from unpooled.party.setup.silo_file import SiloFile
from unpooled.study.submit import run_over
from wire import silos

SILOS = ("north", "south", "west")


def rows(silo):
    rng = np.random.default_rng(SILOS.index(silo))
    kind = [None if 3 <= k < 8 else ["ill", "well"][k % 2] for k in range(80)]
    return polars.DataFrame(rng.normal(size=(80, 3)), list("abc")).with_columns(
        polars.Series("age", np.arange(80.0)), polars.Series("kind", kind)
    )


@pytest.fixture
def write(tmp_path):
    for silo in SILOS:
        rows(silo).write_csv(tmp_path / f"{silo}.csv")

    def write(keys, model="LinearDiscriminantAnalysis", policy=""):
        parties = "".join(f'[parties.{s}]\nsource = "{s}.csv"\n{keys}\n' for s in SILOS)
        (tmp_path / "study.toml").write_text(
            f'[study]\nname = "chosen"\nlabel = "kind"\ncolumns = ["a", "b", "c"]\n'
            f"{parties}[policy]\n{policy}\n[outputs]\nreport = false\n"
            f'[[steps]]\nmodel = "{model}"\n'
        )
        return up.Study.from_file(tmp_path / "study.toml")

    return write


@pytest.mark.slow
def test_a_study_is_of_the_rows_that_are_left(write):
    with pytest.raises(ReleaseRefusedError, match="missing_labels"):
        write("").run()

    study = write('where = "age >= 40 or age < 20"\nunlabelled = "drop"')
    assert study.plan().refusals == ()
    fitted = study.run().models["lineardiscriminantanalysis"]

    pooled = polars.concat([rows(silo) for silo in SILOS])
    left = pooled.filter(
        ((polars.col("age") >= 40) | (polars.col("age") < 20))
        & polars.col("kind").is_not_null()
    )
    means = left.group_by("kind").mean().sort("kind").select("a", "b", "c")
    np.testing.assert_allclose(fitted.means_, means.to_numpy(), rtol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("follow", [False, True])
def test_silos_that_follow_need_not_know_it(write, follow):
    run = write('where = "age > 9"\nunlabelled = "drop"').run(follow=follow)
    assert run.models["lineardiscriminantanalysis"].means_.shape == (2, 3)


def test_row_numbers_in_a_log_are_those_of_the_source(write, caplog):
    study = write('where = "age >= 2"')
    with caplog.at_level(logging.INFO, "unpooled.party"):
        study.plan()
    assert "kind: 5 rows without a label (data rows 4, 5, 6, 7, 8)" in caplog.messages


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ('where = "age >"', r"\[parties.north\] where: The condition 'age >' is not"),
        ("where = 3", r"\[parties.north\] where: must be a text"),
        ('unlabelled = "keep"', r"\[parties.north\] unlabelled: .*drop"),
        ('were = "age > 3"', r'"were" is unknown|Did you mean "where"'),
    ],
)
def test_mistakes_are_said_with_file_and_key(write, keys, says):
    with pytest.raises(StudyError, match=says):
        write(keys)


def test_a_column_that_is_not_there_is_said(write):
    with pytest.raises(DataError, match=r"parties.north.*no column 'agee'"):
        write('where = "agee > 3"').plan()


def test_over_a_consortium_the_silos_choose(write, tmp_path):
    study = write('where = "age > 3"')
    text = "\n".join(x for x in study.text.splitlines() if not x.startswith("source"))
    study.path.write_text(text)
    with pytest.raises(StudyError, match=r"where: over a consortium the silo's own"):
        run_over(up.Study.from_file(study.path), tmp_path)


def silo_file(folder, keys):
    path = folder / "silo.toml"
    path.write_text(
        f'[silo]\nname = "north"\nsource = "north.csv"\nlabel = "kind"\n'
        f'columns = ["a", "b"]\n{keys}\n'
    )
    return SiloFile.from_file(path)


def test_a_silos_own_file_has_the_same_keys(write, tmp_path):
    table = silo_file(tmp_path, 'where = "age >= 40"\nunlabelled = "drop"').table()
    assert (table.n_rows, table.columns) == (40, ("a", "b"))
    with pytest.raises(StudyError, match=r"\[silo\] where: .* is not understood"):
        silo_file(tmp_path, 'where = "age"')


@pytest.mark.slow
def test_other_rows_are_another_version_of_the_table(write, tmp_path):
    """The difference of two answers would be the one person of age 40."""
    made = {
        silo: {"source": tmp_path / f"{silo}.csv", "columns": ["a"]} for silo in SILOS
    }

    def asked(here):
        return up.StandardScaler().fit(here.federation)

    first = {s: open_source(**o, where="age >= 40") for s, o in made.items()}
    here = silos(first, policy={})
    asked(here)
    for where, allowed in {"age >= 41": False, "age >= 20": True}.items():
        other = dict(first)
        other["north"] = open_source(**made["north"], where=where)
        for name, table in other.items():
            here.parties[name].table = table
        if allowed:
            asked(here)
        else:
            with pytest.raises(ReleaseRefusedError, match=r"north .*min_changed_rows"):
                asked(here)
