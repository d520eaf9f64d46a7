"""The report's page: nothing from outside can speak in it, and its numbers add up."""

import dataclasses
import html
import inspect
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

import unpooled as up
from report_pages import Page, fitted, rows
from unpooled.coordinator.step_call import RoundRecord
from unpooled.data import heart_disease
from unpooled.errors import DataError
from unpooled.report.facts import facts_of
from unpooled.report.html import render, report
from unpooled.report.text.costs_and_signatures import costs


def test_page_is_well_formed_and_its_names_are_its_own(page):
    ids = page.values("id")

    assert len(ids) == len(set(ids))
    wanted = {value[1:] for value in page.values("href") if value.startswith("#")}
    for value in page.values("aria-labelledby"):
        wanted |= set(value.split())
    assert wanted <= set(ids)
    assert "script" not in page.tags


def test_the_package_takes_what_the_function_takes():
    packages, functions = (
        [(p.name, p.kind, p.default) for p in inspect.signature(f).parameters.values()]
        for f in (up.report, report)
    )
    assert packages == functions


@pytest.mark.slow
def test_a_report_from_python_has_a_statement_too(tmp_path):
    X = np.random.default_rng(0).standard_normal((90, 3))
    federation = up.simulate(up.partition_rows(X, 3))
    model = up.PCA(2).fit(federation)

    text = up.report(
        model,
        federation,
        tmp_path / "report.html",
        purpose="Do <they> vary together?",
        controllers=["Hospital A", "Hospital B"],
        contact="dpo@a.example",
        legal_basis="Art. 9(2)(j) GDPR",
        retention="ten years",
    ).read_text()

    assert '<p class="question">Do &lt;they&gt; vary together?</p>' in text
    assert "<dt>Controllers</dt><dd>Hospital A; Hospital B</dd>" in text
    for heading in ("Purpose", "Contact", "Legal basis", "Retention"):
        assert f"<dt>{heading}</dt>" in text
    assert "states no purpose" not in text


@pytest.mark.thinned(1)
@pytest.mark.parametrize(
    "given",
    [{"purpose": 3}, {"contact": " "}, {"controllers": []}, {"retention": ["a"]}],
)
def test_what_is_no_statement_is_refused(tmp_path, given):
    X = np.random.default_rng(0).standard_normal((90, 3))
    federation = up.simulate(up.partition_rows(X, 3))
    model = up.PCA(2).fit(federation)

    with pytest.raises(DataError, match=f"{next(iter(given))}=.* must be a text"):
        up.report(model, federation, tmp_path / "report.html", **given)
    assert not (tmp_path / "report.html").exists()


@pytest.mark.slow
def test_page_asks_for_nothing_outside(heart):
    text = render(heart)

    for way in ("http://", "https://", "@import", "src=", "xmlns", 'href="/'):
        assert way not in text
    assert "default-src 'none'" in text
    assert set(re.findall(r"url\([^#]", text)) == set()


def test_sections_come_in_their_order(page):
    order = [
        "Who took part", "Results", "Warnings", "Data protection",
        "What left each silo", "What came into each silo", "What stayed in each silo",
        "What could be learned", "The silos’ rules", "Methods",
        "How to check this report", "Time and bytes", "Words used here", "Approval",
    ]  # fmt: skip
    start = page.text.index(" Approval ") + 1  # the list of sections

    places = [page.text.index(f" {heading} ", start) for heading in order]

    assert places == sorted(places)


def test_summary_is_one_sentence_with_the_numbers_that_matter(page, heart):
    assert (
        "Four silos computed a joint result from 920 rows that stayed where they were: "
        f"each sent 9 arrays of numbers ({heart.ledger.bytes_out('va'):,} bytes), "
        "which the coordinator could open only as totals over all four." in page.text
    )


@pytest.mark.slow
def test_no_silo_s_number_of_rows_is_in_the_report(heart):
    sizes = {table.num_rows for table in heart_disease.load().values()}
    # Without times, which are any numbers.
    text = Page(render(dataclasses.replace(heart, rounds=[]))).text

    said = set(re.findall(r"(?<![\w,.])\d+(?![\w,.])", text))

    assert sizes == {303, 294, 123, 200}
    assert not {str(size) for size in sizes} & said


@pytest.mark.slow
def test_same_facts_give_the_same_page(heart):
    assert render(heart) == render(heart)


@pytest.mark.slow
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


@pytest.mark.slow
def test_time_and_bytes_add_up(heart, page):
    (table,) = re.findall(r'id="costs".*?</section>', render(heart), re.DOTALL)
    cells = [html.unescape(re.sub("<.*?>", "", c)) for c in table.split("<tr")]
    total = cells[-1].split(">", 1)[-1]

    assert f"{heart.ledger.bytes_out('va'):,}" in total
    assert f"{sum(record.bytes_out for record in heart.rounds):,}" in total
    assert f"{sum(record.bytes_in for record in heart.rounds):,}" in total
    assert "agreeing on fresh keys, 3 times" in page.text


def test_rounds_that_alternate_are_told_by_step(heart):
    rounds = [
        RoundRecord(i + 1, f"pca.step{i % 2}", 0.5, 10 + i % 2, 1) for i in range(60)
    ]

    table = costs(dataclasses.replace(heart, rounds=rounds))

    labels = [(row[0], row[1], row[4]) for row in table.shown]
    assert labels == [
        ("1 to 59, 30 of them", "pca.step0", "300"),
        ("2 to 60, 30 of them", "pca.step1", "330"),
        ("All", "", "630"),
    ]


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
    assert re.search(r"PCA n_components = 5 with the defaults", page.text)


def test_report_of_no_model_is_one_of_the_ledger_alone():
    federation = up.simulate(up.partition_rows(rows(), 4))

    text = Page(render(facts_of([], federation))).text

    assert "no numbers left a silo" in text
    assert "Nothing left any silo." in text
    assert "No model was fitted." in text


@pytest.mark.slow
def test_report_writes_a_file_in_a_folder_it_makes(tmp_path):
    path = report(*fitted(), tmp_path / "new" / "report.html", title="Élan & co")

    assert path == tmp_path / "new" / "report.html"
    assert "<title>Élan &amp; co</title>" in path.read_text("utf-8")
    assert "This was a simulation" in path.read_text("utf-8")
