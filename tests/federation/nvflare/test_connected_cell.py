import importlib
import subprocess
import sys
import types
from contextlib import contextmanager

import pytest

pytest.importorskip("nvflare")

from nvflare.fuel.f3.cellnet.cell import Cell

from integration.consortium import free_ports
from unpooled.federation.nvflare.connected_cell import ConnectedCell, connected_cells

# Each in a process of its own: cells of one process reach each other without any
# connection, and leave threads behind.
SERVER = """
import sys
from nvflare.fuel.f3.cellnet.cell import Cell
cell = Cell("server", f"tcp://localhost:{sys.argv[1]}", False, {})
cell.start()
print("started", flush=True)
sys.stdin.read()
"""
SITE = """
import os, sys
from unpooled.federation.nvflare import connected_cell
connected_cell._MOST = float(sys.argv[2])
cell = connected_cell.ConnectedCell("site", f"tcp://localhost:{sys.argv[1]}", False, {})
cell.start()
print(*cell.core_cell.agents, flush=True)
os._exit(0)
"""


@contextmanager
def running(program, *arguments):
    command = [sys.executable, "-c", program, *map(str, arguments)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.kill()


@pytest.mark.slow
def test_a_cell_that_has_started_has_a_path_for_the_first_message():
    (port,) = free_ports(1)

    with running(SERVER, port) as said:
        assert said == "started"
        with running(SITE, port, 60.0) as agents:
            assert agents == "server"


@pytest.mark.slow
def test_a_cell_without_a_server_starts_all_the_same():
    with running(SITE, *free_ports(1), 0.05) as agents:
        assert agents == ""


@pytest.mark.parametrize(
    "name",
    ["nvflare.fuel.hci.client.api", "nvflare.private.fed.client.fed_client_base"],
)
def test_modules_of_nvflare_make_their_cells_by_this_name(name):
    module = importlib.import_module(name)

    with connected_cells(module):
        assert module.Cell is ConnectedCell
    assert module.Cell is Cell


def test_the_name_is_restored_after_an_error():
    module = types.SimpleNamespace(Cell=Cell)

    with pytest.raises(ValueError, match="wrong"), connected_cells(module):
        raise ValueError("wrong")
    assert module.Cell is Cell
