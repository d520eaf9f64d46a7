"""Both ends of a benchmark job: the engine's own calls, and masked sums.

They are installed at the benchmark's own server and silos only; see engine_rounds.py.
The silos do not follow: what is summed belongs to no study.
"""

import json
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from nvflare.collab import collab

from unpooled.coordinator.coordinator import Coordinator
from unpooled.federation.nvflare.channel import NVFlareChannel
from unpooled.federation.nvflare.engine_messages import packed, unpacked_piece
from unpooled.federation.nvflare.jobs import NEWS
from unpooled.party.setup.silo_file import SiloFile
from unpooled.protocol.step import release, summed
from unpooled.secure.keys.roster import Roster
from unpooled.study.job_messages import News
from unpooled.study.server_job import federation_of
from unpooled.study.study_file import StudyFile

LARGE = 8_000_000  # numbers of eight bytes
SMALL = 27  # numbers: a count, and two for each of 13 columns


class Unit:
    """A bound of one on every total, so that numbers travel in eight bytes."""

    def divide(self, values: Any, public: Any) -> Any:
        return values

    def multiply(self, units: Any, public: Any) -> Any:
        return units


@cache
def numbers(many: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(-0.01, 0.01, many)


@summed(numbers=release(str(SMALL), meaning="made up", bound=Unit()))
def small(X):
    """A payload as of most rounds."""
    return {"numbers": numbers(SMALL)}


@summed(numbers=release(str(LARGE), meaning="made up", bound=Unit()))
def large(X):
    """64 MB up from each silo."""
    return {"numbers": numbers(LARGE)}


class MeasuredSilo:
    """A silo's door, and beside it the engine's bare calls."""

    @collab.init
    def open(self) -> None:
        path = collab.workspace.get_file_path_in_site_config("silo.toml")
        self.party = SiloFile.from_file(Path(str(path))).party()
        numbers(LARGE)

    @collab.publish
    def answer(self, request: Any) -> Any:
        return packed(self.party.handle(unpacked_piece(request)))

    @collab.publish
    def alive(self) -> bool:
        return True

    @collab.publish
    def bare_small(self, request: Any) -> Any:
        return bytes(8 * SMALL)

    @collab.publish
    def bare_array(self, request: Any) -> Any:
        return numbers(SMALL)

    @collab.publish
    def bare_large(self, request: Any) -> Any:
        return numbers(LARGE)


class MeasuringCoordinator:
    """Runs bare calls and masked sums in turn, so that both meet the same machine."""

    def __init__(self, content: str = "") -> None:
        self.asked = json.loads(bytes.fromhex(content))

    @collab.main
    def run(self):
        news, context = News(), collab.fl_ctx
        context.get_engine().register_app_command(
            NEWS, lambda topic, asked, context: news.answer(asked)
        )
        seconds = self.measured(Path(collab.workspace.get_root_dir()))
        results = Path(collab.workspace.get_run_dir(context.get_job_id())) / "unpooled"
        results.mkdir(parents=True, exist_ok=True)
        (results / "outcome.json").write_text(json.dumps(seconds))
        news.offer(results, 60.0)
        return "done"

    def measured(self, kit: Path) -> dict[str, list[float]]:
        study = StudyFile.from_text(Path("measured.toml"), self.asked["text"])
        parties = tuple(study.parties)
        roster = Roster.from_file(kit / "local" / "roster.toml")
        channel = NVFlareChannel(parties, 120.0)
        coordinator = Coordinator(channel, roster, study=study.name)
        federation = federation_of(study, coordinator).select(["age"])

        def bare(method: str) -> None:
            call = getattr(collab.get_clients(list(parties))(timeout=120.0), method)
            replies = list(call(request=b"x" * 500))
            assert len(replies) == len(parties)

        seconds: dict[str, list[float]] = {}

        def timed(name: str, call: Any, *given: Any) -> None:
            began = time.perf_counter()
            call(*given)
            seconds.setdefault(name, []).append(time.perf_counter() - began)

        with federation.fitting():
            federation.sum(small)  # keys are agreed on before the first round
            for _ in range(self.asked["small"]):
                timed("bare small", bare, "bare_small")
                timed("bare small array", bare, "bare_array")
                timed("masked small", federation.sum, small)
            for _ in range(self.asked["large"]):
                timed("bare large", bare, "bare_large")
                timed("masked large", federation.sum, large)
        return seconds
