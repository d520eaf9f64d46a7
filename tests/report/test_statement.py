"""What a study says of itself: read from its file, announced, and printed."""

import pytest

import unpooled as up
from command_line import write_study
from report_pages import Page
from unpooled.errors import StudyError
from unpooled.report.html import render
from unpooled.study.announcement import calls_of
from unpooled.study.reporting import facts_of_run
from unpooled.study.run_folder import RunFolder

KEYS = """purpose = "Do risk factors
  <vary> together?"
controllers = ["Hospital A", "Hospital B"]
contact = "dpo@a.example"
legal_basis = "Art. 9(2)(j) GDPR"
retention = "ten years"
""".replace("\n  ", " ")


def with_keys(folder, keys):
    path = write_study(folder)
    text = path.read_text().replace("[study]\n", f"[study]\n{keys}", 1)
    path.write_text(text)
    return path


def test_a_study_without_a_statement_has_none(tmp_path):
    assert up.Study.from_file(write_study(tmp_path)).statement == {}


@pytest.mark.slow
def test_the_statement_is_read_and_printed_in_the_report(tmp_path):
    study = up.Study.from_file(with_keys(tmp_path, KEYS))

    assert study.statement == {
        "Purpose": "Do risk factors <vary> together?",
        "Controllers": "Hospital A; Hospital B",
        "Contact": "dpo@a.example",
        "Legal basis": "Art. 9(2)(j) GDPR",
        "Retention": "ten years",
    }
    run = study.run()
    text = render(facts_of_run(RunFolder.open(run.folder)))
    for heading in study.statement:
        assert f"<dt>{heading}</dt>" in text
    assert '<p class="question">Do risk factors &lt;vary&gt; together?</p>' in text
    assert "states no purpose" not in text
    # The sheet that is signed may be kept without the rest.
    sheet = Page(text).text.rpartition(" Approval ")[2]
    for heading, said in study.statement.items():
        assert f"{heading} {said}" in sheet
    assert run.report is not None
    assert "Art. 9(2)(j)" in run.report.read_text()
    # The silos read the same text, and make the same calls of it.
    assert len(calls_of(study.text).calls) == len(study.steps)


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ("purpose = 3\n", r"\[study\] purpose: must be a text, not 3"),
        ('purpose = ""\n', r"\[study\] purpose: must be a text"),
        ("controllers = [1]\n", r"\[study\] controllers: must be a list of texts"),
        ("controllers = []\n", r"\[study\] controllers: must have at least one"),
        ('retension = "x"\n', 'Did you mean "retention"'),
    ],
)
def test_what_is_no_statement_is_refused(tmp_path, keys, reason):
    path = with_keys(tmp_path, keys)

    with pytest.raises(StudyError, match=reason):
        up.Study.from_file(path)
