"""Model files that were altered or made up: nothing else comes back."""

import contextlib
import json
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.pipeline import make_pipeline

import unpooled as up
from model_archives import content_of, packed, rewritten, rows
from unpooled.errors import StudyError

# A fixture's folder or file that no example changes may serve them all.
SHARED = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    model = make_pipeline(up.SimpleImputer(), up.StandardScaler(), up.PCA(2))
    model.fit(up.simulate(up.partition_rows(rows(), 3)))
    return up.save(model, tmp_path_factory.mktemp("models") / "heart.unpooled")


def one_array(path, content):
    """Write a file whose only array has these bytes."""
    record = {"class": "PCA", "parameters": {}, "fitted": {"mean_": {"array": "a"}}}
    text = json.dumps({"version": 1, "unpooled": "0", "model": record})
    return packed(path, {"model.json": text, "a.npy": content})


def npy(header, data=b"\0" * 16, version=b"\x01\x00"):
    text = header.encode("latin1") + b"\n"
    return b"\x93NUMPY" + version + struct.pack("<H", len(text)) + text + data


GOOD = "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }"


def test_an_array_of_a_good_header_is_read(tmp_path):
    model = up.load(one_array(tmp_path / "m", npy(GOOD)))

    assert np.array_equal(model.mean_, [0.0, 0.0])
    model.mean_ += 1.0  # an owner's array, not a view of the file


@pytest.mark.parametrize(
    "content",
    [
        npy(GOOD.replace("<f8", "|O")),
        npy(GOOD.replace("'<f8'", "[('a', '<f8')]")),
        npy(GOOD.replace("<f8", "<U2")),
        npy(GOOD.replace("<f8", "<M8[s]")),
        npy(GOOD.replace("(2,)", "(3,)")),
        npy(GOOD.replace("(2,)", "(1,)")),
        npy(GOOD.replace("(2,)", "(-1,)")),
        npy(GOOD.replace("(2,)", "(-1, -2)")),
        npy(GOOD.replace("(2,)", "(2L,)")),
        npy(GOOD.replace("(2,)", f"({2**61 + 2},)")),
        npy(GOOD.replace("(2,)", f"({10**12}, 0)"), b"\0" * 8),
        npy(GOOD.replace("(2,)", "(__import__('os').getpid(),)")),
        npy("{" * 300),
        npy("(" * 9000),
        npy("'"),
        npy(GOOD, version=b"\x03\x00"),
        npy(GOOD, version=b"\x09\x09"),
        b"\x93NUMPY",
        b"",
    ],
)
def test_other_arrays_are_refused(tmp_path, content):
    with pytest.raises(StudyError, match="is not a model file"):
        up.load(one_array(tmp_path / "m", content))


def test_an_array_serves_once(tmp_path):
    fitted = {"mean_": {"array": "a"}, "components_": {"array": "a"}}
    record = {"class": "PCA", "parameters": {}, "fitted": fitted}
    text = json.dumps({"version": 1, "unpooled": "0", "model": record})
    path = packed(tmp_path / "m", {"model.json": text, "a.npy": npy(GOOD)})

    with pytest.raises(StudyError, match="is not a model file"):
        up.load(path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "{}",
        '{"version": 1}',
        '{"version": NaN}',
        "[" * 100_000,
        '{"version": 1' + "0" * 5000 + "}",
        '{"version": 1, "model": ' + '{"class": "Pipeline", "steps": [["a", ' * 5000,
    ],
    ids=range(9),
)
def test_other_json_is_refused(tmp_path, text):
    path = packed(tmp_path / "m", {"model.json": text})

    with pytest.raises(StudyError, match=r"m is not a model file|newer version"):
        up.load(path)


@pytest.mark.slow
def test_a_bomb_is_refused_before_it_is_unpacked(saved, tmp_path):
    members = content_of(saved) | {"big.npy": bytes(80_000_000)}
    path = packed(tmp_path / "m", members, zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 200_000

    with pytest.raises(StudyError, match="far larger than the file"):
        up.load(path)


def test_much_json_is_refused_before_it_is_read(tmp_path):
    path = packed(tmp_path / "m", {"model.json": " " * 9_000_000}, zipfile.ZIP_DEFLATED)

    with pytest.raises(StudyError, match=r"model\.json is larger"):
        up.load(path)


@pytest.mark.slow
def test_other_packings_are_refused(saved, tmp_path):
    path = rewritten(saved, tmp_path / "m", zipfile.ZIP_BZIP2)

    with pytest.raises(StudyError, match="packed in an unknown way"):
        up.load(path)


def loads_or_is_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with contextlib.suppress(StudyError):
        up.load(path)


def test_a_truncated_file_is_refused_wherever_it_ends(saved, tmp_path):
    content, path = saved.read_bytes(), tmp_path / "cut.unpooled"
    for end in range(0, len(content), 37):
        path.write_bytes(content[:end])
        with pytest.raises(StudyError, match=r"cut\.unpooled is not a model file"):
            up.load(path)


@SHARED
@given(st.data())
def test_altered_bytes_never_raise_anything_else(saved, tmp_path, data):
    content = bytearray(saved.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(
            st.integers(1, 255)
        )

    loads_or_is_refused(tmp_path / "altered", bytes(content))


@SHARED
@given(st.binary(max_size=300))
def test_any_bytes_never_raise_anything_else(tmp_path, content):
    loads_or_is_refused(tmp_path / "any", content)


@SHARED
@given(st.binary(max_size=80))
def test_any_array_member_never_raises_anything_else(tmp_path, content):
    for member in (content, b"\x93NUMPY\x01\x00" + content, npy(repr(content))):
        path = one_array(tmp_path / "array", member)
        loads_or_is_refused(path, path.read_bytes())


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["class", "parameters", "fitted", "steps", "array", "number", "tuple",
                 "dict", "texts", "object", "float", "mean_", "n_components"]
            ) | st.text(max_size=4),
            inner,
            max_size=4,
        )
    ),
)  # fmt: skip


@pytest.mark.slow
@SHARED
@given(json_values, st.sampled_from(["PCA", "SimpleImputer", "Pipeline", "X"]))
def test_any_record_never_raises_anything_else(tmp_path, value, name):
    for model in (value, {"class": name, "parameters": value, "fitted": value},
                  {"class": name, "parameters": {}, "fitted": {"mean_": value}},
                  {"class": "Pipeline", "steps": value}):  # fmt: skip
        text = json.dumps({"version": 1, "unpooled": "0", "model": model})
        path = packed(tmp_path / "any", {"model.json": text, "a.npy": npy(GOOD)})
        loads_or_is_refused(path, path.read_bytes())
