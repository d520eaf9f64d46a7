"""Rows matched in studies: from a file, and at a silo that has its own."""

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

import unpooled as up
from unpooled.cli.silo_check import show_silo
from unpooled.coordinator.channel import LocalChannel
from unpooled.coordinator.coordinator import Coordinator
from unpooled.errors import StudyError
from unpooled.federation.matching import agree_on_rows
from unpooled.party.setup.silo_file import SiloFile
from unpooled.party.setup.silo_init import SiloConfig, init_silo, pin
from unpooled.study import Study
from unpooled.study.server_job import federation_of

COLUMNS = {"clinic": ["a", "b"], "laboratory": ["c", "d"], "pharmacy": ["e"]}
RULES = "min_rows = 5\nallow_row_level = true\nallow_disclosed = true\n"


@pytest.fixture
def sources(tmp_path):
    rng = np.random.default_rng(3)
    people = pd.DataFrame(rng.standard_normal((40, 5)), columns=list("abcde"))
    people["id"] = [f"P{i}" for i in range(40)]
    paths = {}
    for i, (name, columns) in enumerate(COLUMNS.items()):
        paths[name] = tmp_path / f"{name}.csv"
        part = people.sample(30, random_state=i)[["id", *columns]]
        part.to_csv(paths[name], index=False)
    return paths


def common(sources):
    return set.intersection(*(set(pd.read_csv(p)["id"]) for p in sources.values()))


def study_of(sources, folder, head='ids = "id"\n'):
    parties = "".join(f'[parties.{n}]\nsource = "{p}"\n' for n, p in sources.items())
    return Study.from_text(
        folder / "study.toml",
        f'[study]\nname = "omics"\npartition = "columns"\n{head}{parties}'
        f"[policy]\n{RULES}"
        '[[steps]]\nmodel = "VFedPCA"\nrounds = 1\n[outputs]\nreport = true\n',
    )


@pytest.mark.slow
def test_a_study_matches_after_its_plan_and_before_its_first_fit(sources, tmp_path):
    study = study_of(sources, tmp_path)
    planned = study.plan()
    assert next(iter(planned.releases)).step == "matching.count"

    run = study.run()

    N = len(common(sources))
    assert run.models["vfedpca"].n_samples_ == N
    steps = [line.step for line in run.ledger]
    assert steps == [line.step for line in planned.releases]
    assert run.ledger.verify()
    # The plan knows the most there can be, the ledger what there was.
    rows = [line.shape for line in planned.releases if line.name == "rows"]
    assert rows == [(30,)]
    assert f"{N} of 30 rows" in (run.folder / "silos" / "log.txt").read_text()
    told = (run.folder / "report.html").read_text("utf-8")
    assert "Matching rows by their ids" in told
    assert "A point for each id, which tells nobody which id it is" in told


@pytest.mark.slow
def test_a_run_that_is_resumed_matches_again(sources, tmp_path):
    study = study_of(sources, tmp_path)
    run = study.run()
    state = run.folder / "state.json"
    content = json.loads(state.read_text())
    state.write_text(json.dumps(content | {"done": False, "finished": []}))

    again = study.resume()

    assert again.models["vfedpca"].n_samples_ == len(common(sources))
    assert again.ledger.verify()


def test_aligned_is_true_or_false(sources, tmp_path):
    with pytest.raises(StudyError, match="aligned"):
        study_of(sources, tmp_path, 'ids = "id"\naligned = "yes"\n')


@pytest.fixture
def kits(sources, tmp_path):
    """Silos with files of their own, in this process."""
    rules = tmp_path / "rules.toml"
    rules.write_text(RULES)
    lines = {}
    for name, source in sources.items():
        charter = SiloConfig(name, str(source), ids="id", policy=rules)
        lines[name] = init_silo(tmp_path / name / "local", charter)
        file = tmp_path / name / "local" / "silo.toml"
        file.write_text(file.read_text() + 'partition = "columns"\n')
    for name in sources:
        pin(tmp_path / name / "local" / "roster.toml", list(lines.values()))
    return {
        n: SiloFile.from_file(tmp_path / n / "local" / "silo.toml") for n in sources
    }


def matched(kits, sources, tmp_path):
    study = study_of(sources, tmp_path)
    doors = {name: silo.party() for name, silo in kits.items()}
    channel = LocalChannel({name: door.handle for name, door in doors.items()})
    coordinator = Coordinator(
        channel, kits["clinic"].pinned(), study=study.name, partition="columns"
    )
    federation = federation_of(study, coordinator)
    agree_on_rows(federation)
    return federation


def places(silo: SiloFile) -> list[str]:
    with (silo.matches / "omics.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    source = pd.read_csv(silo.source)["id"]
    assert [int(row["place"]) for row in rows] == list(range(1, len(rows) + 1))
    assert [source[int(row["row"]) - 1] for row in rows] == [r["id"] for r in rows]
    return [row["id"] for row in rows]


@pytest.mark.slow
def test_silos_write_down_who_is_where_and_find_it_again(kits, sources, tmp_path):
    federation = matched(kits, sources, tmp_path)

    first = {name: places(silo) for name, silo in kits.items()}
    assert set(first["clinic"]) == common(sources)
    assert first["clinic"] == first["laboratory"] == first["pharmacy"]
    assert federation.n_rows == len(first["clinic"])
    up.VFedPCA(rounds=1).fit(federation)
    # The silos' processes ended, and begin again: the order is that of their keys.
    matched(kits, sources, tmp_path)
    assert places(kits["clinic"]) == first["clinic"]
    assert Path(kits["clinic"].matches / "omics.csv").stat().st_mode & 0o077 == 0


@pytest.mark.slow
def test_check_shows_the_match_rate_at_home(kits, sources, tmp_path, capsys):
    matched(kits, sources, tmp_path)

    show_silo(Console(width=200), kits["clinic"])

    shown = capsys.readouterr().out
    assert f"Study omics: {len(common(sources))} of 30 rows are common" in shown
