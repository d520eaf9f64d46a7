"""Coverage of the intervals of private components, over samples of known populations.

    python experiments/private_certainty.py [--data FOLDER] [--quick]

Needs no data. Noise is drawn from a seeded generator with the deviations that silos'
noise has, so that many samples are quick and every run gives the same table. Writes
private_certainty.md into experiments/results.
"""

import argparse
import os
from pathlib import Path

import numpy as np

import unpooled as up
from unpooled.models.pca.private_certainty import NoiseOfMoments, private_errors

RESULTS = Path(os.environ.get("UNPOOLED_RESULTS", Path(__file__).parent / "results"))
SEED, K, WIDTH = 1, 3, 1.96
TEN = np.r_[4.0, 2.0, 1.0, np.full(7, 0.2)]
SIXTY = np.r_[8.0, 4.0, 2.0, np.full(57, 0.1)]
# Variances, rows, noise of N, sums and products, the mean's distance in each column.
SETTINGS = [
    (TEN, 2000, NoiseOfMoments(3.0, 10.0, 20.0), 0.0, 400),
    (TEN, 2000, NoiseOfMoments(10.0, 30.0, 100.0), 1.0, 400),
    (SIXTY, 5000, NoiseOfMoments(20.0, 100.0, 200.0), 0.3, 400),
    (SIXTY, 20000, NoiseOfMoments(20.0, 100.0, 200.0), 0.0, 200),
    (SIXTY, 5000, NoiseOfMoments(20.0, 100.0, 400.0), 0.0, 400),
]
HEAD = [
    "columns",
    "rows",
    "samples",
    "centre off",
    "noise edge over first variance",
    "variances 1, 2, 3",
    "as they came",
    "loadings 1, 2, 3",
]
PAGE = """# Coverage of intervals of private components

unpooled {version}; normal rows of a known covariance matrix, with noise on N, sums and
products; intervals at 95 % of `private_errors`. "as they came" are intervals about
the variances without `explained_variance_bias_`.{quick}

{table}
"""


def coverage(variances, N, noise, off, repeats, rng):
    """Return the shares of intervals that have the population's value."""
    p = len(variances)
    axes = np.linalg.qr(rng.standard_normal((p, p)))[0]
    corrected, raw, loadings = [], [], []
    for _ in range(repeats):
        X = (rng.standard_normal((N, p)) * np.sqrt(variances)) @ axes.T + off
        G = noise.products * rng.standard_normal((p, p))
        E = np.triu(G, 1) + np.triu(G, 1).T + np.sqrt(2) * np.diag(np.diag(G))
        S = X.T @ X + E
        T = X.sum(axis=0) + noise.sums * rng.standard_normal(p)
        n = round(N + noise.count * rng.standard_normal())
        shift = T / n
        values, V = np.linalg.eigh((S - n * np.outer(shift, shift)) / (n - 1))
        values, V = values[::-1], V[:, ::-1]
        found = private_errors(values, V, K, n, shift, noise)
        half = WIDTH * found["explained_variance_se_"]
        away = values[:K] - variances[:K]
        corrected.append(np.abs(away - found["explained_variance_bias_"]) < half)
        raw.append(np.abs(away) < half)
        true = axes[:, :K] * np.sign((axes[:, :K] * V[:, :K]).sum(axis=0))
        error = found["components_se_"].T
        inside = np.abs(V[:, :K] - true) < WIDTH * error
        loadings.append(np.where(np.isfinite(error), inside, np.nan).mean(axis=0))
    return [np.nanmean(one, axis=0) for one in (corrected, raw, loadings)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--data", type=Path, help="not read")
    parser.add_argument("--quick", action="store_true", help="few samples")
    args = parser.parse_args()
    RESULTS.mkdir(exist_ok=True)
    rng, lines = np.random.default_rng(SEED), []
    for variances, N, noise, off, repeats in SETTINGS[: 2 if args.quick else None]:
        times = 40 if args.quick else repeats
        found = coverage(variances, N, noise, off, times, rng)
        edge = 2 * np.sqrt(len(variances)) * noise.products / N / variances[0]
        shown = [", ".join(f"{share:.3f}" for share in one) for one in found]
        line = [len(variances), N, times, off, f"{edge:.2f}", *shown]
        print(*line, flush=True)
        lines.append(line)
    rows = ["| " + " | ".join(map(str, row)) + " |" for row in [HEAD, *lines]]
    page = PAGE.format(
        version=up.__version__,
        quick=" A QUICK run of few samples." if args.quick else "",
        table="\n".join([rows[0], "|" + "---|" * len(HEAD), *rows[1:]]),
    )
    (RESULTS / "private_certainty.md").write_text(page, "utf-8")


if __name__ == "__main__":
    main()
