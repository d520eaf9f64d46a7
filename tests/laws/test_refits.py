"""Fitting again: nothing of an earlier fit stays, whether the new one ends or fails.

`check_estimator` checks this for every estimator with one set of parameters; here are
those whose fitted attributes differ by parameters and partitions.
"""

import pytest
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

import unpooled as up
from tiers import LONG, mostly_slow, slow
from unpooled.errors import AggregationError, DataError
from unpooled.models.base import fitted_names
from unpooled.models.files.catalogue import estimators
from ways import COLUMNS, WAYS, Way, rows
from wire import Silos, kind

# Between the first way and itself nothing is new to `check_estimator`.
PAIRS = [
    pytest.param(
        name,
        *pair,
        id=f"{name}-{i}",
        marks=() if i == 0 < len(ways) - 1 and name not in LONG else pytest.mark.slow,
    )
    for name, ways in WAYS.items()
    for i, pair in enumerate(zip([ways[-1], *ways], ways, strict=False))
]


@pytest.mark.thinned(6)
@pytest.mark.parametrize(("name", "first", "second"), PAIRS)
def test_nothing_of_an_earlier_fit_stays(name, first, second):
    model = first.fitted(estimators()[name](), first.silos())
    fresh = second.fitted(estimators()[name](), second.silos())

    second.fitted(model, second.silos())

    assert set(fitted_names(model)) == set(fitted_names(fresh))


# All but those whose fit has no round that could fail.
WITH_ROUNDS = sorted(WAYS.keys() - {"DerivedColumns"})


@pytest.mark.thinned(8)
@pytest.mark.parametrize("when", mostly_slow(["at once", "at the end"], "at the end"))
@pytest.mark.parametrize("name", slow(WITH_ROUNDS, *LONG))
def test_a_fit_that_fails_leaves_nothing(name, when):
    way = WAYS[name][0]
    at = way.silos()
    model = way.fitted(estimators()[name](), at)
    check_is_fitted(model)

    again = way.silos()
    steps = 1 if when == "at once" else len(steps_of(at))
    again.wire.on_request = lambda party, data: None if lost(again, steps) else data
    with pytest.raises(AggregationError, match="did not answer"):
        way.fitted(model, again)

    assert len(steps_of(again)) >= steps, "the fit failed elsewhere"
    assert fitted_names(model) == []
    with pytest.raises(NotFittedError):
        check_is_fitted(model)


def steps_of(at: Silos) -> list[bytes]:
    """Return the requests to run a step that went out."""
    return [data for party, data in at.wire.sent if kind(data) == "step"]


def lost(at: Silos, steps: int) -> bool:
    return len(steps_of(at)) >= steps


@pytest.mark.thinned(1)
@pytest.mark.parametrize(
    ("X", "said"),
    [
        (rows(), "takes a Federation"),
        (COLUMNS.silos().federation, "partitions by rows"),
    ],
    ids=["an array", "another partition"],
)
def test_what_was_never_begun_leaves_nothing_either(X, said):
    model = WAYS["Heterogeneity"][0].fitted(up.Heterogeneity(), Way().silos())

    with pytest.raises(DataError, match=said):
        model.fit(X)

    assert fitted_names(model) == []


def test_parameters_and_outputs_survive_a_failed_fit():
    model = up.PCA(2, whiten=True).set_output(transform="pandas")

    with pytest.raises(DataError):
        model.fit(rows())

    assert (model.n_components, model.whiten) == (2, True)
    assert model._sklearn_output_config == {"transform": "pandas"}
