"""`.ci/run` with a stand-in for `make`: lists beside each other, the first failure."""

import os
import re
import subprocess
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
# A target of the stand-in succeeds, unless it is named as one that fails or that runs
# until it is interrupted.
MAKE = """#!/bin/bash
target=${@: -1}
echo "output of $target"
[[ " $FAILS " != *" $target "* ]] || exit 2
[[ " $HANGS " != *" $target "* ]] || sleep 600
"""


@pytest.fixture
def ci(tmp_path):
    make = tmp_path / "make"
    make.write_text(MAKE)
    make.chmod(0o755)

    def run(**outcomes):
        return subprocess.run(
            [CHECKOUT / ".ci" / "run"],
            env={
                **os.environ,
                "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
                "TMPDIR": str(tmp_path),
                **outcomes,
            },
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    yield run
    assert list(tmp_path.iterdir()) == [make]


def targets(done):
    """Return the targets whose output was printed, in its order."""
    lines = done.stdout.splitlines()
    return [line.split()[-1] for line in lines if line.startswith("output of")]


FIRST = [
    "install",
    "debian-packages",
    "types",
    "lint",
    "yanked",
    "docs",
    "release",
    "chart",
    "test",
    "images",
]


def test_everything_runs_and_the_end_is_pytests(ci):
    done = ci()

    assert done.returncode == 0
    assert targets(done) == [
        *FIRST,
        "test-slow",
        "test-pythons",
        "experiments-quick",
        "test-federation",
        "test-shapes",
    ]
    assert done.stdout.endswith("output of test-shapes\n")


@pytest.mark.thinned(1)
@pytest.mark.parametrize("target", FIRST)
def test_nothing_runs_after_a_failure(ci, target):
    done = ci(FAILS=target)

    assert done.returncode != 0
    assert targets(done)[-1] == target


@pytest.mark.thinned(1)
@pytest.mark.parametrize("target", ["test-slow", "test-pythons", "experiments-quick"])
def test_a_failure_ends_the_federation(ci, target):
    done = ci(FAILS=target, HANGS="test-federation")

    assert done.returncode != 0
    assert targets(done)[-1] == target


def test_a_failure_of_one_list_ends_the_other(ci):
    done = ci(FAILS="docs", HANGS="types")

    assert done.returncode != 0
    # `types` may be interrupted before it has printed anything.
    assert targets(done)[-1] == "docs"
    assert "test" not in targets(done)


@pytest.mark.slow
def test_a_failure_over_the_federation_ends_the_others(ci):
    done = ci(FAILS="test-federation", HANGS="test-slow")

    assert done.returncode != 0
    assert "test-pythons" not in targets(done)
    assert done.stdout.endswith("output of test-federation\n")


@pytest.mark.slow
def test_a_failure_over_the_federation_after_the_others(ci):
    done = ci(FAILS="test-federation", HANGS="")

    assert done.returncode != 0
    assert done.stdout.endswith("output of test-federation\n")


@pytest.mark.slow
def test_the_federations_tier_has_every_file_with_its_mark():
    text = (CHECKOUT / "Makefile").read_text("utf-8")
    (named,) = re.findall(r"^FEDERATION := \$\(addprefix tests/,(.*)\)$", text, re.M)
    places = [CHECKOUT / "tests" / place for place in named.split()]

    marked = [
        path
        for path in (CHECKOUT / "tests").rglob("test_*.py")
        if re.search(r"\bmark\.federation\b", path.read_text("utf-8"))
        and path != Path(__file__)
    ]

    assert all(place.exists() for place in places)
    assert marked
    for path in marked:
        assert any(place in (path, *path.parents) for place in places), path
