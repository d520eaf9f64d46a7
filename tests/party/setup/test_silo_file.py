import os
import re
import stat

import numpy as np
import pytest

from unpooled.errors import DataError, StudyError
from unpooled.party.rules.policy import Policy
from unpooled.party.setup.silo_file import SiloFile, make_identity, read_identity
from unpooled.protocol.message import decode, encode
from unpooled.secure.keys.roster import Identity, Roster

FILE = """\
[silo]
name = "va"
source = "../data/rows.csv"
label = "num"
missing = { chol = [0] }
"""


@pytest.fixture
def local(tmp_path):
    """A silo's folder with everything in it."""
    local = tmp_path / "kit" / "local"
    local.mkdir(parents=True)
    (tmp_path / "kit" / "data").mkdir()
    rows = "age,chol,num\n60,200,0\n70,0,1\n80,300,0\n"
    (tmp_path / "kit" / "data" / "rows.csv").write_text(rows)
    (local / "silo.toml").write_text(FILE)
    (local / "policy.toml").write_text("min_rows = 3\n")
    identity = make_identity(local / "identity.key")
    keys = {"va": identity.public, "hungary": Identity().public}
    (local / "roster.toml").write_text(Roster(keys).to_toml())
    return local


def test_paths_start_at_the_file_s_folder(local, monkeypatch):
    monkeypatch.chdir("/")

    silo = SiloFile.from_file(local / "silo.toml")

    assert silo.policy == local / "policy.toml"
    assert silo.identity == local / "identity.key"
    assert silo.audit.resolve() == local.parent / "state" / "audit.sqlite"
    assert silo.models.resolve() == local.parent / "state" / "models"
    assert silo.table().n_rows == 3
    assert silo.approval == "none"


def test_the_table_is_as_the_file_says(local):
    table = SiloFile.from_file(local / "silo.toml").table()

    (block,) = table.blocks(table.columns, ["num"])
    assert table.columns == ("age", "chol")
    np.testing.assert_array_equal(block.X[:, 1], [200.0, np.nan, 300.0])
    np.testing.assert_array_equal(block.extra["num"], [0, 1, 0])


def test_columns_and_rules_are_the_silo_s(local):
    text = FILE.replace("missing = { chol = [0] }", 'columns = ["age"]')
    (local / "silo.toml").write_text(text + 'approval = "each-study"\n')

    silo = SiloFile.from_file(local / "silo.toml")

    assert silo.table().columns == ("age",)
    assert silo.rules() == Policy(min_rows=3)
    assert silo.approval == "each-study"


def test_a_party_answers(local):
    party = SiloFile.from_file(local / "silo.toml").party()

    reply = decode(party.handle(encode({"kind": "describe"}, {})))

    assert reply.header["columns"] == ["age", "chol"]
    assert reply.header["party"] == "va"
    assert (local.parent / "state" / "audit.sqlite").exists()


def test_a_database_s_address_is_no_path(local):
    text = FILE.replace("../data/rows.csv", "postgresql://me@here/db?table=rows")
    (local / "silo.toml").write_text(text)

    source = SiloFile.from_file(local / "silo.toml").source

    assert source == "postgresql://me@here/db?table=rows"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[silo]", "[sillo]", 'Did you mean "silo"'),
        ('name = "va"', "", "name: this key is missing"),
        ('name = "va"', 'name = "../va"', "must be letters"),
        ('source = "../data/rows.csv"', "", "source: this key is missing"),
        ("label", "lable", 'Did you mean "label"'),
        ('label = "num"', 'approval = "sometimes"', "Choose"),
        ("[0]", "0", "must be a list of numbers"),
        ('label = "num"', "columns = []", "at least one entry"),
        ("[silo]", "[[silo]]", "must be a table"),
    ],
)
def test_mistakes_are_named_with_file_and_key(local, old, new, said):
    assert old in FILE
    (local / "silo.toml").write_text(FILE.replace(old, new))

    with pytest.raises(StudyError, match=re.escape(said)) as wrong:
        SiloFile.from_file(local / "silo.toml")

    assert "silo.toml" in str(wrong.value)


def test_a_source_that_is_not_there_is_named(local):
    (local.parent / "data" / "rows.csv").unlink()

    with pytest.raises(DataError, match=r"rows\.csv"):
        SiloFile.from_file(local / "silo.toml").table()


@pytest.mark.parametrize("name", ["policy.toml", "identity.key", "roster.toml"])
def test_nothing_runs_without_rules_key_and_roster(local, name):
    (local / name).unlink()

    with pytest.raises(StudyError, match=re.escape(name)):
        SiloFile.from_file(local / "silo.toml").party()


def test_a_roster_with_another_key_for_this_silo_is_refused(local):
    keys = {"va": Identity().public, "hungary": Identity().public}
    (local / "roster.toml").write_text(Roster(keys).to_toml())

    with pytest.raises(StudyError, match="does not have va under the key"):
        SiloFile.from_file(local / "silo.toml").party()


def test_a_kit_of_another_silo_is_refused(local):
    silo = SiloFile.from_file(local / "silo.toml")
    silo.check_name("va")

    with pytest.raises(StudyError, match="made for hungary"):
        silo.check_name("hungary")


def test_a_key_is_private_from_its_first_moment(tmp_path):
    before = os.umask(0)
    try:
        identity = make_identity(tmp_path / "key")
    finally:
        os.umask(before)

    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    assert read_identity(tmp_path / "key").public == identity.public


def test_a_key_is_never_overwritten(tmp_path):
    identity = make_identity(tmp_path / "key")

    with pytest.raises(FileExistsError):
        make_identity(tmp_path / "key")

    assert read_identity(tmp_path / "key").public == identity.public


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_key_that_others_may_read_is_refused(tmp_path, mode):
    make_identity(tmp_path / "key")
    (tmp_path / "key").chmod(mode)

    with pytest.raises(StudyError, match="Other users of this machine"):
        read_identity(tmp_path / "key")


@pytest.mark.parametrize("text", ["", "secret", "ab" * 31, "ab" * 33, "\u00e9"])
def test_what_is_no_key_is_refused_and_never_shown(tmp_path, text):
    path = tmp_path / "key"
    path.write_text(text, "utf-8")
    path.chmod(0o600)

    with pytest.raises(StudyError, match="it is no key") as wrong:
        read_identity(path)

    assert not text or text not in str(wrong.value)
    assert wrong.value.__cause__ is None
