import re
import tomllib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unpooled.errors import DataError, StudyError
from unpooled.party.rules.policy import Policy
from unpooled.party.setup.silo_file import SiloFile, read_identity
from unpooled.party.setup.silo_init import SiloConfig, init_silo, pin
from unpooled.secure.keys.roster import Identity, Roster


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("age,chol,num\n60,200,0\n70,0,1\n")
    return str(path)


@pytest.fixture
def local(tmp_path):
    return tmp_path / "kit" / "local"


def public(folder, name, identity=None):
    path = folder / f"{name}.public"
    path.write_text(Roster({name: (identity or Identity()).public}).to_toml())
    return path


def test_a_silo_that_was_set_up_is_ready(local, source):
    charter = SiloConfig(
        "va", source, label="num", columns=["age", "chol"], missing={"chol": [0.0]}
    )

    line = init_silo(local, charter)

    silo = SiloFile.from_file(local / "silo.toml")
    assert silo.table().columns == ("age", "chol")
    assert silo.missing == {"chol": [0.0]}
    assert silo.rules() == Policy()
    assert Roster.from_file(line)["va"] == silo.key().public
    assert silo.pinned() == Roster.from_file(line)
    assert (local / "silo.toml").stat().st_mode & 0o077 == 0
    silo.party()


def test_a_file_with_text_becomes_a_silo(local, tmp_path):
    """There was no way to name its columns of categories but to edit a file that was
    not written."""
    rows = tmp_path / "rows.csv"
    rows.write_text(
        "age;crea;sex;day;num\n60;n/d;f;1.2.24;0\n70;1,5;m;2.2.24;1\n", "utf-8"
    )
    config = SiloConfig(
        "va",
        str(rows),
        label="num",
        exclude=["day"],
        categorical=["sex"],
        missing={"crea": ["n/d", -9.0]},
        format={"separator": ";", "decimal": ","},
    )

    init_silo(local, config)

    table = SiloFile.from_file(local / "silo.toml").table()
    assert table.columns == ("age", "crea", "sex")
    assert table.categorical == ("sex",)
    assert np.isnan(next(table.blocks(["crea"])).X).sum() == 1


def test_a_relative_source_stays_findable(local, source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    init_silo(local, SiloConfig("va", "rows.csv"))
    monkeypatch.chdir("/")

    assert SiloFile.from_file(local / "silo.toml").table().n_rows == 2


def test_rules_may_be_brought(local, source, tmp_path):
    (tmp_path / "ours.toml").write_text("[policy]\nmin_rows = 50\n")

    init_silo(local, SiloConfig("va", source, policy=tmp_path / "ours.toml"))

    assert SiloFile.from_file(local / "silo.toml").rules() == Policy(min_rows=50)


def test_nothing_is_written_where_the_source_is_wrong(local, source):
    with pytest.raises(DataError, match="nmu"):
        init_silo(local, SiloConfig("va", source, label="nmu"))

    assert not local.exists()


def test_nothing_is_written_where_the_rules_are_wrong(local, source, tmp_path):
    (tmp_path / "ours.toml").write_text("min_row = 50\n")

    with pytest.raises(StudyError, match="min_row"):
        init_silo(local, SiloConfig("va", source, policy=tmp_path / "ours.toml"))

    assert not local.exists()


def test_a_silo_is_set_up_once(local, source):
    init_silo(local, SiloConfig("va", source))

    with pytest.raises(StudyError, match="set up already"):
        init_silo(local, SiloConfig("va", source))


def test_a_key_that_is_there_stays(local, source):
    init_silo(local, SiloConfig("va", source))
    before = read_identity(local / "identity.key").public
    (local / "silo.toml").unlink()

    init_silo(local, SiloConfig("va", source))

    assert read_identity(local / "identity.key").public == before


def test_public_lines_make_a_roster_that_is_equal_everywhere(tmp_path):
    lines = [public(tmp_path, name) for name in ("va", "cleveland", "hungary")]

    one = pin(tmp_path / "one.toml", lines)
    other = pin(tmp_path / "other.toml", lines[1:])
    other = pin(tmp_path / "other.toml", [lines[0], lines[1]])

    assert one.digest() == other.digest()
    assert list(one) == ["cleveland", "hungary", "va"]


def test_a_pinned_key_is_not_replaced(tmp_path):
    pin(tmp_path / "roster.toml", [public(tmp_path, "va")])
    before = (tmp_path / "roster.toml").read_text()

    with pytest.raises(StudyError, match="another key than"):
        pin(tmp_path / "roster.toml", [public(tmp_path, "va")])

    assert (tmp_path / "roster.toml").read_text() == before


def test_one_key_under_two_names_is_refused_before_anything_is_written(tmp_path):
    identity = Identity()
    lines = [public(tmp_path, name, identity) for name in ("va", "hungary")]

    with pytest.raises(StudyError, match="the same key"):
        pin(tmp_path / "roster.toml", lines)

    assert list(tmp_path.glob("roster.toml*")) == []


text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@pytest.mark.slow
@given(source=text, label=text, columns=st.lists(text), code=st.floats(allow_nan=False))
def test_any_text_survives_the_file(source, label, columns, code):
    charter = SiloConfig(
        "va", f"x://{source}", label, columns=columns, missing={label: [code, source]}
    )

    own = tomllib.loads(charter.to_toml())["silo"]

    assert own["source"] == f"x://{source}"
    assert own["label"] == label
    assert own["columns"] == columns
    assert own["missing"] == {label: [code, source]}


def test_the_written_policy_states_the_defaults(local, source):
    init_silo(local, SiloConfig("va", source))

    written = (local / "policy.toml").read_text()

    for key in Policy.__dataclass_fields__:
        assert re.search(rf"^(# )?{key} = ", written, re.MULTILINE), key
