"""Startup kits for all members of a federation, made from its file.

    federation.toml ──> OUT/server          for the machine of the server
                        OUT/coordinator     for the person who runs studies
                        OUT/silos/<name>    for each silo
                        OUT/authority       stays with whoever may admit members

The certificates are NVFlare's: a root certificate of the federation, mutual TLS between
all. They decide who may connect, and nothing more: what a silo reveals depends on the
identity keys that silos make themselves and exchange among each other, which are in no
kit. The holder of the authority's key could connect under any name and request totals
as the coordinator may, but could not reply as a silo.
`unpooled.federation.nvflare.certificate_signing` is for members who also make their TLS
keys themselves.
"""

import contextlib
import io
import shutil
import tempfile
from pathlib import Path

from unpooled.errors import StudyError
from unpooled.federation.nvflare.certificate_signing import make_authority
from unpooled.federation.nvflare.consortium import Consortium, builders, need_engine
from unpooled.federation.nvflare.hardening import harden


def provision(file: str | Path, out: str | Path) -> Path:
    """Make the kits of all members in a federation's file.

    Parameters
    ----------
    file : str or Path
        The federation's file.
    out : str or Path
        Folder for the kits. Existing kits stay as they are, and so does the authority,
        so that a silo can join later.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    StudyError
        When the file is invalid, or NVFlare is absent or fails.
    """
    need_engine()
    consortium, out = Consortium.from_file(file), Path(out).expanduser()
    out.mkdir(parents=True, exist_ok=True, mode=0o700)
    authority = make_authority(consortium, out / "authority")
    # NVFlare leaves every private key in its working folder.
    with tempfile.TemporaryDirectory(prefix=".making-", dir=out) as work:
        made = _made(consortium, authority, Path(work))
        for definition in consortium.participants():
            participant = definition["name"]
            kit = out / consortium.kit_of(participant)
            if not kit.exists():
                kit.parent.mkdir(exist_ok=True)
                shutil.move(made / participant, kit)
                harden(kit)
    return out


def _made(consortium: Consortium, authority: Path, work: Path) -> Path:
    """Return the folder of all kits, made by NVFlare in a working folder."""
    from cryptography.hazmat.primitives.serialization import load_pem_private_key
    from nvflare.lighter.constants import CtxKey
    from nvflare.lighter.entity import Project, participant_from_dict
    from nvflare.lighter.prov_utils import prepare_builders
    from nvflare.lighter.provisioner import Provisioner

    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        project = Project(
            consortium.name,
            "",
            participants=[participant_from_dict(p) for p in consortium.participants()],
            serialized_root_cert=(authority / "rootCA.pem").read_bytes(),
            root_private_key=load_pem_private_key(
                (authority / "rootCA.key").read_bytes(), None
            ),
        )
        makers = prepare_builders({"builders": builders(consortium.transport)})
        context = Provisioner(str(work), makers).provision(project)
    if context.get(CtxKey.BUILD_ERROR):
        # A traceback follows.
        reason = " ".join(output.getvalue().partition("Traceback")[0].split())
        raise StudyError(f"NVFlare could not make the kits: {reason}")
    return Path(context[CtxKey.CURRENT_PROD_DIR])
