"""Mixed columns of real data: heart disease with its missing cells, and colleges.

What an analyst does first, each on the pooled rows by the library that others use.
"""

import numpy as np
import pandas as pd
import pytest
import scipy.stats
import sklearn.preprocessing
from numpy.testing import assert_allclose

import unpooled as up
from unpooled.data import heart_disease

NAMES = {
    "sex": {0: "f", 1: "m"},
    "cp": {1: "typical", 2: "atypical", 3: "non-anginal", 4: "asymptomatic"},
    "restecg": {0: "normal", 1: "ST-T", 2: "hypertrophy"},
    "exang": {0: "no", 1: "yes"},
    "thal": {3: "normal", 6: "fixed", 7: "reversible"},
}
NUMBERS = ["age", "trestbps", "chol", "thalach", "oldpeak"]
P = (0.05, 0.25, 0.5, 0.9)


def hearts():
    """Return the hospitals' patients; where all cells of a column are missing too."""
    silos = {}
    for name, table in heart_disease.load().items():
        frame = table.to_pandas()
        texts = {column: frame[column].map(names) for column, names in NAMES.items()}
        frame = frame[NUMBERS].astype(float).assign(**texts)
        silos[name] = frame.assign(ill=np.where(table["num"], "ill", "well"))
    return silos, "ill"


def colleges(folder):
    """Return American colleges by size, whose kinds and regions of fees are texts."""
    with np.load(folder / "college.npz") as stored:
        frame = pd.DataFrame(stored["X"], columns=stored["feature_names"].tolist())
        kind = stored["class_names"][stored["y"]]
    fees = pd.cut(frame["Outstate"], [0, 7000, 10000, 13000, 1e6], labels=list("abcd"))
    staff = np.where(frame["PhD"] > 75, "many", "few")
    # The third silo has no college with the lowest fees.
    frame = frame.assign(fees=fees.astype(str), staff=staff, private=kind)
    frame = frame.drop(columns=["Outstate", "PhD"])
    order = np.argsort(frame["fees"] == "a", kind="stable")
    parts = np.array_split(order[::-1], 3)
    return {f"s{i}": frame.iloc[own] for i, own in enumerate(parts)}, "private"


@pytest.fixture(params=["hearts", "colleges"])
def mixed(request, secure_sum):
    """Return a federation, its pooled rows, and the names of both kinds of columns."""
    if request.param == "hearts":
        silos, label = hearts()
    else:
        silos, label = colleges(request.getfixturevalue("shared_data"))
    pool = pd.concat(silos.values(), ignore_index=True)
    y = pool.pop(label)
    numbers = list(pool.select_dtypes("number"))
    texts = [name for name in pool if name not in numbers]
    federation = up.simulate(
        silos,
        label=label,
        categorical=texts,
        policy=up.Policy.open(),
        secure_sum=secure_sum,
    )
    return federation, pool, y, numbers, texts


def with_missing(texts):
    """Return categories of which a missing cell is one."""
    return texts.where(texts.notna(), "nan")


@pytest.mark.slow
def test_quantiles_and_scalers(mixed):
    federation, pool, _, numbers, _ = mixed
    view, X = federation.select(numbers), pool[numbers].to_numpy()
    found = up.quantiles(view, P, min_rows=1)
    assert_allclose(found.to_numpy(), np.nanquantile(X, P, axis=0), rtol=1e-12)
    robust = up.RobustScaler(min_rows=1).fit(view)
    twin = sklearn.preprocessing.RobustScaler().fit(X)
    assert_allclose(robust.transform(X), twin.transform(X), rtol=1e-9, atol=1e-12)
    ranks = up.QuantileTransformer(n_quantiles=5, min_rows=1).fit(view)
    options = {"n_quantiles": 5, "subsample": None}
    twin = sklearn.preprocessing.QuantileTransformer(**options).fit(X)
    assert_allclose(ranks.transform(X), twin.transform(X), atol=1e-9)


@pytest.mark.slow
def test_encoders(mixed):
    federation, pool, _, _, texts = mixed
    # Two cells of restecg are missing: too few for a column, unlike in scikit-learn.
    texts = [name for name in texts if name != "restecg"]
    view, rows = federation.select(texts), pool[texts]
    for drop in (None, "first", "if_binary"):
        ours = up.OneHotEncoder(drop=drop).fit(view)
        twin = sklearn.preprocessing.OneHotEncoder(
            drop=drop, min_frequency=5, sparse_output=False
        ).fit(rows)
        assert_allclose(ours.transform(rows), twin.transform(rows), atol=0)
    ours = up.OrdinalEncoder().fit(view)
    twin = sklearn.preprocessing.OrdinalEncoder(min_frequency=5).fit(rows)
    assert_allclose(ours.transform(rows), twin.transform(rows), atol=0)


@pytest.mark.slow
def test_components(mixed, prince):
    federation, pool, _, numbers, texts = mixed
    rows = with_missing(pool[texts])
    ours = up.MCA(3, min_frequency=1).fit(federation.select(texts))
    twin = prince.MCA(n_components=3, engine="scipy").fit(rows)
    assert_allclose(ours.eigenvalues_, twin.eigenvalues_, atol=1e-9)

    whole = up.SimpleImputer(), numbers
    made = up.make_column_transformer(whole, remainder="passthrough")
    ours = up.FAMD(3, min_frequency=1).fit(made.fit_transform(federation))
    filled = pool[numbers].fillna(pool[numbers].mean()).join(rows)
    twin = prince.FAMD(n_components=3, engine="scipy").fit(filled)
    assert_allclose(ours.eigenvalues_, twin.eigenvalues_, rtol=1e-9)


@pytest.mark.slow
def test_a_table_by_class(mixed):
    federation, pool, y, numbers, texts = mixed
    rows_of = [pool[y == name] for name in sorted(set(y))]
    table = up.describe(federation, federation.label, min_rows_per_class=1)
    assert table.groups_[:-1] == sorted(set(y))
    for name in numbers:
        j = table.columns_.index(name)
        wanted = [own[name].mean() for own in rows_of]
        assert_allclose(table.mean_[:-1, j], wanted, rtol=1e-10)
        both = [own[name] for own in rows_of]
        test = scipy.stats.ttest_ind(*both, equal_var=False, nan_policy="omit")
        assert_allclose(table.p_value_[j], test.pvalue, rtol=1e-7)
    for name in texts:
        counts = pd.crosstab(y, pool[name])
        test = scipy.stats.chi2_contingency(counts, correction=False)
        p = table.p_value_[table.columns_.index(name)]
        assert_allclose(p, test.pvalue, rtol=1e-9)
