"""The sum of a score's terms, and the rows by which a silo judges it.

A score adds a term for each row, such as a squared residual. Where a model's mean grows
exponentially, one person's may exceed all others so far that the sum is this person's
term, and its logarithm an equation for the person's predictors. So a silo refuses sums
of which one row has nearly all, if its prediction lies beyond the responses of the
rows: no residual is as large there but by the prediction. Of a response that lies far
from the others, which a heavy tail has often, a score tells no more than its size.
"""

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.protocol.step import Weighed


def judged(
    terms: Float[Array, "n k"],
    predicted: Float[Array, "n k"],
    true: Float[Array, "n k"],
) -> Weighed:
    """Return the sums of a score's terms, with the rows by which a silo judges them.

    Parameters
    ----------
    terms : (n, k) array
        Each row's terms, at least 0.
    predicted, true : (n, k) arrays
        Predictions, and the responses.
    """
    within = (predicted >= true.min(axis=0, initial=np.inf)) & (
        predicted <= true.max(axis=0, initial=-np.inf)
    )
    # In two halves, none of which is nearly all.
    halves = np.sqrt(np.where(within, 0.5, 1.0) * terms)
    rows = tuple(
        np.append(own, own[inside])[:, None]
        for own, inside in zip(halves.T, within.T, strict=True)
    )
    return Weighed(terms.sum(axis=0), rows, squares=True)
