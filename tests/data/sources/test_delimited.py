import csv
import gzip
import io

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from unpooled.data.columns import Roles
from unpooled.data.sources import delimited
from unpooled.data.sources.delimited import MISSING, DelimitedReader
from unpooled.data.sources.streamed import FileTable
from unpooled.errors import DataError

NUMBERS = st.one_of(
    st.floats().map(repr),
    st.integers(-(10**18), 10**18).map(str),
    st.decimals(-1000, 1000, places=3).map(str),
)
CELLS = st.one_of(st.sampled_from(MISSING), NUMBERS)
# A line that is wholly blank is no row, so the first column always has a number.
ROWS = st.lists(st.tuples(NUMBERS, CELLS, CELLS), min_size=1, max_size=12)


@pytest.fixture
def opened(tmp_path):
    def open_text(text, name="rows.csv", delimiter=",", **roles):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return FileTable(path, DelimitedReader(path, delimiter), Roles(**roles))

    return open_text


def read(table, rows=None):
    extra = [name for name in (table.label, table.ids) if name is not None]
    blocks = list(table.blocks(table.columns, extra, rows=rows))
    values = {name: np.concatenate([b.extra[name] for b in blocks]) for name in extra}
    return np.vstack([b.X for b in blocks]), values


@pytest.mark.slow
@settings(max_examples=60)
@given(
    cells=ROWS,
    rows=st.integers(1, 5),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_any_numbers_and_missing_cells_are_read_as_written(
    tmp_path_factory, cells, rows, quoting, end
):
    text = io.StringIO()
    writer = csv.writer(text, quoting=quoting, lineterminator=end)
    writer.writerows([("a", "b", "c"), *cells])
    path = tmp_path_factory.mktemp("csv") / "rows.csv"
    path.write_bytes(text.getvalue().encode())

    X, _ = read(FileTable(path, DelimitedReader(path, ",")), rows)

    expected = [[np.nan if c in MISSING else float(c) for c in row] for row in cells]
    assert_array_equal(X, expected)


@pytest.mark.slow
@settings(max_examples=100)
@given(text=st.text(alphabet='ab1.,;"\n\r \t?é\x00', max_size=40))
def test_any_text_is_read_or_refused_with_a_data_error(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("csv") / "rows.csv"
    path.write_bytes(text.encode())

    try:
        table = FileTable(path, DelimitedReader(path, ","))
        X, _ = read(table)
    except DataError:
        return
    assert X.shape == (table.n_rows, len(table.columns))


def test_types_hold_over_blocks_of_text(opened, monkeypatch):
    # A few bytes per batch: the columns are blank, then whole, then fractional.
    monkeypatch.setattr(delimited, "READ_BYTES", 64)
    n = 60
    late = [""] * n + ["1"] * n + ["0.5"] * n
    flags = [""] * n + ["true"] * n + ["false"] * n
    lines = ["row,late,flag,y"] + [
        f"{i},{a},{b},{i if i < 170 else 'x'}"
        for i, (a, b) in enumerate(zip(late, flags, strict=True))
    ]

    X, extra = read(opened("\n".join(lines), label="y"), rows=7)

    blank = [np.nan] * n
    assert_array_equal(X[:, 0], np.arange(3 * n))
    assert_array_equal(X[:, 1], blank + [1.0] * n + [0.5] * n)
    assert_array_equal(X[:, 2], blank + [1.0] * n + [0.0] * n)
    assert extra["y"].tolist() == [str(i) for i in range(170)] + ["x"] * 10


def test_the_first_cell_that_is_no_number_is_located(opened, monkeypatch):
    monkeypatch.setattr(delimited, "READ_BYTES", 64)
    lines = ["a,b", *(f"{i},{i}" for i in range(150)), "150,n.a.", "151,1"]

    with pytest.raises(DataError, match=r"numbers: 'b' \(text, first in data row 151"):
        opened("\n".join(lines))


def test_equals_pandas(tmp_path):
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.standard_normal((500, 4)), columns=list("abcd"))
    frame = frame.mask(rng.random(frame.shape) < 0.1)
    path = tmp_path / "rows.csv"
    frame.to_csv(path, index=False)

    X, _ = read(FileTable(path, DelimitedReader(path, ",")), rows=64)

    assert_array_equal(X, frame.to_numpy())
    # The parser of older pandas is not exact in the last digit, 2⁻⁵² of the value.
    assert_allclose(X, pd.read_csv(path).to_numpy(), rtol=2**-51)


@pytest.mark.parametrize(
    ("cells", "expected", "dtype"),
    [
        (["0", "1"], [0, 1], np.int64),
        (["0", ""], [0.0, np.nan], np.float64),
        (["0.5", "1"], [0.5, 1.0], np.float64),
        (["true", "false"], [True, False], np.bool_),
        (["true", "NA"], [1.0, np.nan], np.float64),
        (["", "?"], [np.nan, np.nan], np.float64),
        (["9" * 20, "1"], [1e20, 1.0], np.float64),
    ],
)
def test_numeric_labels(opened, cells, expected, dtype):
    text = "a,y\n" + "".join(f"1,{cell}\n" for cell in cells)

    _, extra = read(opened(text, label="y"), rows=1)

    assert extra["y"].dtype == dtype
    assert_array_equal(extra["y"], expected)


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["x", ""], ["x", None]),
        (["1", "x"], ["1", "x"]),
        (["true", "2"], ["true", "2"]),
    ],
)
def test_text_labels(opened, cells, expected):
    text = "a,y\n" + "".join(f"1,{cell}\n" for cell in cells)

    assert read(opened(text, label="y"))[1]["y"].tolist() == expected


