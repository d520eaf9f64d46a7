"""`unpooled silo approve` and `deny`: a person reads a study before it runs."""

import pytest

from audit_command import NAMES, TEXT, asked, command, heart
from unpooled import SimpleImputer, StandardScaler
from unpooled.errors import ReleaseRefusedError

# Fixtures of another module.
__all__ = ["asked", "heart"]


@pytest.mark.slow
def test_nothing_runs_before_a_person_approved(asked):
    assert asked.announce() == {"waiting"}
    with pytest.raises(ReleaseRefusedError, match="approval"):
        asked.fit()
    for name in NAMES:
        assert "announced" in command(asked, "log", silo=name)
        output = command(asked, "approve", "heart", "--yes", silo=name)
        assert "SimpleImputer, StandardScaler, PCA" in output
        assert "3 columns: age, chol, rate" in output
        assert "Approved: heart may run imputer.*, pca.*, scaler.*" in output
    assert asked.announce() == {"approved"}
    _, federation = asked.fit()
    # What a person approved is what left: the plan was made from the same text.
    assert "approved by" in command(asked, "log", "--verify")
    # Another text under the same name needs a person again.
    assert asked.announce(TEXT.replace("= 2", "= 3")) == {"waiting"}
    with pytest.raises(ReleaseRefusedError, match="approval"):
        asked.fit(ledger=federation.ledger, first_round=9)


@pytest.mark.slow
def test_a_step_that_nobody_approved_is_refused(asked):
    asked.announce(TEXT.split("[[steps]]\nmodel = \"StandardScaler\"")[0])  # fmt: skip
    for name in NAMES:
        command(asked, "approve", "heart", "--yes", silo=name)
    _, federation = asked.fit(SimpleImputer())
    with pytest.raises(ReleaseRefusedError, match=r"scaler.*approval"):
        asked.fit(StandardScaler(), ledger=federation.ledger, first_round=3)
    assert "refused scaler" in command(asked, "log")


@pytest.mark.slow
def test_deny_stops_a_study_also_while_it_runs(asked):
    asked.announce()
    for name in NAMES:
        command(asked, "approve", "heart", "--yes", silo=name)
    federation = asked.fit(SimpleImputer())[1].asked_by("imputer")
    federation.coordinator.enter()
    from unpooled.models.moments import local_counts

    federation.sum(local_counts)
    assert "does not take part" in command(asked, "deny", "heart")
    with pytest.raises(ReleaseRefusedError, match=r"rome refused .*approval"):
        federation.sum(local_counts)
    assert "A person denied it" in command(asked, "log")


@pytest.mark.slow
def test_approve_asks_and_needs_a_study(asked):
    assert "No study heart was announced" in command(asked, "approve", "heart", code=1)
    asked.announce()
    assert "Not a terminal" in command(asked, "approve", "heart", code=2)
    assert asked.announce() == {"waiting"}
    asked.announce(TEXT.replace('name = "heart"', 'name = "other"'))
    output = command(asked, "approve", "heart", "--yes", code=1)
    assert "is that of the study other" in output
    asked.announce(TEXT.replace('"rate"', '"income"'))
    output = command(asked, "approve", "heart", "--yes", code=1)
    assert "columns that this silo does not have: income" in output
    asked.announce("[study]\nname = 5")
    assert "the study heart" in command(asked, "approve", "heart", "--yes", code=1)


@pytest.mark.slow
def test_approve_tells_what_the_policy_would_refuse(asked):
    policy = asked.silo("rome").policy
    policy.write_text("[policy]\nmin_rows = 1000\n")
    asked.announce()
    output = command(asked, "approve", "heart", "--yes")
    assert "Your policy would refuse imputer.local_counts: min_rows" in output


@pytest.mark.slow
def test_a_text_that_a_terminal_would_obey_is_shown_harmless(asked):
    asked.announce(TEXT + '# \x1b[2J\x07 "evil"\n'.replace("\x1b", "\x9b"))
    output = command(asked, "log")
    assert "\x9b" not in output
    for name in ("paris", "rome"):
        assert "\x9b" not in command(asked, "log", "--verify", silo=name)


@pytest.mark.slow
def test_the_text_that_is_approved_is_shown_to_its_last_line(asked):
    padding = "".join(f"# line {number}\n" for number in range(500))
    long = "x" * 500
    asked.announce(f"{TEXT}{padding}# the end, {long}\n")
    output = command(asked, "approve", "heart", "--yes")
    assert "# line 499" in output
    assert f"#theend,{long}" in output.replace(" ", "")
