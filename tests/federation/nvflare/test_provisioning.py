import json
import stat

import pytest

from unpooled.errors import StudyError
from unpooled.federation.nvflare.hardening import ROLE, check_hardened, kind_of

nvflare = pytest.importorskip("nvflare", reason="nvflare absent")

FILE = """\
[federation]
name = "heart"
server = "localhost"
port = 8002
coordinator = "alice@example.org"
[silos.cleveland]
[silos.hungary]
organisation = "budapest"
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    from unpooled.federation.nvflare.provisioning import provision

    folder = tmp_path_factory.mktemp("provisioning")
    (folder / "federation.toml").write_text(FILE)
    return folder / "federation.toml", provision(
        folder / "federation.toml", folder / "kits"
    )


def certificate(path):
    from cryptography.x509 import load_pem_x509_certificate

    return load_pem_x509_certificate(path.read_bytes())


def name_in(certificate, short):
    return {a.rfc4514_attribute_name: a.value for a in certificate.subject}.get(short)


@pytest.mark.slow
def test_everybody_gets_a_kit_and_nothing_else_is_left(made):
    _, kits = made

    assert sorted(p.name for p in kits.iterdir()) == [
        "authority",
        "coordinator",
        "server",
        "silos",
    ]
    assert sorted(p.name for p in (kits / "silos").iterdir()) == [
        "cleveland",
        "hungary",
    ]
    assert kind_of(kits / "server") == "server"
    assert kind_of(kits / "coordinator") == "coordinator"


@pytest.mark.slow
def test_kits_are_hardened(made):
    _, kits = made

    for kit in (kits / "server", kits / "silos" / "hungary"):
        check_hardened(kit)
        rights = json.loads((kit / "local" / "authorization.json").read_text())
        assert list(rights["permissions"]) == [ROLE]


@pytest.mark.slow
def test_jobs_must_be_signed(made):
    _, kits = made

    for kit, name in (("server", "fed_server"), ("silos/hungary", "fed_client")):
        startup = json.loads((kits / kit / "startup" / f"{name}.json").read_text())
        assert startup["require_signed_jobs"] is True


@pytest.mark.slow
def test_the_authority_s_key_is_in_no_kit(made):
    _, kits = made
    key = (kits / "authority" / "rootCA.key").read_bytes()
    root = (kits / "authority" / "rootCA.pem").read_bytes()

    for path in kits.rglob("*"):
        if path.is_file() and path.parent.name != "authority":
            assert key not in path.read_bytes()
    for path in kits.rglob("startup/rootCA.pem"):
        assert path.read_bytes() == root


def test_no_kit_has_another_s_key_and_none_has_an_identity(made):
    _, kits = made

    keys = sorted(str(p.relative_to(kits)) for p in kits.rglob("*.key"))
    assert keys == [
        "authority/rootCA.key",
        "coordinator/startup/client.key",
        "server/startup/server.key",
        "silos/cleveland/startup/client.key",
        "silos/hungary/startup/client.key",
    ]
    for key in kits.rglob("*.key"):
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
    for folder in (kits, kits / "authority", kits / "silos" / "hungary"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_certificates_say_who_is_what(made):
    _, kits = made

    silo = certificate(kits / "silos" / "hungary" / "startup" / "client.crt")
    assert (name_in(silo, "CN"), name_in(silo, "O")) == ("hungary", "budapest")
    person = certificate(kits / "coordinator" / "startup" / "client.crt")
    assert name_in(person, "CN") == "alice@example.org"
    # NVFlare keeps the role in this attribute, unstructuredName.
    assert name_in(person, "1.2.840.113549.1.9.2") == ROLE


@pytest.mark.slow
def test_a_silo_joins_later_and_the_others_stay(made):
    from unpooled.federation.nvflare.provisioning import provision

    file, kits = made
    before = {p: p.read_bytes() for p in kits.rglob("*") if p.is_file()}
    later = file.with_name("later.toml")
    later.write_text(FILE + "[silos.va]\n")

    provision(later, kits)

    for path, content in before.items():
        assert path.read_bytes() == content
    root = certificate(kits / "authority" / "rootCA.pem")
    certificate(kits / "silos/va/startup/client.crt").verify_directly_issued_by(root)


def test_another_federation_s_authority_is_refused(made):
    from unpooled.federation.nvflare.provisioning import provision

    file, kits = made
    other = file.with_name("other.toml")
    other.write_text(FILE.replace('"heart"', '"lung"'))

    with pytest.raises(StudyError, match="the authority of the federation heart"):
        provision(other, kits)


def test_no_second_authority_is_made_where_the_key_was_taken_away(tmp_path, made):
    from unpooled.federation.nvflare.certificate_signing import make_authority
    from unpooled.federation.nvflare.consortium import Consortium

    file, kits = made
    for name in ("rootCA.pem", "ca.json"):
        (tmp_path / name).write_bytes((kits / "authority" / name).read_bytes())

    with pytest.raises(StudyError, match="elsewhere"):
        make_authority(Consortium.from_file(file), tmp_path)


@pytest.mark.slow
def test_why_the_kits_could_not_be_made_has_no_traceback(tmp_path, monkeypatch):
    from nvflare.lighter.constants import CtxKey

    from unpooled.federation.nvflare.provisioning import provision

    def fails(self, project):
        print("ERROR: Exception [Errno 28] No space left on device raised.")
        print("Traceback (most recent call last):\n  File ...")
        return {CtxKey.BUILD_ERROR: True}

    monkeypatch.setattr("nvflare.lighter.provisioner.Provisioner.provision", fails)
    file = tmp_path / "federation.toml"
    file.write_text(FILE)

    with pytest.raises(StudyError, match=r"kits: ERROR: .*No space left.* raised\.$"):
        provision(file, tmp_path / "out")
