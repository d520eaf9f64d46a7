"""Cost of finding Yeo-Johnson's exponents: rounds, bytes, seconds, processor time.

    python benchmarks/power.py                    # everything, writes the table
    python benchmarks/power.py --quick            # small and coarse, prints only
    python benchmarks/power.py --only simulation  # or network, or large

"simulation" has three silos in one process, with a real computing process for each;
"network" a real server and three silos on this machine, the processes' streams carried
by the relay; "large" Parquet files of a million rows for each silo. Every case runs in
a process of its own.

Processor seconds are one party's, its computing process included. In a simulation they
are a third of all that the fit took, the coordinator's small part among it; over the
network those of a silo's job, in which NVFlare's own start counts too.
"""

import argparse
import contextlib
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from sklearn.datasets import load_breast_cancer

import unpooled as up

HERE = Path(__file__).resolve().parent
SILOS = ("cleveland", "hungary", "va")
# (case, features, comparison, rows of a silo or None for breast_cancer)
CASES = [
    ("simulation", 1, "mpc", None),
    ("simulation", 30, "mpc", None),
    ("simulation", 1, "summed", None),
    ("simulation", 30, "summed", None),
    ("network", 1, "mpc", None),
    ("network", 30, "mpc", None),
    ("network", 30, "summed", None),
    ("large", 1, "summed", 10**6),
    ("large", 5, "summed", 10**6),
    ("large", 1, "mpc", 10**6),
    ("large", 5, "mpc", 10**6),
]
QUICK = [
    ("simulation", 1, "mpc", None),
    ("large", 1, "summed", 10**4),
]


def write_rows(folder: Path, d: int, rows: int | None) -> dict[str, str]:
    """Write each silo's rows as Parquet; return the files' paths."""
    paths = {}
    for number, silo in enumerate(SILOS):
        if rows is None:
            X = np.array_split(load_breast_cancer().data[:, :d], len(SILOS))[number]
        else:
            rng = np.random.default_rng(number)
            X = np.exp(rng.standard_normal((rows, d)) * 0.5 + np.arange(d) + 1.0)
        columns = {f"x{j:02}": X[:, j] for j in range(d)}
        paths[silo] = str(folder / f"{silo}.parquet")
        pa.parquet.write_table(pa.table(columns), paths[silo], row_group_size=2**17)
    return paths


def simulated(d: int, mode: str, rows: int | None, tol: float) -> dict:
    """Fit in this process, and return what it cost."""
    with tempfile.TemporaryDirectory() as folder:
        federation = up.simulate(write_rows(Path(folder), d, rows))
        began, used = time.perf_counter(), time.process_time()
        model = up.PowerTransformer(comparison=mode, tol=tol).fit(federation)
        seconds, used = time.perf_counter() - began, time.process_time() - used
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "rounds": len({line.round for line in federation.ledger}),
        "batches": model.n_iter_,
        "seconds": seconds,
        "mb": sum(record.bytes_out for record in federation.rounds) / 1e6,
        "cpu": (used + children.ru_utime + children.ru_stime) / len(SILOS),
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def over_a_network(d: int, mode: str, tol: float) -> dict:
    """Fit over a server and silos of this machine, and return what it cost."""
    from integration.consortium import Consortium, study_text

    step = (
        f'[[steps]]\nmodel = "PowerTransformer"\ncomparison = "{mode}"\ntol = {tol}\n'
    )
    with tempfile.TemporaryDirectory() as folder:
        paths = write_rows(Path(folder), d, None)
        consortium = Consortium(
            Path(folder), SILOS, lambda silo, local: Path(paths[silo])
        )
        for silo in SILOS:
            file = consortium.kit(silo) / "local" / "silo.toml"
            file.write_text(file.read_text().replace('label = "num"\n', ""))
        text = study_text("power", step, SILOS).replace('label = "num"\n', "")
        path = Path(folder) / "power.toml"
        path.write_text(text.replace("timeout = 30", "timeout = 600"))
        try:
            consortium.start()
            began = time.perf_counter()
            with processor_seconds(consortium) as used:
                done = up.Study.from_file(path).run(kit=consortium.coordinator)
            whole = time.perf_counter() - began
        finally:
            consortium.stop()
    return {
        "rounds": len({line.round for line in done.ledger}),
        "batches": done.models["powertransformer"].n_iter_,
        # From keys to the last total; the job's start and end are in "whole".
        "seconds": sum(record.seconds for record in done.rounds),
        "whole": whole,
        "mb": sum(record.bytes_out for record in done.rounds) / 1e6,
        "cpu": max(used.values()),
    }


