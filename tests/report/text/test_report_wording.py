"""What the report says of every array that left, came in or stayed."""

import importlib
import pkgutil

import numpy as np
import pandas as pd
import pytest

import unpooled as up
from report_pages import facts, rows
from unpooled import models
from unpooled.ledger import Ledger, Release
from unpooled.models.files.catalogue import estimators
from unpooled.protocol.step import Step, home_of, steps_of, summed
from unpooled.report.facts import facts_of
from unpooled.report.html import Facts
from unpooled.report.text.cautions import cautions
from unpooled.report.text.wording import sentence, what_came_in, what_left, what_stayed


@summed(total="p")
def nameless(X):
    return {"total": X.sum(axis=0)}


def test_every_array_that_left_has_its_sentence(heart, page):
    lines = [line for line in heart.ledger if line.direction == "out"]
    written = [
        one
        for chapter in what_left(heart)
        for passage in chapter.passages
        for one in passage.sentences
    ]

    assert written == [sentence(heart, line) for line in lines]
    assert len(lines) == 9
    for one in written:
        assert f"{one.text} {one.fate}" in page.text
        assert one.source in page.text


def test_every_array_that_came_in_or_stayed_has_its_sentence(heart, page):
    lines = [line for line in heart.ledger if line.direction == "in"]
    written = [
        one.text
        for chapter in what_came_in(heart) + what_stayed(heart)
        for passage in chapter.passages
        for one in passage.sentences
    ]

    # Ten arguments, and what stayed thrice: two vectors of sums, and the scatter.
    assert len(lines) == len(written) == 13
    assert all(text in page.text for text in written)
    assert not any("the array “" in text for text in written)


def test_what_silos_that_follow_are_told_has_its_sentence():
    some = facts(model=up.PCA(2), follow=True)
    line = next(x for x in some.ledger if x.visibility == "opened")

    said = sentence(some, line)

    assert said.text.startswith("Sample size")
    assert said.fate.startswith("A total that the coordinator had opened")
    assert not said.exposed


def test_sentence_is_made_from_the_declaration(heart):
    scatter = next(
        line for line in heart.ledger if (line.name, line.round) == ("scatter", 8)
    )

    said = sentence(heart, scatter)

    assert said.text == (
        "Cross-product matrix (products of every two columns’ deviations from their "
        "means, added over all rows): 13\u00a0×\u00a013 numbers, each pair once, 744 "
        "bytes from each silo."
    )
    assert said.fate == "Opened only as the total over all 4 silos."


def test_releases_stand_under_what_they_are_for(heart):
    assert [chapter.title for chapter in what_left(heart)] == [
        "Missing cells filled with a statistic of their column over all silos",
        "Standardisation of columns by their means and standard deviations over all "
        "silos",
        "Principal component analysis over all silos",
    ]
    # A fitted transform is told in the round of the step that needs it.
    assert [passage.label for passage in what_came_in(heart)[1].passages] == [
        "Round 3",
        "Round 4",
        "Round 5",
    ]


def test_what_is_kept_says_how_long_and_where_it_went(heart):
    *_, (passage,) = [chapter.passages for chapter in what_stayed(heart)]

    assert passage.sentences[0].fate == (
        "Kept in the silo and deleted at the end of the fit. Only its total over all "
        "silos was opened, in round 8."
    )


def test_equal_rounds_in_a_row_are_told_once():
    lines = [
        Release(
            "s", t, "pca.local_total", "total", (7,), "uint256", 224, "summed", d, p
        )
        for t in range(1, 51)
        for d, p in [("out", ("a", "b", "c", "d"))]
    ]
    some = Facts(
        "t", "s", ("a", "b", "c", "d"), "rows", "masked", Ledger(lines), [], [], ("x",)
    )

    (chapter,) = what_left(some)

    assert [passage.label for passage in chapter.passages] == ["Rounds 1 to 50"]
    (said,) = chapter.passages[0].sentences
    assert said.text.endswith(": 7 numbers, 224 bytes from each silo, each time.")


