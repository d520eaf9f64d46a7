"""Sixteen silos on one machine, each with some fifty patients of every hospital.

They give way to the processes of other tests, which have deadlines.
"""

import contextlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from integration.comparing import assert_equal_models, lines
from integration.consortium import HEART, Consortium, study_text
from integration.mishaps import assert_ledger_tells_what_left
from unpooled.data.heart_disease import load
from unpooled.study import Study

SIXTEEN = tuple(f"clinic{number:02}" for number in range(1, 17))
# A column may have one value of a clinic that is not 0.
POLICY = "min_rows = 10\nmin_own_cells = 0\nmax_leverage = 1.0\n"


def write_part(silo, folder):
    """Write a clinic's share of all patients, whose order is mixed."""
    everybody = pa.concat_tables(load().values())
    order = np.random.default_rng(0).permutation(len(everybody))
    rows = np.array_split(order, len(SIXTEEN))[SIXTEEN.index(silo)]
    path = folder / "rows.parquet"
    pyarrow.parquet.write_table(everybody.take(rows), path)
    return path


@pytest.fixture(scope="module")
def sixteen(tmp_path_factory):
    pytest.importorskip("nvflare")
    folder = tmp_path_factory.mktemp("sixteen")
    made = Consortium(folder, SIXTEEN, write_part, gently=True)
    try:
        with contextlib.ExitStack() as changes:
            for silo in SIXTEEN:
                changes.enter_context(made.changed(silo, "policy.toml", POLICY))
            made.start()
            yield made
    finally:
        made.stop()


def test_heart_study_of_sixteen_silos(sixteen, tmp_path):
    text = study_text("sixteen", HEART, SIXTEEN).replace("= 30", "= 200")
    text += "[outputs]\nreport = false\n"
    file = tmp_path / "sixteen.toml"
    file.write_text(text)

    done = Study.from_file(file).run(kit=sixteen.coordinator)

    for silo in SIXTEEN:
        source = sixteen.kit(silo) / "local" / "rows.parquet"
        own = f'[parties.{silo}]\nsource = "{source}"'
        text = text.replace(f"[parties.{silo}]", own)
    text += f"[policy]\n{POLICY}"
    (tmp_path / "alone").mkdir()
    alone = Study.from_text(tmp_path / "alone" / "sixteen.toml", text).run(follow=True)
    for step, theirs in alone.models.items():
        assert_equal_models(done.models[step], theirs)
    assert lines(done.ledger) == lines(alone.ledger)
    assert_ledger_tells_what_left(sixteen, "sixteen", done.ledger, SIXTEEN)
