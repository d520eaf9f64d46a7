"""A server in the wrong hands: what a test says reaches the silos' doors as it is.

    test ── command to a job ──> server's job ── NVFlare ──> SiloEnd ── Party.handle

Between organisations the coordinator runs in the server, so whoever has the server is
the adversary. Everything in the silos is what runs in any study.
"""

import base64
import contextlib
import itertools
import json
import queue
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from nvflare.collab import collab
from nvflare.fuel.flare_api.api_spec import NoConnection, NoReply

from integration.consortium import Consortium, wait_for
from unpooled.coordinator.channel import Channel
from unpooled.federation.nvflare.channel import NVFlareChannel
from unpooled.federation.nvflare.jobs import COORDINATOR_END, SERVER_CONFIG, write_job
from unpooled.federation.nvflare.submission import is_over, submission
from unpooled.protocol.message import decode, encode, joined

ASK = "tests.ask"
PATIENCE = 240.0


class CapturedServer:
    """Runs in the server, where the coordinator of a study would."""

    def __init__(self, content: str = "") -> None:
        self._parties = json.loads(bytes.fromhex(content))["parties"]
        self._asked = queue.SimpleQueue()
        self._said, self._answered = {}, threading.Event()
        self._latest = -1

    @collab.main
    def run(self) -> str:
        engine = collab.fl_ctx.get_engine()
        engine.register_app_command(ASK, lambda topic, asked, context: self._ask(asked))
        channel = NVFlareChannel(self._parties, PATIENCE)
        # Only this thread may call silos.
        while asked := self._asked.get(timeout=5 * PATIENCE):
            # Zeros that the test need not send here.
            zeros = bytes(asked["zeros"])
            requests = {
                party: base64.b64decode(text) + zeros
                for party, text in asked["requests"].items()
            }
            texts = {
                party: base64.b64encode(joined(reply)).decode()
                for party, reply in channel.exchange(requests)
            }
            self._said = {"number": asked["number"], "replies": texts}
            self._answered.set()
        return "done"

    def _ask(self, asked: Mapping) -> dict:
        what = asked["asked"]
        number = what["number"] if what else self._latest + 1
        if number > self._latest:
            self._latest = number
            self._answered.clear()
            self._asked.put(what)
        # A command has five seconds; an answer may take longer, and be asked for again.
        self._answered.wait(2.0)
        return self._said


class Doors(Channel):
    """The silos' doors, as whoever has the server finds them."""

    def __init__(self, parties: Sequence[str], roster, tell) -> None:
        self.parties, self.roster, self._tell = tuple(parties), roster, tell
        self._numbers = itertools.count()

    def answers(
        self, requests: Mapping[str, bytes], zeros: int = 0
    ) -> dict[str, bytes]:
        """Knock at doors; return what they say."""
        texts = {party: base64.b64encode(r).decode() for party, r in requests.items()}
        number = next(self._numbers)
        asked = {"number": number, "requests": texts, "zeros": zeros}
        told, until = {}, time.monotonic() + PATIENCE
        while told.get("number") != number:
            assert time.monotonic() < until, "the silos do not answer"
            # A job that starts, or moves gigabytes, is late, and may have lost the
            # command: a number is asked once, however often it is sent.
            with contextlib.suppress(NoConnection, NoReply):
                told = self._tell({"asked": asked})
        return {p: base64.b64decode(text) for p, text in told["replies"].items()}

    def exchange(self, requests: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
        yield from self.answers(requests).items()


@contextlib.contextmanager
def captured(
    consortium: Consortium, parties: Sequence[str] | None = None
) -> Iterator[Doors]:
    """Hold a job in which the test says what the silos are asked."""
    parties = tuple(parties or consortium.silos)
    own = f"{CapturedServer.__module__}.{CapturedServer.__name__}"
    with (
        tempfile.TemporaryDirectory() as work,
        submission(consortium.coordinator) as session,
    ):
        folder = Path(work) / "captured"
        write_job(folder, "captured", parties, {"parties": parties})
        config = folder / "app_server" / "config" / SERVER_CONFIG
        config.write_text(config.read_text().replace(COORDINATOR_END, own))
        job = str(session._session.submit_job(str(folder)))

        def tell(asked: Mapping) -> dict:
            return dict(session._session.do_app_command(job, ASK, dict(asked)))

        doors = Doors(parties, consortium.roster(), tell)
        try:
            wait_for(lambda: _runs(session, job, doors), pause=0.1)
            yield doors
        finally:
            with contextlib.suppress(Exception):
                tell({"asked": None})
            wait_for(lambda: is_over(session.status(job, PATIENCE)), pause=0.1)


def _runs(session, job: str, doors: Doors) -> bool:
    if session.status(job, PATIENCE) != "RUNNING":
        return False
    described = doors.answers(
        dict.fromkeys(doors.parties, encode({"kind": "describe"}, {}))
    )
    return all(decode(reply).header["party"] == p for p, reply in described.items())
