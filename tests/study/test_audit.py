"""`unpooled audit`: any edit of a run's folder is found, and nothing else is."""

import contextlib
import json
import shutil
import sqlite3

import pytest
from typer.testing import CliRunner

from server_end import ServerEnd
from unpooled.cli import app
from unpooled.errors import StudyError
from unpooled.ledger import Ledger
from unpooled.models.files.model_file import load, save
from unpooled.party.setup.pinning import trusted_keys, unpin
from unpooled.party.setup.silo_file import SiloFile, make_identity
from unpooled.party.setup.silo_init import pin, rotate
from unpooled.protocol.library_build import library_build
from unpooled.secure.keys.roster import Roster

STUDY = """\
[study]
name = "audited"
label = "num"
[parties.cleveland]
[parties.hungary]
[parties.va]
[[steps]]
model = "SimpleImputer"
[[steps]]
model = "PCA"
n_components = 2
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of a finished run, and the silos' logs."""
    server = ServerEnd(tmp_path_factory.mktemp("consortium"))
    place = server.done("run", STUDY)

    logs = {
        silo: local.parent / "state" / "audit.sqlite"
        for silo, local in server.silos.items()
    }
    return place.path, logs, server.kit / "local" / "roster.toml"


@pytest.fixture
def run(finished, tmp_path):
    shutil.copytree(finished[0], tmp_path / "run")
    return tmp_path / "run"


def audit(run, *more, code=0):
    done = CliRunner(env={"COLUMNS": "400"}).invoke(
        app, ["audit", str(run), *map(str, more)]
    )
    assert done.exit_code == code, done.output
    return done.output


@pytest.mark.slow
def test_a_run_as_it_was_written_is_good(finished, run):
    _, logs, roster = finished
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    options = [word for log in logs.values() for word in ("--log", log)]

    said = audit(run, "--roster", roster, *options)

    assert "WRONG" not in said
    assert said.count("none lacking; 3 delivered models") == 3
    assert "The same as one written again" in said
    assert before == {p: p.read_bytes() for p in run.rglob("*") if p.is_file()}
    digest = Roster.from_file(roster).digest()
    assert digest in audit(run)


def changed(line, **values):
    return json.dumps(json.loads(line) | values)


# What is done to the lines of ledger.jsonl, and what is said of it.
EDITS = {
    "bytes": (
        lambda lines: [changed(lines[0], bytes=8), *lines[1:]],
        "Line 0 of the ledger",
    ),
    "name": (
        lambda lines: [*lines[:2], changed(lines[2], name="other"), *lines[3:]],
        "Line 2 of the ledger",
    ),
    "cut out": (lambda lines: [*lines[:3], *lines[4:]], "Line 3 of the ledger"),
    "cut off": (lambda lines: lines[:-1], "lines were cut or added"),
    "swapped": (lambda lines: [lines[1], lines[0], *lines[2:]], "Line 0 of the"),
    "half a line": (lambda lines: [*lines[:-1], lines[-1][:40]], "incomplete"),
}


@pytest.mark.slow
@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_ledger_is_found(run, edit):
    change, says = EDITS[edit]
    path = run / "ledger.jsonl"
    lines = change(path.read_text().splitlines())
    end = "" if edit == "half a line" else "\n"
    path.write_text("\n".join(lines) + end)

    assert says in audit(run, code=1)


def chained_anew(run, lines):
    """Write lines with new hashes, and the state that counts them."""
    ledger = Ledger()
    for line in lines:
        ledger.append(line, line.seals)
    (run / "ledger.jsonl").write_text(ledger.to_lines())
    state = json.loads((run / "state.json").read_text())
    state |= {"lines": len(ledger), "head": ledger[-1].hash}
    (run / "state.json").write_text(json.dumps(state))
    CliRunner().invoke(app, ["report", str(run)])


@pytest.mark.slow
def test_a_ledger_cut_off_and_chained_anew_differs_from_the_logs(finished, run):
    lines = list(Ledger.from_json((run / "ledger.jsonl").read_text()))
    chained_anew(run, lines[:-1])

    assert "WRONG" not in audit(run)
    said = audit(run, "--log", finished[1]["va"], code=1)
    assert "The ledger lacks 1 of the lines that va has" in said


@pytest.mark.slow
def test_a_log_that_was_rolled_back_is_found(finished, run, tmp_path):
    copy = tmp_path / "audit.sqlite"
    database = sqlite3.connect(copy)
    # Not as a file: its last entries may still be beside it, in SQLite's own log.
    with contextlib.closing(sqlite3.connect(finished[1]["va"])) as log:
        log.backup(database)
    database.execute("DROP TRIGGER entries_remain")
    (last,) = database.execute("SELECT MAX(number) FROM entries WHERE kind = 'round'")
    database.execute("DELETE FROM entries WHERE number >= ?", last)
    database.execute("DELETE FROM entries WHERE number > (SELECT MAX(number) FROM "
                     "entries WHERE kind = 'round')")  # fmt: skip
    database.commit()
    database.close()

    said = audit(run, "--log", copy, code=1)
    assert "sealed by va, but its audit log" in said
    assert str(copy) in said


