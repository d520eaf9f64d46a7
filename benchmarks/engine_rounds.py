"""Duration of a federation's rounds, compared with the calls of the engine below.

    python benchmarks/engine_rounds.py            # everything, writes the table
    python benchmarks/engine_rounds.py --quick    # once, three silos only; prints only

The benchmark starts real servers and silos on this machine. One job alternates the
engine's own call to all silos, with a reply of a few numbers or of 64 MB, and a masked
sum of as many numbers (policy, masks, signatures, audit log on disk, ledger). Then it
measures the heart study (impute, scale, PCA) from `Study.run` to its result, over three
silos and over eight, and the memory of waiting silos.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import numpy as np
import pyarrow as pa
import pyarrow.parquet

import unpooled as up
from integration.consortium import HEART, Consortium, study_text, surroundings
from unpooled.data.heart_disease import load
from unpooled.federation.nvflare.jobs import COORDINATOR_END, SILO_END, write_job
from unpooled.federation.nvflare.submission import is_over, submission

HERE = Path(__file__).resolve().parent
EIGHT = tuple(f"silo{number}" for number in range(1, 9))


def measured_rounds(consortium: Consortium, small: int, large: int) -> dict:
    """Run the job that measures; return seconds by what was measured."""
    text = study_text("measured", HEART, consortium.silos)
    asked = {"text": text, "small": small, "large": large}
    with tempfile.TemporaryDirectory() as work, submission(consortium.coordinator) as s:
        job = Path(work) / "job"
        write_job(job, "measured", consortium.silos, asked)
        for app, ours, its in (
            ("app_server/config/config_fed_server.json", COORDINATOR_END,
             "MeasuringCoordinator"),
            ("app_party/config/config_fed_client.json", SILO_END, "MeasuredSilo"),
        ):  # fmt: skip
            path = job / app
            text = path.read_text()
            path.write_text(text.replace(ours, f"engine_ends.{its}"))
        number = s._session.submit_job(str(job))
        while True:
            news = s.ask(number, {"since": 0})
            if "size" in news:
                found = s.take(number, int(news["size"]), Path(work))
                return json.loads(found.read_text())
            if is_over(status := s.status(number, 60.0)):
                raise SystemExit(f"the job that measures ended: {status}")
            time.sleep(0.5)


def measured_studies(consortium: Consortium, times: int) -> list[float]:
    """Run the heart study some times; return the seconds of each."""
    seconds = []
    for number in range(times):
        path = consortium.folder / f"heart-{number}.toml"
        path.write_text(study_text(path.stem, HEART, consortium.silos))
        began = time.perf_counter()
        up.Study.from_file(path).run(kit=consortium.coordinator)
        seconds.append(time.perf_counter() - began)
        time.sleep(8)  # until the job's processes have ended
    return seconds


def memory(pid: int) -> float:
    """Return the megabytes that a process has for itself."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    sizes = {line.split(":")[0]: line.split()[1] for line in lines[1:]}
    return (int(sizes["Private_Clean"]) + int(sizes["Private_Dirty"])) / 1024


def eighth(silo: str, folder: Path) -> Path:
    """Write an eighth of all patients, of every hospital."""
    everybody = pa.concat_tables(load().values())
    order = np.random.default_rng(0).permutation(len(everybody))
    rows = np.array_split(order, len(EIGHT))[EIGHT.index(silo)]
    path = folder / "rows.parquet"
    pyarrow.parquet.write_table(everybody.take(rows), path)
    return path


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="once, three silos only")
    quick = parser.parse_args().quick
    with tempfile.TemporaryDirectory() as work:
        three = Consortium(Path(work))
        three.allow("server", "engine_ends.MeasuringCoordinator")
        for silo in three.silos:
            three.allow(silo, "engine_ends.MeasuredSilo")
        paths = os.pathsep.join([str(HERE), surroundings()["PYTHONPATH"]])
        three.environment = {"PYTHONPATH": paths}
        try:
            three.start()
            time.sleep(5)
            idle = [memory(three.processes[silo].pid) for silo in three.silos]
            # Totals of 64 MB are more numbers than any budget allows for 920 rows.
            with three.settled("max_released_share = inf\n", audit="rounds"):
                rounds = measured_rounds(three, *((5, 1) if quick else (200, 7)))
            time.sleep(8)
            print({name: statistics.median(rounds[name]) for name in rounds})
            studies = measured_studies(three, 1 if quick else 5)
            print(studies)
        finally:
            three.stop()
    of_eight = [] if quick else measured_eight()
    text = table(rounds, studies, of_eight, idle)
    print(text)
    if not quick:
        (HERE / "results" / "engine_rounds.md").write_text(text)


def measured_eight() -> list[float]:
    """Return the seconds of heart studies over eight silos."""
    with tempfile.TemporaryDirectory() as work:
        eight = Consortium(Path(work), EIGHT, eighth)
        try:
            eight.start()
            return measured_studies(eight, 3)
        finally:
            eight.stop()


def table(rounds: dict, studies: list, of_eight: list, idle: list) -> str:
    median = {name: statistics.median(values) for name, values in rounds.items()}
    lines = [
        "# Rounds and studies over NVFlare",
        "",
        f"Server, three silos (or eight) and coordinator on one machine with "
        f"{os.cpu_count()} cores, loopback, mutual TLS. Python "
        f"{platform.python_version()}, NVFlare {metadata.version('nvflare')}, numpy "
        f"{np.__version__}. Bare calls and masked sums ran in turn in one job;",
        f"medians of {len(rounds['bare small'])} small and "
        f"{len(rounds['bare large'])} large ones. Load when it ended: "
        f"{os.getloadavg()[0]:.1f}.",
        "",
        "| what | bare call (s) | masked sum (s) | ratio | must be |",
        "|---|---|---|---|---|",
    ]
    for what, size, bare, must in (
        ("small", "27 numbers, as bytes", "bare small", "1.3"),
        ("small", "27 numbers, as an array", "bare small array", "1.3"),
        ("large", "64 MB from each silo", "bare large", "1.5"),
    ):
        ratio = median[f"masked {what}"] / median[bare]
        lines.append(
            f"| {size} | {median[bare]:.4f} | {median[f'masked {what}']:.4f} "
            f"| {ratio:.2f} | <= {must} |"
        )
    lines += [
        "",
        "| heart study, from `Study.run` to its result | seconds (each run) |",
        "|---|---|",
        f"| three silos (must be <= 25) | {_each(studies)} |",
        f"| eight silos | {_each(of_eight)} |",
        "",
        f"A silo that waits has {_each(idle)} MB of its own (three silos).",
        "",
    ]
    return "\n".join(lines)


def _each(values: list) -> str:
    return ", ".join(f"{value:.1f}" for value in values)


if __name__ == "__main__":
    main()
