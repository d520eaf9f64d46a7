"""A response column and the columns that predict it, in a federation by rows.

fit(federation, y="chol")   the other columns predict; `offset` names one that is added
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.data.columns import check_known, listing
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.models.metrics.predictions import predicted
from unpooled.models.metrics.regression import PREDICTED
from unpooled.models.regression.families import FAMILIES
from unpooled.models.regression.site_effects import check_whole, predicted_in_silo
from unpooled.protocol.step import derived, public


@derived(
    within_silos=True,
    takes={"coef": public("l", "the regression coefficients")},
)
def predicted_response(
    X: Float[Array, "n p"],
    *,
    coef: Float[Array, " l"],
    intercept: float,
    family: str,
    offset: bool,
) -> Float[Array, "n q"]:
    """Return predicted means from the first columns of rows, then the response."""
    p = len(coef)
    eta = X[:, :p] @ coef + intercept
    if offset:
        eta = eta + X[:, p]
    mean = FAMILIES[family].mean(eta)
    return np.column_stack([mean, X[:, p + offset :]])


@final
@dataclass(frozen=True)
class RegressionRoles:
    """Which columns of a federation are what.

    Attributes
    ----------
    predictors : list of str
    offset : str or None
    response : str
    """

    predictors: list[str]
    offset: str | None
    response: str

    @classmethod
    def of(
        cls,
        federation: Federation,
        y: Any,
        offset: str | None = None,
        clusters: str | None = None,
    ) -> "RegressionRoles":
        """Return the roles for `y`, which names the response.

        A column of `clusters` has no role in the model, and is left out. A silo that
        follows a column partition knows the names of its own columns alone: where the
        response is another's, one of the others' numbered columns is left out for it.
        """
        names = federation.feature_names
        if y is None:
            raise DataError(
                f"Name the column that is predicted: fit(federation, y={names[-1]!r})."
            )
        if (label := federation.label) is not None and y in (label, [label]):
            raise DataError(
                f"{label!r} is the label, which is kept beside the columns, and a "
                f"regression predicts a column. Make the federation without "
                f"label={label!r}; in a study file leave out the key label."
            )
        named = [y] if isinstance(y, str) else list(y)
        elsewhere = bool(federation.layout.known_to) and not set(named) & set(names)
        if len(named) != 1:
            raise DataError(f"y={y!r}: name one of the columns {listing(names)}.")
        if not elsewhere:
            check_known(named, names, "For y, the view that is fitted")
        response = str(named[0])
        if offset is not None and offset not in names:
            raise DataError(
                f"offset={offset!r}: name one of the columns {listing(names)}. One "
                f"that has a logarithm is made first: "
                f"DerivedColumns({{'log_time': 'log(time)'}})."
            )
        if offset == response:
            raise DataError(
                f"offset={offset!r}: name a column other than the response, "
                f"{response!r}."
            )
        if clusters is not None and clusters in (response, offset):
            raise DataError(
                f"clusters={clusters!r}: name a column other than the response and the "
                f"offset."
            )
        others = (response, offset, clusters)
        predictors = [name for name in names if name not in others]
        if elsewhere:
            predictors.pop()
        if not predictors:
            raise DataError("No column is left that could predict the response.")
        return cls(predictors, offset, response)

    @property
    def columns(self) -> list[str]:
        """All columns: predictors, the offset, the response."""
        return [*self.predictors, *self._offsets, self.response]

    @property
    def _offsets(self) -> list[str]:
        return [] if self.offset is None else [self.offset]

    def predictions(
        self, model: Any, view: Federation, family: str, *, kept_of: str = ""
    ) -> Federation:
        """Return the view of a model's predictions and of the response, if it is there.

        Parameters
        ----------
        model : estimator
            Fitted, with `coef_` (p,), and `intercept_` unless silos keep their own.
        view : Federation
            Rows with the predictors.
        family : str
            Whose link gives the means.
        kept_of : str, optional
            Address of the fit of which the silos keep their own intercepts.
        """
        known = [self.response] if self.response in view.feature_names else []
        wanted = (*self.predictors, *self._offsets, *known)
        # Silos that follow predict on this view: it must come out the same.
        if view.feature_names != wanted:
            view = view.select(wanted)
        arguments: dict[str, Any] = {
            "family": family,
            "offset": self.offset is not None,
        }
        names: Sequence[str] = [PREDICTED + self.response, *known]
        if kept_of:
            check_whole(view)
            arguments["coef"] = model.coef_[None]
            step = predicted_in_silo
        else:
            arguments |= {"coef": model.coef_, "intercept": float(model.intercept_)}
            step = predicted_response
        return predicted(
            model, "predict", view, step, names, arguments, kept_of=kept_of
        )


def check_enough_rows(N: int, p: int, n_intercepts: int) -> None:
    """Refuse as many parameters as there are rows in all."""
    k = p + n_intercepts
    if N <= k:
        those = "an intercept" if n_intercepts == 1 else f"{n_intercepts} intercepts"
        raise DataError(f"{p} predictors and {those} take more than {k} rows in all.")
