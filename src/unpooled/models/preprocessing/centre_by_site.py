"""Centring by site, where each silo subtracts the means of its own rows.

    round 1   each silo keeps its column means; nothing is sent
    transform x ↦ x - the silo's means, in each silo

What differs between the silos' means is gone from what follows: it is the remedy for
site effects that `unpooled.Heterogeneity` shows. A silo's means never leave it. Counts
and quantiles of what follows would tell them, so silos answer by sums of values and of
products of two alone (`within_silos`).
"""

from collections.abc import Sequence
from typing import Any, final

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.models.base import FederatedEstimator, check_all_rows
from unpooled.models.moments import finite_observed_sums
from unpooled.protocol.step import derived, kept, stays
from unpooled.results.citations import Citation
from unpooled.results.exhibits import Exhibit


@kept(
    count=stays(
        "p",
        until="study",
        counts="cells",
        meaning="number of the silo's rows with a value in each column",
    ),
    total=stays("p", until="study", meaning="sums of these values"),
)
def own_sums(X: Float[Array, "n p"]) -> dict[str, Any]:
    """Keep the number and the sum of the silo's own cells of each column."""
    count, total = finite_observed_sums(X)
    return {"count": count.astype(float), "total": total}


@derived(
    fitted_by=("centre_by_site.own_sums",), by_column=True, affine=True, own_rows=True
)
def centred(X: Float[Array, "n p"], kept: Any) -> Float[Array, "n p"]:
    """Return rows about the means of the silo's fitted rows; missing cells stay."""
    return X - kept["total"] / np.maximum(kept["count"], 1.0)


@final
class CentreBySite(OneToOneFeatureMixin, TransformerMixin, FederatedEstimator):
    """Subtract from each column the mean of the silo that has the row.

    Attributes
    ----------
    kept_ : str
        Study and view under which the silos keep their means.
    n_features_in_ : int
        p, the number of columns.
    feature_names_in_ : (p,) array of str
        Their names, where the silos' tables have names.

    Raises
    ------
    DataError
        On folds and splits, and for an infinite cell; and where `transform` is given an
        array.

    Notes
    -----
    Released: nothing. Never released: a row, or any silo's means. Each silo keeps its
    own, and `transform` of a federation uses them there, on the fitted rows or on new
    rows of the same silo. An array of rows has no silo, so it is not transformed.

    Counts, bins, quantiles and classes of centred columns would tell a silo's means,
    and so would regressions that weigh rows, so silos refuse them (`within_silos`).
    Means, covariance matrices and what is found from these are answered: PCA,
    correlations, CCA, PLS, linear regression and the fit of discriminant analysis. For
    other regressions there is ``site_effects=True``.

    Products of columns that were centred by site, next to those about the means of all
    rows, give the products of the differences between the silos' means, which
    `Heterogeneity` opens too: with two silos the direction and size of the difference
    of their means, and m - 1 silos together can compute the mean of the last one. Of a
    column that is 0 in all silos but one they give that silo's number of rows and its
    means: leave out columns that a single silo uses.

    The sum of a column that was centred is 0 over the fitted rows, and over others it
    has each silo's mean times the silo's number of these rows. So it is fitted on all
    rows of the silos, and folds and splits are refused: as many parts as there are
    silos would determine the means. Each later version of the silos' tables, centred by
    the means of the first, gives one such sum.

    Missing cells stay missing. A column without a value in a silo is left as it is
    there.

    References
    ----------
    Enders and Tofighi, Centering predictor variables in cross-sectional multilevel
    models: a new look at an old issue, Psychological Methods 12 (2007).
    """

    _missing = True

    def _exhibits(self, columns: Sequence[str]) -> list[Exhibit]:
        text = (
            "Each silo subtracted its own column means, so that the silos’ means are "
            "equal in what follows. No silo’s means were released."
        )
        return [Exhibit("Centred by site", text)]

    def _citation(self) -> Citation:
        return Citation(
            "Columns were centred by the mean of each silo.",
            (
                "Enders CK, Tofighi D. Centering predictor variables in "
                "cross-sectional multilevel models: a new look at an old issue. "
                "Psychological Methods 2007; 12: 121-138.",
            ),
        )

    def _fit(self, federation: Federation, y: Any) -> None:
        _check_whole(federation)
        federation.keep(own_sums)
        self.kept_ = federation.kept_here

    def transform(self, X: Any) -> Any:
        """Return a view whose rows each silo centres by its own means.

        Parameters
        ----------
        X : Federation
            The fitted rows, or new rows of the same silos; nothing leaves a silo.

        Raises
        ------
        DataError
            For an array: nobody but the silos has their means. For a fold or a part of
            a split.
        """
        if not isinstance(X, Federation):
            raise DataError(
                "CentreBySite transforms a federation: the means of a silo stay there, "
                "so that an array of rows cannot be centred here."
            )
        view = self._check_view(X)
        _check_whole(view)
        return view.derive(centred, view.feature_names, kept_of=self.kept_)

    def transform_in_silo(
        self, X: Float[Array, "n p"], kept: Any
    ) -> Float[Array, "n p"]:
        """Return a silo's own rows about the means that it kept.

        Parameters
        ----------
        X : (n, p) array
            The fitted rows, or new rows of the same silo.
        kept : KeptArrays
            What the silo kept of the fit, under the address `kept_`.
        """
        return centred(X, kept)


def _check_whole(federation: Federation) -> None:
    check_all_rows(
        federation,
        "CentreBySite is fitted on all rows and transforms all rows: sums over folds "
        "or splits of centred columns would determine the silos' means. Leave it out "
        "of what is cross-validated.",
    )
