"""The rows of a federation in one place, and its folds as places of rows there."""

import numpy as np
import pandas as pd

from silo_rows import table_of, view_of


def pooled_rows(view):
    """Return the rows of a view without transforms, and their labels or None."""
    blocks, labels = [], []
    for party in view.parties:
        extra = [] if view.label is None else [view.label]
        for block in table_of(view, party).blocks(view.feature_names, extra):
            blocks.append(block.X)
            labels += [block.extra[name] for name in extra]
    X = pd.DataFrame(np.concatenate(blocks), columns=list(view.feature_names))
    rows = places(view)
    return X.iloc[rows], np.concatenate(labels)[rows] if labels else None


def places(view):
    """Return the places of a view's rows among those of all silos."""
    masks = [view_of(view, party).rows() for party in view.parties]
    return np.flatnonzero(np.concatenate(masks))


def pooled_folds(federation, n, **options):
    """Return (train, test) places of each fold, as scikit-learn's `cv` takes them."""
    return [
        (places(train), places(test)) for train, test in federation.folds(n, **options)
    ]
