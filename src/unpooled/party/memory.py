"""What a party remembers: between the rounds of a fit, and between fits of a study."""

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final
from weakref import WeakValueDictionary

import numpy as np

from unpooled.arrays import Array
from unpooled.errors import StudyError
from unpooled.ledger import Ledger
from unpooled.linalg.moments import pack, unpack
from unpooled.party.policy import Refusal
from unpooled.party.sofar import Reused
from unpooled.secure.message import digest

# A step that ran, with the transforms in front of it.
Ran = tuple[str, tuple[str, ...]]


@final
class Shelf:
    """Arrays that stay in the silo, by view and name; symmetric ones as a triangle.

    Parameters
    ----------
    folder : Path, optional
        Where each is written too, so that it outlives the process; made when needed.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._arrays: dict[tuple[str, str], tuple[Array, int]] = {}
        self._folder = folder

    def put(self, view: str, name: str, value: Array, *, symmetric: bool) -> None:
        """Keep an array, in place of an earlier one of the same name."""
        size = len(value) if symmetric else 0
        stored = pack(value) if symmetric else value
        self._arrays[view, name] = (stored, size)
        if self._folder is not None:
            self._write(self._folder, f"{view}.{name}", stored, size)

    def get(self, view: str, name: str) -> Array | None:
        """Return an array in whole, or None."""
        stored, size = self._stored(view, name)
        return unpack(stored, size) if size and stored is not None else stored

    def triangle(self, view: str, name: str) -> Array | None:
        """Return a symmetric array as it lies here, its triangle, or None."""
        stored, size = self._stored(view, name)
        return stored if size else None

    def _stored(self, view: str, name: str) -> tuple[Array | None, int]:
        if (view, name) not in self._arrays and self._folder is not None:
            # The file's name ends with the size, so nothing else need be believed.
            for path in self._folder.glob(f"{view}.{name}.*.npy"):
                stored = np.load(path, allow_pickle=False)
                self._arrays[view, name] = (stored, int(path.stem.rpartition(".")[2]))
        return self._arrays.get((view, name), (None, 0))

    def _write(self, folder: Path, key: str, stored: Array, size: int) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        hidden, path = folder / f".{key}.npy", folder / f"{key}.{size}.npy"
        with hidden.open("wb") as stream:
            np.save(stream, stored, allow_pickle=False)
        # In one go: a process that dies here leaves the earlier array, or this one.
        hidden.replace(path)
        for other in folder.glob(f"{key}.*.npy"):
            if other != path:
                other.unlink()


# In one process a silo has a party in every federation that it is in. What it kept for
# a fit lives as long as the federation of the fit, or a model fitted on it, does.
_SHARED: WeakValueDictionary[tuple[str, str], Shelf] = WeakValueDictionary()


def share_shelf(party: str, study: str, shelf: Shelf) -> None:
    """Let a silo's other parties in this process read what it keeps for a study."""
    _SHARED[party, study] = shelf


def shared_shelf(party: str, study: str) -> Shelf | None:
    """Return what a silo keeps in this process for a study, by whichever party."""
    return _SHARED.get((party, study))


@final
class KeptArrays:
    """What a step reads as `kept`: arrays that earlier steps kept for the same view."""

    def __init__(self, view: str, shelves: Sequence[Shelf]) -> None:
        self._view, self._shelves = view, shelves

    def __getitem__(self, name: str) -> Array:
        for shelf in self._shelves:
            if (value := shelf.get(self._view, name)) is not None:
                return value
        raise Refusal("nothing_kept")

    def triangle(self, name: str) -> Array:
        """Return the triangle of a symmetric array; a step may release it as it is."""
        for shelf in self._shelves:
            if (value := shelf.triangle(self._view, name)) is not None:
                return value
        raise Refusal("nothing_kept")


@final
@dataclass(frozen=True)
class Answered:
    """What a party was asked in a round that it answered: never what it said.

    Attributes
    ----------
    study, session, round, step : str, int
        Where, and the step that ran.
    view, features : str
        Digests of the view, and of its columns and transforms without its rows.
    n_features : int
        Columns that the step saw.
    public : mapping of str to JSON value
        The step's arguments; of an array ``{"array": its SHA-256}``.
    keys : mapping of str to str
        Over whom the total was, with the public keys that the party pinned then: a silo
        may have another by the time that its signature is shown.
    protection : str
        "masked" or "plain".
    """

    study: str
    session: str
    round: int
    step: str
    view: str
    features: str
    n_features: int
    public: Mapping[str, Any]
    keys: Mapping[str, str]
    protection: str

    @property
    def parties(self) -> tuple[str, ...]:
        """Over whom the total was, sorted."""
        return tuple(sorted(self.keys))

    def as_record(self) -> dict[str, Any]:
        """Return JSON values."""
        record = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return record | {"keys": dict(self.keys), "public": dict(self.public)}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "Answered":
        """Read what `as_record` returned."""
        values: dict[str, Any] = {n: record[n] for n in cls.__dataclass_fields__}
        whole = ("round", "n_features")
        for name in set(values) - {"keys", "public"}:
            if type(values[name]) is not (int if name in whole else str):
                raise TypeError(f"{name} is of another type")
        values["keys"] = {str(name): str(k) for name, k in record["keys"].items()}
        return cls(**values)


