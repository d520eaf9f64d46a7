"""prince, the other implementation that the tests of this folder compare with."""

import importlib
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def prince() -> ModuleType:
    # It imports a plotting library, for more than a second of every process's start.
    return importlib.import_module("prince")
