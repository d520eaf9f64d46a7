"""The two ways to compare the likelihood's slope with zero: in secret, or by totals."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, final

from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.root_search import SignSearch
from unpooled.models.preprocessing.lambda_search import (
    compared_columns,
    compared_search,
    compared_signs,
)
from unpooled.models.preprocessing.pooled_lambda import (
    Columns,
    Progress,
    summed_columns,
    summed_search,
    summed_signs,
)
from unpooled.models.preprocessing.reference_locations import (
    check_reference,
    declared_columns,
    declared_columns_summed,
)
from unpooled.protocol.step import Step


@final
@dataclass(frozen=True)
class Comparison:
    """How λ is searched: by which steps, and how many candidates at a time.

    Attributes
    ----------
    counts : Step
        Counts cells.
    found, declared : callable
        Take a federation, and a declared reference, and give counts and references.
    search : callable
        Takes a number of columns and a tolerance.
    signs : callable
        Takes a federation and its columns, and gives what `Progress.run` asks.
    """

    counts: Step
    found: Callable[[Federation], Columns]
    declared: Callable[[Federation, Mapping[str, Any]], Columns]
    search: Callable[[int, float], SignSearch]
    signs: Callable[[Federation, Columns], Any]

    def begun(
        self, federation: Federation, tol: float, reference: Mapping[str, Any] | None
    ) -> Progress:
        """Return a search that has its references and no sign yet."""
        if reference is None:
            columns = self.found(federation)
        else:
            columns = self.declared(federation, reference)
        return Progress(columns, self.search(int(columns.varying.sum()), tol))


def in_secret(
    counts: Step, lengths: Step, sides: Step, widths: Step, slopes: Step
) -> Comparison:
    """Compare by the steps of `lambda_search`, under the name of a model."""
    return Comparison(
        counts,
        partial(
            compared_columns, counts=counts, lengths=lengths, sides=sides, widths=widths
        ),
        lambda here, reference: declared_columns(here, counts, widths, reference),
        compared_search,
        partial(compared_signs, slopes=slopes),
    )


def by_totals(counts: Step, sizes: Step, squares: Step, slopes: Step) -> Comparison:
    """Compare by the steps of `pooled_lambda`, under the name of a model."""
    return Comparison(
        counts,
        partial(summed_columns, sizes=sizes, squares=squares),
        lambda here, reference: declared_columns_summed(
            here, counts, squares, reference
        ),
        summed_search,
        partial(summed_signs, slopes=slopes),
    )


def check_search(comparison: str, tol: float, reference: Any) -> None:
    """Refuse parameters of `PowerTransformer` that mean nothing."""
    if comparison not in ("mpc", "summed"):
        raise DataError(f'comparison={comparison!r}; choose "mpc" or "summed".')
    if not 2.0**-40 <= tol < 1.0:
        raise DataError(
            f"tol={tol!r}; choose between 2^-40, where rounding begins, and 1."
        )
    check_reference(reference)
