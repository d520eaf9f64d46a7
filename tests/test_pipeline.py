"""scikit-learn's pipelines, clones and displays, with a federation where X stands."""

import html.parser

import numpy as np
import pandas as pd
import pytest
import sklearn.pipeline
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils import estimator_html_repr

from twins import assert_close
from unpooled import PCA, Policy, SimpleImputer, StandardScaler, plan, simulate
from unpooled.errors import DataError
from unpooled.federation.base import Federation

NAMES = ["age", "pulse", "weight", "height"]
MODELS = [
    PCA(2, whiten=True),
    StandardScaler(with_mean=False),
    SimpleImputer("constant", fill_value=1.5),
]


@pytest.fixture(scope="module")
def frames():
    rng = np.random.default_rng(4)
    made = {}
    for name in ("north", "east", "west"):
        X = rng.standard_normal((40, 4)) @ rng.standard_normal((4, 4)) + 5
        X[rng.random(X.shape) < 0.1] = np.nan
        made[name] = pd.DataFrame(X, columns=NAMES).assign(sick=rng.integers(0, 2, 40))
    return made


@pytest.fixture
def federation(frames):
    return simulate(frames, label="sick")


@pytest.fixture
def rows(frames):
    return pd.concat(frames.values())[NAMES]


def model():
    return make_pipeline(SimpleImputer(), StandardScaler(), PCA(2))


def bare(line):
    """Return a line without what only a ledger has: time, chain and seals."""
    return {
        name: value
        for name, value in line.as_record().items()
        if name not in ("time", "hash", "seals")
    }


# --- Fitting and transforming --------------------------------------------------------


def test_later_steps_see_the_rows_as_earlier_ones_made_them(federation, rows):
    theirs = make_pipeline(
        sklearn.impute.SimpleImputer(),
        sklearn.preprocessing.StandardScaler(),
        sklearn.decomposition.PCA(2, svd_solver="full"),
    ).fit(rows.to_numpy())

    ours = model().fit(federation)

    assert_close(ours[1].mean_, theirs[1].mean_)
    assert_close(ours.transform(rows), theirs.transform(rows.to_numpy()))
    assert_array_equal(ours.get_feature_names_out(), ["pca0", "pca1"])
    assert ours.n_features_in_ == 4
    assert_array_equal(ours.feature_names_in_, NAMES)


def test_fitting_step_by_step_is_the_same(federation, rows):
    pipe = model().fit(federation)
    view, steps = federation, [clone(step) for step in model()]
    for step in steps:
        view = step.fit_transform(view)
    assert_array_equal(steps[-1].components_, pipe[-1].components_)
    assert view.feature_names == ("pca0", "pca1")


def test_a_pipeline_turns_a_federation_into_a_view(federation):
    pipe = model().fit(federation)
    before = len(federation.ledger)

    view = pipe.transform(federation)

    assert isinstance(view, Federation)
    assert view.feature_names == ("pca0", "pca1")
    assert len(federation.ledger) == before, "a view released something"
    assert isinstance(model().fit_transform(federation), Federation)
    assert pipe[:1].transform(federation).feature_names == tuple(NAMES)


def test_labels_go_through_every_step(federation):
    pipe = model().fit(federation, "sick")
    assert_array_equal(pipe[0].feature_names_in_, NAMES)
    assert pipe.transform(federation).label == "sick"


def test_rows_are_transformed_without_a_federation(federation, rows):
    pipe = model().fit(federation)
    scores = pipe.transform(rows)
    assert type(scores) is np.ndarray
    # Back without what two components leave out, and with the holes filled.
    back = pipe[1:].inverse_transform(scores)
    assert back.shape == rows.shape
    assert_close(pipe[1:].transform(back), scores, 1e-12)
    with pytest.raises(ValueError, match="feature names should match"):
        pipe.transform(rows[NAMES[::-1]])


def test_pipelines_of_ours_and_theirs(federation, rows):
    pipe = Pipeline([("keep", "passthrough"), ("fill", SimpleImputer())])
    filled = pipe.fit(federation).transform(rows)
    assert not np.isnan(filled).any()


def test_laws_hold_through_the_steps(frames, rows):
    def scores(silos):
        return model().fit(simulate(silos, policy=Policy.open())).transform(rows)

    given = {name: frame[NAMES] for name, frame in frames.items()}
    first = scores(given)
    # Order of the silos, their names, where they are cut: none of it matters.
    assert_close(scores(dict(reversed(given.items()))), first, 1e-12)
    assert_close(scores(dict(zip("cab", given.values(), strict=True))), first, 1e-12)
    north = given["north"]
    cut = {**given, "north": north[:11], "south": north[11:]}
    assert_close(scores(cut), first, 1e-12)


# --- Plan and ledger -----------------------------------------------------------------


@pytest.mark.parametrize("complete", [False, True], ids=["holes", "complete"])
def test_plan_equals_ledger(frames, secure_sum, complete):
    # Of complete rows the imputer's statistics are the scaler's means to the bit: two
    # arrays all the same, as the plan says before anybody knows the numbers.
    if complete:
        frames = {name: frame.fillna(1.0) for name, frame in frames.items()}
    federation = simulate(frames, label="sick", secure_sum=secure_sum)
    planned = plan(model(), federation)
    assert len(federation.ledger) == 0, "planning left a trace in the ledger"
    assert federation.rounds == [], "planning left a trace in the rounds"

    model().fit(federation)

    assert [bare(line) for line in planned.releases] == list(
        map(bare, federation.ledger)
    )
    assert planned.bytes == federation.ledger.bytes_out()
    assert planned.rounds == max(line.round for line in federation.ledger)
    assert planned.refusals == ()


@pytest.mark.parametrize(
    "steps",
    [
        [StandardScaler(), StandardScaler()],
        [StandardScaler(with_mean=False, with_std=False), PCA()],
        [SimpleImputer(), SimpleImputer(), PCA(1), PCA(1)],
    ],
    ids=["scaled-twice", "identity", "each-twice"],
)
def test_plan_equals_ledger_of_odd_pipelines(frames, steps):
    complete = {name: frame.fillna(0.0) for name, frame in frames.items()}
    federation = simulate(complete, label="sick", policy=Policy.open())
    planned = plan(make_pipeline(*steps), federation)
    make_pipeline(*steps).fit(federation)
    assert [bare(line) for line in planned.releases] == list(
        map(bare, federation.ledger)
    )


def test_a_plan_does_not_touch_the_model_or_the_next_fit(federation, frames):
    pipe = model()
    plan(pipe, federation)
    with pytest.raises(NotFittedError):
        pipe[-1].transform(np.ones((1, 4)))
    pipe.fit(federation)
    undisturbed = model().fit(simulate(frames, label="sick"))
    assert_array_equal(pipe[-1].components_, undisturbed[-1].components_)
    assert federation.ledger[0].round == 1


def test_each_fit_is_protected_by_keys_of_its_own(federation):
    model().fit(federation)
    joins = [record for record in federation.rounds if record.step == "join"]
    assert len(joins) == 3
    assert federation.ledger.verify()


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


# --- Data frames out -----------------------------------------------------------------


def test_set_output_makes_frames_of_arrays(federation, rows):
    pipe = (
        model().set_output(transform="pandas").fit_on(federation) if False else model()
    )
    pipe.fit(federation)
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
