"""Members who make their own TLS keys: NVFlare's commands, one process each."""

import zipfile

import pytest

from unpooled.errors import StudyError
from unpooled.federation.nvflare.consortium import Consortium
from unpooled.federation.nvflare.hardening import check_hardened, kind_of

pytest.importorskip("nvflare", reason="nvflare absent")

from unpooled.federation.nvflare.certificate_signing import (
    fingerprint_of,
    package,
    request,
    sign,
)
from unpooled.federation.nvflare.provisioning import provision

FILE = """\
[federation]
name = "heart"
server = "localhost"
coordinator = "alice@example.org"
[silos.va]
organisation = "{organisation}"
"""


@pytest.fixture(autouse=True)
def _own_home(tmp_path, monkeypatch):
    # NVFlare keeps its record of requests and approvals there.
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.fixture
def consortium(tmp_path):
    return told(tmp_path)


def told(folder, organisation="clinic"):
    path = folder / "federation.toml"
    path.write_text(FILE.format(organisation=organisation))
    return Consortium.from_file(path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("participant", "kind"),
    [("va", "silo"), ("localhost", "server"), ("alice@example.org", "coordinator")],
)
def test_a_kit_whose_key_was_made_at_home(tmp_path, consortium, participant, kind):
    home, authority = tmp_path / "keys", tmp_path / "authority"

    asked = request(consortium, participant, home)
    signed = sign(consortium, asked, authority, tmp_path / "signed.zip")
    fingerprint = fingerprint_of(authority)
    kit = package(consortium, signed, home, fingerprint, tmp_path / "kits")

    assert kind_of(kit) == kind
    assert kit == tmp_path / "kits" / consortium.kit_of(participant)
    if kind != "coordinator":
        check_hardened(kit)
    # What travelled has no key, and no key but its own is in the kit.
    for path in (asked, signed):
        with zipfile.ZipFile(path) as travelled:
            content = b"".join(map(travelled.read, travelled.namelist()))
        assert b"PRIVATE KEY" not in content
    (key,) = kit.rglob("*.key")
    assert key.read_bytes() == (home / f"{participant}.key").read_bytes()
    assert (authority / "rootCA.key").exists()


@pytest.mark.slow
def test_kits_of_both_ways_are_equal_but_for_keys(tmp_path, consortium):
    def content(kit):
        return {
            str(path.relative_to(kit)): path.read_bytes()
            for path in kit.rglob("*")
            if path.is_file() and path.suffix not in (".crt", ".key", ".pem")
        }

    together = provision(tmp_path / "federation.toml", tmp_path / "together")
    asked = request(consortium, "va", tmp_path / "keys")
    signed = sign(consortium, asked, together / "authority", tmp_path / "signed.zip")
    fingerprint = fingerprint_of(together / "authority")
    kit = package(consortium, signed, tmp_path / "keys", fingerprint, tmp_path / "own")

    assert content(kit) == content(together / "silos" / "va")


@pytest.mark.slow
def test_another_root_than_the_one_told_by_phone_is_refused(tmp_path, consortium):
    asked = request(consortium, "va", tmp_path / "keys")
    signed = sign(consortium, asked, tmp_path / "authority", tmp_path / "signed.zip")

    with pytest.raises(StudyError, match=r"(?i)fingerprint"):
        package(consortium, signed, tmp_path / "keys", "AB:" * 31 + "AB", tmp_path)


@pytest.mark.slow
def test_only_who_is_in_the_file_is_signed(tmp_path, consortium):
    asked = request(consortium, "va", tmp_path / "keys")
    (tmp_path / "other").mkdir()
    other = told(tmp_path / "other", organisation="elsewhere")

    with pytest.raises(StudyError, match="not in the federation's file"):
        sign(other, asked, tmp_path / "authority", tmp_path / "signed.zip")

    assert not (tmp_path / "authority").exists()


def test_a_stranger_cannot_ask(tmp_path, consortium):
    with pytest.raises(StudyError, match=r"It has localhost, alice@example\.org, va"):
        request(consortium, "mallory", tmp_path / "keys")

    assert not (tmp_path / "keys").exists()


@pytest.mark.parametrize("content", [b"", b"PK", b"no zip at all"])
def test_what_is_no_request_is_not_signed(tmp_path, consortium, content):
    (tmp_path / "asked.zip").write_bytes(content)

    with pytest.raises(StudyError, match="is not a request"):
        sign(consortium, tmp_path / "asked.zip", tmp_path / "a", tmp_path / "s.zip")

    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("claims", ["{}", "[]", '{"name": "va"}', "no JSON"])
def test_a_request_without_claims_is_not_signed(tmp_path, consortium, claims):
    with zipfile.ZipFile(tmp_path / "asked.zip", "w") as asked:
        asked.writestr("request.json", claims)

    with pytest.raises(StudyError, match="is not a request"):
        sign(consortium, tmp_path / "asked.zip", tmp_path / "a", tmp_path / "s.zip")


def test_the_coordinator_cannot_ask_for_another_role(tmp_path, consortium):
    claims = '{"name": "alice@example.org", "org": "example_org", "cert_type": "%s"}'
    for role in ("org_admin", "project_admin", "client"):
        with zipfile.ZipFile(tmp_path / "asked.zip", "w") as asked:
            asked.writestr("request.json", claims % role)

        with pytest.raises(StudyError, match="not in the federation's file"):
            sign(consortium, tmp_path / "asked.zip", tmp_path / "a", tmp_path / "s")
