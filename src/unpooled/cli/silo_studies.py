"""``unpooled silo``: log, approve, deny, apply and forget, for a person at a silo."""

import getpass
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unpooled.cli.registration import StudyName, file_option, folder_option
from unpooled.cli.terminal import console, say
from unpooled.errors import StudyError
from unpooled.results.formats import counted

if TYPE_CHECKING:
    from unpooled.ledger import Ledger
    from unpooled.party.memory.audit_log import AuditLog
    from unpooled.party.setup.silo_file import SiloFile

Kit = Annotated[Path, folder_option("--kit", metavar="DIR", help="The silo's kit.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]


def log(
    study: Annotated[
        str | None, typer.Argument(metavar="STUDY", help="Only this study.")
    ] = None,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify", help="Check the hashes and signatures of all entries."
        ),
    ] = False,
    against: Annotated[
        Path | None,
        file_option(
            "--against",
            metavar="LEDGER",
            help="Compare with a run's ledger.jsonl; shows missing last entries too.",
        ),
    ] = None,
    former: Annotated[
        list[str] | None,
        typer.Option("--former-key", help="An earlier public key of this silo."),
    ] = None,
    reset_refusals: Annotated[
        bool,
        typer.Option(
            "--reset-refusals",
            help="Forget the refusals that depended on rows, so that the silo answers.",
        ),
    ] = False,
    kit: Kit = Path(),
) -> None:
    """Show what left this silo, when, for which study, and with which parties."""
    from unpooled.cli.silo_log import show_log
    from unpooled.data.toml import read_text
    from unpooled.ledger import Ledger
    from unpooled.party.setup.pinning import trusted_keys

    silo, audit_log = _with_log(kit)
    if reset_refusals:
        audit_log.pardoned(getpass.getuser())
    show_log(console(), audit_log, study, silo.rules(), decides=silo.approval != "none")
    if not (verify or against):
        return
    # The public keys that are pinned: the person who checks may have no private one.
    trusted = trusted_keys(silo.roster)
    keys = [*trusted.get(silo.name, ()), *_keys(former or [])]
    if not keys:
        raise StudyError(
            f"{silo.roster} does not have {silo.name}, so that no key is known that "
            f"signed this log. Pin its public line, or give its key: --former-key HEX."
        )
    audit_log.verify(keys)
    say(f"Verified: {len(audit_log.entries())} entries, none altered, all signed.")
    if against is not None:
        ledger = Ledger.from_json(read_text(against))
        _verify_ledger(ledger, trusted | {silo.name: tuple(keys)})
        missing = audit_log.check_against(ledger, silo.name) or "none"
        say(f"{against} agrees with this log, and lacks {missing} of its lines.")


def approve(study: StudyName, yes: Yes = False, kit: Kit = Path()) -> None:
    """Show a study's plan, and approve that this silo takes part."""
    from unpooled.cli.silo_log import show_announced
    from unpooled.study.announcement import read_announced

    silo, audit_log = _with_log(kit)
    text = audit_log.study(study).text
    if not text:
        raise audit_log.unknown(study)
    announced = read_announced(silo.party(), study, text, silo.pinned())
    show_announced(console(), study, text, announced)
    if not yes:
        if not sys.stdin.isatty():
            raise typer.BadParameter(
                "Not a terminal, so there is no confirmation. Give --yes to approve."
            )
        if not typer.confirm("Approve?"):
            raise typer.Exit(1)
    if audit_log.study(study).text != text:
        raise StudyError(
            f"{study} was announced again meanwhile, with another text. "
            f"Run the command again."
        )
    audit_log.decided(study, approved=True, steps=announced.steps, by=getpass.getuser())
    say(f"Approved: {study} may run {', '.join(announced.steps)}.")


def deny(study: StudyName, kit: Kit = Path()) -> None:
    """Keep this silo out of a study, also while the study runs."""
    silo, audit_log = _with_log(kit)
    audit_log.decided(study, approved=False, by=getpass.getuser())
    say(f"Denied: this silo does not take part in {study}.")
    if silo.approval == "none":
        say('It has no effect while silo.toml has approval = "none".')


