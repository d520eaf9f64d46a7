"""Bundles, rotation and revocation of identities, and keys that are encrypted."""

import pytest

from audit_command import Consortium, command, heart
from silo_command import run
from unpooled.errors import ReleaseRefusedError, StudyError
from unpooled.party.setup.locked_key import locked
from unpooled.party.setup.pinning import KeyRotation, Pinned, pin, trusted_keys, unpin
from unpooled.secure.keys.roster import Identity, Roster
from unpooled.secure.keys.spoken import spoken

# Fixtures of another module.
__all__ = ["heart"]
NAMES = ("a", "b", "c")


@pytest.fixture
def identities():
    return {name: Identity() for name in NAMES}


def public(folder, name, identity, *rotated):
    path = folder / f"{name}.public"
    one = Pinned(Roster({name: identity.public}))
    one.rotated = list(rotated)
    one.write(path)
    return path


def test_one_bundle_has_everybody(tmp_path, identities):
    bundle, roster = tmp_path / "bundle.toml", tmp_path / "roster.toml"
    for name, identity in identities.items():
        pin(bundle, [public(tmp_path, name, identity)])
    pinned = pin(roster, [bundle])

    assert dict(pinned) == {n: i.public for n, i in identities.items()}
    assert pinned.digest() == Roster.from_file(bundle).digest()
    assert "The same silos" in run("roster", "diff", roster, bundle)


def test_words_stand_for_a_fingerprint():
    # Two addresses of the proposal: 127.0.0.1 and 63.84.220.193.
    assert spoken("7f000001" + "3f54dcc1" + "00" * 24) == (
        "lusab babad gutih tugad babab babab"
    )
    assert spoken("00" * 32) != spoken("00" * 11 + "01" + "00" * 20)
    assert spoken("00" * 32) == spoken("00" * 12 + "01" + "00" * 19)


def test_rosters_that_differ(tmp_path, identities):
    first, second = tmp_path / "1.toml", tmp_path / "2.toml"
    keys = {name: identity.public for name, identity in identities.items()}
    first.write_text(Roster(keys).to_toml())
    other = {"a": Identity().public, "b": keys["b"], "d": Identity().public}
    second.write_text(Roster(other).to_toml())

    said = run("roster", "diff", first, second, code=1)
    assert f"a has another key in {first}" in said
    assert f"c is in {first} only" in said
    assert f"d is in {second} only" in said
    assert "b " not in said


def test_a_key_that_the_old_one_signed_is_pinned(tmp_path, identities):
    roster = tmp_path / "roster.toml"
    pin(roster, [public(tmp_path, n, i) for n, i in identities.items()])
    second, third = Identity(), Identity()
    changes = [
        KeyRotation.of("a", identities["a"], second),
        KeyRotation.of("a", second, third),
    ]
    # One who missed the first change passes both.
    pinned = pin(roster, [public(tmp_path, "a", third, *changes)])
    assert pinned["a"] == third.public
    expected = (third.public, second.public, identities["a"].public)
    assert trusted_keys(roster)["a"] == expected
    # The other keys are as they were, and pinning again changes nothing.
    before = roster.read_bytes()
    pin(roster, [public(tmp_path, "a", third, *changes)])
    assert roster.read_bytes() == before


@pytest.mark.parametrize("how", ["unsigned", "other name", "other signer", "backwards"])
def test_a_key_that_the_old_one_did_not_sign_is_refused(tmp_path, identities, how):
    roster = tmp_path / "roster.toml"
    pin(roster, [public(tmp_path, n, i) for n, i in identities.items()])
    before, new = roster.read_bytes(), Identity()
    old = identities["a"]
    forged = {
        "unsigned": [],
        "other name": [KeyRotation("a", old.public, new.public,
                                KeyRotation.of("b", old, new).signature)],
        "other signer": [KeyRotation("a", old.public, new.public,
                                  KeyRotation.of("a", Identity(), new).signature)],
        "backwards": [KeyRotation.of("a", new, old)],
    }  # fmt: skip
    with pytest.raises(StudyError, match="did not sign it"):
        pin(roster, [public(tmp_path, "a", new, *forged[how])])
    assert roster.read_bytes() == before


def test_a_revoked_key_signs_no_new_one(tmp_path, identities):
    """Somebody who stole it has it sign a key of their own."""
    roster = tmp_path / "roster.toml"
    lines = [public(tmp_path, n, i) for n, i in identities.items()]
    pin(roster, lines)
    left = unpin(roster, "a")
    assert set(left) == {"b", "c"}

    with pytest.raises(StudyError, match="revoked"):
        pin(roster, [public(tmp_path, "a", identities["a"])])
    thief = Identity()
    change = KeyRotation.of("a", identities["a"], thief)
    # A new key of an unpinned silo is new: a person compares it by phone.
    pinned = pin(roster, [public(tmp_path, "a", Identity(), change)])
    assert pinned["a"] != thief.public
    with pytest.raises(StudyError, match="did not sign it"):
        pin(roster, [public(tmp_path, "a", thief, change)])


