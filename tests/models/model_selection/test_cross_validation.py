"""Cross-validation: scikit-learn's scores on the same folds, in the rounds of a fit."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn.cross_decomposition
import sklearn.decomposition
import sklearn.discriminant_analysis
import sklearn.impute
import sklearn.linear_model
import sklearn.metrics
import sklearn.model_selection
import sklearn.preprocessing
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline

import unpooled as up
from pooled_folds import pooled_folds, pooled_rows
from splits import SPLITS
from unpooled.data import heart_disease
from unpooled.errors import DataError, ReleaseRefusedError
from unpooled.models.model_selection.cross_validation import (
    FILLED_WITHIN_FOLDS,
    CrossValidation,
)
from unpooled.models.model_selection.scoring import check_scores

# The scores are quotients of sums over some hundred rows, in another order, of
# predictions by coefficients that agree to 1e-13.
CLOSE: dict[str, Any] = {"rtol": 1e-12, "atol": 1e-12}
SCORES = [
    *("accuracy", "balanced_accuracy", "neg_log_loss", "matthews_corrcoef"),
    *("f1", "precision", "recall_macro", "f1_weighted"),
]


def n_rounds(federation, after=0):
    return len({line.round for line in federation.ledger[after:]})


def pipelines():
    ours = make_pipeline(
        up.SimpleImputer(),
        up.StandardScaler(),
        up.LinearDiscriminantAnalysis(shrinkage=0.1),
    )
    theirs = make_pipeline(
        sklearn.impute.SimpleImputer(),
        sklearn.preprocessing.StandardScaler(),
        sklearn.discriminant_analysis.LinearDiscriminantAnalysis(
            solver="eigen", shrinkage=0.1
        ),
    )
    return ours, theirs


@pytest.mark.slow
def test_a_discriminant_of_heart_disease():
    """The five degrees of the disease, under the policy of a new silo.

    Such a silo fills its few missing cells as in the first fit, so they are filled
    before the folds here.
    """
    federation = up.simulate(
        heart_disease.load(), label="num", random_state=0, follow=True
    )
    ours, theirs = pipelines()
    filled = ours[0].fit(federation).transform(federation)
    X, y = pooled_rows(federation)
    before = len(federation.ledger)

    found = up.cross_validate(ours[1:], filled, "num", scoring="accuracy")
    expected = sklearn.model_selection.cross_validate(
        theirs[1:], theirs[0].fit_transform(X), y, cv=pooled_folds(federation, 5)
    )

    assert set(found) == set(expected)
    assert_allclose(found["test_score"], expected["test_score"], **CLOSE)
    costs, before = n_rounds(federation, before), len(federation.ledger)
    ours[1:].fit(filled, "num")
    # Two for the blocks, one for the sizes of the classes, one for the counts.
    assert costs == n_rounds(federation, before) + 4


WHOLE = ["age", "sex", "cp"]


def heart(**options):
    """Return heart disease with the columns that lack no cell and two classes."""
    tables = {
        name: (frame := table.to_pandas())[WHOLE].assign(ill=(frame["num"] > 0) * 1.0)
        for name, table in heart_disease.load().items()
    }
    return up.simulate(tables, random_state=0, **options)


@pytest.mark.slow
@pytest.mark.parametrize("follow", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("model", "label"),
    [
        (up.LogisticRegression(), "ill"),
        pytest.param(
            *(up.LogisticRegression(C=0.5, solver="bfgs"), "ill"),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            *(up.LogisticRegression(cov_type="HC1"), "cp"), marks=pytest.mark.slow
        ),
        (up.GLM("poisson"), None),
    ],
    ids=str,
)
def test_searches_of_folds_begin_at_the_fit_of_all_rows(model, label, follow):
    """They end where others do, with half of the numbers or fewer."""
    policy = up.Policy.open()
    federation = heart(label=label, policy=policy, follow=follow)
    y = label or "ill"
    model = clone(model).fit(federation, y)
    before = len(federation.ledger)
    found = up.cross_validate(model, federation, y, cv=4, return_estimator=True)
    # The fit of all rows, and of each fold two rounds, or up to five without gradients.
    opened = [
        x.name == "information" and x.direction == "out" for x in federation.ledger
    ]
    cold, informed = sum(opened[:before]), sum(opened[before:])
    few = 5 if isinstance(model, up.GLM) else 2
    # With a penalty nothing needs the information at the end of a search by gradients.
    least = 1 if vars(model).get("solver") == "bfgs" else 2
    assert cold + 4 * least <= informed <= cold + 4 * few
    for near, (train, _) in zip(found["estimator"], federation.folds(4), strict=True):
        alone = clone(model).fit(train, y)
        for name in vars(alone):
            if name.endswith("_") and name != "n_iter_":
                # Both searches end within 1e-8 standard errors, and a step more.
                theirs = getattr(alone, name)
                close: dict[str, Any] = {"rtol": 1e-7, "atol": 1e-9}
                if np.issubdtype(np.asarray(theirs).dtype, np.number):
                    assert_allclose(getattr(near, name), theirs, **close, err_msg=name)
        assert "_near" not in vars(near)


@pytest.mark.slow
def test_logistic_regression_is_judged_on_heart_disease_under_default_rules():
    tables = {
        name: (frame := table.to_pandas())
        .drop(columns=["slope", "ca", "thal", "fbs", "num"])
        .assign(ill=(frame["num"] > 0).astype(int))
        for name, table in heart_disease.load().items()
    }
    federation = up.simulate(tables, label="ill", random_state=0, follow=True)
    ours = up.SimpleImputer()
    filled = ours.fit(federation, "ill").transform(federation)
    names = ["accuracy", "roc_auc"]
    found = up.cross_validate(up.LogisticRegression(), filled, "ill", scoring=names)

    X, y = pooled_rows(federation)
    theirs = sklearn.model_selection.cross_validate(
        sklearn.linear_model.LogisticRegression(C=np.inf, tol=1e-10, max_iter=10_000),
        sklearn.impute.SimpleImputer().fit_transform(X),
        y,
        cv=pooled_folds(federation, 5),
        scoring="accuracy",
    )
    assert_allclose(found["test_accuracy"], theirs["test_score"], **CLOSE)


@pytest.mark.slow
@pytest.mark.parametrize("follow", [False, True])
def test_several_scores_of_a_pipeline_that_fills(follow):
    tables = {
        name: (frame := table.to_pandas())
        .assign(ill=(frame["num"] > 0).astype(int))
        .drop(columns="num")
        for name, table in heart_disease.load().items()
    }
    policy = up.Policy.open()
    federation = up.simulate(
        tables, label="ill", random_state=0, policy=policy, follow=follow
    )
    ours, theirs = pipelines()
    ours.fit(federation, "ill")
    fit, before = n_rounds(federation), len(federation.ledger)

    found = up.cross_validate(
        ours,
        federation,
        "ill",
        cv=5,
        scoring=SCORES,
        return_train_score=True,
        return_estimator=True,
    )
    expected = sklearn.model_selection.cross_validate(
        theirs,
        *pooled_rows(federation),
        cv=pooled_folds(federation, 5),
        scoring=SCORES,
        return_train_score=True,
    )

    assert set(found) == set(expected) | {"estimator"}
    for name in SCORES:
        for side in ("test", "train"):
            key = f"{side}_{name}"
            assert_allclose(found[key], expected[key], **CLOSE, err_msg=key)
    # One for the blocks, one for the sizes of the classes, one for counts and losses.
    assert n_rounds(federation, before) == fit + 4 <= 3 * fit
    assert [type(model[-1]) for model in found["estimator"]] == [type(ours[-1])] * 5


@pytest.mark.slow
@pytest.mark.parametrize("names", [("ja", "nein"), (0, 1), ("a", "b", "c")], ids=str)
def test_scores_of_one_class_are_those_of_scikit_learn(names):
    """Of "ja" and "nein" the second is the one that nobody looks for."""
    rng, n = np.random.default_rng(2), 300
    kinds = np.array(names)
    tables = {}
    for name in "uvw":
        y = rng.integers(0, len(kinds), n)
        X = rng.standard_normal((n, 2)) + y[:, None]
        tables[name] = pd.DataFrame(X, columns=list("pq")).assign(kind=kinds[y])
    federation = up.simulate(tables, label="kind", random_state=1)
    metrics = {
        "recall": sklearn.metrics.recall_score,
        "precision": sklearn.metrics.precision_score,
        "f1": sklearn.metrics.f1_score,
    }

    def of_one(kind):
        # scikit-learn asks for one or the other.
        several = {"labels": [kind], "average": "macro"}
        return several if len(names) > 2 else {"pos_label": kind}

    scoring = [f"{score}:{kind}" for score in metrics for kind in names]

    found = up.cross_validate(
        up.LinearDiscriminantAnalysis(), federation, "kind", cv=4, scoring=scoring
    )
    expected = sklearn.model_selection.cross_validate(
        sklearn.discriminant_analysis.LinearDiscriminantAnalysis(solver="eigen"),
        *pooled_rows(federation),
        cv=pooled_folds(federation, 4),
        scoring={
            f"{score}:{kind}": make_scorer(metric, **of_one(kind))
            for score, metric in metrics.items()
            for kind in names
        },
    )

    assert len(found) == 2 + len(scoring)
    for name in scoring:
        key = f"test_{name}"
        assert_allclose(found[key], expected[key], **CLOSE, err_msg=key)
    for scoring in ("recall:nobody", "recall:"):
        with pytest.raises(DataError, match=f"scoring='{scoring}'"):
            up.cross_validate(
                up.LinearDiscriminantAnalysis(), federation, "kind", scoring=scoring
            )
    with pytest.raises(DataError, match=r"choose among .* recall:CLASS"):
        up.cross_validate(
            up.LinearDiscriminantAnalysis(), federation, "kind", scoring="roc_auc:ja"
        )


@pytest.mark.slow
def test_cells_of_which_every_block_lacks_many_are_filled_fold_by_fold():
    """Under the policy of a new silo: no two fillings subtract to few rows."""
    rng, n = np.random.default_rng(5), 600
    tables = {}
    for name in "abc":
        X = rng.normal([0.0, 2.0, 5.0], size=(n, 3))
        y = (X[:, 0] + X[:, 1] + rng.standard_normal(n) > 2.0).astype(int)
        # Blocks have thirty rows: fewer than ten lack the cell once in 1e12.
        X[rng.random(n) < 0.9, 1] = np.nan
        tables[name] = pd.DataFrame(X, columns=list("uvw")).assign(ill=y)
    federation = up.simulate(tables, label="ill", random_state=0)
    ours, theirs = pipelines()
    scoring = ["accuracy", "neg_log_loss"]

    found = up.cross_validate(ours, federation, "ill", cv=5, scoring=scoring)
    expected = sklearn.model_selection.cross_validate(
        theirs,
        *pooled_rows(federation),
        cv=pooled_folds(federation, 5),
        scoring=scoring,
    )

    for name in scoring:
        key = f"test_{name}"
        assert_allclose(found[key], expected[key], **CLOSE, err_msg=key)


@pytest.mark.slow
@pytest.mark.parametrize("split", list(SPLITS))
def test_areas_under_the_curve_are_within_their_bound(split):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    X = rng.standard_normal((400, 3)) + y[:, None]
    frame = pd.DataFrame(X, columns=list("abc")).assign(ill=y)
    tables = {f"s{k}": frame.iloc[i] for k, i in enumerate(SPLITS[split](y))}
    federation = up.simulate(
        tables, label="ill", policy=up.Policy.open(), random_state=3
    )

    found = up.cross_validate(
        up.LinearDiscriminantAnalysis(),
        federation,
        "ill",
        cv=3,
        scoring=["roc_auc", "accuracy"],
    )
    expected = sklearn.model_selection.cross_validate(
        sklearn.discriminant_analysis.LinearDiscriminantAnalysis(solver="eigen"),
        *pooled_rows(federation),
        cv=pooled_folds(federation, 3),
        scoring=["roc_auc", "accuracy"],
    )

    assert_allclose(found["test_accuracy"], expected["test_accuracy"], **CLOSE)
    # Fifty bins of 130 rows of classes that are well apart.
    assert np.abs(found["test_roc_auc"] - expected["test_roc_auc"]).max() < 0.01


def two_views(n=(60, 90, 70)):
    rng, tables = np.random.default_rng(0), {}
    B = rng.standard_normal((4, 2))
    for name, rows in zip("xyz", n, strict=True):
        X = rng.standard_normal((rows, 4)) * [1.0, 10.0, 0.1, 3.0] + 5.0
        Y = X @ B + rng.standard_normal((rows, 2))
        tables[name] = pd.DataFrame(np.hstack([X, Y]), columns=list("abcdyz"))
    return tables


@pytest.mark.slow
def test_a_regression_with_its_own_score():
    federation = up.simulate(two_views(), random_state=0)
    ours = up.PLSRegression(2).fit(federation, ["y", "z"])
    fit, before = n_rounds(federation), len(federation.ledger)

    found = up.cross_validate(ours, federation, ["y", "z"])
    rows, _ = pooled_rows(federation)
    expected = sklearn.model_selection.cross_validate(
        # Its power iterations stop at `tol`; ours solves.
        sklearn.cross_decomposition.PLSRegression(2, tol=1e-30, max_iter=10_000),
        rows[list("abcd")],
        rows[["y", "z"]],
        cv=pooled_folds(federation, 5),
    )

    assert_allclose(found["test_score"], expected["test_score"], **CLOSE)
    # Blocks and their rows are counted first; scores take two more rounds.
    assert n_rounds(federation, before) == fit + 4 <= 3 * fit
    assert found["fit_time"].shape == (5,)


@pytest.mark.slow
def test_the_likelihood_of_components():
    federation = up.simulate(two_views(), random_state=0)

    found = up.cross_validate(up.PCA(2), federation, cv=4)
    expected = sklearn.model_selection.cross_validate(
        sklearn.decomposition.PCA(2), pooled_rows(federation)[0],
        cv=pooled_folds(federation, 4),
    )  # fmt: skip

    # Relative to the likelihood, which is some -10.
    assert_allclose(found["test_score"], expected["test_score"], rtol=1e-12)


@pytest.mark.slow
def test_a_regression_of_published_data(shared_data):
    """Shares of students who graduate, from what else is known of colleges."""
    with np.load(shared_data / "college.npz", allow_pickle=False) as data:
        names = data["feature_names"].tolist()
        frame = pd.DataFrame(data["X"], columns=names)
    federation = up.simulate(
        {k: frame.iloc[i::3] for i, k in enumerate("abc")}, random_state=0
    )

    target = names[-1]
    found = up.cross_validate(up.PLSRegression(4), federation, target)
    cost = n_rounds(federation)
    rows, _ = pooled_rows(federation)
    expected = sklearn.model_selection.cross_validate(
        sklearn.cross_decomposition.PLSRegression(4),
        rows.drop(columns=target),
        rows[target],
        cv=pooled_folds(federation, 5),
    )

    assert_allclose(found["test_score"], expected["test_score"], **CLOSE)
    before = len(federation.ledger)
    up.PLSRegression(4).fit(federation, target)
    assert cost <= 3 * n_rounds(federation, before)


@pytest.mark.slow
def test_folds_are_those_of_the_federation():
    federation = up.simulate(two_views())
    model, names = up.PLSRegression(1), ["y", "z"]

    one = up.cross_validate(model, federation, names, cv=3, random_state=4)
    scores = [
        up.PLSRegression(1).fit(train, names).score(test)
        for train, test in federation.folds(3, random_state=4)
    ]
    unshuffled = up.cross_validate(model, federation, names, cv=3, shuffle=False)
    again = [
        up.PLSRegression(1).fit(train, names).score(test)
        for train, test in federation.folds(3, shuffle=False)
    ]

    assert one["test_score"].tolist() == scores
    assert unshuffled["test_score"].tolist() == again


@pytest.mark.slow
def test_a_model_whose_rounds_go_alone_is_scored_all_the_same():
    """What each silo discloses shares no messages, nor do comparisons in secret."""
    policy = {"allow_disclosed": True}
    federation = up.simulate(two_views(), random_state=0, policy=policy)
    ours = make_pipeline(up.StandardScaler(), up.PCA(2, rank=3))

    found = up.cross_validate(ours, federation, cv=2)
    scores = [clone(ours).fit(train).score(test) for train, test in federation.folds(2)]

    assert found["test_score"].tolist() == scores


@pytest.mark.slow
def test_the_plan_is_what_is_opened():
    federation = up.simulate(two_views(), random_state=0)
    validation = CrossValidation(up.PLSRegression(2), cv=3)
    planned = up.plan(validation, federation, ["y", "z"])
    validation.fit(federation, ["y", "z"])

    def lines(ledger):
        return [(x.round, x.step, x.name, x.shape, x.bytes) for x in ledger]

    assert lines(planned.releases) == lines(federation.ledger)
    assert not planned.refusals


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["newton", "bfgs"])
def test_a_plan_has_every_round_of_a_search_in_the_folds_too(solver):
    """Each is at other coefficients: none is answered by what was opened before."""
    federation = up.simulate(two_views(), label="z", random_state=0)
    model = up.LogisticRegression(C=1.0, solver=solver, max_iter=6, classes=[0, 1])
    grid = up.GridSearchCV(model, {"C": [1.0, 2.0]}, cv=3)

    def rounds(planned):
        found = {}
        for line in planned.releases:
            if line.step in ("logistic.local_working", "logistic.local_gradient"):
                found.setdefault(line.round, []).append(line.name)
        return [sum(name == "gradient" for name in names) for names in found.values()]

    fit = rounds(up.plan(model, federation, "z"))
    assert fit == [1] * (6 if solver == "newton" else 24)
    # All rows, and then the folds, which begin where that fit ended.
    folds = rounds(up.plan(CrossValidation(model, cv=3), federation, "z"))
    assert folds == [*fit, *[3] * len(fit)]
    # One candidate after the other, then the best on all rows. All rows begin at the
    # classes' shares, where alone the candidates ask alike.
    search = rounds(up.plan(grid, federation, "z"))
    assert len(search) == 5 * len(fit) - 2


@pytest.mark.slow
def test_the_plan_says_how_many_rows_folds_of_several_classes_take():
    federation = up.simulate(two_views(), label="z", random_state=0)
    p, (two, three) = len(federation.columns), ([0, 1], [0, 1, 2])
    for classes, C, numbers in ((two, np.inf, 0), (three, np.inf, 2), (three, 1.0, 1)):
        model = up.LogisticRegression(C=C, classes=classes)
        planned = up.plan(CrossValidation(model, cv=3), federation, "z")
        notes = [note for note in planned.notes if "merge classes" in note]
        assert len(notes) == (numbers > 0)
        if numbers:
            # Three blocks, at the start of a fold and without a penalty at its end.
            least = numbers * 3 * (p + 1) * (p + 2) // 2
            rows = math.ceil(least / p / 0.33)
            assert f"{least:,} numbers at least" in notes[0]
            assert f"every {rows} rows" in notes[0]
        alone = up.plan(model, federation, "z")
        assert not any("merge classes" in note for note in alone.notes)


FILLING = {
    "pipeline": lambda: make_pipeline(up.SimpleImputer(), up.PCA(2)),
    "columns": lambda: make_pipeline(
        up.ColumnTransformer([(up.SimpleImputer(), ["a"])], remainder="passthrough"),
        up.PCA(2),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FILLING)
def test_the_plan_says_that_cells_are_filled_within_the_folds(name):
    federation = up.simulate(two_views(), random_state=0)
    note = "SimpleImputer is fitted within the folds"

    notes = up.plan(CrossValidation(FILLING[name](), cv=3), federation).notes
    assert [text for text in notes if note in text] == [FILLED_WITHIN_FOLDS]

    constant = make_pipeline(up.SimpleImputer("constant"), up.PCA(2))
    for model in (constant, up.PCA(2)):
        notes = up.plan(CrossValidation(model, cv=3), federation).notes
        assert not any(note in text for text in notes)


def test_what_cannot_be_done_is_refused_by_name():
    federation = up.simulate(two_views(), random_state=0)

    with pytest.raises(DataError, match="scoring='f2'; choose among accuracy"):
        up.cross_validate(up.PCA(2), federation, scoring="f2")
    for scoring in (make_scorer(accuracy_score), {"mine": "accuracy"}, [None]):
        with pytest.raises(DataError, match=r"scoring=.*; choose among accuracy"):
            up.cross_validate(up.PCA(2), federation, scoring=scoring)
    with pytest.raises(DataError, match="A StandardScaler has no score"):
        up.cross_validate(up.StandardScaler(), federation)
    with pytest.raises(DataError, match="n=1 folds"):
        up.cross_validate(up.PCA(2), federation, cv=1)
    with pytest.raises(DataError, match="estimator=None; give a model"):
        up.cross_validate(None, federation)
    with pytest.raises(DataError, match=r"takes a Federation, not list"):
        up.cross_validate(up.PCA(2), [[1.0]])


SCORED = {
    "classes": ["accuracy", "f1_macro", "recall:ill"],
    "probabilities of classes": ["neg_log_loss", "roc_auc"],
    "columns": ["r2", "neg_mean_squared_error"],
    "likelihood": ["log_likelihood"],
}
GIVES = {
    up.PCA: ["likelihood"],
    up.PLSRegression: ["columns"],
    up.PLSSVD: [],
    up.GLM: ["columns"],
    up.LinearDiscriminantAnalysis: ["classes", "probabilities of classes"],
    up.LogisticRegression: ["classes", "probabilities of classes"],
    up.KernelPCA: [],
    up.StandardScaler: [],
}


@pytest.mark.parametrize("in_pipeline", [False, True])
@pytest.mark.parametrize("kind", GIVES)
def test_scores_of_what_a_model_does_not_give_are_refused_before_any_fit(
    kind, in_pipeline
):
    model = make_pipeline(up.SimpleImputer(), kind()) if in_pipeline else kind()
    federation = up.simulate(two_views(), random_state=0)

    for what, names in SCORED.items():
        for name in names:
            if what in GIVES[kind]:
                check_scores(model, name)
                continue
            with pytest.raises(DataError, match=f"A {kind.__name__} .* no {what}"):
                up.cross_validate(model, federation, scoring=name)
    # Of a search the model that a candidate puts there is asked.
    if in_pipeline:
        places = {model.steps[-1][0]: [up.KernelPCA(2), kind()]}
        with pytest.raises(DataError, match="A KernelPCA predicts no classes"):
            up.GridSearchCV(model, places, scoring="accuracy").fit(federation)
    assert len(federation.ledger) == 0


# Slow, so that no checks of types stand before the refusal.
@pytest.mark.slow
def test_a_splitter_is_refused():
    federation = up.simulate(two_views(), random_state=0)

    with pytest.raises(DataError, match=r"StratifiedKFold\(.*The silos make the folds"):
        up.cross_validate(up.PCA(2), federation, cv=StratifiedKFold(3))


@pytest.mark.slow
def test_a_refusal_of_one_fold_is_the_refusal_of_all():
    tables = two_views((60, 90, 70))
    policy = {"max_released_share": 0.05}
    federation = up.simulate(tables, random_state=0, policy=policy)

    with pytest.raises(ReleaseRefusedError, match="max_released_share"):
        up.cross_validate(up.PCA(2), federation)
    # What had left before is in the ledger, and the federation goes on.
    federation.ledger.verify()
    assert {line.step for line in federation.ledger} <= {
        "block_levels.held",
        "block_levels.sizes",
        "pca.local_total",
        "pca.local_squares",
        "pca.local_scatter",
    }


def ordinary(sizes, p=20):
    """Return 400 people or so with two classes, whom silos share unevenly."""
    rng = np.random.default_rng(0)
    names = [f"x{j}" for j in range(p)]
    tables = {}
    for number, n in enumerate(sizes):
        rows = pd.DataFrame(rng.standard_normal((n, p)), columns=names)
        y = rows["x0"] + rng.standard_normal(n) > 0
        tables[f"s{number}"] = rows.assign(ill=y.astype(int))
    return tables


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(80, 120, 200), (85, 85, 230), (100,) * 4])
def test_five_folds_of_an_ordinary_table_pass_the_default_rules(sizes):
    """What a fold leaves out is judged by its rows of all silos."""
    federation = up.simulate(ordinary(sizes), label="ill", follow=True, random_state=0)

    found = up.cross_validate(up.LinearDiscriminantAnalysis(), federation)

    rows, labels = pooled_rows(federation)
    expected = sklearn.model_selection.cross_validate(
        sklearn.discriminant_analysis.LinearDiscriminantAnalysis(),
        rows,
        labels,
        cv=pooled_folds(federation, 5),
    )
    assert_allclose(found["test_score"], expected["test_score"], **CLOSE)


@pytest.mark.slow
def test_folds_that_leave_out_few_rows_for_the_columns_are_refused():
    # A fold has 48 rows of three silos: at most 15 columns pass.
    tables = ordinary((80, 80, 80))
    federation = up.simulate(tables, label="ill", random_state=0)

    with pytest.raises(ReleaseRefusedError, match="max_feature_ratio"):
        up.cross_validate(up.LinearDiscriminantAnalysis(), federation)
    narrow = up.simulate(ordinary((80, 80, 80), 14), label="ill", random_state=0)
    up.cross_validate(up.LinearDiscriminantAnalysis(), narrow)


@pytest.mark.slow
def test_a_second_model_is_judged_on_the_same_folds():
    """Under the policy of a new silo, whose few rows forbid folds that differ."""
    rng, tables = np.random.default_rng(0), {}
    for name in "abc":
        table = pd.DataFrame(rng.standard_normal((250, 16))).add_prefix("x")
        tables[name] = table.assign(ill=np.where(table.x0 > 0, "yes", "no"))
    federation = up.simulate(tables, label="ill", follow=True)
    for model, y in (
        (up.LinearDiscriminantAnalysis(), None),
        (up.LinearRegression(), "x1"),
    ):
        planned = CrossValidation(model, cv=5)
        assert up.plan(planned, federation, y).refusals == ()
        assert len(up.cross_validate(model, federation, y, cv=5)["test_score"]) == 5
