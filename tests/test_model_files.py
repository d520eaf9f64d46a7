"""Model files: what was saved comes back to the bit, and nothing else comes back."""

import contextlib
import io
import json
import shutil
import struct
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.pipeline import make_pipeline

import unpooled as up
from unpooled.errors import StudyError
from unpooled.models.files import VERSION, replacing

# A fixture's folder or file that no example changes may serve them all.
SHARED = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)


def rows():
    X = np.random.default_rng(3).normal(size=(60, 4)) * [1e-8, 1.0, 5.0, 1e8]
    X[::5, 1] = np.nan
    X[:, 2] = 7.0
    return X


@pytest.fixture(scope="module")
def federation():
    return up.simulate(up.partition_rows(rows(), 3))


@pytest.fixture(scope="module")
def models(federation):
    full = up.SimpleImputer().fit(federation).transform(federation)
    flat = make_pipeline(up.SimpleImputer(), up.StandardScaler(), up.PCA(2))
    nested = make_pipeline(make_pipeline(up.SimpleImputer()), up.PCA(0.9))
    return {
        "imputer": up.SimpleImputer().fit(federation),
        "constant": up.SimpleImputer("constant", fill_value=-1.5).fit(federation),
        "scaler": up.StandardScaler().fit(federation),
        "unscaled": up.StandardScaler(with_mean=False, with_std=False).fit(federation),
        "pca": up.PCA(2, whiten=True).fit(full),
        "all components": up.PCA().fit(full),
        "pipeline": flat.fit(federation),
        "nested": nested.fit(federation),
    }


