"""Dask collections: a silo whose rows lie on a cluster of its own.

    party ── work on one part ──> workers, each on the parts that it holds
    party <── the sum over all parts, added on the cluster ──

Rows stay on the workers. Party and cluster communicate by Dask, inside the silo; none
of these messages leaves the silo.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, final

import numpy as np

from unpooled.arrays import Array
from unpooled.data.columns import Roles
from unpooled.data.row_blocks import Block
from unpooled.data.sources.frames import FrameTable
from unpooled.data.table import ArrayTable, SlicedTable, Table
from unpooled.errors import DataError

Totals = dict[str, Array]
Work = Callable[[Table], Totals]
SCHEMES = {"dask": "tcp", "dask+tls": "tls"}
# Number of results that one task adds; few, so that they are added where they are.
_ADDED_AT_ONCE = 8


@final
class ClusterTable(SlicedTable):
    """A Dask DataFrame, or a two-dimensional Dask array.

    Parameters
    ----------
    collection : dask.dataframe.DataFrame or dask.array.Array
        It is computed in every pass: persist it on the cluster if that is costly.
    roles : Roles
        The label, the ids, and the only feature columns wanted.
    client : distributed.Client, optional
        Client of the cluster that computes; by default that of this process, or its own
        threads if there is none.
    """

    def __init__(self, collection: Any, roles: Roles, client: Any = None) -> None:
        self.named = hasattr(collection, "to_delayed") and hasattr(collection, "dtypes")
        names = _names(collection, self.named)
        self.columns = roles.features(names, "The Dask collection")
        roles = roles.beside(self.columns)
        self.label, self.ids, self._client = roles.label, roles.ids, client
        self.also = roles.also
        self._roles = replace(roles, columns=self.columns, exclude=())
        parts = _parts(collection, self.named, [*self.columns, *roles.others])
        sizes = self._compute([_later(_size)(part, self._roles) for part in parts])
        self._sizes = [size for size in sizes if size]
        self._parts = [part for part, n in zip(parts, sizes, strict=True) if n]
        if not self._parts:
            raise DataError(
                "The Dask collection has no rows. Leave a silo without data out of the "
                "study."
            )

    @property
    def n_rows(self) -> int:
        """Number of rows when the collection was opened."""
        return sum(self._sizes)

    def _blocks(
        self, columns: list[str], extra: list[str], rows: int
    ) -> Iterator[Block]:
        """Fetch one part after another, for steps that need ordered rows.

        Every part ends a block.
        """
        start = 0
        for part, size in zip(self._parts, self._sizes, strict=True):
            (rows_of_part,) = self._compute([part])
            table = _table(rows_of_part, self._roles)
            if table.n_rows != size:
                raise DataError(
                    "A part of the Dask collection changed since it was opened, so "
                    "passes over it would see different rows. Open it again.",
                    rule="source_changed",
                )
            for block in table.blocks(columns, extra, rows):
                yield replace(block, start=start + block.start)
            start += size

    def over_parts(self, work: Work) -> Totals:
        """Apply additive work on the cluster; see `Table.over_parts`."""
        done = [_later(_worked)(part, self._roles, work) for part in self._parts]
        while len(done) > 1:
            done = [
                _later(_added)(done[i : i + _ADDED_AT_ONCE])
                for i in range(0, len(done), _ADDED_AT_ONCE)
            ]
        return self._compute(done)[0]

    def _compute(self, tasks: list[Any]) -> Any:
        if self._client is not None:
            return self._client.gather(self._client.compute(tasks))
        from dask.base import compute

        return compute(*tasks)


def open_cluster(address: str, roles: Roles) -> ClusterTable:
    """Open a data set that is published on a cluster.

    Parameters
    ----------
    address : str
        ``dask://scheduler:8786/name``, or ``dask+tls://...`` with the certificates that
        Dask's own configuration names.
    roles : Roles
        As of `ClusterTable`.
    """
    scheme, _, rest = address.partition("://")
    place, _, name = rest.partition("/")
    try:
        from distributed import Client
    except ImportError as missing:
        raise DataError(_INSTALL) from missing
    if not place or not name:
        raise DataError(
            f"The address {address} names no data set. Write "
            f"dask://scheduler:8786/name for what client.publish_dataset published."
        )
    client = None
    try:
        client = Client(
            f"{SCHEMES[scheme]}://{place}", timeout=30, set_as_default=False
        )
        with client.as_current():
            collection = client.get_dataset(name)
    except (OSError, KeyError) as wrong:
        if client is not None:
            client.close()
        raise DataError(
            f"Data set {name!r} cannot be read from the Dask scheduler at {place}: "
            f"{wrong}. Check that it runs, and that the data set is published there."
        ) from wrong
    return ClusterTable(collection, roles, client)


_INSTALL = (
    "Dask, which reads collections of a cluster, is not installed. Install it with: "
    'pip install "unpooled[dask]"'
)


def _names(collection: Any, named: bool) -> list[str]:
    if named:
        return [str(name) for name in collection.columns]
    if getattr(collection, "ndim", 0) != 2:
        raise DataError("A Dask source must be a DataFrame or a two-dimensional array.")
    return [f"x{j}" for j in range(collection.shape[1])]


def _parts(collection: Any, named: bool, wanted: Sequence[str]) -> list[Any]:
    if named:
        # Columns that are not requested are not read.
        return list(collection[list(wanted)].to_delayed())
    whole_rows = collection.rechunk({1: -1})
    return list(np.ravel(whole_rows.to_delayed()))


def _later(function: Callable[..., Any]) -> Any:
    from dask.delayed import delayed

    return delayed(function, pure=False, traverse=False)


def _table(part: Any, roles: Roles) -> Table:
    is_array = isinstance(part, np.ndarray) or hasattr(part, "tocsr")
    return (ArrayTable if is_array else FrameTable)(part, roles)


def _size(part: Any, roles: Roles) -> int:
    n_rows = int(part.shape[0])
    # Opening a part checks that its columns are numbers.
    return _table(part, roles).n_rows if n_rows else 0


def _worked(part: Any, roles: Roles, work: Work) -> Totals:
    return work(_table(part, roles))


def _added(parts: Sequence[Totals]) -> Totals:
    # np.sum returns a scalar, not an array, for single numbers.
    return {
        name: np.asarray(np.sum([part[name] for part in parts], axis=0))
        for name in parts[0]
    }
