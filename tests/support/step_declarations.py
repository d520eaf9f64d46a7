"""What a step declares, as JSON: the same function writes the list and reads it."""

import dataclasses
from collections.abc import Mapping
from typing import Any


def declaration(step: Any) -> dict[str, Any]:
    """Return all of a step's declaration that both ends act on, without its wording.

    What is empty or false is left out.
    """
    whole = {
        "verb": step.verb,
        "by": step.by,
        "takes": {name: getattr(one, "axes", one) for name, one in step.takes.items()},
        "reads": list(step.reads),
        "public": list(step.public),
        "sparse": step.sparse,
        "reuses": step.reuses,
        "by_column": step.by_column,
        # The only computation that there was when the list was written.
        "polynomial": _plain(step.computation),
        "arrays": {name: _array(one) for name, one in step.declared.items()},
    }
    return _filled(whole)


def _array(declared: Any) -> dict[str, Any]:
    fields = ("axes", "symmetric", "bound", "bits", "noise", "kept", "until")
    return _filled({name: _plain(getattr(declared, name)) for name in fields})


def _filled(record: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if value}


def _plain(value: Any) -> Any:
    """Return a value of a declaration as JSON has it: classes by name and fields."""
    if dataclasses.is_dataclass(value):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        return {"class": type(value).__name__, **_plain(fields)}
    if isinstance(value, Mapping):
        return {_key(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return repr(value)


def _key(key: Any) -> str:
    return key if isinstance(key, str) else "*".join(key)
