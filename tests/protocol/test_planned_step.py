"""What a plan asks and what a silo foresees, read from messages of any content."""

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unpooled.protocol.planned_step import Foreseen, PlannedStep
from unpooled.protocol.refusal import Refusal

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda some: st.lists(some, max_size=3) | st.dictionaries(st.text(), some),
    max_leaves=4,
)
NAMES = st.lists(st.text(max_size=3), max_size=3).map(tuple)
SIZES = st.floats(0.0, 1e12)
STEPS = st.builds(
    PlannedStep,
    complete=st.booleans(),
    varying=st.booleans(),
    valued=st.booleans(),
    matched=st.booleans(),
    earlier=st.lists(NAMES, max_size=3).map(tuple),
    rho=SIZES,
    opens=st.tuples(SIZES, SIZES),
)
ANSWERS = st.builds(
    Foreseen,
    rule=st.text(max_size=5),
    columns=NAMES,
    complete_in=st.none() | NAMES,
    further=st.booleans(),
    carried=NAMES,
    empty=NAMES,
    constant=NAMES,
    doubt=st.none() | st.tuples(st.just("missing_values"), NAMES),
)


def of_any(kind):
    """Headers with some of its fields, of any content."""
    return st.fixed_dictionaries({}, optional=dict.fromkeys(vars(kind()), JSON))


@given(step=STEPS)
def test_a_planned_step_arrives_as_it_was_sent(step):
    assert PlannedStep.from_header(step.as_header()) == step


@given(told=ANSWERS)
def test_what_is_foreseen_arrives_as_it_was_told(told):
    assert Foreseen.from_header(told.as_header()) == told


@given(header=of_any(PlannedStep))
def test_a_silo_reads_any_planned_step_or_refuses_it(header):
    with contextlib.suppress(Refusal):
        step = PlannedStep.from_header(header)
        assert step.as_header().items() >= header.items()


@pytest.mark.parametrize(
    "wrong",
    [
        *({"complete": one} for one in (1, None, "yes")),
        {"matched": 0},
        *({"earlier": one} for one in (None, "ab", [1], ["a"], [[1]])),
        *({"rho": one} for one in (1, True, -1e-9, math.inf, math.nan, None)),
        *({"opens": one} for one in (None, [], [1.0], [1.0, 2], [0.0, -1.0])),
        {"opens": [0.0, 1.0, 2.0]},
    ],
)
def test_a_field_of_another_type_is_refused(wrong):
    with pytest.raises(Refusal) as caught:
        PlannedStep.from_header(wrong)
    assert caught.value.rule == "malformed_message"


@given(header=of_any(Foreseen))
def test_a_reply_of_any_content_is_read_without_an_error(header):
    told = Foreseen.from_header(header)

    # What is not of its type counts as absent.
    assert Foreseen.from_header(told.as_header()) == told


@given(doubt=JSON | st.fixed_dictionaries({"rule": JSON, "columns": JSON}))
def test_a_doubt_by_no_rule_of_rows_is_none(doubt):
    assert Foreseen.from_header({"doubt": doubt}).doubt is None


@pytest.mark.parametrize(("columns", "read"), [(["b"], ("b",)), (["b", 1], ())])
def test_a_doubt_names_its_rule_and_columns(columns, read):
    said = {"doubt": {"rule": "missing_values", "columns": columns}}

    assert Foreseen.from_header(said).doubt == ("missing_values", read)
