"""The silo's own rules, checked in the silo before a step runs and before values leave.

A policy is a small TOML file that the silo owns. Every default refuses: what is not
allowed in the file does not happen, and an unknown key is an error rather than a rule
that silently does nothing.
"""

import dataclasses
import functools
import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeVar, final

import numpy as np

from unpooled.data.toml import suggestion
from unpooled.errors import StudyError
from unpooled.protocol.declaration import ROW_AXES, Declared
from unpooled.protocol.opened_numbers import SHARE
from unpooled.protocol.refusal import Refusal
from unpooled.protocol.step import Step, find_step
from unpooled.protocol.view_operations import Derive

_Kind = TypeVar("_Kind")
# Leading binary digits of its rows that a silo's refusal may depend on.
_DIGITS = 4

# Keys of earlier versions, and what they became.
_FORMER = {
    "max_row_share": "leverage takes its place. Delete the key, and set max_leverage "
    "(0.95 by default, 1 for no limit) if its default does not suit the silo.",
}


def _naming_misspelt_rules(kind: type[_Kind]) -> type[_Kind]:
    """Give the constructor's error about a misspelt rule the text of a mapping's."""
    plain: Any = kind.__init__

    @functools.wraps(plain)
    def checked(self: Any, *given: Any, **rules: Any) -> None:
        _check_keys(rules)
        plain(self, *given, **rules)

    kind.__init__ = checked
    return kind


