"""Tables whose rows are told apart by age, and the rows that steps would read."""

import numpy as np
import pandas as pd
from numpy.testing import assert_array_equal

from unpooled.party.views.view import View, shared_by_all

SIZES = {"a": 31, "b": 8, "c": 50}
NAMES = ["age", "pulse", "weight", "height"]


def frames(sizes=SIZES):
    """Return tables whose rows are told apart by the column `age`."""
    rng = np.random.default_rng(0)
    made, start = {}, 0
    for name, n in sizes.items():
        X = rng.standard_normal((n, 4)) * [1, 2, 3, 4] + [0, 10, 20, 30]
        X[:, 0] = np.arange(start, start + n)
        made[name] = pd.DataFrame(X, columns=NAMES).assign(sick=X[:, 0] % 2)
        start += n
    return made


def table_of(federation, party):
    """Return a silo's own table, as only a test in the same process can."""
    return party_of(federation, party).table


def party_of(federation, party):
    return federation.coordinator.channel._doors[party].__self__


def view_of(federation, party):
    """Return the view that a silo's steps read."""
    own = party_of(federation, party)
    cut = own._studies.cuts.of if federation.partition == "rows" else shared_by_all
    return View(
        own.aligned_rows.table_of(federation.coordinator.study, own.table),
        federation.operations,
        partition=federation.partition,
        cut=cut,
    )


def rows_of(federation):
    """Return the rows that steps would read, by silo."""
    found = {}
    for party in federation.parties:
        view = view_of(federation, party)
        blocks = list(view.blocks(["sick"] if federation.label else []))
        found[party] = np.concatenate([block.X for block in blocks])
        assert len(found[party]) == view.n_rows, "counted without reading, wrongly"
        assert view.columns == federation.feature_names
        for block in blocks:
            if federation.label and "age" in view.columns and not view.transforms:
                # The label stays beside its row.
                age = block.X[:, view.columns.index("age")]
                assert_array_equal(block.extra["sick"], age % 2)
    return found


def ages(federation):
    return {party: X[:, 0] for party, X in rows_of(federation).items()}
