"""What all estimators share: the names of their columns."""

import numpy as np
import pandas as pd
import pytest

import unpooled as up

rng = np.random.default_rng(3)
ROWS = pd.DataFrame(rng.integers(0, 4, (90, 3)).astype(float), columns=list("abc"))


def federation(**options):
    return up.simulate({f"s{i}": ROWS.iloc[i::3] for i in range(3)}, **options)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "categorical"),
    [
        (up.KBinsDiscretizer(3), []),
        (up.OneHotEncoder(min_frequency=5), list("abc")),
        (up.DerivedColumns({"difference": "a - b"}), []),
        (up.make_column_transformer((up.StandardScaler(), ["a", "b"])), []),
    ],
    ids=repr,
)
def test_names_are_given_for_every_column_or_refused(model, categorical):
    model.fit(federation(categorical=categorical))
    made = model.get_feature_names_out()
    assert len(model.get_feature_names_out(list("uvw"))) == len(made)
    with pytest.raises(ValueError, match="input_features has 2 names; give 3"):
        model.get_feature_names_out(list("uv"))
