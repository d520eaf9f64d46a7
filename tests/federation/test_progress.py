"""The rounds of a call, shown where a person looks on."""

import io

import numpy as np
import pytest
from rich.console import Console
from sklearn.pipeline import make_pipeline

import unpooled as up
from command_line import write_study
from unpooled.coordinator.coordinator import Coordinator
from unpooled.errors import ReleaseRefusedError
from unpooled.federation import progress
from unpooled.federation.progress import CallProgress


class Clock:
    """Moves on by as many seconds at each look."""

    def __init__(self, seconds):
        self.now, self.seconds = 0.0, seconds

    def __call__(self):
        self.now += self.seconds
        return self.now


@pytest.fixture
def federation():
    X = np.random.default_rng(8).lognormal(size=(120, 3))
    return up.simulate({name: X[j::3] for j, name in enumerate("abc")}, follow=True)


def watched(federation, verbose, *, terminal, seconds=0.0):
    written = io.StringIO()
    console = Console(file=written, force_terminal=terminal, width=200)
    coordinator = federation.coordinator
    assert isinstance(coordinator, Coordinator)
    CallProgress(coordinator, verbose, console, Clock(seconds))
    return written


@pytest.mark.slow
def test_lines_where_nobody_looks_on(federation):
    written = watched(federation, True, terminal=False, seconds=6.0)

    make_pipeline(up.StandardScaler(), up.PCA(2)).fit(federation)

    lines = written.getvalue().splitlines()
    planned = up.plan(up.PCA(2), federation).rounds
    assert f"PCA.fit: at most {planned} rounds" in lines
    # 12 s and more pass between two rounds.
    assert any(line.startswith("PCA.fit: round 2 of at most") for line in lines)
    assert any(line.startswith(f"PCA.fit: done after {planned} rou") for line in lines)
    assert lines[0].startswith("StandardScaler.fit")


@pytest.mark.thinned(1)
@pytest.mark.parametrize(
    ("verbose", "terminal", "seconds", "shown"),
    [
        (None, True, 3.0, True),
        (None, True, 1e-9, False),
        (True, True, 1e-9, True),
        (None, False, 100.0, False),
        (False, True, 100.0, False),
    ],
)
def test_a_bar_is_for_those_who_look_on(federation, verbose, terminal, seconds, shown):
    written = watched(federation, verbose, terminal=terminal, seconds=seconds)

    up.PCA(2).fit(federation)

    assert ("PCA.fit" in written.getvalue()) is shown


@pytest.mark.thinned(1)
@pytest.mark.parametrize(("seconds", "shown"), [(6.0, True), (1e-9, False)])
def test_a_notebook_without_widgets_has_lines_of_long_calls(
    federation, monkeypatch, seconds, shown
):
    # A bar of rich would show a warning at each of its steps.
    monkeypatch.setattr(progress, "find_spec", lambda name: None)
    monkeypatch.setattr(progress, "_bar", None)
    said = []
    monkeypatch.setattr(CallProgress, "_line", lambda self, text: said.append(text))
    console = Console(file=io.StringIO(), force_jupyter=True)
    CallProgress(federation.coordinator, None, console, Clock(seconds))

    up.PCA(2).fit(federation)

    assert [text.partition(" after")[0] for text in said[-1:]] == ["done"] * shown
    assert any(text.startswith("round 2: pca.") for text in said) is shown


def test_a_fit_that_fails_ends_its_bar(federation):
    written = watched(federation, True, terminal=False, seconds=6.0)
    wide = np.random.default_rng(0).standard_normal((30, 20))
    other = up.simulate({name: wide + ord(name) for name in "abc"})
    failing = watched(other, True, terminal=False, seconds=6.0)

    with pytest.raises(ReleaseRefusedError):
        up.PCA(2).fit(other)
    up.StandardScaler().fit(federation)

    assert "stopped after" in failing.getvalue()
    assert "done after" in written.getvalue()


def test_a_comparison_in_secret_is_announced_with_its_price(federation, monkeypatch):
    written = watched(federation, None, terminal=True)
    model = up.PowerTransformer()
    # Only what is said before: the fit itself is tested elsewhere, and takes minutes.
    monkeypatch.setattr(up.PowerTransformer, "_fit", lambda self, federation, y: None)

    model.fit(federation)

    said = " ".join(written.getvalue().split())
    assert "PowerTransformer.fit: comparing 3 columns in secret takes" in said
    assert 'comparison="summed" takes a fifth of the rounds' in said
    assert "50 to 100 totals of each column" in said
    up.PowerTransformer(comparison="summed").fit(federation)
    assert written.getvalue().count("in secret takes") == 1


def test_a_bar_says_how_many_rounds_there_can_be(federation):
    written = watched(federation, True, terminal=True, seconds=3.0)

    up.PCA(2).fit(federation)

    assert "3 of at most 3 rounds" in written.getvalue()


@pytest.mark.slow
def test_the_rehearsal_leaves_no_trace(federation):
    watched(federation, True, terminal=False)
    before = len(federation.ledger)

    up.PCA(2).fit(federation)

    assert len(federation.ledger) == before + len(
        up.plan(up.PCA(2), federation).releases
    )
    np.testing.assert_array_equal(up.PCA(2).fit(federation).components_.shape, (2, 3))


@pytest.mark.slow
@pytest.mark.parametrize("verbose", [True, False])
def test_a_study_shows_the_rounds_of_its_steps(tmp_path, capsys, verbose):
    path = write_study(tmp_path)
    study = up.Study.from_file(path)

    run = study.run(verbose=verbose)

    shown = capsys.readouterr().err
    for model in run.models.values():
        name = type(model).__name__
        assert (f"{name}.fit: done after" in shown) == verbose
    up.PCA(1).fit(study.federation(verbose=verbose).select(["age", "chol"]))
    again = capsys.readouterr().err
    assert ("PCA.fit: at most 3 rounds" in again) == verbose
