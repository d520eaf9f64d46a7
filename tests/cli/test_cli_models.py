"""`unpooled silo apply` and `forget`: models that came, used and deleted."""

import numpy as np
import pandas as pd
import pytest

from audit_command import COLUMNS, NAMES, command, heart, rows
from unpooled import StandardScaler
from unpooled.errors import AggregationError, ReleaseRefusedError, StudyError
from unpooled.federation.following import FollowedPrograms
from unpooled.models.files.model_file import load, save

# Fixtures of another module.
__all__ = ["heart"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_apply_writes_scores_of_the_silos_own_rows(heart, kind):
    pipeline, _ = heart.fit()
    heart.deliver(pipeline)
    out = heart.folder / f"scores.{kind}"
    output = command(heart, "apply", "heart/pipeline", "--out", out)
    assert f"Wrote 40 rows to {out}: id, sick, pca0, pca1." in output
    written = pd.read_csv(out) if kind == "csv" else pd.read_parquet(out)
    own = rows(NAMES.index("rome"))
    assert list(written.columns) == ["id", "sick", "pca0", "pca1"]
    assert list(written["id"]) == list(own["id"])
    assert list(written["sick"]) == list(own["sick"])
    expected = pipeline.transform(own[list(COLUMNS)].to_numpy())
    np.testing.assert_allclose(written[["pca0", "pca1"]], expected, rtol=1e-12)
    assert out.stat().st_mode & 0o777 == 0o600
    assert "exists" in command(heart, "apply", "heart/pipeline", "--out", out, code=1)


@pytest.mark.slow
def test_apply_takes_a_file_and_refuses_an_altered_one(heart):
    pipeline, _ = heart.fit()
    heart.deliver(pipeline)
    out = heart.folder / "x.csv"
    command(heart, "apply", heart.folder / "m", "--out", out)
    delivered = heart.silo("rome").models / "heart" / "pipeline.unpooled"
    assert load(delivered).steps[-1][0] == "pca"
    delivered.write_bytes(delivered.read_bytes() + b" ")
    output = command(heart, "apply", "heart/pipeline", "--out", out, code=1)
    assert "was altered" in output
    for bad, says in (
        ("heart/other", "Delivered models: heart/pipeline"),
        (heart.folder / "rome" / "rows.csv", "not a model file"),
    ):
        assert says in command(heart, "apply", bad, "--out", heart.folder / "y.csv",
                               code=1)  # fmt: skip
    assert "neither" in command(heart, "apply", heart.folder / "m", "--out", "y.txt",
                                code=1)  # fmt: skip
    assert not (heart.folder / "y.csv").exists()
    assert [p for p in heart.folder.iterdir() if p.name.startswith(".")] == []


@pytest.mark.slow
def test_a_model_for_other_columns_is_refused(heart):
    heart.fit()
    import unpooled as up

    other = up.simulate(
        {n: pd.DataFrame(np.eye(12)[:, :2], columns=["age", "bmi"]) for n in "abc"},
        policy=up.Policy.open(),
    )
    save(StandardScaler().fit(other), heart.folder / "m")
    out = heart.folder / "z.csv"
    output = command(heart, "apply", heart.folder / "m", "--out", out, code=1)
    assert "needs the columns bmi" in output


@pytest.mark.slow
def test_models_come_only_into_studies_that_the_silo_took_part_in(heart):
    pipeline, _ = heart.fit()
    content = np.zeros(5, np.uint8)
    coordinator = heart.coordinator()
    for study in ("other", "../heart", "heart/..", "", "heart\x00", "a" * 101):
        with pytest.raises((ReleaseRefusedError, AggregationError)):
            coordinator.send(
                {"kind": "deliver", "study": study, "name": "m"}, {"file": content}
            )
    for name in ("../m", "", ".hidden", "m/n", "m\x00", 5, "a" * 101):
        with pytest.raises((ReleaseRefusedError, AggregationError)):
            coordinator.send(
                {"kind": "deliver", "study": "heart", "name": name}, {"file": content}
            )
    for arrays in ({}, {"file": np.zeros(3)}, {"a": content, "b": content}):
        with pytest.raises((ReleaseRefusedError, AggregationError)):
            coordinator.send({"kind": "deliver", "study": "heart", "name": "m"}, arrays)
    assert not heart.silo("rome").models.exists()
    heart.deliver(pipeline)
    folder = heart.silo("rome").models
    assert [str(p.relative_to(folder)) for p in folder.rglob("*")] == [
        "heart",
        "heart/pipeline.unpooled",
    ]


@pytest.mark.slow
def test_models_that_are_too_large_or_too_many_are_refused(heart, monkeypatch):
    from unpooled.party.memory import studies as dealings

    heart.fit()
    monkeypatch.setattr(dealings, "_MOST_MODELS", 2)
    for name in ("one", "two", "two"):
        heart.deliver(StandardScaler(), name)
    with pytest.raises(ReleaseRefusedError, match="delivery"):
        heart.deliver(StandardScaler(), "three")
    monkeypatch.setattr(dealings, "_MOST_MODEL_BYTES", 10)
    with pytest.raises(ReleaseRefusedError, match="delivery"):
        heart.deliver(StandardScaler(), "one")


@pytest.mark.slow
def test_forget_deletes_models_and_never_the_log(heart):
    heart.start(FollowedPrograms(interactive=True))
    pipeline, federation = heart.fit(follows=True)
    heart.deliver(pipeline)
    StandardScaler().fit(pipeline[:1].transform(federation))
    before = heart.silo("rome").audit
    output = command(heart, "forget", "heart")
    assert "Forgot heart: 1 model file and the arrays" in output
    assert not (heart.silo("rome").models / "heart").exists()
    assert "Delivered models: none" in command(
        heart, "apply", "heart/pipeline", "--out", heart.folder / "q.csv", code=1
    )
    assert "forgotten, with 1 model" in command(heart, "log", "--verify")
    # What was fitted is forgotten too, in the process that runs; what left is not.
    view = pipeline[:1].transform(federation)
    with pytest.raises(ReleaseRefusedError, match="transform_not_fitted"):
        StandardScaler().fit(view)
    heart.fit(ledger=federation.ledger, first_round=50, follows=True)
    assert federation.ledger.verify(heart.silo("rome").pinned())
    assert "No study other" in command(heart, "forget", "other", code=1)
    assert before == heart.silo("rome").audit


@pytest.mark.slow
def test_forget_ends_the_sessions_of_a_running_process(heart):
    from unpooled.models.moments import local_counts

    federation = heart.fit()[1].asked_by("imputer")
    federation.coordinator.enter()
    federation.sum(local_counts)
    command(heart, "forget", "heart")
    with pytest.raises(ReleaseRefusedError, match=r"rome refused .*nothing_kept"):
        federation.sum(local_counts)
    with pytest.raises((StudyError, AggregationError, ReleaseRefusedError)):
        federation.sum(local_counts)
