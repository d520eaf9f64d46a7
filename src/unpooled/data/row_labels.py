"""Frames of the same people, put in one order by the labels of their rows.

On a column partition without ids, row i of every silo is about the same person. Pandas
frames label their rows: where the labels say otherwise, they are followed.
"""

from collections.abc import Mapping
from typing import Any

from unpooled.errors import DataError


def aligned_by_label(parties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sources, pandas frames with their rows in the order of the first.

    Frames whose rows are only numbered 0, 1, ... have no labels, and keep their order.

    Parameters
    ----------
    parties : mapping of str to source
        The source of each party; those that are no pandas frames are returned as given.

    Raises
    ------
    DataError
        When two frames have other labels, or the same in another order and some twice.
    """
    frames = {name: source for name, source in parties.items() if _has_labels(source)}
    if len(frames) < 2:
        return dict(parties)
    # One with labels of its own, if there is any.
    first = next((n for n, f in frames.items() if not _only_numbered(f)), None)
    if first is None:
        return dict(parties)
    # The order of the first party of all, where it has the same labels.
    leading = next(iter(frames))
    order = frames[leading].index if _same_labels(frames, leading, first) else None
    order = frames[first].index if order is None else order
    found = dict(parties)
    for name, frame in frames.items():
        if frame.index.equals(order):
            continue
        same = len(frame) == len(order) and frame.index.is_unique and order.is_unique
        places = frame.index.get_indexer(order) if same else None
        if places is not None and (places >= 0).all():
            found[name] = frame.iloc[places]
        elif not _only_numbered(frame):
            raise DataError(
                f"The rows of {name} are not labelled as those of {first} (the index "
                f"of the frames): they would be joined by their places. Give both the "
                f"same labels, each once; or name a column of ids; or drop the labels "
                f"where the order is the same: frame.reset_index(drop=True)."
            )
    return found


def _has_labels(source: Any) -> bool:
    return hasattr(source, "iloc") and hasattr(
        getattr(source, "index", None), "get_indexer"
    )


def _only_numbered(frame: Any) -> bool:
    index = frame.index
    return (type(index).__name__, getattr(index, "start", None)) == ("RangeIndex", 0)


def _same_labels(frames: Mapping[str, Any], one: str, other: str) -> bool:
    a, b = frames[one].index, frames[other].index
    return len(a) == len(b) and a.is_unique and bool(a.isin(b).all())