def forget(study: StudyName, yes: Yes = False, kit: Kit = Path()) -> None:
    """Delete the models, arrays and results that this silo keeps of a study.

    The log of what left is never deleted.
    """
    from unpooled.party.memory.studies import MODEL_SUFFIX, forget_kept

    silo, audit_log = _with_log(kit)
    if study not in audit_log.studies():
        raise audit_log.unknown(study)
    files = sorted((silo.models / study).glob(f"*{MODEL_SUFFIX}"))
    if not yes and sys.stdin.isatty():
        question = f"Forget {study}, with {counted(len(files), 'model file')}?"
        if not typer.confirm(question):
            raise typer.Exit(1)
    # The log comes first: a running process must not use files that are being deleted.
    audit_log.forgotten(study, [path.stem for path in files])
    for path in files:
        path.unlink(missing_ok=True)
    if files:
        (silo.models / study).rmdir()
    forget_kept(audit_log, study, silo.results)
    say(
        f"Forgot {study}: {counted(len(files), 'model file')} and the arrays that its "
        f"steps kept are deleted. The log stays."
    )


def apply(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL", help="A delivered model, as STUDY/NAME, or a file."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE", help="The result: a new .csv or .parquet."
        ),
    ] = None,
    outliers: Annotated[
        bool,
        typer.Option(
            "--outliers", help="Of a PCA: how far each row lies from the components."
        ),
    ] = False,
    kit: Kit = Path(),
) -> None:
    """Apply a fitted model to this silo's rows. The result stays in the silo."""
    from unpooled.models.files.apply_in_silo import apply as applied
    from unpooled.models.files.model_file import load
    from unpooled.party.setup.silo_file import SiloFile

    silo = SiloFile.of_kit(kit)
    path = _model_file(silo, model)
    target = out or Path(f"{path.stem}-{silo.name}.csv")
    n_rows, columns = applied(
        load(path), silo.table(), target, silo.kept, outliers=outliers
    )
    say(f"Wrote {n_rows} rows to {target}: {', '.join(columns)}.")


def _with_log(kit: Path) -> "tuple[SiloFile, AuditLog]":
    """Return the silo of a kit, and its log, which must be there."""
    from unpooled.party.memory.audit_log import AuditLog
    from unpooled.party.setup.silo_file import SiloFile

    silo = SiloFile.of_kit(kit)
    if not silo.audit.exists():
        raise StudyError(
            f"There is no log at {silo.audit}: this silo took part in no study yet."
        )
    return silo, AuditLog(silo.audit)


def _model_file(silo: "SiloFile", model: str) -> Path:
    """Return the path of a model file; a delivered one must be unaltered."""
    from unpooled.party.memory.audit_log import AuditLog
    from unpooled.party.memory.studies import MODEL_SUFFIX
    from unpooled.protocol.message import digest

    study, _, name = model.partition("/")
    delivered: dict[str, str] = {}
    if silo.audit.exists():
        audit_log = AuditLog(silo.audit)
        delivered = {
            f"{known}/{model_name}": sha
            for known in audit_log.studies()
            for model_name, sha in audit_log.study(known).models.items()
        }
    if model in delivered:
        path = silo.models / study / f"{name}{MODEL_SUFFIX}"
        if not path.exists():
            raise StudyError(f"{path} was delivered and is missing.")
        if digest(path.read_bytes()) != delivered[model]:
            raise StudyError(f"{path} was altered after it was delivered.")
        return path
    if not Path(model).is_file():
        raise StudyError(
            f"There is no model {model}. Delivered models: "
            f"{', '.join(delivered) or 'none'}."
        )
    return Path(model)


def _keys(texts: list[str]) -> list[bytes]:
    try:
        return [bytes.fromhex(text) for text in texts]
    except ValueError:
        raise typer.BadParameter("A key is 64 hexadecimal digits.") from None


def _verify_ledger(ledger: "Ledger", trusted: dict[str, tuple[bytes, ...]]) -> None:
    """Check chain and seals of a ledger, under the keys that this silo pins."""
    for party in ledger.libraries:
        if party not in trusted:
            raise StudyError(
                f"The ledger has lines of {party}, which this silo does not pin."
            )
    ledger.verify(trusted)
