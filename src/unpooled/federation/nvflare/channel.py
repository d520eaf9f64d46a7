"""NVFlare carries the messages; what it makes at each end of a job is in this file.

    submitter ── job: JSON that names our classes ──> server ──> silos
                                    CoordinatorEnd ── bytes ──> SiloEnd ─> Party.handle

A job carries no code. At each end NVFlare makes the one class that the local list of
classes allows; what it hands over are bytes, which the ends read, sign and check
themselves. NVFlare's certificates say who may connect; whose values enter a total is
decided by the identities that the silos pin.
"""

import importlib
import json
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, final

import numpy as np
from nvflare.collab import collab

from unpooled.arrays import Array
from unpooled.coordinator.channel import Channel
from unpooled.errors import AggregationError
from unpooled.party.party import Party
from unpooled.party.setup.silo_file import Silo
from unpooled.protocol.message import Bytes, Framed

log = logging.getLogger("unpooled.engine")

# What a submitter asks a running job for.
NEWS = "unpooled.news"
# The job's folder for what the submitter is to get.
RESULTS = "unpooled"
# What stands above the federation is reached by its name only.
_REMOTE, _MODELS, _REPORT = (
    ".".join([__name__.partition(".")[0], name])
    for name in ("study.server_job", "models.files.catalogue", "report.html")
)
# Seconds for the submitter to take the results, if there still is one.
_PATIENCE = 30.0
# Seconds beyond a silo's time in which NVFlare may say itself that it was late.
_GRACE = 2.0
# Up to here bytes travel within the call. NVFlare asks for arrays in calls of their
# own: two more for each message, and the only way for one of gigabytes.
_INLINE = 2**18
# The server's name in calls.
_SERVER = "server"


@final
class NVFlareChannel(Channel):
    """Call the silos of the job that this process runs.

    Parameters
    ----------
    parties : sequence of str
        Names of the silos, in the study's order.
    timeout : float
        Seconds that a silo has for an answer.
    """

    def __init__(self, parties: Sequence[str], timeout: float) -> None:
        self.parties = tuple(parties)
        self._timeout = timeout
        self.carry = _one_way(list(collab.clients))
        # A silo that lost the job does not get it back: asking is waiting in vain.
        self._gone: set[str] = set()

    def exchange(self, requests: Mapping[str, bytes]) -> Iterator[tuple[str, Framed]]:
        """Yield each silo's reply as it arrives; who is late or lost is left out."""
        asked = {name: requests[name] for name in requests if name not in self._gone}
        arrived: queue.SimpleQueue[tuple[str, Framed | None]] = queue.SimpleQueue()
        for data in {id(data): data for data in asked.values()}.values():
            names = [name for name in asked if asked[name] is data]
            call = collab.get_clients(names)(timeout=self._timeout, blocking=False)
            replies = call.answer(request=_packed(data))
            threading.Thread(
                target=_pass_on, args=(replies, arrived, names), daemon=True
            ).start()
        # NVFlare's own timeout does not run while it waits for the rest of an array.
        until, waiting = time.monotonic() + self._timeout + _GRACE, set(asked)
        while waiting:
            try:
                left = max(until - time.monotonic(), 0.0)
                name, reply = arrived.get(timeout=left)
            except queue.Empty:
                break
            waiting.discard(name)
            if reply is None:
                self._gone.add(name)
            elif not reply:
                raise AggregationError(
                    f"{name} could not open its door: its source, policy, identity or "
                    f"roster. The reason is in the silo's own log."
                )
            else:
                yield name, reply
        self._gone |= waiting


def _pass_on(
    replies: Any,
    arrived: "queue.SimpleQueue[tuple[str, Framed | None]]",
    names: Sequence[str],
) -> None:
    """Pass on the replies of a call, and None for each silo that gave none."""
    missing = set(names)
    try:
        for name, reply in replies:
            missing.discard(name)
            arrived.put((name, _framed(reply)))
        for name, reason in replies.failures.items():
            # The kind alone: a silo's own words stay in the silo.
            log.warning("%s did not answer: %s", name, reason.cause_type)
    finally:
        for name in missing:
            arrived.put((name, None))


def _one_way(proxies: Sequence[Any]) -> Callable[[tuple[str, str], str, bytes], None]:
    """Return what sends a message of a study's session to a party's process.

    Nobody waits for an answer, so a round of comparisons takes one latency and not two.
    Such messages may overtake each other, or be lost: the tunnel takes care of that.
    """
    named = {proxy.name: proxy for proxy in proxies}

    def carry(where: tuple[str, str], peer: str, message: bytes) -> None:
        one_way = named[peer or _SERVER](expect_result=False)
        one_way.carry(where=list(where), message=message)

    return carry


