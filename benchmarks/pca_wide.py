"""PCA of 200,000 columns over five silos, each in a process of its own.

    python benchmarks/pca_wide.py                    # 3,000 x 200,000, writes the table
    python benchmarks/pca_wide.py --quick            # 900 x 5,000, prints only

Every silo is a process that opens its own file, a memory-mapped `.npy` or a sparse
`.npz`, and answers messages over a socket; the coordinator is another process. Peak
memory is the operating system's figure for each process (VmHWM), mapped pages included.
The answer is compared with scikit-learn's arpack solver on the same rows, dense or
sparse.
"""

import argparse
import json
import multiprocessing
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import scipy.sparse

N_SILOS, K = 5, 10
SOURCES = {"dense": ".npy", "sparse": ".npz"}
# Written by hand, from profiles of both ends.
PROFILE = """
## Where the processor time goes

600 × 200,000 dense, so few rows that the rest shows; seven blocks, processor seconds.

| | a silo | the coordinator |
|---|---|---|
| products with the rows, or orthogonalisation | 1.1 | 2.1 |
| names of columns: in requests, for rules and the log | 0.9 | 0.3 |
| digests of messages | 0.5 | 0.3 |
| masks, code and bounds | 0.4 | 0.9 |
| the benchmark's pipe | 0.2 | 1.7 |
| all | 4.1 | 7.3 |
| all, with two threads of BLAS for products with the mean | 4.8 | 7.5 |

Five silos share two cores, and wait while the coordinator works. With 600 rows a silo,
the products take most: every block of 64 MB is read twice, and 22 MB are added.
Tried without gain: a product that BLAS adds to an array with the correction for the
mean (9 + 5 ms instead of 10 + 2), and product, correction and addition by pieces of
columns that stay in the cache (14 to 17 ms).
"""


def rows(kind: str, n: int, p: int, seed: int) -> object:
    """Return one silo's rows: a decaying spectrum in noise, or sparse counts of it."""
    shared = np.random.default_rng(7)  # directions that all silos have in common
    rng = np.random.default_rng([8, seed])
    strength = 1.0 / np.sqrt(1.0 + np.arange(2 * K))
    axes = shared.standard_normal((2 * K, p))
    if kind == "dense":
        X = rng.standard_normal((n, p), dtype=np.float32).astype(np.float64)
        X += (rng.standard_normal((n, 2 * K)) * strength) @ axes + 3.0
        return X
    # About 2 cells in 100; groups of columns are common in some rows, rare in others.
    X = scipy.sparse.random_array(
        (n, p),
        density=0.02,
        rng=rng,
        format="csr",
        data_sampler=rng.standard_exponential,
    )
    weight = np.exp(rng.standard_normal((n, 2 * K)) * strength)
    group = shared.integers(0, 2 * K, p)
    row_of = np.repeat(np.arange(n), np.diff(X.indptr))
    X.data *= weight[row_of, group[X.indices]]
    return X


