"""The classes of a label: their names and sizes, and the means of their rows.

    round 1   silos <── a salt for each of c cells of a table
              silos ── each class's size times (1, its name), added into three cells
              ──> a cell of a single class gives its name; subtract this class from its
              cells, and repeat ──> names
              where the user gives the names: silos <── names ──  silos ── sizes
    round 2   silos <── names, sizes ── each silo judges the sizes, then sends the
              column sums of each class ──> means

The table is an invertible Bloom lookup table. A silo need not know which classes other
silos have, and nobody learns which silo has which class: cells are added over all silos
before any is read. The totals reveal the name and the size of each class. Where names
are given, rows of other classes are left out: a refusal would tell which silo has them.
Their number over all silos is released too, and an error where there are any.

References
----------
Goodrich and Mitzenmacher, Invertible Bloom lookup tables, Allerton 2011.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Float, Int, Shaped
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.lookup_table import WORD_BYTES, as_bytes, as_words, names_in
from unpooled.linalg.moments import column_sums
from unpooled.models.moments import not_finite
from unpooled.protocol.step import Step, public, release, stays, summed

# A name has one byte for its kind and up to 44 more.
_WORDS = 15
# Numbers of cells in a first and further attempts: 20 suffice for some 10 classes, 64
# for some 40. Every cell is a number that is opened, so few are tried first.
SIZES = (20, 64, 256, 1024)
# Number of cells that each class is added into.
_PLACES = 3

CELLS = release(
    "c 16",
    meaning="class names and sizes, added into the cells of a table that is read after "
    "it is added over all silos (invertible Bloom lookup table)",
    counts="names",
    # The words of a cell are its count times the words of a name.
    repeats=1 + _WORDS,
)


SALTS = public("c", "random numbers that choose the cells of class names")


@summed(
    takes={"salts": SALTS},
    cells=CELLS,
)
def local_names(y: Shaped[Array, " n"], *, salts: Int[Array, " c"]) -> dict[str, Any]:
    """Add the names and sizes of this silo's classes into the cells of a table."""
    cells = np.zeros((len(salts), 1 + _WORDS))
    counts = Counter(_present(y).tolist())
    # Names that a small table cannot hold are requested again, in a larger one.
    if len(counts) > max(len(salts), SIZES[-1]):
        raise DataError("The label has too many values.", rule="label_values")
    for value, count in counts.items():
        words = words_of(value)
        cells[places(words, salts)] += count * np.array([1, *words])
    return {"cells": cells}


def names_if_held(
    y: Shaped[Array, " n"] | None, salts: Int[Array, " c"]
) -> dict[str, Any]:
    """Return the result of `local_names`; zeros in a silo without the label."""
    if y is None:
        return {"cells": np.zeros((len(salts), 1 + _WORDS))}
    return local_names(y, salts=salts)


NAMES = public("c w", "the names of the classes")
OPENED_SIZES = public(
    "c", "how many rows each class has, over all silos", counts="classes"
)
OWN_SIZES = stays(
    "c",
    until="fit",
    meaning="how many rows of each class the silo has",
    counts="classes",
)


@summed(
    takes={"classes": NAMES},
    count=release("c", meaning="how many rows each class has", counts="classes"),
    others=release("", meaning="how many rows are of none of these classes"),
)
def local_class_counts(
    y: Shaped[Array, " n"], *, classes: Int[Array, "c w"]
) -> dict[str, Any]:
    """Count this silo's rows, class by class, and those of other classes."""
    codes = class_codes(y, classes)
    return {
        "count": class_sizes(codes, classes),
        "others": np.array(float(np.count_nonzero(codes < 0))),
    }


