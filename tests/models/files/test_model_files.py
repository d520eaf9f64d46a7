"""Model files: what was saved comes back to the bit, or is refused by name."""

import io
import json
import shutil
import sys
import zipfile

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

import unpooled as up
from model_archives import rewritten, rows
from unpooled.data.atomic_file import replacing
from unpooled.errors import StudyError
from unpooled.models.files.model_file import VERSION


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


@pytest.mark.slow
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


@pytest.mark.slow
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