def test_every_argument_of_a_step_has_words():
    """A size is a number in the question; it is no array, and not in the ledger."""
    wanting = {
        f"{step.name} {name}: {argument.axes}"
        for estimator in estimators().values()
        for step in steps_of(home_of(estimator.__module__)).values()
        for name, argument in step.takes.items()
        if not argument.axes.startswith("size") and not argument.meaning
    }

    assert wanting == set()


@pytest.mark.slow
def test_what_was_shown_is_not_said_to_be_a_total():
    parts = {name: rows(60, 2, seed) for seed, name in enumerate("abc")}
    parts["a"] = np.column_stack([parts["a"], np.arange(60.0) % 2])
    federation = up.simulate(
        {name: pd.DataFrame(X).add_prefix(name) for name, X in parts.items()},
        partition="columns",
        label="a2",
        policy=up.Policy.open(),
    )
    model = up.MMVFL(beta=5.0, tol=1e-2).fit(federation, y="a2")
    assert set(model.coef_) == set("abc")

    said = what_stayed(facts_of(model, federation))[0].passages[0].sentences[0]

    assert said.text.startswith("The weight of each own column for each class")
    assert "Only its total" not in said.fate
    assert "It was sent to the coordinator as it is, in round" in said.fate
    (people,) = [
        c for c in cautions(facts_of(model, federation)) if "single" in c.heading
    ]
    assert f"for the silos alone (rounds 2 to {2 * model.n_iter_}, " in people.text


@pytest.mark.slow
def test_what_neighbours_told_is_what_they_are_said_to_have_sent():
    parts = up.partition_columns(rows(60, 8), 4)
    people = up.simulate(parts, partition="columns", policy=up.Policy.open())
    model = up.PCA(2, svd_solver="gossip", topology="ring", random_state=0).fit(people)
    some = facts_of(model, people)

    # Without the size, and whom it was for.
    left, told = (
        {
            sentence(some, line).text.rpartition(": ")[0]
            for line in some.lines(direction)
            if line.visibility == "exchanged"
        }
        for direction in ("out", "in")
    )

    assert told == left
    assert not any("array" in text or " l " in text for text in told)


def test_empty_arrays_are_not_told():
    parts = up.partition_columns(rows(60, 6), 3)
    people = up.simulate(parts, partition="columns", policy=up.Policy.open())
    model = up.VFedPCA(1, rounds=2).fit(people)

    some = facts_of(model, people)

    assert any(0 in line.shape for line in some.lines("in"))
    texts = [
        one.text
        for chapter in what_came_in(some)
        for passage in chapter.passages
        for one in passage.sentences
    ]
    assert texts
    assert not [text for text in texts if " 0 bytes" in text or "The array" in text]


def test_step_without_a_meaning_is_named():
    federation = up.simulate(up.partition_rows(rows(), 3))
    federation.sum(nameless)

    some = facts_of([], federation)

    said = sentence(some, some.ledger[0])
    assert said.text.startswith(f"The array “total” of the step {nameless.name}: 4 ")


# What a statistician calls an array; a reader who is none is told what it is made of.
TERMS = (
    "covariance", "determinant", "eigenvalue", "eigenvector", "frobenius", "gram ",
    "inner product", "matrix", "residual", "sample size", "scatter", "sum of squares",
)  # fmt: skip


def test_every_term_of_what_leaves_is_said_in_plain_words_too():
    """The plain phrase stands in parentheses behind the term, or the reverse."""
    modules = [
        importlib.import_module(found.name)
        for found in pkgutil.walk_packages(models.__path__, f"{models.__name__}.")
    ]
    steps = {
        step.name: step
        for module in modules
        for step in vars(module).values()
        if isinstance(step, Step)
    }
    assert len(steps) > 100
    bare = {
        f"{step.name}.{name}": declared.meaning
        for step in steps.values()
        for name, declared in step.leaves.items()
        if any(term in f"{declared.meaning.lower()} " for term in TERMS)
        and "(" not in declared.meaning
    }
    assert bare == {}
