"""Arrays that stay in a silo for later steps, each with its origin.

    round 3   every silo keeps   squares ── origin: digest of what round 3 asked
    round 4   a step reads it    origin ──> keys of the masks of what round 4 releases

A coordinator could have all silos but one keep zeros. Their origins then differ, so the
masks of what is made of them do not cancel, and no total of it opens. What a step keeps
itself has an origin made of its request and of the origins that it read, so this holds
however many steps are between.

Honest silos read the same: a step that has another part to play at one silo reads there
what it reads at the others.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import final
from weakref import WeakValueDictionary

import numpy as np

from unpooled.arrays import Array
from unpooled.data.atomic_file import replacing
from unpooled.ledger import canonical
from unpooled.linalg.moments import pack, unpack
from unpooled.protocol.message import digest
from unpooled.protocol.refusal import Refusal


@final
class KeptStore:
    """Arrays by view and name, with their origins; symmetric ones as a triangle.

    Parameters
    ----------
    folder : Path, optional
        Where each is written too, so that it outlives the process; made when needed.
    """

    def __init__(self, folder: Path | None = None) -> None:
        # The array, the side of the square that it is a triangle of (else 0), origin.
        self._arrays: dict[tuple[str, str], tuple[Array, int, str]] = {}
        self._folder = folder

    def put(
        self, view: str, name: str, value: Array, *, symmetric: bool, origin: str
    ) -> None:
        """Keep an array, in place of an earlier one of the same name."""
        size = len(value) if symmetric else 0
        stored = pack(value) if symmetric else value
        self._arrays[view, name] = (stored, size, origin)
        if self._folder is not None:
            _write(self._folder, f"{view}.{name}", stored, size, origin)

    def get(self, view: str, name: str) -> tuple[Array, str] | None:
        """Return an array in whole and its origin, or None."""
        if (found := self._stored(view, name)) is None:
            return None
        stored, size, origin = found
        return unpack(stored, size) if size else stored, origin

    def triangle(self, view: str, name: str) -> tuple[Array, str] | None:
        """Return a symmetric array as it lies here, its triangle, or None."""
        found = self._stored(view, name)
        return (found[0], found[2]) if found is not None and found[1] else None

    def _stored(self, view: str, name: str) -> tuple[Array, int, str] | None:
        if (view, name) not in self._arrays and self._folder is not None:
            path = self._folder / f"{view}.{name}.npz"
            if path.exists():
                self._arrays[view, name] = _read(path)
        return self._arrays.get((view, name))


def _write(folder: Path, key: str, stored: Array, size: int, origin: str) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    about = {"size": np.array(size), "origin": np.array(origin)}
    # What a power failure loses is made again by another fit.
    with replacing(folder / f"{key}.npz", durable=False) as stream:
        np.savez(stream, allow_pickle=False, stored=stored, **about)


def _read(path: Path) -> tuple[Array, int, str]:
    with np.load(path, allow_pickle=False) as archive:
        return archive["stored"], int(archive["size"]), str(archive["origin"])


# In one process a silo has a party in every federation that it is in. What it kept for
# a fit lives as long as the federation of the fit, or a model fitted on it, does.
_SHARED: WeakValueDictionary[tuple[str, str], KeptStore] = WeakValueDictionary()


def share_kept(party: str, study: str, shelf: KeptStore) -> None:
    """Let a silo's other parties in this process read what it keeps for a study."""
    _SHARED[party, study] = shelf


def shared_kept(party: str, study: str) -> KeptStore | None:
    """Return what a silo keeps in this process for a study, by whichever party."""
    return _SHARED.get((party, study))


@final
class Origins:
    """The origins of what a step has read so far, by view and name."""

    def __init__(self) -> None:
        # Arrays of two studies may have the same view and name.
        self._read: set[tuple[str, str, str]] = set()

    def read(self, view: str, name: str, origin: str) -> None:
        """Take down what was read."""
        self._read.add((view, name, origin))

    def digest(self) -> str:
        """Return a digest of them all; empty where nothing was read."""
        read = [list(one) for one in sorted(self._read)]
        return digest(canonical(read)) if read else ""

    def bound(self, context: bytes) -> bytes:
        """Return the context of a release, bound to what it is made of."""
        return context + self.digest().encode()


@final
class KeptArrays:
    """What a step reads as `kept`: arrays that earlier steps kept for the same view.

    Parameters
    ----------
    view : str
        Digest of the view.
    shelves : sequence of KeptStore
        Where to look, the first one first.
    origins : Origins, optional
        Takes down what is read.
    """

    def __init__(
        self, view: str, shelves: Sequence[KeptStore], origins: Origins | None = None
    ) -> None:
        self._view, self._shelves = view, shelves
        self._origins = origins or Origins()

    def __getitem__(self, name: str) -> Array:
        return self._read(name, KeptStore.get)

    def triangle(self, name: str) -> Array:
        """Return the triangle of a symmetric array; a step may release it as it is."""
        return self._read(name, KeptStore.triangle)

    def _read(self, name: str, way: Callable[..., tuple[Array, str] | None]) -> Array:
        for shelf in self._shelves:
            if (found := way(shelf, self._view, name)) is not None:
                value, origin = found
                self._origins.read(self._view, name, origin)
                return value
        raise Refusal("nothing_kept")
