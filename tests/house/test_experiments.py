"""Data of the experiments come checked from their sources; moved figures are seen."""

import functools
import hashlib
import http.server
import importlib.util
import re
import threading
from pathlib import Path

import numpy as np
import pytest
import scipy.io

EXPERIMENTS = Path(__file__).resolve().parents[2] / "experiments"


def script(name):
    spec = importlib.util.spec_from_file_location(name, EXPERIMENTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


fetch, compare = script("fetch"), script("compare")
X = np.arange(12, dtype=np.uint8).reshape(3, 4)


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format, *args):
        pass


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A server of one file, faces.mat; yield its address and the file's digest."""
    folder = tmp_path_factory.mktemp("source")
    scipy.io.savemat(folder / "faces.mat", {"fea": X, "gnd": [[1], [2], [2]]})
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        digest = hashlib.sha256((folder / "faces.mat").read_bytes()).hexdigest()
        yield f"http://127.0.0.1:{server.server_port}/", digest
        server.shutdown()
        thread.join()


def known(source, **changed):
    address, digest = source
    arrays = fetch.digest({"X": X, "y": np.array([0, 1, 1], np.uint8)})
    url = f"{address}faces.mat"
    return {"url": url, "sha256": digest, "form": "faces", "arrays": arrays} | changed


def test_a_set_is_fetched_once_and_checked(source, tmp_path):
    file = fetch.fetched("faces", known(source), tmp_path)

    with np.load(file) as made:
        assert (made["X"] == X).all()
        assert made["y"].tolist() == [0, 1, 1]
    elsewhere = known(source, url="http://127.0.0.1:9/nowhere")
    assert fetch.fetched("faces", elsewhere, tmp_path) == file


def test_a_source_that_has_gone_is_named_and_a_copy_by_hand_counts(source, tmp_path):
    gone = known(source, url=f"{source[0]}gone/faces.mat")
    with pytest.raises(fetch.FetchError, match=r"gone/faces\.mat: HTTP Error 404.*raw"):
        fetch.fetched("faces", gone, tmp_path)

    scipy.io.savemat(tmp_path / "copy.mat", {"fea": X, "gnd": [[1], [2], [2]]})
    (tmp_path / "raw").mkdir(exist_ok=True)
    copy = tmp_path / "raw" / "faces.mat"
    copy.write_bytes((tmp_path / "copy.mat").read_bytes())
    digest = hashlib.sha256(copy.read_bytes()).hexdigest()
    assert fetch.fetched("faces", gone | {"sha256": digest}, tmp_path).exists()


def test_a_changed_file_is_set_aside(source, tmp_path):
    with pytest.raises(fetch.FetchError, match=r"not 00.*faces\.mat\.refused"):
        fetch.fetched("faces", known(source, sha256="00" * 32), tmp_path)
    assert not (tmp_path / "raw" / "faces.mat").exists()
    assert not (tmp_path / "faces.npz").exists()


def test_other_arrays_are_refused(source, tmp_path):
    with pytest.raises(fetch.FetchError, match="not those that the tables"):
        fetch.fetched("faces", known(source, arrays="00" * 32), tmp_path)
    assert not (tmp_path / "faces.npz").exists()


def test_a_set_without_a_source_says_why(tmp_path):
    with pytest.raises(fetch.FetchError, match=r"no public source\. Lost\."):
        fetch.fetched("lost", {"absent": "Lost."}, tmp_path)


def test_every_set_has_a_source_a_licence_and_a_digest():
    sets = fetch.sets()
    for name, one in sets.items():
        assert {"licence", "paper"} <= set(one), name
        assert ("absent" in one) or (one["form"] in fetch.FORMS and one["arrays"]), name
    read = re.compile(r'(?:held|load|at_hand)\(\s*"(\w+)"')
    for path in EXPERIMENTS.glob("*.py"):
        names = set(read.findall(path.read_text("utf-8"))) - {""}
        assert names <= set(sets), path.name


def test_what_is_not_at_hand_is_said_and_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setenv("UNPOOLED_DATA", str(tmp_path))
    with pytest.raises(SystemExit, match=r"sonar\.npz is not there.*gets this set\."):
        fetch.held("sonar")
    with pytest.raises(SystemExit, match=r"mine\.npz is not there.*of the data\.$"):
        fetch.held("mine")

    np.savez(tmp_path / "mine.npz", Z=X)
    with pytest.raises(SystemExit, match="has no array X; it has Z"):
        fetch.held("mine")
    assert fetch.held("mine", needed=("Z",))["Z"].shape == X.shape

    (tmp_path / "mine.npz").write_bytes(b"PK\x03\x04")
    with pytest.raises(SystemExit, match="damaged"):
        fetch.held("mine")


