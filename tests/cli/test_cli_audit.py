"""`unpooled silo log`: what left, when, and whether somebody edited it."""

import re
import sqlite3

import pytest
from typer.testing import CliRunner

from audit_command import Consortium, command, heart
from unpooled.cli import app
from unpooled.party.setup.pinning import unpin

# Fixtures of another module.
__all__ = ["heart"]


@pytest.mark.slow
def test_log_shows_what_left_when_and_in_which_company(heart):
    heart.announce()
    _, federation = heart.fit()
    text = command(heart, "log")
    assert "Study heart" in text
    left = [line for line in federation.ledger if line.direction == "out"]
    rounds = len({line.round for line in left})
    assert f"{rounds} rounds; {len(left)} arrays left" in text
    assert text.count("berlin, paris, rome") >= rounds
    assert "announced" in text
    assert re.search(r"20\d\d-\d\d-\d\d \d\d:\d\d", text)
    assert command(heart, "log", "other").startswith("The log has no entries of other")
    for columns in ("80", "120"):
        done = CliRunner(env={"COLUMNS": columns}).invoke(
            app, ["silo", "log", "--kit", str(heart.folder / "rome")]
        )
        assert max(map(len, done.output.splitlines())) <= int(columns)


@pytest.mark.slow
def test_a_silo_that_took_part_in_nothing_has_no_log(tmp_path):
    heart = Consortium(tmp_path)
    for path in (tmp_path / "rome").rglob("audit.sqlite*"):
        path.unlink()
    for name in (["log"], ["deny", "heart"], ["approve", "heart"], ["forget", "heart"]):
        assert "took part in no study yet" in command(heart, *name, code=1)
    assert not list((tmp_path / "rome").rglob("audit.sqlite"))


@pytest.mark.slow
def test_verify_finds_any_edited_row(heart):
    heart.fit()
    assert "none altered, all signed" in command(heart, "log", "--verify")
    database = sqlite3.connect(heart.silo("rome").audit)
    database.execute("DROP TRIGGER entries_stay")
    database.execute("UPDATE entries SET time = '2000' WHERE number = 5")
    database.commit()
    database.close()
    assert "Entry 5 of the audit log" in command(heart, "log", "--verify", code=1)
    assert "none altered" in command(heart, "log", "--verify", silo="paris")


@pytest.mark.slow
def test_verify_says_that_no_key_is_known(heart):
    heart.fit()
    silo = heart.silo("rome")
    unpin(silo.roster, "rome")

    said = command(heart, "log", "--verify", code=1)

    assert "does not have rome, so that no key is known" in said
    key = silo.key().public.hex()
    assert "none altered" in command(heart, "log", "--verify", "--former-key", key)


@pytest.mark.slow
def test_a_ledger_that_is_no_text_is_named(heart, tmp_path):
    heart.fit()
    (tmp_path / "ledger.jsonl").write_bytes(b"\xff\xfe")
    path = tmp_path / "ledger.jsonl"

    assert "Cannot read" in command(heart, "log", "--against", path, code=1)


@pytest.mark.slow
def test_verify_against_a_ledger_finds_lines_cut_at_the_end(heart):
    _, federation = heart.fit()
    path = heart.folder / "ledger.jsonl"
    path.write_text(federation.ledger.to_lines())
    assert "lacks none of its lines" in command(heart, "log", "--against", path)
    database = sqlite3.connect(heart.silo("rome").audit)
    database.execute("DROP TRIGGER entries_remain")
    (last,) = database.execute("SELECT MAX(number) FROM entries WHERE kind = 'round'")
    (before,) = database.execute(
        "SELECT MAX(number) FROM entries WHERE kind = 'round' AND number < ?", last
    )
    database.execute("DELETE FROM entries WHERE number > ?", before)
    database.commit()
    database.close()
    assert "all signed" in command(heart, "log", "--verify")
    output = command(heart, "log", "--verify", "--against", path, code=1)
    assert "lacks it: the log was cut" in output


@pytest.mark.slow
def test_verify_against_finds_a_falsified_ledger(heart):
    """Its seals alone would still be those of the log."""
    _, federation = heart.fit()
    lines = federation.ledger.to_lines().splitlines()
    path = heart.folder / "ledger.jsonl"
    for number, edit in enumerate((
        lambda line: line.replace('"bytes": ', '"bytes": 1'),
        lambda line: line.replace('"name": "', '"name": "x'),
        lambda line: "",
    )):  # fmt: skip
        changed = [*lines]
        changed[number] = edit(lines[number])
        path.write_text("\n".join(changed) + "\n")
        output = command(heart, "log", "--against", path, code=1)
        assert f"Line {number} of the ledger" in output
    path.write_text("\n".join(lines) + "\n")
    command(heart, "log", "--against", path)
    roster = heart.silo("rome").roster
    roster.write_text(roster.read_text().replace("paris", "parma"))
    assert "lines of paris" in command(heart, "log", "--against", path, code=1)
