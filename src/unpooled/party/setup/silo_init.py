"""Setting up a silo: its file, its rules, its key, and the line that other silos pin.

silo.toml  policy.toml  identity.key  roster.toml     stay in the silo
<name>.public                                         goes to every other silo
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from unpooled.data.sources.database_address import anchored
from unpooled.data.sources.open_source import open_source
from unpooled.data.toml import toml_text
from unpooled.errors import StudyError
from unpooled.party.rules.policy import Policy
from unpooled.party.setup.pinning import KeyRotation, Pinned, pin
from unpooled.party.setup.silo_file import (
    SiloFile,
    make_identity,
    read_identity,
    write_identity,
)
from unpooled.secure.keys.roster import Identity, Roster

_KEY_BYTES = 32
_POLICY = """\
# The rules of this silo, checked here before anything leaves. Anything that is not
# allowed is refused; every key has the library's default.

min_parties = 3             # with two, a total gives each the other's value
min_rows = 10               # behind a release, and in a block of a fold or split
min_rows_per_class = 5      # over all silos
min_own_cells = 2           # own values in a column, own rows of a class, if any
max_feature_ratio = 0.33    # features to rows, where pairs of features leave
max_released_share = 0.33   # numbers opened about a column, to its cells in all silos
max_leverage = 0.95         # of one row, where pairs of features leave
allow_disclosed = false     # this silo's own values, not only totals
allow_row_level = false     # with an axis over people; "parties": for silos alone
allow_order_statistics = false # quantiles that are one person's value
allow_roster_change = false # totals again, over other silos
# roster_period_days = 90   # after which the former may be; unset is never
min_changed_rows = 10
max_refusals = 3            # that depend on the rows, over all studies in ...
refusal_period_days = 30.0  # ... so many days
require_privacy = false     # only totals with noise for differential privacy
privacy_budget = 10.0       # epsilon of all private releases, over all studies
privacy_delta = 1e-5        # at which the budget is counted
# allowed_steps = ["imputer.*", "scaler.*", "pca.*"]
# allowed_columns = ["age", "sex"]
"""


@final
@dataclass(frozen=True)
class SiloConfig:
    """The decisions about a silo; the keys of its file.

    Attributes
    ----------
    name, source : str
        As in `SiloFile`; a relative path starts at the working directory.
    label, ids, partition, columns, exclude, categorical, missing, approval, format
        As in `SiloFile`.
    policy : Path or None
        A file of rules to copy; the defaults when None.
    """

    name: str
    # Not in the repr: the address of a database may hold a password.
    source: str = field(repr=False)
    label: str | None = None
    ids: str | None = None
    columns: Sequence[str] | None = None
    exclude: Sequence[str] | None = None
    categorical: Sequence[str] | None = None
    missing: Mapping[str, Sequence[float | str]] = field(default_factory=dict)
    policy: Path | None = None
    approval: str = "none"
    partition: str = "rows"
    format: Mapping[str, Any] = field(default_factory=dict)

    def to_toml(self) -> str:
        """Return the text of a silo's file (UTF-8)."""
        source = anchored(self.source, Path.cwd())
        lines = [("name", toml_text(self.name)), ("source", toml_text(source))]
        for key in ("label", "ids"):
            if (value := getattr(self, key)) is not None:
                lines.append((key, toml_text(value)))
        if self.partition != "rows":
            lines.append(("partition", toml_text(self.partition)))
        for key in ("columns", "exclude", "categorical"):
            if (names := getattr(self, key)) is not None:
                lines.append((key, _listed(names)))
        if self.missing:
            codes = [f"{toml_text(c)} = {_listed(v)}" for c, v in self.missing.items()]
            lines.append(("missing", f"{{ {', '.join(codes)} }}"))
        for key, value in self.format.items():
            text = _table(value) if isinstance(value, Mapping) else toml_text(value)
            lines.append((key, text))
        lines += [
            ("policy", '"policy.toml"'),
            ("identity", '"identity.key"'),
            ("roster", '"roster.toml"'),
            ("audit", '"../state/audit.sqlite"'),
            ("models", '"../state/models"'),
            ("approval", toml_text(self.approval)),
        ]
        return "\n".join(["[silo]", *(f"{k} = {v}" for k, v in lines), ""])


def _table(names: Mapping[str, str]) -> str:
    """Return texts by name as TOML writes them in one line."""
    each = [f"{toml_text(name)} = {toml_text(text)}" for name, text in names.items()]
    return f"{{ {', '.join(each)} }}"


def _listed(values: Sequence[float | str]) -> str:
    """Return numbers and texts as TOML writes a list of them."""
    each = [toml_text(v) if isinstance(v, str) else repr(v) for v in values]
    return f"[{', '.join(each)}]"


def init_silo(local: Path, config: SiloConfig) -> Path:
    """Write a silo's files; keep a key and a roster that are there.

    Parameters
    ----------
    local : Path
        The folder ``local`` of the silo's kit.
    config : SiloConfig
        The content of the silo's file.

    Returns
    -------
    Path
        The file with the public line, for the other silos.

    Raises
    ------
    StudyError, DataError
        When the silo is set up already, or its source or policy cannot be used; then
        nothing is written.
    """
    file = local / "silo.toml"
    if file.exists():
        raise StudyError(
            f"{file} exists: the silo is set up already. Edit the file, and look at it "
            f"with `unpooled silo check`."
        )
    open_source(
        config.source,
        label=config.label,
        ids=config.ids,
        columns=config.columns,
        exclude=config.exclude,
        categorical=config.categorical,
        missing=config.missing,
        **config.format,
    )
    rules = _POLICY
    if config.policy is not None:
        Policy.from_file(config.policy)
        rules = config.policy.read_text("utf-8-sig")
    local.mkdir(parents=True, exist_ok=True)
    (local / "policy.toml").write_text(rules, "utf-8")
    key = local / "identity.key"
    identity = read_identity(key) if key.exists() else make_identity(key)
    own = Roster({config.name: identity.public})
    public = local / f"{config.name}.public"
    public.write_text(own.to_toml(), "utf-8")
    pin(local / "roster.toml", [public])
    # Last, so that an interrupted set-up can be run again.
    file.write_text(config.to_toml(), "utf-8")
    # The address of a database may hold a password.
    file.chmod(0o600)
    SiloFile.from_file(file)
    return public


def rotate(silo: SiloFile) -> Path:
    """Make a new identity key for a silo, which its old one signs.

    The secret of the silo's digests and blocks stays, and with it the account of what
    was answered.

    Parameters
    ----------
    silo : SiloFile
        The silo, which must not take part in a study meanwhile.

    Returns
    -------
    Path
        The file with the public line and the signature, for the other silos.
    """
    old = silo.key()
    pinned = Pinned.from_file(silo.roster)
    secret = old.private_bytes()[_KEY_BYTES:]
    if not secret:
        raise StudyError(
            f"The key in {silo.identity} is of version 0.1, and the account of this "
            f"silo depends on it. It cannot be replaced by rotation."
        )
    new = Identity(Identity().private_bytes()[:_KEY_BYTES] + secret)
    public = silo.roster.with_name(f"{silo.name}.public")
    earlier = Pinned.from_file(public).rotated if public.exists() else []
    own = Pinned(Roster({silo.name: new.public}))
    own.rotated = [*earlier, KeyRotation.of(silo.name, old, new)]
    pinned.add(own, public)
    # The key last: until then the silo answers under the old one, or not at all.
    own.write(public)
    pinned.write(silo.roster)
    write_identity(silo.identity, new)
    return public