def _packed(data: Framed) -> bytes | Array | list[bytes | Array]:
    if isinstance(data, list):
        return [_packed_piece(piece) for piece in data]
    return _packed_piece(data)


def _packed_piece(piece: Bytes) -> bytes | Array:
    return bytes(piece) if len(piece) <= _INLINE else np.frombuffer(piece, np.uint8)


def _framed(message: Any) -> Framed:
    if isinstance(message, list):
        return [_unpacked(piece) for piece in message]
    return _unpacked(message)


def _unpacked(piece: Any) -> Bytes:
    return piece if isinstance(piece, bytes) else np.asarray(piece).data


@final
class SiloEnd:
    """What NVFlare makes in a silo: the door of its party, and nothing else."""

    def __init__(self) -> None:
        self._party: Party | None = None
        _load_meanwhile(_MODELS)

    @collab.init
    def open(self) -> None:
        """Read the silo's own file and open what it names."""
        _quieten()
        try:
            path = collab.workspace.get_file_path_in_site_config("silo.toml")
            party = Silo.from_file(Path(str(path))).party()
            party.carry = _one_way([collab.server, *collab.other_clients])
            self._party = party
        except BaseException:
            # NVFlare would send the traceback, with values and paths, to the server.
            log.exception("The silo cannot open its door")

    @collab.publish
    def answer(self, request: Any) -> Any:
        """Answer one message; an empty reply says that there is no door."""
        try:
            if self._party is None:
                raise RuntimeError("the silo could not open its door")
            return _packed(self._party.handle(_unpacked(request)))
        except BaseException:
            log.exception("The silo's door failed")
            return b""

    @collab.publish
    def carry(self, where: Any, message: Any) -> None:
        """Take a message from a peer's computing process to this one's."""
        try:
            study, session = where
            if self._party is not None:
                self._party.carried(_caller(), (study, session), message)
        except BaseException:
            log.exception("A message between computing processes was refused")


@final
class CoordinatorEnd:
    """What NVFlare makes in the server: runs one study to its end.

    Parameters
    ----------
    content : str
        What is asked, as hexadecimal JSON: see `unpooled.federation.nvflare.jobs`.
    """

    def __init__(self, content: str = "") -> None:
        self._content = content
        self._channel: NVFlareChannel | None = None
        _load_meanwhile(_REMOTE, _MODELS, _REPORT)

    @collab.main
    def run(self) -> str:
        """Run what is asked; its outcome, good or bad, goes into the job's results."""
        _quieten()
        remote = importlib.import_module(_REMOTE)
        workspace, context = collab.workspace, collab.fl_ctx
        news = remote.News()
        context.get_engine().register_app_command(
            NEWS, lambda topic, asked, context: news.answer(asked)
        )
        results = Path(workspace.get_run_dir(context.get_job_id())) / RESULTS
        remote.coordinate(
            json.loads(bytes.fromhex(self._content)),
            self._open,
            kit=Path(workspace.get_root_dir()),
            results=results,
            news=news,
        )
        news.offer(results, _PATIENCE)
        return "done"

    @collab.publish
    def carry(self, where: Any, message: Any) -> None:
        """Take a message to the coordinator's own computing process, if it has one."""
        try:
            study, session = where
            if self._channel is not None and self._channel.deliver is not None:
                self._channel.deliver(_caller(), (study, session), message)
        except BaseException:
            log.exception("A message between computing processes was refused")

    def _open(self, parties: tuple[str, ...], timeout: float) -> NVFlareChannel:
        self._channel = NVFlareChannel(parties, timeout)
        return self._channel


def _caller() -> str:
    """Return whom NVFlare's certificates say a call is from; empty for the server."""
    caller = str(collab.caller)
    return "" if caller == _SERVER else caller


def _load_meanwhile(*modules: str) -> None:
    """Load what the first rounds need while NVFlare still gathers the silos."""

    def load() -> None:
        try:
            for name in modules:
                importlib.import_module(name)
        except Exception:
            # Whoever needs it will meet the same error, and say it where it is heard.
            log.warning("Not loaded in advance", exc_info=True)

    threading.Thread(target=load, daemon=True).start()


def _quieten() -> None:
    # Two lines per call otherwise.
    logging.getLogger("nvflare.collab").setLevel(logging.WARNING)
    logging.getLogger("unpooled").setLevel(logging.INFO)
