"""Kits of members who make their TLS keys themselves, signed by an authority.

    member                             authority
    request  ── NAME.request.zip ──>   sign
    package <── NAME.signed.zip ────   (rootCA.key never leaves, no key ever comes)

NVFlare's own commands do the work, ``nvflare cert`` and ``nvflare package``, each in a
process of its own; they receive the participant's definition, and the resulting kit is
hardened.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from unpooled.errors import StudyError
from unpooled.federation.nvflare.consortium import Consortium, builders, need_engine
from unpooled.federation.nvflare.hardening import harden
from unpooled.ledger.json_text import from_json

_PATIENCE = 120.0  # seconds for one of NVFlare's commands, which take one or two


def make_authority(consortium: Consortium, folder: Path) -> Path:
    """Make the federation's root certificate, unless it exists; return its folder.

    Parameters
    ----------
    consortium : Consortium
        The federation.
    folder : Path
        For ``rootCA.key``, which admits members, ``rootCA.pem`` and ``ca.json``.
    """
    if (folder / "rootCA.pem").exists():
        _check_authority(consortium, folder)
    else:
        with tempfile.TemporaryDirectory() as work:
            profile = _profile(consortium, Path(work))
            _nvflare("cert", "init", "--profile", profile, "-o", folder)
    folder.chmod(0o700)
    return folder


def request(consortium: Consortium, participant: str, folder: Path) -> Path:
    """Make a participant's key, on its own machine, and a request to sign it.

    Parameters
    ----------
    consortium : Consortium
        The federation.
    participant : str
        A silo's name, the server's host name or the coordinator's name.
    folder : Path
        Keeps the key; `package` needs it again.

    Returns
    -------
    Path
        The request, a zip file without the key, to be sent to the authority.
    """
    known = {member["name"]: member for member in consortium.participants()}
    if participant not in known:
        raise StudyError(
            f'The federation has no participant "{participant}". It has '
            f"{', '.join(known)}."
        )
    definition: dict[str, Any] = {
        "api_version": 3,
        "name": consortium.name,
        "participants": [known[participant]],
        "builders": builders(consortium.transport),
    }
    if participant != consortium.server:
        definition["participants"][0]["server"] = _server(consortium)
    with tempfile.TemporaryDirectory() as work:
        file = Path(work) / "participant.yaml"
        # JSON is YAML.
        file.write_text(json.dumps(definition), "utf-8")
        _nvflare("cert", "request", "-p", file, "--out", folder)
    folder.chmod(0o700)
    return folder / f"{participant}.request.zip"


def sign(
    consortium: Consortium, request_file: Path, authority: Path, out: Path
) -> Path:
    """Sign a request, on the authority's machine.

    Parameters
    ----------
    consortium : Consortium
        The federation, as the authority's own file has it.
    request_file : Path
        The request, a zip file.
    authority : Path
        The folder with the root certificate's key; made when it is absent.
    out : Path
        The signed zip file to write.

    Returns
    -------
    Path
        `out`, to be sent back.
    """
    _check_request(consortium, request_file)
    make_authority(consortium, authority)
    with tempfile.TemporaryDirectory() as work:
        profile = _profile(consortium, Path(work))
        options = ("--ca-dir", authority, "--profile", profile, "--out", out)
        _nvflare("cert", "approve", request_file, *options)
    return out


def package(
    consortium: Consortium, signed: Path, folder: Path, fingerprint: str, out: Path
) -> Path:
    """Make a kit from the signed request, on the participant's machine.

    Parameters
    ----------
    consortium : Consortium
        The federation.
    signed : Path
        The signed zip file.
    folder : Path
        The folder in which `request` kept the key.
    fingerprint : str
        SHA-256 of the root certificate, from the authority by another channel.
    out : Path
        The folder of all kits; the kit's path in it is that of `provision`.

    Returns
    -------
    Path
        The kit.
    """
    out.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(prefix=".making-", dir=out) as work:
        # NVFlare requires this ending, and mail programs often change it.
        copy = shutil.copyfile(signed, Path(work) / "copy.signed.zip")
        options = ("--request-dir", folder, "--fingerprint", fingerprint, "-w", work)
        _nvflare("package", copy, *options)
        made = [path.parent for path in Path(work).glob("*/prod_*/*/startup")]
        if len(made) != 1:
            raise StudyError(f"NVFlare made no kit from {signed}.")
        kit = out / consortium.kit_of(made[0].name)
        if kit.exists():
            raise StudyError(f"{kit} exists already. Move it away first.")
        kit.parent.mkdir(exist_ok=True)
        shutil.move(made[0], kit)
        harden(kit)
    return kit


def fingerprint_of(authority: Path) -> str:
    """Return the SHA-256 of an authority's root certificate, to compare by phone."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.x509 import load_pem_x509_certificate

    root = load_pem_x509_certificate((authority / "rootCA.pem").read_bytes())
    return root.fingerprint(SHA256()).hex(":").upper()


