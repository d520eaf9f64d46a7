"""Cost of a first table and of quantiles: rounds, bytes, processor time.

    python benchmarks/describing.py          # everything, writes the table
    python benchmarks/describing.py --quick  # few columns, prints only

Tables are of 60 columns, 20 of them categorical, over four silos in one process;
quantiles of 50 columns over three, from totals and compared in secret, with a real
computing process for each silo. Processor seconds are those of all ends together,
computing processes included.
"""

import argparse
import os
import platform
import resource
import time
from importlib import metadata
from pathlib import Path

import numpy as np
import pandas as pd

import unpooled as up

HERE = Path(__file__).resolve().parent


def hospitals(p: int, categories: int, m: int) -> tuple[dict, list[str]]:
    """Return rows of m silos, 500 each, and the names of their categorical columns."""
    rng = np.random.default_rng(0)
    silos = {}
    for i in range(m):
        measured = np.exp(0.5 * rng.standard_normal((500, p)) + np.arange(p) / 10)
        columns = {f"x{j}": measured[:, j] for j in range(p)}
        columns |= {f"c{j}": rng.integers(0, 4, 500) for j in range(categories)}
        columns["class"] = rng.integers(0, 2, 500)
        silos[f"silo{i}"] = pd.DataFrame(columns).astype(float)
    return silos, [f"c{j}" for j in range(categories)]


def processor_seconds() -> float:
    """Return the processor time of this process and of its ended child processes."""
    used = [
        resource.getrusage(who)
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    ]
    return sum(one.ru_utime + one.ru_stime for one in used)


def cost(model, silos: dict, **options) -> list[str]:
    """Fit twice on new federations; return the cells of the second fit's line."""
    # The first one loads libraries. In secret that is the smallest part.
    for _ in range(1 if getattr(model, "comparison", "") == "mpc" else 2):
        federation = up.simulate(silos, policy={"allow_disclosed": True}, **options)
        before, began = processor_seconds(), time.perf_counter()
        model.fit(federation)
        used = processor_seconds() - before
        seconds = time.perf_counter() - began
    mb = sum(record.bytes_out for record in federation.rounds) / 1e6
    rounds = len({line.round for line in federation.ledger})
    counts = [str(rounds), str(len(federation.rounds))]
    return [*counts, f"{used:.2f}", f"{seconds:.2f}", f"{mb:.2f}"]


def table(p: int, categories: int, q: int) -> str:
    """Measure everything, and return it as a page."""
    silos, names = hospitals(p - categories, categories, 4)
    lines = []
    for what, options in (
        ("Describe by class, without quartiles", {"quartiles": False}),
        ("Describe by class, with quartiles", {}),
        ("Describe by class, per silo", {"quartiles": False, "per_silo": True}),
    ):
        model = up.Describe(categorical=names, **options)
        found = cost(model, silos, label="class")
        lines.append([what, str(p), "4", *found])
    measured, _ = hospitals(q, 0, 3)
    measured = {silo: rows.drop(columns="class") for silo, rows in measured.items()}
    for comparison in ("summed", "mpc"):
        found = cost(up.Quantiles(comparison=comparison), measured)
        lines.append([f'Quantiles, "{comparison}"', str(q), "3", *found])
    versions = {name: metadata.version(name) for name in ("numpy", "mpyc", "gmpy2")}
    head = "what | columns | silos | rounds | exchanges | processor s | elapsed s | MB"
    return "\n".join(
        [
            "# A first table, and quantiles",
            "",
            f"One run of each; {os.cpu_count()} cores, load {os.getloadavg()[1]:.1f} "
            f"over the last five minutes; Python {platform.python_version()}, "
            f"{', '.join(f'{name} {one}' for name, one in versions.items())}. Silos of "
            f"500 rows; {categories} of the tables' columns are categorical. Rounds "
            f"are counted as in a plan; exchanges include those of keys and of steps "
            f"that release nothing. Processor seconds are those of all ends together; "
            f"elapsed seconds are longer where the load is above the number of cores. "
            f"MB are what silos sent.",
            "",
            f"| {head} |",
            "|---|---|---|---|---|---|---|---|",
            *(f"| {' | '.join(cells)} |" for cells in lines),
            "",
            "Aims: tables without quartiles in at most 8 rounds and 2 s, with them in "
            "20 rounds; quantiles from totals in 14 rounds, in secret in 120 rounds "
            "and 60 s.",
            "",
        ]
    )


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    asked = parser.parse_args()
    page = table(6, 2, 2) if asked.quick else table(60, 20, 50)
    print(page)
    if not asked.quick:
        (HERE / "results" / "describing.md").write_text(page)


if __name__ == "__main__":
    main()
