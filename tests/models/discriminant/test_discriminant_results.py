"""Results of discriminants equal scikit-learn and NumPy on the pooled rows."""

import numpy as np
import pandas as pd
import pytest
import scipy.stats
import sklearn.discriminant_analysis
from numpy.testing import assert_allclose

from unpooled import LinearDiscriminantAnalysis, Policy, load, save, simulate
from unpooled.results.plots.svg import svg

# Totals are right to twelve digits, and conditions are below 1e2.
RTOL = 1e-9
OPTIONS = {
    "plain": {},
    "shrunk": {"shrinkage": 0.3},
    "Ledoit-Wolf": {"shrinkage": "auto"},
    "priors": {"priors": [0.2, 0.3, 0.5]},
}


def rows(p=5, N=120, c=3):
    rng = np.random.default_rng(1)
    y = np.arange(N) % c
    X = rng.standard_normal((N, p)) + 1.5 * rng.standard_normal((c, p))[y]
    return X * np.linspace(0.1, 3.0, p) + 2.0, y


def fitted(X, y, kinds=("no", "yes", "maybe"), **options):
    frame = pd.DataFrame(X, columns=[f"v{j}" for j in range(X.shape[1])])
    frame["kind"] = np.array(kinds)[y]
    silos = {f"silo{i}": frame[i::3] for i in range(3)}
    federation = simulate(silos, label="kind", policy=Policy.open(), follow=True)
    return LinearDiscriminantAnalysis(**options).fit(federation, "kind")


def centred(Z, y):
    """Return rows about the means of their classes."""
    return Z - np.array([Z[y == k].mean(axis=0) for k in np.unique(y)])[y]


def correlations(X, Z):
    return np.corrcoef(X.T, Z.T)[: X.shape[1], X.shape[1] :]


def values(model, name, first=1):
    return model.summary().to_frame(name).iloc[:, first:].to_numpy(float)


@pytest.mark.thinned(3)
@pytest.mark.parametrize(("p", "options"), [
    *((5, options) for options in OPTIONS.values()),
    (80, {"shrinkage": 0.3}),
    (80, {"shrinkage": "auto"}),
])  # fmt: skip
def test_structure_and_spread_are_those_of_pooled_rows(p, options):
    """More columns than rows too, where no matrix of columns by columns is formed."""
    X, y = rows(p, 120 if p == 5 else 60)
    # Texts are sorted: the classes' order is maybe, no, yes.
    model, y = fitted(X, y, **options), np.array([1, 2, 0])[y]
    Z, names = model.transform(X), ["within_correlations", "total_correlations"]
    pooled = [correlations(centred(X, y), centred(Z, y)), correlations(X, Z)]

    for name, expected in zip(names, pooled, strict=True):
        assert_allclose(values(model, name), expected, rtol=RTOL, atol=1e-11)
    by_class = [np.cov(Z[y == k].T, bias=True) for k in range(3)]
    own = options.get("shrinkage") == "auto"
    common = centred(Z, y).T @ centred(Z, y) / len(Z)
    expected = [(C if own else common)[[0, 0, 1], [0, 1, 1]] for C in by_class]
    assert_allclose(values(model, "score_covariances"), expected, rtol=RTOL, atol=1e-11)


def test_scores_are_those_of_their_default_solver():
    X, y = rows()
    model, y = fitted(X, y), np.array([1, 2, 0])[y]
    theirs = sklearn.discriminant_analysis.LinearDiscriminantAnalysis().fit(X, y)
    new = np.random.default_rng(3).standard_normal((7, 5))
    # Their solver has no rule for signs.
    signs = np.sign(np.sum(theirs.scalings_ * model.scalings_, axis=0))

    scalings = values(model, "scalings")
    ours = scalings[0] + new @ scalings[1:]
    assert_allclose(ours, theirs.transform(new) * signs, rtol=RTOL, atol=1e-11)
    frame = model.summary().to_frame("classes")
    assert frame["class"].tolist() == ["maybe", "no", "yes"]
    assert frame["rows"].tolist() == [40, 40, 40]
    assert_allclose(frame["prior"], theirs.priors_, rtol=RTOL)
    means = theirs.transform(theirs.means_) * signs
    assert_allclose(frame.iloc[:, 3:], means, rtol=RTOL, atol=1e-11)
    found = values(model, "class_means")
    assert_allclose(found[:, 0], theirs.xbar_, rtol=RTOL)
    expected = (theirs.means_ - theirs.xbar_).T
    assert_allclose(found[:, 1:], expected, rtol=RTOL, atol=1e-11)
    ratios = model.summary().to_frame("proportion_of_trace")["share"]
    assert_allclose(ratios, theirs.explained_variance_ratio_, rtol=RTOL)
    coef = values(model, "coefficients")
    decisions = theirs.decision_function(new)
    assert_allclose(coef[0] + new @ coef[1:], decisions, rtol=RTOL, atol=1e-10)


@pytest.mark.slow
def test_given_priors_weigh_the_centre_as_theirs_do():
    X, y = rows()
    model, y = fitted(X, y, priors=[0.2, 0.3, 0.5]), np.array([1, 2, 0])[y]
    theirs = sklearn.discriminant_analysis.LinearDiscriminantAnalysis(
        priors=[0.2, 0.3, 0.5]
    ).fit(X, y)

    assert_allclose(values(model, "class_means")[:, 0], theirs.xbar_, rtol=RTOL)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"priors": [0.3, 0.7]}, {"shrinkage": 0.4}])
