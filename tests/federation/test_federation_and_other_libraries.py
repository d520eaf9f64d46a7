"""What another library asks of a federation is refused in one sentence of ours."""

import pprint

import IPython.lib.pretty
import numpy as np
import pandas as pd
import pytest
import rich.pretty
import sklearn.cluster
import sklearn.compose
import sklearn.decomposition
import sklearn.discriminant_analysis
import sklearn.feature_selection
import sklearn.inspection
import sklearn.metrics
import sklearn.model_selection
import sklearn.preprocessing
import sklearn.utils
from sklearn.pipeline import make_pipeline

import unpooled as up
from unpooled.errors import DataError

FOREIGN = sklearn.preprocessing.StandardScaler
LDA = up.LinearDiscriminantAnalysis


@pytest.fixture
def federation():
    rng = np.random.default_rng(0)
    frames = {
        name: pd.DataFrame(rng.standard_normal((40, 3)), columns=list("abc")).assign(
            ill=np.arange(40) % 2
        )
        for name in "xyz"
    }
    return up.simulate(frames, label="ill")


ASKING = {
    "PCA.fit": lambda fed: sklearn.decomposition.PCA().fit(fed),
    "StandardScaler.fit": lambda fed: FOREIGN().fit(fed),
    "fit_transform": lambda fed: FOREIGN().fit_transform(fed),
    "in a pipeline": lambda fed: make_pipeline(FOREIGN(), up.PCA(1)).fit(fed),
    "cross_val_score": lambda fed: sklearn.model_selection.cross_val_score(
        up.PCA(1), fed
    ),
    "cross_val_score of a label": lambda fed: sklearn.model_selection.cross_val_score(
        LDA(), fed, "ill"
    ),
    "cross_validate": lambda fed: sklearn.model_selection.cross_validate(
        up.PCA(1), fed
    ),
    "cross_val_predict of a label": lambda fed: (
        sklearn.model_selection.cross_val_predict(LDA(), fed, "ill")
    ),
    "learning_curve of a label": lambda fed: sklearn.model_selection.learning_curve(
        LDA(), fed, "ill"
    ),
    "validation_curve of a label": lambda fed: sklearn.model_selection.validation_curve(
        LDA(), fed, "ill", param_name="shrinkage", param_range=[0.1, 0.2]
    ),
    "GridSearchCV": lambda fed: sklearn.model_selection.GridSearchCV(
        up.PCA(), {"n_components": [1, 2]}
    ).fit(fed),
    "GridSearchCV of a label": lambda fed: sklearn.model_selection.GridSearchCV(
        LDA(), {"shrinkage": [0.1, 0.2]}
    ).fit(fed, "ill"),
    "permutation_test_score of a label": lambda fed: (
        sklearn.model_selection.permutation_test_score(LDA(), fed, "ill")
    ),
    "RandomizedSearchCV of a label": lambda fed: (
        sklearn.model_selection.RandomizedSearchCV(
            LDA(), {"shrinkage": [0.1]}, n_iter=1
        ).fit(fed, "ill")
    ),
    "StratifiedKFold of a view": lambda fed: next(
        sklearn.model_selection.StratifiedKFold().split(fed, fed["a"])
    ),
    "train_test_split by a view": lambda fed: sklearn.model_selection.train_test_split(
        fed, stratify=fed["a"]
    ),
    "RFE": lambda fed: sklearn.feature_selection.RFE(LDA()).fit(fed, "ill"),
    "permutation_importance": lambda fed: sklearn.inspection.permutation_importance(
        LDA().fit(fed), fed, "ill"
    ),
    "KMeans": lambda fed: sklearn.cluster.KMeans().fit(fed),
    "resample": lambda fed: sklearn.utils.resample(fed),
    "KFold": lambda fed: next(sklearn.model_selection.KFold(3).split(fed)),
    "train_test_split": lambda fed: sklearn.model_selection.train_test_split(fed),
    "ColumnTransformer": lambda fed: sklearn.compose.ColumnTransformer(
        [("scale", FOREIGN(), ["a"])]
    ).fit(fed),
    "metrics": lambda fed: sklearn.metrics.accuracy_score(fed, fed),
    "numpy": lambda fed: np.asarray(fed),
}


@pytest.mark.thinned(1)
@pytest.mark.parametrize("name", ASKING)
def test_one_sentence_names_what_does_it_here(federation, name):
    with pytest.raises(DataError) as refused:
        ASKING[name](federation)

    text = str(refused.value)
    # What asks for the number of rows first is told that nobody knows it.
    assert "The rows of a federation stay in their silos" in text
    assert text.count(". ") <= 1
    for ours in (
        *("cross_validate", "GridSearchCV", "metrics"),
        *("ColumnTransformer", "PCA", "StandardScaler"),
    ):
        assert f"unpooled.{ours}" in text
        assert hasattr(up, ours)


SHOWING = {
    "pprint": lambda fed: pprint.pformat([fed]),
    "rich": lambda fed: rich.pretty.pretty_repr([fed]),
    "IPython": lambda fed: IPython.lib.pretty.pretty([fed]),
    "pandas": lambda fed: repr(pd.Series([fed], dtype=object)[0]),
}


@pytest.mark.parametrize("name", SHOWING)
def test_what_prints_a_federation_does_not_ask_for_rows(federation, name):
    assert "<Federation: 3 parties" in SHOWING[name](federation)
