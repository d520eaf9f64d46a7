"""`unpooled silo init`, `pin` and `check`."""

import sqlite3
import subprocess
import sys

import numpy as np
import pandas as pd
import polars
import pyreadstat
import pytest

import kit_folders
from silo_command import FILE, free_port, kit, public, run, source
from unpooled.federation.nvflare.hardening import harden
from unpooled.party.memory.audit_log import AuditLog
from unpooled.party.setup.silo_file import SiloFile
from unpooled.secure.keys.roster import Roster

# Fixtures of another module.
__all__ = ["kit", "source"]


def test_init_sets_a_silo_up_and_shows_its_public_line(kit, source):
    told = run(
        "silo", "init", "--kit", kit, "--source", source, "--label", "num",
        "--missing", "chol=0", "--approve-each-study",
    )  # fmt: skip

    silo = SiloFile.from_file(kit / "local" / "silo.toml")
    assert silo.name == "va"
    assert silo.approval == "each-study"
    assert silo.missing == {"chol": [0.0]}
    assert f'"va" = "{silo.key().public.hex()}"' in told
    assert silo.key().private_bytes().hex() not in told


def test_init_asks_what_it_was_not_told(kit, source, monkeypatch):
    monkeypatch.setattr("unpooled.cli.silo.sys", Terminal)

    run("silo", "init", "--kit", kit, input=f"{source}\nnum\n\nage, chol\nchol\n")

    silo = SiloFile.from_file(kit / "local" / "silo.toml")
    assert (silo.label, silo.ids, silo.columns) == ("num", None, ("age", "chol"))
    assert silo.categorical == ("chol",)


class Terminal:
    class stdin:  # noqa: N801
        isatty = staticmethod(lambda: True)


def test_init_without_a_person_needs_a_source(kit):
    assert "--source is missing" in run("silo", "init", "--kit", kit, code=2)


@pytest.mark.parametrize("entry", ["chol", "chol=", "=0"])
def test_codes_that_are_none_are_wrong_use(kit, source, entry):
    arguments = ("silo", "init", "--kit", kit, "--source", source, "--missing", entry)

    assert "give column=value" in run(*arguments, code=2)


def test_init_renames_the_columns_of_a_file(kit, tmp_path):
    source = tmp_path / "rows.csv"
    source.write_text("ALTER,Größe (cm),KRANK\n63,170,1\n41,165,0\n", "utf-8")

    run(
        "silo", "init", "--kit", kit, "--source", source, "--label", "ill",
        "--rename", "ALTER=age", "--rename", "Größe (cm)=height",
        "--rename", "KRANK=ill",
    )  # fmt: skip

    table = SiloFile.from_file(kit / "local" / "silo.toml").table()
    assert (table.columns, table.label) == (("age", "height"), "ill")
    assert "height" in run("silo", "check", "--kit", kit, "--offline")


@pytest.mark.thinned(1)
@pytest.mark.parametrize("ending", ["sav", "dta"])
def test_check_shows_what_the_file_says_that_codes_mean(kit, tmp_path, ending):
    source = tmp_path / f"rows.{ending}"
    frame = pd.DataFrame(
        {"SEX": [1, 2, 2, 1], "age": [63, 41, 56, 57], "ill": [0, 1] * 2}
    )
    write = {"sav": pyreadstat.write_sav, "dta": pyreadstat.write_dta}[ending]
    meant = {"SEX": {1: "female", 2: "male"}, "ill": {0: "well", 1: "ill\x1b[2J"}}
    write(frame, source, variable_value_labels=meant)
    run(
        "silo", "init", "--kit", kit, "--source", source, "--label", "ill",
        "--rename", "SEX=sex",
    )  # fmt: skip

    shown = run("silo", "check", "--kit", kit, "--offline")

    assert "What the file says that codes mean" in shown
    assert "sex: 1 = female and 2 = male" in shown
    assert "ill: 0 = well" in shown
    assert "\x1b" not in shown


@pytest.mark.parametrize("entry", ["ALTER", "ALTER=", "=age"])
def test_names_that_are_none_are_wrong_use(kit, source, entry):
    arguments = ("silo", "init", "--kit", kit, "--source", source, "--rename", entry)

    assert "--rename" in run(*arguments, code=2)


def test_init_twice_is_refused(kit, source):
    arguments = ("silo", "init", "--kit", kit, "--source", source)
    run(*arguments)

    assert "set up already" in run(*arguments, code=1)


def test_init_names_a_wrong_column(kit, source):
    arguments = ("silo", "init", "--kit", kit, "--source", source, "--label", "nun")

    assert "Did you mean 'num'" in run(*arguments, code=1)
    assert not (kit / "local" / "silo.toml").exists()


