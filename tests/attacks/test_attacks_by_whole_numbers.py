"""What totals of products of the silos' own sums tell, where cells are whole numbers.

Σ n_i (m_i - m)² of three silos is known to all its digits. Numbers of rows are whole,
and so are sums of whole numbers; few such numbers have this total, as a rule one set
of them.

This is a limit of what is answered, not an attack that is refused: see "Sums of
products of silos' own sums" in docs/disclosure.md. Rounding would not help: a matrix of
such totals has more numbers than the silos have sums.
"""

from typing import Any

import numpy as np
import pandas as pd
import pytest

import unpooled as up
from unpooled.arrays import Array
from unpooled.errors import ReleaseRefusedError

SIZES = {"a": 61, "b": 46, "c": 83}


def tables() -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng(1)
    return {
        name: pd.DataFrame(
            {
                "ill": (rng.random(n) < rng.uniform(0.2, 0.6)).astype(float),
                "age": rng.integers(30, 80, n).astype(float),
            }
        )
        for name, n in SIZES.items()
    }


def whole_numbers(N: int, total: float, between: float) -> list[tuple[int, ...]]:
    """Return the numbers of rows and sums of a flag of three silos that have a total.

    For each number of rows, and each sum of the first silo, the second silo's sum is a
    root of a quadratic equation, and the third's is the rest.
    """
    found, mean = set[tuple[int, ...]](), total / N
    for n1 in range(10, N // 3 + 1):
        for n2 in range(n1, (N - n1) // 2 + 1):
            n3 = N - n1 - n2
            first = np.arange(0.0, min(n1, total) + 1.0)
            d1 = first - n1 * mean
            # d1² / n1 + d2² / n2 + (d1 + d2)² / n3 = between
            a, b = 1.0 / n2 + 1.0 / n3, d1 / n3
            c = d1**2 * (1.0 / n1 + 1.0 / n3) - between
            root = b * b - a * c
            for sign in (-1.0, 1.0):
                d2 = (sign * np.sqrt(np.maximum(root, 0.0)) - b) / a
                second = d2 + n2 * mean
                rest = total - first - second
                # Sums are exact to 1e-13 or so, and 1e6 of these numbers are tried.
                whole = (root >= 0.0) & (np.abs(second - second.round()) < 1e-10)
                whole &= (second > -0.5) & (second < n2 + 0.5)
                whole &= (rest > -0.5) & (rest < n3 + 0.5)
                for x, y in zip(first[whole], second[whole].round(), strict=True):
                    rows = [(n1, x), (n2, y), (n3, total - x - y)]
                    found.add(tuple(int(v) for row in rows for v in row))
    return sorted(found)


def opened(here: up.Federation, fit: Any) -> list[dict[str, Array]]:
    """Return what the coordinator opens."""
    seen, honest = list[dict[str, Array]](), here.coordinator.run_step

    def run_step(call: Any) -> dict[str, Array]:
        seen.append(honest(call))
        return seen[-1]

    here.coordinator.run_step = run_step
    fit(here)
    return seen


def by_heterogeneity(here: up.Federation) -> tuple[int, float, float]:
    """Return rows, sum of the flag, and its squares between silos, by their tests."""
    seen = opened(here, lambda h: up.heterogeneity(h.select(["ill"])))
    (between,) = [part["between"][0, 0] for part in seen if "logs" in part]
    return int(seen[0]["count"]), float(seen[0]["total"][0]), float(between)


def by_centring(here: up.Federation) -> tuple[int, float, float]:
    """Return the same by variances about the means of all rows, and of each silo."""
    models = []
    for view in (here, up.CentreBySite().fit(here).transform(here)):
        models.append(up.PCA().fit(view.select(["ill", "age"])))
    whole, within = ((m.n_samples_ - 1) * m.get_covariance()[0, 0] for m in models)
    N = int(models[0].n_samples_)
    return N, round(N * float(models[0].mean_[0])), float(whole - within)


@pytest.mark.slow
@pytest.mark.parametrize("ask", [by_heterogeneity, by_centring])
def test_limit_one_flag_gives_each_silos_rows_and_sum(ask):
    found = whole_numbers(*ask(up.simulate(tables(), follow=True)))
    own = [(len(frame), int(frame["ill"].sum())) for frame in tables().values()]
    assert found == [tuple(v for row in sorted(own) for v in row)]


@pytest.mark.parametrize("step", ["heterogeneity.*", "centre_by_site.*"])
def test_a_silo_that_leaves_these_steps_out_is_not_asked(step):
    rest = ["pca.*", "moments.*", "centre_by_site.*", "heterogeneity.*"]
    rest.remove(step)
    here = up.simulate(tables(), follow=True, policy={"allowed_steps": rest})
    ask = by_heterogeneity if step.startswith("het") else by_centring
    with pytest.raises(ReleaseRefusedError, match="allowed_steps"):
        ask(here)
