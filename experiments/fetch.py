"""Get the data of the experiments from their public sources, and check them.

    python experiments/fetch.py --to FOLDER [NAME ...]
    python experiments/fetch.py --list

`data.toml` beside this script says for each set where it comes from, under which
licence, and the digests of the file and of the arrays made of it. Files are kept in
FOLDER/raw, where a file may also be put by hand; sets are written as FOLDER/NAME.npz.
Files of R need the package rdata. The experiments read a set by `held`.
"""

import argparse
import gzip
import hashlib
import http.client
import importlib
import os
import sys
import tomllib
import urllib.error
import urllib.request
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io

SETS = Path(__file__).with_name("data.toml")
Arrays = dict[str, np.ndarray]


class FetchError(Exception):
    """A set that could not be had; the message says why and what to do."""


def sets(path: Path = SETS) -> dict[str, dict[str, Any]]:
    """Return what is known of each set, by name."""
    return tomllib.loads(path.read_text("utf-8"))


def fetched(name: str, known: Mapping[str, Any], folder: Path) -> Path:
    """Return the file of a set, made from its source unless it is there."""
    file = folder / f"{name}.npz"
    if file.exists():
        _check_arrays(name, known, _arrays(file))
        return file
    if "absent" in known:
        raise FetchError(f"{name} has no public source. {known['absent']}")
    arrays = FORMS[known["form"]](name, known, folder)
    _check_arrays(name, known, arrays)
    # Renamed when it is whole, so that no half of a set is ever found.
    part = file.with_name(f"{name}.part.npz")
    np.savez_compressed(part, **arrays)
    return part.rename(file)


def held(name: str, folder: Path | None = None, needed: Sequence[str] = "X") -> Arrays:
    """Return the arrays of a set in a folder, by default that of UNPOOLED_DATA.

    Where they are not there, end the program and say what to do.
    """
    folder = folder or Path(os.environ.get("UNPOOLED_DATA") or "data")
    file = folder / f"{name}.npz"
    if not file.exists():
        known = sets().get(name, {})
        how = f" `python experiments/fetch.py --to {folder} {name}` gets this set."
        sys.exit(
            f"{file} is not there. UNPOOLED_DATA names the folder of the data."
            f"{how * ('url' in known)}{known.get('absent', '') and ' '}"
            f"{known.get('absent', '')}"
        )
    try:
        arrays = _arrays(file)
    except FetchError as wrong:
        sys.exit(str(wrong))
    if absent := [one for one in needed if one not in arrays]:
        sys.exit(
            f"{file} has no array {', '.join(absent)}; it has {', '.join(arrays)}."
        )
    return arrays


def at_hand(name: str, folder: Path | None = None) -> bool:
    """Whether to read a set: not where it is absent and nobody could get it."""
    folder = folder or Path(os.environ.get("UNPOOLED_DATA") or "data")
    known = sets()[name]
    if (folder / f"{name}.npz").exists() or "absent" not in known:
        return True
    print(f"{name} is left out. {known['absent']}", file=sys.stderr)
    return False


def _arrays(file: Path) -> Arrays:
    try:
        with file.open("rb") as opened, np.load(opened) as arrays:
            return dict(arrays)
    except (ValueError, EOFError, AttributeError, zipfile.BadZipFile) as wrong:
        raise FetchError(
            f"{file} is damaged, or no file of NumPy's arrays (.npz): remove it, and "
            f"fetch it again."
        ) from wrong


def digest(arrays: Mapping[str, np.ndarray]) -> str:
    """Return the SHA-256 of X, y and views: names, types, shapes and values."""
    state = hashlib.sha256()
    for name in sorted(arrays):
        if name[0] in "Xy" or (name[:4] == "view" and name[4:5].isdigit()):
            array = np.ascontiguousarray(arrays[name])
            state.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
            state.update(array.tobytes())
    return state.hexdigest()


def _check_arrays(name: str, known: Mapping[str, Any], arrays: Arrays) -> None:
    if digest(arrays) != known.get("arrays", digest(arrays)):
        raise FetchError(
            f"The arrays of {name} are not those that the tables were made from. "
            f"Remove {name}.npz, or use the versions of packages in pyproject.toml."
        )


def _raw(name: str, known: Mapping[str, Any], folder: Path, file: str = "") -> Path:
    """Return a file of the source, downloaded unless it is in FOLDER/raw; checked."""
    url = known["url"] + file
    path = folder / "raw" / url.rpartition("/")[2]
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                content = answer.read()
        except (
            urllib.error.URLError,
            http.client.HTTPException,
            TimeoutError,
            ConnectionError,
        ) as wrong:
            raise FetchError(
                f"{name} could not be had from {url}: {wrong}. If the source has gone, "
                f"put a copy of the file into {path.parent}; its digest is checked."
            ) from wrong
        path.write_bytes(content)
    kind, expected = (
        ("md5", known["md5"][file]) if file else ("sha256", known["sha256"])
    )
    found = hashlib.new(kind, path.read_bytes(), usedforsecurity=False).hexdigest()
    if found != expected:
        path.rename(path.with_name(path.name + ".refused"))
        raise FetchError(
            f"{path.name} of {name} has the {kind} {found}, not {expected}: its source "
            f"changed, or the copy is damaged. It was set aside as {path.name}.refused."
        )
    return path


def _of_r(path: Path) -> dict[str, Any]:
    """Return the objects in a file of R."""
    try:
        rdata = importlib.import_module("rdata")
    except ModuleNotFoundError as absent:
        raise FetchError("Files of R need a package: pip install rdata") from absent
    return rdata.read_rda(path)


