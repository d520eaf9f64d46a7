"""``unpooled silo``: set a silo up, look at it, start it."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from unpooled.cli import audit
from unpooled.cli.audit import Kit
from unpooled.cli.commands import command, console, group, say

app = group("silo", "A silo's own end: its data, its rules, its log.")

Name = Annotated[
    str | None,
    typer.Option("--name", help="The silo's name; by default the one in its kit."),
]
Source = Annotated[
    str | None,
    typer.Option("--source", help="A file (CSV, Parquet) or a database's address."),
]
Label = Annotated[
    str | None, typer.Option("--label", help="A column that is never a feature.")
]
Ids = Annotated[
    str | None, typer.Option("--ids", help="The column that names people, if any.")
]
SamePeople = Annotated[
    bool,
    typer.Option(
        "--same-people", help="The other silos have other columns about these people."
    ),
]
Columns = Annotated[
    str | None,
    typer.Option("--columns", help="The only columns studies may know of: age,sex"),
]
Missing = Annotated[
    list[str] | None,
    typer.Option("--missing", help="A value that means missing: chol=0", metavar="C=V"),
]
PolicyFile = Annotated[
    Path | None,
    typer.Option("--policy", help="Rules to start from.", exists=True, dir_okay=False),
]
EachStudy = Annotated[
    bool,
    typer.Option("--approve-each-study", help="A person must say yes to each study."),
]
Offline = Annotated[bool, typer.Option("--offline", help="Do not try the server.")]
Lines = Annotated[
    list[Path],
    typer.Argument(
        metavar="PUBLIC...", help="Files of other silos.", exists=True, dir_okay=False
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
    missing: Missing = None,
    policy: PolicyFile = None,
    approve_each_study: EachStudy = False,
    same_people: SamePeople = False,
) -> None:
    """Say where the rows are, and make this silo's identity key."""
    from unpooled.party.setup.silo_init import SiloConfig, init_silo

    asking = source is None
    if asking and not sys.stdin.isatty():
        raise typer.BadParameter("--source is missing: where are the rows?")
    name = name or _own_name(kit, asking)
    if asking:
        source = typer.prompt("Where are the rows? A file or a database's address")
        label = label or _asked("A label, which is never a feature [none]")
        ids = ids or _asked("A column that names people (ids) [none]")
        columns = columns or _asked("The only columns to know of, as age,sex [all]")
    public = init_silo(
        kit / "local",
        SiloConfig(
            name=name,
            source=str(source),
            label=label,
            ids=ids,
            columns=None if columns is None else _listed(columns),
            missing=_codes(missing or []),
            policy=policy,
            approval="each-study" if approve_each_study else "none",
            partition="columns" if same_people else "rows",
        ),
    )
    say(
        f"Wrote {kit / 'local' / 'silo.toml'}, with the rules in policy.toml beside it."
    )
    say(f"This silo's public line, also in {public}; send it to every other silo:")
    say(public.read_text("utf-8").splitlines()[1])
    say("Theirs: unpooled silo pin FILE... Then: unpooled silo check")


@command(app)
def pin(lines: Lines, kit: Kit = Path()) -> None:
    """Put silos' public lines into the roster of this silo, or of the server."""
    from unpooled.federation.nvflare.hardening import kind_of
    from unpooled.party.setup.silo_file import SiloFile
    from unpooled.party.setup.silo_init import pin as put

    target = kit / "local" / "roster.toml"
    # The server needs to know the silos too, but is none itself.
    if (kit / "local" / "silo.toml").exists() or kind_of(kit) == "silo":
        target = SiloFile.from_file(kit / "local" / "silo.toml").roster
    roster = put(target, lines)
    say(f"The roster has {', '.join(roster)}.")
    say(f"Compare with the other silos, on the phone: {roster.digest()}")


@command(app)
def check(kit: Kit = Path(), offline: Offline = False) -> None:
    """Look at the silo as a study would find it. Nothing leaves."""
    from unpooled.cli.inspection import show_silo
    from unpooled.federation.nvflare.hardening import check_hardened
    from unpooled.federation.nvflare.startup_kits import check_connection, expiry_of
    from unpooled.party.setup.silo_file import SiloFile

    silo = SiloFile.from_file(kit / "local" / "silo.toml")
    show_silo(console(), silo)
    if offline:
        return
    check_hardened(kit)
    say(f"Jobs may name this library's class only; the kit is good until "
        f"{expiry_of(kit):%d %B %Y}.")  # fmt: skip
    address = check_connection(kit)
    silo.check_name(address.participant)
    say(f"The server {address.host}, port {address.port}, answers as it should.")


@command(app)
def start(kit: Kit = Path()) -> None:
    """Take part in studies, in the foreground, until stopped."""
    from unpooled.federation.nvflare.hardening import check_hardened
    from unpooled.federation.nvflare.startup_kits import address_of
    from unpooled.federation.nvflare.startup_kits import start as begin
    from unpooled.party.setup.silo_file import SiloFile

    # What is wrong at home is better said now than in the first study.
    silo = SiloFile.from_file(kit / "local" / "silo.toml")
    silo.check_name(address_of(kit).participant)
    silo.table()
    silo.rules()
    silo.pinned()
    check_hardened(kit)
    begin(kit)


for _of_studies in (audit.log, audit.approve, audit.deny, audit.apply, audit.forget):
    command(app)(_of_studies)


def _own_name(kit: Path, asking: bool) -> str:
    from unpooled.errors import StudyError
    from unpooled.federation.nvflare.startup_kits import address_of

    try:
        return address_of(kit).participant
    except StudyError:
        if asking:
            return typer.prompt("This silo's name in the federation")
        raise


def _asked(question: str) -> str | None:
    return typer.prompt(question, default="", show_default=False) or None


def _listed(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _codes(entries: list[str]) -> dict[str, list[float]]:
    codes: dict[str, list[float]] = {}
    for entry in entries:
        column, sign, value = entry.rpartition("=")
        try:
            if not (column and sign):
                raise ValueError
            codes.setdefault(column, []).append(float(value))
        except ValueError:
            raise typer.BadParameter(
                f"--missing {entry}: give column=value, such as chol=0."
            ) from None
    return codes