@contextlib.contextmanager
def processor_seconds(consortium) -> Iterator[dict[str, float]]:
    """Sample the processor time of silos' jobs and computing processes; maxima by silo.

    A job's own account takes in its computing process when that has ended.
    """
    from integration.computing import processes

    used, over = dict.fromkeys(SILOS, 0.0), threading.Event()

    def watch() -> None:
        while not over.wait(0.5):
            for silo in SILOS:
                ticks = sum(map(_ticks, consortium.jobs(silo)))
                ticks += sum(map(_ticks, processes(consortium, silo)))
                used[silo] = max(used[silo], ticks / os.sysconf("SC_CLK_TCK"))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield used
    finally:
        over.set()
        watcher.join()


def _ticks(pid: int) -> int:
    """Return what a process and its children that ended have used; see proc(5)."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15]))
    return 0


def measured(case: tuple) -> dict:
    """Run a case in a process of its own."""
    command = [sys.executable, __file__, "--child", json.dumps(case)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{case} failed:\n{done.stderr[-4000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def child(where: str, d: int, mode: str, rows: int | None, tol: float) -> None:
    """Print what a case cost."""
    if where == "network":
        print(json.dumps(over_a_network(d, mode, tol)))
    else:
        print(json.dumps(simulated(d, mode, rows, tol)))


def table(found: list[tuple[tuple, dict]], tol: float) -> str:
    """Return the results as Markdown."""
    versions = ", ".join(
        f"{name} {metadata.version(name)}"
        for name in ("numpy", "mpyc", "gmpy2", "nvflare", "scikit-learn")
    )
    lines = [
        "# Exponents of Yeo-Johnson over three silos",
        "",
        f"One run of each; {os.cpu_count()} cores, load "
        f"{os.getloadavg()[1]:.1f} over the last five minutes; Python "
        f"{platform.python_version()}, {versions}. Tolerance {tol:.1e}.",
        "",
        "Simulation and network: breast_cancer, 569 rows. Seconds are those of the "
        "fit, the start of the computing processes and their self-test included; over "
        "the network a job's start and end come on top (whole).",
        "",
        "| where | features | rows a silo | comparison | rounds | batches | seconds | "
        "whole | MB a party sends | processor seconds a party | peak MB |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for (where, d, mode, rows), cost in found:
        cells = [where, str(d), f"{rows:,}" if rows else "190", mode]
        cells += [str(cost["rounds"]), str(cost["batches"]), f"{cost['seconds']:.1f}"]
        cells += [f"{cost['whole']:.1f}" if "whole" in cost else ""]
        cells += [f"{cost['mb']:.2f}"]
        cells += [f"{cost['cpu']:.1f}"]
        cells += [f"{cost['peak']:.0f}" if "peak" in cost else ""]
        lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        "Aims: at most 100 rounds and 20 s for thirty features compared in secret, the "
        "reference's rounds included.",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=("simulation", "network", "large"))
    parser.add_argument("--child")
    asked = parser.parse_args()
    tol = 2.0**-5 if asked.quick else 2.0**-27
    if asked.child:
        child(*json.loads(asked.child))
        return
    found = []
    for case in QUICK if asked.quick else CASES:
        if asked.only in (None, case[0]):
            found.append((case, measured((*case, tol))))
            print(found[-1], flush=True)
    print(table(found, tol))
    if not asked.quick and asked.only is None:
        (HERE / "results" / "power.md").write_text(table(found, tol))


if __name__ == "__main__":
    main()
