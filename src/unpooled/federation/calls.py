"""Calls of estimators on a federation, as they are sent to the silos."""

import copy
import importlib
from collections.abc import Iterator, Mapping
from typing import Any

from unpooled.arrays import Array
from unpooled.errors import DataError
from unpooled.protocol.following import REACHED, Call

# By name, since models stand above the federation.
RECORDS = "unpooled.models.files.model_record"
# Methods of estimators that run rounds.
METHODS = ("fit", "update", "transform", "predict", "predict_by_party", "score")
METHODS += ("decision_function", "select", "diagnose", "_gather", "_measure")
METHODS += ("class_hits",)
# Fitted attributes that are texts and known to all silos.
_OPENED = ("classes_",)


def call_of(
    model: Any, method: str, federation: Any, arguments: Mapping[str, Any]
) -> Call:
    """Return a call as it is sent to the silos.

    Parameters
    ----------
    model : estimator
        Before the call.
    method : str
        One of `METHODS`.
    federation : Federation
        The view that it is called with.
    arguments : mapping of str to JSON value
        The method's further arguments.
    """
    arrays = dict[str, Array]()
    layout = federation.layout
    by_rows = layout.partition == "rows"
    record = record_for(model, method, layout.partition, arrays)
    reached = model.continues_from() if method == "fit" else None
    if reached is not None:
        record[REACHED] = reached
    return Call(
        method=method,
        model=record,
        arrays=arrays,
        arguments=dict(arguments),
        view=tuple(operation.as_json() for operation in federation.operations),
        columns=tuple(
            (party, list(names) if by_rows else len(names))
            for party, names in layout.columns_of.items()
        ),
        n_rows=layout.n_rows,
        named=federation.named,
        label=federation.label,
        random_state=federation.random_state,
    )


def record_for(
    model: Any, method: str, partition: str, arrays: dict[str, Array]
) -> dict[str, Any]:
    """Return a model's record with what the method reads of an earlier fit."""
    if partition == "columns":
        # No call depends on what silos disclosed to an earlier one.
        model = _before_disclosing(model)
    record = importlib.import_module(RECORDS).record_of(model, arrays)
    if record["class"] == "Pipeline":
        raise DataError("Silos follow the steps of a Pipeline one by one.")
    fitted = record["fitted"]
    if method == "fit":
        fitted = {}
    elif method == "update":
        fitted = {name: v for name, v in fitted.items() if name in model.updates_from}
    if partition == "columns":
        fitted = _known_to_all(fitted)
    kept = set(_members(fitted)) | set(_members(record["parameters"]))
    for name in set(arrays) - kept:
        del arrays[name]
    return {**record, "fitted": fitted}


def _before_disclosing(model: Any) -> Any:
    """Return a copy of a model as it was before silos disclosed what they keep."""
    alone = copy.copy(model)
    for name in vars(model).get("_disclosed", ()):
        del vars(alone)[name]
    for name, value in vars(alone).items():
        if isinstance(value, list) and any(map(_is_model, value)):
            parts = [_before_disclosing(one) if _is_model(one) else one
                     for one in value]  # fmt: skip
            vars(alone)[name] = parts
    return alone


def _known_to_all(fitted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fitted attributes of a record that all silos have.

    No silo knows the names of the others' columns. Of a model that has fitted others,
    each of these has its own.
    """
    found = dict[str, Any]()
    for name, value in fitted.items():
        if isinstance(value, list) and any(map(_is_record, value)):
            found[name] = [_part(one) if _is_record(one) else one for one in value]
        elif name in _OPENED or not _has_names(value):
            found[name] = value
    return found


def _is_model(value: Any) -> bool:
    # By a method's name, since models stand above the federation.
    return hasattr(type(value), "kept_by_silos")


def _is_record(value: Any) -> bool:
    return isinstance(value, dict) and set(value) == {"model"}


def _part(record: Mapping[str, Any]) -> dict[str, Any]:
    own = record["model"]
    return {"model": {**own, "fitted": _known_to_all(own["fitted"])}}


def _has_names(value: Any) -> bool:
    if isinstance(value, list):
        return any(isinstance(item, str) or _has_names(item) for item in value)
    if isinstance(value, dict):
        return "texts" in value or any(map(_has_names, value.values()))
    return False


def _members(value: Any) -> Iterator[str]:
    """Yield the names of the arrays that a record refers to."""
    if isinstance(value, list):
        for item in value:
            yield from _members(item)
    elif isinstance(value, dict):
        for kind, content in value.items():
            if kind in ("array", "number") and isinstance(content, str):
                yield content
            yield from _members(content)
