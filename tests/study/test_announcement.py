"""What a person at a silo is shown before a study begins, for every estimator."""

import functools
import io

import pytest
from rich.console import Console

from integration.matrix import CASES, FIRST, RULES, text_of
from integration.rows import SILOS, WRITERS
from server_end import ServerEnd
from tiers import mostly_slow
from unpooled.cli.silo_log import show_announced
from unpooled.errors import AggregationError
from unpooled.report.facts import declaration
from unpooled.secure.keys.roster import Roster
from unpooled.study import Study
from unpooled.study.announcement import read_announced, stated
from unpooled.study.pipeline import plan_fit
from unpooled.study.simulated_federation import simulated_federation


@pytest.fixture(scope="module")
def parties(tmp_path_factory):
    """A silo of each kind of data, as it stands before any study."""

    @functools.cache
    def parties(partition, categorical=()):
        folder = tmp_path_factory.mktemp(partition)
        how = {"rules": RULES[partition], "categorical": categorical}
        return ServerEnd(folder, SILOS, WRITERS[partition], partition=partition, **how)

    return parties


@pytest.fixture(scope="module")
def announced(parties):
    """What a silo is shown of a case: its plan, made once."""

    @functools.cache
    def announced(name):
        case = CASES[name]
        party = parties(case.partition, case.categorical).party(SILOS[0])
        return read_announced(party, f"case-{name}", text_of(name))

    return announced


def test_steps_within_a_step_are_said_as_steps():
    """For people who read no Python: {'model': 'SimpleImputer', ...} is none of it."""
    text = """
[study]
name = "heart"

[parties.a]

[[steps]]
model = "ColumnTransformer"
transformers = [
  { model = "SimpleImputer", columns = "numeric" },
  { model = "OneHotEncoder", columns = ["sex", "ward"], drop = "first" },
]
remainder = "passthrough"

[[steps]]
model = "PCA"
n_components = 2
standard_errors = true
privacy = { epsilon = 1.0, delta = 1e-5, row_norm = 3.0 }
"""
    assert stated("heart", text).steps == (
        "ColumnTransformer(transformers = [SimpleImputer() of numeric, "
        "OneHotEncoder(drop = first) of sex and ward], remainder = passthrough)",
        "PCA(n_components = 2, standard_errors = true, "
        "privacy = {epsilon = 1.0, delta = 1e-05, row_norm = 3.0})",
    )


def of_lines(lines):
    return [(x.step, x.name, x.visibility, x.direction) for x in lines]


@pytest.mark.thinned(16)
@pytest.mark.parametrize("name", mostly_slow(CASES, *FIRST))
def test_a_silo_plans_what_the_coordinator_plans(announced, name, tmp_path):
    case = CASES[name]

    shown = announced(name)

    sources = {silo: WRITERS[case.partition](silo, tmp_path) for silo in SILOS}
    study = Study.from_text(tmp_path / "study.toml", text_of(name, sources))
    # As over a consortium.
    federation, _ = simulated_federation(study, follow=True)
    planned = plan_fit(study, study.steps, federation)
    lines = [line for line in planned.releases if SILOS[0] in line.parties]
    if case.partition == "rows":
        # How often models of columns ask depends on the other silos' columns.
        assert of_lines(shown.plan.releases) == of_lines(lines)
    families = {line.step.rpartition(".")[0] + ".*" for line in lines}
    assert set(shown.steps) == families
    assert not shown.plan.refusals


@pytest.mark.thinned(16)
@pytest.mark.parametrize("name", mostly_slow(CASES, *FIRST))
def test_every_line_that_is_shown_has_a_meaning(announced, name):
    shown = announced(name)
    window = Console(file=io.StringIO(), width=100)

    show_announced(window, f"case-{name}", text_of(name), shown)

    for line in shown.plan.releases:
        if line.direction == "out":
            declared = declaration(line.step, line.name)
            assert getattr(declared, "meaning", ""), (line.step, line.name)


def test_who_computes_for_all_is_said(parties):
    many = [f"s{k}" for k in range(6)]
    text = text_of("PowerTransformer").replace(f"[parties.{SILOS[1]}]", "")
    text = text.replace(
        f"[parties.{SILOS[2]}]", "".join(f"[parties.{name}]\n" for name in many)
    )
    keys = {name: bytes([k]) * 32 for k, name in enumerate((SILOS[0], *many))}
    party = parties("rows").party(SILOS[0])

    def notes(roster):
        return read_announced(party, "case-PowerTransformer", text, roster).plan.notes

    assert "by the committee s1, s3, s4" in notes(Roster(keys, ("s1", "s3", "s4")))[0]
    with pytest.raises(AggregationError, match="only by a committee of 3 to 5"):
        notes(Roster(keys))
