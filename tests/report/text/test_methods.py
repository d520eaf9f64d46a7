"""The paragraph on methods: every estimator speaks for itself, with its works."""

import inspect
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import unpooled as up
from report_pages import facts
from unpooled.data import heart_disease
from unpooled.models.files.catalogue import estimators
from unpooled.report.facts import Facts
from unpooled.report.text.methods import methods
from unpooled.results.citations import citation_of

# They cite the models within, or have no work of their own.
MADE_UP = {"ColumnTransformer": {}, "DerivedColumns": {"columns": {"ab": "a * b"}}}


@pytest.mark.parametrize("kind", estimators().values(), ids=estimators())
def test_every_estimator_cites_its_works(kind):
    model = kind(**MADE_UP.get(kind.__name__, {}))

    one = citation_of(model)

    assert one.sentence[0].isupper()
    assert one.sentence.endswith(".")
    assert bool(one.references) != (kind.__name__ in MADE_UP)
    assert all(work.endswith(".") and "  " not in work for work in one.references)
    # Declared in its own class or family, not listed elsewhere.
    assert "_citation" in vars(kind)
    assert inspect.signature(kind._citation).parameters.keys() == {"self"}


def test_choices_are_in_the_sentence():
    def said(model):
        return citation_of(model).sentence

    assert "the constant 7" in said(up.SimpleImputer("constant", fill_value=7))
    assert "Ledoit and Wolf" in said(up.LinearDiscriminantAnalysis(shrinkage="auto"))
    assert "shrunk by 0.2" in said(up.LinearDiscriminantAnalysis(shrinkage=0.2))
    assert "a ridge of 0.1" in said(up.CCA(regularisation=0.1))
    assert "20 random Fourier" in said(
        up.KernelPCA(approximation="fourier", n_landmarks=20)
    )
    noisy = citation_of(up.PCA(2, privacy=up.GaussianPrivacy(1.0, 1e-5, 2.0)))
    assert "random noise" in noisy.sentence
    assert not noisy.exact


def test_the_paragraph_numbers_its_works_and_names_versions(heart):
    found = methods(heart)

    assert "Data of 4 organisations (920 rows with 13 columns in all" in str(found)
    assert "in a simulation in one process" in found.paragraph
    for n, work in enumerate(found.references, 1):
        assert f"[{n}]" in found.paragraph
        assert f"\n{n}. {work}\n" in str(found)
    assert "Bonawitz" in found.references[-1]
    assert "equal those of pooled data" in found.paragraph
    assert f"unpooled {up.__version__}" in found.paragraph
    assert f"numpy {np.__version__}" in found.paragraph


@pytest.mark.slow
def test_what_a_column_transformer_did_is_said():
    """It said "Columns were selected", and nothing of imputation or encoding."""
    rng = np.random.default_rng(0)
    silos = {
        name: pd.DataFrame(rng.normal(size=(60, 8)), columns=list("abcdefgh")).assign(
            site=rng.choice(["x", "y"], 60)
        )
        for name in "uvw"
    }
    numbers = list("cdefgh")
    model = up.ColumnTransformer(
        [
            (up.SimpleImputer("median"), ["a", "b"]),
            (up.StandardScaler(), [*numbers, "i"]),
            (up.OneHotEncoder(), "categorical"),
        ]
    )
    silos = {name: rows.assign(i=rng.normal(size=60)) for name, rows in silos.items()}
    model.fit(up.simulate(silos, categorical=["site"]))

    one = citation_of(model)

    assert "Of a and b: missing values were replaced by the median" in one.sentence
    assert "Of 7 columns: columns were centred" in one.sentence
    assert "Of site: categories were encoded" in one.sentence
    assert len(one.references) == 3
    assert one.exact
    assert one.apart_from == "medians, interpolated between at least 10 values"


def test_what_is_inexact_within_a_column_transformer_is_not_called_exact(heart):
    noisy = up.StandardScaler(privacy=up.GaussianPrivacy(1.0, 1e-5, 500.0))
    federation = up.simulate(heart_disease.load(), label="num")
    model = up.ColumnTransformer([(noisy, ["age", "sex"])]).fit(federation)

    assert not citation_of(model).exact
    told = methods(replace(heart, models=[("columntransformer", model)])).paragraph
    assert "Estimates of ColumnTransformer may differ" in told


@pytest.mark.parametrize(
    "model",
    [
        up.Describe(),
        up.Quantiles(),
        up.RobustScaler(),
        up.QuantileTransformer(),
        up.KBinsDiscretizer(),
        up.SimpleImputer("median"),
    ],
    ids=lambda model: type(model).__name__,
)
def test_quantiles_between_several_values_are_not_called_equal(heart, model):
    def told(*models):
        return methods(replace(heart, models=[("x", one) for one in models])).paragraph

    equal = "Estimates equal those of pooled data, up to rounding error"
    assert f"{equal}, apart from" in told(model, up.PCA())
    assert "interpolated between at least 10 values." in told(model)
    assert f"{equal}." in told(model.set_params(min_rows=1))
    assert f"{equal}." in told(up.Describe(quartiles=False))
    both = told(up.PCA(1, rank=1), up.Describe())
    assert "of PCA may differ from those of an exact analysis of pooled data" in both
    assert "data, and so may medians and quartiles, interpolated between" in both


def test_what_is_approximate_or_in_clear_is_said():
    rough = methods(facts(model=up.PCA(1, rank=1), policy=up.Policy.open())).paragraph
    plain = methods(facts(secure_sum="plain"))

    assert "Estimates of PCA may differ" in rough
    assert "single organisations were disclosed" in rough
    assert "without encryption" in plain.paragraph
    assert not any("Bonawitz" in work for work in plain.references)


def test_no_model_and_another_library_s_model(heart):
    class Other:
        """Not ours."""

    empty = Facts(
        "t", "s", ("a", "b"), "rows", "masked", up.Ledger([]), [], [("o", Other())], ()
    )

    assert "The model Other" in methods(empty).paragraph
    assert "No numbers left an organisation." in methods(empty).paragraph
