"""A study of private steps: one account in its plan, its run and its report."""

import pytest

from command_line import call, write_study
from unpooled.ledger import Ledger
from unpooled.protocol.privacy_cost import spent
from unpooled.secure.noise import epsilon_of, rho_of

pytest.importorskip("opendp")

STEPS = """
[[steps]]
model = "StandardScaler"
privacy = { epsilon = 20.0, delta = 1e-5, row_norm = 4.0, scale = 2.0 }
[[steps]]
model = "PCA"
n_components = 1
privacy = { epsilon = 30.0, delta = 1e-5, row_norm = 4.0 }
"""
TOTAL = epsilon_of(rho_of(20.0, 1e-5) + rho_of(30.0, 1e-5), 1e-5)


def policy(budget):
    return f"require_privacy = true\nprivacy_budget = {budget}\nmin_rows = 5"


@pytest.mark.slow
@pytest.mark.parametrize("scaler", ["StandardScaler", "RobustScaler"])
def test_plan_run_and_report_have_one_account(tmp_path, scaler):
    steps = STEPS.replace("StandardScaler", scaler)
    study = write_study(tmp_path, policy=policy(60.0), steps=steps)
    sentence = f"together private with ε = {TOTAL:.4g} at δ = 1e-05"
    planned = call("plan", study)
    assert planned.exit_code == 0
    assert planned.stderr == ""
    assert sentence in " ".join(planned.stdout.split())
    # Whatever the noise is, the study ends with a result.
    run = call("run", study)
    assert run.exit_code == 0
    assert run.stderr == ""
    assert sentence in " ".join(run.stdout.split())
    folder = tmp_path / "runs" / "small"
    assert sentence in (folder / "report.html").read_text()
    found = spent(Ledger.from_json((folder / "ledger.jsonl").read_text()))
    assert found is not None
    assert found.epsilon == pytest.approx(TOTAL)


@pytest.mark.slow
def test_a_budget_for_each_step_but_not_for_both_is_refused_by_the_plan(tmp_path):
    assert TOTAL > 33.0
    study = write_study(tmp_path, policy=policy(33.0), steps=STEPS)
    planned = call("plan", study)
    assert planned.exit_code == 1
    assert "privacy_budget" in planned.stdout
    assert call("run", study).exit_code == 1
