"""Updates over silos behind their doors: what these keep, and what they refuse."""

import base64
import functools

import numpy as np
import polars
import pytest
import sklearn.decomposition

from server_end import ServerEnd
from twins import assert_same_pca
from unpooled.errors import StudyError
from unpooled.models.files.model_file import save
from unpooled.models.pca import update
from unpooled.party.memory.audit_log import AuditLog
from unpooled.party.memory.studies import forget_kept
from unpooled.party.rules.unusable_cells import UnusableCells
from unpooled.protocol.step import find_step
from unpooled.study import Study
from unpooled.study.announcement import read_announced
from unpooled.study.job_messages import error_of, plan_of
from unpooled.study.model_updates import carried

SILOS = ("north", "south", "west")
FIT = 'model = "PCA"\nn_components = 2\n'


def text(name, step, silos=SILOS):
    parties = "\n".join(f"[parties.{silo}]" for silo in silos)
    return (
        f'[study]\nname = "{name}"\n{parties}\n[[steps]]\n{step}'
        f"[outputs]\nreport = false\n"
    )


@pytest.fixture
def rows():
    rng = np.random.default_rng(5)
    mixed = rng.normal(size=(190, 4)) @ rng.normal(size=(4, 4)) + [0, 5, -3, 100]
    return dict(zip((*SILOS, "east"), np.split(mixed, [40, 90, 150]), strict=True))


@pytest.fixture
def write(rows):
    def written(silo, folder):
        frame = polars.DataFrame(rows[silo], list("abcd"))
        frame.write_csv(folder / f"{silo}.csv", float_precision=17)
        return folder / f"{silo}.csv"

    return written


@pytest.fixture
def server(tmp_path, rows, write):
    return ServerEnd(tmp_path, tuple(rows), write, label=None)


@pytest.fixture
def grow(rows, write, tmp_path):
    """Append rows to a silo's file."""

    def grown(silo, by, seed=9):
        rng = np.random.default_rng(seed)
        more = rng.normal(size=(by, 4)) * 3 + [1, 4, 0, 90]
        rows[silo] = np.concatenate([rows[silo], more])
        write(silo, tmp_path)

    return grown


def pooled(rows, silos=SILOS):
    joined = np.concatenate([rows[silo] for silo in silos])
    return sklearn.decomposition.PCA(2, svd_solver="full").fit(joined)


def finished(outcome, place):
    if outcome["error"] is not None:
        raise error_of(outcome["error"])
    ((_, model),) = place.models()
    return model


def refused(outcome, place):
    """Return the rule, where nothing was opened."""
    assert outcome["error"] is not None
    assert place is None or not place.state.finished
    return outcome["error"]["rule"]


@pytest.fixture
def brought(server, tmp_path):
    """Run an update of a fitted model as its submitter would."""

    def run(name, model, silos=SILOS, do="run"):
        save(model, tmp_path / "model.unpooled")
        step = 'model = "PCA"\nupdate = "model.unpooled"\n'
        told = text(name, step, silos)
        study = Study.from_text(tmp_path / "study.toml", told)
        return server.ask(do, told, models=carried(study, again=do == "resume"))

    return run


@pytest.fixture
def fitted(server):
    return finished(*server.ask("run", text("january", FIT)))


@pytest.fixture
def read(monkeypatch):
    """How many rows the silos handed to the step, each time."""
    found = []
    step = update.local_moments.function

    @functools.wraps(step)
    def counting(X, **public):
        found.append(len(X))
        return step(X, **public)

    both = (update.local_moments, find_step("pca.local_moments"))
    for named in both:
        object.__setattr__(named, "function", counting)
    yield found
    for named in both:
        object.__setattr__(named, "function", step)


@pytest.mark.slow
def test_silos_read_only_what_was_appended_since_another_study(
    server, rows, grow, fitted, brought, read
):
    grow("south", 25)
    second = finished(*brought("february", fitted))
    assert sorted(read) == [40, 60, 75]
    grow("south", 30, seed=3)
    read.clear()

    outcome, place = brought("march", second)

    third = finished(outcome, place)
    assert read == [30]
    assert_same_pca(third, pooled(rows), rtol=1e-10)
    assert [x.step for x in place.ledger if x.direction == "out"] == (
        ["pca.local_moments"] * 3
    )
    for silo in SILOS:
        log = server.silos[silo].parent / "state" / "audit.sqlite"
        assert AuditLog(log).verify()


