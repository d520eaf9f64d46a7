"""Builds of the library: version and digest, stated by both ends, refused by rule."""

import dataclasses
import shutil
from pathlib import Path

import pytest

import unpooled
from server_end import ServerEnd
from unpooled.errors import ReleaseRefusedError, StudyError
from unpooled.ledger import Ledger
from unpooled.protocol.library_build import (
    allowed_builds,
    library_build,
    source_digest,
)
from unpooled.study.job_messages import error_of, plan_of
from unpooled.study.study_file import StudyFile

OTHER = "0.9.0+0123456789abcdef"
STUDY = """\
[study]
name = "builds"
label = "num"
{more}
[parties.cleveland]
[parties.hungary]
[parties.va]
[[steps]]
model = "SimpleImputer"
[outputs]
report = false
"""


def test_the_digest_is_of_every_module_and_its_place(tmp_path):
    source = Path(unpooled.__file__).parent
    copy = tmp_path / "unpooled"
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
    same = source_digest(copy)
    assert same == source_digest(source)
    assert library_build() == f"{unpooled.__version__}+{same[:16]}"

    (copy / "notes.txt").write_text("no module")
    (copy / "__pycache__").mkdir()
    assert source_digest(copy) == same
    module = copy / "models" / "imputer.py"
    module = module if module.exists() else next(copy.rglob("*imputer*.py"))
    text = module.read_text()
    module.write_text(text + "\n")
    assert source_digest(copy) != same
    module.write_text(text)
    module.rename(module.with_name("elsewhere.py"))
    assert source_digest(copy) != same


def test_a_text_lists_builds():
    assert allowed_builds(STUDY.format(more=f'versions = ["{OTHER}"]')) == (OTHER,)
    assert allowed_builds(STUDY.format(more="")) == ()
    assert allowed_builds("") == allowed_builds("no TOML [") == ()
    read = StudyFile.from_text(
        Path("s.toml"), STUDY.format(more=f'versions = ["{OTHER}"]')
    )
    assert read.versions == (OTHER,)
    with pytest.raises(StudyError, match=r"versions: \"0\.9\.0\" is not a build"):
        StudyFile.from_text(Path("s.toml"), STUDY.format(more='versions = ["0.9.0"]'))


@pytest.fixture
def silos_differ(monkeypatch):
    """The silos' end of this process has another build than the coordinator's."""
    for module in ("memory.studies", "party"):
        monkeypatch.setattr(f"unpooled.party.{module}.library_build", lambda: OTHER)


@pytest.mark.usefixtures("silos_differ")
@pytest.mark.parametrize("action", ["plan", "run"])
def test_a_silo_of_another_build_is_refused_by_name(tmp_path, action):
    outcome, place = ServerEnd(tmp_path).ask(action, STUDY.format(more=""))

    reason = error_of(outcome["error"])
    assert isinstance(reason, ReleaseRefusedError)
    assert reason.rule == "version"
    assert f"has {OTHER}" in str(reason)
    assert library_build() in str(reason)
    assert place is None


@pytest.mark.slow
@pytest.mark.usefixtures("silos_differ")
def test_a_study_may_list_it_and_plan_and_ledger_have_it(tmp_path):
    server = ServerEnd(tmp_path)
    outcome, place = server.ask("run", STUDY.format(more=f'versions = ["{OTHER}"]'))

    assert outcome["error"] is None
    assert place is not None
    assert set(plan_of(outcome["plan"]).libraries.values()) == {OTHER}
    assert place.ledger.verify()
    assert set(place.ledger.libraries.values()) == {(OTHER,)}


@pytest.mark.slow
@pytest.mark.parametrize("listed", [False, True])
def test_a_study_is_not_continued_by_another_build(tmp_path, monkeypatch, listed):
    """Also where all ends were upgraded, unless the study's text lists the former."""
    server = ServerEnd(tmp_path)
    former = library_build()
    more = f'versions = ["{former}"]' if listed else ""
    text = STUDY.format(more=more).replace(
        "[outputs]", '[[steps]]\nmodel = "StandardScaler"\n[outputs]'
    )
    server.dies_after(2)
    server.ask("run", text)
    server.dies_after(None)
    monkeypatch.setattr(unpooled, "__version__", "9.9.9")
    library_build.cache_clear()
    try:
        outcome, place = server.ask("resume", text)
    finally:
        library_build.cache_clear()

    assert place is not None
    if listed:
        assert outcome["error"] is None
        return
    reason = error_of(outcome["error"])
    assert reason.rule == "version"
    assert f"builds was begun with unpooled {former}, and the server" in str(reason)
    assert not place.state.resumed


@pytest.mark.thinned(1)
@pytest.mark.parametrize("build", [OTHER, None])
def test_a_silo_refuses_a_coordinator_of_another_build(tmp_path, monkeypatch, build):
    """Also a coordinator that does not compare the silos' builds, or states none."""
    at = "unpooled.coordinator.coordinator.library_build"
    monkeypatch.setattr(at, lambda: build)
    outcome, _ = ServerEnd(tmp_path).ask("run", STUDY.format(more=""))

    assert error_of(outcome["error"]).rule == "version"


@pytest.mark.slow
def test_a_seal_is_of_one_build(tmp_path):
    """The build is signed: to change it in a ledger breaks the seal."""
    _, place = ServerEnd(tmp_path).ask("run", STUDY.format(more=""))
    assert place is not None
    assert set(place.ledger.libraries.values()) == {(library_build(),)}
    text = place.ledger.to_lines()
    changed = Ledger.from_json(text.replace(library_build(), OTHER))
    again = Ledger()
    for line in changed:
        body = dataclasses.replace(line, hash="", time="")
        again.append(body, line.seals)
    with pytest.raises(StudyError, match="not sealed by cleveland as written"):
        again.verify()