def test_a_set_without_a_source_is_left_out_where_it_is_not_there(tmp_path, capsys):
    assert fetch.at_hand("sonar", tmp_path)
    assert not fetch.at_hand("cifar10_10k", tmp_path)
    assert "cifar10_10k is left out. Its first" in capsys.readouterr().err


def run(monkeypatch, *words):
    monkeypatch.setattr("sys.argv", ["fetch.py", *words])
    return fetch.main()


def test_the_exit_code_says_whether_what_was_asked_for_is_there(
    source, tmp_path, monkeypatch, capsys
):
    sets = {"faces": known(source), "lost": {"absent": "Lost."}}
    monkeypatch.setattr(fetch, "sets", lambda: sets)
    assert run(monkeypatch, "--to", str(tmp_path)) == 0
    assert "lost has no public source" in capsys.readouterr().err
    assert run(monkeypatch, "--to", str(tmp_path), "lost") == 1
    with pytest.raises(SystemExit):
        run(monkeypatch, "faces")
    assert "--to FOLDER" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        run(monkeypatch, "--to", str(tmp_path), "unknown")
    assert "no set is named unknown" in capsys.readouterr().err


def test_a_broken_answer_and_a_broken_file_are_errors_of_fetching(source, tmp_path):
    port = source[0].rpartition(":")[2].strip("/")
    refused = known(source, url=f"https://127.0.0.1:{port}/faces.mat")
    with pytest.raises(fetch.FetchError, match="could not be had"):
        fetch.fetched("faces", refused, tmp_path)
    (tmp_path / "faces.npz").write_text("half of it")
    with pytest.raises(fetch.FetchError, match="damaged"):
        fetch.fetched("faces", known(source), tmp_path)


@pytest.mark.slow
def test_the_sets_at_hand_are_those_of_the_tables(shared_data):
    for name, one in fetch.sets().items():
        with np.load(shared_data / f"{name}.npz") as arrays:
            assert fetch.digest(dict(arrays)) == one.get("arrays"), name


PAGE = "# A\n\n| set | Dis | s |\n|---|---|---|\n| college | 0.098 → 3e-12 | 1.5 |\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [("1.5", "9.7"), ("3e-12", "5e-9"), ("0.098", "0.0985"), ("# A", "# B")],
)
def test_time_and_rounding_do_not_count(before, after):
    assert compare.differences(PAGE, PAGE.replace(before, after)) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("0.098", "0.198", "table 1, college, Dis: 0.098 → 3e-12 was committed"),
        ("3e-12", "3e-2", "table 1, college, Dis"),
        ("college", "vehicle", "table 1, college, set"),
        ("| Dis |", "| dis |", "other lines or columns"),
        ("|---|---|---|\n", "|---|---|---|\n| a | 1 | 1 |\n", "other lines"),
        (PAGE, "", "1 tables were committed, and 0 were made"),
    ],
)
def test_a_moved_figure_is_named(before, after, said):
    (difference,) = compare.differences(PAGE, PAGE.replace(before, after))
    assert said in difference


@pytest.mark.slow
@pytest.mark.parametrize(
    ("head", "cell", "near", "far"),
    [
        ("test", "0.900 ± 0.047", "0.867 ± 0.000", "0.800 ± 0.047"),
        ("largest angle", "6.14", "6.01", "5.6"),
        ("Dis", "6.14", "6.10", "6.01"),
    ],
)
def test_what_one_row_moves_is_compared_less_closely(head, cell, near, far):
    page = f"| set | {head} |\n|---|---|\n| a | {cell} |\n"
    assert compare.differences(page, page.replace(cell, near)) == []
    assert len(compare.differences(page, page.replace(cell, far))) == 1


@pytest.mark.slow
def test_every_experiment_is_compared():
    scripts = {path.stem for path in EXPERIMENTS.glob("*.py")} - {"fetch", "compare"}
    assert scripts == set(compare.SCRIPTS)
    pages = {path.stem for path in (EXPERIMENTS / "results" / "quick").glob("*.md")}
    assert pages == scripts
