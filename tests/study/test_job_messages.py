import json

import pytest

import unpooled as up
from unpooled.errors import (
    RULES,
    AggregationError,
    ConvergenceError,
    DataError,
    ReleaseRefusedError,
    StudyError,
)
from unpooled.study.job_messages import (
    error_of,
    error_record,
    plan_of,
    plan_record,
    read_results,
)


@pytest.mark.parametrize(
    "reason",
    [
        DataError("va has no column age", rule="unknown_columns"),
        AggregationError("va did not answer join", rule="out_of_order"),
        ConvergenceError("100 iterations were not enough"),
        StudyError("no such run"),
    ],
    ids=lambda reason: type(reason).__name__,
)
def test_an_error_of_ours_arrives_as_it_was(reason):
    travelled = json.loads(json.dumps(error_record(reason)))

    arrived = error_of(travelled)

    assert type(arrived) is type(reason)
    assert str(arrived) == str(reason)
    assert arrived.rule == reason.rule


@pytest.mark.parametrize("rule", ["min_rows", "approval", "audit_log"])
def test_a_refusal_arrives_with_party_step_and_rule(rule):
    reason = ReleaseRefusedError("va", "pca.local_scatter", rule)

    arrived = error_of(json.loads(json.dumps(error_record(reason))))

    assert isinstance(arrived, ReleaseRefusedError)
    assert (arrived.party, arrived.step, arrived.rule) == (
        "va",
        "pca.local_scatter",
        rule,
    )
    assert str(arrived) == str(reason)
    assert RULES[rule][1] in str(arrived)


def test_the_text_of_any_other_error_stays_at_the_server():
    record = error_record(KeyError("/srv/rows of Mrs Smith"))

    assert "Smith" not in json.dumps(record)
    assert "/srv" not in json.dumps(record)
    arrived = error_of(record)
    assert isinstance(arrived, AggregationError)
    assert "server's log" in str(arrived)


def test_a_kind_that_nobody_knows_is_still_an_error():
    arrived = error_of({"kind": "SystemExit", "text": "gone", "rule": "x"})

    assert isinstance(arrived, AggregationError)
    assert str(arrived) == "gone"


def test_a_plan_arrives_as_it_was():
    parties = {name: [[1.0, 2.0]] * 20 for name in ("a", "b", "c")}
    plan = up.plan(up.PCA(1), up.simulate(parties))

    travelled = json.loads(json.dumps(plan_record(plan)))

    assert plan_of(travelled) == plan


@pytest.mark.parametrize("record", [{}, {"releases": 1}, {"releases": [{}]}])
def test_what_is_no_plan_is_refused(record):
    whole = {"refusals": [], "parties": [], "protection": "masked"} | record

    with pytest.raises(StudyError, match=r"not a (plan|line)"):
        plan_of(whole if record else {})


@pytest.mark.parametrize("text", ["", "[]", "{", "\x00"])
def test_an_outcome_that_cannot_be_read_is_an_error(tmp_path, text):
    path = tmp_path / "outcome.json"
    path.write_text(text)

    with pytest.raises(StudyError, match="cannot be read"):
        read_results(path)


def test_an_outcome_may_have_no_run_beside_it(tmp_path):
    path = tmp_path / "outcome.json"
    path.write_text('{"error": null}')

    assert read_results(path) == ({"error": None}, None)
