"""``unpooled provision`` makes the kits of a federation; ``serve`` runs its server."""

from pathlib import Path
from typing import Annotated

import typer

from unpooled.cli.registration import (
    Quiet,
    duration,
    file_argument,
    file_option,
    folder_argument,
)
from unpooled.cli.terminal import say
from unpooled.results.formats import byte_size, counted

FederationFile = Annotated[
    Path, file_argument(metavar="FEDERATION", help="A federation's file (TOML).")
]
KitsOut = Annotated[
    Path, typer.Option("--out", metavar="DIR", help="The folder for all kits.")
]
Requester = Annotated[
    str | None,
    typer.Option(
        "--request",
        metavar="NAME",
        help="Make this participant's TLS key here, and a request for a certificate.",
    ),
]
Request = Annotated[
    Path | None,
    file_option(
        "--sign",
        metavar="ZIP",
        help="Sign a request, on the machine with the authority's key.",
    ),
]
Signed = Annotated[
    Path | None,
    file_option(
        "--package",
        metavar="ZIP",
        help="Make a kit from the signed request, on the machine with the TLS key.",
    ),
]
Authority = Annotated[
    Path | None,
    typer.Option(
        "--authority", metavar="DIR", help="The folder of the authority's key."
    ),
]
Fingerprint = Annotated[
    str | None,
    typer.Option(
        "--fingerprint",
        metavar="SHA256",
        help="Of the root certificate, as the authority gives it by phone.",
    ),
]


AnyKit = Annotated[
    Path, folder_argument(metavar="KIT", help="The kit of a server or silo.")
]


def provision(
    federation: FederationFile,
    out: KitsOut = Path("kits"),
    request: Requester = None,
    sign: Request = None,
    package: Signed = None,
    authority: Authority = None,
    fingerprint: Fingerprint = None,
) -> None:
    """Make the startup kits of all participants in a federation's file.

    With --request, --sign and --package each participant makes its TLS key itself, and
    the authority signs it on another machine.
    """
    if sum(option is not None for option in (request, sign, package)) > 1:
        raise typer.BadParameter("Give one of --request, --sign and --package.")
    if (package is None) != (fingerprint is None):
        raise typer.BadParameter("--package needs --fingerprint, and only it does.")
    if request is not None:
        _request(federation, request, out)
    elif sign is not None:
        _sign(federation, sign, authority or out / "authority")
    elif package is not None:
        _package(federation, package, str(fingerprint), out)
    else:
        _provision(federation, out)


def serve(
    kit: Annotated[Path, folder_argument(metavar="KIT", help="The server's kit.")],
    quiet: Quiet = False,
) -> None:
    """Run a federation's server in the foreground.

    The server needs the silos' public keys: unpooled silo pin PUBLIC... --kit KIT
    """
    from unpooled.errors import StudyError
    from unpooled.federation.nvflare.hardening import kind_of
    from unpooled.federation.nvflare.startup_kits import expires_soon, held, start

    if (kind := kind_of(kit)) != "server":
        raise StudyError(f"{kit} is a {kind}'s kit, not the server's.")
    with held(kit):
        if warning := expires_soon(kit):
            say(warning)
        start(kit, quiet=quiet)


def health(kit: AnyKit) -> None:
    """Say whether a kit's process runs and its server answers: exit code 0, or 1.

    For containers and monitors: rows are not read. `unpooled silo check` looks at more.
    """
    from unpooled.federation.nvflare.startup_kits import check_health

    say(check_health(kit))


def prune(
    kit: AnyKit,
    older: Annotated[
        str | None,
        typer.Option(
            "--older", metavar="AGE", help="Such as 7d; 30d, or the silo's own choice."
        ),
    ] = None,
) -> None:
    """Delete the folders that old jobs left in a kit, and nothing else."""
    from unpooled.errors import StudyError
    from unpooled.federation.nvflare.hardening import kind_of
    from unpooled.federation.nvflare.housekeeping import kept_days
    from unpooled.federation.nvflare.housekeeping import prune as delete

    kind_of(kit)
    days = kept_days(kit) if older is None else duration("--older", older) / 86400.0
    deleted = delete(kit, days)
    say(
        f"Deleted the folders of {counted(deleted.folders, 'job')} older than "
        f"{days:g} days: {byte_size(deleted.bytes)}. Audit logs, runs and models stay."
    )
    if deleted.stuck:
        raise StudyError(f"Not all could be deleted. {deleted.stuck}.")


def _provision(federation: Path, out: Path) -> None:
    from unpooled.federation.nvflare.consortium import Consortium
    from unpooled.federation.nvflare.provisioning import provision as make

    consortium, kits = Consortium.from_file(federation), make(federation, out)
    say(f"{kits}/server: for {consortium.server}. There: unpooled serve KIT")
    say(
        f"{kits}/coordinator: for {consortium.coordinator}, who runs studies. There: "
        f"unpooled run STUDY --kit KIT"
    )
    for name in consortium.silos:
        say(f"{kits}/silos/{name}: for {name}. There: unpooled silo init --kit KIT")
    say(
        f"{kits}/authority: signs new participants. Keep it apart from server and "
        f"coordinator, best on a machine without a network."
    )
    say("Each folder has private keys: send it so that only its owner can read it.")


def _request(federation: Path, name: str, out: Path) -> None:
    from unpooled.federation.nvflare.certificate_signing import request
    from unpooled.federation.nvflare.consortium import Consortium

    path = request(Consortium.from_file(federation), name, out / "requests" / name)
    say(f"{path}: send it to the authority. The key beside it stays here.")


def _sign(federation: Path, request: Path, authority: Path) -> None:
    from unpooled.federation.nvflare.certificate_signing import fingerprint_of, sign
    from unpooled.federation.nvflare.consortium import Consortium

    name = request.name.removesuffix(".request.zip").removesuffix(".zip")
    target = request.with_name(f"{name}.signed.zip")
    signed = sign(Consortium.from_file(federation), request, authority, target)
    say(f"{signed}: send it back.")
    say(f"By phone, not with the file, give --fingerprint {fingerprint_of(authority)}")


def _package(federation: Path, signed: Path, fingerprint: str, out: Path) -> None:
    from unpooled.federation.nvflare.certificate_signing import package
    from unpooled.federation.nvflare.consortium import Consortium

    name = signed.name.removesuffix(".signed.zip").removesuffix(".zip")
    folder, consortium = out / "requests" / name, Consortium.from_file(federation)
    say(f"{package(consortium, signed, folder, fingerprint, out)}: ready.")
