"""Private PCA over a consortium: noise from every silo, and each one's own budget."""

import numpy as np
import pytest

from integration.comparing import lines
from integration.many import run_many
from integration.rows import SILOS, write_rows
from integration.terminal import unpooled
from unpooled.data.heart_disease import load
from unpooled.party.memory.audit_log import AuditLog
from unpooled.secure.noise import epsilon_of, rho_of
from unpooled.study import Study
from unpooled.study.job_messages import error_of

pytest.importorskip("opendp")
COLUMNS = ["age", "sex", "cp"]  # nobody lacks a cell of these
DELTA, BUDGET = 1e-5, 25.0
POLICY = f"""
min_rows = 10
require_privacy = true
privacy_budget = {BUDGET}
privacy_delta = {DELTA}
"""


def text(name, epsilon, sources=None):
    parties = "".join(
        f"[parties.{silo}]\n" + (f'source = "{sources[silo]}"\n' if sources else "")
        for silo in SILOS
    )
    rules = f"[policy]\n{POLICY}" if sources else ""
    return f"""
[study]
name = "{name}"
label = "num"
columns = {COLUMNS}
timeout = 60
{rules}{parties}
[[steps]]
model = "PCA"
n_components = 1
[steps.privacy]
epsilon = {epsilon}
delta = {DELTA}
row_norm = 40.0
centre = [50.0, 0.5, 3.0]
[outputs]
report = false
"""


def journal(consortium, silo):
    return AuditLog(consortium.kit(silo) / "state" / "private.sqlite")


@pytest.fixture(scope="module")
def runs(consortium, tmp_path_factory):
    """Two jobs with processes of their own: 20, 20 again; then 5, and a fit without."""
    with consortium.settled(POLICY, audit="private"):
        first = {"first": text("first", 20.0), "second": text("second", 20.0)}
        plain = text("plain", 1.0)
        head, _, rest = plain.partition("[steps.privacy]")
        plain = head + rest[rest.index("[outputs]") :]
        later = {"small": text("small", 5.0), "plain": plain}
        found = {}
        for studies in (first, later):
            folder = tmp_path_factory.mktemp("private")
            found |= run_many(consortium.coordinator, SILOS, studies, folder)
        yield found


def model_of(outcome, place):
    if outcome["error"] is not None:
        raise error_of(outcome["error"])
    ((_, model),) = place.models()
    return model


def test_a_private_study_keeps_its_promise_on_paper(runs, tmp_path):
    model = model_of(*runs["first"])

    assert model.privacy_["epsilon"] == 20.0
    assert model.privacy_["rho"] == pytest.approx(rho_of(20.0, DELTA))
    assert model.signal_to_noise_.shape == (1,)
    # Age varies by far the most of the three; noise is small beside 797 patients.
    rows = sum(len(load()[silo]) for silo in SILOS)
    assert abs(model.n_samples_ - rows) < 100
    assert np.abs(model.components_[0]).argmax() == 0
    sources = {silo: write_rows(silo, tmp_path) for silo in SILOS}
    told = text("first", 20.0, sources)
    alone = Study.from_text(tmp_path / "first.toml", told).run()
    ledger = runs["first"][1].ledger
    assert lines(ledger) == lines(alone.ledger)
    assert {line.step for line in ledger} == {"pca.local_private"}
    # Another noise each time.
    assert model.n_samples_ != alone.models["pca"].n_samples_ or (
        model.explained_variance_ != alone.models["pca"].explained_variance_
    )


def test_the_budget_outlives_studies_and_jobs(consortium, runs):
    assert epsilon_of(2 * rho_of(20.0, DELTA), DELTA) > BUDGET
    outcome, _ = runs["second"]
    assert outcome["error"]["rule"] == "privacy_budget"
    # Another job, in new processes: what is left is enough for a small study.
    small = model_of(*runs["small"])

    assert small.privacy_["epsilon"] == 5.0
    for silo in SILOS:
        spent = rho_of(20.0, DELTA) + rho_of(5.0, DELTA)
        assert journal(consortium, silo).spent() == pytest.approx(spent)


def test_what_has_no_noise_is_refused(consortium, runs):
    outcome, _ = runs["plain"]

    assert outcome["error"]["rule"] == "require_privacy"
    for silo in SILOS:
        rounds = [e.study for e in journal(consortium, silo).entries()
                  if e.kind == "round"]  # fmt: skip
        assert rounds == ["first", "small"]


def test_each_silos_log_tells_of_it(consortium, runs):
    for silo in SILOS:
        shown = unpooled("silo", "log", "--verify", "--kit", consortium.kit(silo))
        assert shown.returncode == 0, shown.stderr
        told = " ".join(shown.stdout.split())
        assert "refused pca.local_private: privacy_budget" in told
        assert "with noise" in told
