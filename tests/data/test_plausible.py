"""Ranges that a silo declares plausible, judged where the rows are."""

import numpy as np
import pandas as pd
import pytest

import unpooled as up
from silo_command import run
from unpooled.errors import DataError, StudyError
from unpooled.party.setup.silo_file import SiloFile


@pytest.fixture
def frame():
    return pd.DataFrame(
        {
            "Height": [170.0, 1.7, np.nan, 199.0, 181.0],
            "Weight": [70.0, 80.0, -999.0, 60.0, 55.0],
            "age": [40, 16, 50, 60, 70],
        }
    )


RANGES = {"Height": [100, 230], "Weight": [30, 300]}


def test_cells_outside_are_named_by_column_and_row(frame):
    with pytest.raises(DataError) as caught:
        up.open_source(frame, plausible=RANGES)

    message = str(caught.value)
    assert "1 of 'Height' outside of 100 to 230 (data rows 2)" in message
    assert "1 of 'Weight' outside of 30 to 300 (data rows 3)" in message


def test_codes_and_rows_that_are_left_out_need_not_be_plausible(frame):
    table = up.open_source(
        frame, plausible=RANGES, missing={"Weight": [-999]}, where="age >= 18"
    )

    assert table.n_rows == 4
    # At the limits a cell is plausible; row 4 of the source is row 3 of those left.
    up.open_source(frame[:1], plausible={"Height": [170, 171]})
    with pytest.raises(DataError, match=r"'Height' .* \(data rows 4\)"):
        up.open_source(frame, where="age >= 18", plausible={"Height": [100, 190]})


def test_many_cells_are_counted_and_few_shown():
    with pytest.raises(DataError, match=r"100 of 'x0' .*rows 1, 2, 3, 4, 5, \.\.\.\)"):
        up.open_source(np.ones((100, 2)), plausible={"x0": [2, 3]}, block_mb=1e-4)


@pytest.mark.parametrize(
    "given", ["12", [1], [2, 1], [1, "2"], [1, 2, 3], 5, [1, float("nan")]]
)
def test_a_range_has_two_numbers(frame, given):
    with pytest.raises(DataError, match=r"plausible\['Height'\].*smallest"):
        up.open_source(frame, plausible={"Height": given})


def test_a_column_must_be_known(frame):
    with pytest.raises(DataError, match="Did you mean 'Height'"):
        up.open_source(frame, plausible={"height": [1, 2]})


def test_a_study_names_the_party(frame, tmp_path):
    frame.to_csv(tmp_path / "u.csv", index=False)
    (tmp_path / "study.toml").write_text(
        '[study]\nname = "s"\n[parties.u]\nsource = "u.csv"\n'
        'plausible = { Height = [100, 230] }\n[[steps]]\nmodel = "PCA"\n'
    )
    study = up.Study.from_file(tmp_path / "study.toml")

    with pytest.raises(DataError, match=r"\[parties\.u\]: .*'Height' outside of 100"):
        study.plan()


def test_a_silo_says_it_to_itself_alone(frame, tmp_path):
    local = tmp_path / "kit" / "local"
    (tmp_path / "kit").mkdir()
    frame.to_csv(tmp_path / "u.csv", index=False)
    run("silo", "init", "--kit", tmp_path / "kit", "--name", "u",
        "--source", tmp_path / "u.csv")  # fmt: skip
    file = local / "silo.toml"
    file.write_text(f"{file.read_text()}plausible = {{ Height = [100, 230] }}\n")

    shown = run("silo", "check", "--kit", tmp_path / "kit", "--offline", code=1)

    assert "'Height' outside of 100 to 230 (data rows 2)" in " ".join(shown.split())
    with pytest.raises(DataError, match="not plausible"):
        SiloFile.from_file(file).party()


# --- Two silos with the same rows -----------------------------------------------------


def test_two_silos_with_the_same_rows_are_noticed(frame):
    frame["ill"] = ["a", "b", None, "a", "b"]
    shuffled = frame.sample(frac=1.0, random_state=2)[frame.columns[::-1]]
    parties = {"u": frame, "v": frame[:4], "w": shuffled}

    up.simulate(parties, label="ill")
    with pytest.raises(DataError, match="Silos 'u' and 'w' have the same rows"):
        up.simulate(parties, label="ill", distinct=True)
    other = shuffled.assign(age=[1, 2, 3, 4, 5])
    up.simulate(parties | {"w": other}, label="ill", distinct=True)


def test_a_study_file_asks_for_it(frame, tmp_path):
    for name in "uv":
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    text = (
        '[study]\nname = "s"\ndistinct = true\n[parties]\nu = "u.csv"\nv = "v.csv"\n'
        '[[steps]]\nmodel = "PCA"\n'
    )
    (tmp_path / "study.toml").write_text(text)
    study = up.Study.from_file(tmp_path / "study.toml")

    with pytest.raises(DataError, match="Silos 'u' and 'v' have the same rows"):
        study.plan()
    with pytest.raises(StudyError, match=r"distinct: .*unpooled silo check"):
        study.plan(kit=tmp_path)
