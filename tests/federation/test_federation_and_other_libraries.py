"""What another library asks of a federation is refused in one sentence of ours."""

import numpy as np
import pandas as pd
import pytest
import sklearn.compose
import sklearn.decomposition
import sklearn.discriminant_analysis
import sklearn.metrics
import sklearn.model_selection
import sklearn.preprocessing
from sklearn.pipeline import make_pipeline

import unpooled as up
from unpooled.errors import DataError

FOREIGN = sklearn.preprocessing.StandardScaler


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
    "cross_validate": lambda fed: sklearn.model_selection.cross_validate(
        up.PCA(1), fed
    ),
    "GridSearchCV": lambda fed: sklearn.model_selection.GridSearchCV(
        up.PCA(), {"n_components": [1, 2]}
    ).fit(fed),
    "train_test_split": lambda fed: sklearn.model_selection.train_test_split(fed),
    "ColumnTransformer": lambda fed: sklearn.compose.ColumnTransformer(
        [("scale", FOREIGN(), ["a"])]
    ).fit(fed),
    "metrics": lambda fed: sklearn.metrics.accuracy_score(fed, fed),
    "numpy": lambda fed: np.asarray(fed),
}


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


def test_a_label_is_refused_by_scikit_learn_before_it_looks_at_the_federation(
    federation,
):
    """Documented, since nothing of ours is called: the check of y is by type alone."""
    with pytest.raises(ValueError, match="'y' parameter of cross_val_score must be an"):
        sklearn.model_selection.cross_val_score(up.PCA(1), federation, "ill")
