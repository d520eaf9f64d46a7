"""What steps keep in a silo for later ones, and where it lies."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits

import unpooled as up
from unpooled.party.memory.kept_arrays import KeptStore

VIEW, OTHER = "a" * 64, "b" * 64


FIRST, SECOND = "1" * 64, "2" * 64


def test_a_shelf_with_a_folder_outlives_its_process(tmp_path):
    square = np.arange(9.0).reshape(3, 3) + np.arange(9.0).reshape(3, 3).T
    first = KeptStore(tmp_path / "kept")
    first.put(VIEW, "mean", np.arange(4.0), symmetric=False, origin=FIRST)
    first.put(VIEW, "scatter", square, symmetric=True, origin=SECOND)
    first.put(VIEW, "number", np.array(2.5), symmetric=False, origin=FIRST)

    for shelf in (first, KeptStore(tmp_path / "kept")):
        assert_array_equal(value_of(shelf.get(VIEW, "mean"), FIRST), np.arange(4.0))
        assert_array_equal(value_of(shelf.get(VIEW, "scatter"), SECOND), square)
        triangle = value_of(shelf.triangle(VIEW, "scatter"), SECOND)
        assert_array_equal(triangle, square[np.triu_indices(3)])
        assert value_of(shelf.get(VIEW, "number"), FIRST) == 2.5
        assert shelf.triangle(VIEW, "mean") is None
        assert shelf.get(VIEW, "me") is None
        assert shelf.get(OTHER, "mean") is None
    assert KeptStore().get(VIEW, "mean") is None


def test_what_is_kept_anew_takes_the_place_of_the_old(tmp_path):
    shelf = KeptStore(tmp_path)
    shelf.put(VIEW, "scatter", np.eye(3), symmetric=True, origin=FIRST)
    shelf.put(VIEW, "scatter", np.arange(3.0), symmetric=False, origin=SECOND)
    for one in (shelf, KeptStore(tmp_path)):
        assert_array_equal(value_of(one.get(VIEW, "scatter"), SECOND), np.arange(3.0))
        assert one.triangle(VIEW, "scatter") is None
    assert len(list(tmp_path.iterdir())) == 1


def value_of(found, origin):
    """What a shelf found, if it is of this origin."""
    assert found is not None
    assert found[1] == origin
    return found[0]


class Killed(BaseException):
    """Ends a run from within, as Ctrl-C would."""


STUDY = """
[study]
name = "digits"
partition = "columns"
[policy]
allow_row_level = true
{parties}
[[steps]]
model = "StandardScaler"
[[steps]]
model = "PCA"
n_components = 3
[outputs]
report = false
"""


@pytest.mark.slow
def test_a_study_by_columns_goes_on_in_a_new_process(tmp_path):
    parts, texts = up.partition_columns(load_digits().data[:80, :30], 3), []
    for name, X in parts.items():
        header = ",".join(f"{name}_{j}" for j in range(X.shape[1]))
        path = tmp_path / f"{name}.csv"
        np.savetxt(path, X, delimiter=",", header=header, comments="")
        texts.append(f'[parties.{name}]\nsource = "{path.name}"\n')
    text = STUDY.format(parties="".join(texts))
    (tmp_path / "digits.toml").write_text(text)
    study = up.Study.from_file(tmp_path / "digits.toml")

    def killed_in_pca(party, step, number):
        if step == "pca.own_means":
            raise Killed

    with pytest.raises(Killed):
        study.run(tmp_path / "one", listener=killed_in_pca)
    assert (tmp_path / "one" / "silos" / "kept").is_dir()
    resumed = study.resume(tmp_path / "one")
    whole = study.run(tmp_path / "two")

    ours, theirs = (run.models["pca"].explained_variance_ for run in (resumed, whole))
    assert_allclose(ours, theirs, 1e-12)
    assert resumed.ledger.verify()
    # Nothing of people stays behind in the folder of a run that is done.
    assert not (tmp_path / "one" / "silos" / "kept").exists()
