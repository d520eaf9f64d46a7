"""What a report can be made of: models in all forms, their own federation."""

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline

import unpooled as up
from report_pages import Page, fitted, rows
from unpooled.errors import DataError
from unpooled.report.facts import facts_of
from unpooled.report.html import render
from unpooled.report.text.what_follows import could_learn


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["estimator", "pipeline", "list", "dict", "nested"])
def test_models_come_in_all_forms(kind):
    federation = up.simulate(up.partition_rows(rows(), 4))
    scaler, pca = up.StandardScaler(), up.PCA(2)
    steps = [("scaler", scaler), ("skip", "passthrough"), ("pca", pca)]
    model, names = {
        "estimator": (pca.fit(federation), ["pca"]),
        "pipeline": (Pipeline(steps).fit(federation), ["scaler", "pca"]),
        "list": ([scaler, pca], ["standardscaler", "pca"]),
        "dict": ({"first": scaler, "second": pca}, ["first", "second"]),
        "nested": (
            Pipeline([("a", Pipeline(steps[:1])), ("b", pca)]).fit(federation),
            ["scaler", "b"],
        ),
    }[kind]

    assert [name for name, _ in facts_of(model, federation).models] == names


@pytest.mark.slow
def test_the_label_is_named_where_a_step_read_it():
    frame = pd.DataFrame(rows(), columns=list("abcd")).assign(kind=np.arange(240) % 2)
    parties = {name: frame[i::3] for i, name in enumerate("xyz")}
    federation = up.simulate(parties, label="kind")
    scaler = up.StandardScaler().fit(federation)
    sentence = "The label, which has the classes of the rows: kind ."

    assert sentence not in Page(render(facts_of(scaler, federation))).text
    model = up.LinearDiscriminantAnalysis().fit(federation)
    assert sentence in Page(render(facts_of(model, federation))).text


@pytest.mark.slow
def test_views_of_a_federation_tell_the_same_ledger():
    federation = up.simulate(up.partition_rows(rows(), 4))
    train, _ = federation.train_test_split(random_state=0)
    model = up.PCA(2).fit(train)

    assert facts_of(model, train).ledger is facts_of(model, federation).ledger


@pytest.mark.slow
def test_totals_taken_twice_are_told_as_differences():
    federation = up.simulate(up.partition_rows(rows(), 4))
    for train, _ in federation.folds(2, random_state=0):
        up.PCA(2).fit(train)

    (one,) = [x for x in could_learn(facts_of([], federation)) if "Differences" in x]

    # Together for all steps of the model, whose title is said once.
    assert one.count("Principal component analysis") == 1
    assert "pca.local_scatter (2 times), pca.local_squares (2 times) and pca." in one
    assert one.index("is itself a total over all 4 silos") < one.index("pca.local")


@pytest.mark.slow
def test_a_model_of_another_federation_is_refused():
    model, _ = fitted()
    _, other = fitted(model=up.StandardScaler())
    wider = up.simulate(up.partition_rows(rows(p=1), 4))

    for federation in (other, wider):
        with pytest.raises(DataError, match="no line of PCA, which was fitted on"):
            facts_of(model, federation)
    # What asks for nothing has nothing to show.
    constant, federation = fitted(model=up.SimpleImputer("constant"))
    assert facts_of(constant, federation).n_rows is None


def test_what_is_not_fitted_or_no_federation_is_refused():
    model, federation = fitted()

    with pytest.raises(NotFittedError):
        facts_of(up.PCA(2), federation)
    with pytest.raises(DataError, match="needs the Federation"):
        facts_of(model, rows())
    with pytest.raises(DataError, match="not int"):
        facts_of(3, federation)


@pytest.mark.slow
def test_no_page_with_the_sizes_of_silos_says_that_nobody_knows_them():
    federation = up.simulate(
        up.partition_rows(rows(), 4), policy={"allow_disclosed": True}
    )
    models = [up.PCA(2).fit(federation)]
    sizes = "How many rows each silo has is not in this report"
    before = Page(render(facts_of(models, federation))).text
    assert sizes in before
    assert "240 rows; not how many of them any one silo has" in before

    models.append(up.Describe(per_silo=True, quartiles=False).fit(federation))
    after = Page(render(facts_of(models, federation))).text
    assert "(n\u00a0=\u00a060)" in after
    assert sizes not in after
    assert "not how many of them" not in after


@pytest.mark.slow
def test_a_report_asks_no_silo_for_what_it_keeps(tmp_path):
    parts, rules = up.partition_columns(rows(), 3), {"allow_row_level": True}
    federation = up.simulate(parts, partition="columns", policy=rules)
    steps = [("scaler", up.StandardScaler()), ("pca", up.PCA(2))]
    model = Pipeline(steps).fit(federation)
    before = len(federation.ledger)
    assert facts_of(model, federation).n_rows == len(rows())
    page = Page(up.report(model, federation, tmp_path / "report.html").read_text())
    assert len(federation.ledger) == before
    # They are the same people in every silo.
    assert f"all silos have in common: {len(rows())}." in page.text
    assert "How many rows each silo has" not in page.text
    # Which columns each silo has is known without asking.
    for silo, own in federation.columns_of.items():
        assert re.search(rf"{silo} \d columns? ?: {' ?, '.join(own)} ", page.text)


@pytest.mark.slow
@pytest.mark.parametrize("by_columns", [False, True])
def test_a_description_says_how_many_rows_there_are(by_columns):
    frame = pd.DataFrame(rows(), columns=list("abcdef")[: rows().shape[1]])
    parts = (
        up.partition_columns(frame, 3) if by_columns else up.partition_rows(frame, 4)
    )
    federation = up.simulate(
        parts,
        partition="columns" if by_columns else "rows",
        policy={"allow_disclosed": True} if by_columns else None,
    )
    model = up.Describe(quartiles=False).fit(federation)

    facts = facts_of(model, federation)

    assert facts.n_rows == len(rows())
    assert f"{len(rows())} rows that stayed where they were" in Page(render(facts)).text