@pytest.mark.slow
def test_keys_that_were_rotated_are_known_and_revoked_ones_are_named(tmp_path):
    server = ServerEnd(tmp_path)
    _, first = server.ask("run", STUDY)
    silo = SiloFile.from_file(server.silos["va"] / "silo.toml")
    former = silo.key().public.hex()
    public = rotate(silo)
    rosters = {name: local / "roster.toml" for name, local in server.silos.items()}
    rosters["server"] = server.kit / "local" / "roster.toml"
    for name in rosters.keys() - {"va"}:
        pin(rosters[name], [public])
    _, second = server.ask("run", STUDY.replace('"audited"', '"later"'))
    assert first is not None
    assert second is not None

    for place in (first, second):
        for roster in ([], ["--roster", rosters["server"]]):
            said = audit(place.path, *roster, "--log", silo.audit)
            assert "WRONG" not in said

    other = rosters["hungary"]
    unpin(other, "va")
    with pytest.raises(StudyError, match=former):
        first.ledger.verify(trusted_keys(other) | {"va": (silo.key().public,)})
    (tmp_path / "now.toml").write_text(Roster.from_file(rosters["va"]).to_toml())
    said = audit(second.path, "--roster", tmp_path / "now.toml", "--log", silo.audit,
                 code=1)  # fmt: skip
    assert f"signed with the key {former}, which is none of this silo's" in said


@pytest.mark.slow
def test_an_invented_ledger_needs_a_roster(run, tmp_path):
    others = Roster(
        {
            silo: make_identity(tmp_path / silo).public
            for silo in ("cleveland", "hungary", "va")
        }
    )
    (tmp_path / "roster.toml").write_text(others.to_toml())

    said = audit(run, "--roster", tmp_path / "roster.toml", code=1)
    assert "Line 0 of the ledger" in said


@pytest.mark.slow
def test_a_run_that_was_interrupted_has_no_digests_yet(tmp_path):
    server = ServerEnd(tmp_path)
    server.dies_after(3)
    _, place = server.ask("run", STUDY)
    assert place is not None

    said = audit(place.path)

    assert "not complete, 1 steps finished" in said
    assert "their digests are noted once the run is complete" in said
    assert "WRONG" not in said


@pytest.mark.slow
def test_an_edited_model_is_found(finished, run):
    path = run / "models" / "02-pca.unpooled"
    model = load(path)
    model.explained_variance_[0] *= 2.0
    save(model, path)
    assert "02-pca.unpooled was altered" in audit(run, code=1)

    (run / "digests.json").unlink()
    assert "report.html differs from one written again" in audit(run, code=1)
    CliRunner().invoke(app, ["report", str(run)])
    assert "WRONG" not in audit(run)
    said = audit(run, "--log", finished[1]["hungary"], code=1)
    assert "02-pca in the run is not the one that was delivered to hungary" in said


@pytest.mark.slow
def test_models_of_other_steps_are_found(run):
    shutil.copy(
        run / "models/02-pca.unpooled", run / "models/01-simpleimputer.unpooled"
    )
    said = audit(run, code=1)
    assert "altered" in said or "asks for" in said
    (run / "models" / "03-extra.unpooled").write_bytes(b"")
    assert "WRONG" in audit(run, code=1)


@pytest.mark.thinned(1)
@pytest.mark.parametrize("known", [True, False])
def test_an_edited_report_is_found(run, known):
    path = run / "report.html"
    path.write_text(path.read_text().replace("Silo", "Cilo", 1))
    if not known:
        (run / "digests.json").unlink()
    said = audit(run, code=1)
    assert "report.html" in said


@pytest.mark.slow
def test_a_report_of_other_programs_is_of_this_ledger_or_not(run):
    (run / "digests.json").unlink()
    path = run / "report.html"
    written = path.read_text()
    # Such as another source of this library under the same version.
    text = written.replace(f"<dd>{library_build()}<", "<dd>0.9.0+0123456789abcdef<")
    assert text != written
    path.write_text(text)
    assert "Other versions of programs wrote it" in audit(run)
    ledger = Ledger.from_json((run / "ledger.jsonl").read_text())
    path.write_text(text.replace(ledger[-1].hash, "0" * 64))
    assert "report.html is of another ledger" in audit(run, code=1)


@pytest.mark.slow
def test_a_changed_study_file_is_found(run):
    path = run / "study.toml"
    path.write_text(path.read_text() + "# later\n")
    assert "study.toml is not the text" in audit(run, code=1)


def test_a_folder_that_is_no_run(tmp_path):
    done = CliRunner().invoke(app, ["audit", str(tmp_path)])
    assert done.exit_code == 1
    assert "is not the folder of a run" in " ".join(done.output.split())