def test_init_needs_a_kit_or_a_name(tmp_path, source):
    arguments = ("silo", "init", "--kit", tmp_path, "--source", source)

    assert "is not a kit" in run(*arguments, code=1)
    run(*arguments, "--name", "va")
    assert SiloFile.from_file(tmp_path / "local" / "silo.toml").name == "va"


def test_pin_tells_the_digest_to_compare(kit, source, tmp_path):
    run("silo", "init", "--kit", kit, "--source", source)
    lines = [public(tmp_path, name) for name in ("hungary", "cleveland")]

    told = run("silo", "pin", *lines, "--kit", kit)

    roster = SiloFile.from_file(kit / "local" / "silo.toml").pinned()
    assert list(roster) == ["cleveland", "hungary", "va"]
    assert roster.digest() in told


def test_the_server_pins_silos_too(tmp_path):
    harden(kit := kit_folders.server(tmp_path / "server"))

    run("silo", "pin", public(tmp_path, "va"), "--kit", kit)

    assert list(Roster.from_file(kit / "local" / "roster.toml")) == ["va"]


def test_check_shows_rows_columns_rules_and_roster(kit, source):
    run("silo", "init", "--kit", kit, "--source", source, "--label", "num",
        "--missing", "chol=0")  # fmt: skip
    policy = kit / "local" / "policy.toml"
    policy.write_text('min_parties = 2\nallowed_columns = ["age"]\n')

    told = run("silo", "check", "--kit", kit, "--offline")

    assert "200 rows in" in told
    assert "age 35 77 yes" in told
    assert "chol 56 100 458 no" in told
    assert "the same as an earlier one" in told
    assert "Label num: 0 51 times" in told
    assert "min_parties 2 3" in told
    assert "The roster has 1 silo; the policy asks for 2" in told


@pytest.mark.slow
def test_check_shows_cells_that_a_plan_would_say_no_for(kit, source, tmp_path):
    table = polars.read_csv(source).with_columns(
        polars.Series("num", [None, None, *[0, 1] * 99]),
        polars.Series("age", [50.0] * 7 + [float("inf")] + [60.0] * 192),
        polars.lit(1.0).alias("sex"),
    )
    table.write_csv(tmp_path / "rows.csv")
    run("silo", "init", "--kit", kit, "--source", tmp_path / "rows.csv",
        "--label", "num")  # fmt: skip

    told = run("silo", "check", "--kit", kit, "--offline")

    assert "age: 1 cell infinite (data row 8)" in told
    assert "num: 2 rows without a label (data rows 1, 2)" in told
    assert "trestbps: 56 cells missing (data rows" in told
    assert "sex: the same value in all rows" in told

    file = kit / "local" / "silo.toml"
    file.write_text(file.read_text() + 'where = "age <= 50"\nunlabelled = "drop"\n')
    told = run("silo", "check", "--kit", kit, "--offline")
    assert "5 rows in" in told
    assert 'of 200 there (where = "age <= 50", unlabelled = "drop")' in told
    assert "infinite" not in told


