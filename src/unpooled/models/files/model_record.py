"""Estimators as records: plain JSON values, with arrays on the side.

    PCA(5), fitted  <──>  {"class": "PCA", "parameters": {...}, "fitted": {...}}
                          arrays by name; a record refers to each once

Numbers, texts, lists and None are written as they are; everything else is an object
whose one key names its kind.
"""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from unpooled.arrays import Array
from unpooled.errors import StudyError
from unpooled.models.base import FederatedEstimator, fitted_names
from unpooled.models.files.catalogue import estimator, estimators, parameter_names
from unpooled.secure.noise import GaussianPrivacy

_FITTED = re.compile(r"[A-Za-z][A-Za-z0-9_]*_")
_PIPELINE = "Pipeline"


def record_of(model: Any, arrays: dict[str, Array]) -> dict[str, Any]:
    """Return an estimator, or a Pipeline of such, as JSON values.

    Parameters
    ----------
    model : estimator or Pipeline
        Fitted or not.
    arrays : dict
        Receives the model's arrays, by the names that the record refers to.

    Raises
    ------
    StudyError
        For anything that is not an estimator of this library, and attributes that a
        record cannot hold.
    """
    kind = type(model)
    if _is_pipeline(model):
        steps = [
            [name, part if isinstance(part, str | None) else record_of(part, arrays)]
            for name, part in model.steps
        ]
        return {"class": _PIPELINE, "steps": steps}
    if estimator(kind.__name__) is not kind:
        raise StudyError(
            f"A {kind.__module__}.{kind.__name__} cannot be saved; what can is "
            f"{', '.join(estimators())} of unpooled, and Pipelines of these."
        )

    def record(names: Any) -> dict[str, Any]:
        values = {name: getattr(model, name) for name in names}
        return {name: _encoded(name, v, arrays) for name, v in values.items()}

    return {
        "class": kind.__name__,
        "parameters": record(parameter_names(kind)),
        "fitted": record(fitted_names(model)),
    }


def model_of(record: Any, array: Callable[[str], Array]) -> Any:
    """Return the estimator of a record, which is untrusted input.

    Parameters
    ----------
    record : JSON values
        From `record_of`, or anything else.
    array : callable
        Returns the array of a name, or raises KeyError.

    Raises
    ------
    ValueError, TypeError, KeyError, AttributeError
        When the record is not one of an estimator.
    """
    if record["class"] == _PIPELINE:
        return _pipeline_of(record, array)
    kind = estimator(record["class"])
    if kind is None:
        raise ValueError(f"this version has no class {record['class']!r}")
    if set(record) != {"class", "parameters", "fitted"}:
        raise ValueError(f"a record of a model with the keys {sorted(record)}")
    unknown = set(record["parameters"]) - set(parameter_names(kind))
    if unknown:
        raise ValueError(f"{kind.__name__} has no parameter {sorted(unknown)}")
    parameters = {n: _decoded(v, array) for n, v in record["parameters"].items()}
    model = kind(**parameters)
    for name, value in record["fitted"].items():
        # A name that the class itself defines would hide a method.
        if not _FITTED.fullmatch(name) or hasattr(kind, name):
            raise ValueError(f"{kind.__name__} has no fitted attribute {name!r}")
        setattr(model, name, _decoded(value, array))
    return model


def _pipeline_of(record: Any, array: Callable[[str], Array]) -> Any:
    from sklearn.pipeline import Pipeline

    if set(record) != {"class", "steps"}:
        raise ValueError(f"a record of a pipeline with the keys {sorted(record)}")
    steps = []
    for name, part in record["steps"]:
        skipped = part in (None, "passthrough")
        steps.append((str(name), part if skipped else model_of(part, array)))
    if len({name for name, _ in steps}) != len(steps) or not steps:
        raise ValueError("a pipeline whose steps have no names of their own")
    return Pipeline(steps)


def _is_pipeline(model: Any) -> bool:
    from sklearn.pipeline import Pipeline

    return type(model) is Pipeline


def _encoded(name: str, value: Any, arrays: dict[str, Array]) -> Any:
    # Before float, because NumPy's float64 is a float too, and must stay NumPy's.
    if isinstance(value, np.ndarray | np.generic):
        return _encoded_array(name, value, arrays)
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(value)}
    if isinstance(value, bool | int | float | str | None):
        return value
    if isinstance(value, GaussianPrivacy):
        return {"privacy": _encoded(name, value.as_dict(), arrays)}
    if isinstance(value, FederatedEstimator) or _is_pipeline(value):
        return {"model": record_of(value, arrays)}
    if isinstance(value, list | tuple):
        items = [_encoded(name, item, arrays) for item in value]
        return {"tuple": items} if isinstance(value, tuple) else items
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {"dict": {k: _encoded(name, v, arrays) for k, v in value.items()}}
    raise StudyError(
        f"{name} holds a {type(value).__name__}, which a model file cannot: it holds "
        f"numbers, texts, lists, dicts of text keys, and arrays of numbers or texts."
    )


def _encoded_array(
    name: str, value: Array | np.generic, arrays: dict[str, Array]
) -> dict[str, Any]:
    kind = "array" if isinstance(value, np.ndarray) else "number"
    if value.dtype.kind in "biufc":
        # The number makes member names unique; the attribute's name is for readers.
        member = f"{len(arrays):03}-{name}"
        arrays[member] = np.asarray(value)
        return {kind: member}
    texts = np.asarray(value)
    if texts.dtype.kind not in "OU" or not _all_texts(texts):
        raise StudyError(
            f"{name} is an array of {value.dtype}: not numbers, not texts."
        )
    if kind == "number":
        return {"text": str(value)}
    return {"texts": texts.tolist(), "object": texts.dtype.kind == "O"}


def _decoded(value: Any, array: Callable[[str], Array]) -> Any:
    if isinstance(value, list):
        return [_decoded(item, array) for item in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"texts", "object"}:
        return _texts(value["texts"], bool(value["object"]))
    [(kind, content)] = value.items()
    if kind == "array":
        return array(content)
    if kind == "number":
        return array(content)[()]
    if kind == "text":
        return np.str_(content)
    if kind == "tuple":
        return tuple(_decoded(item, array) for item in content)
    if kind == "dict":
        return {key: _decoded(item, array) for key, item in content.items()}
    if kind == "model":
        return model_of(content, array)
    if kind == "privacy":
        return GaussianPrivacy.of(_decoded(content, array))
    if kind == "float" and content in ("nan", "inf", "-inf"):
        return float(content)
    raise ValueError(f"a value of the unknown kind {kind!r}")


def _texts(items: Any, as_objects: bool) -> Array:
    texts = np.array(items, dtype=object if as_objects else None)
    if texts.size and (texts.dtype.kind not in "OU" or not _all_texts(texts)):
        raise ValueError("an array of texts that holds something else")
    return texts if texts.size or as_objects else texts.astype("U1")


def _all_texts(texts: Array) -> bool:
    """Whether an array has texts alone, or objects that are texts and numbers."""
    return all(
        isinstance(text, str)
        or (texts.dtype == object and type(text) is float and math.isfinite(text))
        for text in texts.flat
    )
