"""Arrays that stay in a silo for later steps, each with its origin.

    round 3   every silo keeps   squares ── origin: digest of the request of round 3
    round 4   a step reads it    origin ──> keys of the masks of round 4

A coordinator could have all silos but one keep zeros. The origins then differ, so the
masks of releases computed from them do not cancel, and no total opens. An array that a
step keeps has an origin made of its request and of the origins that it read, so this
holds over any number of steps.

Honest silos read the same: a step that has another part at one silo reads the same
arrays there as at the others.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import final
from weakref import WeakValueDictionary

import numpy as np

from unpooled.arrays import Array
from unpooled.data.atomic_file import replacing
from unpooled.ledger import canonical
from unpooled.ledger.json_text import from_json
from unpooled.linalg.moments import pack, unpack
from unpooled.protocol.message import digest
from unpooled.protocol.refusal import Refusal


@final
@dataclass(frozen=True)
class KeptAs:
    """Description of an array that a step kept, for the people of the silo.

    Attributes
    ----------
    step : str
        As it was asked for, such as "pca.own_loadings".
    axes : tuple of str
        The declared ones, by letter.
    columns : tuple of str
        The silo's own columns of the view.
    """

    step: str
    axes: tuple[str, ...]
    columns: tuple[str, ...]


@final
class KeptStore:
    """Arrays by view and name, with their origins; symmetric ones as a triangle.

    Parameters
    ----------
    folder : Path, optional
        Folder where each is written too, so that it outlives the process; made when
        needed.
    """

    def __init__(self, folder: Path | None = None) -> None:
        # Array, side of the square where it is a triangle (else 0), and origin.
        self._arrays: dict[tuple[str, str], tuple[Array, int, str]] = {}
        self._about: dict[tuple[str, str], KeptAs] = {}
        self._folder = folder

    def put(
        self,
        view: str,
        name: str,
        value: Array,
        *,
        symmetric: bool,
        origin: str,
        about: KeptAs | None = None,
    ) -> None:
        """Keep an array, in place of an earlier one of the same name."""
        size = len(value) if symmetric else 0
        stored = pack(value) if symmetric else value
        self._arrays[view, name] = (stored, size, origin)
        described = self._about.pop((view, name), None)
        if about is not None:
            self._about[view, name] = about
        if self._folder is not None:
            _write(self._folder, f"{view}.{name}", stored, size, origin)
            # Once, though a step may keep its array in many rounds.
            if about is not None and about != described:
                path = self._folder / f"{view}.{name}.json"
                with replacing(path, durable=False) as stream:
                    stream.write(json.dumps(asdict(about)).encode())

    def get(self, view: str, name: str) -> tuple[Array, str] | None:
        """Return an array in whole and its origin, or None."""
        if (found := self._stored(view, name)) is None:
            return None
        stored, size, origin = found
        return unpack(stored, size) if size else stored, origin

    def described(self) -> Iterator[tuple[str, KeptAs, Array]]:
        """Yield name, description and array of each that has one, by step."""
        if self._folder is not None:
            for path in sorted(self._folder.glob("*.json")):
                view, _, name = path.stem.partition(".")
                record = from_json(path.read_text("utf-8"))
                about = KeptAs(
                    str(record["step"]),
                    tuple(map(str, record["axes"])),
                    tuple(map(str, record["columns"])),
                )
                self._about.setdefault((view, name), about)
        for (view, name), about in sorted(
            self._about.items(), key=lambda one: (one[1].step, one[0])
        ):
            if (found := self.get(view, name)) is not None:
                yield name, about, found[0]

    def triangle(self, view: str, name: str) -> tuple[Array, str] | None:
        """Return the triangle of a symmetric array and its origin, or None."""
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
    # Not forced to the disk: after a power failure another fit makes it again.
    with replacing(folder / f"{key}.npz", durable=False) as stream:
        np.savez(stream, allow_pickle=False, stored=stored, **about)


def _read(path: Path) -> tuple[Array, int, str]:
    with np.load(path, allow_pickle=False) as archive:
        return archive["stored"], int(archive["size"]), str(archive["origin"])


# In one process a silo has a party in each of its federations. Arrays kept for a fit
# live as long as the federation of the fit, or a model fitted on it.
_SHARED: WeakValueDictionary[tuple[str, str], KeptStore] = WeakValueDictionary()


def share_kept(party: str, study: str, kept: KeptStore) -> None:
    """Let a silo's other parties in this process read the arrays kept for a study."""
    _SHARED[party, study] = kept


def shared_kept(party: str, study: str) -> KeptStore | None:
    """Return the arrays that any party of a silo in this process keeps for a study."""
    return _SHARED.get((party, study))


@final
class Origins:
    """The origins of what a step has read so far, by view and name."""

    def __init__(self) -> None:
        # Arrays of two studies may have the same view and name.
        self._read: set[tuple[str, str, str]] = set()

    def read(self, view: str, name: str, origin: str) -> None:
        """Note that an array was read."""
        self._read.add((view, name, origin))

    def digest(self) -> str:
        """Return a digest of all origins; empty where nothing was read."""
        read = [list(one) for one in sorted(self._read)]
        return digest(canonical(read)) if read else ""

    def bound(self, context: bytes) -> bytes:
        """Return the context of a release, bound to the arrays it is computed from."""
        return context + self.digest().encode()


@final
class KeptArrays:
    """The `kept` of a step: arrays that earlier steps kept for the same view.

    Parameters
    ----------
    view : str
        Digest of the view.
    stores : sequence of KeptStore
        Searched in this order.
    origins : Origins, optional
        Notes the arrays that are read.
    """

    def __init__(
        self, view: str, stores: Sequence[KeptStore], origins: Origins | None = None
    ) -> None:
        self._view, self._stores = view, stores
        self._origins = origins or Origins()

    def __getitem__(self, name: str) -> Array:
        return self._read(name, KeptStore.get)

    def triangle(self, name: str) -> Array:
        """Return the triangle of a symmetric array; a step may release it as it is."""
        return self._read(name, KeptStore.triangle)

    def _read(self, name: str, get: Callable[..., tuple[Array, str] | None]) -> Array:
        for store in self._stores:
            if (found := get(store, self._view, name)) is not None:
                value, origin = found
                self._origins.read(self._view, name, origin)
                return value
        raise Refusal("nothing_kept")