@pytest.mark.slow
def test_check_shows_units_repeated_rows_and_what_was_chosen(kit, tmp_path):
    """A height in metres, a file exported twice, and rows chosen beside categories."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(
        {
            "height": rng.normal(1.7, 0.1, 80).clip(1.5, 1.95),
            "none": np.nan,
            "ward": rng.choice(["a", "b"], 80),
        }
    )
    twice = pd.concat([rows, rows.iloc[[4, 5]]])
    twice.to_csv(tmp_path / "rows.csv", index=False)
    run("silo", "init", "--kit", kit, "--source", tmp_path / "rows.csv",
        "--categorical", "ward")  # fmt: skip

    told = run("silo", "check", "--kit", kit, "--offline")

    low, high = rows["height"].min(), rows["height"].max()
    assert f"height {low:.6g} {high:.6g} yes" in told
    assert "none 82 yes" in told
    assert "ward categories yes" in told
    assert "2 rows are the same as an earlier one" in told
    assert "(data rows 81, 82)" in told

    file = kit / "local" / "silo.toml"
    file.write_text(file.read_text() + "where = \"ward == 'a'\"\n")
    chosen = twice["ward"] == "a"
    told = run("silo", "check", "--kit", kit, "--offline")
    assert f"{chosen.sum()} rows in" in told
    assert "of 82 there (where =" in told


@pytest.mark.thinned(1)
@pytest.mark.parametrize("n", [49, 60])
def test_check_shows_an_identifier_that_is_read_as_a_measurement(kit, tmp_path, n):
    rng = np.random.default_rng(1)
    case = rng.permutation(n) + 100_000
    rows = pd.DataFrame(
        {
            "case": [f"{number:09}" for number in case],
            "crea": rng.normal(1.0, 0.2, n),
            "age": rng.integers(40, 60, n),
            "gap": [*case[1:], np.nan],
        }
    )
    rows.to_csv(tmp_path / "rows.csv", index=False)
    run("silo", "init", "--kit", kit, "--source", tmp_path / "rows.csv")

    told = run("silo", "check", "--kit", kit, "--offline")

    assert ("case: whole numbers, none of them twice" in told) == (n == 60)
    file = kit / "local" / "silo.toml"
    file.write_text(file.read_text() + 'ids = "case"\n')
    told = run("silo", "check", "--kit", kit, "--offline")
    assert "none of them twice" not in told


@pytest.mark.slow
def test_check_says_that_nothing_could_leave(kit, source, monkeypatch):
    run("silo", "init", "--kit", kit, "--source", source, "--label", "num")
    log = SiloFile.of_kit(kit).audit
    log.parent.mkdir(exist_ok=True)
    AuditLog(log).close()
    usage = type("Usage", (), {"free": 10_000_000})
    with monkeypatch.context() as patched:
        patched.setattr("unpooled.desk.health.shutil.disk_usage", lambda _: usage)
        told = run("silo", "check", "--kit", kit, "--offline")
    assert "Disk: 10.0 MB free. The log has" in told
    assert "Make room" in told

    connect = sqlite3.connect

    def read_only(path, **more):
        return connect(f"file:{path}?mode=ro", uri=True, **more)

    monkeypatch.setattr("unpooled.party.memory.hash_chain.sqlite3.connect", read_only)
    told = run("silo", "check", "--kit", kit, "--offline", code=1)
    assert "cannot be used: attempt to write a readonly database" in told


@pytest.mark.slow
def test_check_never_shows_keys_or_passwords(kit, source):
    run("silo", "init", "--kit", kit, "--source", source)
    file = kit / "local" / "silo.toml"
    silo = SiloFile.from_file(file)
    address = "postgresql://me:hunter2@localhost:1/db?table=t"

    shown = run("silo", "check", "--kit", kit, "--offline")
    text = file.read_text().replace(silo.source, address)
    file.write_text(text)
    refused = run("silo", "check", "--kit", kit, "--offline", code=1)

    assert silo.key().private_bytes().hex() not in shown
    assert "hunter2" not in refused


@pytest.mark.slow
def test_check_says_that_the_server_does_not_answer(kit, source, tmp_path):
    pytest.importorskip("nvflare", reason="nvflare absent")
    file = tmp_path / "federation.toml"
    file.write_text(FILE.format(port=free_port(), admin_port=free_port()))
    run("provision", file, "--out", tmp_path / "kits")
    kit = tmp_path / "kits" / "silos" / "va"
    run("silo", "init", "--kit", kit, "--source", source)

    assert "does not answer" in run("silo", "check", "--kit", kit, code=1)


@pytest.mark.parametrize("kind", ["server", "coordinator"])
@pytest.mark.parametrize("command", ["check", "start", "rotate", "log"])
def test_the_kit_of_another_end_is_named_as_such(tmp_path, kind, command):
    other = getattr(kit_folders, kind)(tmp_path)

    assert f"is the {kind}'s kit" in run("silo", command, "--kit", other, code=1)


def test_a_silo_cannot_revoke_the_key_that_it_signs_with(kit, source):
    run("silo", "init", "--kit", kit, "--source", source)
    unpin = ("silo", "unpin", "va", "--kit", kit)

    assert "is this silo itself" in run(*unpin, code=1)
    assert SiloFile.of_kit(kit).pinned()

    # After a theft its line is an old one, and the silo begins anew.
    silo = SiloFile.of_kit(kit)
    silo.identity.unlink()
    assert "its key is revoked here" in run(*unpin)
    silo.path.unlink()
    run("silo", "init", "--kit", kit, "--source", source)
    assert SiloFile.of_kit(kit).pinned()


@pytest.mark.parametrize("command", ["check", "start"])
def test_a_silo_that_is_not_set_up_says_so(kit, command):
    assert "There is no file" in run("silo", command, "--kit", kit, code=1)


@pytest.mark.slow
def test_check_loads_no_model(kit, source):
    """Which takes four times as long as the check itself."""
    run("silo", "init", "--kit", kit, "--source", source)
    program = (
        "import sys; from unpooled.cli import app\n"
        f"app({['silo', 'check', '--offline', '--kit', str(kit)]}, "
        "standalone_mode=False)\n"
        "assert not {'sklearn', 'unpooled.models.base'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True)

    assert done.returncode == 0, done.stderr