@final
@_naming_misspelt_rules
@dataclass(frozen=True)
class Policy:
    """The rules of a silo.

    Parameters
    ----------
    min_parties : int, default 3
        Fewest parties in a study. With two, a total gives each the other's value.
    min_rows : int, default 10
        Fewest rows behind a release, and fewest of a block: folds and splits are made
        of the blocks that a silo cuts its rows into. In a sum over the observed cells
        of a column, also the fewest rows of all silos together with a value there.
    min_rows_per_class : int, default 5
        Fewest rows of any class that is present, over all silos together, in a release
        by class. Of what a silo discloses by itself, where it alone has the label, and
        in a block, the fewest of its own.
    min_own_cells : int, default 2
        Fewest of the silo's own values in a column, and fewest of its own rows of a
        class, if there are any: with one, a sum would hold that person's value alone.
    max_feature_ratio : float, default 0.33
        Largest ratio of features to the silo's rows in a release over pairs of
        features; with more features than rows a covariance can be solved for records.
        It holds too for the rows, over all silos, by which folds and splits differ.
        Products with blocks of directions count in `max_released_share`.
        For features that are drawn, in number more than the columns that they are made
        of, it is the largest ratio in any release.
    max_released_share : float, default 0.33
        Most numbers of totals that may be opened about a column, over all studies, as
        a share of its cells in all silos: with as many numbers as cells, records can be
        solved for. Equal totals count once. Products over some blocks of rows are at
        most the same share of the cells of these.
    max_leverage : float, default 0.95
        Largest leverage of one of the silo's rows in a release over pairs of features:
        the share that one row has in the squares of some linear combination of the
        columns. At 1 the covariances of that combination are the row's own record. Not
        applied with as many features as rows, where every leverage is 1: these are for
        `max_feature_ratio` to allow. A silo that raises it, but not so far, raises this
        limit as well: the mean leverage is features over rows.
        It holds too for rows with the weights that a regression gives them.
    allow_disclosed : bool, default False
        Whether the silo's own value may be seen (`collect`, `exchange`), other than how
        many columns a transform makes of its own columns, and whether a step that does
        not add over rows may be asked for several settings, whose totals together give
        each silo's own value.
    allow_row_level : bool or "parties", default False
        Whether a release may have an axis over people; with "parties" only where the
        parties alone open it, so that the coordinator sees no row, or where their
        processes have shares of it and nobody opens it. With False a silo takes no part
        either in other sums over silos with different columns, unless it allows its own
        values to be seen.
    allow_roster_change : bool, default False
        Whether the table may be answered about again for another set of parties,
        whatever the columns.
    roster_period_days : float, optional
        After so many days without an answer about the table, by the silo's own clock,
        it may be for another set of parties. None: never.
    min_changed_rows : int, default 10
        Fewest rows that must differ between two versions of the table, in any column
        that studies may read or in the label.
    max_refusals : int, default 3
        Most refusals in a period that depend on the silo's rows, over all studies; each
        of them is an answer. The same refusal of the same question counts once.
    refusal_period_days : float, default 30.0
        That period, by the silo's own clock.
    allow_order_statistics : bool, default False
        Whether a quantile may be a single person's value. Otherwise its search ends
        where `min_rows` values are left about it.
    require_privacy : bool, default False
        Whether only differentially private totals may leave.
    privacy_budget : float, default 10.0
        The ε, at `privacy_delta`, of all private releases together, over all studies.
    privacy_delta : float, default 1e-5
        The δ at which the budget is counted.
    allowed_steps : sequence of str, optional
        Steps that may run, with ``*`` as wildcard. None: the library's own and, in
        one process, those that the process declared. A transform that the study did not
        fit is accepted only if it is listed here by its whole name, or by ``"*"``.
    allowed_columns : sequence of str, optional
        Source columns that may be read, with ``*`` as wildcard. None: all.

    Raises
    ------
    StudyError
        When a value is not of the type or in the range of its key.
    """

    min_parties: int = 3
    min_rows: int = 10
    min_rows_per_class: int = 5
    min_own_cells: int = 2
    max_feature_ratio: float = 0.33
    max_released_share: float = SHARE
    max_leverage: float = 0.95
    allow_disclosed: bool = False
    allow_row_level: bool | str = False
    allow_roster_change: bool = False
    roster_period_days: float | None = None
    min_changed_rows: int = 10
    max_refusals: int | float = 3
    refusal_period_days: float = 30.0
    allow_order_statistics: bool = False
    require_privacy: bool = False
    privacy_budget: float = 10.0
    privacy_delta: float = 1e-5
    allowed_steps: Sequence[str] | None = None
    allowed_columns: Sequence[str] | None = None

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            _check_value(field.name, field.default, getattr(self, field.name))

    @classmethod
    def open(cls) -> "Policy":
        """Return a policy that allows everything, for data that is not secret."""
        return cls(
            min_parties=1,
            min_rows=0,
            min_rows_per_class=0,
            min_own_cells=0,
            max_feature_ratio=math.inf,
            max_released_share=math.inf,
            max_leverage=1.0,
            allow_disclosed=True,
            allow_row_level=True,
            allow_roster_change=True,
            min_changed_rows=0,
            max_refusals=math.inf,
            allow_order_statistics=True,
            privacy_budget=math.inf,
            allowed_steps=("*",),
        )

    @classmethod
    def of(cls, policy: "Policy | Mapping[str, Any] | str | Path | None") -> "Policy":
        """Return a policy from one, its keys, a TOML file's path, or None (default).

        Raises
        ------
        StudyError
            When there is no such file, or it is not a policy.
        """
        if isinstance(policy, Policy):
            return policy
        if isinstance(policy, str | Path):
            if not Path(policy).exists():
                raise StudyError(
                    f"There is no policy file {policy}. A policy is the path of a TOML "
                    f"file, a mapping of rules, or a Policy; unpooled.Policy.open() "
                    f"allows everything."
                )
            return cls.from_file(policy)
        return cls._from_keys(policy)

    @classmethod
    def from_file(cls, path: str | Path) -> "Policy":
        """Read a TOML file with the keys at its top or in a table [policy].

        Raises
        ------
        StudyError
            When the file cannot be read, or has unknown keys or values.
        """
        try:
            content = tomllib.loads(Path(path).read_text("utf-8-sig"))
        except OSError as wrong:
            raise StudyError(
                f"Cannot read the policy {path}: {wrong.strerror or wrong}."
            ) from wrong
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as wrong:
            raise StudyError(f"Cannot read the policy {path}: {wrong}.") from wrong
        rules = content.pop("policy", content)
        if rules is not content and content:
            # Beside the table they would silently do nothing.
            raise StudyError(
                f"{path}: the keys {sorted(content)} stand outside the table [policy]."
            )
        return cls._from_keys(rules)

    @classmethod
    def _from_keys(cls, rules: Any) -> "Policy":
        known = [field.name for field in dataclasses.fields(cls)]
        if not isinstance(rules, Mapping | None):
            raise StudyError(
                f"A policy is a table of {', '.join(known)}, the path of a TOML file "
                f"with them, or a Policy; not {type(rules).__name__}."
            )
        _check_keys(rules or {})  # of which some may be no texts
        return cls(**(rules or {}))

    def as_dict(self) -> dict[str, Any]:
        """Return the keys and values, for reports."""
        return dataclasses.asdict(self)

    def check_parties(self, n_parties: int) -> None:
        """Refuse a study of too few parties."""
        if n_parties < self.min_parties:
            raise Refusal("min_parties")

    def check_step(
        self,
        step: Step,
        to: str = "coordinator",
        protection: str = "masked",
        chosen: Iterable[str] = (),
    ) -> None:
        """Refuse a step, or a way of seeing its values, that is not allowed.

        Parameters
        ----------
        step : Step
            The requested step.
        to : {"coordinator", "parties"}, default "coordinator"
            The end that opens totals.
        protection : {"masked", "plain"}, default "masked"
            How they travel.
        chosen : iterable of str
            The arguments that come from the coordinator, and not from a total that the
            parties alone can open.
        """
        if self.allowed_steps is not None and not self.lists_step(step.name):
            raise Refusal("allowed_steps")
        # A total with weights of people that a coordinator chose discloses single rows.
        if self.allow_row_level is not True and _weighs_people(step, chosen):
            raise Refusal("allow_row_level")
        # Parties that compute have shares of single people's cells.
        if step.shares_people and not self.allow_row_level:
            raise Refusal("allow_row_level")
        for declared in step.leaves.values():
            seen = step.verb in ("disclosed", "exchanged")
            # How many columns a silo has is known of each, and said when it joins.
            form = step.verb == "disclosed" and declared.counts == "columns"
            if seen and not (self.allow_disclosed or form):
                raise Refusal("allow_disclosed")
            if declared.level == "row" and not self._shows(step.verb, to, protection):
                raise Refusal("allow_row_level")
            if declared.veiled and to != "parties":
                raise Refusal("declaration")
            if self.require_privacy and declared.noise is None:
                raise Refusal("require_privacy")

    def check_limits(self, step: Step, public: Mapping[str, Any]) -> None:
        """Refuse a step that would keep a lower limit for the silo than its own."""
        for name, taken in step.takes.items():
            if not taken.least:
                continue
            asked, own = public.get(name), getattr(self, taken.least)
            if isinstance(asked, bool) or not isinstance(asked, int | float):
                raise Refusal("arguments")
            if taken.least == "min_rows" and self.allow_order_statistics:
                continue
            # Turned round, so that what is no number is refused.
            if not asked >= own:
                order = taken.least == "min_rows"
                raise Refusal("allow_order_statistics" if order else taken.least)

    def check_alone(self, step: Step, to: str, n_parties: int) -> None:
        """Refuse a total with entries of one silo, but between two that open it."""
        between_two = n_parties == 2 and to == "parties"
        if step.between_two and not between_two and not self.allow_disclosed:
            raise Refusal("allow_disclosed")

    def check_within_silos(self, step: Step, linear: bool | None) -> None:
        """Refuse a total that bends where numbers of the silo's own say.

        Parameters
        ----------
        step : Step
            The requested step.
        linear : bool or None
            `View.within_silos` of what the step reads.
        """
        read = bool({"X", "cells", "sums", "kept"} & set(step.reads))
        told = step.verb in ("summed", "compared", "computed") and read
        answered = linear is None or (linear and step.within_silos)
        if told and not (answered or self.allow_disclosed):
            raise Refusal("within_silos")

    def check_sum_over_columns(self, step: Step) -> None:
        """Refuse a total over silos with other columns, where no people are shown.

        Each silo adds what it finds of its own columns. So totals over two selections
        of columns, or over columns in two units, subtract to one silo's own part.
        """
        told = any(one.noise is None for one in step.leaves.values())
        added = step.verb not in ("disclosed", "exchanged")
        if told and added and not (self.allow_row_level or self.allow_disclosed):
            raise Refusal("allow_row_level")

    def _shows(self, verb: str, to: str, protection: str) -> bool:
        """Whether the opener of a row-level release is allowed to see it."""
        if self.allow_row_level != "parties":
            return bool(self.allow_row_level)
        # Without masks a total for the parties passes the coordinator in clear.
        veiled = (verb, to, protection) == ("summed", "parties", "masked")
        return veiled or verb == "exchanged"

    def check_columns(self, source_columns: Sequence[str]) -> None:
        """Refuse to read a column that is not on the silo's list."""
        if self.allowed_columns is None:
            return
        if not all(map(self.allows_column, source_columns)):
            raise Refusal("allowed_columns")

    def allows_column(self, column: str) -> bool:
        """Whether a source column may be read."""
        return self.allowed_columns is None or _listed(column, self.allowed_columns)

    def check_rows(self, n_rows: int) -> None:
        """Refuse a release over few rows, or over blocks of few rows."""
        if n_rows < self.min_rows:
            raise Refusal("min_rows")

    def check_features(self, declared: Declared, n_features: int, n_rows: int) -> None:
        """Refuse pairs of features where features are too many for the rows.

        A silo without rows in the view has nothing that could be solved for.
        """
        if declared.pairs_features and n_rows:
            self.check_width(n_features, n_rows)

    def check_width(self, n_columns: int, n_rows: int) -> None:
        """Refuse columns where they are too many for rows of the silo's own.

        These are rounded down, so that their number does not follow from how many
        columns are refused, and all such refusals are of one question.
        """
        if n_columns > self.most_columns(n_rows):
            raise Refusal(
                "max_feature_ratio",
                f"Of {n_columns:,} columns at most {self.most_columns(n_rows):,} pass "
                f"with {n_rows:,} rows here.",
                about=["columns", rounded_down(n_rows)],
            )

    def check_made(self, n_columns: int, n_rows: int) -> None:
        """Refuse made-up columns where they are too many for the rows."""
        if not self.allows_pairs(n_columns, n_rows):
            raise Refusal(
                "max_feature_ratio", f"Here {n_columns:,} columns of {n_rows:,} rows."
            )

    def most_columns(self, n_rows: int) -> int:
        """Return the most columns over rows of the silo's own, by a coarse number."""
        return int(min(self.max_feature_ratio * rounded_down(n_rows), 1e9))

    def allows_pairs(self, n_features: int, n_rows: int) -> bool:
        """Whether a release over all pairs of so many features is allowed."""
        # Not turned round: without a limit and without rows the product is no number.
        return not n_features > self.max_feature_ratio * n_rows

    def check_own_cells(self, counts: Iterable[int | float]) -> None:
        """Refuse where one person alone has a value in a column, or is of a class."""
        if any(0 < count < self.min_own_cells for count in counts):
            raise Refusal("min_own_cells")

    def check_cells(self, counts: Iterable[int | float]) -> None:
        """Refuse a sum over the observed cells of a column where they are few."""
        if any(0 < count < self.min_rows for count in counts):
            raise Refusal("min_rows")

    def check_classes(self, counts: Iterable[int | float]) -> None:
        """Refuse a release by class where a class that is present has few rows."""
        if any(0 < count < self.min_rows_per_class for count in counts):
            raise Refusal("min_rows_per_class")

    def check_groups(self, transform: Derive) -> None:
        """Refuse a transform that makes columns of groups of few rows of all silos."""
        for name, taken in find_step(transform.step).takes.items():
            if taken.counts == "groups":
                self.check_classes(np.asarray(transform.public[name]).tolist())

    def lists_step(self, name: str) -> bool:
        """Whether the silo named this step itself."""
        return self.allowed_steps is not None and _listed(name, self.allowed_steps)

    def trusts_transform(self, name: str) -> bool:
        """Whether a transform needs no fit: a list that narrows must not widen."""
        return not {name, "*"}.isdisjoint(self.allowed_steps or ())


