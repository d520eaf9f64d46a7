"""The question that a plan asks a silo about a step, and the silo's reply.

    coordinator ── the request, PlannedStep ──> silo
                <── Foreseen ──

The silo computes nothing of the step. Its reply has the name of a rule and names of
columns, no value and no number of rows.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

from unpooled.errors import DATA_RULES
from unpooled.protocol.refusal import Refusal

_FLAGS = ("complete", "varying", "valued", "matched")
_NAMES = ("carried", "empty", "constant")


@final
@dataclass(frozen=True, kw_only=True)
class PlannedStep:
    """A plan's question about a step, beside the request itself.

    Attributes
    ----------
    complete, varying, valued : bool
        Whether the model takes no missing cells, no column that is constant over the
        rows of all silos, and none that lacks every value in all silos.
    matched : bool
        Whether silos know which of their rows they would read: not before these are
        matched by ids.
    earlier : tuple of tuple of str
        For each choice of rows that earlier requests of the plan read, the columns in
        which they are complete, none for all rows.
    rho : float
        What all private releases of the plan cost together.
    opens : (float, float)
        How many numbers about one of its columns the plan opens before this step, at
        most, and how many the step opens.
    """

    complete: bool = False
    varying: bool = False
    valued: bool = False
    matched: bool = True
    earlier: tuple[tuple[str, ...], ...] = ()
    rho: float = 0.0
    opens: tuple[float, float] = (0.0, 0.0)

    def as_header(self) -> dict[str, Any]:
        """Return JSON values, for the header of the message with the request."""
        header: dict[str, Any] = {name: getattr(self, name) for name in _FLAGS}
        header["earlier"] = [list(columns) for columns in self.earlier]
        return header | {"rho": self.rho, "opens": list(self.opens)}

    @classmethod
    def from_header(cls, header: Mapping[str, Any]) -> "PlannedStep":
        """Read what `as_header` returned; a field that is absent has its default.

        Raises
        ------
        Refusal
            With the rule "malformed_message".
        """
        flags = {name: header.get(name, getattr(cls, name)) for name in _FLAGS}
        if any(type(flag) is not bool for flag in flags.values()):
            raise Refusal("malformed_message")
        earlier, opens = header.get("earlier", []), header.get("opens", [0.0, 0.0])
        if not isinstance(earlier, list) or not all(map(_are_names, earlier)):
            raise Refusal("malformed_message")
        if not isinstance(opens, list) or len(opens) != 2:
            raise Refusal("malformed_message")
        rho, before, own = numbers = (header.get("rho", 0.0), *opens)
        for number in numbers:
            if type(number) is not float or not 0.0 <= number < math.inf:
                raise Refusal("malformed_message")
        read = tuple(tuple(columns) for columns in earlier)
        return cls(**flags, earlier=read, rho=rho, opens=(before, own))


@final
@dataclass(frozen=True, kw_only=True)
class Foreseen:
    """A silo's reply about a planned step.

    Attributes
    ----------
    rule : str
        The rule by which the silo would refuse; empty where none would.
    columns : tuple of str
        The columns that have the cells which the rule is about.
    complete_in : tuple of str, optional
        The columns in which the rows that the step would read are complete.
    further : bool
        Whether the numbers that the step opens would be further ones in the budget.
    carried : tuple of str
        Of a silo that allows its own values to be seen, the columns of which one row
        carries half of a direction.
    empty, constant : tuple of str
        Columns without a value in this silo, and with one value in all its rows; only
        of models that take none.
    doubt : (str, tuple of str), optional
        Before rows are matched, the rule and columns of cells that may be read.
    """

    rule: str = ""
    columns: tuple[str, ...] = ()
    complete_in: tuple[str, ...] | None = None
    further: bool = True
    carried: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()
    constant: tuple[str, ...] = ()
    doubt: tuple[str, tuple[str, ...]] | None = None

    def as_header(self) -> dict[str, Any]:
        """Return JSON values, for the header of the reply."""
        header: dict[str, Any] = {"rule": self.rule, "columns": list(self.columns)}
        header["further"] = self.further
        header |= {n: list(some) for n in _NAMES if (some := getattr(self, n))}
        if self.complete_in is not None:
            header["complete_in"] = list(self.complete_in)
        if self.doubt is not None:
            rule, columns = self.doubt
            header["doubt"] = {"rule": rule, "columns": list(columns)}
        return header

    @classmethod
    def from_header(cls, header: Mapping[str, Any]) -> "Foreseen":
        """Read a reply: that of `as_header`, a refusal, or anything else.

        What is not of its type counts as absent: a silo that says it only harms the
        plan that it is asked for.
        """
        rule, further = header.get("rule"), header.get("further")
        rows, doubt = header.get("complete_in"), header.get("doubt")
        return cls(
            rule=rule if isinstance(rule, str) else cls.rule,
            columns=_names(header.get("columns")),
            complete_in=_names(rows) if _are_names(rows) else None,
            further=further is not False,
            doubt=_doubt(doubt) if isinstance(doubt, dict) else None,
            **{name: _names(header.get(name)) for name in _NAMES},
        )


def _doubt(doubt: Mapping[str, Any]) -> tuple[str, tuple[str, ...]] | None:
    rule = doubt.get("rule")
    if not isinstance(rule, str) or rule not in DATA_RULES:
        return None
    return rule, _names(doubt.get("columns"))


def _names(columns: Any) -> tuple[str, ...]:
    return tuple(columns) if _are_names(columns) else ()


def _are_names(columns: Any) -> bool:
    return isinstance(columns, list) and all(isinstance(c, str) for c in columns)
