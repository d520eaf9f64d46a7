"""Standard errors for rows that come in clusters, such as wards or repeated visits.

    M = Σ_g s_g s_g',  s_g = Σ_{i in g} (score of row i)
    covariance = G / (G - 1) · (N - 1) / (N - k) · I⁻¹ M I⁻¹

over G clusters. A cluster is a silo, or the rows of one silo with the same number in a
column; rows of two silos are never of one cluster. Each silo adds the scores of its own
clusters and releases the sum of their products, which is opened over all silos.

What of one cluster could be seen is limited: a total of few products of vectors with
themselves gives these vectors up to a rotation, and with the three silos of which one
asks the other two up to their order. So there are `FEWEST` silos, or each silo has as
many clusters.

Two groupings of the rows subtract to the rows that they group otherwise: where one
patient came twice, products by patient less those by row are those of two rows. So a
silo answers for one column of clusters, and for none that differs in few rows from each
row, or all rows, as a cluster.

References
----------
Liang and Zeger, Longitudinal data analysis using generalized linear models, Biometrika
73 (1986). Cameron and Miller, A practitioner's guide to cluster-robust inference,
Journal of Human Resources 50 (2015), sections II.A and VI, for few clusters.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from unpooled.arrays import Array, Float, Int
from unpooled.data.columns import listing
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.moments import scatter
from unpooled.models.moments import complete
from unpooled.protocol.step import Step, Weighed, release

FEWEST = 5
# Rows that share a cluster with another one, and rows outside the largest cluster.
_FEWEST_ROWS = 10
# Below this many the asymptotics do not hold: tests reject too often.
FEW = 40
# Releases of a step that adds up scores by cluster.
RELEASED: dict[str, Any] = {
    "by": "party",
    "settings": (),
    "groups": "grouped",
    "products": release(
        "m m",
        symmetric=True,
        weighed=True,
        meaning="products of each cluster's scores (residuals times predictors, added "
        "over the rows of a cluster), added over all clusters",
    ),
    "clusters": release("", meaning="number of clusters (groups of rows)"),
}


def split_clusters(
    X: Float[Array, "n p"], *, grouped: bool
) -> tuple[Float[Array, "n q"], Float[Array, " n"]]:
    """Return the other columns, and the number of each row's cluster.

    Parameters
    ----------
    X : (n, p) array
        A silo's rows; where they are `grouped`, the last column has the clusters.
    grouped : bool
        Without it all rows are of one cluster, the silo.
    """
    if not grouped:
        return X, np.zeros(len(X))
    return X[:, :-1], complete(X)[:, -1]


def cluster_products(
    scores: Float[Array, "n m"], clusters: Float[Array, " n"], *, grouped: bool
) -> dict[str, Any]:
    """Return the arrays that `RELEASED` declares, from a silo's rows.

    Parameters
    ----------
    scores : (n, m) array
        Scores of each row.
    clusters : (n,) array
        The number of each row's cluster.
    grouped : bool
        As of `split_clusters`.

    Raises
    ------
    DataError
        Where the silo has fewer clusters than `FEWEST` in a column of them, or where
        they are nearly a cluster for each row, or one for all rows.
    """
    names, members = np.unique(clusters, return_inverse=True)
    if grouped:
        _check_sizes(np.bincount(members))
    sums = np.zeros((len(names), scores.shape[1]))
    np.add.at(sums, members, scores)
    products = products_of(sums)
    if not grouped:
        # Where the silo is one cluster, its rows are judged.
        products = Weighed(products.total, (scores,))
    return {"products": products, "clusters": np.array(float(len(names)))}


def _check_sizes(sizes: Int[Array, " g"]) -> None:
    """Refuse few clusters, and groupings of which another would move few rows."""
    n, g = int(sizes.sum()), len(sizes)
    if g < FEWEST:
        raise DataError(
            f"The silo has fewer than {FEWEST} clusters.", rule="few_clusters"
        )
    if 0 < n - g < _FEWEST_ROWS or n - sizes.max() < _FEWEST_ROWS:
        raise DataError(
            f"Fewer than {_FEWEST_ROWS} rows share a cluster, or are outside the "
            f"largest.",
            rule="few_clusters",
        )


def products_of(scores: Float[Array, "n m"], n_columns: int | None = None) -> Weighed:
    """Return the products of rows' or clusters' scores, added over all of them.

    Parameters
    ----------
    n_columns : int, optional
        Number of columns of each class, where there are several.
    """
    products = scatter(scores, np.zeros(scores.shape[1]))
    return Weighed(products, (scores,), period=n_columns)


def check_clusters(
    federation: Federation, cov_type: str, clusters: object
) -> str | None:
    """Return the column of clusters, or None; refuse what gives no clusters.

    Parameters
    ----------
    federation : Federation
        The rows of the fit.
    cov_type : str
        As the model has it.
    clusters : str or None
        As the model has it.

    Raises
    ------
    DataError
        For a column that the federation does not have, or too few silos.
    """
    if clusters is not None and cov_type != "cluster":
        raise DataError('clusters is for cov_type="cluster".')
    if cov_type == "cluster" and clusters is None and len(federation.parties) < FEWEST:
        raise DataError(
            f'cov_type="cluster" takes each silo for a cluster, and there are '
            f"{len(federation.parties)}. With fewer than {FEWEST} the total would show "
            f"a silo's own sums, and no standard error of it could be trusted. Name a "
            f"column that has the clusters inside the silos (clusters=), or choose "
            f'"HC1".'
        )
    if clusters is None:
        return None
    if not isinstance(clusters, str) or clusters not in federation.feature_names:
        raise DataError(
            f"clusters={clusters!r}: name one of the columns "
            f"{listing(federation.feature_names)}."
        )
    return clusters


def score_products(
    model: Any,
    federation: Federation,
    view: Federation,
    clusters: str | None,
    steps: tuple[Step, Step],
    arguments: Mapping[str, Any],
) -> Float[Array, "m m"] | None:
    """Return products of rows' or clusters' scores, where errors take them; one round.

    Parameters
    ----------
    model : estimator
        Whose `cov_type` asks for them. `n_clusters_` is set where there are clusters.
    federation : Federation
        With the column of clusters.
    view : Federation
        The columns of the model.
    clusters : str or None
        Name of the column of clusters.
    steps : pair of Step
        Adds the products of rows' scores, and of clusters'.
    arguments : mapping of str to object
        Arguments of both steps, such as "mean" and "scale" of the columns of the model.
    """
    if model.cov_type == "nonrobust":
        return None
    if model.cov_type != "cluster":
        return view.sum(steps[0], **arguments)["products"]
    grouped = {**arguments, "grouped": clusters is not None}
    if clusters is not None:
        view = federation.select([*view.feature_names, clusters])
        grouped["mean"] = np.append(arguments["mean"], 0.0)
        grouped["scale"] = np.append(arguments["scale"], 1.0)
    totals = view.sum(steps[1], **grouped)
    model.n_clusters_ = round(float(totals["clusters"]))
    return totals["products"]
