"""The coordinator's channel over NVFlare.

    submitter ── job: JSON that names our classes ──> server ──> silos
                                 CoordinatorEnd ── bytes ──> SiloEnd ─> Party.handle

A job carries no code. At each end NVFlare makes the one class that the local list of
classes allows (`coordinator_end`, `silo_end`). NVFlare hands over bytes, which the ends
read, sign and check themselves. NVFlare's certificates say who may connect; whose
values enter a total is decided by the identities that the silos pin.
"""

import logging
import queue
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, final

from nvflare.collab import collab

from unpooled.coordinator.channel import Channel
from unpooled.errors import AggregationError
from unpooled.federation.nvflare.engine_messages import one_way, packed, unpacked
from unpooled.protocol.message import Framed

log = logging.getLogger("unpooled.engine")

# Seconds beyond a silo's time limit in which NVFlare itself may report a late reply.
_GRACE = 2.0
# Seconds without a reply after which silos are asked whether they are still there.
_PULSE = 0.5
# NVFlare's kinds of failure: of a silo that is not there, and of a job that is ending,
# which says nothing about a silo.
_SILENT, _ENDING = "TimeoutError", "RunAborted"


@final
class NVFlareChannel(Channel):
    """Calls the silos of the job that this process runs.

    Parameters
    ----------
    parties : sequence of str
        Names of the silos, in the study's order.
    timeout : float
        Seconds that a silo has for a reply.
    """

    def __init__(self, parties: Sequence[str], timeout: float) -> None:
        self.parties = tuple(parties)
        self._timeout = timeout
        self.carry = one_way(list(collab.clients))
        # NVFlare does not give a silo a job back that it lost: further calls would
        # wait in vain.
        self._gone: set[str] = set()

    def exchange(self, requests: Mapping[str, bytes]) -> Iterator[tuple[str, Framed]]:
        """Yield each silo's reply as it arrives; late and lost silos are left out."""
        sent = {name: requests[name] for name in requests if name not in self._gone}
        arrived: queue.SimpleQueue[tuple[str, Framed | None]] = queue.SimpleQueue()
        # One call for all silos that receive the same bytes.
        for data in {id(data): data for data in sent.values()}.values():
            names = [name for name in sent if sent[name] is data]
            call = collab.get_clients(names)(timeout=self._timeout, blocking=False)
            replies = call.answer(request=packed(data))
            threading.Thread(
                target=_pass_on, args=(replies, arrived, names), daemon=True
            ).start()
        # NVFlare's own timeout does not run while it waits for the rest of an array.
        until, waiting = time.monotonic() + self._timeout + _GRACE, set(sent)
        pulse, lost = _Pulse(waiting), set[str]()
        while waiting and (left := until - time.monotonic()) > 0.0:
            try:
                name, reply = arrived.get(timeout=min(left, _PULSE))
            except queue.Empty:
                pulse.feel()
                continue
            waiting.discard(name)
            if reply is None:
                lost.add(name)
            elif not reply:
                raise AggregationError(
                    f"{name} could not open its source, policy, identity, roster or "
                    f"audit log. The reason is in the silo's own log.",
                    # A study that waits for silos waits for this one, too.
                    rule="absent",
                )
            else:
                yield name, reply
        # When the process of one silo's job ends, NVFlare gives up all calls at once;
        # that silo may be one that has replied.
        if collab.is_aborted:
            self.cut_off = frozenset(lost - pulse.silent)
        self._gone |= lost | waiting


@final
class _Pulse:
    """Asks silos whose reply takes long whether their job's process is still there.

    Parameters
    ----------
    waiting : set of str
        The silos that have not replied; whoever waits removes those that have.

    Attributes
    ----------
    silent : set of str
        The silo that did not answer when it was last asked, while others did. Of
        several those that did not answer twice in a row: on a busy machine one that is
        there may take longer than the question.
    """

    def __init__(self, waiting: set[str]) -> None:
        self._waiting, self.silent = waiting, set[str]()
        self._last_silent = set[str]()
        self._asking: threading.Thread | None = None

    def feel(self) -> None:
        """Ask all that have not replied, unless a question is under way."""
        if self._asking is None or not self._asking.is_alive():
            names = sorted(self._waiting)
            # Here and not in the thread, which is outside of NVFlare's context.
            call = collab.get_clients(names)(timeout=2.0 * _PULSE, blocking=False)
            self._asking = threading.Thread(
                target=self._see, args=(call.alive(),), daemon=True
            )
            self._asking.start()

    def _see(self, replies: Any) -> None:
        answered = {name for name, _ in replies}
        causes = {name: why.cause_type for name, why in replies.failures.items()}
        # One of an earlier version has no such method, and is there all the same.
        answered |= {x for x, why in causes.items() if why not in (_SILENT, _ENDING)}
        # Where nobody answers, the job has ended for all of them.
        if answered:
            before = self._last_silent
            silent = {name for name, why in causes.items() if why == _SILENT}
            self.silent = silent if len(silent) == 1 else silent & before
            self._last_silent = silent


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
            arrived.put((name, unpacked(reply)))
        for name, reason in replies.failures.items():
            # The kind alone: the text of a silo's error stays in the silo.
            log.warning("%s did not answer: %s", name, reason.cause_type)
    finally:
        for name in missing:
            arrived.put((name, None))