def write(kind: str, folder: Path, n: int, p: int, m: int) -> list[Path]:
    """Write every silo's file; each is made and dropped in turn."""
    paths = []
    for i in range(m):
        path = folder / f"silo{i + 1}{SOURCES[kind]}"
        X = rows(kind, n // m, p, i)
        if kind == "dense":
            np.save(path, X)
        else:
            scipy.sparse.save_npz(path, X, compressed=False)
        paths.append(path)
        del X
    return paths


def silo(door: Connection, name: str, path: str, key: bytes, roster: dict) -> None:
    """Answer messages until an empty one arrives; then send the peak memory."""
    from unpooled.data.sources.open_source import open_source
    from unpooled.party.party import Party
    from unpooled.party.rules.policy import Policy
    from unpooled.protocol.message import joined
    from unpooled.secure.keys.roster import Identity, Roster

    table = open_source(path)
    # Of sparse counts some columns are one row's alone, which the default refuses.
    policy = Policy(max_leverage=1.0) if path.endswith(".npz") else Policy()
    party = Party(name, table, policy, Identity(key), Roster(roster))
    while request := door.recv_bytes():
        # A large reply comes in pieces.
        door.send_bytes(joined(party.handle(request)))
    door.send_bytes(str(peak_mb()).encode())


def coordinate(paths: list[str], p: int, out: Path) -> None:
    """Start the silos, fit, and print time and memory as JSON."""
    import unpooled as up
    from unpooled.coordinator.channel import Channel
    from unpooled.coordinator.coordinator import Coordinator
    from unpooled.federation.federation import Federation
    from unpooled.federation.layout import Layout
    from unpooled.secure.keys.roster import Identity, Roster

    class Pipes(Channel):
        """Carries bytes to the silos' processes, which work at the same time."""

        def __init__(self, ends: Mapping[str, Connection]) -> None:
            self.parties, self.ends = tuple(ends), dict(ends)

        def exchange(
            self, requests: Mapping[str, bytes]
        ) -> Iterator[tuple[str, bytes]]:
            for name, request in requests.items():
                self.ends[name].send_bytes(request)
            for name in requests:
                yield name, self.ends[name].recv_bytes()

    # spawn: a forked child would begin with its parent's memory.
    context = multiprocessing.get_context("spawn")
    keys = {f"silo{i + 1}": os.urandom(32) for i in range(len(paths))}
    roster = {name: Identity(key).public for name, key in keys.items()}
    ends, processes = {}, []
    for (name, key), path in zip(keys.items(), paths, strict=True):
        ends[name], theirs = context.Pipe()
        # Daemons, so that they end where the fit fails.
        process = context.Process(
            target=silo, args=(theirs, name, path, key, roster), daemon=True
        )
        process.start()
        theirs.close()
        processes.append(process)
    coordinator = Coordinator(Pipes(ends), Roster(roster), study="wide")
    layout = Layout.of_rows(ends, [f"x{j}" for j in range(p)])
    federation = Federation(coordinator, layout=layout, named=False)
    started = time.perf_counter()
    # auto: the number of columns makes it choose krylov.
    model = up.PCA(K, random_state=0).fit(federation)
    seconds = time.perf_counter() - started
    peaks = []
    for end in ends.values():
        end.send_bytes(b"")
        peaks.append(float(end.recv_bytes()))
    for process in processes:
        process.join()
    np.savez(out, components=model.components_, variance=model.explained_variance_)
    measured = {
        "seconds": seconds,
        "rounds": len(federation.rounds),
        "iterations": model.n_iter_,
        "residual": float((model.residuals_ / model.gap_).max()),
        "silo_mb": max(peaks),
        "coordinator_mb": peak_mb(),
        "sent": federation.ledger.bytes_out("silo1"),
    }
    print(json.dumps(measured))


def pooled(kind: str, paths: list[str], out: Path) -> None:
    """Fit scikit-learn's arpack solver on all rows, and print time and memory."""
    from sklearn.decomposition import PCA

    if kind == "dense":
        n, p = sum(len(np.load(path, mmap_mode="r")) for path in paths), 0
        p = np.load(paths[0], mmap_mode="r").shape[1]
        X, filled = np.empty((n, p)), 0
        for path in paths:
            part = np.load(path, mmap_mode="r")
            X[filled : filled + len(part)] = part
            filled += len(part)
        model = PCA(K, svd_solver="arpack", random_state=0, copy=False)
    else:
        X = scipy.sparse.vstack([scipy.sparse.load_npz(path) for path in paths])
        model = PCA(K, svd_solver="arpack", random_state=0)
    started = time.perf_counter()
    model.fit(X)
    seconds = time.perf_counter() - started
    np.savez(out, components=model.components_, variance=model.explained_variance_)
    print(json.dumps({"seconds": seconds, "pooled_mb": peak_mb()}))


def peak_mb() -> float:
    """Return the most memory that this process has had since it began to run.

    Not ru_maxrss, which a process inherits from the one that started it.
    """
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def measure(kind: str, n: int, p: int, m: int, folder: Path) -> dict:
    """Write the files, run both ends in processes of their own, and compare."""
    from scipy.linalg import subspace_angles

    paths = [str(path) for path in write(kind, folder, n, p, m)]
    found, figures = {}, {"kind": kind, "n": n, "p": p, "m": m}
    for who in ("ours", "pooled"):
        out = folder / f"{who}.npz"
        command = [sys.executable, __file__, "--child", who, kind, str(p), str(out)]
        done = subprocess.run([*command, *paths], stdout=subprocess.PIPE, check=True)
        seen = json.loads(done.stdout)
        figures |= {"pooled_s": seen.pop("seconds")} if who == "pooled" else {}
        figures |= seen
        with np.load(out) as file:
            found[who] = dict(file)
    ours, theirs = found["ours"], found["pooled"]
    angle = subspace_angles(ours["components"].T, theirs["components"].T).max()
    figures["sine"] = float(np.sin(angle))
    figures["off"] = float(np.abs(ours["components"] - theirs["components"]).max())
    figures["variance"] = float(np.abs(ours["variance"] / theirs["variance"] - 1).max())
    for path in paths:
        Path(path).unlink()
    return figures


def table(rows: list[dict]) -> str:
    """Return the results as Markdown."""
    import sklearn

    lines = [
        f"# PCA({K}) of many columns over {rows[0]['m']} silos, a process each",
        "",
        f"One run each; {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"numpy {np.__version__}, scikit-learn {sklearn.__version__}. Ours: "
        f'`svd_solver="auto"`, which chose krylov, masked sums, default policy (sparse '
        f"columns may be one row's alone, `max_leverage = 1`). "
        f"Pooled: scikit-learn's arpack on all rows in one process.",
        "",
        "| rows | source | seconds (pooled) | blocks multiplied | MB a silo sends "
        "| peak MB: silo | coordinator | pooled | largest sine | components differ by "
        "| variances differ by |",
        "|" + "---|" * 11,
    ]
    for r in rows:
        lines.append(
            f"| {r['n']:,} × {r['p']:,} | {r['kind']} {SOURCES[r['kind']]} "
            f"| {r['seconds']:.0f} ({r['pooled_s']:.0f}) | {r['iterations']} "
            f"| {r['sent'] / 1e6:.0f} | {r['silo_mb']:.0f} | {r['coordinator_mb']:.0f} "
            f"| {r['pooled_mb']:.0f} | {r['sine']:.0e} | {r['off']:.0e} "
            f"| {r['variance']:.0e} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rows", type=int, default=3_000)
    parser.add_argument("--columns", type=int, default=200_000)
    parser.add_argument("--scratch", type=Path, help="a folder with 5 GB free")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        who, kind, p, out, *paths = asked.child
        if who == "ours":
            coordinate(paths, int(p), Path(out))
        else:
            pooled(kind, paths, Path(out))
        return
    n, p = (900, 5_000) if asked.quick else (asked.rows, asked.columns)
    m = 3 if asked.quick else N_SILOS
    rows_ = []
    for kind in SOURCES:
        with tempfile.TemporaryDirectory(dir=asked.scratch) as folder:
            rows_.append(measure(kind, n, p, m, Path(folder)))
        print(table(rows_), flush=True)
    if not asked.quick:
        results = Path(__file__).parent / "results" / "pca_wide.md"
        results.write_text(table(rows_) + PROFILE)


if __name__ == "__main__":
    main()
