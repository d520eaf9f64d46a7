"""Columns that are left out by name: in sources, views, studies and silos."""

import numpy as np
import pandas as pd
import pytest

import unpooled as up
from integration.matrix import text_of
from server_end import ServerEnd
from unpooled.errors import DataError
from unpooled.party.following import StudyText, _is_first_view
from unpooled.protocol.following import Call
from unpooled.study.announcement import calls_of


@pytest.fixture
def frames():
    rng = np.random.default_rng(5)
    return {
        name: pd.DataFrame(
            rng.standard_normal((30, 3)), columns=["a", "b", "c"]
        ).assign(race="x")
        for name in "uvw"
    }


def test_a_text_column_is_left_out_of_the_sources(frames):
    federation = up.simulate(frames, exclude=["race", "b"])

    assert federation.feature_names == ("a", "c")
    with pytest.raises(DataError, match=r"'race' \(.*\(exclude\)"):
        up.simulate(frames)
    with pytest.raises(DataError, match=r"Silo 'u'.*no column 'rac'.*'race'"):
        up.simulate(frames, exclude=["rac"])
    with pytest.raises(DataError, match="columns and exclude are both given"):
        up.simulate(frames, exclude=["race"], columns=["a"])
    with pytest.raises(DataError, match=r"is one string.*\['race'\]"):
        up.simulate(frames, exclude="race")


def test_a_view_without_some_columns_is_that_of_the_others(frames):
    federation = up.simulate(frames, exclude=["race"], follow=True)

    without = up.StandardScaler().fit(federation.select(exclude=["b"]))
    chosen = up.StandardScaler().fit(federation.select(["a", "c"]))

    np.testing.assert_array_equal(without.mean_, chosen.mean_)
    assert federation.select(exclude="b").feature_names == ("a", "c")
    with pytest.raises(DataError, match=r"no column 'bb'. Did you mean 'b'"):
        federation.select(exclude=["bb"])
    with pytest.raises(DataError, match="columns, or columns to leave out"):
        federation.select()
    with pytest.raises(DataError, match="columns, or columns to leave out"):
        federation.select(["a"], exclude=["b"])


def test_on_a_column_partition_each_source_leaves_out_its_own(frames):
    parts = {
        "u": up.open_source(frames["u"], exclude=["race", "c"]),
        "v": frames["v"][["c"]],
    }

    federation = up.simulate(parts, "columns")

    assert federation.feature_names == ("a", "b", "c")
    with pytest.raises(DataError, match=r"leave out columns in the sources"):
        up.simulate(parts, "columns", exclude=["race"])


@pytest.mark.slow
def test_a_study_file_leaves_columns_out(frames, tmp_path):
    for name, frame in frames.items():
        frame.assign(note="y").to_csv(tmp_path / f"{name}.csv", index=False)
    text = """
        [study]
        name = "s"
        exclude = ["race", "b"]
        [parties]
        u = { source = "u.csv", exclude = ["note"] }
        v = { source = "v.csv", exclude = ["note"] }
        w = { source = "w.csv", exclude = ["note"] }
        [[steps]]
        model = "StandardScaler"
        """
    (tmp_path / "study.toml").write_text(text)

    study = up.Study.from_file(tmp_path / "study.toml")
    run = study.run(follow=True)

    pooled = pd.concat(frames.values())[["a", "c"]].to_numpy()
    # A sum of 90 numbers, rounded to multiples of less than 2^-40 in each silo.
    np.testing.assert_allclose(
        run.models["standardscaler"].mean_, pooled.mean(axis=0), atol=1e-12
    )


@pytest.mark.slow
def test_silos_behind_their_doors_follow_a_study_that_leaves_columns_out(tmp_path):
    text = text_of("PCA").replace("[study]", '[study]\nexclude = ["ca", "thal"]')
    server = ServerEnd(tmp_path)

    place = server.done("run", text)

    assert not {"ca", "thal"} & set(place.state.columns)
    assert {"age", "chol"} <= set(place.state.columns)
    unknown = text.replace('"thal"', '"tal"').replace('name = "case', 'name = "other')
    outcome, _ = server.ask("run", unknown)
    assert "Did you mean 'thal'" in str(outcome["error"].values())


@pytest.mark.parametrize(
    ("view", "is_first"),
    [
        ([{"operation": "select", "columns": ["a", "c"]}], True),
        ([{"operation": "select", "columns": ["a", "b"]}], False),
        ([], False),
    ],
)
def test_a_silo_refuses_a_view_with_a_column_that_the_text_leaves_out(view, is_first):
    text = calls_of(
        '[study]\nname="s"\nexclude=["b"]\n[parties]\n[[steps]]\nmodel="PCA"\n'
    )
    assert isinstance(text, StudyText)
    call = Call(
        method="fit",
        model={},
        arrays={},
        arguments={},
        view=tuple(view),
        columns=(),
        n_rows=None,
        named=True,
        label=None,
        random_state=None,
    )

    assert _is_first_view(call, text) is is_first
