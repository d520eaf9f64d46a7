"""Fits beside those of a peer on the pooled rows, which ran in turn with them.

    python benchmarks/side_by_side.py                  # everything, writes the table
    python benchmarks/side_by_side.py --quick          # small and once, prints only
    python benchmarks/side_by_side.py --only cca rows  # these alone, prints only

    first    PCA(3) of 3 silos in a fresh process; scikit-learn in another
    power    summed PowerTransformer, 300,000 × 5 at 3 silos; scikit-learn
    rows     PCA(50), 60,000 × 784 at 5 silos; scikit-learn's covariance_eigh
    columns  PCA(10), 20,000 × 784, the columns at 4 parties; the same
    large    the same with 100,000 rows
    cca      CCA(2), 10,000 people, 200 columns at each of 2 parties; cca_zoo
    sparse   PCA(10), 3,000 × 200,000 in 5 silos of one process; arpack
    many     PCA(10), 200 silos of 200 × 50; scikit-learn's covariance_eigh
    match    100,000 ids at 3 parties, four of five at all; openmined-psi's C++, which
             intersects two sets, once for each party beside the first

Each case is a process of its own, in which both fit once unmeasured and then in turn,
with the same threads of BLAS. The peak of memory is that of the case, peer and data
included.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

HERE = Path(__file__).resolve().parent
# Ours, returning the federation; the peer.
Pair = tuple[Callable[[], Any], Callable[[], Any]]
# What a benchmark opens is no silo's.
POLICY = {
    "min_parties": 2,
    "max_feature_ratio": 10.0,
    "max_released_share": 1e6,
    "allow_row_level": True,
}
FIRST = {
    "ours": "import unpooled as up; up.PCA(3).fit(up.simulate(parts, policy=policy))",
    "peer": "from sklearn.decomposition import PCA; "
    "PCA(3).fit(np.vstack([*parts.values()]))",
}
SET_UP = (
    "import numpy as np; rng = np.random.default_rng(0); policy = {policy}; "
    "parts = {{str(i): rng.standard_normal((50, 5)) for i in range(3)}}; "
)


def low_rank(n: int, p: int, rank: int = 30) -> np.ndarray:
    """Return rows with a decaying spectrum in noise."""
    rng = np.random.default_rng(0)
    axes = rng.standard_normal((rank, p)) * np.geomspace(3, 0.3, rank)[:, None]
    return rng.standard_normal((n, rank)) @ axes + rng.standard_normal((n, p))


def fitted(model: Any, parts: list, rules: Any = POLICY, **partition: Any) -> Any:
    import unpooled as up

    named = {f"silo{i}": part for i, part in enumerate(parts)}
    federation = up.simulate(named, policy=rules, **partition)
    model.fit(federation)
    return federation


def power(share: float) -> Pair:
    from sklearn.preprocessing import PowerTransformer

    import unpooled as up

    rng = np.random.default_rng(0)
    X = rng.lognormal(size=(int(300_000 * share), 5))
    parts = np.array_split(X, 3)
    return (
        lambda: fitted(up.PowerTransformer(comparison="summed"), parts),
        lambda: PowerTransformer().fit(X),
    )


def pca(n: int, p: int, k: int, m: int, axis: int = 0) -> Pair:
    from sklearn.decomposition import PCA

    import unpooled as up

    X = low_rank(n, p)
    parts = np.array_split(X, m, axis=axis)
    by = {"partition": "columns", "aligned": True} if axis else {}
    return (
        lambda: fitted(up.PCA(k, random_state=0), parts, **by),
        lambda: PCA(k, svd_solver="covariance_eigh").fit(X),
    )


def cca(share: float) -> Pair:
    from cca_zoo.linear import CCA

    import unpooled as up

    # More people than columns, even in a quick run.
    rng, n = np.random.default_rng(0), max(500, int(10_000 * share))
    shared = rng.standard_normal((n, 6))
    views: list[Any] = [
        shared @ rng.standard_normal((6, 200)) + rng.standard_normal((n, 200))
        for _ in range(2)
    ]
    return (
        lambda: fitted(up.CCA(2), views, partition="columns", aligned=True),
        lambda: CCA(2).fit(views),
    )


def sparse(share: float) -> Pair:
    import scipy.sparse
    from pca_wide import rows
    from sklearn.decomposition import PCA

    import unpooled as up

    p = int(200_000 * share)
    parts: list[Any] = [rows("sparse", 600, p, i) for i in range(5)]
    X = scipy.sparse.vstack(parts).tocsr()
    # Some columns are one row's alone.
    rules = {**POLICY, "max_leverage": 1.0}
    return (
        lambda: fitted(up.PCA(10, random_state=0), parts, rules),
        lambda: PCA(10, svd_solver="arpack", random_state=0).fit(X),
    )


def match(share: float) -> Pair:
    import pandas as pd
    import private_set_intersection.python as psi

    import unpooled as up

    n, m = int(100_000 * share), 3
    rng = np.random.default_rng(0)
    frames = dict[str, Any]()
    for i in range(m):
        own = np.arange(n // 5) + (i + 1) * n
        numbers = rng.permutation(np.concatenate([np.arange(n - n // 5), own]))
        ids = [f"person {number}" for number in numbers]
        frames[f"silo{i}"] = pd.DataFrame({"id": ids, f"x{i}": 1.0 * numbers})

    def ours() -> Any:
        by = {"partition": "columns", "ids": "id"}
        federation = up.simulate(frames, policy=POLICY, **by)
        assert federation.n_rows == n - n // 5
        return federation

    def peer() -> None:
        first, *others = (list(frame["id"]) for frame in frames.values())
        for other in others:
            client = psi.client.CreateWithNewKey(True)
            server = psi.server.CreateWithNewKey(True)
            setup = server.CreateSetupMessage(1e-9, n, other, psi.DataStructure.RAW)
            answer = server.ProcessRequest(client.CreateRequest(first))
            assert len(client.GetIntersection(setup, answer)) == n - n // 5

    return ours, peer


# By name: what to fit with a share of the full size, and how often. None: in processes.
CASES: dict[str, tuple[Callable[[float], Pair] | None, int]] = {
    "first": (None, 9),
    "power": (power, 7),
    "rows": (lambda share: pca(int(60_000 * share), 784, 50, 5), 9),
    "columns": (lambda share: pca(int(20_000 * share), 784, 10, 4, axis=1), 7),
    "large": (lambda share: pca(int(100_000 * share), 784, 10, 4, axis=1), 3),
    "cca": (cca, 7),
    "sparse": (sparse, 3),
    "match": (match, 1),
    "many": (lambda share: pca(int(40_000 * share), 50, 10, int(200 * share)), 5),
}


def measured(name: str, share: float, runs: int) -> dict[str, Any]:
    """Return the seconds of both sides of a case, in this process."""
    from pca_wide import peak_mb

    make = CASES[name][0]
    assert make is not None
    warnings.simplefilter("ignore")
    ours, peer = make(share)
    if runs > 1:  # else a run takes long beside what the first one loads
        for work in (ours, peer):
            work()
    seconds: dict[str, list[float]] = {"ours": [], "peer": []}
    federation = None
    for _ in range(runs):
        for side, work in (("ours", ours), ("peer", peer)):
            began = time.perf_counter()
            made = work()
            seconds[side].append(time.perf_counter() - began)
            federation = made if side == "ours" else federation
    assert federation is not None
    return seconds | {"rounds": len(federation.rounds), "peak_mb": peak_mb()}


def first_fits(runs: int, uncounted: int) -> dict[str, Any]:
    """Return the seconds from the start of a process to the end of its first fit."""
    seconds: dict[str, list[float]] = {"ours": [], "peer": []}
    with tempfile.TemporaryDirectory() as compiled:
        # Modules are compiled once, as those of an installed package are.
        environment = dict(os.environ)
        if uncounted:
            environment["PYTHONPYCACHEPREFIX"] = compiled
            environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for _ in range(uncounted + runs):
            for side, code in FIRST.items():
                text = SET_UP.format(policy=POLICY) + code
                began = time.perf_counter()
                command = [sys.executable, "-c", text]
                subprocess.run(command, check=True, env=environment)
                seconds[side].append(time.perf_counter() - began)
    # The first ones compile, and read files that are not in memory yet.
    return {side: found[uncounted:] for side, found in seconds.items()}


def run(name: str, quick: bool) -> dict[str, Any]:
    make, runs = CASES[name]
    if make is None:
        return first_fits(1, uncounted=0) if quick else first_fits(runs, uncounted=1)
    if quick:  # in this process, which has loaded the libraries
        return measured(name, 0.01, 1)
    command = [sys.executable, __file__, "--child", name, "1.0", str(runs)]
    found = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(found.stdout.splitlines()[-1])


def spread(seconds: list[float]) -> str:
    """Return minimum, median and maximum."""
    median = statistics.median(seconds)
    return f"{min(seconds):.2f} / {median:.2f} / {max(seconds):.2f}"


def table(found: dict[str, dict[str, Any]]) -> str:
    lines = [
        "# Fits beside those of a peer on the pooled rows",
        "",
        f"Both in turn on a machine with {os.cpu_count()} cores, Python "
        f"{platform.python_version()}, numpy {np.__version__}, "
        f"OPENBLAS_NUM_THREADS={os.environ.get('OPENBLAS_NUM_THREADS', 'not set')}; "
        f"load when it ended: {os.getloadavg()[0]:.1f}. Cases are described in the "
        f"script.",
        "",
        "| case | ours: minimum / median / maximum (s) | peer (s) | ratio of medians "
        "| rounds | peak MB of the case |",
        "|---|---|---|---|---|---|",
    ]
    for name, one in found.items():
        ratio = statistics.median(one["ours"]) / statistics.median(one["peer"])
        peak = f"{one['peak_mb']:,.0f}" if "peak_mb" in one else ""
        lines.append(
            f"| {name} | {spread(one['ours'])} | {spread(one['peer'])} | {ratio:.2f} "
            f"| {one.get('rounds', '')} | {peak} |"
        )
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small and once")
    parser.add_argument("--only", nargs="+", choices=CASES, metavar="CASE")
    parser.add_argument("--child", nargs=3, metavar=("CASE", "SHARE", "RUNS"))
    given = parser.parse_args()
    if given.child:
        name, share, runs = given.child
        print(json.dumps(measured(name, float(share), int(runs))))
        return
    found = {}
    for name in given.only or CASES:
        found[name] = run(name, given.quick)
        print(name, {k: v for k, v in found[name].items() if k != "peak_mb"})
    text = table(found)
    print(text)
    if not (given.quick or given.only):
        (HERE / "results" / "side_by_side.md").write_text(text)


if __name__ == "__main__":
    main()
