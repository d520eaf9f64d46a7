"""Public names: they resolve, are light to import, and say what they take and give."""

import ast
import inspect
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

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
from unpooled import (
    CCA,
    MMVFL,
    PCA,
    PLSSVD,
    GeneralizedEigen,
    Heterogeneity,
    KernelPCA,
    LinearDiscriminantAnalysis,
    PLSCanonical,
    PLSRegression,
    Policy,
    PowerTransformer,
    SimpleImputer,
    StandardScaler,
    VFedAKPCA,
    VFedPCA,
    errors,
    simulate,
)
from unpooled.models.base import FederatedEstimator

PUBLIC = [name for name in unpooled.__all__ if name not in ("__version__", "report")]
CLASSES = [name for name in PUBLIC if inspect.isclass(getattr(unpooled, name))]
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
# Models that scikit-learn does not have.
WITHOUT_TWIN: set[type] = {
    GeneralizedEigen,
    Heterogeneity,
    MMVFL,
    VFedAKPCA,
    VFedPCA,
}
# What `fit` needs beside rows, for us and for a twin whose solver is as ours.
TARGETS = {
    LinearDiscriminantAnalysis: "group",
    **{model: ["b", "c"] for model in (CCA, PLSSVD, PLSCanonical, PLSRegression)},
}
VIEWS: set[str] = set(
    "x_mean_ y_mean_ x_std_ y_std_ x_columns_ y_columns_ n_samples_".split()
)
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
    PCA: {"max_iter", "privacy", "bits", "rank", "topology", "scores"},
    PLSSVD: {"solver", "tol", "max_iter", "scores", "random_state"},
    PLSCanonical: {"solver", "scores", "random_state"},
    PLSRegression: {"solver", "scores", "random_state"},
    PowerTransformer: {"comparison", "tol", "allow_coordinator_party", "reference"},
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
    | {"kept_"},
    LinearDiscriminantAnalysis: {"n_samples_"},
    CCA: VIEWS
    | {"canonical_correlations_", "all_correlations_"}
    | {"x_correlations_", "y_correlations_"},
    **dict.fromkeys(
        (PLSSVD, PLSCanonical, PLSRegression),
        VIEWS | {"score_correlations_", "x_correlations_", "y_correlations_"},
    ),
    PowerTransformer: {
        *("mean_", "var_", "n_samples_seen_", "n_iter_", "centre_", "spread_"),
        *("shifted_mean_", "shifted_scale_"),
    },
}
HEAVY = "sklearn scipy pandas polars pyarrow matplotlib typer rich jinja2 cryptography"


def sections(thing):
    """Return a numpydoc docstring's sections: heading -> its lines, dedented."""
    lines = (inspect.getdoc(thing) or "").splitlines()
    heads = [
        i - 1
        for i, line in enumerate(lines)
        if i and line and set(line) == {"-"} and len(line) == len(lines[i - 1])
    ]
    found = {"": lines[: heads[0] if heads else None]}
    for start, end in pairwise([*heads, len(lines)]):
        found[lines[start]] = lines[start + 2 : end]
    return found


def entries(thing, heading):
    """Return the names that a section documents, in order."""
    lines = sections(thing).get(heading, [])
    heads = [line for line in lines if line and not line.startswith(" ")]
    return [
        name.strip(" *") for head in heads for name in head.split(" : ")[0].split(",")
    ]


def described(thing, heading):
    """Return name -> description of a section's entries."""
    found, names = {}, []
    for line in sections(thing)[heading]:
        if line and not line.startswith(" "):
            names = [name.strip() for name in line.split(" : ")[0].split(",")]
            found |= dict.fromkeys(names, "")
        else:
            found[names[-1]] += line
    return found


def parameters(function):
    """Return the names a caller may pass."""
    names = inspect.signature(function).parameters
    return [name for name in names if name not in ("self", "cls")]


def public_methods(cls):
    """Return the class's own public methods, not scikit-learn's."""
    found = {}
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("unpooled."):
            found |= {
                name: value
                for name, value in vars(base).items()
                if not name.startswith("_") and callable(getattr(cls, name))
            }
    return {name: getattr(cls, name) for name in found}


METHODS = [
    pytest.param(getattr(unpooled, cls), name, id=f"{cls}.{name}")
    for cls in CLASSES
    for name in public_methods(getattr(unpooled, cls))
]


# --- Names ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", unpooled.__all__)
def test_public_names_resolve(name):
    assert getattr(unpooled, name) is not None
    assert name in dir(unpooled)


