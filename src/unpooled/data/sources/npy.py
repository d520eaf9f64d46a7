"""Arrays in `.npy` files, memory-mapped one block of rows at a time.

The pages read through an open mapping count as memory of this process. With one mapping
per block, a pass over any number of rows takes the memory of one block.
"""

from pathlib import Path
from typing import final

import numpy as np

from unpooled.arrays import Array
from unpooled.errors import DataError


@final
class MappedRows:
    """The rows of a `.npy` file, read when they are sliced.

    Parameters
    ----------
    path : Path
        File of numbers in C or Fortran order. Objects, which are pickled, are refused.

    Attributes
    ----------
    shape : tuple of int
        As in the file's header.
    dtype : numpy.dtype
        Type of the cells.
    ndim : int
        Number of axes.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            # Reads the header only. Objects would be unpickled, so they are refused.
            whole = np.load(path, mmap_mode="r", allow_pickle=False)
            self._version = self._version_now()
        except (OSError, ValueError) as wrong:
            raise DataError(
                f"The file {path} cannot be read: {wrong}. A .npy source holds one "
                f"array of numbers, as numpy.save writes it."
            ) from wrong
        self.shape, self.dtype, self.ndim = whole.shape, whole.dtype, whole.ndim
        self._offset, self._by_rows = whole.offset, bool(whole.flags.c_contiguous)

    def __getitem__(self, rows: slice) -> Array:
        start, stop, _ = rows.indices(self.shape[0])
        if self._version_now() != self._version:
            raise DataError(
                f"The file {self._path} changed since it was opened, so passes over it "
                f"would see different rows. Open it again.",
                rule="source_changed",
            )
        if not self._by_rows:
            whole = np.memmap(
                self._path, self.dtype, "r", self._offset, self.shape, "F"
            )
            return whole[start:stop]
        n, p = max(stop - start, 0), self.shape[1]
        place = self._offset + start * p * self.dtype.itemsize
        return np.memmap(self._path, self.dtype, "r", place, (n, p))

    def _version_now(self) -> tuple[int, int]:
        try:
            state = self._path.stat()
        except OSError as away:
            raise DataError(
                f"The file {self._path} cannot be read: {away}.",
                rule="source_unavailable",
            ) from away
        return state.st_size, state.st_mtime_ns


def sparse_file(path: Path) -> object:
    """Return the sparse array of a `.npz` file, as `scipy.sparse.save_npz` writes it.

    SciPy reads indices, values and shape as plain arrays, without pickle.
    """
    import zipfile

    from scipy.sparse import load_npz

    try:
        return load_npz(path)
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as wrong:
        raise DataError(
            f"The file {path} cannot be read: {wrong}. A .npz source holds one sparse "
            f"array, as scipy.sparse.save_npz writes it; write a dense one with "
            f"numpy.save, as .npy."
        ) from wrong
