"""Checks of one step on rows at hand: declaration, purity, additivity over rows."""

import copy
import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from unpooled.arrays import Array
from unpooled.protocol.step import Step, Weighed

# Totals over other cuts of the rows differ by rounding alone: by a few ulp of the
# largest entry for each of some thousand additions.
_ROUNDING = 1e-9


def check_step(
    step: Step,
    X: Any,
    y: Any = None,
    *,
    kept: Mapping[str, Any] | None = None,
    inbox: Mapping[str, Any] | None = None,
    party: str = "silo",
    columns: Sequence[str] = (),
    coded: Sequence[str] = (),
    dictionary: Mapping[float, str] | None = None,
    rtol: float = _ROUNDING,
    **public: Any,
) -> None:
    """Check that a step keeps the promises of its declaration.

    A silo checks names and shapes of what a step returns each time that it runs. It
    cannot see whether the step is additive over rows, nor whether it is pure; a step
    that returns column maxima and is declared `summed` gives the sum of the silos'
    maxima without any error. These checks find it.

    Parameters
    ----------
    step : Step
        Declared with `summed`, `kept`, `disclosed`, `exchanged` or `derived`.
    X : (n, p) array-like
        Rows of one silo, at least six.
    y : (n,) array-like, optional
        Their labels, for a step that reads `y`.
    kept, inbox : mapping of str to object, optional
        For a step that reads what the silo kept, or what its neighbours sent.
    party : str, default "silo"
        For a step that reads its party's name.
    columns : sequence of str, optional
        For a step that reads the names of the columns of `X`; x0, x1, ... otherwise.
    coded : sequence of str, default ()
        For a step that reads which of these hold categories.
    dictionary : mapping of float to str, optional
        For a step that reads the names of categories by their codes.
    rtol : float, default 1e-9
        Largest difference of totals over two cuts of the rows, relative to the largest
        entry of the array.
    **public
        The step's public arguments.

    Raises
    ------
    AssertionError
        Names the array and the promise that does not hold.
    DataError
        When a public argument is absent, unknown, or not of the declared axes.
    """
    X = np.asarray(X, dtype=float)
    if X.ndim != 2 or len(X) < 6:
        raise ValueError("X needs two axes and at least six rows.")
    inputs = {"X": X, "cells": X, "y": None if y is None else np.asarray(y)}
    inputs |= {"kept": kept, "inbox": inbox, "party": party, "sums": None}
    names = tuple(columns) or tuple(f"x{j}" for j in range(X.shape[1]))
    inputs |= {"columns": names, "coded": tuple(coded), "dictionary": dictionary}
    given = {name: inputs[name] for name in step.reads}
    _check_words(step)
    sizes = step.sizes(X.shape[1], public) | {"n": len(X), "N": len(X)}
    whole = _run_twice(step, given, public)
    if step.verb == "derived":
        _check_rows_alone(step, given, public, whole, rtol)
        return
    _check_shapes(step, sizes, whole)
    if step.weighs_rows:
        _check_weighed(step, step.function(**given, **public))
    if step.by == "rows" and {"X", "cells", "y"} & set(step.reads):
        _check_additive(step, given, public, whole, rtol)


def _check_words(step: Step) -> None:
    assert inspect.getdoc(step.function), f"{step.name} has no docstring."
    for name, declared in step.declared.items():
        assert declared.meaning, (
            f"{step.name} does not say what {name!r} means; declare it with "
            f'release(axes, meaning="..."), for the report.'
        )


def _run_twice(step: Step, given: Mapping[str, Any], public: Mapping[str, Any]) -> Any:
    before = copy.deepcopy((dict(given), dict(public)))
    first = step(**given, **public)
    # The first block's arrays may be views of the rows: copied before the second run.
    first = copy.deepcopy(first)
    assert _same(before, (dict(given), dict(public))), (
        f"{step.name} changes its arguments in place; a silo hands over its own rows."
    )
    second = step(**given, **public)
    assert _same(first, second), (
        f"{step.name} gives two results for the same rows. A step is a pure function: "
        f"a silo that is asked again after a crash must send the same."
    )
    return first


