"""Metrics of classes: scikit-learn's on the same rows, whatever the silos."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn.metrics
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.calibration import calibration_curve
from sklearn.pipeline import make_pipeline

import unpooled as up
from line_fields import fields
from pooled_folds import pooled_rows
from splits import SPLITS
from unpooled.errors import DataError, ReleaseRefusedError

# Sums of a hundred numbers in another order: some 1e-15 each.
CLOSE: dict[str, Any] = {"rtol": 1e-12, "atol": 1e-13}
COLUMNS = list("abcd")


def labelled(n=150, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    X = rng.standard_normal((n, 4)) + y[:, None] * [1.0, 0.5, 0.0, 0.0]
    return pd.DataFrame(X, columns=COLUMNS).assign(ill=y)


def federated(frame, split="balanced", **options):
    pieces = SPLITS[split](frame["ill"].to_numpy())
    tables = {f"silo{k}": frame.iloc[rows] for k, rows in enumerate(pieces)}
    options = {"policy": up.Policy.open(), "random_state": 0} | options
    return up.simulate(tables, label="ill", **options)


@pytest.fixture(params=list(SPLITS))
def fitted(request):
    """A model fitted on some rows, others, and these in one place."""
    federation = federated(labelled(), request.param)
    train, test = federation.train_test_split(random_state=1)
    model = up.LinearDiscriminantAnalysis().fit(train, "ill")
    return model, test, *pooled_rows(test)


@pytest.mark.slow
def test_counts_equal_scikit_learns(fitted):
    model, test, X, y = fitted
    ours, theirs = model.predict(test), model.to_sklearn().predict(X)
    metrics = up.metrics

    options: dict[str, Any]
    for options in ({}, {"labels": [1, 0]}, {"normalize": "true"}):
        assert_allclose(
            metrics.confusion_matrix("ill", ours, **options),
            sklearn.metrics.confusion_matrix(y, theirs, **options),
            **CLOSE,
        )
    assert metrics.confusion_matrix("ill", ours).dtype.kind == "i"
    for name in ("accuracy_score", "balanced_accuracy_score"):
        assert_allclose(
            getattr(metrics, name)("ill", ours),
            getattr(sklearn.metrics, name)(y, theirs),
            **CLOSE,
        )
    assert model.score(test, "ill") == metrics.accuracy_score("ill", ours)
    right = metrics.accuracy_score("ill", ours, normalize=False)
    assert right == (y == theirs).sum()
    assert_allclose(
        metrics.balanced_accuracy_score("ill", ours, adjusted=True),
        sklearn.metrics.balanced_accuracy_score(y, theirs, adjusted=True),
        **CLOSE,
    )


@pytest.mark.slow
@pytest.mark.parametrize("classes", [2, 3])
def test_precision_recall_and_their_mean_equal_scikit_learns(classes):
    names = np.array(["none", "mild", "severe"])[:classes]
    frame = labelled(classes=classes)
    federation = federated(frame.assign(ill=names[frame["ill"]]))
    train, test = federation.train_test_split(random_state=1)
    model = up.LinearDiscriminantAnalysis().fit(train, "ill")
    X, y = pooled_rows(test)
    ours, theirs = model.predict(test), model.to_sklearn().predict(X)
    metrics, few = up.metrics, ["severe", "none"] if classes == 3 else ["none"]
    options: list[dict[str, Any]] = [
        {"average": average} for average in ("macro", "weighted", "micro", None)
    ]
    options += [{"average": None, "labels": few}, {"average": "macro", "labels": few}]

    for name in ("precision_score", "recall_score", "f1_score"):
        own, other = getattr(metrics, name), getattr(sklearn.metrics, name)
        for some in options:
            assert_allclose(own("ill", ours, **some), other(y, theirs, **some), **CLOSE)
        if classes == 2:
            # The second of the classes as sorted, as of `roc_auc_score`.
            assert own("ill", ours) == other(y, theirs, pos_label="none")
            for one in ("mild", "none"):
                found = own("ill", ours, pos_label=one)
                assert_allclose(found, other(y, theirs, pos_label=one), **CLOSE)
            with pytest.raises(DataError, match="pos_label='severe' is none of the"):
                own("ill", ours, pos_label="severe")
        else:
            with pytest.raises(DataError, match=r'has 3.*See average="macro" or "we'):
                own("ill", ours)
        named = (
            'average=\'samples\'; choose "binary", "macro", "weighted", "micro" or None'
        )
        with pytest.raises(DataError, match=named):
            own("ill", ours, average="samples")
    found = metrics.matthews_corrcoef("ill", ours)
    assert_allclose(found, sklearn.metrics.matthews_corrcoef(y, theirs), **CLOSE)


@pytest.mark.slow
def test_a_class_that_no_row_is_predicted_as_has_the_precision_that_is_named():
    frame = labelled(n=300, classes=3)
    model = up.LinearDiscriminantAnalysis().fit(federated(frame[frame.ill < 2]), "ill")
    federation = federated(frame)
    X, y = pooled_rows(federation)
    theirs = model.to_sklearn().predict(X)

    for given in (0.0, 1.0):
        options: dict[str, Any] = {"average": None, "zero_division": given}
        found = up.metrics.precision_score("ill", model.predict(federation), **options)
        expected = sklearn.metrics.precision_score(y, theirs, **options)
        assert_allclose(found, expected, **CLOSE)
        assert np.asarray(found)[2] == given


@pytest.mark.slow
def test_losses_and_curves_equal_scikit_learns(fitted):
    model, test, X, y = fitted
    ours, theirs = model.predict_proba(test), model.to_sklearn().predict_proba(X)
    metrics = up.metrics

    assert_allclose(
        metrics.log_loss("ill", ours), sklearn.metrics.log_loss(y, theirs), **CLOSE
    )
    for bins in (2, 5, 9):
        assert_allclose(
            metrics.calibration_curve("ill", ours, n_bins=bins),
            calibration_curve(y, theirs[:, 1], n_bins=bins),
            **CLOSE,
        )
    for n_bins in (2, 10, 50, 1000):
        score = metrics.roc_auc_score("ill", ours, n_bins=n_bins)
        exact = sklearn.metrics.roc_auc_score(y, theirs[:, 1])
        # Sums of shares, which may be equal to the exact area where no bin is mixed.
        assert abs(score - exact) <= score.error + 1e-12
    assert score.error < 0.01


@pytest.mark.slow
def test_points_of_the_curve_are_points_of_the_rows(fitted):
    model, test, X, y = fitted
    twin = model.to_sklearn()
    for method, scores in (
        ("predict_proba", twin.predict_proba(X)[:, 1]),
        ("decision_function", twin.decision_function(X)),
    ):
        curve = up.metrics.roc_curve("ill", getattr(model, method)(test), n_bins=10)
        fpr, tpr, thresholds = curve

        for false, true, threshold in zip(fpr, tpr, thresholds, strict=True):
            positive = scores >= threshold
            assert_allclose(true, (positive & (y == 1)).sum() / (y == 1).sum(), **CLOSE)
            assert_allclose(
                false, (positive & (y == 0)).sum() / (y == 0).sum(), **CLOSE
            )
        assert thresholds[0] == math.inf
        assert fpr[-1] == tpr[-1] == 1.0


@pytest.mark.slow
def test_the_other_class_may_be_the_positive_one(fitted):
    model, test, X, y = fitted
    ours, theirs = model.predict_proba(test), model.to_sklearn().predict_proba(X)

    score = up.metrics.roc_auc_score("ill", ours, pos_label=0)
    decided = up.metrics.roc_auc_score(
        "ill", model.decision_function(test), pos_label=0
    )
    exact = sklearn.metrics.roc_auc_score(1 - y, theirs[:, 0])

    assert abs(score - exact) <= score.error + 1e-12
    assert abs(decided - exact) <= decided.error + 1e-12
    assert_allclose(
        up.metrics.calibration_curve("ill", ours, pos_label=0),
        calibration_curve(y, theirs[:, 0], pos_label=0),
        **CLOSE,
    )


@pytest.mark.slow
def test_several_classes_with_names_behind_a_pipeline():
    frame = labelled(classes=3).assign(
        ill=lambda table: np.array(["none", "mild", "severe"])[table["ill"]]
    )
    federation = federated(frame)
    train, test = federation.train_test_split(random_state=1)
    pipeline = make_pipeline(up.StandardScaler(), up.LinearDiscriminantAnalysis())
    pipeline.fit(train, "ill")
    X, y = pooled_rows(test)

    matrix = up.metrics.confusion_matrix("ill", pipeline.predict(test))
    loss = up.metrics.log_loss("ill", pipeline.predict_proba(test))

    assert_array_equal(matrix, sklearn.metrics.confusion_matrix(y, pipeline.predict(X)))
    assert_allclose(
        loss, sklearn.metrics.log_loss(y, pipeline.predict_proba(X)), **CLOSE
    )
    assert pipeline.score(test, "ill") == pipeline.score(X, y)
    with pytest.raises(DataError, match="is of two classes, and the model has 3"):
        up.metrics.roc_auc_score("ill", pipeline.predict_proba(test))


@pytest.mark.slow
def test_rows_of_a_class_that_was_not_fitted_are_predicted_wrongly():
    frame = labelled(classes=3)
    known = frame[frame["ill"] < 2]
    model = up.LinearDiscriminantAnalysis().fit(federated(known), "ill")
    federation = federated(frame)

    matrix = up.metrics.confusion_matrix("ill", model.predict(federation))
    X, y = pooled_rows(federation)
    theirs = model.to_sklearn().predict(X)

    assert_array_equal(matrix, sklearn.metrics.confusion_matrix(y, theirs))
    assert model.score(federation, "ill") == (y == theirs).mean()
    with pytest.raises(DataError, match=r"classes \[2\], which the model was not"):
        up.metrics.log_loss("ill", model.predict_proba(federation))


@pytest.mark.slow
def test_what_is_released_is_what_is_said():
    federation = federated(labelled())
    model = up.LinearDiscriminantAnalysis().fit(federation, "ill")
    before = len(federation.ledger)

    up.metrics.confusion_matrix("ill", model.predict(federation))

    seen = fields(
        federation.ledger[before:],
        "step name shape",
        direction="out",
        visibility="summed",
    )
    assert seen == [
        ("classes.local_class_counts", "count", (2,)),
        ("classes.local_class_counts", "others", ()),
        ("classification.local_confusion", "confusion", (2, 2)),
    ]


def test_silos_judge_the_sizes_of_classes_before_they_count():
    frame = labelled()
    few = frame.drop(frame.index[frame["ill"] == 1][4:])
    model = up.LinearDiscriminantAnalysis().fit(federated(frame), "ill")
    federation = federated(few, policy={"min_rows": 0, "min_own_cells": 0})

    with pytest.raises(ReleaseRefusedError, match="min_rows_per_class"):
        model.score(federation, "ill")
    assert "classification.local_confusion" not in {x.step for x in federation.ledger}


@pytest.mark.slow
def test_silos_judge_the_bins_before_they_add_probabilities():
    frame = labelled()
    model = up.LinearDiscriminantAnalysis().fit(federated(frame), "ill")
    policy = {"min_own_cells": 0, "max_released_share": math.inf}
    federation = federated(frame, policy=policy)

    with pytest.raises(ReleaseRefusedError, match="min_rows"):
        up.metrics.calibration_curve("ill", model.predict_proba(federation), n_bins=99)


def test_what_is_no_prediction_is_refused_by_name():
    federation = federated(labelled())
    model = up.LinearDiscriminantAnalysis().fit(federation, "ill")
    metrics = up.metrics

    with pytest.raises(DataError, match=r"sklearn\.metrics\.accuracy_score"):
        metrics.accuracy_score([0, 1], [0, 1])
    with pytest.raises(DataError, match=r"model\.predict\(federation\) gives, not"):
        metrics.accuracy_score("ill", federation)
    with pytest.raises(
        DataError, match=r"predict_proba\(federation\) gives, not other"
    ):
        metrics.log_loss("ill", model.predict(federation))
    with pytest.raises(DataError, match="is not the label"):
        metrics.accuracy_score("a", model.predict(federation))
    with pytest.raises(DataError, match="n_bins=1;"):
        metrics.roc_curve("ill", model.predict_proba(federation), n_bins=1)
    with pytest.raises(DataError, match="strategy='quantile'"):
        metrics.calibration_curve(
            "ill", model.predict_proba(federation), strategy="quantile"
        )
    with pytest.raises(DataError, match="pos_label=7"):
        metrics.roc_curve("ill", model.predict_proba(federation), pos_label=7)
    with pytest.raises(DataError, match="normalize='rows'"):
        metrics.confusion_matrix("ill", model.predict(federation), normalize="rows")


@pytest.mark.slow
def test_silos_that_follow_make_the_metrics_too():
    frame = labelled()
    alone, at = (federated(frame, follow=follow) for follow in (False, True))

    def measured(federation):
        model = make_pipeline(up.StandardScaler(), up.LinearDiscriminantAnalysis())
        model.fit(federation, "ill")
        scores = model.predict_proba(federation)
        return [
            model.score(federation, "ill"),
            up.metrics.log_loss("ill", scores),
            up.metrics.roc_auc_score("ill", scores, n_bins=10),
            up.metrics.confusion_matrix(
                "ill", model.predict(federation), labels=[1, 0]
            ).tolist(),
        ]

    assert measured(at) == measured(alone)


@pytest.mark.thinned(1)
@pytest.mark.parametrize("metric", ["accuracy_score", "confusion_matrix"])
def test_silos_that_follow_refuse_a_model_that_nobody_fitted(metric):
    federation = federated(labelled(), follow=True)
    model = up.LinearDiscriminantAnalysis().fit(federation, "ill")
    # A decision function that looks at one column and one threshold.
    model.coef_ = np.array([[1.0, 0.0, 0.0, 0.0]])

    with pytest.raises(ReleaseRefusedError, match="model_not_followed"):
        getattr(up.metrics, metric)("ill", model.predict(federation))
