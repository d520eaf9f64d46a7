"""The search for a Yeo-Johnson λ that silos make together, on a column at hand."""

import numpy as np

from unpooled.linalg.root_search import SignSearch, candidate
from unpooled.linalg.yeo_johnson import ObservedColumn, Reference, log_size, slope_sign


def optimal(x, tol=2.0**-30, n_candidates=1):
    """Return λ of one column by the search that silos make together, on rows at hand.

    With `n_candidates` of 1 it searches outwards and then by bisection, as ExpYJ does
    (Algorithms 1 and 2), on a scale that is logarithmic beyond 1.
    """
    x = x[~np.isnan(x)]
    phi = log_size(x)
    reference = Reference(float(phi.mean()), float(phi.std()))
    column, search = ObservedColumn(x, reference), SignSearch(1, tol, n_candidates)
    while len(search.active):
        functions, places = search.places()
        sums = column.slope_sums(candidate(places) / reference.spread)
        search.narrow(functions, places, slope_sign(sums / len(x)) > 0)
    return reference.mirrored(float(search.roots()[0]) / reference.spread)