@pytest.mark.slow
def test_what_was_forgotten_is_computed_again(
    server, rows, grow, fitted, brought, read
):
    grow("south", 25)
    second = finished(*brought("february", fitted))
    journal = AuditLog(server.silos["south"].parent / "state" / "audit.sqlite")
    journal.forgotten("february", [])
    forget_kept(journal, "february", server.silos["south"].parent / "results")
    # Half a file is as good as none.
    kept = server.silos["west"].parent / "state" / "audit.kept"
    (path,) = kept.rglob("*.npz")
    path.write_bytes(path.read_bytes()[:100])
    read.clear()

    third = finished(*brought("march", second))

    assert sorted(read) == [60, 75]
    assert_same_pca(third, pooled(rows), rtol=1e-10)


@pytest.mark.slow
def test_too_few_changed_rows_are_refused(grow, fitted, brought):
    grow("south", 9)

    assert refused(*brought("february", fitted)) == "min_changed_rows"


@pytest.mark.slow
def test_another_roster_needs_every_silos_leave(server, rows, fitted, brought):
    everybody = (*SILOS, "east")

    assert refused(*brought("february", fitted, everybody)) == "allow_roster_change"
    assert refused(*brought("march", fitted, SILOS[:2])) == "min_parties"
    for local in server.silos.values():
        (local / "policy.toml").write_text("allow_roster_change = true\n")
    april = finished(*brought("april", fitted, everybody))

    assert_same_pca(april, pooled(rows, everybody), rtol=1e-10)


@pytest.mark.slow
def test_goes_on_with_the_servers_own_copy(
    server, rows, grow, write, fitted, brought, tmp_path, monkeypatch
):
    grow("south", 25)
    whole, rows["south"] = rows["south"], rows["south"].copy()
    rows["south"][-1, 0] = np.nan
    write("south", tmp_path)
    # As if no plan found this: the study began.
    monkeypatch.setattr(UnusableCells, "check", lambda *_, **__: None)
    assert refused(*brought("february", fitted)) == "missing_values"
    rows["south"] = whole
    write("south", tmp_path)
    asked = (server.kit / "studies" / "february" / "study.toml").read_text()

    done = finished(*server.ask("resume", asked))

    assert_same_pca(done, pooled(rows), rtol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize(
    "files",
    [None, {}, {"pca": "%%%"}, {"pca": base64.b64encode(b"none").decode()}, ["pca"]],
    ids=["nothing", "empty", "base64", "bytes", "list"],
)
def test_a_job_without_the_model_reads_no_file_of_the_server(
    server, fitted, tmp_path, files
):
    there = save(fitted, tmp_path / "there.unpooled")
    step = f'model = "PCA"\nupdate = "{there}"\n'

    outcome, place = server.ask("run", text("february", step), models=files)

    assert isinstance(error_of(outcome["error"]), StudyError)
    assert str(there) not in outcome["error"]["text"]
    assert place is None


@pytest.mark.slow
def test_a_person_at_a_silo_sees_what_an_update_tells(server, fitted):
    step = 'model = "PCA"\nupdate = "anywhere.unpooled"\n'
    party = server.party("south")

    announced = read_announced(party, "february", text("february", step))

    assert announced.steps == ("pca.*",)
    out = [x for x in announced.plan.releases if x.direction == "out"]
    assert [(x.name, x.shape) for x in out] == [
        ("count", ()),
        ("total", (4,)),
        ("scatter", (4, 4)),
    ]
    assert "An update tells more than a fit" in announced.plan.notes[0]


@pytest.mark.slow
def test_a_plan_is_of_the_model_that_came_along(server, fitted, brought):
    outcome, place = brought("february", fitted, do="plan")

    assert outcome["error"] is None
    assert place is None
    assert plan_of(outcome["plan"]).rounds == 1
