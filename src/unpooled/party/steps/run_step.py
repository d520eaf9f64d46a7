"""Running a step on a silo's rows: block by block and added, or on all of them."""

import importlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from unpooled.arrays import Array, Int
from unpooled.party.rules.weighted_rows import WeightedRows, rows_weighed
from unpooled.party.views.view import View
from unpooled.protocol.step import Step, find_step


def run_step(
    step: Step,
    view: View,
    label: str | None,
    own: Mapping[str, Any],
    public: Mapping[str, Any],
    judge: WeightedRows | None = None,
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
        columns, "coded", those of them that hold categories, and "dictionary", the
        names of its categories by their codes.
    judge : WeightedRows, optional
        Is shown the rows of a step that weighs them.
    """
    inputs = _read_by(step, own)
    if not {"X", "cells", "sums", "y"} & set(step.reads):
        return dict(step(**inputs, **public))
    run = step if judge is None else partial(_judged, step, judge)
    if step.by == "party":
        return dict(run(**inputs, **_of_all_rows(step, view, label), **public))
    if not inputs and judge is None:
        # A worker finds the step by its name, as a silo does.
        where = (step.function.__module__, step.name)
        work = partial(_of_part, where, label, dict(public))
        if (totals := view.over_parts(work)) is not None:
            return totals
    blocks = _of_blocks(step, view, label)
    return _added(run(**inputs, **block, **public) for block in blocks)


def run_again(
    step: Step,
    view: View,
    label: str | None,
    public: Mapping[str, Any],
) -> Iterator[Mapping[str, Any]]:
    """Yield what a step that weighs rows makes of every block, rows included.

    The parameters are those of `run_step`; such a step reads nothing that is kept.
    """
    if step.by == "party":
        yield step.function(**_of_all_rows(step, view, label), **public)
        return
    for block in _of_blocks(step, view, label):
        yield step.function(**block, **public)


def run_on_parts(
    step: Step,
    view: View,
    label: str | None,
    public: Mapping[str, Any],
    parts: Sequence[Sequence[int]],
) -> Iterator[tuple[Int[Array, "..."], Mapping[str, Any]]]:
    """Yield what a step that weighs rows makes of parts of all rows, rows included.

    Beside it comes the number of the part: of each of the rows that are included, or
    of all of them.

    Parameters
    ----------
    view : View
        A view of some blocks of rows.
    parts : sequence of sequence of int
        The blocks of each part, whether they are in the view or not.
    """
    part_of = np.zeros(sum(map(len, parts)), int)
    for number, blocks in enumerate(parts):
        part_of[list(blocks)] = number
    own = part_of[view.blocks_of_rows]
    extra = [] if label is None else [label]
    for block in view.of_all_rows().blocks(extra):
        X, y = block.X, block.extra.get(label or "")
        numbers = own[block.start : block.start + len(X)]
        found = step.function(**_of_rows(step, view, X, y), **public)
        if rows_weighed(found) == {len(X)}:
            yield numbers, found
            continue
        # Rows of some classes may be left out.
        for number in np.unique(numbers):
            some = numbers == number
            of_part = _of_rows(step, view, X[some], None if y is None else y[some])
            yield number, step.function(**of_part, **public)


def _judged(step: Step, judge: WeightedRows, **given: Any) -> dict[str, Any]:
    return judge.totals(step.function(**given))


def _of_part(
    step: tuple[str, str], label: str | None, public: Mapping[str, Any], view: View
) -> dict[str, Any]:
    module, name = step
    importlib.import_module(module)
    run = find_step(name)
    with np.errstate(all="ignore"):
        return _added(run(**block, **public) for block in _of_blocks(run, view, label))


def _added(found: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the arrays of all blocks by name, added."""
    totals: dict[str, Any] = {}
    for number, arrays in enumerate(found):
        for name, value in arrays.items():
            # The first block's arrays may be views of the silo's rows.
            if number == 0:
                totals[name] = value
            elif number == 1:
                # A sum of numbers is a scalar, which nothing can be added into.
                totals[name] = np.asarray(np.add(totals[name], value))
            else:
                totals[name] = np.add(totals[name], value, out=totals[name])
    return totals


def _of_blocks(step: Step, view: View, label: str | None) -> Iterator[dict[str, Any]]:
    """Yield what the step reads of every block of rows."""
    extra = [] if label is None else [label]
    for block in view.blocks(extra, sparse=step.sparse):
        yield _of_rows(step, view, block.X, block.extra.get(label or ""))


def _of_all_rows(step: Step, view: View, label: str | None) -> dict[str, Any]:
    """Return the arrays that the step reads of all rows together."""
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
    return _of_rows(step, view, X, y)


def _of_rows(step: Step, view: View, X: Any, y: Any) -> dict[str, Any]:
    sums = {"sums": view.sums(X)} if "sums" in step.reads else {}
    return _read_by(step, {"X": X, "cells": X, "y": y}) | sums


def _read_by(step: Step, arrays: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arrays.items() if name in step.reads}
