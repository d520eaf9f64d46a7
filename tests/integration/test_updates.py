"""A fitted PCA is brought up to date over a consortium: studies months apart."""

import numpy as np
import polars
import pytest
import sklearn.decomposition

import unpooled as up
from integration.comparing import assert_equal_models, lines
from integration.consortium import study_text
from integration.mishaps import within
from integration.rows import SILOS
from integration.terminal import unpooled
from twins import assert_same_pca
from unpooled.data.heart_disease import load
from unpooled.errors import ReleaseRefusedError
from unpooled.party.memory.audit_log import AuditLog

COLUMNS = ["age", "sex", "cp"]  # nobody lacks a cell of these
FIT = '[[steps]]\nmodel = "PCA"\nn_components = 2\n'
PATIENCE = 200.0


@pytest.fixture(scope="module")
def sources(consortium, tmp_path_factory):
    """Silos with rows, rules and a log for these tests; each one's file."""
    folder = tmp_path_factory.mktemp("growing")
    paths = {silo: folder / f"{silo}.csv" for silo in SILOS}
    for silo, path in paths.items():
        polars.DataFrame(load()[silo]).select(COLUMNS).write_csv(path)
    with consortium.settled("min_rows = 10\n", audit="updates", sources=paths):
        yield paths


def append(path, rows):
    with path.open("a") as stream:
        stream.writelines(",".join(map(str, row)) + "\n" for row in rows)


def text(name, steps, where=None):
    told = study_text(name, steps).replace('label = "num"\n', "")
    for silo, path in (where or {}).items():
        told = told.replace(f"[parties.{silo}]", f'[parties.{silo}]\nsource = "{path}"')
    return told


def run(consortium, name, steps):
    path = consortium.folder / f"{name}.toml"
    path.write_text(text(name, steps))
    study = up.Study.from_file(path)
    return within(PATIENCE, study.run, kit=consortium.coordinator)


def test_an_update_equals_a_refit_and_one_process(consortium, sources, tmp_path):
    january = run(consortium, "january", FIT)
    append(sources["va"], np.random.default_rng(0).integers(0, 5, (40, 3)))
    model = january.folder / "models" / "01-pca.unpooled"
    steps = f'[[steps]]\nmodel = "PCA"\nupdate = "{model}"\n'

    february = run(consortium, "february", steps)

    joined = np.concatenate([polars.read_csv(p).to_numpy() for p in sources.values()])
    pooled = sklearn.decomposition.PCA(2, svd_solver="full").fit(joined)
    assert_same_pca(february.models["pca"], pooled, rtol=1e-10)
    told = text("february", steps, sources)
    alone = up.Study.from_text(tmp_path / "february.toml", told).run()
    assert_equal_models(february.models["pca"], alone.models["pca"])
    # What left: silos that follow were sent the earlier model's numbers as well.
    there, here = lines(february.ledger), lines(alone.ledger)
    assert [x for x in there if "out" in x] == [x for x in here if "out" in x]
    assert {line.round for line in february.ledger} == {1}
    assert february.report is not None
    page = " ".join(february.report.read_text().split())
    assert f"over {len(joined) - 40} rows" in page
    # What each silo will add to next time, and the model that it was given.
    for silo, path in sources.items():
        state = consortium.kit(silo) / "state"
        (kept,) = (state / "updates.kept" / "february").rglob("*.npz")
        with np.load(kept, allow_pickle=False) as archive:
            assert archive["n_rows"] == len(polars.read_csv(path))
        assert (state / "models" / "february" / "01-pca.unpooled").exists()
        assert AuditLog(state / "updates.sqlite").verify()

    append(sources["va"], [[50, 1, 2]] * 3)
    with pytest.raises(ReleaseRefusedError, match=r"va refused .*min_changed_rows"):
        run(consortium, "march", steps)

    logged = unpooled("silo", "log", "--verify", "--kit", consortium.kit("va"))
    assert logged.returncode == 0, logged.stderr
    shown = " ".join(logged.stdout.split())
    assert "refused pca.local_moments: min_changed_rows" in shown
