"""Text files of other countries: separator, decimal comma, encoding, and the hints."""

import json

import numpy as np
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal
from pyarrow import csv, parquet

import unpooled as up
from unpooled.data.ids import read_ids
from unpooled.errors import DataError, StudyError
from unpooled.party.setup.silo_file import SiloFile
from unpooled.study.study_file import StudyFile

ROWS = "größe;weight;ward\n1,5;79,4;nord\n2;;süd\n-3,25;1e2;nord\n"
VALUES = np.array([[1.5, 79.4], [2.0, np.nan], [-3.25, 100.0]])


@pytest.fixture
def file(tmp_path):
    def write(text, encoding="utf-8", name="rows.csv"):
        path = tmp_path / name
        path.write_bytes(text.encode(encoding))
        return path

    return write


def features(table):
    return np.vstack([block.X for block in table.blocks(table.columns)])


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
def test_a_file_of_another_country_is_read_as_written(file, encoding):
    path = file(ROWS, encoding)

    table = up.open_source(
        path, label="ward", separator=";", decimal=",", encoding=encoding
    )

    assert table.columns == ("größe", "weight")
    assert_array_equal(features(table), VALUES)
    (block,) = table.blocks((), ["ward"])
    assert block.extra["ward"].tolist() == ["nord", "süd", "nord"]


@pytest.mark.parametrize(
    ("text", "encoding", "hint"),
    [
        (ROWS, "utf-8", r'separator = ";", and decimal = ","'),
        ("a;b\n1;2\n", "utf-8", r'separator = ";"\.'),
        ("a\tb\n1\t2\n", "utf-8", r'separator = "\\t"\.'),
        ('a,b\n1,"79,4"\n', "utf-8", r'decimal comma.*decimal = ","'),
        ("a,größe\n1,2\n", "cp1252", r'encoding = "cp1252"'),
        ("a,b\n1,2\n", "utf-16", r'UTF-16: give encoding = "utf-16"'),
        ("a,b\n1,2\n", "utf-16-le", r'UTF-16: give encoding = "utf-16"'),
    ],
)
def test_an_error_says_which_key_the_file_needs(file, text, encoding, hint):
    with pytest.raises(DataError, match=hint):
        up.open_source(file(text, encoding), columns=["a", "b"])


def test_a_point_is_no_decimal_point_beside_a_decimal_comma(file):
    path = file("a;b\n1.234;1\n")

    with pytest.raises(DataError, match=r"'a' \(text, first in data row 1\)"):
        up.open_source(path, separator=";", decimal=",")


def test_a_first_line_of_numbers_with_commas_is_no_line_of_names(file):
    path = file("63,5;1\n67,1;2\n")

    # As names the numbers would leave the silo.
    with pytest.raises(DataError, match="holds numbers, not the names"):
        up.open_source(path, separator=";", decimal=",")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"separator": ";;"}, "give one character"),
        ({"decimal": "."}, None),
        ({"decimal": ";"}, r'choose "\." or ","'),
        ({"decimal": ","}, "separator and decimal are both"),
        ({"encoding": "klingon"}, "is not known"),
        ({"sheet": "a"}, "sheet='a' does not apply"),
        ({"rename": ["A"]}, "the study's name of each column"),
        ({"rename": {"a": ""}}, "the study's name of each column"),
        ({"rename": {"a": "c", "b": "c"}}, "two columns the name 'c'"),
        ({"rename": {"a": "b"}}, "more than one column named 'b'"),
        ({"rename": {"A": "c"}}, r"rename: The file .* has no column 'A'.*'a' for 'A'"),
        ({"columns": ["c"]}, "has another name for a column, rename gives it"),
    ],
)
def test_a_format_that_cannot_be_is_refused(file, options, message):
    path = file("a,b\n1,2\n")
    if message is None:
        up.open_source(path, **options)
        return
    with pytest.raises(DataError, match=message):
        up.open_source(path, **options)


def test_a_format_of_a_source_that_is_no_file_is_refused():
    with pytest.raises(DataError, match="does not apply to a source that is not a"):
        up.open_source(np.eye(3), separator=";")


def test_study_files_have_the_keys(file, tmp_path):
    file(ROWS, "cp1252", "u.csv")
    file(ROWS, "utf-16", "v.csv")
    (tmp_path / "study.toml").write_text(
        """
        [study]
        name = "s"
        label = "ward"
        [parties]
        u = { source = "u.csv", separator = ";", decimal = ",", encoding = "cp1252" }
        v = { source = "v.csv", separator = ";", decimal = ",", encoding = "utf-16" }
        w = { source = "v.csv", separator = ";", decimal = ",", encoding = "utf-16" }
        [[steps]]
        model = "PCA"
        """
    )

    federation = up.Study.from_file(tmp_path / "study.toml").federation()

    assert federation.feature_names == ("größe", "weight")
    text = (tmp_path / "study.toml").read_text().replace("cp1252", "klingon")
    with pytest.raises(StudyError, match=r"study.toml, \[parties.u\].*klingon"):
        StudyFile.from_text(tmp_path / "study.toml", text)


