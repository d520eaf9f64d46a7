"""The silo's end of a job: the one class of ours that a job may name in a silo.

    server ── bytes ──> SiloEnd.answer ─> Party.handle ─> bytes ──> server

A silo allows this class and NVFlare's own executor, and no others.
"""

import logging
from pathlib import Path
from typing import Any, final

from nvflare.collab import collab

from unpooled.federation.following import FollowedPrograms
from unpooled.federation.nvflare.engine_messages import (
    caller,
    load_in_background,
    one_way,
    packed,
    quieten_engine,
    unpacked_piece,
)
from unpooled.party.party import Party
from unpooled.party.setup.silo_file import SiloFile

log = logging.getLogger("unpooled.engine")

# Declares the steps that requests name. By name, since models stand above the
# federation and take a second to load.
LOADED = ("unpooled.models.files.catalogue",)


@final
class SiloEnd:
    """Made by NVFlare in a silo: passes bytes to the silo's `Party` and back.

    No exception may leave its methods: NVFlare would send the traceback, with values
    and paths, to the server.
    """

    def __init__(self) -> None:
        self._party: Party | None = None
        load_in_background(*LOADED)

    @collab.init
    def open(self) -> None:
        """Read the silo's own file and open what it names."""
        quieten_engine()
        try:
            path = collab.workspace.get_file_path_in_site_config("silo.toml")
            party = SiloFile.from_file(Path(str(path))).party(follow=FollowedPrograms())
            party.carry = one_way([collab.server, *collab.other_clients])
            self._party = party
        except BaseException:
            log.exception("The silo cannot open its source, policy, identity or roster")

    @collab.publish
    def answer(self, request: Any) -> Any:
        """Return the reply to one message; empty where the silo could not be opened."""
        try:
            if self._party is None:
                raise RuntimeError("the silo could not be opened")
            return packed(self._party.handle(unpacked_piece(request)))
        except BaseException:
            log.exception("The silo cannot reply")
            return b""

    @collab.publish
    def alive(self) -> bool:
        """Return that this process is there, also while it computes an answer."""
        return True

    @collab.publish
    def carry(self, where: Any, message: Any) -> None:
        """Pass a message from a peer's computing process to this silo's.

        Parameters
        ----------
        where : (str, str)
            Study and session.
        message : bytes
            Sealed by the peer.
        """
        try:
            study, session = where
            if self._party is not None:
                self._party.carried(caller(), (study, session), message)
        except BaseException:
            log.exception("A message between computing processes was refused")
