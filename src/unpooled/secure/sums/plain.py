"""No protection at all: every party's numbers as they are. The oracle of the tests.

The coordinator sees each party's own values; reports made under it say so first.
"""

from collections.abc import Iterable
from typing import final

import numpy as np

from unpooled.arrays import Array, Float, Shaped
from unpooled.errors import AggregationError
from unpooled.secure.sums.fixed_point import Code
from unpooled.secure.sums.secure_sum import SecureSum


@final
class PlainSum(SecureSum):
    """Send float64 in clear, and add."""

    def conceal(
        self, values: Float[Array, " d"], code: Code, context: bytes
    ) -> Shaped[Array, "..."]:
        """Return the values; only what is not finite is refused."""
        if not np.isfinite(values).all():
            raise AggregationError(
                "A value is not finite; find it in the step's result.",
                rule="fixed_point_range",
            )
        return values

    def added(
        self, concealed: Iterable[Shaped[Array, "..."]], code: Code
    ) -> Shaped[Array, "..."]:
        """Add the parties' values in roster order."""
        parts = iter(concealed)
        total = next(parts).copy()
        for part in parts:
            total += part
        return total

    def reveal(
        self, concealed: Iterable[Shaped[Array, "..."]], code: Code
    ) -> Float[Array, " d"]:
        """Return the same: nothing was hidden."""
        return self.added(concealed, code)
