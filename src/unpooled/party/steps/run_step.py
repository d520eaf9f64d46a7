"""Running a step on a silo's rows: block by block and added, or on all of them."""

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from unpooled.arrays import Array
from unpooled.party.views.view import View
from unpooled.protocol.step import Step, find_step


def run_step(
    step: Step,
    view: View,
    label: str | None,
    own: Mapping[str, Any],
    public: Mapping[str, Any],
) -> dict[str, Any]:
    """Return a step's arrays by name.

    Parameters
    ----------
    label : str or None
        The column passed as `y`, where the step reads it. A silo without a label, on
        column partitions, passes None.
    own : mapping of str to object
        Passed by name where the step reads it: "kept", the silo's kept arrays,
        "inbox", those of its neighbours, "party", its name, "columns", the names of the
        columns, and "dictionary", the names of its categories by their codes.
    """
    inputs = _read_by(step, own)
    if not {"X", "cells", "sums", "y"} & set(step.reads):
        return dict(step(**inputs, **public))
    if step.by == "party":
        return _on_all_rows(step, view, label, inputs, public)
    if not inputs:
        # A worker finds the step by its name, as a silo does.
        where = (step.function.__module__, step.name)
        work = partial(_of_part, where, label, dict(public))
        if (totals := view.over_parts(work)) is not None:
            return totals
    return _by_blocks(step, view, label, inputs, public)


def weighed_rows(
    step: Step,
    view: View,
    label: str | None,
    public: Mapping[str, Any],
) -> Iterator[Mapping[str, Array]]:
    """Yield, block by block, the rows of a step with the weights that it gives them.

    The parameters are those of `run_step`; such a step reads nothing that is kept.
    """
    assert step.weighed is not None, "the step weighs no rows"
    weighing = replace(step, function=step.weighed)
    if step.by == "party":
        yield _on_all_rows(weighing, view, label, {}, public)
        return
    for block in view.blocks([] if label is None else [label]):
        y = block.extra.get(label or "")
        yield weighing(**_of_rows(step, view, block.X, y), **public)


def _of_part(
    step: tuple[str, str], label: str | None, public: Mapping[str, Any], view: View
) -> dict[str, Any]:
    module, name = step
    importlib.import_module(module)
    with np.errstate(all="ignore"):
        return _by_blocks(find_step(name), view, label, {}, public)


def _by_blocks(
    step: Step,
    view: View,
    label: str | None,
    inputs: Mapping[str, Any],
    public: Mapping[str, Any],
) -> dict[str, Any]:
    totals: dict[str, Any] = {}
    blocks = view.blocks([] if label is None else [label], sparse=step.sparse)
    for number, block in enumerate(blocks):
        given = {
            **inputs,
            **_of_rows(step, view, block.X, block.extra.get(label or "")),
        }
        for name, value in step(**given, **public).items():
            # The first block's arrays may be views of the silo's rows.
            if number == 0:
                totals[name] = value
            elif number == 1:
                # A sum of numbers is a scalar, which nothing can be added into.
                totals[name] = np.asarray(np.add(totals[name], value))
            else:
                totals[name] = np.add(totals[name], value, out=totals[name])
    return totals


def _on_all_rows(
    step: Step,
    view: View,
    label: str | None,
    inputs: Mapping[str, Any],
    public: Mapping[str, Any],
) -> dict[str, Any]:
    labels: list[Array] = []
    X = np.empty((view.n_rows, len(view.columns)))
    filled = 0
    for block in view.blocks([] if label is None else [label]):
        n = len(block.X)
        if n == len(X):
            # Passed as it is: it may be the silo's own array.
            X = block.X
        else:
            X[filled : filled + n] = block.X
        filled += n
        if label is not None:
            labels.append(block.extra[label])
    y = None if label is None else np.concatenate(labels)
    return dict(step(**inputs, **_of_rows(step, view, X, y), **public))


def _of_rows(step: Step, view: View, X: Any, y: Any) -> dict[str, Any]:
    sums = {"sums": view.sums(X)} if "sums" in step.reads else {}
    return _read_by(step, {"X": X, "cells": X, "y": y}) | sums


def _read_by(step: Step, arrays: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arrays.items() if name in step.reads}
