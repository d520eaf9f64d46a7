"""The size of a party's view, which the axis letters of a declaration stand for."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

from unpooled.errors import DataError
from unpooled.protocol.step import Step


@final
@dataclass(frozen=True)
class ViewSize:
    """The size of a party's view, as both ends know it before any step runs.

    Attributes
    ----------
    n_features : int
        The party's columns, p.
    n_rows : int or None
        On a column partition the common sample size N. On a row partition None: the
        number of its rows stays in the silo.
    """

    n_features: int
    n_rows: int | None = None

    def sizes(self, step: Step, public: Mapping[str, Any]) -> dict[str, int]:
        """Return the sizes of a step's axis letters, checking its public arguments.

        Raises
        ------
        DataError
            When the arguments are not the declared ones, or an array that is summed or
            exchanged has an axis over columns that differ between parties.
        """
        if self.n_rows is not None and step.verb in ("summed", "exchanged"):
            does = "sums" if step.verb == "summed" else "exchanges"
            for name, declared in step.leaves.items():
                if "p" in declared.letters:
                    raise DataError(
                        f"{step.name} {does} {name} over the columns p, which differ "
                        f"between the parties of a column partition. Keep or disclose "
                        f"it, or take what has no such axis.",
                        rule="declaration",
                    )
        return step.sizes(self.n_features, public, self.n_rows)
