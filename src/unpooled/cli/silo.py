"""``unpooled silo``: init, check, start; more in `silo_keys` and `silo_studies`."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from unpooled.cli import desks, silo_keys, silo_studies
from unpooled.cli.registration import Quiet, command, file_option, group
from unpooled.cli.silo_studies import Kit
from unpooled.cli.terminal import console, say

app = group("silo", "Commands at a silo: its data, its rules, its log.")

Name = Annotated[
    str | None,
    typer.Option("--name", help="The silo's name; by default that of its kit."),
]
Source = Annotated[
    str | None,
    typer.Option(
        "--source", help="A file (CSV, Parquet, ...) or the address of a database."
    ),
]
Label = Annotated[
    str | None, typer.Option("--label", help="A column that is never a feature.")
]
Ids = Annotated[
    str | None, typer.Option("--ids", help="The column that identifies people, if any.")
]
SamePeople = Annotated[
    bool,
    typer.Option(
        "--same-people",
        help="The other silos have other columns about the same people.",
    ),
]
Columns = Annotated[
    str | None,
    typer.Option(
        "--columns", help="The columns offered to studies: age,sex; by default all."
    ),
]
Exclude = Annotated[
    str | None,
    typer.Option(
        "--exclude", help="In place of --columns: those no study may use: name,date."
    ),
]
Categorical = Annotated[
    str | None,
    typer.Option("--categorical", help="The columns of categories: sex,diagnosis."),
]
Missing = Annotated[
    list[str] | None,
    typer.Option(
        "--missing",
        help="A value that means missing: chol=0, or chol=n/d",
        metavar="C=V",
    ),
]
Separator = Annotated[
    str | None,
    typer.Option("--separator", help='Of a text file: ";" or "tab"; by default ",".'),
]
Decimal = Annotated[
    str | None, typer.Option("--decimal", help='Of a text file: "," for 79,4.')
]
Encoding = Annotated[
    str | None, typer.Option("--encoding", help="Of a text file: cp1252, utf-16, ...")
]
Sheet = Annotated[
    str | None, typer.Option("--sheet", help="Of an Excel workbook with several.")
]
Rename = Annotated[
    list[str] | None,
    typer.Option(
        "--rename",
        help="A column that the file names otherwise than studies do: ILL=ill",
        metavar="F=S",
    ),
]
PolicyFile = Annotated[
    Path | None,
    file_option("--policy", help="A policy to copy, in place of the default."),
]
EachStudy = Annotated[
    bool,
    typer.Option("--approve-each-study", help="A person must approve each study."),
]
Offline = Annotated[
    bool, typer.Option("--offline", help="Do not connect to the server.")
]
Bundle = Annotated[
    Path | None,
    typer.Option(
        "--bundle", help="A file for all silos' public lines, to add this one's to."
    ),
]


@command(app)
def init(
    kit: Kit = Path(),
    name: Name = None,
    source: Source = None,
    label: Label = None,
    ids: Ids = None,
    columns: Columns = None,
    exclude: Exclude = None,
    categorical: Categorical = None,
    missing: Missing = None,
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    sheet: Sheet = None,
    rename: Rename = None,
    policy: PolicyFile = None,
    approve_each_study: EachStudy = False,
    same_people: SamePeople = False,
    bundle: Bundle = None,
) -> None:
    """Write the silo's file and policy, and make its identity key."""
    from unpooled.party.setup.pinning import pin
    from unpooled.party.setup.silo_init import SiloConfig, init_silo

    interactive = source is None
    if interactive and not sys.stdin.isatty():
        raise typer.BadParameter("--source is missing: where are the rows?")
    name = name or _own_name(kit, interactive)
    if interactive:
        source = typer.prompt("Where are the rows? A file or a database's address")
        label = label or _answer("The label, a column that is never a feature [none]")
        ids = ids or _answer("The column that identifies people (ids) [none]")
        columns = columns or _answer("The columns offered to studies, as age,sex [all]")
        categorical = categorical or _answer(
            "Those of them that hold categories, such as text, as sex,diagnosis [none]"
        )
    form = {
        "separator": "\t" if separator == "tab" else separator,
        "decimal": decimal,
        "encoding": encoding,
        "sheet": sheet,
        "rename": _renamed(rename or []) or None,
    }
    public = init_silo(
        kit / "local",
        SiloConfig(
            name=name,
            source=str(source),
            label=label,
            ids=ids,
            columns=_listed(columns),
            exclude=_listed(exclude),
            categorical=_listed(categorical),
            missing=_codes(missing or []),
            policy=policy,
            approval="each-study" if approve_each_study else "none",
            partition="columns" if same_people else "rows",
            format={key: value for key, value in form.items() if value is not None},
        ),
    )
    say(
        f"Wrote {kit / 'local' / 'silo.toml'}, and the policy beside it in policy.toml."
    )
    if bundle is not None:
        pinned = pin(bundle, [public])
        say(f"Added its public line to {bundle}, which has {', '.join(pinned)}.")
        line = shlex.join(["unpooled", "silo", "pin", str(bundle)])
        say(f"When all are in: {line} Then: unpooled silo check")
        return
    say(f"This silo's public line, also in {public}; send it to every other silo:")
    say(public.read_text("utf-8").splitlines()[1])
    say("With theirs: unpooled silo pin FILE... Then: unpooled silo check")


