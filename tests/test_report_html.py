"""The report: what it says, to whom, and that nothing from outside can speak in it."""

import dataclasses
import html
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline, make_pipeline

import unpooled as up
from unpooled.data import heart_disease
from unpooled.errors import DataError, ReleaseRefusedError
from unpooled.federation.costs import RoundRecord
from unpooled.ledger import Ledger, Release
from unpooled.party.step import disclosed, release, summed
from unpooled.report.cautions import cautions, could_learn, could_not_learn
from unpooled.report.facts import facts_of
from unpooled.report.html import Facts, render, report
from unpooled.report.results import results
from unpooled.report.rules import loosened, rules_table
from unpooled.report.tables import duration, number
from unpooled.report.wording import (
    byte_size,
    sentence,
    what_came_in,
    what_left,
    what_stayed,
)

# A fresh interpreter imports the same library as this one.
ALONE = os.environ | {"PYTHONPATH": str(Path(up.__file__).parents[1])}
VOID = {"meta", "link", "br", "hr", "img", "input", "path", "use", "rect"}


@disclosed(mean=release("p", meaning="the mean of each column in this silo"))
def local_mean(X):
    return {"mean": X.mean(axis=0)}


@summed(
    takes={"weights": "n"},
    score=release("n", meaning="a score for each person"),
)
def local_score(X, *, weights):
    return {"score": X.sum(axis=1) * weights}


@summed(total="p")
def nameless(X):
    return {"total": X.sum(axis=0)}