def test_names_are_sorted_and_come_with_a_star():
    # ruff's order: constants, classes, the rest.
    classes = [n for n in unpooled.__all__ if n[0].isupper() and not n.isupper()]
    assert classes == sorted(classes)
    space = {}
    exec("from unpooled import *", space)
    assert set(unpooled.__all__) <= set(space)


def test_type_checkers_and_users_see_the_same_names():
    tree = ast.parse(Path(unpooled.__file__).read_text("utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    for name, home in unpooled._HOMES.items():
        assert seen[name] == f"unpooled.{home}"
    assert set(seen) == set(unpooled.__all__) - {"__version__"}


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="has no attribute 'pca'"):
        _ = unpooled.pca
    assert unpooled.errors is errors


# --- Weight --------------------------------------------------------------------------


def loaded_after(code):
    """Return which heavy packages a fresh interpreter has after some code."""
    code += f"\nimport sys; print(*[m for m in '{HEAVY}'.split() if m in sys.modules])"
    # -I would hide the checkout from the import; -S would hide numpy.
    found = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(unpooled.__file__).parents[1],
    )
    return set(found.stdout.split())


def test_importing_loads_nothing_heavy():
    assert loaded_after("import unpooled") == set()


SIMULATE = """
import numpy, unpooled
rows = numpy.random.default_rng(0).standard_normal((60, 3))
federation = unpooled.simulate(unpooled.partition_rows(rows, 3))
"""


def test_arrays_need_no_data_frames():
    assert loaded_after(SIMULATE) == {"cryptography"}


def test_fitting_loads_no_more_than_scikit_learn_does():
    # scikit-learn itself imports pandas, and pandas pyarrow, where they are installed.
    theirs = {"sklearn", "scipy", "pandas", "pyarrow"}
    fit = "unpooled.PCA().fit(federation).transform(rows)"
    assert loaded_after(SIMULATE + fit) <= theirs | {"cryptography"}


# --- Docstrings ----------------------------------------------------------------------


@pytest.mark.parametrize("name", PUBLIC)
def test_first_line_is_a_sentence(name):
    first, *rest = sections(getattr(unpooled, name))[""]
    assert first.endswith((".", ";", ",", ":")) or rest, first
    assert len(first.split()) >= 3
    assert len(first) <= 88
    assert not rest or not rest[0], "the first line stands alone"


@pytest.mark.parametrize("name", PUBLIC)
def test_parameters_are_documented_in_their_order(name):
    thing = getattr(unpooled, name)
    documented = entries(thing, "Parameters")
    if name in ("Federation", "Plan", "Study"):
        # Made by the library, never by hand: what they hold is documented instead.
        assert entries(thing, "Attributes")
        return
    assert documented == parameters(thing)
    assert all(described(thing, "Parameters").values())


@pytest.mark.parametrize(("cls", "name"), METHODS)
def test_methods_are_documented(cls, name):
    method = getattr(cls, name)
    assert inspect.getdoc(method), f"{cls.__name__}.{name} has no docstring"
    documented = entries(method, "Parameters")
    if documented:
        assert documented == parameters(method)
    elif wanted := parameters(method):
        # A one-liner may do where it says all there is to say.
        assert len(wanted) <= 3, f"{cls.__name__}.{name} should document {wanted}"


@pytest.mark.parametrize("name", PUBLIC)
def test_defaults_are_the_ones_documented(name):
    thing = getattr(unpooled, name)
    heads = [line for line in sections(thing).get("Parameters", []) if " : " in line]
    for parameter in inspect.signature(thing).parameters.values():
        default = parameter.default
        if not heads or default in (parameter.empty, None, ()):
            continue
        said = f"default {default}".replace("'", '"')
        if isinstance(default, str):
            said = f'default "{default}"'
        if isinstance(default, float):
            said = f"default {default}".replace("e-0", "e-")
        head = next(h for h in heads if parameter.name in h.split(" : ")[0].split(", "))
        assert head.endswith(said)


# --- Estimators ----------------------------------------------------------------------


def test_every_estimator_of_the_library_is_public():
    public = {getattr(unpooled, name) for name in CLASSES}
    # Other tests make estimators of their own.
    ours = {
        estimator
        for estimator in FederatedEstimator.__subclasses__()
        if estimator.__module__.startswith("unpooled.")
    }
    assert ours <= public
    assert set(TWINS) | WITHOUT_TWIN == ours


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
    for model in TWINS:
        concrete = [
            base
            for base in model.__mro__[1:]
            if issubclass(base, BaseEstimator) and base is not BaseEstimator
        ]
        assert concrete == [FederatedEstimator]
