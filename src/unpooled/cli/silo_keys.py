"""``unpooled silo``: pin, unpin, rotate and encrypt-key; ``unpooled roster diff``."""

from pathlib import Path
from typing import Annotated

import typer

from unpooled.cli.registration import command, file_argument, file_option, group
from unpooled.cli.silo_studies import Kit
from unpooled.cli.terminal import say

roster_app = group("roster", "Commands about rosters and bundles of public keys.")

Lines = Annotated[
    list[Path],
    file_argument(
        metavar="PUBLIC...", help="A bundle, or files with silos' public lines."
    ),
]
Name = Annotated[str, typer.Argument(metavar="SILO", help="A silo's name.")]
Roster = Annotated[Path, file_argument(help="A roster.toml or a bundle.")]


def pin(lines: Lines, kit: Kit = Path()) -> None:
    """Add silos' public lines to the roster of this silo, or of the server."""
    from unpooled.party.setup.pinning import pin as put

    roster = put(_roster_of(kit), lines)
    say(f"The roster has {', '.join(roster)}.")
    say_fingerprint(roster.digest())


def unpin(name: Name, kit: Kit = Path()) -> None:
    """Remove a silo from the roster, and never pin its present key again."""
    from unpooled.party.setup.pinning import unpin as remove

    file = _roster_of(kit)
    _check_is_another(kit, name)
    roster = remove(file, name)
    say(f"Removed {name}; its key is revoked here. Left: {', '.join(roster)}.")
    say_fingerprint(roster.digest())


def rotate(kit: Kit = Path()) -> None:
    """Make a new identity key, which the old one signs: others pin it by themselves.

    For a key that somebody else may have, `unpin` is the way, and a new `init`.
    """
    from unpooled.party.setup.silo_file import SiloFile
    from unpooled.party.setup.silo_init import rotate as change

    public = change(SiloFile.of_kit(kit))
    say(f"This silo has a new identity key. Send {public} to all others.")
    say("There: unpooled silo pin FILE. Until then they do not add with this silo.")


def encrypt_key(
    password: Annotated[
        Path,
        file_option(
            "--password-file", help="A file with the password, not in the kit."
        ),
    ],
    kit: Kit = Path(),
) -> None:
    """Encrypt the identity key where it is stored."""
    from unpooled.data.atomic_file import replacing
    from unpooled.party.setup.locked_key import locked, password_of
    from unpooled.party.setup.silo_file import SiloFile

    silo = SiloFile.of_kit(kit)
    text = locked(silo.key().private_bytes(), password_of(password))
    with replacing(silo.identity) as stream:
        Path(stream.name).chmod(0o600)
        stream.write(text.encode() + b"\n")
    say(f"{silo.identity} is encrypted. The silo finds the password as the systemd ")
    say("credential unpooled-identity, or in UNPOOLED_IDENTITY_PASSWORD_FILE.")


@command(roster_app)
def diff(first: Roster, second: Roster) -> None:
    """Show where two rosters or bundles differ; exit code 1 where they do."""
    from unpooled.party.setup.pinning import differences

    found = list(differences(first, second))
    for sentence in found:
        say(sentence)
    if found:
        raise typer.Exit(1)
    say("The same silos, keys and committee.")


def say_fingerprint(digest: str) -> None:
    """Say the digest of a roster, and the words for it."""
    from unpooled.secure.keys.spoken import spoken

    say(f"Compare these words with the other silos by phone: {spoken(digest)}")
    say(f"The digest that they stand for: {digest}")


def _check_is_another(kit: Path, name: str) -> None:
    """Raise a `StudyError` where a silo would revoke the key that it signs with."""
    from unpooled.errors import StudyError
    from unpooled.party.setup.silo_file import SiloFile

    if not (kit / "local" / "silo.toml").exists():
        return
    silo = SiloFile.of_kit(kit)
    # Without the key, as after a theft, its line is an old one.
    if name == silo.name and silo.identity.exists():
        raise StudyError(
            f"{name} is this silo itself, and could never use its key again. For a new "
            f"key in time: unpooled silo rotate. After a theft remove {silo.identity} "
            f"first; then `unpin`, and `unpooled silo init`."
        )


def _roster_of(kit: Path) -> Path:
    from unpooled.federation.nvflare.hardening import kind_of
    from unpooled.party.setup.silo_file import SiloFile

    # The server has a roster too, but no silo.toml.
    if (kit / "local" / "silo.toml").exists() or kind_of(kit) == "silo":
        return SiloFile.of_kit(kit).roster
    return kit / "local" / "roster.toml"