def test_two_classes_have_densities_and_the_threshold_of_predictions(options):
    X, y = rows(c=2)
    X, y = X[30:], y[30:]
    model = fitted(X, y, **options)
    d = model.decision_function(X)
    unit = np.sqrt(model.coef_[0] @ (model.means_[1] - model.means_[0]))
    table = model.summary().to_frame("threshold").set_index("quantity")["score"]

    score = (d - model.decision_function(model.priors_[None] @ model.means_)) / unit
    score *= np.sign(table["Mean of yes"] - table["Mean of no"])
    for name, code in (("no", 0), ("yes", 1)):
        mean = table[f"Mean of {name}"]
        assert mean == pytest.approx(score[y == code].mean(), rel=RTOL, abs=1e-11)
    spread = np.sqrt(np.mean(centred(score[:, None], y) ** 2))
    assert table["Standard deviation within classes"] == pytest.approx(spread, rel=RTOL)
    above = model.predict(X) == ("yes" if table["Mean of yes"] > 0 else "no")
    np.testing.assert_array_equal(above, score > table["Threshold"])
    means = np.array([table["Mean of no"], table["Mean of yes"]])
    if not options:
        assert_allclose(means, values(model, "classes", 3)[:, 0], rtol=1e-8)
    if not options.get("shrinkage"):
        # Curves of the model's own standard deviation, weighted by the priors, cross
        # at the threshold.
        heights = model.priors_ * scipy.stats.norm.pdf(table["Threshold"] - means)
        assert heights[0] == pytest.approx(heights[1], rel=1e-8)
    exhibit = model.summary().exhibits[0]
    picture = str(svg(exhibit.picture, "picture"))
    assert all(f">{text}<" in picture for text in ("no", "yes"))
    assert "threshold" in picture
    assert "People are not drawn" in exhibit.text


def test_a_threshold_of_equal_classes_is_0_and_not_a_rounding_error():
    X, y = rows(p=3, N=120, c=2)
    model = fitted(X - X.mean(axis=0), y, ("healthy people", "patients"))

    table = model.summary().to_frame("threshold").set_index("quantity")["score"]
    assert table["Threshold"] == 0
    shown = {exhibit.heading: exhibit for exhibit in model.summary().exhibits}
    classes, decisions = shown["Classes"], shown["Decision functions"]
    assert "score above 0 is" in classes.text
    assert ">threshold 0.00<" in str(svg(classes.picture, "classes"))
    # The title of a single panel has room for both names.
    drawn = str(svg(decisions.picture, "decisions"))
    assert ">patients / healthy people<" in drawn


@pytest.mark.slow
def test_people_are_drawn_where_their_scores_are():
    X, y = rows()
    model = fitted(X, y, scores="coordinator")
    draw = model.summary().exhibits[0].picture.draw
    people = draw.args[3]

    assert sum(map(len, people.values())) == len(X)
    frame = model.summary().to_frame("classes")
    for name, mean in zip(frame["class"], frame.iloc[:, 3:].to_numpy(), strict=True):
        assert_allclose(people[name].mean(axis=0), mean, rtol=1e-8, atol=1e-11)


def test_ellipses_hold_two_thirds_of_normal_rows():
    from unpooled.results.plots.class_plots import ellipse

    C = np.array([[2.0, 0.7], [0.7, 0.5]])
    outline = ellipse(np.array([1.0, -1.0]), C) - [1.0, -1.0]

    squares = np.einsum("ni,ij,nj->n", outline, np.linalg.inv(C), outline)
    assert_allclose(scipy.stats.chi2.cdf(squares, 2), 0.68, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("shrinkage", [0.9, "auto", None])
def test_shares_that_do_not_add_up_are_explained(shrinkage):
    X, y = rows()
    model = fitted(X, y, shrinkage=shrinkage, n_components=2)
    shares = model.explained_variance_ratio_
    if shrinkage != "auto":
        theirs = sklearn.discriminant_analysis.LinearDiscriminantAnalysis(
            solver="eigen", shrinkage=shrinkage
        ).fit(X, y)
        assert_allclose(shares, theirs.explained_variance_ratio_[:2], rtol=RTOL)
    whole = abs(shares.sum() - 1.0) < RTOL
    assert whole == (shrinkage is None)
    assert ("do not add up to 100 %" in str(model.summary())) != whole
    first = fitted(X, y, shrinkage=shrinkage, n_components=1)
    assert "do not add up" not in str(first.summary())


def test_one_shot_results_are_directions_and_sizes():
    model = fitted(*rows(), n_components=2, solver="dgep-eigh")
    tables = model.summary().tables

    assert set(tables) == {"classes", "scalings"}
    assert tables["classes"].column("rows") == [40, 40, 40]
    assert_allclose(values(model, "scalings"), model.scalings_)


def test_models_of_files_have_the_same_results(tmp_path):
    model = fitted(*rows())
    save(model, tmp_path / "model.unpooled")

    assert str(load(tmp_path / "model.unpooled").summary()) == str(model.summary())


def test_models_of_older_versions_have_results_too():
    model = fitted(*rows(c=2))
    for name in (
        "class_count_ within_correlations_ total_correlations_ score_covariance_ "
        "decision_std_ eigenvalues_"
    ).split():
        delattr(model, name)

    headings = [exhibit.heading for exhibit in model.summary().exhibits]

    assert headings == [
        "Classes",
        "Discriminant directions",
        "Decision functions",
        "Class means, centred",
    ]
