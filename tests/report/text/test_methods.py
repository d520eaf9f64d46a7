"""The paragraph on methods: every estimator speaks for itself, with its works."""

import inspect

import numpy as np
import pytest

import unpooled as up
from report_pages import facts
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
