"""Column names: the choice of features, and errors about unknown columns."""

import difflib
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import filterfalse
from typing import final

from unpooled.errors import DataError

# Names under which pandas writes its row index into Parquet and Arrow tables.
ROW_INDEX = re.compile(r"__index_level_\d+__")
# Names that a message has at most.
_LISTED = 12


def listing(names: Collection[str]) -> str:
    """Return quoted names for a message; beyond a dozen, the number of the rest."""
    quoted = [repr(name) for name in names]
    if len(quoted) <= _LISTED:
        return ", ".join(quoted)
    return f"{', '.join(quoted[:_LISTED])} and {len(quoted) - _LISTED} more"


def check_known(names: Sequence[str], known: Collection[str], source: str) -> None:
    """Raise when names are not columns of the source, and suggest similar ones."""
    if isinstance(known, tuple) and tuple(names) == known:
        return
    present = set(known)
    unknown = [name for name in names if name not in present]
    if not unknown:
        return
    # Without case: "height" is closer to "Height" than to "Weight".
    folded = {str(other).casefold(): other for other in present}
    hints = []
    for name in unknown[:3]:
        close = difflib.get_close_matches(str(name).casefold(), folded, n=1)
        hints += [f"{folded[close[0]]!r} for {name!r}"] if close else []
    hint = f"Did you mean {', '.join(hints)}? " if hints else ""
    raise DataError(
        f"{source} has no column {listing(unknown)}. {hint}"
        f"It has {listing(tuple(known)) or 'no columns'}.",
        rule="unknown_columns",
    )


@final
@dataclass(frozen=True)
class Roles:
    """The roles of a source's columns: features, label, ids.

    Attributes
    ----------
    label, ids : str or None
        Columns of any type that are read with the features and never used as features.
    columns : sequence of str or None
        The only features to use; when None, all columns but the label, the ids and the
        row index of a pandas DataFrame.
    exclude : sequence of str
        Columns that are not features, in place of naming all that are.
    also : tuple of str
        Columns of any type that are read with the features: to choose rows, or as
        categories.
    categorical : tuple of str
        The columns of categories, which text files give as they are written.
    declared : tuple of str
        Columns of the source, read or not, about which something is declared.
    """

    label: str | None = None
    ids: str | None = None
    columns: Sequence[str] | None = None
    exclude: Sequence[str] = ()
    also: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    declared: tuple[str, ...] = ()

    @property
    def others(self) -> list[str]:
        """The columns that are no features: label, ids, those that choose rows."""
        return [*self._named, *self.also]

    @property
    def _named(self) -> list[str]:
        return [name for name in (self.label, self.ids) if name is not None]

    def unread(self, features: Collection[str]) -> set[str]:
        """Return the columns about which something is declared, and that are left out.

        Parameters
        ----------
        features : collection of str
            What `features` returned.
        """
        return {*self.declared} - {*features, *self.others}

    def beside(self, features: Collection[str]) -> "Roles":
        """Return the roles without columns that are features, label or ids anyway."""
        known = {*features, *self._named}
        return replace(self, also=tuple(n for n in self.also if n not in known))

    def features(self, names: Sequence[str], source: str) -> tuple[str, ...]:
        """Return the columns that a study may compute with, in the order of the source.

        Parameters
        ----------
        names : sequence of str
            All columns of the source.
        source : str
            What to call the source in an error, for instance ``"the file a.csv"``.

        Raises
        ------
        DataError
            For names that are unknown, repeated or blank, or when no feature is left.
        """
        if len(set(names)) < len(names):
            repeated = [name for name, times in Counter(names).items() if times > 1]
            raise DataError(
                f"{source} has more than one column named {listing(repeated)}; names "
                f"must differ. Rename or drop the repeated columns."
            )
        others = self._named
        check_known(self.others, names, source)
        check_known(self.declared, names, source)
        if len(set(others)) < len(others):
            raise DataError(
                f"{self.label!r} was named as both the label and the ids. Name two "
                f"columns, or leave one out."
            )
        others += self.categorical
        features = _features(names, others, self.columns, self.exclude, source)
        if not features and not self.categorical:
            raise DataError(
                f"{source} has no feature columns (label: {self.label!r}, ids: "
                f"{self.ids!r}). A study needs at least one column besides them."
            )
        return features


# The roles of a source whose columns are all features.
NO_ROLES = Roles()


def _features(
    names: Sequence[str],
    others: Sequence[str],
    wanted: Sequence[str] | None,
    exclude: Sequence[str],
    source: str,
) -> tuple[str, ...]:
    for key, given in (("columns", wanted), ("exclude", exclude)):
        if isinstance(given, str):
            raise DataError(
                f"{key}={given!r} is one string; a list of names is needed. "
                f"Write [{given!r}]."
            )
    if wanted is not None and exclude:
        raise DataError(
            "columns and exclude are both given. Name the columns to study, or those "
            "to leave out."
        )
    check_known(exclude, names, source)
    dropped = {*others, *exclude}
    if wanted is None:
        # Without a line of Python for each of what may be 200,000 names.
        left = [n for n in names if n not in dropped] if dropped else names
        if not all(map(str.strip, left)):
            raise DataError(
                f"{source} has a column without a name, which may be a row index. "
                f"Write the source without the index, name the column, or name the "
                f"columns to study."
            )
        return tuple(filterfalse(ROW_INDEX.match, left))
    check_known(wanted, names, source)
    taken = [name for name in wanted if name in others]
    if taken:
        raise DataError(
            f"{listing(taken)} cannot be a feature and the label or the ids at once. "
            f"Leave it out of the columns to study, or do not name it as label or ids."
        )
    chosen = set(wanted)
    return tuple(name for name in names if name in chosen)


def refuse_text(kinds: dict[str, str], source: str) -> None:
    """Raise when feature columns are not numbers.

    Parameters
    ----------
    kinds : dict
        What each such column holds, by name.
    source : str
        What to call the source in the error.
    """
    if not kinds:
        return
    named = [f"{name!r} ({kind})" for name, kind in kinds.items()]
    shown = ", ".join(named[:12]) + (f" and {len(named) - 12} more" * (len(named) > 12))
    raise DataError(
        f"{source} has feature columns that are not numbers: {shown}. Name "
        f"columns of categories (categorical), one as the label or the ids, or leave "
        f"them out (exclude)."
    )
