"""PCA of ten million rows from Parquet, in memory independent of their number.

    python benchmarks/pca_long.py            # 10^5 to 10^7 rows, writes the table
    python benchmarks/pca_long.py --quick    # 10^4 rows, prints only

Three silos have a third of the rows each, as a Parquet file of 50 columns: float32,
integer, and one with missing cells that are imputed by the federation's means. All
parties run in one process, which is the worst case for its memory; peak memory is the
operating system's figure for that process (ru_maxrss), libraries included.
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

N_SILOS, P, K = 3, 50, 5
ROWS_AT_A_TIME = 50_000


def write(path: Path, n: int, seed: int) -> None:
    """Write one silo's rows: correlated, a third of the columns whole numbers."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    mixing = np.random.default_rng(0).standard_normal((10, P))
    rng = np.random.default_rng([1, seed])
    names = [f"c{j}" for j in range(P)]
    kinds = [pa.int16() if j % 3 == 0 else pa.float32() for j in range(P)]
    schema = pa.schema(list(zip(names, kinds, strict=True)))
    with pq.ParquetWriter(path, schema) as file:
        for start in range(0, n, ROWS_AT_A_TIME):
            m = min(ROWS_AT_A_TIME, n - start)
            X = 20.0 * rng.standard_normal((m, 10)) @ mixing + rng.uniform(0, 9, (m, P))
            columns = [
                pa.array(X[:, j].astype(kind.to_pandas_dtype()))
                for j, kind in enumerate(kinds)
            ]
            columns[1] = pa.array(X[:, 1].astype(np.float32), mask=rng.random(m) < 0.1)
            file.write_table(pa.table(columns, schema=schema))


def fit(paths: list[str], block_mb: float) -> None:
    """Fit, and print time and memory."""
    from sklearn.pipeline import make_pipeline

    import unpooled as up

    parties = {f"silo{i + 1}": path for i, path in enumerate(paths)}
    federation = up.simulate(parties, block_mb=block_mb)
    model = make_pipeline(up.SimpleImputer(), up.PCA(K))
    started = time.perf_counter()
    model.fit(federation)
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    variance = model[-1].explained_variance_.tolist()
    print(json.dumps({"seconds": seconds, "peak_mb": peak, "variance": variance}))


def measure(n: int, block_mb: float, folder: Path) -> dict:
    """Write the files and run a fit in a process of its own."""
    paths = [folder / f"silo{i + 1}.parquet" for i in range(N_SILOS)]
    for i, path in enumerate(paths):
        write(path, n // N_SILOS, i)
    command = [sys.executable, __file__, "--child", str(block_mb), *map(str, paths)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    size = sum(path.stat().st_size for path in paths) / 1e6
    for path in paths:
        path.unlink()
    return json.loads(done.stdout) | {"n": n, "block_mb": block_mb, "file_mb": size}


def table(rows: list[dict]) -> str:
    """Return the results as Markdown."""
    lines = [
        f"# SimpleImputer and PCA({K}) of long tables, {P} columns, three silos",
        "",
        f"One run each; {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"numpy {np.__version__}. Parquet with float32 and int16 columns, one tenth of "
        f"one column missing; all silos and the coordinator in one process.",
        "",
        "| rows | as float64, MB | files, MB | block_mb | seconds | peak MB |",
        "|---|---|---|---|---|---|",
    ]
    for r in rows:
        lines.append(
            f"| {r['n']:,} | {8e-6 * r['n'] * P:,.0f} | {r['file_mb']:,.0f} "
            f"| {r['block_mb']:g} | {r['seconds']:.1f} | {r['peak_mb']:.0f} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--scratch", type=Path, help="a folder with 2 GB free")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        fit(asked.child[1:], float(asked.child[0]))
        return
    cases = [(10**5, 64), (10**6, 64), (10**7, 64), (10**7, 8)]
    rows = []
    with tempfile.TemporaryDirectory(dir=asked.scratch) as folder:
        for n, block_mb in [(10**4, 64)] if asked.quick else cases:
            rows.append(measure(n, block_mb, Path(folder)))
            print(table(rows), flush=True)
    if not asked.quick:
        results = Path(__file__).parent / "results" / "pca_long.md"
        results.write_text(table(rows))


if __name__ == "__main__":
    main()
