"""The command's progress, tables and words."""

import dataclasses
import io
import re
from typing import Any

import numpy as np
import pandas as pd
import polars
import pytest
from rich.console import Console
from sklearn.pipeline import make_pipeline

import unpooled as up
from command_line import too_wide
from unpooled.cli.progress_display import ProgressDisplay
from unpooled.cli.results_tables import exhibits
from unpooled.cli.tables import left_table, plan_table
from unpooled.cli.terminal import printable, shape
from unpooled.results.formats import byte_size, counted
from unpooled.study.evaluation import joined_plans


def planned_and_heard(model=None):
    federation = up.simulate(
        up.partition_rows(np.random.default_rng(1).normal(size=(60, 3)), 3)
    )
    model = model or up.PCA(2)
    plan, heard = up.plan(model, federation), []
    coordinator: Any = federation.coordinator
    coordinator.listeners.append(lambda *event: heard.append(event))
    model.fit(federation)
    return plan, heard, federation


def test_a_terminal_gets_a_bar():
    plan, heard, _ = planned_and_heard()
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80, color_system=None)

    with ProgressDisplay(console) as display:
        display.planned(plan)
        for event in heard:
            display.listener(*event)

    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out.getvalue())
    assert f"3/3 rounds {byte_size(plan.bytes)} per silo 3/3 silos" in shown
    assert too_wide(shown.replace("\r", "\n"), 80) == []


@pytest.mark.thinned(1)
@pytest.mark.parametrize("terminal", [True, False])
def test_quiet_and_files_get_plain_lines(terminal):
    plan, heard, federation = planned_and_heard()
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=80)

    with ProgressDisplay(console, quiet=terminal) as display:
        display.planned(plan)
        for event in heard:
            display.listener(*event)

    lines = out.getvalue().splitlines()
    assert [line.split(":")[0] for line in lines] == [
        f"round {k} of 3" for k in (1, 2, 3)
    ]
    first = [
        x.bytes for x in federation.ledger if x.round == 1 and x.direction == "out"
    ]
    assert lines[0].endswith(f"pca.local_total, 3 silos, {sum(first)} bytes from each")


@pytest.mark.slow
def test_bytes_are_those_of_the_step_when_a_search_ends_early():
    """A regression is planned with `max_iter` rounds, and something comes after it."""
    rng = np.random.default_rng(0)
    tables = {
        name: pd.DataFrame(rng.standard_normal((60, 3)), columns=list("abc")).assign(
            kind=rng.integers(0, 2, 60)
        )
        for name in ("north", "south", "west")
    }
    federation = up.simulate(tables, label="kind", policy=up.Policy.open())
    model = make_pipeline(up.StandardScaler(), up.LogisticRegression())
    fit = up.plan(model, federation, "kind")
    after = up.plan(up.Describe(quartiles=False), federation)
    heard: list[tuple[str, str, int]] = []
    coordinator: Any = federation.coordinator
    coordinator.listeners.append(lambda *event: heard.append(event))
    model.fit(federation, "kind")
    up.Describe(quartiles=False).fit(federation)

    out = io.StringIO()
    with ProgressDisplay(Console(file=out, width=200)) as display:
        display.planned(joined_plans(fit, after))
        for event in heard:
            display.listener(*event)

    ledger = federation.ledger
    lines = out.getvalue().splitlines()
    assert len(lines) == len({line.round for line in ledger}) < fit.rounds
    for number, line in enumerate(lines, 1):
        sent = [x for x in ledger if x.round == number and x.direction == "out"]
        said = line.rpartition(", ")[2]
        assert said == f"{byte_size(sum(x.bytes for x in sent))} from each", line


def test_more_rounds_than_planned_are_shown_too():
    plan, heard, _ = planned_and_heard()
    out = io.StringIO()

    with ProgressDisplay(Console(file=out, width=80)) as display:
        display.planned(plan)
        for party, step, number in [*heard, *((p, s, n + 3) for p, s, n in heard)]:
            display.listener(party, step, number)

    assert out.getvalue().count("\n") == 6


def shown(table, width=80):
    out = io.StringIO()
    Console(file=out, width=width).print(table)
    return out.getvalue()


@pytest.mark.slow
def test_tables_stay_within_the_window():
    names = [f"a_rather_long_name_of_a_column_{j}" for j in range(3)]
    federation = up.simulate(
        {s: polars.DataFrame(np.random.default_rng(k).normal(size=(30, 3)), names)
         for k, s in enumerate("abc")}
    )  # fmt: skip
    pca = up.PCA().fit(federation)
    tables = [
        plan_table(up.plan(up.PCA(), federation)),
        left_table(federation.ledger),
        *exhibits(pca.summary()),
    ]
    for table in tables:
        for width in (60, 80, 120):
            assert too_wide(shown(table, width), width) == []


def test_what_is_more_than_a_total_stands_out():
    federation = up.simulate(up.partition_rows(np.ones((60, 2)), 3))
    up.StandardScaler().fit(federation)
    line = dataclasses.replace(federation.ledger[0], visibility="disclosed")

    plan = up.Plan((line,), (), ("a", "b", "c"), "masked")
    assert "disclosed: not only a total" in " ".join(shown(plan_table(plan)).split())
    assert "as a total only" not in shown(left_table(up.Ledger([line])))


def test_rounds_of_a_search_are_told_once():
    """As many as a search by secure comparison has: 70 of one kind, in batches."""
    federation = up.simulate(up.partition_rows(np.ones((60, 2)), 3))
    up.StandardScaler().fit(federation)
    first = federation.ledger[0]
    question = dataclasses.replace(first, direction="in", visibility="public")
    lines = [
        dataclasses.replace(line, round=number, step="power.compared_slopes")
        for number in range(1, 71)
        for line in ([question, first] if number % 14 == 1 else [first])
    ]

    plan = shown(plan_table(up.Plan(tuple(lines), (), ("a", "b", "c"), "masked")))
    left = shown(left_table(up.Ledger(lines)))

    assert plan.count("\n") < 40
    assert "13 rounds, each:" in plan
    assert left.count("\n") < 10
    assert "1 to 70" in left
    # The rows add up to the sum below them.
    amount = f"{70 * first.bytes:,}"
    assert left.count(amount) == 2


@pytest.mark.parametrize(
    ("n", "text"),
    [
        (0, "0 bytes"),
        (9999, "9,999 bytes"),
        (10_000, "10.0 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (38_000_000, "38.0 MB"),
        (2 * 10**9, "2.0 GB"),
        (10**16, "10000.0 TB"),
    ],
)
def test_bytes_as_people_read_them(n, text):
    assert byte_size(n) == text


def test_shapes_counts_and_names():
    assert shape(()) == "1"
    assert shape((3, 4000)) == "3 × 4,000"
    assert counted(1, "silo") == "1 silo"
    assert counted(1000, "silo") == "1,000 silos"
    assert printable("a\nb\x1b[31m\u202e") == "a b\ufffd[31m\ufffd"