@final
@dataclass(eq=False)
class Study:
    """What a party remembers of a study between fits.

    Attributes
    ----------
    kept : Shelf
        Arrays that stay until the study ends.
    fitted : set of (str, tuple of str)
        Steps that ran, with the transforms in front of them: what a view may apply.
    answered : dict of str to Answered
        Rounds that were answered, by the SHA-256 of the request.
    ledger : Ledger
        The silo's own record of what crossed its door.
    reused : Reused
        Totals that steps add to when rows were appended.
    """

    kept: Shelf = field(default_factory=Shelf)
    fitted: set[Ran] = field(default_factory=set)
    answered: dict[str, Answered] = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger)
    reused: Reused = field(default_factory=Reused)

    def as_record(self) -> dict[str, Any]:
        """Return what a party must know to go on after a restart, as JSON values.

        Which steps ran, never what they gave: what was kept lies on the shelf, which
        outlives the process where it has a folder. Without one a step that needs it is
        refused as "nothing_kept".
        """
        return {
            "fitted": [[step, list(front)] for step, front in sorted(self.fitted)],
            "answered": {key: a.as_record() for key, a in self.answered.items()},
        }

    @classmethod
    def from_record(cls, record: Any) -> "Study":
        """Read what `as_record` returned; anything else is a `StudyError`."""
        try:
            fitted = {(step, tuple(front)) for step, front in record["fitted"]}
            if not all(isinstance(n, str) for s, front in fitted for n in (s, *front)):
                raise TypeError("a step's name is not a text")
            if not all(isinstance(front, list) for _, front in record["fitted"]):
                raise TypeError("transforms are not a list")
            answered = {
                str(key): Answered.from_record(asked)
                for key, asked in record.get("answered", {}).items()
            }
        except (AttributeError, KeyError, TypeError, ValueError) as wrong:
            raise StudyError(
                f"This is not what a party remembers of a study: {wrong}."
            ) from wrong
        return cls(fitted=fitted, answered=answered)


@final
@dataclass(eq=False)
class Remembered:
    """What the log says of one study.

    Attributes
    ----------
    lines : int
        Lines of the silo's own ledger.
    sealed : dict of str to int
        Of those, by the key that sealed them: each key counts its own.
    fitted : set of (str, tuple of str)
        Steps that ran, with the transforms in front of them, since it was forgotten.
    answered : dict of str to Answered
        Those rounds by the SHA-256 of the request.
    sessions : set of str
        Sessions that the silo joined, ever.
    text : str
        The study file as it was announced last; empty before.
    decision : mapping
        What a person decided last: "approved", "text" (a digest), "steps", "by".
    models : dict of str to str
        SHA-256 of the models that were delivered, by name, since it was forgotten.
    forgotten : int
        How often a person had it forgotten.
    refusals : int
        How often a refusal told of rows.
    """

    lines: int = 0
    sealed: dict[str, int] = field(default_factory=dict)
    fitted: set[Ran] = field(default_factory=set)
    answered: dict[str, Answered] = field(default_factory=dict)
    sessions: set[str] = field(default_factory=set)
    text: str = ""
    decision: Mapping[str, Any] = field(default_factory=dict)
    models: dict[str, str] = field(default_factory=dict)
    forgotten: int = 0
    refusals: int = 0

    @property
    def approval(self) -> str:
        """Either "approved", "denied", "waiting" for a person, or "unknown"."""
        if not self.text:
            return "unknown"
        # A decision is on a text: another one under the same name waits for its own.
        if self.decision.get("text") != digest(self.text.encode()):
            return "waiting"
        return "approved" if self.decision["approved"] else "denied"

    def approves(self, step: str) -> bool:
        """Whether a person approved the study, and the step as part of it."""
        patterns = self.decision.get("steps", ())
        return self.approval == "approved" and any(
            fnmatch.fnmatchcase(step, pattern) for pattern in patterns
        )
