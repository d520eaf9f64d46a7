"""Sums in clear, without any protection: the reference of the tests.

The coordinator sees each party's own values. Reports of such studies begin with that.
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
    """Sends float64 in clear and adds."""

    def conceal(
        self, values: Float[Array, " d"], code: Code, context: bytes
    ) -> Shaped[Array, "..."]:
        """Return the values; raise on those that are not finite."""
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
