"""Applying a fitted model to a silo's own rows, in the silo, block by block.

table ─> block ─> transform, step by step ─> CSV or Parquet beside ids and labels
                  predict, where the last step transforms nothing

Each step of a pipeline selects its columns by name: a model of two views, for example,
takes those of the first view, though the steps before it had those of the second too.

Categories are read as the names that the file has, and not as the codes that steps of a
study read. So a name that a single row has is a category here, as in a data frame at
hand, and in a study it counts as one of the rare ones.
"""

import os
import secrets
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unpooled.arrays import Array, Shaped
from unpooled.data.columns import listing
from unpooled.data.row_blocks import Block
from unpooled.data.table import Table
from unpooled.errors import DataError, StudyError
from unpooled.models.pca.outliers import LEVELS
from unpooled.party.memory.kept_arrays import KeptArrays
from unpooled.protocol.refusal import Refusal
from unpooled.protocol.view_operations import split_address

if TYPE_CHECKING:
    import pyarrow

_FORMATS = (".csv", ".parquet")
# From the address of a fit to the arrays that the silo keeps of it.
FindKept = Callable[[str], KeptArrays]


def apply(
    model: Any, table: Table, path: Path, kept: FindKept, *, outliers: bool = False
) -> tuple[int, list[str]]:
    """Write a model's scores, transformed rows or predictions of a whole table.

    Parameters
    ----------
    model : fitted estimator or Pipeline
        With `transform`, or else with `predict`: predicted classes with their
        probabilities, or predicted numbers.
    table : Table
        The silo's rows; columns are found by name, in any order.
    path : Path
        A new file, ``.csv`` or ``.parquet``, which only its owner may read.
    kept : callable
        Returns what the silo keeps of a fit by its address, for models of which a part
        stays there: the silo's means of `CentreBySite`.
    outliers : bool, default False
        Write, behind the scores of a PCA that was fitted with `outliers`, the squared
        Mahalanobis distance and the Q-residual of each row, and the largest of the
        levels 95, 99 and 99.9 whose limit one of them is beyond, 0 for none.

    Returns
    -------
    n_rows : int
        How many rows were written.
    columns : list of str
        The file's columns: ids and label first, if the table has them.
    """
    if path.suffix not in _FORMATS:
        raise DataError(f"{path} is neither {' nor '.join(_FORMATS)}.")
    if path.exists():
        raise DataError(f"{path} exists. Give another file, or move it away.")
    _check(model)
    if outliers and "q_limits_" not in vars(_parts(model)[-1]):
        raise StudyError(
            "Distances of rows are measured by a PCA that was fitted with "
            "outliers=True (in a study: outliers = true); this model was not."
        )
    hidden = path.with_name(f".{secrets.token_hex(4)}{path.suffix}")
    try:
        os.close(os.open(hidden, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        written = _written(hidden, _batches(model, table, kept, outliers=outliers))
        # Not `replace`: another process may have made the file meanwhile.
        os.link(hidden, path)
    except OSError as wrong:
        raise DataError(f"Cannot write {path}: {wrong.strerror}.") from wrong
    finally:
        hidden.unlink(missing_ok=True)
    return written


def _check(model: Any) -> None:
    last = _parts(model)[-1]
    if not hasattr(last, "transform") and not hasattr(last, "predict"):
        raise StudyError(
            f"A {type(last).__name__} neither transforms nor predicts rows; there is "
            f"nothing to write."
        )
    for part in _parts(model):
        if getattr(part, "site_effects", False):
            raise StudyError(
                f"This {type(part).__name__} has an own intercept for each silo, and "
                f"its predictions are those of a study (predict of a federation). This "
                f"silo's own intercept is among the files that it keeps."
            )
        by_columns = "kept_" in vars(part) and "columns" in part._partitions
        if by_columns and not _is_own(part):
            raise StudyError(
                f"This {type(part).__name__} was fitted on a column partition: no "
                f"silo's own columns are enough to apply it. The study that fitted it "
                f"may have released the scores (scores=)."
            )


def _is_own(part: Any) -> bool:
    """Return whether a silo transforms its rows by what it keeps itself."""
    return hasattr(part, "transform_in_silo")


def _parts(model: Any) -> list[Any]:
    steps = [part for _, part in model.steps] if hasattr(model, "steps") else [model]
    return [part for part in steps if part not in (None, "passthrough")]


def _written(
    path: Path, batches: "Iterator[pyarrow.RecordBatch]"
) -> tuple[int, list[str]]:
    import pyarrow.csv
    import pyarrow.parquet

    rows, first = 0, next(batches)
    kind = pyarrow.csv.CSVWriter
    if path.suffix == ".parquet":
        kind = pyarrow.parquet.ParquetWriter
    with kind(str(path), first.schema) as writer:
        batch: pyarrow.RecordBatch | None = first
        while batch is not None:
            writer.write(batch)
            rows += batch.num_rows
            batch = next(batches, None)
    return rows, first.schema.names


def _batches(
    model: Any, table: Table, kept: FindKept, *, outliers: bool
) -> "Iterator[pyarrow.RecordBatch]":
    import pyarrow

    columns = _columns(model, table)
    coded = [name for name in columns if name in table.categorical]
    numbers = [name for name in columns if name not in coded]
    others = [name for name in (table.ids, table.label) if name is not None]
    schema: pyarrow.Schema | None = None
    for block in table.blocks(numbers, [*others, *coded]):
        values, value_names = _rows(block, columns, numbers), list(columns)
        for part in _parts(model):
            selected = values[:, _places(part, value_names)]
            names = [value_names[j] for j in _places(part, value_names)]
            values = _transformed(part, selected, names, set(coded), kept)
            value_names = _names(part, values.shape[1], others)
            if outliers and part is _parts(model)[-1]:
                values = np.column_stack([values, *_distances(part, selected)])
                value_names += ["mahalanobis", "q_residual", "beyond"]
        made = [*others, *value_names]
        arrays = [_other(block, name, schema) for name in others]
        arrays += [pyarrow.array(column) for column in _typed(values)]
        batch = pyarrow.record_batch(arrays, names=made)
        schema = batch.schema
        yield batch


def _rows(
    block: Block, columns: Sequence[str], numbers: Sequence[str]
) -> Shaped[Array, "n p"]:
    """Return numbers, beside names of categories as objects where there are any."""
    X = np.asarray(block.X, float)
    if len(numbers) == len(columns):
        return X
    by_name = {**block.extra, **dict(zip(numbers, X.T, strict=True))}
    rows = np.empty((len(X), len(columns)), object)
    for j, name in enumerate(columns):
        rows[:, j] = by_name[name]
    return rows


def _transformed(
    part: Any,
    rows: Shaped[Array, "n p"],
    names: Sequence[str],
    coded: set[str],
    kept: FindKept,
) -> Shaped[Array, "n q"]:
    if rows.dtype == object and not part._reads_categories:
        if found := [name for name in names if name in coded]:
            raise DataError(
                f"{type(part).__name__} takes numbers, and this silo's file has "
                f"{listing(found)} among its categories."
            )
        rows = rows.astype(float)
    if not hasattr(part, "transform"):
        return _predictions(part, rows)
    if not _is_own(part):
        with warnings.catch_warnings():
            # A name that one row has is none of the study's, and no mistake.
            warnings.filterwarnings("ignore", "Found unknown categories", UserWarning)
            made = np.asarray(part.transform(rows))
        return made if made.dtype == object else made.astype(float, copy=False)
    try:
        return part.transform_in_silo(rows, kept(part.kept_))
    except Refusal as absent:
        study = split_address(part.kept_)[0]
        raise DataError(
            f"{type(part).__name__} subtracts the means that this silo kept in the "
            f"study {study}, and there are none: it did not take part, or forgot the "
            f"study."
        ) from absent


def _predictions(part: Any, rows: Shaped[Array, "n p"]) -> Shaped[Array, "n q"]:
    """Return predicted numbers, or classes and their probabilities."""
    predicted = np.asarray(part.predict(rows)).reshape(len(rows), -1)
    if not hasattr(part, "predict_proba"):
        return predicted
    return np.column_stack([predicted.astype(object), part.predict_proba(rows)])


def _distances(part: Any, rows: Shaped[Array, "n p"]) -> tuple[Array, Array, Array]:
    """Return both distances of rows, and the level that they are beyond."""
    rows = rows.astype(float)
    squares, left = part.mahalanobis(rows), part.q_residuals(rows)
    far = np.maximum(
        np.searchsorted(part.mahalanobis_limits_, squares),
        np.searchsorted(part.q_limits_, left),
    )
    return squares, left, np.array([0.0, *(100.0 * level for level in LEVELS)])[far]


def _typed(values: Shaped[Array, "n q"]) -> Iterator[Array]:
    """Yield columns, each of numbers or of text."""
    for column in values.T:
        text = column.dtype == object and any(isinstance(c, str) for c in column)
        yield column if text else column.astype(float)


def _other(block: Block, name: str, schema: Any) -> "pyarrow.Array":
    """Return ids or labels; in later blocks with the type of the first block."""
    import pyarrow

    values = block.extra[name]
    if schema is not None:
        return pyarrow.array(values.tolist(), schema.field(name).type)
    array = pyarrow.array(values.tolist() if values.dtype.kind == "O" else values)
    # A first block without any value does not determine the type.
    return array.cast(pyarrow.string()) if pyarrow.types.is_null(array.type) else array


def _columns(model: Any, table: Table) -> list[str]:
    names: Array | None = getattr(model, "feature_names_in_", None)
    if names is None:
        if model.n_features_in_ != len(table.columns):
            raise DataError(
                f"The model was fitted on {model.n_features_in_} columns, and this "
                f"silo has {len(table.columns)}."
            )
        return list(table.columns)
    wanted = [str(name) for name in names]
    if missing := [name for name in wanted if name not in table.columns]:
        raise DataError(f"The model needs the columns {', '.join(missing)}, which this "
                        f"silo does not have.")  # fmt: skip
    return wanted


def _places(part: Any, names: Sequence[str]) -> list[int]:
    """Return the positions of a step's columns among the columns of its input."""
    wanted = [str(name) for name in getattr(part, "feature_names_in_", names)]
    if not set(wanted) <= set(names):
        # The step's own check raises the error.
        return list(range(len(names)))
    return [names.index(name) for name in wanted]


def _names(model: Any, width: int, others: list[str]) -> list[str]:
    if not hasattr(model, "transform"):
        classes = model.classes_ if hasattr(model, "predict_proba") else ()
        return ["predicted", *(f"probability_{one}" for one in classes)]
    try:
        names = [str(name) for name in model.get_feature_names_out()]
    except (AttributeError, ValueError):
        names = []
    if len(names) != width or set(names) & set(others):
        return [f"score{k}" for k in range(width)]
    return names
