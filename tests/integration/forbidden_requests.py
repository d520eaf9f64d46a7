"""Requests that no study makes, and the rule under which a silo refuses each.

That is the rule of a silo that does not follow; where it is "", such a silo takes the
transform, and only following refuses it.
"""

import numpy as np

from unpooled.protocol.view_operations import Derive, Select

COLUMNS = ("age", "trestbps", "thalach")


def person(j):
    """A projection on one column, which a coordinator made up."""
    onto = {"mean": np.zeros(3), "components": np.eye(3)[[j]], "scale": np.ones(1)}
    return (Select(COLUMNS), Derive("pca.projected", ("made",), onto))


def made_up(step, **public):
    """A transform of any model, with numbers that no study fitted."""
    names = ("made",) if step != "power.transformed" else COLUMNS
    return (
        "scaler.local_counts",
        None,
        (Select(COLUMNS), Derive(step, names, public)),
    )


# A projection onto the difference of two columns.
ONTO = np.array([[-1.0], [1.0], [0.0]])
REQUESTS = {
    "a step that is none": (("pca.no_such_step",), "allowed_steps"),
    "a function": (("os.system",), "allowed_steps"),
    "a step of another module": (
        ("unpooled.models.pca.pca.local_total",),
        "allowed_steps",
    ),
    "a step not on the list": (("power.local_count",), "allowed_steps"),
    "more arguments": (("pca.local_total", {"more": 1}), "arguments"),
    "an argument too few": (("pca.local_squares",), "arguments"),
    "another shape": (("pca.local_squares", {"mean": np.zeros(2)}), "arguments"),
    "more axes": (("pca.local_squares", {"mean": np.zeros((3, 1, 1))}), "arguments"),
    "no number": (("pca.local_squares", {"mean": np.full(3, np.nan)}), "arguments"),
    "infinity": (("pca.local_squares", {"mean": np.full(3, np.inf)}), "arguments"),
    "a column not on the list": (
        ("scaler.local_counts", None, (Select(("age", "chol")),)),
        "allowed_columns",
    ),
    "a column that is none": (
        ("scaler.local_counts", None, (Select(("age", "name")),)),
        "unknown_columns",
    ),
    "the silo's own value": (("eigenproblem.local_radii",), "allow_disclosed"),
    "a line for each person": (("pca.own_gram",), "allow_row_level"),
    "parameters that were made up": (
        ("scaler.local_counts", None, person(1)),
        "",
    ),
    "a discriminant that was made up": (
        made_up(
            "discriminant.discriminated", scalings=ONTO, shrinkage=None, priors=None
        ),
        "",
    ),
    "an eigenvector that was made up": (
        made_up("eigenproblem.projected", vectors=ONTO),
        "",
    ),
    "a score that was made up": (
        made_up(
            "twoviews.scored",
            mean=np.zeros(3),
            scale=np.ones(3),
            rotations=ONTO,
            regularisation=0.0,
        ),
        "",
    ),
    "a span that was made up": (
        made_up("span.spanned", mean=np.zeros(3), basis=ONTO),
        "",
    ),
    "an exponent that was made up": (
        made_up("power.transformed", lambdas=np.array([-40.0, 1.0, 1.0])),
        "",
    ),
}
