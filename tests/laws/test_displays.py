"""What scikit-learn's tools ask of estimators: parameters, clones, displays, frames."""

import html.parser

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_html_repr

from pipeline_silos import federation, frames, model, rows
from unpooled import PCA, Policy, SimpleImputer, StandardScaler, simulate
from unpooled.errors import DataError
from unpooled.models.files.catalogue import estimators

# Fixtures of another module.
__all__ = ["federation", "frames", "rows"]

MODELS = [
    PCA(2, whiten=True),
    StandardScaler(with_mean=False),
    SimpleImputer("constant", fill_value=1.5),
]


# --- Parameters ----------------------------------------------------------------------


def test_nested_parameters(federation):
    pipe = model()
    assert pipe.get_params()["pca__n_components"] == 2
    pipe.set_params(pca__n_components=3, standardscaler__with_std=False)
    pipe.fit(federation)
    assert pipe[-1].n_components_ == 3
    assert pipe[1].scale_ is None
    with pytest.raises(ValueError, match="Invalid parameter 'components'"):
        pipe.set_params(pca__components=3)


@pytest.mark.parametrize("estimator", MODELS, ids=lambda model: type(model).__name__)
def test_clones_have_the_parameters_and_nothing_fitted(estimator, frames):
    fitted = clone(estimator).fit(
        simulate({n: f.fillna(0) for n, f in frames.items()}, label="sick")
    )
    copy = clone(fitted)
    assert copy.get_params() == estimator.get_params()
    assert not [name for name in vars(copy) if name.endswith("_")]
    with pytest.raises(NotFittedError):
        copy.transform(np.ones((2, 4)))


def test_constructors_check_nothing_and_keep_what_they_are_given():
    # So that set_params can go through states that do not fit together yet.
    given = {"n_components": "many", "svd_solver": "none", "whiten": True}
    given |= {"random_state": "odd"}
    assert PCA(**given).get_params() == PCA().get_params() | given


# --- Displays ------------------------------------------------------------------------


def test_texts_show_what_was_set():
    assert repr(PCA(2)) == "PCA(n_components=2)"
    assert "SimpleImputer()" in repr(model())


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.words, self.links = "", []

    def handle_data(self, data):
        self.words += data

    def handle_starttag(self, tag, attrs):
        self.links += [value for name, value in attrs if name in ("href", "src")]


@pytest.mark.slow
def test_pages_show_the_steps(federation):
    for pipe in (model(), model().fit(federation)):
        page = Page()
        page.feed(estimator_html_repr(pipe))
        for name in ("Pipeline", "SimpleImputer", "StandardScaler", "PCA"):
            assert name in page.words
        assert "text/html" in pipe._repr_mimebundle_()
        assert PCA()._repr_html_()
        # scikit-learn links to its own documentation; ours is not there.
        assert not [link for link in page.links if "unpooled" in (link or "")]


@pytest.mark.parametrize("name", estimators())
def test_every_estimator_has_a_diagram_that_loads_nothing(name):
    page = Page()
    page.feed(estimators()[name]()._repr_html_())

    assert name in page.words
    assert page.links == []


def test_a_diagram_of_a_fitted_model_asks_no_silo(rows):
    parts = {name: rows[[name]].fillna(0) for name in rows}
    federation = simulate(parts, partition="columns", policy=Policy.open())
    fitted = PCA(2).fit(federation)
    before = len(federation.ledger)

    page = fitted._repr_html_()

    assert "kept_" in page
    assert len(federation.ledger) == before
    # Reading what the silos keep does ask them.
    assert fitted.components_.shape == (2, 4)
    assert len(federation.ledger) > before


# --- Data frames out -----------------------------------------------------------------


def test_set_output_makes_frames_of_arrays(federation, rows):
    pipe = model().fit(federation)
    pipe.set_output(transform="pandas")

    scores = pipe.transform(rows)

    assert list(scores.columns) == ["pca0", "pca1"]
    assert_array_equal(scores.index, rows.index)
    pipe.set_output(transform="default")
    assert_allclose(scores.to_numpy(), pipe.transform(rows))


@pytest.mark.parametrize("container", ["pandas", "polars"])
def test_set_output_refuses_a_federation(federation, container):
    scaler = StandardScaler().fit(federation).set_output(transform=container)
    with pytest.raises(
        DataError, match=rf'transform="{container}".* stays in its silos'
    ):
        scaler.transform(federation)
    with pytest.raises(DataError, match="stays in its silos"):
        make_pipeline(SimpleImputer(), PCA(1)).set_output(transform=container).fit(
            federation
        )


def test_global_configuration_refuses_a_federation_too(federation):
    scaler = StandardScaler().fit(federation)
    with sklearn.config_context(transform_output="pandas"):
        with pytest.raises(DataError, match="stays in its silos"):
            scaler.transform(federation)


# --- What scikit-learn asks of estimators ---------------------------------------------


@pytest.mark.parametrize("estimator", MODELS, ids=lambda model: type(model).__name__)
def test_tags(estimator):
    tags = estimator.__sklearn_tags__()
    assert tags.transformer_tags is not None
    assert not is_regressor(estimator)


def test_tags_of_missing_values():
    # What a pipeline, or a person, may ask before feeding NaN.
    assert SimpleImputer().__sklearn_tags__().input_tags.allow_nan
    assert StandardScaler().__sklearn_tags__().input_tags.allow_nan
    assert not PCA().__sklearn_tags__().input_tags.allow_nan
