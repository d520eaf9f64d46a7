"""What a step gave for the first rows of a view, kept in the silo until there are more.

Written beside the audit log it outlives the process. A study finds what another study
of the same silo kept, too: it is about the same rows, and never leaves.
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
    """What a step gave for the first rows of a view.

    Attributes
    ----------
    asked : bytes
        Its public arguments.
    n_rows : int
        How many rows.
    digest : bytes
        Of these rows, in their order.
    totals : mapping of str to array
        What they gave.
    """

    asked: bytes
    n_rows: int
    digest: bytes
    totals: Mapping[str, Array]


@final
class TotalsCache:
    """A study's totals, one for each view and step: the last that was asked for.

    Parameters
    ----------
    folder : Path, optional
        Where they are written; without it they live as long as the process.
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
        self, view: str, step: str, asked: bytes, most: int
    ) -> PartialTotals | None:
        """Return what a step gave for the most rows up to `most`, or None."""
        found = [
            sofar
            for sofar in self._all(f"{view}.{step}")
            if sofar.asked == asked and sofar.n_rows <= most
        ]
        return max(found, key=lambda sofar: sofar.n_rows, default=None)

    def put(self, view: str, step: str, sofar: PartialTotals) -> None:
        """Keep what a step gave, in place of what it gave last."""
        key = f"{view}.{step}"
        self._known[key] = sofar
        if self._folder is not None:
            _write(self._folder, key, sofar)

    def _all(self, key: str) -> Iterator[PartialTotals]:
        if key in self._known:
            yield self._known[key]
        own = () if self._folder is None else (self._folder,)
        for folder in {*own, *self._others()}:
            # A file that cannot be read is one more that is not there: all rows are
            # read again, with the same answer.
            with suppress(OSError, ValueError, KeyError, zipfile.BadZipFile):
                yield _read(folder / f"{key}.npz")


def _write(folder: Path, key: str, sofar: PartialTotals) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    about = {
        "asked": np.frombuffer(sofar.asked, np.uint8),
        "digest": np.frombuffer(sofar.digest, np.uint8),
        "n_rows": np.array(sofar.n_rows),
    }
    totals = {f"total.{name}": value for name, value in sofar.totals.items()}
    with replacing(folder / f"{key}.npz", durable=False) as stream:
        np.savez(stream, allow_pickle=False, **about, **totals)


def _read(path: Path) -> PartialTotals:
    # Opened here: NumPy leaves a file open that turns out to be none of its own.
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
