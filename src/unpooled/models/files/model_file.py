"""Model files: one file for a fitted model, with numbers and texts, and no code.

    heart.unpooled             a zip archive
    ├── model.json             "version": 1, classes, parameters, numbers, texts
    ├── 000-components_.npy    one member per array, stored as it is
    └── ...

A file is read as untrusted input: sizes are checked before anything is unpacked,
classes come from the library's own list, and arrays are never Python objects.
"""

import io
import json
import math
import sys
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from unpooled.arrays import Array
from unpooled.data.atomic_file import replacing
from unpooled.errors import StudyError
from unpooled.models.files.model_record import model_of, record_of

# Version of the file's layout; raised when older libraries cannot read new files.
VERSION = 1
_JSON = "model.json"
_MOST_JSON = 2**23
# Arrays are stored uncompressed, so an honest file unpacks to about its own size. The
# rest is room for a file that was compressed afterwards.
_MOST_BEYOND_ITS_SIZE = 2**26


def save(model: Any, path: str | Path) -> Path:
    """Write a model to a file that `load` reads.

    Parameters
    ----------
    model : estimator or Pipeline
        An estimator of this library, or a scikit-learn Pipeline of such.
    path : str or Path
        Where to write. An existing file is replaced atomically, so that no reader sees
        half of it.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    StudyError
        When the model is not of this library, or the file cannot be written.

    Notes
    -----
    The file holds the constructor's parameters and the fitted attributes: totals over
    all silos and quantities computed from them, never rows. Equal models give equal
    files.
    """
    path, arrays = Path(path), dict[str, Array]()
    content = {
        "version": VERSION,
        "unpooled": library_version(),
        "model": record_of(model, arrays),
    }
    try:
        with replacing(path) as stream, zipfile.ZipFile(stream, "w") as archive:
            # A ZipInfo made here has no date, so that equal models give equal files.
            text = json.dumps(content, indent=1, allow_nan=False)
            archive.writestr(zipfile.ZipInfo(_JSON), text)
            for name, values in arrays.items():
                member = zipfile.ZipInfo(f"{name}.npy")
                with archive.open(member, "w", force_zip64=True) as out:
                    np.lib.format.write_array(out, values, allow_pickle=False)
    except OSError as wrong:
        raise StudyError(f"Cannot write the model to {path}: {wrong}.") from wrong
    return path


def load(path: str | Path) -> Any:
    """Read a model that `save` wrote.

    Parameters
    ----------
    path : str or Path
        The file; it may come from anyone.

    Returns
    -------
    estimator or Pipeline
        The saved model, with the same numbers bit by bit.

    Raises
    ------
    StudyError
        When there is no such file, a newer version of the library wrote it, or it is
        not a model file.
    """
    path = Path(path)
    try:
        with zipfile.ZipFile(path) as archive:
            return _read(archive, path)
    except StudyError:
        raise
    except FileNotFoundError as absent:
        raise StudyError(f"There is no model file {path}.") from absent
    except Exception as wrong:
        # zipfile, zlib, json and NumPy raise a dozen kinds of errors on bad bytes.
        raise StudyError(
            f"{path.name} is not a model file that this version can read "
            f"({type(wrong).__name__}: {wrong})."
        ) from wrong


def library_version() -> str:
    """Return the version of the library, `unpooled.__version__`."""
    return str(sys.modules["unpooled"].__version__)


def check_version(content: Any, path: Path, newest: int) -> None:
    """Refuse a file that a later version of the library wrote, and name the version."""
    version = content["version"]
    if type(version) is not int or version < 1:
        raise ValueError(f"its version is {version!r}")
    if version > newest:
        raise StudyError(
            f"{path.name} was written by a newer version of unpooled "
            f"({content.get('unpooled', 'unknown')}, file version {version}); this is "
            f"{library_version()}, which reads file versions up to {newest}. Update "
            f"unpooled to read it."
        )


def _read(archive: zipfile.ZipFile, path: Path) -> Any:
    members = {member.filename: member for member in archive.infolist()}
    for member in members.values():
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError("a member is packed in an unknown way")
    # No member is read beyond the size that the archive declares.
    total = sum(member.file_size for member in archive.infolist())
    if total > path.stat().st_size + _MOST_BEYOND_ITS_SIZE:
        raise ValueError("its members are far larger than the file")
    if members[_JSON].file_size > _MOST_JSON:
        raise ValueError(f"{_JSON} is larger than {_MOST_JSON >> 20} MB")
    content = json.loads(archive.read(_JSON), parse_constant=_no_constant)
    check_version(content, path, VERSION)

    def array(name: str) -> Array:
        # `pop`, because a file could otherwise refer to one array a million times.
        return _array(io.BytesIO(archive.read(members.pop(f"{name}.npy"))))

    return model_of(content["model"], array)


def _array(stream: io.BytesIO) -> Array:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if np.lib.format.read_magic(stream) != (1, 0):
            raise ValueError("an array of an unknown format")
        shape, by_columns, dtype = np.lib.format.read_array_header_1_0(stream)
    if dtype.kind not in "biufc":
        raise ValueError(f"an array of {dtype}, where only numbers may be")
    content = bytearray(stream.read())
    # Compared before NumPy is asked for memory, or to guess the length of an axis.
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != len(content):
        raise ValueError("an array that is not as long as its header says")
    values = np.frombuffer(content, dtype)
    return values.reshape(shape, order="F" if by_columns else "C")


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
