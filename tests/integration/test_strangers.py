"""Who has no place in the consortium gets none: silos, identities and jobs."""

import datetime
import json
import shutil
import subprocess

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

import unpooled as up
from integration.certificates import DAY, signed_anew
from integration.consortium import (
    BOUND,
    HEART,
    REGISTERED,
    study_text,
    surroundings,
    wait_for,
)
from integration.rows import SILOS
from unpooled.errors import AggregationError, StudyError
from unpooled.federation.nvflare.jobs import SILO_CONFIG, write_job
from unpooled.federation.nvflare.startup_kits import check_connection, command_of
from unpooled.federation.nvflare.submission import is_over, submission
from unpooled.party.memory.audit_log import AuditLog
from unpooled.secure.keys.roster import Identity, Roster

# --- certificates ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def strangers(consortium, tmp_path_factory):
    """Kits of a silo, but for the certificate; their processes run."""
    root = (consortium.kits / "authority" / "rootCA.key").read_bytes()
    authority = serialization.load_pem_private_key(root, None)
    now = datetime.datetime.now(datetime.UTC)
    how = {
        "expired": (authority, now - DAY),
        "unregistered": (rsa.generate_private_key(65537, 2048), now + DAY),
    }
    folder, kits, processes = tmp_path_factory.mktemp("strangers"), {}, {}
    try:
        for name, (key, until) in how.items():
            kits[name] = shutil.copytree(consortium.kit("budapest"), folder / name)
            path = kits[name] / "startup" / "client.crt"
            path.write_bytes(signed_anew(path.read_bytes(), key, until))
            (kits[name] / "transfer").mkdir(exist_ok=True)
            with (folder / f"{name}.log").open("wb") as output:
                processes[name] = subprocess.Popen(
                    [*BOUND, *command_of(kits[name])],
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=surroundings(),
                    start_new_session=True,
                )
        yield kits, processes
    finally:
        for process in processes.values():
            process.kill()
            process.wait()


@pytest.mark.parametrize(
    ("which", "says"),
    [("expired", "CERTIFICATE_EXPIRED"), ("unregistered", "DECRYPT_ERROR|UNKNOWN_CA")],
)
def test_the_server_refuses_a_certificate(strangers, which, says):
    """Said by the server: the silo's own end finds nothing wrong."""
    kits, _ = strangers
    with pytest.raises(StudyError, match=says):
        check_connection(kits[which])


def test_control_the_kit_as_it_was_gets_in(consortium):
    assert check_connection(consortium.kit("budapest")).participant == "budapest"


# --- jobs -----------------------------------------------------------------------------


def other_class(app):
    path = app / "config" / SILO_CONFIG
    content = json.loads(path.read_text())
    content["components"][0]["path"] = "unpooled.party.setup.silo_file.Silo"
    path.write_text(json.dumps(content))


def custom_code(app):
    (app / "custom").mkdir()
    (app / "custom" / "helpful.py").write_text("raise SystemExit\n")


def another_file(app):
    (app / "config" / "notes.txt").write_text("harmless\n")


@pytest.fixture(scope="module")
def unguarded(consortium):
    """A silo whose kit asks nobody about jobs: what is behind the guard."""
    with consortium.edited("switzerland", "resources.json") as content:
        del content["app_validator"]
    consortium.start("switzerland")
    yield "switzerland"
    consortium.kill("switzerland")


def outcome(consortium, folder, silos, change):
    """Submit a job that was tampered with; return what became of it."""
    write_job(folder / "job", "foreign", silos, {})
    change(folder / "job" / "app_party")
    with submission(consortium.coordinator) as session:
        job = session._session.submit_job(str(folder / "job"))
        wait_for(lambda: is_over(session.status(job, 60.0)))
        return session._session.get_job_meta(job)


@pytest.mark.parametrize("change", [other_class, custom_code, another_file])
def test_a_foreign_job_is_refused_by_every_silo(consortium, tmp_path, change):
    told = outcome(consortium, tmp_path, SILOS, change)

    assert told["status"] != "FINISHED:COMPLETED"
    refused = {f"{silo}: NVFLARE_ERROR: foreign_job" for silo in SILOS}
    assert refused <= set(told["job_deploy_detail"])
    what = "other classes" if change is other_class else "files of its own"
    for silo in SILOS:
        journal = AuditLog(consortium.kit(silo) / "state" / "audit.sqlite")
        assert ("refused", f"a job {'of' if 'other' in what else 'with'} {what}") in [
            (entry.kind, entry.record.get("asked")) for entry in journal.entries("")
        ]


@pytest.mark.parametrize("change", [other_class, custom_code])
def test_the_engine_refuses_it_too(consortium, unguarded, tmp_path, change):
    told = outcome(consortium, tmp_path, [unguarded], change)

    assert told["status"] != "FINISHED:COMPLETED"
    if change is custom_code:
        assert f"{unguarded}: NVFLARE_ERROR: BYOC not permitted" in str(told)
    else:
        assert "is not in allow_list" in consortium.log(unguarded)


# --- identities -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pins_itself", "says", "own"),
    [
        (
            False,
            "va could not open its source, policy, identity, roster or audit log",
            "does not have va under the key",
        ),
        (True, "name of va is not signed", ""),
    ],
)
def test_an_identity_that_nobody_pins_is_refused(consortium, pins_itself, says, own):
    local = consortium.kit("va") / "local"
    stranger, roster = Identity(), Roster.from_file(local / "roster.toml")
    if pins_itself:
        roster = Roster(dict(roster) | {"va": stranger.public})
    path = consortium.folder / f"impostor-{pins_itself}.toml"
    path.write_text(study_text(path.stem, HEART))
    with (
        consortium.changed("va", "identity.key", stranger.private_bytes().hex()),
        consortium.changed("va", "roster.toml", roster.to_toml()),
        pytest.raises(AggregationError, match=says),
    ):
        up.Study.from_file(path).run(kit=consortium.coordinator)

    assert own in consortium.log("va")


# --- in the end -----------------------------------------------------------------------


def test_strangers_never_got_in(strangers):
    """Their processes have tried since the first of these tests."""
    kits, processes = strangers
    for name, process in processes.items():
        assert process.poll() is None
        assert REGISTERED not in (kits[name].parent / f"{name}.log").read_text()
