"""The record of one round that a party answered."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final


@final
@dataclass(frozen=True)
class Answered:
    """A round that a party answered: the request, never the reply.

    Attributes
    ----------
    study, session, round, step : str, int
        Place in the study, and the step that ran.
    view, features : str
        Digests of the view, and of its columns and transforms without its rows.
    rows : str
        Digest of its rows alone.
    n_features : int
        Number of columns that the step read.
    public : mapping of str to JSON value
        The step's arguments; of an array ``{"array": its SHA-256}``.
    keys : mapping of str to str
        The parties of the total, with the public keys that were pinned at the time: a
        silo may have another key by the time that its signature is checked.
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
    rows: str

    @property
    def parties(self) -> tuple[str, ...]:
        """The parties of the total, sorted."""
        return tuple(sorted(self.keys))

    def as_record(self) -> dict[str, Any]:
        """Return JSON values."""
        record = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return record | {"keys": dict(self.keys), "public": dict(self.public)}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "Answered":
        """Read what `as_record` returned."""
        # An earlier version knew rows by the view alone.
        record = {"rows": record["view"], **record}
        values: dict[str, Any] = {n: record[n] for n in cls.__dataclass_fields__}
        whole = ("round", "n_features")
        for name in set(values) - {"keys", "public"}:
            if type(values[name]) is not (int if name in whole else str):
                raise TypeError(f"{name} is of another type")
        keys = record["keys"]
        if not {*map(type, keys), *map(type, keys.values())} <= {str}:
            raise TypeError("a key is of another type")
        return cls(**values)
