"""NVFlare's end of connections, which is connected once it has started.

NVFlare sends the first message right after `Cell.start`, some hundredths of a second
before there is a connection. It then waits before it tries again: a second where a
submitter logs in, half of one in every silo's job. Here `start` waits instead.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, final

from nvflare.fuel.f3.cellnet.cell import Cell
from nvflare.fuel.f3.cellnet.fqcn import FQCN

# Seconds: where there is no connection by then, NVFlare tries on in its own way.
_MOST, _PAUSE = 1.0, 0.005


@final
class ConnectedCell(Cell):
    """A cell whose `start` returns when there is a connection, or soon after."""

    def start(self) -> None:
        """Start, and wait for the connection that the first message takes."""
        self.core_cell.start()
        first = FQCN.get_parent(self.core_cell.get_fqcn()) or FQCN.ROOT_SERVER
        until = time.monotonic() + _MOST
        while first not in self.core_cell.agents and time.monotonic() < until:
            time.sleep(_PAUSE)


@contextmanager
def connected_cells(module: Any) -> Iterator[None]:
    """Have a module of NVFlare make such cells.

    Parameters
    ----------
    module : module
        One that has `Cell` among its names.
    """
    before, module.Cell = module.Cell, ConnectedCell
    try:
        yield
    finally:
        module.Cell = before