def test_silo_files_have_the_keys(file, tmp_path):
    file("a\tb\n1,5\t2\n")
    (tmp_path / "silo.toml").write_text(
        f'[silo]\nname = "u"\nsource = "rows.csv"\n'
        f'separator = {json.dumps(chr(9))}\ndecimal = ","\n'
    )

    table = SiloFile.from_file(tmp_path / "silo.toml").table()

    assert_array_equal(features(table), [[1.5, 2.0]])


def test_a_file_is_read_under_the_names_of_the_study(tmp_path):
    own = pa.table(
        {
            "AGE": [63.0, None, 41.0, 56.0],
            "CHOL": [240, 0, 198, 250],
            "ILL": ["yes", "no", "no", "yes"],
            "PID": ["b 1", "b 2", "b 3", "b 4"],
            "TOWN": ["x", "y", "y", "z"],
            "bmi": [20.0, 21.0, 22.0, 23.0],
        }
    )
    parquet.write_table(own, tmp_path / "rows.parquet")
    csv.write_csv(own, tmp_path / "rows.csv")
    rename = {"AGE": "age", "CHOL": "chol", "ILL": "ill", "PID": "id", "TOWN": "town"}

    for name in ("rows.parquet", "rows.csv"):
        table = up.open_source(
            tmp_path / name,
            label="ill",
            ids="id",
            missing={"chol": [0]},
            where="age >= 50 and town in ['x', 'z']",
            categorical=["town"],
            rename=rename,
        )

        assert table.columns == ("age", "chol", "bmi", "town")
        (block,) = table.blocks(["chol", "age", "bmi"], ["ill", "id"])
        assert_array_equal(block.X, [[240, 63, 20], [250, 56, 23]])
        assert block.extra["ill"].tolist() == ["yes", "yes"]
        assert read_ids(table) == [b"b 1", b"b 4"]


def test_names_may_change_places(file):
    table = up.open_source(file("a,b\n1,2\n"), rename={"a": "b", "b": "a"})

    (block,) = table.blocks(["a", "b"])
    assert_array_equal(block.X, [[2, 1]])


def test_texts_that_mean_missing_are_named_as_the_study_names_columns(file):
    path = file("CHOL\n240\nn/d\n")

    with pytest.raises(DataError, match=r"chol.*in a file { \"chol\" = \["):
        up.open_source(path, rename={"CHOL": "chol"})
    table = up.open_source(path, rename={"CHOL": "chol"}, missing={"chol": ["n/d"]})
    (block,) = table.blocks(["chol"])
    assert_array_equal(block.X, [[240.0], [np.nan]])


def test_only_files_that_name_their_columns_are_renamed(tmp_path):
    np.save(tmp_path / "rows.npy", np.eye(3))

    with pytest.raises(DataError, match=r"rename=.* does not apply"):
        up.open_source(tmp_path / "rows.npy", rename={"0": "a"})


@pytest.mark.parametrize("rename", ['"a"', "[]", "{ A = 1 }", '{ A = "" }'])
def test_names_of_a_study_file_are_texts(tmp_path, rename):
    study = tmp_path / "study.toml"
    study.write_text(
        f'[study]\nname = "x"\n[parties.u]\nsource = "u.csv"\nrename = {rename}\n'
        f'[[steps]]\nmodel = "PCA"\n'
    )

    with pytest.raises(StudyError, match=r"\[parties.u"):
        StudyFile.from_file(study)


def test_a_study_and_a_silo_rename_columns(tmp_path, file):
    file("ALTER,BMI\n63,20\n41,30\n", name="u.csv")
    file("age,bmi\n33,21\n51,25\n", name="v.csv")
    (tmp_path / "study.toml").write_text(
        '[study]\nname = "x"\n[policy]\nmin_parties = 2\nmin_rows = 1\n'
        'max_feature_ratio = 1.0\n[parties]\nv = "v.csv"\n[parties.u]\n'
        'source = "u.csv"\nrename = { ALTER = "age", BMI = "bmi" }\n'
        '[[steps]]\nmodel = "StandardScaler"\n'
    )
    study = up.Study.from_file(tmp_path / "study.toml")

    assert study.federation().feature_names == ("age", "bmi")