@command(app)
def check(kit: Kit = Path(), offline: Offline = False) -> None:
    """Show the silo's rows, rules and roster, and test its connection.

    Nothing about rows leaves the silo.
    """
    from unpooled.cli.silo_check import show_silo
    from unpooled.desk.health import disk_finding
    from unpooled.federation.nvflare.hardening import check_hardened, check_private
    from unpooled.federation.nvflare.startup_kits import (
        check_connection,
        expires_soon,
        expiry_of,
    )
    from unpooled.party.memory.audit_log import AuditLog
    from unpooled.party.setup.silo_file import SiloFile

    silo = SiloFile.of_kit(kit)
    show_silo(console(), silo)
    if silo.audit.exists():
        AuditLog(silo.audit).check_writable()
    if not (disk := disk_finding(silo)).good:
        say(f"Disk: {disk.text}")
    if offline:
        return
    check_hardened(kit)
    check_private(kit)
    say(f"Jobs can use this library's class only; the kit is valid until "
        f"{expiry_of(kit):%d %B %Y}.")  # fmt: skip
    if warning := expires_soon(kit):
        say(warning)
    address = check_connection(kit)
    silo.check_name(address.participant)
    say(f"The server {address.host}, port {address.port}, answers as it should.")


@command(app)
def start(kit: Kit = Path(), quiet: Quiet = False) -> None:
    """Take part in studies, in the foreground, until it is stopped."""
    from unpooled.errors import StudyError
    from unpooled.federation.nvflare.hardening import check_hardened
    from unpooled.federation.nvflare.startup_kits import (
        address_of,
        check_connection,
        expires_soon,
        held,
    )
    from unpooled.federation.nvflare.startup_kits import start as begin
    from unpooled.party.setup.silo_file import SiloFile

    silo = SiloFile.of_kit(kit)
    silo.check_name(address_of(kit).participant)
    with held(kit):
        # Errors in the silo's files are shown now and not in the first study.
        silo.table()
        silo.rules()
        silo.pinned()
        check_hardened(kit)
        try:
            check_connection(kit)
        except StudyError as reason:
            # Servers start later than silos at times; a wrong certificate stays wrong.
            if reason.rule != "absent":
                raise
            say(f"{reason} Trying until it does.")
        else:
            if warning := expires_soon(kit):
                say(warning)
        begin(kit, quiet=quiet)


for _command in (
    silo_keys.pin,
    silo_keys.unpin,
    silo_keys.rotate,
    silo_keys.encrypt_key,
    silo_studies.log,
    silo_studies.approve,
    silo_studies.deny,
    silo_studies.apply,
    silo_studies.forget,
):
    command(app)(_command)
command(app, "desk")(desks.silo_desk)


def _own_name(kit: Path, interactive: bool) -> str:
    from unpooled.errors import StudyError
    from unpooled.federation.nvflare.startup_kits import address_of

    try:
        return address_of(kit).participant
    except StudyError:
        if interactive:
            return typer.prompt("This silo's name in the federation")
        raise


def _answer(question: str) -> str | None:
    return typer.prompt(question, default="", show_default=False) or None


def _listed(text: str | None) -> list[str] | None:
    if text is None:
        return None
    return [name.strip() for name in text.split(",") if name.strip()]


def _renamed(entries: list[str]) -> dict[str, str]:
    names: dict[str, str] = {}
    for entry in entries:
        own, _, new = entry.rpartition("=")
        if not (own and new.strip()):
            raise typer.BadParameter(
                f"--rename {entry}: give the file's name = the study's, such as "
                f"ILL=ill."
            )
        names[own] = new
    return names


def _codes(entries: list[str]) -> dict[str, list[float | str]]:
    codes: dict[str, list[float | str]] = {}
    for entry in entries:
        column, _, value = entry.rpartition("=")
        if not (column and value.strip()):
            raise typer.BadParameter(
                f"--missing {entry}: give column=value, such as chol=0 or chol=n/d."
            )
        try:
            codes.setdefault(column, []).append(float(value))
        except ValueError:
            codes[column].append(value)
    return codes