def _check_shapes(
    step: Step, sizes: Mapping[str, int], found: Mapping[str, Any]
) -> None:
    assert isinstance(found, Mapping), f"{step.name} returns no arrays by name."
    missing, further = set(step.declared) - set(found), set(found) - set(step.declared)
    assert not missing, (
        f"{step.name} declares {sorted(missing)} but does not return it."
    )
    assert not further, (
        f"{step.name} returns {sorted(further)}, which is not declared; a silo refuses "
        f"to send it."
    )
    for name, declared in step.declared.items():
        if set(declared.letters) <= set(sizes):
            shape = declared.shape(sizes)
            assert np.shape(found[name]) == shape, (
                f"{step.name} declares {name!r} with axes {declared.axes!r}, which is "
                f"{shape} here, and returns {np.shape(found[name])}."
            )


def _check_weighed(step: Step, found: Mapping[str, Any]) -> None:
    for name, declared in step.declared.items():
        value = found[name]
        assert isinstance(value, Weighed) == declared.weighed, (
            f"{step.name} declares {name!r} with weighed={declared.weighed}; return a "
            f"Weighed, the sum and its rows, of an array with weighed=True alone."
        )
        if declared.weighed:
            made = [rows.T @ rows for rows in value.rows]
            for G, wanted in zip(value.products or made, made, strict=True):
                assert _close(G, wanted, _ROUNDING), (
                    f"{step.name} returns products of the rows of {name!r} that are "
                    f"not theirs; leave them out, or return rows.T @ rows."
                )


def _check_additive(
    step: Step,
    given: Mapping[str, Any],
    public: Mapping[str, Any],
    whole: Mapping[str, Any],
    rtol: float,
) -> None:
    scale = {name: np.zeros(np.shape(value)) for name, value in whole.items()}
    rows = next(given[name] for name in ("X", "cells", "y") if name in given)
    for parts in _cuts(len(rows)):
        totals: dict[str, Any] = {}
        for part in parts:
            found = step(**_rows_of(given, part), **public)
            for name, value in found.items():
                totals[name] = totals[name] + value if name in totals else value
                # Where the parts cancel, rounding is relative to them, not to the sum.
                scale[name] = scale[name] + np.abs(np.asarray(value, float))
        for name in step.declared:
            assert _close(totals[name], whole[name], rtol, scale[name]), (
                f"{step.name} is declared additive over rows, but {name!r} of all rows "
                f"is not the sum of {name!r} of {len(parts)} parts of them. A secure "
                f"sum would be wrong. Return sums over rows, or declare the step with "
                f'by="party".'
            )


def _check_rows_alone(
    step: Step,
    given: Mapping[str, Any],
    public: Mapping[str, Any],
    whole: Any,
    rtol: float,
) -> None:
    n = len(given["X"] if "X" in given else given["cells"])
    assert np.ndim(whole) == 2, f"{step.name} is derived: it returns two axes."
    assert len(whole) == n, (
        f"{step.name} is derived: it takes rows and returns as many, with two axes."
    )
    for parts in _cuts(n):
        for part in parts:
            found = step(**_rows_of(given, part), **public)
            assert _close(found, whole[part], rtol), (
                f"{step.name} gives a row another image beside other rows. A derived "
                f"step transforms each row by itself: a silo applies it block by block."
            )


def _cuts(n: int) -> Iterator[list[Array]]:
    yield list(np.split(np.arange(n), [1, n // 2]))
    yield [np.arange(n)[::-1]]
    yield list(np.array_split(np.random.default_rng(0).permutation(n), 5))


def _rows_of(given: Mapping[str, Any], part: Sequence[int] | Array) -> dict[str, Any]:
    rows = {"X", "cells", "y"}
    return {
        name: value[part] if name in rows and value is not None else value
        for name, value in given.items()
    }


def _close(found: Any, wanted: Any, rtol: float, scale: Any = 0.0) -> bool:
    found, wanted = np.asarray(found, float), np.asarray(wanted, float)
    sizes = np.abs(np.append(wanted, scale))
    atol = rtol * float(np.max(sizes, where=np.isfinite(sizes), initial=0.0))
    return found.shape == wanted.shape and bool(
        np.allclose(found, wanted, rtol=rtol, atol=atol, equal_nan=True)
    )


def _same(a: Any, b: Any) -> bool:
    """Whether two values are equal bit by bit, NaN included."""
    if isinstance(a, Mapping):
        return set(a) == set(b) and all(_same(a[name], b[name]) for name in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, np.ndarray):
        return np.shape(a) == np.shape(b) and a.tobytes() == np.asarray(b).tobytes()
    return bool(a is b or a == b or (a != a and b != b))
