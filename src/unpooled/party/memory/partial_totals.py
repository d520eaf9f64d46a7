"""Cached totals over the first n rows of a view, so that appended rows can be added.

Written beside the audit log they outlive the process. A study also finds the totals of
the silo's other studies: they are about the same rows, and never leave.
"""

import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np

from unpooled.arrays import Array
from unpooled.data.atomic_file import replacing


@final
@dataclass(frozen=True, eq=False)
class PartialTotals:
    """Totals of a step over the first rows of a view.

    Attributes
    ----------
    arguments : bytes
        The step's public arguments, in canonical form.
    n_rows : int
        Number of these rows.
    digest : bytes
        Digest of these rows, in their order.
    totals : mapping of str to array
        The step's totals over them.
    """

    arguments: bytes
    n_rows: int
    digest: bytes
    totals: Mapping[str, Array]


@final
class TotalsCache:
    """Cached totals of a study, the latest for each view and step.

    Parameters
    ----------
    folder : Path, optional
        Folder of their files; without it they live as long as the process.
    others : callable, optional
        Returns the folders of the silo's other studies.
    """

    def __init__(
        self,
        folder: Path | None = None,
        others: Callable[[], Iterable[Path]] = tuple,
    ) -> None:
        self._folder, self._others = folder, others
        self._known: dict[str, PartialTotals] = {}

    def find(
        self, view: str, step: str, arguments: bytes, n_rows: int
    ) -> PartialTotals | None:
        """Return the totals over the most rows, at most `n_rows` of them, or None."""
        candidates = [
            partial
            for partial in self._all(f"{view}.{step}")
            if partial.arguments == arguments and partial.n_rows <= n_rows
        ]
        return max(candidates, key=lambda partial: partial.n_rows, default=None)

    def put(self, view: str, step: str, partial: PartialTotals) -> None:
        """Keep the totals of a step, in place of its last ones."""
        key = f"{view}.{step}"
        self._known[key] = partial
        if self._folder is not None:
            _write(self._folder, key, partial)

    def _all(self, key: str) -> Iterator[PartialTotals]:
        if key in self._known:
            yield self._known[key]
        own = () if self._folder is None else (self._folder,)
        for folder in {*own, *self._others()}:
            # An unreadable file counts as absent: all rows are read again, with the
            # same totals.
            with suppress(OSError, ValueError, KeyError, zipfile.BadZipFile):
                yield _read(folder / f"{key}.npz")


def _write(folder: Path, key: str, partial: PartialTotals) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    about = {
        "asked": np.frombuffer(partial.arguments, np.uint8),
        "digest": np.frombuffer(partial.digest, np.uint8),
        "n_rows": np.array(partial.n_rows),
    }
    totals = {f"total.{name}": value for name, value in partial.totals.items()}
    with replacing(folder / f"{key}.npz", durable=False) as stream:
        np.savez(stream, allow_pickle=False, **about, **totals)


def _read(path: Path) -> PartialTotals:
    # Opened here: NumPy leaves a file open that is not of its format.
    with path.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
        totals = {
            name.removeprefix("total."): archive[name]
            for name in archive.files
            if name.startswith("total.")
        }
        return PartialTotals(
            archive["asked"].tobytes(),
            int(archive["n_rows"]),
            archive["digest"].tobytes(),
            totals,
        )