class Page(HTMLParser):
    """Reads a page strictly: every element is closed, in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        assert len({name for name, _ in attrs}) == len(attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub("[ \n]+", " ", " ".join(self.words))

    def values(self, name: str) -> list[str]:
        return [value or "" for key, value in self.attributes if key == name]


def rows(n=240, p=4, seed=0):
    return np.random.default_rng(seed).standard_normal((n, p)) + 3.0


def fitted(n_parties=4, model=None, **options):
    federation = up.simulate(up.partition_rows(rows(), n_parties), **options)
    return (model or up.PCA(2)).fit(federation), federation


def facts(*args, **options) -> Facts:
    return facts_of(*fitted(*args, **options))


def headings(some: Facts) -> list[str]:
    return [one.heading for one in cautions(some)]


@pytest.fixture(scope="module")
def heart() -> Facts:
    federation = up.simulate(heart_disease.load(), label="num", study="heart")
    pipeline = make_pipeline(up.SimpleImputer(), up.StandardScaler(), up.PCA(5))
    return facts_of(pipeline.fit(federation), federation)


@pytest.fixture(scope="module")
def page(heart) -> Page:
    return Page(render(heart))


# What left, came in and stayed


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

    # Seven arguments and what stayed, and with the transforms their evidence: twice
    # the imputer's two totals, and the scaler's three totals and the mean it was about.
    evidence = [line for line in lines if line.name.startswith(("imputer.", "scaler."))]
    assert (len(lines), len(evidence)) == (16, 8)
    assert len(written) == 16
    assert all(text in page.text for text in written)
    assert not any("the array “" in text for text in written)


@pytest.mark.parametrize(
    ("how", "fate", "exposed"),
    [
        ("masked", "Masked: they open to their total alone, which", False),
        ("plain", "Sent in clear: every silo saw each other silo’s own value.", True),
    ],
)
def test_evidence_is_said_to_be_what_its_protection_makes_it(how, fate, exposed):
    model = make_pipeline(up.SimpleImputer(), up.StandardScaler())
    some = facts(model=model, secure_sum=how)
    line = next(x for x in some.ledger if x.name == "imputer.local_observed.total")

    said = sentence(some, line)

    assert said.text.startswith("All silos’ parts, as they were sent, of: the sum of")
    assert said.fate.startswith(fate)
    assert said.exposed is exposed


def test_sentence_is_made_from_the_declaration(heart):
    scatter = next(
        line for line in heart.ledger if (line.name, line.round) == ("scatter", 6)
    )

    said = sentence(heart, scatter)

    assert said.text == (
        "Products of every two columns’ distances from their means, added "
        "(13\u00a0×\u00a013 numbers, each pair once, 728 bytes from each silo)."
    )
    assert said.fate == "Seen only as the total over all 4 silos."


def test_releases_stand_under_what_they_are_for(heart):
    assert [chapter.title for chapter in what_left(heart)] == [
        "Filling missing cells with the federation’s means",
        "Standardising columns by the federation’s means and deviations",
        "Principal component analysis of rows that stay in their silos",
    ]
    # A fitted transform is told in the round of the step that needs it.
    assert [passage.label for passage in what_came_in(heart)[0].passages] == [
        "Round 2",
        "Round 3",
    ]


def test_what_is_kept_says_how_long_and_where_it_went(heart):
    ((passage,),) = [chapter.passages for chapter in what_stayed(heart)]

    assert passage.sentences[0].fate == (
        "Kept in the silo and forgotten at the end of the fit. Only its total over all "
        "silos was opened, in round 6."
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
    assert said.text.endswith("(7 numbers, 224 bytes from each silo, each time).")


def test_step_without_a_meaning_is_named():
    federation = up.simulate(up.partition_rows(rows(), 3))
    federation.sum(nameless)

    some = facts_of([], federation)

    said = sentence(some, some.ledger[0])
    assert said.text.startswith(f"The array “total” of the step {nameless.name} (4 ")


# Warnings


def test_heart_study_has_no_warnings(heart, page):
    assert cautions(heart) == []
    assert "There are no warnings." in page.text


def test_two_silos_are_warned_of_first():
    some = facts(2, policy={"min_parties": 2})

    first, second = cautions(some)

    assert first.heading == "Only two silos took part"
    assert first.serious
    assert "Fewest silos in a study".lower() in second.text.lower()
    text = Page(render(some)).text
    assert text.index(first.text) < text.index("What was asked", 1000)
    assert "There are no warnings" not in text
    assert any("learns the other’s value" in one for one in could_learn(some))


def test_three_silos_are_a_caution():
    (only,) = cautions(facts(3))

    assert only.heading == "Only three silos took part"
    assert not only.serious


def test_plain_sums_are_no_protection():
    some = facts(4, secure_sum="plain")

    assert headings(some) == ["There was no protection"]
    assert all(
        one.exposed
        for chapter in what_left(some)
        for passage in chapter.passages
        for one in passage.sentences
    )
    text = Page(render(some)).text
    assert "unprotected, so the coordinator could read every silo’s own" in text
    # None of the comforting sentences may survive where they are not true.
    assert "Seen only as the total" not in text
    assert "because the coordinator was not told" not in text
    assert "the masks do not cancel" not in text
    assert could_not_learn(some) == []


def test_one_silo_is_warned_of():
    some = facts(1, secure_sum="plain", policy=up.Policy.open())

    assert "Only one silo took part" in headings(some)


def test_disclosed_values_are_warned_of():
    federation = up.simulate(up.partition_rows(rows(), 4), policy=up.Policy.open())
    federation.collect(local_mean)
    some = facts_of([], federation)

    (one, *_) = cautions(some)

    assert one.serious
    assert one.heading == "Some values were shown as they are"
    assert "the mean of each column in this silo (round 1)" in one.text
    text = Page(render(some)).text
    assert "Shown to the coordinator as it is, silo by silo." in text
    assert "because the coordinator was not told" not in text
    assert not any("Any row" in one for one in could_not_learn(some))
    assert any(one.startswith("Otherwise, any") for one in could_not_learn(some))


def test_what_has_entries_for_people_is_warned_of():
    federation = up.simulate(up.partition_rows(rows(), 4), policy=up.Policy.open())
    federation.sum(local_score, weights=np.ones(60))
    some = facts_of([], federation)

    assert "Something about single people left" in headings(some)
    assert sentence(some, some.lines("out")[0]).exposed
    assert not any("Any row" in one for one in could_not_learn(some))


def test_refused_step_is_warned_of_by_name():
    parties = up.partition_rows(rows(), 4)
    (refusing, *others) = parties
    policies = dict.fromkeys(others) | {refusing: {"allowed_columns": ["age"]}}
    federation = up.simulate(parties, policy=policies)
    with pytest.raises(ReleaseRefusedError):
        up.PCA().fit(federation)

    (one,) = cautions(facts_of([], federation))

    assert one.heading == "A round was not completed"
    assert one.text.startswith(
        f"Round 1 (pca.local_total) was refused or broke off: nothing from {refusing}."
    )
    assert "stayed under masks and was not opened" in one.text
    text = Page(render(facts_of([], federation))).text
    assert "Never opened: without a part from every silo" in text
    assert "from silo2, silo3 and silo4" in text


def test_round_that_nobody_answered_is_warned_of():
    some = dataclasses.replace(
        facts(4), rounds=[RoundRecord(9, "pca.local_scatter", 0.1, 10, 10)]
    )

    (one,) = cautions(some)

    assert one.text == (
        "Round 9 (pca.local_scatter) was refused or broke off: no silo released "
        "anything."
    )


@pytest.mark.parametrize("harm", ["edited", "dropped"])
def test_ledger_that_was_tampered_with_is_warned_of(harm):
    some = facts(4)
    lines = list(some.ledger)
    if harm == "edited":
        lines[1] = dataclasses.replace(lines[1], bytes=1)
    else:
        del lines[2]

    (one,) = cautions(dataclasses.replace(some, ledger=Ledger(lines)))

    assert one.heading == "The ledger does not hold together"
    assert one.serious


def test_few_rows_are_a_caution():
    federation = up.simulate(up.partition_rows(rows(80), 4))

    (one,) = cautions(facts_of(up.StandardScaler().fit(federation), federation))

    assert one.heading == "Few rows"
    assert "80 rows, so at least one of them has no more than 20" in one.text


@pytest.mark.parametrize(("n", "serious"), [(200, False), (80, True)])
def test_many_columns_for_few_rows_are_a_caution(n, serious):
    parties = up.partition_rows(rows(n, 80), 4)
    federation = up.simulate(parties, policy={"max_feature_ratio": 100.0})

    found = cautions(facts_of(up.PCA(2).fit(federation), federation))

    (one,) = [c for c in found if c.heading == "Many columns for so few rows"]
    assert one.serious is serious
    promised = could_not_learn(facts_of(up.PCA(2).fit(federation), federation))
    assert any("Any row" in one for one in promised) is not serious


def test_step_that_is_not_installed_is_a_caution():
    line = Release(
        "s",
        1,
        "strange.local_sum",
        "total",
        (2,),
        "uint64",
        16,
        "summed",
        "out",
        ("a",),
    )
    some = dataclasses.replace(facts(4), ledger=Ledger([line]), rounds=[])

    assert "Some steps are not known here" in headings(some)
    assert "the step strange.local_sum (2 numbers" in sentence(some, line).text


# Rules


def test_loosened_rules_are_named_with_their_silos():
    parties = up.partition_rows(rows(), 4)
    names = list(parties)
    # Four silos are asked for, which is stricter than the library's own three.
    policies = dict.fromkeys(names) | {names[1]: {"min_rows": 2, "min_parties": 4}}
    federation = up.simulate(parties, policy=policies)

    (one,) = cautions(facts_of(up.PCA(2).fit(federation), federation))

    assert one.heading == "Rules looser than the library’s own"
    assert one.text == (
        f"{names[1]} allowed more than the defaults: fewest rows behind anything that "
        f"leaves (2)."
    )


@pytest.mark.parametrize(
    ("policy", "keys"),
    [
        ({}, []),
        ({"min_rows": 50, "max_row_share": 0.1, "require_privacy": True}, []),
        ({"allowed_steps": ["pca.*"], "allowed_columns": ["age"]}, []),
        ({"allowed_steps": ["*"]}, ["allowed_steps"]),
        ({"max_feature_ratio": 2.0, "allow_disclosed": True},
         ["max_feature_ratio", "allow_disclosed"]),
    ],
)  # fmt: skip
def test_rules_are_loose_only_in_the_direction_that_allows_more(policy, keys):
    assert loosened(up.Policy.of(policy).as_dict()) == keys


def test_rules_stand_in_a_column_for_each_silo_only_where_they_differ():
    parties = up.partition_rows(rows(), 4)
    same = facts_of([], up.simulate(parties, policy=up.Policy.open()))
    first = next(iter(parties))
    policies = dict.fromkeys(parties) | {first: {"min_rows": 20}}
    differing = facts_of([], up.simulate(parties, policy=policies))

    alike, apart = rules_table(same), rules_table(differing)

    assert alike is not None
    assert apart is not None
    assert alike.head == ("Rule", "Every silo")
    assert ("Most columns per row, in totals over pairs of columns", "no limit") in (
        alike.rows
    )
    assert apart.head == ("Rule", *parties)
    assert apart.rows[1][1:] == ("20", "10", "10", "10")


def test_rules_that_were_not_told_are_said_to_be_the_silos_own(heart):
    text = Page(render(dataclasses.replace(heart, policies=None))).text

    assert "Each silo applied its own rules" in text


# What the page is


def test_page_is_well_formed_and_its_names_are_its_own(page):
    ids = page.values("id")

    assert len(ids) == len(set(ids))
    wanted = {value[1:] for value in page.values("href") if value.startswith("#")}
    for value in page.values("aria-labelledby"):
        wanted |= set(value.split())
    assert wanted <= set(ids)
    assert "script" not in page.tags


def test_page_asks_for_nothing_outside(heart):
    text = render(heart)

    for way in ("http://", "https://", "@import", "src=", "xmlns", 'href="/'):
        assert way not in text
    assert "default-src 'none'" in text
    assert set(re.findall(r"url\([^#]", text)) == set()


def test_sections_come_in_their_order(page):
    order = [
        "Read this first", "What was asked", "Who took part", "What left each silo",
        "What came into each silo", "What stayed in each silo", "What could be learned",
        "Results", "How to check this report", "Time and bytes", "Versions",
        "Words used here",
    ]  # fmt: skip
    start = page.text.index("Words used here") + 1  # the list of sections

    places = [page.text.index(f" {heading} ", start) for heading in order]

    assert places == sorted(places)


def test_summary_is_one_sentence_with_the_numbers_that_matter(page, heart):
    assert (
        "Four silos worked out one answer from 920 rows that stayed where they were: "
        f"each sent 9 arrays of numbers ({heart.ledger.bytes_out('va'):,} bytes), "
        "which the coordinator could open only as totals over all four." in page.text
    )


def test_no_silo_s_number_of_rows_is_in_the_report(heart):
    sizes = {table.num_rows for table in heart_disease.load().values()}
    # Without times, which are any numbers.
    text = Page(render(dataclasses.replace(heart, rounds=[]))).text

    said = set(re.findall(r"(?<![\w,.])\d+(?![\w,.])", text))

    assert sizes == {303, 294, 123, 200}
    assert not {str(size) for size in sizes} & said


def test_same_facts_give_the_same_page(heart):
    assert render(heart) == render(heart)


def test_names_from_outside_are_shown_and_never_obeyed():
    evil = "<script>alert(1)</script>"
    table = pd.DataFrame(rows(60, 3), columns=[evil, "$x^2$", "a\u202eb\x07c&amp;"])
    parties = {f'"><b>{i}</b>': table for i in range(4)}
    federation = up.simulate(parties, study="<i>study</i>")
    model = make_pipeline(up.StandardScaler(), up.PCA(2)).fit(federation)
    some = facts_of(model, federation, f"{evil}{{{{ 7 * 7 }}}}")

    text = render(some)
    page = Page(text)

    assert {"script", "b", "i"}.isdisjoint(page.tags)
    assert evil in page.text
    assert "{{ 7 * 7 }}" in page.text
    assert '"><b>0</b>' in page.text
    assert "<i>study</i>" in page.text
    assert "a\ufffdb\ufffdc&amp;" in page.text
    assert not set("\u202e\x07") & set(text)


def test_time_and_bytes_add_up(heart, page):
    (table,) = re.findall(r'id="costs".*?</section>', render(heart), re.DOTALL)
    cells = [html.unescape(re.sub("<.*?>", "", c)) for c in table.split("<tr")]
    total = cells[-1].split(">", 1)[-1]

    assert f"{heart.ledger.bytes_out('va'):,}" in total
    assert f"{sum(record.bytes_out for record in heart.rounds):,}" in total
    assert f"{sum(record.bytes_in for record in heart.rounds):,}" in total
    assert "agreeing on fresh keys, 3 times" in page.text


def test_head_of_the_chain_and_keys_can_be_compared(heart, page):
    assert heart.ledger[-1].hash in page.text
    for seal in heart.ledger[-1].seals.values():
        assert seal.key in page.text.replace(" ", "")


def test_versions_name_no_machine(page):
    import platform

    assert up.__version__ in page.text
    assert np.__version__ in page.text
    assert platform.node() not in page.text.split()


def test_parameters_that_were_chosen_stand_apart(page):
    assert re.search(r"PCA n_components = 5 with the usual", page.text)


# Results


def test_numbers_under_every_picture(heart, page):
    pca = heart.models[-1][1]

    assert page.tags.count("svg") == 2
    for share in pca.explained_variance_ratio_:
        assert f"{100 * share:.1f} %" in page.text
    for value in pca.components_.ravel():
        assert f"{value:+.3f}".replace("-", "−") in page.text
    for value in heart.models[0][1].statistics_:
        assert number(value) in page.text


def test_many_columns_are_cut_to_the_largest_and_it_is_said():
    federation = up.simulate(
        up.partition_rows(rows(900, 64), 4), policy={"max_feature_ratio": 1.0}
    )
    pca = up.PCA(8).fit(federation)
    some = facts_of(pca, federation)

    ((result),) = results(some)
    page = Page(render(some))

    loadings = [one for one in result.exhibits if one.heading.startswith("Loadings")]
    assert len(loadings) == 6
    for values, exhibit in zip(pca.components_, loadings, strict=False):
        (table,) = exhibit.tables
        largest = np.argsort(-np.abs(values))[:15]
        assert [row[0] for row in table.rows] == [f"x{j}" for j in largest]
    assert "Of the 64 columns, the 15 with the largest loadings are shown" in page.text
    assert "Of 8 components, the first 6 are shown." in page.text


def test_means_of_standardised_columns_are_not_told_again(heart):
    last = results(heart)[-1]

    assert [one.heading for one in last.exhibits] == ["Explained variance", "Loadings"]


def test_means_of_other_columns_are():
    (result,) = results(facts(4))

    assert result.exhibits[-1].tables[0].head == ("Column", "Mean")


def test_missing_cells_are_counted_over_all_silos_only():
    X = rows()
    X[:7, 1] = np.nan
    federation = up.simulate(up.partition_rows(X, 4))
    scaler = up.StandardScaler().fit(federation)

    (result,) = results(facts_of(scaler, federation))

    (table,) = result.exhibits[0].tables
    assert [row[-1] for row in table.rows] == ["240", "233", "240", "240"]


# The function


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


def test_report_of_no_model_is_one_of_the_ledger_alone():
    federation = up.simulate(up.partition_rows(rows(), 4))

    text = Page(render(facts_of([], federation))).text

    assert "no numbers left a silo" in text
    assert "Nothing left any silo." in text
    assert "No model was fitted." in text


def test_report_writes_a_file_in_a_folder_it_makes(tmp_path):
    path = report(*fitted(), tmp_path / "new" / "report.html", title="Élan & co")

    assert path == tmp_path / "new" / "report.html"
    assert "<title>Élan &amp; co</title>" in path.read_text("utf-8")
    assert "This was a simulation" in path.read_text("utf-8")


def test_views_of_a_federation_tell_the_same_ledger():
    federation = up.simulate(up.partition_rows(rows(), 4))
    train, _ = federation.train_test_split(random_state=0)
    model = up.PCA(2).fit(train)

    assert facts_of(model, train).ledger is facts_of(model, federation).ledger


def test_totals_taken_twice_are_told_as_differences():
    federation = up.simulate(up.partition_rows(rows(), 4))
    for train, _ in federation.folds(2, random_state=0):
        up.PCA(2).fit(train)

    (one,) = [x for x in could_learn(facts_of([], federation)) if "Differences" in x]

    assert "pca.local_scatter: 2 times" in one


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


@pytest.mark.parametrize(
    "imports",
    [
        "import unpooled as up",
        "import unpooled as up; up.report; import unpooled.report.html",
        "import unpooled.report.html, unpooled as up",
        "import unpooled as up; import unpooled.report.figures",
        "from unpooled import report\nimport unpooled as up\n1 / (up.report is report)",
        "from unpooled.report.html import report; import unpooled as up",
        "import unpooled.report, unpooled as up; up.PCA",
    ],
)
def test_report_can_be_called_whatever_was_imported_first(imports):
    check = (
        "import inspect\n"
        "names = list(inspect.signature(up.report).parameters)\n"
        "assert names == ['model', 'federation', 'path', 'title'], names\n"
        "from unpooled.report.html import render\n"
        "import unpooled.report.html as page\n"
        "assert page.render is render is up.report.html.render\n"
        "try:\n    up.report(None, None, 'nowhere')\n"
        "except up.errors.DataError:\n    print('called')\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", f"{imports}\n{check}"],
        capture_output=True,
        text=True,
        check=False,
        env=ALONE,
    )

    assert (done.stdout, done.stderr) == ("called\n", "")


def test_naming_the_report_loads_nothing_heavy():
    check = (
        "import unpooled, sys; unpooled.report; "
        "print({'matplotlib', 'jinja2', 'sklearn'} & set(sys.modules))"
    )

    done = subprocess.run(
        [sys.executable, "-c", check],
        capture_output=True,
        text=True,
        check=True,
        env=ALONE,
    )

    assert done.stdout == "set()\n"


# Numbers


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (0.0, "0"),
        (53.5107, "53.51"),
        (-0.25, "−0.2500"),
        (246832.4, "246,832"),
        (1e-7, "1.000 × 10⁻⁷"),
        (-9.99996e-7, "−1.000 × 10⁻⁶"),
        (6.02e23, "6.020 × 10²³"),
        (float("nan"), "none"),
    ],
)
def test_numbers_have_four_digits(x, text):
    assert number(x) == text


def test_sizes_and_times_are_in_fitting_units():
    assert [byte_size(n) for n in (0, 9_999, 10_000, 2_511_968)] == [
        "0 bytes", "9,999 bytes", "10.0 kB", "2.5 MB",
    ]  # fmt: skip
    assert [duration(s) for s in (0.00412, 0.2, 75.0)] == [
        "4.1 ms",
        "0.20 s",
        "75.00 s",
    ]
