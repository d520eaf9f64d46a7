"""One person by the difference of two selections of rows, in one job or in several.

Every selection is a union of the blocks that a silo cuts its rows into once, and so is
what two of them differ in: `min_rows` rows of the silo, and of a class
`min_rows_per_class` or all of it.
"""

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

import unpooled as up
from logged_silos import IDENTITIES
from unpooled.data import heart_disease
from unpooled.data.sources.open_source import open_source
from unpooled.errors import DataError, ReleaseRefusedError
from unpooled.metrics import mean_squared_error
from unpooled.party.memory.audit_log import AuditLog
from unpooled.party.party import Party
from unpooled.party.rules import table_cuts
from unpooled.party.rules.policy import Policy
from unpooled.party.rules.table_cuts import TableCuts
from unpooled.protocol import block_levels
from unpooled.protocol.view_operations import Rows, Select
from unpooled.secure.keys.roster import Roster
from wire import COLUMNS, PATIENT, Rogue, Silos, rows, silos

# Columns without missing cells.
FEATURES = ["age", "sex", "cp"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_lda_on_all_rows_and_on_a_split_do_not_subtract_to_a_person(seed):
    """A class that the smaller part of a split has one row of gave the row."""
    federation = up.simulate(heart_disease.load(), label="num").select(FEATURES)
    train, _ = federation.train_test_split(test_size=0.1, random_state=seed)
    whole, part = (
        up.LinearDiscriminantAnalysis().fit(view, y="num")
        for view in (federation, train)
    )
    sizes = [m.priors_ * m.n_samples_ for m in (whole, part)]
    left_out = np.rint(sizes[0] - sizes[1])
    assert left_out.sum() >= 4 * 10
    assert not ((left_out > 0) & (left_out < 5)).any()


@pytest.mark.slow
def test_two_splits_in_two_jobs_do_not_subtract_to_a_row(tmp_path):
    """Each job is a process of its own, with the same audit logs."""
    roster = Roster({name: i.public for name, i in IDENTITIES.items()})
    tables = {name: rows(40, seed=i) for i, name in enumerate("abc")}

    def in_a_job(share: float) -> tuple[float, np.ndarray]:
        parties = {
            name: Party(
                name,
                open_source(X),
                Policy(**PATIENT),
                IDENTITIES[name],
                roster,
                audit_log=AuditLog(tmp_path / f"{name}.sqlite"),
            )
            for name, X in tables.items()
        }
        here = Silos(None, parties, None, roster)  # pyright: ignore
        rogue = Rogue(here, "abc", study=f"share-{round(1000 * share)}").enter()
        chain = (Select(COLUMNS), Rows(0, 0, share, False, -1))
        found = rogue.observed("scaler", chain)
        return float(found["count"][0]), found["total"]

    answers = [in_a_job(k / 40) for k in range(10, 31)]
    everybody = np.concatenate(list(tables.values()))
    for (n, first), (m, second) in itertools.pairwise(sorted(answers, key=str)):
        assert n == m or abs(n - m) >= 10
        nearest = np.abs(np.abs(first - second) - everybody).max(axis=1).min()
        assert nearest > 1e-6


P = 100
WIDE = tuple(f"x{j}" for j in range(P))


def wide(n: int = 1000) -> Silos:
    """Silos with ten rows for each column."""
    return silos({name: rows(n, P, seed=i) for i, name in enumerate("abc")})


def pairs(rogue: Rogue, *chain: Rows) -> set[str]:
    """Ask for the scatter of some rows; return the rules of refusals."""
    view = (Select(WIDE), *chain)
    squares = rogue.totals("pca.local_squares", {"mean": np.zeros(P)}, view)["squares"]
    return set(rogue.rules("pca.local_scatter", {"squares": squares}, view).values())


@pytest.mark.slow
def test_a_few_rows_that_a_split_leaves_out_are_not_solved_for():
    """The scatter of 30 rows of 100 columns has rank 30, and gave whole rows."""
    rogue = Rogue(wide(), columns=WIDE).enter()
    assert pairs(rogue) == {""}
    assert pairs(rogue, Rows(0, 0, 10 / 1000, True, 0)) == {"max_feature_ratio"}
    assert pairs(rogue, Rows(0, 0, 0.5, True, 0)) == {""}


@pytest.mark.slow
def test_the_rows_between_two_splits_are_not_solved_for():
    here = wide()
    assert pairs(Rogue(here, columns=WIDE).enter(), Rows(0, 0, 0.5, True, 0)) == {""}
    again = Rogue(here, study="another", columns=WIDE).enter()
    assert pairs(again, Rows(0, 0, 0.55, True, 0)) == {"max_feature_ratio"}
    assert pairs(again, Rows(0, 0, 0.5, False, 0)) == {""}


@pytest.mark.slow
def test_cross_validation_with_as_many_columns_is_answered():
    rogue = Rogue(wide(), columns=WIDE).enter()
    for k in range(4):
        assert pairs(rogue, Rows(k, 4, 0.0, True, 1)) == {""}


# Only the first has as many blocks as a study may name.
UNEVEN = {name: rows(n, seed=n) for name, n in (("a", 400), ("b", 61), ("c", 32))}


@pytest.mark.slow
def test_nobody_is_alone_in_the_blocks_of_high_numbers():
    """A silo with many rows was: the total of such a block was its own."""
    rogue = Rogue(silos(UNEVEN)).enter()
    answered = set[int]()
    for number in range(20):
        view = (Select(COLUMNS), Rows(number, 20, 0.0, False, -1))
        if set(rogue.rules("scaler.local_counts", None, view).values()) != {""}:
            continue
        answered.add(number)
        counts = rogue.totals("scaler.local_counts", None, view)["count"]
        # Blocks 0 to 2 are those of all three; the others' rows are part of them.
        assert (counts >= 6 * 20 + 2 * 10 + 10).all()
    assert answered == {0, 1, 2}


@pytest.mark.slow
def test_a_selection_that_three_silos_do_not_have_is_refused():
    here = up.simulate(UNEVEN, policy=PATIENT, follow=True, random_state=0)
    for train, test in here.folds(3):
        assert up.StandardScaler().fit(train).n_samples_seen_ < 493
        up.StandardScaler().fit(test)
    refused = []
    for _, test in here.folds(5):
        try:
            up.StandardScaler().fit(test)
        except ReleaseRefusedError as refusal:
            refused.append(refusal.rule)
    assert refused == ["shared_blocks"] * 2


def test_where_three_silos_share_one_block_nothing_is_selected():
    """A training part would be all rows, whatever its name says."""
    uneven = {"a": rows(15, seed=0), "b": rows(200, seed=1), "c": rows(200, seed=2)}
    here = up.simulate(uneven, random_state=0)
    for part in here.train_test_split():
        with pytest.raises(ReleaseRefusedError, match="shared_blocks"):
            up.StandardScaler().fit(part)


def test_blocks_stay_merged_where_other_silos_grow():
    """Merged and apart they would differ in blocks of one silo."""
    own = Party(
        "a",
        open_source(UNEVEN["a"]),
        Policy(),
        IDENTITIES["a"],
        Roster({"a": IDENTITIES["a"].public}),
    )
    cuts = own._studies.cuts
    for most, kept in ((5, 5), (20, 5), (3, 3)):
        cuts.take_common(own.table, most)
        assert len(cuts.of(own.table).sizes) == kept


def test_a_silo_selects_nothing_before_the_silos_counted_their_blocks():
    rogue = Rogue(silos(UNEVEN)).enter()
    rogue._has_blocks = True  # it does not ask
    view = (Select(COLUMNS), Rows(0, 2, 0.0, False, -1))
    rules = set(rogue.rules("scaler.local_counts", None, view).values())
    assert rules == {"out_of_order"}


@pytest.mark.thinned(1)
@pytest.mark.parametrize(
    "altered",
    [
        lambda words: words + np.uint64(2),
        lambda words: words.astype(float),
        lambda words: words.view("<i8"),
        lambda words: np.concatenate([words, words[:1]]),
        lambda words: words[:-1],
        lambda words: words[:0],
    ],
    ids=["more", "of reals", "of signed", "longer", "shorter", "none"],
)
def test_a_coordinator_cannot_say_that_more_silos_have_blocks(altered):
    rogue = Rogue(silos(UNEVEN)).enter()
    said, shared = rogue._say, []

    def raised(names, header, arrays):
        if header["kind"] == "share blocks":
            arrays = {name: altered(words) for name, words in arrays.items()}
            shared.append(said(names, header, arrays))
            return shared[0]
        return said(names, header, arrays)

    rogue._say = raised  # pyright: ignore
    view = (Select(COLUMNS), Rows(0, 2, 0.0, False, -1))
    rules = set(rogue.rules("scaler.local_counts", None, view).values())
    assert {reply.header["rule"] for reply in shared[0].values()} == {"wrong_total"}
    assert rules == {"out_of_order"}


@pytest.mark.slow
def test_products_of_a_selection_need_the_rows_of_its_blocks_counted():
    """A coordinator leaves the second count out, or raises what was counted."""
    for alter in (None, lambda words: words + np.uint64(2)):
        rogue = Rogue(wide(), columns=WIDE).enter()
        said, shared = rogue._say, []

        def counted(names, header, arrays, said=said, shared=shared, alter=alter):
            if header["kind"] == "share blocks" and "rows" in arrays:
                if alter is None:
                    return {}
                arrays = {"rows": alter(arrays["rows"])}
                shared.append(said(names, header, arrays))
                return shared[0]
            return said(names, header, arrays)

        rogue._say = counted  # pyright: ignore
        assert pairs(rogue, Rows(0, 2, 0.0, False, -1)) == {"out_of_order"}
        for replies in shared:
            assert {one.header["rule"] for one in replies.values()} == {"wrong_total"}


def flagged(values: Any = 1.0) -> dict[str, np.ndarray]:
    """Rows of which few, all of b, have a flag, or a dose, in the last column."""
    tables = {name: rows(240, seed=i) for i, name in enumerate("abc")}
    flags = {name: np.zeros((240, 1)) for name in tables}
    flags["b"][::16, 0] = values
    return {name: np.hstack([X, flags[name]]) for name, X in tables.items()}


def products(view: up.Federation) -> np.ndarray:
    """Return the raw products of the last column with all columns."""
    model = up.PCA().fit(view)
    N, mean = model.n_samples_, model.mean_
    S = (N - 1) * model.get_covariance() + N * np.outer(mean, mean)
    return S[-1]


def products_by_fold(tables: Any, **more: Any) -> list[np.ndarray]:
    """Return the last column's products with all, of what each fold leaves out."""
    federation = up.simulate(tables, **more)
    whole = products(federation)
    return [whole - products(train) for train, _ in federation.folds(20)]


def n_alone(found: list[np.ndarray], records: np.ndarray) -> int:
    """Return how many of the folds have one person with the flag, whose row it is."""
    p = records.shape[1]
    distance = [np.abs(records - one[:p]).max(axis=1).min() for one in found]
    return int((np.array(distance) < 1e-6).sum())


# Flags, or doses of which no two are equal.
VALUES = [1.0, np.linspace(1.0, 9.0, 15)]


def told(values: Any) -> np.ndarray:
    """Return what the products of one person's flag or dose would be."""
    few = flagged(values)["b"][::16]
    return few * few[:, -1:]


@pytest.mark.slow
@pytest.mark.parametrize("values", VALUES, ids=["flag", "dose"])
def test_a_fold_leaves_out_no_person_with_a_flag_alone(values):
    found = products_by_fold(flagged(values))
    assert n_alone(found, told(values)) == 0
    if values is VALUES[0]:
        # Others are two together, or more.
        assert min({round(one[-1]) for one in found} - {0}) >= 2


@pytest.mark.parametrize("values", VALUES, ids=["flag", "dose"])
def test_control_by_chance_folds_do(monkeypatch, values):
    monkeypatch.setattr(table_cuts, "none_alone", lambda blocks, *_: blocks)
    assert n_alone(products_by_fold(flagged(values)), told(values)) >= 1


def test_a_fold_leaves_out_no_category_of_one_person():
    """Nine names, so that a number would be a measurement."""
    names = np.full(240, "none", dtype=object)
    names[::16] = [f"drug {j % 5}" for j in range(15)]
    others = [f"other {j % 3}" for j in range(240)]
    table = pd.DataFrame({"drug": names, "site": others})
    source = open_source(table, categorical=["drug", "site"])
    cuts = TableCuts(b"key", AuditLog(), Policy())
    blocks = cuts.of(source).block_of
    for name in {*names} - {"none"}:
        assert np.bincount(blocks[names == name]).max() >= 2
        assert 1 not in np.bincount(blocks[names == name])


# --- columns that a study makes: the cut knows nothing of them ------------------------


def two_flags(share: float = 0.2) -> dict[str, pd.DataFrame]:
    """Rows with two flags, and a measurement with few values above 70."""
    rng = np.random.default_rng(5)
    names = ["x", "z", "w", "f", "g", "m"]
    return {
        name: pd.DataFrame(
            np.hstack(
                [
                    rows(240, seed=i),
                    rng.random((240, 2)) < share,
                    rng.normal(50.0, 10.0, (240, 1)),
                ]
            ),
            columns=names,
        )
        for i, name in enumerate("abc")
    }


def made(federation: up.Federation, of: str) -> Any:
    """Return what makes the last column of a view: a product, or the highest bin."""
    if of == "product":
        return up.DerivedColumns({"fg": "f * g"}).fit(federation).transform
    bins = up.KBinsDiscretizer(6, strategy="uniform", ranges={"m": (20.0, 80.0)})
    columns = up.ColumnTransformer([(bins, ["m"])], remainder="passthrough")
    return columns.fit(federation).transform


@pytest.mark.slow
@pytest.mark.parametrize("of", ["product", "bin"])
@pytest.mark.parametrize("limit", [0.95, 1.0])
def test_nobody_is_alone_in_a_made_column_of_a_part(of, limit):
    """With a limit of 1, the control, folds leave out persons who are."""
    tables = two_flags()
    policy = up.Policy(max_leverage=limit)
    federation = up.simulate(tables, policy=policy, follow=limit < 1.0)
    every = pd.concat(tables.values())
    few = every.f * every.g == 1.0 if of == "product" else every.m >= 70.0
    make = made(federation, of)
    names = make(federation).feature_names
    kept = ["x", "z", "w", names[-1]]

    def found() -> list[np.ndarray]:
        whole = products(make(federation)[kept])
        trains = [train for train, _ in federation.folds(20)]
        return [whole - products(make(train)[kept]) for train in trains]

    if limit < 1.0:
        with pytest.raises(ReleaseRefusedError, match="rows_of_parts"):
            found()
    else:
        assert n_alone(found(), every[few][["x", "z", "w"]].to_numpy()) >= 1


def products_by_class(
    view: up.Federation, back: Any = 1.0, origin: Any = 0.0
) -> list[np.ndarray]:
    """Return the raw products of the last column, in each of two classes.

    Of two fits with other priors, as the covariance within classes is weighted. Of
    rotated columns these were ``origin + back @ rotated``.
    """
    priors = np.array([[0.3, 0.7], [0.7, 0.3]])
    fits = [
        up.LinearDiscriminantAnalysis(priors=list(some)).fit(view) for some in priors
    ]
    C = np.stack([fit.covariance_ for fit in fits])
    n, means = fits[0].class_count_, fits[0].means_
    if np.ndim(back):
        C, means = back @ C @ back.T, origin + means @ back.T
    S = np.einsum("ij,jkl->ikl", np.linalg.inv(priors), C)
    return [n[c] * (S[c][-1] + means[c][-1] * means[c]) for c in range(len(priors))]


@pytest.mark.slow
@pytest.mark.parametrize("turned", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize("limit", [0.95, pytest.param(1.0, marks=pytest.mark.slow)])
def test_nobody_is_alone_with_a_flag_in_a_class_of_a_part(limit, turned):
    """The cut keeps a flag's people together, and not those of a class.

    Also behind a rotation of the columns, in none of which one person stands out.
    """
    rng = np.random.default_rng(0)
    tables = {
        name: pd.DataFrame(X[:, [0, 1, 3]], columns=["x", "z", "f"])
        for name, X in flagged().items()
    }
    tables = {
        name: frame.assign(y=rng.integers(0, 2, 240)) for name, frame in tables.items()
    }
    policy = up.Policy(max_leverage=limit, max_released_share=1.0)
    federation = up.simulate(tables, label="y", policy=policy, follow=limit < 1.0)
    scaler = up.StandardScaler().fit(federation)
    pca = up.PCA().fit(scaler.transform(federation))
    back = np.linalg.inv(pca.components_ / np.asarray(scaler.scale_))

    def of(view: up.Federation) -> list[np.ndarray]:
        if not turned:
            return products_by_class(view)
        view = pca.transform(scaler.transform(view))
        return products_by_class(view, back, np.asarray(scaler.mean_))

    def found() -> list[np.ndarray]:
        whole = of(federation)
        return [
            every - some
            for train, _ in federation.folds(20)
            for every, some in zip(whole, of(train), strict=True)
        ]

    if limit < 1.0:
        with pytest.raises(ReleaseRefusedError, match="rows_of_parts"):
            found()
    else:
        few = tables["b"][tables["b"].f == 1.0][["x", "z"]].to_numpy()
        assert n_alone(found(), few) >= 1


@pytest.mark.slow
def test_single_classes_of_measurements_are_cross_validated():
    """Also where the last block has nobody of the last class."""
    tables = heart_disease.load()
    federation = up.simulate(tables, label="num").select(["age"])
    for train, _ in federation.folds(5):
        up.LinearDiscriminantAnalysis(priors=[0.6, 0.1, 0.1, 0.1, 0.1]).fit(train)


@pytest.mark.slow
def test_classes_together_are_cross_validated_beside_a_flag():
    tables = {
        name: pd.DataFrame(X, columns=["x", "z", "w", "f"]).assign(y=np.arange(240) % 2)
        for name, X in flagged().items()
    }
    federation = up.simulate(tables, label="y", follow=True)
    for train, _ in federation.folds(5):
        up.LinearDiscriminantAnalysis().fit(train)


@pytest.mark.slow
def test_a_made_column_of_many_people_is_cross_validated():
    """Parts have about 30 people of every silo in the column."""
    federation = up.simulate(two_flags(0.6), follow=True)
    make = made(federation, "product")
    for train, _ in federation.folds(3):
        up.PCA(2).fit(make(train))


def rotated(allv: up.Federation) -> Any:
    """Return what finds a column's raw products from the scores of all components."""
    scaler = up.StandardScaler().fit(allv)
    pca = up.PCA().fit(scaler.transform(allv))
    back = np.linalg.inv(pca.components_ / np.asarray(scaler.scale_))

    def found(view: up.Federation) -> np.ndarray:
        model = up.PCA().fit(pca.transform(scaler.transform(view)))
        N = model.n_samples_
        mean = np.asarray(scaler.mean_) + back @ model.mean_
        S = (N - 1) * back @ model.get_covariance() @ back.T
        return (S + N * np.outer(mean, mean))[-1]

    return found


def scored(allv: up.Federation) -> Any:
    """Return what finds Σ d x from residuals of x predicted by z and by column d."""
    *_, d = allv.feature_names
    fits = [up.Ridge(a).fit(allv[["z", d, "x"]], "x") for a in (0.01, 10.0, 100.0, 1e3)]

    def found(view: up.Federation) -> np.ndarray:
        scaler = up.StandardScaler().fit(view[["z", d, "x"]])
        n, mean = scaler.n_samples_seen_, np.asarray(scaler.mean_)
        sums, (zz, _, xx) = n * mean, n * (np.asarray(scaler.var_) + mean**2)
        rows, right = [], []
        for fit in fits:
            mse = mean_squared_error("x", fit.predict(view[["z", d, "x"]]))
            (b, c), a = np.ravel(fit.coef_), np.ravel(fit.intercept_)[0]
            known = xx + n * a * a + b * b * zz + c * c * sums[1]
            known += 2 * a * (b * sums[0] + c * sums[1] - sums[2])
            rows.append([-2 * b, -2 * c, 2 * b * c])
            right.append(n * mse - known)
        _, dx, dz = np.linalg.lstsq(np.array(rows), np.array(right))[0]
        return np.array([dx, dz, sums[1]])

    return found


@pytest.mark.slow
@pytest.mark.parametrize("by", [rotated, scored])
@pytest.mark.parametrize("limit", [0.95, pytest.param(1.0, marks=pytest.mark.slow)])
def test_no_rotation_or_prediction_hides_a_made_column_of_a_part(by, limit):
    """With a limit of 1, the control, folds leave out persons who are alone in it."""
    tables = two_flags()
    policy = up.Policy(max_leverage=limit)
    federation = up.simulate(tables, policy=policy, follow=limit < 1.0)
    every = pd.concat(tables.values())
    make = made(federation, "bin")
    kept = ["x", "z", make(federation).feature_names[-1]]
    of_part = by(make(federation)[kept])

    def found() -> list[np.ndarray]:
        whole = of_part(make(federation)[kept]) if by is rotated else 0.0
        parts = [pair[by is scored] for pair in federation.folds(20)]
        return [np.abs(whole - of_part(make(part)[kept])) for part in parts]

    if limit < 1.0:
        with pytest.raises(ReleaseRefusedError, match="rows_of_parts"):
            found()
    else:
        alone = [one for one in found() if round(one[-1]) == 1]
        records = every[every.m >= 70.0][["x", "z"]].abs().to_numpy()
        assert n_alone([one[:2] for one in alone], records) == len(alone) > 0


def flag_and_dose() -> dict[str, pd.DataFrame]:
    """Rows of which b alone has a flag f, which the cut leaves two by two."""
    return {
        name: pd.DataFrame(X[:, [0, 1, 3]], columns=["x", "z", "f"])
        for name, X in flagged().items()
    }


def moments_of_product(federation: up.Federation) -> Any:
    """Return what finds sum and sum of squares of f x, and how many have f."""
    derived = up.DerivedColumns({"fx": "f * x"}).fit(federation)

    def found(view: up.Federation) -> np.ndarray:
        fitted = [up.StandardScaler().fit(derived.transform(view)[[n]]) for n in kept]
        n, (f, fx) = fitted[0].n_samples_seen_, fitted
        square = fx.var_[0] + fx.mean_[0] ** 2
        return n * np.array([fx.mean_[0], square, f.mean_[0]])

    kept = ["f", "fx"]
    return found


def products_with_flag(federation: up.Federation) -> Any:
    """Return what finds sums over the people with f of x, x² and how many have f."""
    derived = up.DerivedColumns({"xx": "x * x", "xz": "x * z"}).fit(federation)
    kept = ["x", "xx", "xz", "f"]
    return lambda view: products(derived.transform(view)[kept])[[0, 1, 3]]


@pytest.mark.slow
@pytest.mark.parametrize("by", [moments_of_product, products_with_flag])
@pytest.mark.parametrize("limit", [0.95, pytest.param(1.0, marks=pytest.mark.slow)])
def test_derived_columns_are_no_equations_for_two_people_of_a_part(by, limit):
    """With a limit of 1, the control, sum and sum of squares are both cells."""
    tables = flag_and_dose()
    policy = up.Policy(max_leverage=limit)
    federation = up.simulate(tables, policy=policy, follow=limit < 1.0)
    of_part = by(federation)

    def found() -> list[np.ndarray]:
        whole = of_part(federation)
        return [whole - of_part(train) for train, _ in federation.folds(20)]

    if limit < 1.0:
        with pytest.raises(ReleaseRefusedError, match="rows_of_parts"):
            found()
    else:
        two = [one for one in found() if round(one[-1]) == 2]
        own = tables["b"][tables["b"].f == 1.0].x.to_numpy()
        for total, squares, _ in two:
            apart = np.sqrt(max(2 * squares - total**2, 0.0))
            for cell in ((total - apart) / 2, (total + apart) / 2):
                assert np.abs(own - cell).min() < 1e-6
        assert two


@pytest.mark.slow
def test_derived_columns_that_many_people_differ_in_are_scored_by_fold():
    federation = up.simulate(two_flags(0.6), follow=True)
    make = made(federation, "product")
    for train, test in federation.folds(3):
        model = up.LinearRegression().fit(make(train), "x")
        assert -1.0 < model.score(make(test), "x") < 1.0


@pytest.mark.parametrize(
    ("model", "y"),
    [
        (up.Heterogeneity(), None),
        (up.LinearRegression(site_effects=True), "y"),
        (up.GLM(site_effects=True), "y"),
    ],
)
def test_what_is_about_silos_own_means_is_of_all_rows(model, y):
    """Of many unions of blocks it would be as many equations for the means."""
    rng = np.random.default_rng(0)
    tables = {
        name: pd.DataFrame(rng.normal(size=(40, 3)), columns=list("xzy"))
        for name in "abc"
    }
    train, _ = up.simulate(tables).train_test_split(random_state=0)
    with pytest.raises(DataError, match=r"silos' (means|own intercepts)"):
        model.fit(train, y)


# --- many totals over few blocks ------------------------------------------------------


def ages() -> dict[str, pd.DataFrame]:
    rng, made = np.random.default_rng(0), {}
    for name in "abc":
        age = rng.integers(20, 90, 200).astype(float)
        pressure = (110.0 + 0.3 * age + rng.normal(0, 15, 200)).round()
        ill = (rng.random(200) < expit((age - 55) / 8)).astype(float)
        made[name] = pd.DataFrame({"age": age, "pressure": pressure, "ill": ill})
    return made


def regressed(view: up.Federation) -> int:
    """Return how many regressions of a view's columns on one another are answered."""
    columns = ("age", "pressure", "ill")
    families = {"age": "gamma", "pressure": "poisson", "ill": "binomial"}
    for number, response in enumerate(columns):
        try:
            up.GLM(families[response]).fit(view.select(columns), response)
        except ReleaseRefusedError as refused:
            return number if refused.rule == "max_released_share" else -1
    return len(columns)


@pytest.mark.slow
@pytest.mark.parametrize("follow", [False, True])
def test_a_block_has_no_more_products_than_a_share_of_its_own_cells(follow):
    here = up.simulate(ages(), follow=follow)
    train, test = here.train_test_split(test_size=0.05, random_state=0)
    # Of 30 rows of three columns; a fit takes 50 numbers or so.
    assert regressed(test) == 0
    # Neither the other rows nor all of them are concerned.
    assert regressed(train) == regressed(here) == 3


# --- how many rows a silo has, by the folds that it has no rows in --------------------

UNEQUAL = {"a": 137, "b": 260, "c": 410, "d": 500}


def rows_of_folds(here: up.Federation, n: int) -> np.ndarray:
    """Return the rows of each fold over all silos, as every scaler opens them."""
    fitted = [up.StandardScaler().fit(test) for _, test in here.folds(n)]
    return np.array([np.max(scaler.n_samples_seen_) for scaler in fitted])


def unequal(**options: Any) -> up.Federation:
    tables = {name: rows(n, seed=n) for name, n in UNEQUAL.items()}
    return up.simulate(tables, **options)


@pytest.mark.slow
@pytest.mark.parametrize("follow", [False, True])
def test_no_fold_lacks_the_rows_of_one_silo(follow):
    here = unequal(follow=follow)
    # Blocks of a silo differ by a row at the most.
    assert np.ptp(rows_of_folds(here, 10)) <= len(UNEQUAL)
    with pytest.raises(ReleaseRefusedError, match="shared_blocks"):
        rows_of_folds(here, 20)


def test_control_where_a_silo_lacks_blocks_the_others_tell_its_rows(monkeypatch):
    monkeypatch.setattr(block_levels, "_HAD_BY_ALL", 99)
    N = np.sort(rows_of_folds(unequal(), 20))
    lacks = int(np.argmax(np.diff(N))) + 1
    own = N[lacks:].sum() - (20 - lacks) * N[:lacks].mean()
    assert 20 - lacks == UNEQUAL["a"] // 10
    assert abs(own - UNEQUAL["a"]) < 20


@pytest.mark.slow
def test_silos_of_few_rows_do_not_keep_others_from_five_folds():
    """What is left: that somebody has fewer than 50 rows shows, and about how many."""
    tables = {name: rows(n, seed=n) for name, n in {**UNEQUAL, "e": 33}.items()}
    N = rows_of_folds(up.simulate(tables, follow=True), 5)
    assert len(N) == 5
