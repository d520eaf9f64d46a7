import pytest
from hypothesis import given
from hypothesis import strategies as st

from unpooled.data.study_columns import agree_on_columns
from unpooled.errors import DataError

NAMES = st.lists(st.text(max_size=3), unique=True, min_size=1, max_size=6)


@given(orders=NAMES.flatmap(lambda n: st.lists(st.permutations(n), min_size=1)))
def test_any_orders_of_one_set_agree_on_the_first(orders):
    parties = {f"silo{i}": order for i, order in enumerate(orders)}

    assert agree_on_columns(parties) == tuple(orders[0])


@given(sets=st.lists(NAMES, min_size=2, max_size=5))
def test_other_sets_are_refused_and_every_party_at_fault_is_named(sets):
    parties = {f"silo{i}": names for i, names in enumerate(sets)}
    if len({frozenset(names) for names in sets}) == 1:
        return

    with pytest.raises(DataError) as caught:
        agree_on_columns(parties)

    message = str(caught.value)
    assert "missing" in message or "extra" in message
    assert caught.value.rule == "unknown_columns"


def test_the_odd_party_is_named_even_when_it_comes_first():
    with pytest.raises(DataError) as caught:
        agree_on_columns(
            {"a": ["age", "Chol"], "b": ["age", "chol"], "c": ["chol", "age"]}
        )

    message = str(caught.value)
    assert "a: missing 'chol', extra 'Chol'." in message
    assert "b:" not in message
    assert "columns common to all: 'age'." in message


def test_of_two_parties_the_first_is_the_measure():
    with pytest.raises(
        DataError, match=r"b: missing 'y', extra 'z'\. .*common to all: 'x'"
    ):
        agree_on_columns({"a": ["x", "y"], "b": ["z", "x"]})


def test_parties_without_a_shared_column():
    with pytest.raises(DataError, match="there are none"):
        agree_on_columns({"a": ["x"], "b": ["y"]})


def test_repeated_columns_are_refused():
    with pytest.raises(DataError, match="b has repeated columns: 'x'"):
        agree_on_columns({"a": ["x"], "b": ["x", "x"]})


def test_no_parties_are_refused():
    with pytest.raises(DataError, match="no parties"):
        agree_on_columns({})
