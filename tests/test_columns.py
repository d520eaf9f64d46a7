import pytest

from unpooled.data.columns import check_known, feature_columns, listing, refuse_text
from unpooled.errors import DataError


def features(names, label=None, ids=None, wanted=None):
    return feature_columns(
        names, label=label, ids=ids, wanted=wanted, source="The file"
    )


def test_label_and_ids_are_never_features():
    assert features(["id", "a", "y", "b"], label="y", ids="id") == ("a", "b")


def test_wanted_columns_keep_the_order_of_the_source():
    assert features(["a", "b", "c"], wanted=["c", "a"]) == ("a", "c")


def test_row_index_of_pandas_is_no_feature_unless_asked_for():
    names = ["a", "__index_level_0__"]

    assert features(names) == ("a",)
    assert features(names, wanted=names) == tuple(names)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"names": ["a", "b", "a"]}, "more than one column named 'a'"),
        ({"names": ["a"], "label": "A"}, "no column 'A'. "),
        ({"names": ["age", "sex"], "ids": "agee"}, "Did you mean 'age' for 'agee'"),
        ({"names": ["a", "y"], "label": "y", "ids": "y"}, "cannot be both"),
        ({"names": ["y"], "label": "y"}, "no feature columns"),
        ({"names": ["a", " "]}, "without a name"),
        ({"names": ["a"], "wanted": "a"}, r"Write \['a'\]"),
        ({"names": ["a"], "wanted": ["b"]}, "no column 'b'"),
        ({"names": ["a"], "wanted": []}, "no feature columns"),
        ({"names": ["a", "y"], "label": "y", "wanted": ["y"]}, "'y' cannot be a feat"),
    ],
)
def test_refusals_say_what_came_and_what_to_do(arguments, message):
    with pytest.raises(DataError, match=message):
        features(**arguments)


def test_unnamed_column_is_ignored_when_columns_are_named():
    assert features(["", "a"], wanted=["a"]) == ("a",)


def test_unknown_names_carry_the_rule_that_may_cross_the_boundary():
    with pytest.raises(DataError) as caught:
        check_known(["z"], ["a"], "The table")

    assert caught.value.rule == "unknown_columns"


def test_long_lists_are_cut():
    assert listing([f"c{j}" for j in range(20)], limit=2) == "'c0', 'c1' and 18 more"


def test_refused_text_is_named_with_the_remedy():
    refuse_text({}, "The file")

    with pytest.raises(DataError, match=r"'sex' \(text\).*Encode them as numbers"):
        refuse_text({"sex": "text"}, "The file")
    with pytest.raises(DataError, match="and 8 more"):
        refuse_text({f"c{j}": "text" for j in range(20)}, "The file")
