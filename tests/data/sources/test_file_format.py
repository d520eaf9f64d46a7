"""Text files of other countries: separator, decimal comma, encoding, and the hints."""

import json

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import unpooled as up
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
