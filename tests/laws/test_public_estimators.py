"""Public estimators: attributes as documented, names as scikit-learn's."""

import inspect

import numpy as np
import pandas as pd
import pytest
import sklearn.cross_decomposition
import sklearn.decomposition
import sklearn.discriminant_analysis
import sklearn.impute
import sklearn.preprocessing
from sklearn.base import BaseEstimator

import unpooled
from public_names import CLASSES, described, sections
from unpooled import (
    CCA,
    PCA,
    PLSSVD,
    KernelPCA,
    LinearDiscriminantAnalysis,
    PLSCanonical,
    PLSRegression,
    Policy,
    PowerTransformer,
    SimpleImputer,
    StandardScaler,
    simulate,
)
from unpooled.models.base import FederatedEstimator

TWINS = {
    CCA: sklearn.cross_decomposition.CCA,
    PLSSVD: sklearn.cross_decomposition.PLSSVD,
    PLSCanonical: sklearn.cross_decomposition.PLSCanonical,
    PLSRegression: sklearn.cross_decomposition.PLSRegression,
    LinearDiscriminantAnalysis: (
        sklearn.discriminant_analysis.LinearDiscriminantAnalysis
    ),
    KernelPCA: sklearn.decomposition.KernelPCA,
    PCA: sklearn.decomposition.PCA,
    PowerTransformer: sklearn.preprocessing.PowerTransformer,
    StandardScaler: sklearn.preprocessing.StandardScaler,
    SimpleImputer: sklearn.impute.SimpleImputer,
}
# What `fit` needs beside rows, for us and for a twin whose solver is as ours.
TARGETS = {
    LinearDiscriminantAnalysis: "group",
    **{model: ["b", "c"] for model in (CCA, PLSSVD, PLSCanonical, PLSRegression)},
}
VIEWS: set[str] = set(
    "x_mean_ y_mean_ x_std_ y_std_ x_columns_ y_columns_ n_samples_ x_correlations_ "
    "y_correlations_ x_cross_correlations_ y_cross_correlations_".split()
)
FIT = {"r2_", "rmse_"}
# With one column in the first view there is no second component.
ONE_COMPONENT = {CCA, PLSSVD, PLSCanonical, PLSRegression}
TWIN_OPTIONS = {LinearDiscriminantAnalysis: {"solver": "eigen"}}
# Parameters that only make sense over silos, and those whose default is another.
OURS = {
    CCA: {
        "solver",
        "regularisation",
        "criterion",
        "ridge",
        "factors",
        "init",
        "scores",
        "standard_errors",
        "random_state",
    },
    LinearDiscriminantAnalysis: {
        "classes",
        "ridge",
        "factors",
        "max_iter",
        "init",
        "random_state",
        "scores",
    },
    KernelPCA: {"approximation", "n_landmarks", "scores"},
    PCA: {
        *("max_iter", "privacy", "bits", "rank", "open", "topology", "scores"),
        *("standard_errors", "outliers", "cv"),
    },
    PLSSVD: {"solver", "tol", "max_iter", "scores", "random_state"},
    PLSCanonical: {"solver", "scores", "random_state"},
    PLSRegression: {"solver", "scores", "random_state"},
    PowerTransformer: {
        *("comparison", "tol", "allow_coordinator_party", "reference", "skewness"),
    },
    SimpleImputer: {"comparison", "min_rows", "decimals", "allow_coordinator_party"},
    StandardScaler: {"privacy"},
}
OTHER_DEFAULTS = {
    (KernelPCA, "kernel"),
    (CCA, "scale"),
    (CCA, "max_iter"),
    (PCA, "tol"),
    (PLSCanonical, "tol"),
    (PLSCanonical, "max_iter"),
    (PLSRegression, "tol"),
    (PLSRegression, "max_iter"),
    (LinearDiscriminantAnalysis, "solver"),
}
# Attributes that scikit-learn's twin does not have.
EXTRA: dict[type, set[str]] = {
    KernelPCA: {"kernel_means_", "score_weights_", "n_samples_", "squares_", "seed_"}
    | {"kept_", "eigenvalue_sum_"},
    PCA: {"eigenvalues_", "feature_variance_"},
    SimpleImputer: {"n_observed_", "n_missing_", "indicator_features_"} | {"certain_"},
    LinearDiscriminantAnalysis: {
        *("n_samples_", "class_count_", "within_correlations_", "total_correlations_"),
        *("score_covariance_", "decision_std_", "eigenvalues_"),
    },
    CCA: VIEWS
    | FIT
    | {
        *("canonical_correlations_", "all_correlations_"),
        "canonical_correlations_se_normal_",
    },
    PLSSVD: VIEWS | {"score_correlations_"},
    PLSCanonical: VIEWS | FIT | {"score_correlations_"},
    PLSRegression: VIEWS
    | FIT
    | {"score_correlations_", "vip_"}
    | {"x_explained_variance_ratio_", "y_explained_variance_ratio_"},
    PowerTransformer: {
        *("mean_", "var_", "n_samples_seen_", "n_iter_", "centre_", "spread_"),
        *("shifted_mean_", "shifted_scale_"),
    },
}


