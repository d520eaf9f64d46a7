"""Views that parties have of the same people, with factors in common."""

import numpy as np

from silo_rows import view_of
from unpooled import Policy, simulate
from unpooled.federation.federation import Federation

N = 150


def related(sizes, n=N, seed=0):
    """Return views with three common factors, in units a thousand times apart."""
    rng = np.random.default_rng(seed)
    common = rng.standard_normal((n, 3)) * [2.0, 1.0, 0.5]
    return {
        name: (common @ rng.standard_normal((3, p)) + rng.standard_normal((n, p)) + p)
        * np.geomspace(1.0, 1000.0, p)
        for name, p in zip(("bank", "shop", "insurer"), sizes, strict=False)
    }


def federated(views, **options):
    options = {"policy": Policy.open(), **options}
    return simulate(views, partition="columns", **options)


def chosen(part):
    """Return which rows a part of a federation has."""
    return view_of(part, part.parties[0]).rows()


def images_opened(monkeypatch):
    """Return a list that fills with the images which sums give the coordinator."""
    seen, ask = [], Federation.sum

    def watched(self, step, **public):
        told = ask(self, step, **public)
        seen.extend(value for name, value in told.items() if name == "image")
        return told

    monkeypatch.setattr(Federation, "sum", watched)
    return seen
