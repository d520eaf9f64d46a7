"""The classes of a label: their names and sizes, and the means of their rows.

    round 1   silos <── a salt for each of c cells of a table
              silos ── each class's size times (1, its name), added into three cells
              ──> a cell of a single class gives its name; subtract this class from its
              cells, and repeat ──> names
    round 2   silos <── names ──  silos ── each class's size and column sums ──> means

The table is an invertible Bloom lookup table. A silo need not know which classes other
silos have, and nobody learns which silo has which class: cells are added over all silos
before any is read. The totals reveal the name and the size of each class, as those of
round 2 do. Round 1 is left out where the user gives the names.

References
----------
Goodrich and Mitzenmacher, Invertible Bloom lookup tables, Allerton 2011.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Float, Int, Shaped
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.moments import column_sums
from unpooled.models.moments import not_finite
from unpooled.protocol.step import Step, public, release, summed

# A name has one byte for its kind and up to 44 more, three to a word: float64 holds the
# product of a word and the size of a class exactly, for sizes up to 2^29.
_WORDS, _BYTES = 15, 3
# Numbers of cells in a first, second and third attempt: 64 suffice for some 40 classes.
SIZES = (64, 256, 1024)
# Number of cells that each class is added into.
_PLACES = 3

CELLS = release(
    "c 16",
    meaning="class names and sizes, added into the cells of a table that is read after "
    "it is added over all silos (invertible Bloom lookup table)",
)


@summed(
    takes={"salts": public("c", "random numbers that choose the cells of class names")},
    cells=CELLS,
)
def local_names(y: Shaped[Array, " n"], *, salts: Int[Array, " c"]) -> dict[str, Any]:
    """Add the names and sizes of this silo's classes into the cells of a table."""
    cells = np.zeros((len(salts), 1 + _WORDS))
    counts = Counter(_present(y).tolist())
    if len(counts) > len(salts):
        raise DataError("The label has too many values.", rule="label_values")
    for value, count in counts.items():
        words = words_of(value)
        cells[places(words, salts)] += count * np.array([1, *words])
    return {"cells": cells}


@summed(
    takes={"classes": public("c w", "the names of the classes")},
    count=release("c", meaning="how many rows each class has"),
    total=release("c p", meaning="the sum of each column over the rows of each class"),
)
def local_class_totals(
    X: Float[Array, "n p"], y: Shaped[Array, " n"], *, classes: Int[Array, "c w"]
) -> dict[str, Any]:
    """Count and add this silo's rows, class by class."""
    if not np.isfinite(X.sum()) and not np.isfinite(X).all():
        raise not_finite(X)
    codes = class_codes(y, classes)
    rows = [codes == k for k in range(len(classes))]
    return {
        "count": np.array([float(of_class.sum()) for of_class in rows]),
        "total": np.array([column_sums(X[of_class]) for of_class in rows]),
    }


@final
@dataclass(frozen=True)
class Classes:
    """Names, sizes and means of the classes.

    Attributes
    ----------
    names : (c, w) array
        As words: see `words_of`.
    count : (c,) array
        Number of rows of each class.
    means : (c, p) array
        Mean of the rows of each class.
    """

    names: Int[Array, "c w"]
    count: Float[Array, " c"]
    means: Float[Array, "c p"]

    @property
    def mean(self) -> Float[Array, " p"]:
        """The mean of all rows."""
        return np.add.reduce(self.count[:, None] * self.means) / self.count.sum()


def agreed_names(
    federation: Federation,
    names_step: Step,
    classes: Sequence[Any] | None,
    n_planned: int,
) -> Int[Array, "c w"]:
    """Return the sorted names of all classes as words; one round if none are given.

    Parameters
    ----------
    federation : Federation
        With a label.
    names_step : Step
        `local_names`, or a step with the same arguments and array.
    classes : sequence, optional
        The names, where they are known beforehand.
    n_planned : int
        Number of classes that a plan assumes, which does not know it.
    """
    if classes is not None:
        return _ordered([tuple(words_of(value)) for value in classes])
    for size in SIZES:
        salts = size + np.arange(size)
        cells = federation.sum(names_step, salts=salts)["cells"]
        names = names_in(cells, salts, n_planned)
        if names is not None:
            return names
    raise DataError(
        f"The label {federation.label!r} has too many values to be classes. Name a "
        f"label with fewer."
    )


def names_in(
    cells: Float[Array, "c 16"], salts: Int[Array, " c"], n_planned: int
) -> Int[Array, "l w"] | None:
    """Return the sorted names that a table of cells has; None where it is too small."""
    if (cells == 1.0).all():  # a plan's placeholders
        return _ordered([tuple(words_of(k)) for k in range(n_planned)])
    counts = peeled(np.rint(cells), salts)
    return None if counts is None else _ordered(list(counts))