@pytest.fixture(scope="module")
def saved(models, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return up.save(models["pipeline"], folder / "heart.unpooled")


def state(model):
    """Everything of a model that could differ, as bytes where it is an array."""
    if hasattr(model, "steps"):
        return [(name, state(part)) for name, part in model.steps]
    return type(model), {
        name: (v.dtype, v.shape, v.tobytes())
        if isinstance(v, np.ndarray)
        else (type(v), v)
        for name, v in vars(model).items()
    }


@pytest.mark.parametrize(
    "name",
    ["imputer", "constant", "scaler", "unscaled", "pca", "all components", "pipeline",
     "nested"],
)  # fmt: skip
def test_a_model_comes_back_to_the_bit(name, models, tmp_path):
    model = models[name]

    back = up.load(up.save(model, tmp_path / "m"))

    assert state(back) == state(model)
    new = np.random.default_rng(4).normal(size=(9, 4))
    assert np.array_equal(back.transform(new), model.transform(new), equal_nan=True)


def test_names_of_columns_come_back(tmp_path):
    import polars

    names = ["chol", "größe", "日", 'a"b\\']
    tables = {
        silo: polars.DataFrame(np.random.default_rng(seed).normal(size=(12, 4)), names)
        for seed, silo in enumerate("abc")
    }
    scaler = up.StandardScaler().fit(up.simulate(tables))

    back = up.load(up.save(scaler, tmp_path / "m"))

    assert back.feature_names_in_.dtype == object
    assert list(back.feature_names_in_) == names
    assert list(back.get_feature_names_out()) == names


def test_a_model_that_is_not_fitted_comes_back_so(tmp_path):
    back = up.load(up.save(up.PCA(0.5, whiten=True), str(tmp_path / "m")))

    assert back.get_params() == up.PCA(0.5, whiten=True).get_params()
    assert not [name for name in vars(back) if name.endswith("_")]


def test_a_loaded_model_serves_a_federation(federation, saved):
    view = up.load(saved).transform(federation)

    assert view.feature_names == ("pca0", "pca1")


def test_equal_models_give_equal_files(models, saved, tmp_path):
    again = up.save(models["pipeline"], tmp_path / "m")

    assert again.read_bytes() == saved.read_bytes()


def test_the_file_is_json_and_arrays(saved):
    with zipfile.ZipFile(saved) as archive:
        names = archive.namelist()
        content = json.loads(archive.read("model.json"))
        arrays = [
            np.load(io.BytesIO(archive.read(name)), allow_pickle=False)
            for name in names
            if name.endswith(".npy")
        ]

    assert content["version"] == 1
    assert content["unpooled"] == up.__version__
    assert len(arrays) == len(names) - 1 > 0


def test_a_save_that_fails_leaves_the_old_file_and_nothing_else(saved, tmp_path):
    path = tmp_path / "heart.unpooled"
    shutil.copy(saved, path)
    broken = up.PCA()
    setattr(broken, "mean_", object())  # noqa: B010

    def write_half():
        with replacing(path) as stream:
            stream.write(b"half")
            raise RuntimeError("the disk is full")

    with pytest.raises(StudyError, match="mean_"):
        up.save(broken, path)
    with pytest.raises(RuntimeError, match="disk"):
        write_half()

    assert path.read_bytes() == saved.read_bytes()
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_not_there_is_an_error_of_ours(tmp_path):
    with pytest.raises(StudyError, match=r"Cannot write the model to .*absent"):
        up.save(up.PCA(), tmp_path / "absent" / "m")


def content_of(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(path, members, how=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", how) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def rewritten(saved, path, how=zipfile.ZIP_STORED, **changes):
    """Write the saved file again with some keys of its JSON changed."""
    members = content_of(saved)
    content = json.loads(members["model.json"]) | changes
    return packed(path, members | {"model.json": json.dumps(content)}, how)


def test_a_file_that_was_packed_again_is_read(models, saved, tmp_path):
    again = rewritten(saved, tmp_path / "m", zipfile.ZIP_DEFLATED)

    assert state(up.load(again)) == state(models["pipeline"])


def test_a_newer_file_is_refused_by_name(saved, tmp_path):
    path = rewritten(
        saved,
        tmp_path / "heart.unpooled",
        version=VERSION + 1,
        unpooled="9.4",
        model=[],
    )

    with pytest.raises(StudyError) as caught:
        up.load(path)

    assert str(caught.value).startswith(
        "heart.unpooled was written by a newer version of unpooled (9.4, "
    )
    assert "Update unpooled" in str(caught.value)


@pytest.mark.parametrize("version", [0, -1, True, "1", 1.0, None, [1]])
def test_a_version_is_a_whole_number_from_one(saved, tmp_path, version):
    path = rewritten(saved, tmp_path / "m", version=version)

    with pytest.raises(StudyError, match="version is"):
        up.load(path)


@pytest.mark.parametrize("name", ["subprocess.Popen", "os.system", "builtins.eval"])
def test_a_class_is_never_imported(saved, tmp_path, name, monkeypatch):
    monkeypatch.delitem(sys.modules, "antigravity", raising=False)
    model = {"class": name, "parameters": {"args": ["true"]}, "fitted": {}}

    with pytest.raises(StudyError, match="no class"):
        up.load(rewritten(saved, tmp_path / "m", model=model))


def test_what_is_absent_or_no_archive_is_an_error_of_ours(tmp_path):
    (tmp_path / "empty").touch()
    (tmp_path / "text").write_text("version: 1")
    with pytest.raises(StudyError, match="There is no model file"):
        up.load(tmp_path / "absent")
    for name in ("empty", "text", "."):
        with pytest.raises(StudyError, match="is not a model file"):
            up.load(tmp_path / name)


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


@SHARED
@given(json_values, st.sampled_from(["PCA", "SimpleImputer", "Pipeline", "X"]))
def test_any_record_never_raises_anything_else(tmp_path, value, name):
    for model in (value, {"class": name, "parameters": value, "fitted": value},
                  {"class": name, "parameters": {}, "fitted": {"mean_": value}},
                  {"class": "Pipeline", "steps": value}):  # fmt: skip
        text = json.dumps({"version": 1, "unpooled": "0", "model": model})
        path = packed(tmp_path / "any", {"model.json": text, "a.npy": npy(GOOD)})
        loads_or_is_refused(path, path.read_bytes())
