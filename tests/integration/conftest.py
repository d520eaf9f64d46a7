"""A consortium for the tests of this folder: real processes, started once.

With two processes of pytest (`make test-federation`) there are two, and all tests of a
file have the same one.
"""

import gc
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from integration.consortium import Consortium


# The files that take longest, first: two processes of pytest then end at about once.
FIRST = ("test_faults.py", "test_many_silos.py", "test_comparisons.py")
FIRST += ("test_estimators.py", "test_strangers.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    items.sort(key=lambda item: place_of(item.path, here))
    for item in items:
        if item.path.parent == here:
            item.add_marker(pytest.mark.federation)
            item.add_marker(pytest.mark.slow)
            # NVFlare and the libraries that it starts warn of their own affairs.
            item.add_marker(pytest.mark.filterwarnings("ignore"))


def place_of(path: Path, here: Path) -> int:
    """Return the place of a test file in the order in which files are run."""
    if path.parent != here:
        return -1
    return FIRST.index(path.name) if path.name in FIRST else len(FIRST)


@pytest.fixture(scope="session")
def consortium(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Consortium]":
    if importlib.util.find_spec("nvflare") is None:
        pytest.skip("nvflare absent")
    from integration.consortium import Consortium

    spare = ("budapest", "switzerland")
    # Folders on people's machines have blanks in their names.
    folder = tmp_path_factory.mktemp("consortium") / "our kits"
    folder.mkdir()
    made = Consortium(folder, spare=spare)
    try:
        made.start()
        yield made
    finally:
        made.stop()
        # What NVFlare leaves open when a server dies, while its warning is ignored.
        gc.collect()
