"""Memory and disk of a federation over many studies in a row, and one of many silos.

    python benchmarks/many_studies.py    # 60 studies of 3 silos: 20 minutes
    python benchmarks/many_studies.py --studies 1 --silos 16
    python benchmarks/many_studies.py --quick    # one study, no waiting

Real servers and silos on this machine run the heart study (impute, scale, PCA) again
and again, each time as a study of its own. After every ten it waits, then prints the
resident memory of the server, of its process that stands by and of each silo, and the
size of their kits; in the end what `unpooled prune` leaves.
"""

import argparse
import platform
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import numpy as np
import pyarrow as pa
import pyarrow.parquet

import unpooled as up
from integration.consortium import HEART, Consortium, study_text
from unpooled.data.heart_disease import load
from unpooled.federation.nvflare.housekeeping import prune

# Of the first studies modules and buffers stay, which later ones use again.
WARM = 10
# The engine keeps a message for a minute after it arrived, and what a job left is freed
# after that: right after a study memory tells how fast the last ones were.
REST = 75.0


def write_part(silo: str, folder: Path) -> Path:
    """Write a silo's share of all patients, of every hospital."""
    number, _, of_all = silo.removeprefix("silo").partition("of")
    everybody = pa.concat_tables(load().values())
    order = np.random.default_rng(0).permutation(len(everybody))
    rows = np.array_split(order, int(of_all))[int(number) - 1]
    path = folder / "rows.parquet"
    pyarrow.parquet.write_table(everybody.take(rows), path)
    return path


def resident(pid: int) -> float:
    """Return a process's resident memory in megabytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1024


def disk(kit: Path) -> float:
    """Return the size of a kit's files in megabytes."""
    return sum(p.stat().st_size for p in kit.rglob("*") if p.is_file()) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--studies", type=int, default=60)
    parser.add_argument("--silos", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one study, no waiting")
    asked = parser.parse_args()
    studies, rest = (1, 0.0) if asked.quick else (asked.studies, REST)
    silos = tuple(f"silo{n + 1}of{asked.silos}" for n in range(asked.silos))
    with tempfile.TemporaryDirectory() as work:
        made = Consortium(Path(work), silos, write_part)
        try:
            began = time.perf_counter()
            made.start()
            print(f"Python {platform.python_version()}, {len(silos)} silos, "
                  f"connected after {time.perf_counter() - began:.1f} s")  # fmt: skip
            print("study seconds  MB of server, its standby, silos | MB of kits")
            seconds, sizes = list[float](), dict[int, list[float]]()
            for number in range(1, studies + 1):
                path = made.folder / f"study-{number}.toml"
                text = study_text(path.stem, HEART, silos).replace("= 30", "= 120")
                path.write_text(f"{text}[outputs]\nreport = false\n")
                began = time.perf_counter()
                done = up.Study.from_file(path).run(kit=made.coordinator)
                seconds.append(time.perf_counter() - began)
                assert done.ledger.verify()
                if number == 1 or number % WARM == 0:
                    time.sleep(rest)
                    pids = [made.processes[n].pid for n in ("server", *silos)]
                    pids[1:1] = made.standby("server")
                    sizes[number] = [resident(pid) for pid in pids]
                    shown = " ".join(f"{size:.1f}" for size in sizes[number])
                    kits = disk(made.server), disk(made.kit(silos[0]))
                    print(f"{number:5} {seconds[-1]:7.1f}  {shown} | "
                          f"{kits[0]:.1f} {kits[1]:.1f}", flush=True)  # fmt: skip
            print(f"a study, median: {statistics.median(seconds):.1f} s")
            if len(sizes) > 2:
                growth = np.divide(sizes[max(sizes)], sizes[WARM]) - 1.0
                print(f"growth since study {WARM}:",
                      " ".join(f"{100 * g:+.1f} %" for g in growth))  # fmt: skip
            for name in ("server", silos[0]):
                before = disk(made.kit(name))
                deleted = prune(made.kit(name), 0.0)
                print(f"prune of {name}: {deleted.folders} folders, {before:.1f} -> "
                      f"{disk(made.kit(name)):.1f} MB")  # fmt: skip
        finally:
            made.stop()


if __name__ == "__main__":
    main()