# --- Estimators ----------------------------------------------------------------------


def test_every_estimator_of_the_library_is_public():
    public = {getattr(unpooled, name) for name in CLASSES}
    ours = estimators_of_the_library()
    # What only shares code among estimators has one of them under it.
    models = {one for one in ours if one.is_model and not heirs_of(one)}
    assert models <= public
    assert set(TWINS) <= ours


def estimators_of_the_library():
    found, new = set(), {FederatedEstimator}
    while new := set().union(*map(heirs_of, new)):
        found |= new
    return found


def heirs_of(estimator):
    # Other tests make estimators of their own.
    return {
        heir
        for heir in estimator.__subclasses__()
        if heir.__module__.startswith("unpooled.")
    }


@pytest.fixture(scope="module")
def federation():
    frames = {name: frame_of(20, seed) for seed, name in enumerate(["u", "v", "w"])}
    return simulate(frames, label="group", policy=Policy.open())


def frame_of(n, seed):
    rows = np.random.default_rng(seed).standard_normal((n, 3))
    return pd.DataFrame(rows, columns=list("abc")).assign(group=np.arange(n) % 2)


NOT_OURS = {"indicator_", "n_iter_", "X_fit_", "x_scores_", "y_scores_"}
# What is as by default and takes longer, is fitted in other tests.
QUICK = {PowerTransformer: {"comparison": "summed"}}


def fit_to(model, federation):
    target = TARGETS.get(model)
    made = model(n_components=1) if model in ONE_COMPONENT else model()
    made.set_params(**QUICK.get(model, {}))
    if model is KernelPCA:
        # On rows it has a twin with Fourier features alone.
        columns = {name: frame_of(20, 0)[[name]] for name in "abc"}
        federation = simulate(columns, partition="columns", policy=Policy.open())
    return made.fit(federation, *([] if target is None else [target]))


@pytest.mark.thinned(1)
@pytest.mark.parametrize("model", TWINS, ids=lambda model: model.__name__)
def test_fitted_attributes_are_the_ones_documented(model, federation):
    fitted = fit_to(model, federation)
    found = {name for name in vars(fitted) if name.endswith("_")}
    documented = described(model, "Attributes")
    assert all(documented.values())
    # Some are there with another solver alone.
    always = {
        n for n, text in documented.items() if not text.strip().startswith("Only")
    }
    assert always <= found <= set(documented)


@pytest.mark.thinned(1)
@pytest.mark.parametrize(("model", "twin"), TWINS.items(), ids=lambda m: m.__module__)
def test_parameters_and_attributes_have_scikit_learns_names(model, twin, federation):
    ours = inspect.signature(model).parameters
    theirs = inspect.signature(twin).parameters
    assert set(ours) - set(theirs) == OURS.get(model, set())
    for name in set(ours) & set(theirs):
        same = ours[name].default == theirs[name].default
        assert same != ((model, name) in OTHER_DEFAULTS), name
    fitted = {n for n in vars(fit_to(model, federation)) if n.endswith("_")}
    frame = frame_of(20, 0)
    X, y = frame[list("abc")], frame["group"]
    if model in ONE_COMPONENT:
        X, y = frame[["a"]], frame[["b", "c"]]
    options = {"n_components": 1} if model in ONE_COMPONENT else {}
    pooled = twin(**options, **TWIN_OPTIONS.get(model, {})).fit(X, y)
    their_names = {n for n in vars(pooled) if n.endswith("_") and not n.startswith("_")}
    # The column of indicators, who watches the fit, and rows' own scores are not ours.
    assert fitted - EXTRA.get(model, set()) == their_names - NOT_OURS


@pytest.mark.parametrize("model", TWINS, ids=lambda model: model.__name__)
def test_notes_say_what_is_released_and_what_never_is(model):
    notes = " ".join(sections(model)["Notes"])
    assert "Released, as totals only:" in notes
    assert "Never released:" in notes
    assert f"sklearn.{TWINS[model].__module__.split('.')[1]}" in " ".join(
        sections(model)["See Also"]
    )


def test_estimators_stand_on_scikit_learns_base_alone():
    public = {getattr(unpooled, name) for name in CLASSES}
    ours = estimators_of_the_library()
    for model in TWINS:
        bases = [
            base
            for base in model.__mro__[1:]
            if issubclass(base, BaseEstimator) and base is not BaseEstimator
        ]
        # Between them are classes that share code, and no estimator that people use.
        *between, last = bases
        assert last is FederatedEstimator
        assert set(between) <= ours - public