def test_a_bundle_with_two_names_for_one_key(tmp_path, identities):
    roster = tmp_path / "roster.toml"
    pin(roster, [public(tmp_path, "a", identities["a"])])
    with pytest.raises(StudyError, match="same key"):
        pin(roster, [public(tmp_path, "b", identities["a"])])


@pytest.mark.slow
def test_a_silo_rotates_and_keeps_its_account(heart):
    heart.fit()
    silo = heart.silo("rome")
    old = silo.key()
    said = command(heart, "rotate")
    assert "new identity key" in said
    new = silo.key()
    assert new.public != old.public
    secret = b"row digests"
    assert new.derivation_secret(secret) == old.derivation_secret(secret)

    # The others do not add with it until they pin the change.
    heart.start()
    with pytest.raises(ReleaseRefusedError, match="wrong_roster"):
        heart.fit()
    line = silo.roster.with_name("rome.public")
    for other in ("berlin", "paris"):
        pin(heart.silo(other).roster, [line])
    heart.start()
    _, federation = heart.fit()
    assert "none altered" in command(heart, "log", "--verify")
    path = heart.folder / "ledger.jsonl"
    path.write_text(federation.ledger.to_lines())
    for name in ("rome", "paris"):
        said = command(heart, "log", "--against", path, silo=name)
        assert "agrees with this log" in said


def test_a_key_of_version_01_cannot_be_rotated(heart):
    silo = heart.silo("rome")
    private = silo.key().private_bytes()[:32]
    silo.identity.write_text(private.hex() + "\n")
    assert "of version 0.1" in command(heart, "rotate", code=1)
    assert silo.key().private_bytes() == private


@pytest.mark.slow
def test_an_encrypted_key_needs_its_password(heart, tmp_path, monkeypatch):
    silo, before = heart.silo("rome"), heart.silo("rome").key().private_bytes()
    password = tmp_path / "password"
    password.write_text("a long password\n")
    command(heart, "encrypt-key", "--password-file", password)
    text = silo.identity.read_text()
    assert before.hex() not in text
    assert silo.identity.stat().st_mode & 0o077 == 0

    with pytest.raises(StudyError, match=r"is encrypted\. Give its password"):
        silo.key()
    monkeypatch.setenv("UNPOOLED_IDENTITY_PASSWORD_FILE", str(tmp_path / "gone"))
    with pytest.raises(StudyError, match=r"There is no file .*gone\.$"):
        silo.key()
    monkeypatch.delenv("UNPOOLED_IDENTITY_PASSWORD_FILE")
    credentials = tmp_path / "credentials"
    credentials.mkdir()
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(credentials))
    (credentials / "unpooled-identity").write_text("another password")
    with pytest.raises(StudyError, match="is another one"):
        silo.key()
    (credentials / "unpooled-identity").write_text("a long password")
    assert silo.key().private_bytes() == before
    monkeypatch.delenv("CREDENTIALS_DIRECTORY")
    monkeypatch.setenv("UNPOOLED_IDENTITY_PASSWORD_FILE", str(password))
    heart.start()
    heart.fit()
    # A rotated key is encrypted by the same password.
    command(heart, "rotate")
    assert silo.identity.read_text().startswith("unpooled-key-1 ")
    assert silo.key().private_bytes()[32:] == before[32:]
    password.write_text("short")
    with pytest.raises(StudyError, match="shorter than 12"):
        silo.key()


@pytest.mark.slow
def test_two_encryptions_of_a_key_differ():
    assert locked(b"k" * 64, b"p" * 12) != locked(b"k" * 64, b"p" * 12)


def test_init_adds_its_line_to_a_bundle(tmp_path):
    Consortium(tmp_path)
    bundle = tmp_path / "bundle.toml"
    for name in ("berlin", "paris"):
        folder = tmp_path / "other" / name
        folder.mkdir(parents=True)
        said = run("silo", "init", "--kit", folder, "--name", name, "--source",
                   tmp_path / name / "rows.csv", "--label", "sick", "--ids", "id",
                   "--bundle", bundle)  # fmt: skip
        assert "Added its public line" in said
    assert set(Roster.from_file(bundle)) == {"berlin", "paris"}
    said = run("silo", "pin", bundle, "--kit", tmp_path / "other" / "paris")
    assert "by phone: " + spoken(Roster.from_file(bundle).digest()) in said
