"""``unpooled silo desk`` and ``unpooled desk``: pages for people to decide on."""

from pathlib import Path
from typing import Annotated

import typer

from unpooled.cli.registration import folder_option
from unpooled.cli.silo_studies import Kit
from unpooled.cli.terminal import say

Port = Annotated[
    int,
    typer.Option(
        "--port", min=0, max=65535, help="Of this machine; by default a free one."
    ),
]
Socket = Annotated[
    Path | None,
    typer.Option(
        "--socket",
        metavar="FILE",
        help="Listen at a socket of the file system, in place of a port.",
    ),
]
CoordinatorKit = Annotated[
    Path,
    folder_option("--kit", metavar="DIR", help="The coordinator's startup kit."),
]
Runs = Annotated[
    Path,
    folder_option("--runs", metavar="DIR", help="The folder with the runs' folders."),
]


def silo_desk(kit: Kit = Path(), port: Port = 0, socket: Socket = None) -> None:
    """Open this silo's desk: pages for those who decide about studies.

    It listens on this machine only, and one browser opens it by a one-time link.
    """
    from unpooled.desk.serving import need_framework, serve

    need_framework()
    from unpooled.desk.silo_desk import SiloDesk

    serve(SiloDesk(kit).app(), say, port, socket)


def desk(
    kit: CoordinatorKit,
    runs: Runs = Path("runs"),
    port: Port = 0,
    socket: Socket = None,
) -> None:
    """Open the coordinator's desk: silos, studies, progress and results. Read only."""
    from unpooled.desk.serving import need_framework, serve

    need_framework()
    from unpooled.desk.coordinator_desk import CoordinatorDesk

    serve(CoordinatorDesk(kit, runs).app(), say, port, socket)