def test_ids_stay_text(opened):
    table = opened("id,a\n007,1\n08,2\n", ids="id")

    assert read(table)[1]["id"].tolist() == ["007", "08"]


def test_layouts(opened):
    expected = [[1.0, 2.0], [3.0, np.nan]]

    assert_array_equal(read(opened("\ufeffa,b\r\n1, 2\r\n3,NA \r\n"))[0], expected)
    assert_array_equal(read(opened("a\tb\n1\t2\n3\t\n", delimiter="\t"))[0], expected)
    zipped = gzip.compress(b"a,b\n1,2\n3,?", mtime=0)
    assert_array_equal(read(opened(zipped, "rows.csv.gz"))[0], expected)
    quoted = opened('a,n,b\n1,"x, y\nz",2\n3,,\n', columns=["a", "b"])
    assert_array_equal(read(quoted)[0], expected)


def test_one_column_keeps_quoted_blanks_and_drops_blank_lines(opened):
    # As pandas writes and reads them.
    assert_array_equal(read(opened('a\n1\n""\n\n2\n'))[0], [[1.0], [np.nan], [2.0]])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it is empty"),
        ("a,b\n", "no rows"),
        ("a,a\n1,2\n", "more than one column named 'a'"),
        (",a\n0,1\n", "without a name"),
        ("a,b\n1,2,3\n", "Expected 2 columns, got 3"),
        ("a;b\n1;2\n", "not numbers: 'a;b'"),
        ("a\n1,5\n", "Expected 1 columns"),
        ("a\n0x10\n", "not numbers"),
        ("a\n1_000\n", "not numbers"),
        ("a,b\n1,true\n2,7\n", "not numbers: 'b'"),
        (b"a\n\xe9\n", "UTF-8"),
        (gzip.compress(b"a\n1\n", mtime=0), "cannot be read|not numbers"),
    ],
)
def test_refusals_say_why(opened, text, message):
    with pytest.raises(DataError, match=message):
        opened(text)


def test_truncated_compression_is_refused(opened):
    with pytest.raises(DataError, match="cannot be read"):
        opened(gzip.compress(b"a,b\n1,2\n", mtime=0)[:-9], "rows.csv.gz")


@pytest.mark.parametrize(
    "text", ["63,1,145\n67,1,160\n", "63.0,?,145.0\n1,2,3\n", "63.5,M\n1.5,F\n"]
)
def test_a_file_without_names_is_refused(opened, text):
    # Its first person would become the columns' names, which travel.
    with pytest.raises(DataError, match="numbers, not the names of columns"):
        opened(text)


@pytest.mark.parametrize(
    "text", ["0,1,2\n4,5,6\n", "1,2\n4,5\n", "n,1990,1991\n1,2,3\n"]
)
def test_counted_columns_and_years_are_names(opened, text):
    assert opened(text).columns == tuple(text.splitlines()[0].split(","))