def pooled_class_means(
    federation: Federation, classes: Int[Array, "c w"]
) -> tuple[Float[Array, " c"], Float[Array, "c p"]]:
    """Return the number of rows and the mean of each class; one round.

    Parameters
    ----------
    federation : Federation
        With a label.
    classes : (c, w) array
        Names as words.
    """
    totals = federation.sum(local_class_totals, classes=classes)
    count = np.rint(totals["count"])
    if (count == 0).any():
        empty = class_values(classes)[count == 0].tolist()
        raise DataError(f"No silo has a row of the classes {empty}.")
    return count, totals["total"] / count[:, None]


def check_label(federation: Federation, y: Any) -> None:
    """Check that y names the label that the silos carry along."""
    if y is None:
        raise DataError('Name the label column: fit(federation, y="...").')
    if federation.label is None or y != federation.label:
        raise DataError(
            f"y={y!r} is not the label that the silos carry along, which is "
            f"{federation.label!r}. Name it when the federation is made: "
            f"simulate(..., label={str(y)!r})."
        )


def class_codes(y: Shaped[Array, " n"], classes: Int[Array, "c w"]) -> Int[Array, " n"]:
    """Return the position of each row's class in `classes`."""
    values, inverse = np.unique(_present(y), return_inverse=True)
    position = {tuple(words): k for k, words in enumerate(classes.tolist())}
    try:
        known = [position[tuple(words_of(value))] for value in values.tolist()]
    except KeyError as unknown:
        raise DataError(
            "A label is not among the classes.", rule="classes"
        ) from unknown
    return np.array(known, dtype=np.int64)[inverse]


def class_values(classes: Int[Array, "c w"]) -> Shaped[Array, " c"]:
    """Return the names as an array of integers, floats or texts."""
    return np.array([_value(tuple(words)) for words in classes.tolist()])


def words_of(value: Any) -> list[int]:
    """Return a class's name as whole numbers below 2^24; 1, 1.0 and True are equal."""
    if isinstance(value, str):
        name = b"t" + value.encode()
    else:
        number = float(value)
        name = (
            b"n" + (repr(int(number)) if number.is_integer() else repr(number)).encode()
        )
    if len(name) > _WORDS * _BYTES:
        raise DataError("A label is too long for a class name.", rule="label_values")
    name = name.ljust(_WORDS * _BYTES, b"\0")
    return [
        int.from_bytes(name[start : start + _BYTES])
        for start in range(0, len(name), _BYTES)
    ]


def places(words: Sequence[int], salts: Int[Array, " c"]) -> list[int]:
    """Return the cells of a name: those whose salts give its smallest hashes."""
    name = b"".join(int(word).to_bytes(_BYTES) for word in words)
    hashes = [
        hashlib.blake2b(name, digest_size=8, salt=int(salt).to_bytes(8)).digest()
        for salt in salts
    ]
    return sorted(range(len(hashes)), key=hashes.__getitem__)[:_PLACES]


def peeled(
    cells: Float[Array, "c 16"], salts: Int[Array, " c"]
) -> dict[tuple[int, ...], int] | None:
    """Return names with their counts; None where cells of several classes remain."""
    rest, counts = cells.copy(), dict[tuple[int, ...], int]()
    progress = True
    while progress:
        progress = False
        for j in np.flatnonzero(rest[:, 0] > 0):
            count, *sums = rest[j].tolist()
            # Cells of this list may have changed when a class was subtracted.
            if count <= 0 or any(total % count for total in sums):
                continue
            words = tuple(int(total // count) for total in sums)
            if not _is_name(words) or j not in (cells_of_name := places(words, salts)):
                continue
            rest[cells_of_name] -= count * np.array([1, *words])
            counts[words] = int(count)
            progress = True
    return counts if counts and not rest.any() else None


def _is_name(words: tuple[int, ...]) -> bool:
    try:
        _value(words)
    except (ValueError, OverflowError):
        return False
    return True


def _value(words: Sequence[int]) -> Any:
    name = b"".join(word.to_bytes(_BYTES) for word in words).rstrip(b"\0").decode()
    if name[:1] == "t":
        return name[1:]
    if name[:1] != "n":
        raise ValueError("not a name")
    number = float(name[1:])
    return int(name[1:]) if number.is_integer() else number


def _ordered(names: Sequence[tuple[int, ...]]) -> Int[Array, "c w"]:
    by_value = {_value(name): name for name in names}
    if len({isinstance(value, str) for value in by_value}) != 1:
        raise DataError("The label has both numbers and texts; make them one kind.")
    if len(by_value) < 2:
        raise DataError(
            f"The label has the single class {next(iter(by_value))!r}; two are needed."
        )
    return np.array([by_value[value] for value in sorted(by_value)], dtype=np.int64)


def _present(y: Shaped[Array, " n"]) -> Shaped[Array, " n"]:
    missing = (
        any(value is None for value in y)
        if y.dtype.kind == "O"
        else y.dtype.kind == "f" and np.isnan(y).any()
    )
    if missing:
        raise DataError(
            "Rows without a label; leave them out first.", rule="missing_labels"
        )
    return y
