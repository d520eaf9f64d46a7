"""Cost and error of components whose scatter is never opened, beside the open form.

    python benchmarks/secret_components.py          # everything, writes the table
    python benchmarks/secret_components.py --quick  # 10 columns, prints only

``PCA(k, open="components")`` over three silos in one process, each with a real
computing process of its own, against ``PCA(k)``. Rows have variances that fall by a
twentieth from one direction to the next. Processor seconds are one silo's, computing
process included: a third of all that the fit took. Every case runs in a process of its
own.
"""

import argparse
import json
import platform
import resource
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

import numpy as np
import scipy.linalg

import unpooled as up

HERE = Path(__file__).resolve().parent
M = 3
# Columns and components.
CASES = [(10, 3), (10, 5), (30, 3), (30, 5), (100, 3), (100, 5)]
QUICK = [(10, 3)]
# Variance of a direction, over that of the one before.
FALL = 0.95


def made_rows(p: int) -> np.ndarray:
    """Return 2,000 rows whose variances fall by a twentieth, in random directions."""
    rng = np.random.default_rng(p)
    turn = np.linalg.qr(rng.standard_normal((p, p)))[0]
    return 10.0 + rng.standard_normal((2000, p)) * FALL ** (np.arange(p) / 2) @ turn


def measured(p: int, k: int, open_: str) -> dict:
    """Fit in this process, and return what it cost and how near it came."""
    X = made_rows(p)
    federation = up.simulate(up.partition_rows(X, M))
    used = time.process_time()
    model = up.PCA(k, open=open_).fit(federation)
    used = time.process_time() - used
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    variance, V = scipy.linalg.eigh(np.cov(X, rowvar=False))
    variance, V = variance[::-1][:k], V[:, ::-1][:, :k]
    along = np.sum(V * model.components_.T, axis=0)
    sines = np.linalg.norm(model.components_.T - V * along, axis=0)
    found = model.explained_variance_
    messages = [
        n.split(" messages")[0].split()[-1] for n in federation.coordinator.notes
    ]
    return {
        "rounds": len({line.round for line in federation.ledger}),
        "messages": int((messages or ["0"])[0].replace(",", "")),
        "opened": up.plan(up.PCA(k, open=open_), federation).numbers,
        "mb": sum(record.bytes_out for record in federation.rounds) / 1e6,
        "cpu": (used + children.ru_utime + children.ru_stime) / M,
        "angle": float(sines.max()),
        "variance": float(np.abs(found / variance - 1.0).max()),
    }


def table(results: list[tuple[int, int, str, dict]]) -> str:
    """Return the results as a Markdown table."""
    lines = [
        "| p | k | opened | numbers opened | rounds | messages between processes | "
        "MB from a silo | processor s of a silo | largest angle | "
        "largest relative error of a variance |",
        "|--:|--:|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for p, k, open_, r in results:
        lines.append(
            f"| {p} | {k} | {open_} | {r['opened']:,.0f} | {r['rounds']} | "
            f"{r['messages']:,} | {r['mb']:.2f} | {r['cpu']:.1f} | "
            f"{r['angle']:.0e} | {r['variance']:.0e} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--case", help="for the script itself")
    options = parser.parse_args()
    if options.case:
        p, k, open_ = json.loads(options.case)
        print(json.dumps(measured(p, k, open_)))
        return
    results = []
    for p, k in QUICK if options.quick else CASES:
        for open_ in ("covariance", "components"):
            command = [sys.executable, __file__, "--case", json.dumps([p, k, open_])]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            results.append((p, k, open_, json.loads(done.stdout)))
            print(table(results[-1:]).splitlines()[-1], flush=True)
    if options.quick:
        return
    about = (
        f"{platform.machine()}, Python {platform.python_version()}, numpy "
        f"{metadata.version('numpy')}, MPyC {metadata.version('mpyc')}; {M} silos and "
        f"their processes on one machine. Time in all depends on the number of cores "
        f"and is not given."
    )
    text = f"# Components of a scatter that is never opened\n\n{about}\n\n"
    (HERE / "results" / "secret_components.md").write_text(f"{text}{table(results)}\n")


if __name__ == "__main__":
    main()