def _weighs_people(step: Step, arguments: Iterable[str]) -> bool:
    axes = (step.takes[name].axes.split() for name in arguments if name in step.takes)
    return any(ROW_AXES & set(letters) for letters in axes)


def _listed(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _check_keys(rules: Iterable[str]) -> None:
    known = [field.name for field in dataclasses.fields(Policy)]
    if unknown := sorted(set(map(str, rules)) - set(known)):
        for former in sorted(_FORMER.keys() & set(unknown)):
            raise StudyError(f"Policy {former}: {_FORMER[former]}")
        raise StudyError(
            f"Unknown policy keys {unknown}. {suggestion(unknown[0], known)}The keys "
            f"are {', '.join(known)}."
        )


def _check_value(name: str, default: Any, value: Any) -> None:
    if name == "roster_period_days" and value is None:
        return
    if default is None and name != "roster_period_days":
        listed = isinstance(value, list | tuple)
        good = value is None or (listed and all(isinstance(v, str) for v in value))
        wanted = "a list of names"
    elif isinstance(default, bool):
        good, wanted = isinstance(value, bool), "true or false"
        if name == "allow_row_level":
            good, wanted = good or value == "parties", f'{wanted}, or "parties"'
    else:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        good, wanted = number and value >= 0, "a number that is not negative"
        if isinstance(default, int):
            no_limit = value == math.inf and name.startswith("max_")
            whole = good and (no_limit or value % 1 == 0)
            good, wanted = whole, "a whole number"
    if not good:
        raise StudyError(f"Policy {name} = {value!r}: it takes {wanted}.")


def rounded_down(n_rows: int) -> int:
    """Return a number of rows to four binary digits, for limits that are refused at.

    Whoever finds such a limit learns the number of rows within an eighth.
    """
    step = 1 << max(n_rows.bit_length() - _DIGITS, 0)
    return n_rows // step * step
