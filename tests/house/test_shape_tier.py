"""The plugin that lists functions whose shapes no test checked, in another pytest."""

from pathlib import Path

import pytest

import shape_tier

TOY = """
import abc
import dataclasses

import numpy as np
from jaxtyping import Float


class Sized(abc.ABC):
    @abc.abstractmethod
    def of(self, x: Float[np.ndarray, " n"]) -> int: ...


def doubled(x: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    return 2 * x


def halved(x: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    return x / 2


def named(x: str) -> str:
    return x


def returned(x) -> int:
    return x


def sized(x, n: int) -> int:
    def size(y: Float[np.ndarray, " n"], start: int = 0) -> int:
        return start + len(y)

    return size(x, n)


@dataclasses.dataclass(frozen=True)
class Place:
    name: str
    near: "list[Place]" = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Rows:
    x: Float[np.ndarray, "n p"]
"""
TESTS = """
import numpy as np
import pytest
import toy


@pytest.mark.parametrize("n", [1, 2, 3])
def test_first_case(n):
    assert n == 1
    toy.doubled(np.ones(n))


@pytest.mark.shapes
@pytest.mark.parametrize("n", [1, 2])
def test_every_case(n):
    toy.doubled(np.ones(n))


def test_other_shapes_are_refused():
    with pytest.raises(Exception, match="doubled"):
        toy.doubled(np.ones((1, 2)))


def test_functions_without_shapes_are_checked_too():
    assert toy.named("a") == "a"
    assert toy.named.__annotations__ == {"x": str, "return": str}
    with pytest.raises(TypeError, match="named"):
        toy.named(1)
    with pytest.raises(TypeError, match="returned"):
        toy.returned("a")


def test_functions_inside_others_are_checked_each_time():
    for n in (1, 2):
        assert toy.sized(np.ones(3), n) == 3 + n
    for _ in range(2):
        with pytest.raises(TypeError, match="size"):
            toy.sized(np.ones((3, 1)), 1)


def test_classes_are_checked():
    assert toy.Place("a").near == []
    with pytest.raises(TypeError, match="Place"):
        toy.Place(1)
    toy.Rows(np.ones((2, 2)))
    with pytest.raises(TypeError, match="Rows"):
        toy.Rows(np.ones(2))
"""


@pytest.mark.slow
@pytest.mark.parametrize("processes", [(), ("-n", "2")], ids=["one", "two"])
def test_functions_that_were_not_entered_are_listed(pytester, monkeypatch, processes):
    monkeypatch.setenv("PYTHONPATH", str(Path(shape_tier.__file__).parent))
    pytester.makepyfile(toy=TOY, test_toy=TESTS)
    pytester.makepyprojecttoml("[tool.pytest.ini_options]\nmarkers = ['shapes: all']")
    options = ("--jaxtyping-packages=toy,shape_tier.checked", *processes)

    def run(*more):
        return pytester.runpytest_subprocess("-p", "shape_tier", *options, *more)

    done = run("--every-shape")
    done.assert_outcomes(passed=7, deselected=0 if processes else 2)
    assert done.ret == pytest.ExitCode.TESTS_FAILED
    done.stdout.fnmatch_lines(["*annotated with shapes and not entered*", "toy.halved"])
    assert "toy.named" not in done.stdout.str()
    assert "Sized" not in done.stdout.str()
    assert run().ret == pytest.ExitCode.OK
