"""What a running study tells whoever submitted it."""

import base64
import io
import threading
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

from unpooled.federation.planning.plan import Plan
from unpooled.study.job_results import record_of

PART = 2**20  # bytes of results in one answer


@final
class News:
    """What a running study tells whoever submitted it; asked from another thread.

    The results are handed over here too: NVFlare shows a job's own some seconds after
    its end, and minutes after it where a silo was lost.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._plan: dict[str, Any] | None = None
        self._events: list[list[Any]] = []
        self._results: bytes | None = None
        self._taken = threading.Event()

    def planned(self, plan: Plan) -> None:
        """Take the plan."""
        with self._lock:
            self._plan = record_of(plan)

    def arrived(self, party: str, step: str, number: int) -> None:
        """Take the news that a reply has arrived."""
        with self._lock:
            self._events.append([party, step, number])

    def offer(self, results: Path, patience: float) -> None:
        """Hold the results until the submitter has them, or is not there any more."""
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(results.rglob("*")):
                archive.write(path, path.relative_to(results))
        with self._lock:
            self._results = packed.getvalue()
        self._taken.wait(patience)

    def answer(self, asked: Any) -> dict[str, Any]:
        """Answer a submitter: what is new, a part of the results, or his goodbye."""
        asked = asked if isinstance(asked, Mapping) else {}
        if asked.get("taken") is True:
            self._taken.set()
        first = asked.get("since", 0)
        first = first if type(first) is int and first >= 0 else 0
        start = asked.get("part")
        with self._lock:
            told = {"plan": self._plan, "first": first, "events": self._events[first:]}
            if self._results is not None:
                told["size"] = len(self._results)
                if type(start) is int and start >= 0:
                    part = self._results[start : start + PART]
                    return {"part": base64.b64encode(part).decode("ascii")}
            return told
