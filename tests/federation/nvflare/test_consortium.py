import re

import pytest

from unpooled.errors import StudyError
from unpooled.federation.nvflare.consortium import Consortium
from unpooled.federation.nvflare.hardening import ROLE

FILE = """\
[federation]
name = "heart"
server = "relay.example.org"
port = 9002
coordinator = "alice@example.org"
[silos.cleveland]
organisation = "clinic_1"
[silos.long-beach]
"""


@pytest.fixture
def write(tmp_path):
    def write(text):
        path = tmp_path / "federation.toml"
        path.write_text(text)
        return path

    return write


def test_the_file_says_who_belongs(write):
    consortium = Consortium.from_file(write(FILE))

    assert consortium.name == "heart"
    assert (consortium.port, consortium.admin_port) == (9002, 9003)
    assert consortium.silos == {"cleveland": "clinic_1", "long-beach": "long_beach"}


def test_the_coordinator_has_the_one_role(write):
    people = {p["name"]: p for p in Consortium.from_file(write(FILE)).participants()}

    assert people["alice@example.org"]["role"] == ROLE != "project_admin"
    assert people["relay.example.org"]["type"] == "server"
    assert people["cleveland"] == {
        "name": "cleveland",
        "type": "client",
        "org": "clinic_1",
    }


def test_everybody_has_a_folder(write):
    consortium = Consortium.from_file(write(FILE))

    folders = [str(consortium.kit_of(p["name"])) for p in consortium.participants()]

    assert folders == ["server", "coordinator", "silos/cleveland", "silos/long-beach"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('name = "heart"', "", "[federation] name: this key is missing"),
        ('name = "heart"', 'name = "../x"', "must be letters"),
        ("port = 9002", "port = 0", "a port from 1 to 65535"),
        ("port = 9002", "port = 70000", "a port from 1 to 65535"),
        ("port = 9002", "prot = 9002", 'Did you mean "port"'),
        ("relay.example.org", "relay example", "is not a host name"),
        ("alice@example.org", "alice", "is not a person"),
        ("alice@example.org", "alice@localhost", "is not a person"),
        ("clinic_1", "clinic 1", "letters, digits"),
        ("organisation", "organization", 'Did you mean "organisation"'),
        ("[silos.long-beach]", "[silos.Cleveland]", "in this or another case"),
        ("[silos.long-beach]", "[silos.'../x']", "must be letters"),
        ("[silos.long-beach]", "[silo.x]", 'Did you mean "silos"'),
        ("relay.example.org", "cleveland", "in this or another case"),
    ],
)
def test_mistakes_are_named_with_file_and_key(write, old, new, said):
    assert old in FILE

    with pytest.raises(StudyError, match=re.escape(said)) as wrong:
        Consortium.from_file(write(FILE.replace(old, new)))

    assert "federation.toml" in str(wrong.value)


def test_a_federation_needs_a_silo(write):
    with pytest.raises(StudyError, match="at least one silo"):
        Consortium.from_file(write(FILE.partition("[silos")[0] + "[silos]"))