def _codes(labels: Any) -> np.ndarray:
    return np.unique(np.asarray(labels), return_inverse=True)[1].astype(np.uint8)


def frame(name: str, known: Mapping[str, Any], folder: Path) -> Arrays:
    """Return the numbers of a data frame of R, and its label."""
    (table,) = _of_r(_raw(name, known, folder)).values()
    columns = table.drop(columns=[known["label"]])
    X = np.column_stack(
        [np.asarray(columns[c].astype(str), dtype=float) for c in columns]
    )
    return {"X": X, "y": _codes(table[known["label"]].astype(str))}


def khan(name: str, known: Mapping[str, Any], folder: Path) -> Arrays:
    """Return the training and test rows of Khan's tumours."""
    data = _of_r(_raw(name, known, folder))["Khan"]
    X, X_test = (np.asarray(data[key], float) for key in ("xtrain", "xtest"))
    y, y_test = (np.asarray(data[key]).astype(int) - 1 for key in ("ytrain", "ytest"))
    return {
        "X": X,
        "y": y.astype(np.uint8),
        "X_test": X_test,
        "y_test": y_test.astype(np.uint8),
    }


def lymphoma(name: str, known: Mapping[str, Any], folder: Path) -> Arrays:
    """Return the expressions and kinds of lymphomas."""
    data = _of_r(_raw(name, known, folder))["lymphoma"]
    return {
        "X": np.asarray(data["x"]).astype(np.float32),
        "y": np.asarray(data["y"]).astype(np.uint8),
    }


def liver(name: str, known: Mapping[str, Any], folder: Path) -> Arrays:
    """Return the expressions of rats' livers, and whether the dose was high."""
    data = _of_r(_raw(name, known, folder))["liver.toxicity"]
    dose = np.asarray(data["treatment"]["Dose.Group"], float)
    return {"X": np.asarray(data["gene"], float), "y": (dose > 1000).astype(np.uint8)}


def counts(name: str, known: Mapping[str, Any], folder: Path) -> Arrays:
    """Return TCGA's counts by sample, with the site and kind of each."""
    table = _of_r(_raw(name, known, folder))["BRCA_rnaseqv2"]
    genes, samples = (table.coords[d].to_numpy().astype(str) for d in table.dims)
    barcodes = np.array([sample[:16] for sample in samples])
    kinds = np.array([barcode[13:15] for barcode in barcodes])
    return {
        "X": table.to_numpy().T.astype(np.int32),
        "y": (kinds == "11").astype(np.uint8),
        "sample_type": kinds,
        "site": np.array([barcode[5:7] for barcode in barcodes]),
        "barcode": barcodes,
        "feature_names": np.array([gene.partition("|")[0] for gene in genes]),
    }


def faces(name: str, known: Mapping[str, Any], folder: Path) -> Arrays:
    """Return one picture a row, and whose it is."""
    data = scipy.io.loadmat(_raw(name, known, folder))
    y = data["gnd"].ravel().astype(int) - 1
    X = data["fea"] if len(data["fea"]) == len(y) else data["fea"].T
    return {"X": np.ascontiguousarray(X), "y": y.astype(np.uint8)}


def views(name: str, known: Mapping[str, Any], folder: Path) -> Arrays:
    """Return the six views of the handwritten digits."""
    data = scipy.io.loadmat(_raw(name, known, folder))
    names = ("pix", "fou", "fac", "zer", "kar", "mor")
    found = {
        f"view{i}_{view}": X
        for i, (view, X) in enumerate(zip(names, data["X"].ravel(), strict=True))
    }
    return {"y": data["Y"].ravel().astype(np.uint8), **found}


def mnist(name: str, known: Mapping[str, Any], folder: Path) -> Arrays:
    """Return the digits in their original order."""
    found = {}
    for part, prefix in (("train", "train"), ("test", "t10k")):
        for kind, which, skip in (("X", "images-idx3", 16), ("y", "labels-idx1", 8)):
            path = _raw(name, known, folder, f"{prefix}-{which}-ubyte.gz")
            with gzip.open(path) as file:
                values = np.frombuffer(file.read(), np.uint8, offset=skip)
            found[f"{kind}_{part}"] = (
                values.reshape(-1, 784) if kind == "X" else values.copy()
            )
    return found


FORMS = {
    form.__name__: form
    for form in (frame, khan, lymphoma, liver, counts, faces, views, mnist)
}


def main() -> int:
    """Get the sets that are named, or all; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="by default all")
    parser.add_argument("--to", type=Path, help="the folder, then UNPOOLED_DATA")
    parser.add_argument("--list", action="store_true", help="sources and licences")
    asked, known = parser.parse_args(), sets()
    if unknown := [name for name in asked.names if name not in known]:
        parser.error(f"no set is named {', '.join(unknown)}; see --list")
    if asked.names and not asked.list and asked.to is None:
        parser.error("--to FOLDER says where the sets go")
    if asked.list or asked.to is None:
        for name, one in known.items():
            where = one.get("url", "no public source")
            print(f"{name}\n    {where}\n    {one['licence']}. Paper {one['paper']}.")
        return 0
    asked.to.mkdir(parents=True, exist_ok=True)
    failed = False
    for name in asked.names or known:
        try:
            print(fetched(name, known[name], asked.to))
        except FetchError as wrong:
            # Of all sets, those without a source are no failure.
            failed |= name in asked.names or "absent" not in known[name]
            print(wrong, file=sys.stderr)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