def _check_authority(consortium: Consortium, folder: Path) -> None:
    if not (folder / "rootCA.key").exists():
        # Kits under a new key would not accept those already given out.
        raise StudyError(
            f"{folder} has a root certificate, but rootCA.key is elsewhere. Admit "
            f"members where the key is, with --request and --sign."
        )
    try:
        project = from_json((folder / "ca.json").read_text("utf-8"))["project"]
    except (OSError, ValueError, KeyError, TypeError) as wrong:
        raise StudyError(f"{folder}/ca.json is not as NVFlare writes it.") from wrong
    if project != consortium.name:
        raise StudyError(
            f"{folder} is the authority of the federation {project}, not of "
            f"{consortium.name}. Name another folder."
        )


def _check_request(consortium: Consortium, request_file: Path) -> None:
    """Refuse a request that differs from the federation's file."""
    known = {member["name"]: member for member in consortium.participants()}
    try:
        with (
            zipfile.ZipFile(request_file) as archive,
            archive.open("request.json") as stream,
        ):
            claims = from_json(stream.read(100_000))
        name, organisation = claims["name"], claims["org"]
        role = claims["cert_type"]
    except (OSError, KeyError, ValueError, TypeError, zipfile.BadZipFile) as wrong:
        raise StudyError(
            f"{request_file} is not a request to be signed: {wrong}."
        ) from wrong
    member = known.get(name)
    # NVFlare signs any role that is requested; the file has the roles.
    expected = member and (member["org"], member.get("role", member["type"]))
    if expected != (organisation, role):
        raise StudyError(
            f"{request_file} asks for {role} {name} of {organisation}, which is not "
            f"in the federation's file. Nothing was signed."
        )


def _server(consortium: Consortium) -> dict[str, Any]:
    return {
        "host": consortium.server,
        "fed_learn_port": consortium.port,
        "admin_port": consortium.admin_port,
    }


def _profile(consortium: Consortium, folder: Path) -> Path:
    profile = {
        "name": consortium.name,
        "scheme": consortium.transport,
        "connection_security": "mtls",
        "server": _server(consortium),
    }
    path = folder / "profile.yaml"
    path.write_text(json.dumps(profile), "utf-8")
    return path


def _nvflare(*arguments: str | Path) -> None:
    """Run one of NVFlare's commands; its error becomes a `StudyError`."""
    need_engine()
    done = subprocess.run(
        [sys.executable, "-m", "nvflare.cli", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=_PATIENCE,
        stdin=subprocess.DEVNULL,
        # The working folder may hold a participant's files: no modules from there.
        env={**os.environ, "PYTHONSAFEPATH": "1"},
    )
    if done.returncode != 0:
        output = " ".join((done.stderr or done.stdout).split())
        raise StudyError(f"NVFlare's {arguments[0]} failed: {output[-600:]}")
