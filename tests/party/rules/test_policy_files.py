"""Reading policies: keys, values and files, and what is none."""

import math

import pytest

import unpooled as up
from policy_steps import TABLES, everybody
from unpooled.errors import StudyError
from unpooled.party.rules.policy import Policy
from unpooled.protocol.refusal import Refusal
from unpooled.protocol.step import release


def test_defaults_fail_closed():
    assert Policy().as_dict() == {
        "min_parties": 3,
        "min_rows": 10,
        "min_rows_per_class": 5,
        "min_own_cells": 2,
        "max_feature_ratio": 0.33,
        "max_released_share": 0.33,
        "max_leverage": 0.95,
        "allow_disclosed": False,
        "allow_row_level": False,
        "allow_roster_change": False,
        "roster_period_days": None,
        "min_changed_rows": 10,
        "max_refusals": 3,
        "refusal_period_days": 30.0,
        "allow_order_statistics": False,
        "require_privacy": False,
        "privacy_budget": 10.0,
        "privacy_delta": 1e-5,
        "allowed_steps": None,
        "allowed_columns": None,
    }
    assert Policy.of(None) == Policy.of({}) == Policy()


@pytest.mark.parametrize(
    "rules",
    [
        {"min_row": 5},
        {"minimum_rows": 5},
        {"Min_rows": 5},
        {"": 5},
        {"min_rows": 5, "epsilon": 1.0},
    ],
)
def test_unknown_keys_are_refused(rules, tmp_path):
    with pytest.raises(StudyError, match="Unknown policy keys"):
        Policy.of(rules)
    with pytest.raises(StudyError, match="Unknown policy keys"):
        up.simulate(TABLES, policy=rules)
    with pytest.raises(StudyError, match="Unknown policy keys"):
        up.simulate(TABLES, policy={"a": rules, "b": {}})


@pytest.mark.parametrize(
    "rules",
    [
        {"min_rows": -1},
        {"min_rows": 2.5},
        {"min_rows": "10"},
        {"min_rows": True},
        {"min_rows": math.nan},
        {"min_rows": math.inf},
        {"min_rows": None},
        {"min_rows": [10]},
        {"max_leverage": -0.1},
        {"max_leverage": math.nan},
        {"max_feature_ratio": "0.33"},
        {"allow_disclosed": 1},
        {"allow_disclosed": "false"},
        {"require_privacy": None},
        {"allowed_steps": "pca.*"},
        {"allowed_steps": [1]},
        {"allowed_columns": 5},
        {"allowed_columns": {"x0": True}},
    ],
)
def test_values_of_the_wrong_kind_are_refused(rules):
    (key,) = rules
    with pytest.raises(StudyError, match=f"Policy {key} = "):
        Policy.of(rules)


@pytest.mark.parametrize("other", [5, ["min_rows"], [("min_rows", 5)]])
def test_what_is_no_policy_is_refused(other):
    with pytest.raises(StudyError, match="A policy is a table"):
        Policy.of(other)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("min_rows = ", "Cannot read"),
        ("min_rows = 5\nmin_rows = 6", "Cannot read"),
        ("min_row = 5", "Unknown policy keys"),
        ("[policy]\nmin_row = 5", "Unknown policy keys"),
        ("min_rows = 50\n[policy]\nmin_parties = 4", "stand outside"),
        ("policy = 5", "A policy is a table"),
        ("min_rows = 'ten'", "Policy min_rows"),
        ("[other]\nmin_rows = 5", "Unknown policy keys"),
    ],
)
def test_files_that_are_no_policy_are_refused(tmp_path, text, wrong):
    path = tmp_path / "policy.toml"
    path.write_text(text)
    with pytest.raises(StudyError, match=wrong):
        Policy.from_file(path)


def test_files_are_read(tmp_path):
    path = tmp_path / "policy.toml"
    with pytest.raises(StudyError, match="Cannot read"):
        Policy.from_file(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(StudyError, match="Cannot read"):
        Policy.from_file(path)
    for text in (
        'min_rows = 50\nallowed_columns = ["x*"]',
        '[policy]\nmin_rows = 50\nallowed_columns = ["x*"]',
    ):
        path.write_text(text)
        policy = Policy.from_file(path)
        assert policy == Policy(min_rows=50, allowed_columns=["x*"])
        assert Policy.of(path) == Policy.of(str(path)) == policy
    path.write_text("")
    assert Policy.from_file(path) == Policy()
    # A file does not send the reader on to another.
    path.write_text(f"policy = '{path}'")
    with pytest.raises(StudyError, match="A policy is a table"):
        Policy.of(path)


def test_open_allows_everything():
    policy = Policy.open()
    policy.check_parties(1)
    policy.check_rows(0)
    policy.check_features(release("p p"), 10**6, 1)
    policy.check_classes([1])
    policy.check_columns(["anything"])
    policy.check_step(everybody)
    assert policy.allow_roster_change
    assert policy.min_changed_rows == 0


def test_patterns_are_case_sensitive_and_whole():
    policy = Policy(allowed_columns=["age", "lab_*"])
    policy.check_columns(["age", "lab_", "lab_x"])
    for column in ("Age", "ages", "xage", "lab", "LAB_x", ""):
        with pytest.raises(Refusal, match="allowed_columns"):
            policy.check_columns(["age", column])
