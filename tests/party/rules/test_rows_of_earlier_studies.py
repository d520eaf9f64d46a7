"""The budget of a small silo: a later study knows N of its large neighbours too."""

from functools import partial

import numpy as np
import pytest

from unpooled import PCA, Policy, StandardScaler
from unpooled.coordinator.channel import LocalChannel
from unpooled.coordinator.coordinator import Coordinator
from unpooled.data.table import ArrayTable
from unpooled.federation.federation import Federation
from unpooled.federation.following import FollowedPrograms
from unpooled.federation.layout import Layout
from unpooled.party.memory.audit_log import AuditLog
from unpooled.party.party import Party
from unpooled.secure.keys.roster import Identity, Roster

SHARE = 0.06
SIZES = {"large": 400, "middle": 300, "small": 40}
IDENTITIES = {name: Identity() for name in SIZES}
ROSTER = Roster({name: one.public for name, one in IDENTITIES.items()})


def federation(folder, sizes, study):
    """Return a federation of fresh processes, as each study of organisations has."""
    rows = {
        name: np.random.default_rng(n).standard_normal((n, 5))
        for name, n in sizes.items()
    }
    silos = {
        name: Party(
            name,
            ArrayTable(X),
            Policy(max_released_share=SHARE),
            IDENTITIES[name],
            ROSTER,
            audit_log=AuditLog(folder / name),
            follow=FollowedPrograms(interactive=True),
        )
        for name, X in rows.items()
    }
    channel = LocalChannel({name: silo.handle for name, silo in silos.items()})
    coordinator = Coordinator(channel, ROSTER, study=study, follows=True)
    columns = [f"x{j}" for j in range(5)]
    layout = Layout.of_rows(sizes, columns)
    return Federation(coordinator, layout=layout, named=False, label=None)


def used(folder, name):
    return AuditLog(folder / name).state().opened.share


@pytest.mark.slow
def test_a_later_study_counts_over_the_rows_of_all(tmp_path):
    fit = partial(federation, tmp_path, SIZES)
    StandardScaler().fit(fit("first"))
    PCA(3).fit(fit("second"))
    first = used(tmp_path, "small")

    # Of the 3 x 40 rows that the silo knows before anybody has counted it would be more
    # than the policy allows; of the 740 that it verified it is far less.
    assert first * 740 / 120 > SHARE
    for study in ("third", "fourth"):
        PCA(4).fit(fit(study))
        assert first <= used(tmp_path, "small") < SHARE / 2