@summed(
    within_silos=True,
    takes={"classes": NAMES, "count": OPENED_SIZES},
    total=release("c p", meaning="the sum of each column over the rows of each class"),
    own=OWN_SIZES,
)
def local_class_totals(
    X: Float[Array, "n p"],
    y: Shaped[Array, " n"],
    *,
    classes: Int[Array, "c w"],
    count: Float[Array, " c"],
) -> dict[str, Any]:
    """Add this silo's rows, class by class."""
    if not np.isfinite(X.sum()) and not np.isfinite(X).all():
        raise not_finite(X)
    codes = class_codes(y, classes)
    rows = [codes == k for k in range(len(classes))]
    return {
        "total": np.array([column_sums(X[of_class]) for of_class in rows]),
        "own": class_sizes(codes, classes),
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


def agreed_classes(
    federation: Federation,
    names_step: Step,
    classes: Sequence[Any] | None,
    n_planned: int,
    *,
    least: int = 2,
) -> tuple[Int[Array, "c w"], Float[Array, " c"]]:
    """Return the sorted names of all classes as words, and their sizes; one round.

    Parameters
    ----------
    federation : Federation
        With a label.
    names_step : Step
        `local_names`, or a step with the same arguments and array.
    classes : sequence, optional
        The names, where they are known beforehand.
    n_planned : int
        Number of classes that a plan assumes at least, which does not know it.
    least : int, default 2
        Fewest classes that there must be, where the names are not given.

    Raises
    ------
    DataError
        Where rows are of other classes than those given, or nobody has one of them.
    """
    if classes is not None:
        return _counted(federation, names_of(classes))
    for size in SIZES:
        salts = size + np.arange(size)
        cells = federation.sum(names_step, salts=salts)["cells"]
        if federation.coordinator.planned:
            n_planned = max(n_planned, federation.coordinator.n_classes)
            names = names_of(range(n_planned))
            rows = max(federation.coordinator.n_rows // n_planned, 1)
            note = (
                f"How many classes the label has is not known before the study; the "
                f"plan has {n_planned}, and more would open more numbers. A model with "
                f"a parameter for their names (classes) is planned with those."
            )
            if note not in federation.coordinator.notes:
                federation.coordinator.notes.append(note)
            return names, np.full(n_planned, float(rows))
        counts = peeled(np.rint(cells), salts)
        if counts is not None:
            names = _ordered(list(counts), least)
            return names, np.array([float(counts[tuple(w)]) for w in names.tolist()])
    raise DataError(
        f"The label {federation.label!r} has too many values to be classes. Name a "
        f"label with fewer."
    )


def _counted(
    federation: Federation, names: Int[Array, "c w"]
) -> tuple[Int[Array, "c w"], Float[Array, " c"]]:
    """Return names that were given, with the number of rows of each in all silos."""
    totals = federation.sum(local_class_counts, classes=names)
    count, others = np.rint(totals["count"]), round(float(totals["others"]))
    if others and not federation.coordinator.planned:
        raise DataError(
            f"{others:,} rows of all silos are of other classes than "
            f"{class_values(names).tolist()}. Name every class, or have the silos send "
            f"the names (classes=None)."
        )
    if (count == 0).any():
        empty = class_values(names)[count == 0].tolist()
        raise DataError(f"No silo has a row of the classes {empty}.")
    return names, count


def pooled_class_means(
    federation: Federation, classes: Int[Array, "c w"], count: Float[Array, " c"]
) -> Float[Array, "c p"]:
    """Return the mean of each class; one round.

    Parameters
    ----------
    federation : Federation
        With a label.
    classes : (c, w) array
        Names as words.
    count : (c,) array
        The sizes of the classes, which every silo judges first.
    """
    totals = federation.sum(local_class_totals, classes=classes, count=count)
    return totals["total"] / count[:, None]


def check_label(federation: Federation, y: Any) -> None:
    """Check that y, or nothing, names the label that the silos carry along."""
    if y is None and federation.label is None:
        raise DataError(
            'Name the label column when the federation is made: simulate(..., label="'
            '...").'
        )
    if y not in (None, federation.label):
        raise DataError(
            f"y={y!r} is not the label that the silos carry along, which is "
            f"{federation.label!r}. Name it when the federation is made: "
            f"simulate(..., label={str(y)!r})."
        )


def class_codes(y: Shaped[Array, " n"], classes: Int[Array, "c w"]) -> Int[Array, " n"]:
    """Return the position of each row's class in `classes`; -1 for other classes."""
    position = {tuple(words): k for k, words in enumerate(classes.tolist())}
    labels = _present(y).tolist()
    codes = {value: position.get(_name(value), -1) for value in set(labels)}
    return np.fromiter(map(codes.__getitem__, labels), np.int64, len(labels))


def class_indicators(
    y: Shaped[Array, " n"], classes: Int[Array, "c w"]
) -> Float[Array, "n c"]:
    """Return 1 in the place of each row's class; a row of other classes has zeros."""
    return (class_codes(y, classes)[:, None] == np.arange(len(classes))).astype(float)


def class_sizes(
    codes: Int[Array, " n"], classes: Int[Array, "c w"]
) -> Float[Array, " c"]:
    """Return the number of rows of each class, from what `class_codes` returned."""
    sizes = np.bincount(codes[codes >= 0], minlength=len(classes))
    return sizes.astype(float)


def of_classes(
    X: Float[Array, "n p"], y: Shaped[Array, " n"], classes: Int[Array, "c w"]
) -> tuple[Float[Array, "l p"], Int[Array, " l"]]:
    """Return the rows that are of one of the classes, and the positions of these."""
    codes = class_codes(y, classes)
    named = codes >= 0
    return (X, codes) if named.all() else (X[named], codes[named])


def names_of(classes: Iterable[Any]) -> Int[Array, "c w"]:
    """Return the sorted names of at least two classes, as words."""
    return _ordered([tuple(words_of(value)) for value in classes])


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
    if len(name) > _WORDS * WORD_BYTES:
        raise DataError("A label is too long for a class name.", rule="label_values")
    return as_words(name.ljust(_WORDS * WORD_BYTES, b"\0"))


def _name(value: Any) -> tuple[int, ...]:
    """Return `words_of` a label; empty for one that is too long to name a class."""
    try:
        return tuple(words_of(value))
    except DataError:
        return ()


def places(words: Sequence[int], salts: Int[Array, " c"]) -> list[int]:
    """Return the cells of a name: those whose salts give its smallest hashes."""
    name = as_bytes(words)
    hashes = [
        hashlib.blake2b(name, digest_size=8, salt=int(salt).to_bytes(8)).digest()
        for salt in salts
    ]
    return sorted(range(len(hashes)), key=hashes.__getitem__)[:_PLACES]


def peeled(
    cells: Float[Array, "c 16"], salts: Int[Array, " c"]
) -> dict[tuple[int, ...], int] | None:
    """Return names with their counts; None where cells of several classes remain."""
    counts = names_in(cells, lambda words: places(words, salts), _is_name)
    return counts or None


def _is_name(words: tuple[int, ...]) -> bool:
    try:
        _value(words)
    except (ValueError, OverflowError):
        return False
    return True


def _value(words: Sequence[int]) -> Any:
    name = as_bytes(words).rstrip(b"\0").decode()
    if name[:1] == "t":
        return name[1:]
    if name[:1] != "n":
        raise ValueError("not a name")
    number = float(name[1:])
    return int(name[1:]) if number.is_integer() else number


def _ordered(names: Sequence[tuple[int, ...]], least: int = 2) -> Int[Array, "c w"]:
    by_value = {_value(name): name for name in names}
    if len({isinstance(value, str) for value in by_value}) != 1:
        raise DataError("The label has both numbers and texts; make them one kind.")
    if len(by_value) < least:
        raise DataError(
            f"The label has the single class {next(iter(by_value))!r}; two are needed."
        )
    return np.array([by_value[value] for value in sorted(by_value)], dtype=np.int64)


def _present(y: Shaped[Array, " n"]) -> Shaped[Array, " n"]:
    missing = (
        None in y.tolist()
        if y.dtype.kind == "O"
        else y.dtype.kind == "f" and np.isnan(y).any()
    )
    if missing:
        raise DataError(
            "Rows without a label; leave them out first.", rule="missing_labels"
        )
    return y
