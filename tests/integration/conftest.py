"""A consortium for the tests of this folder: real processes, started once.

With two processes of pytest (`make test-federation`) there are two, one for the files
of each group. Files share a consortium with others of their group only.
"""

import gc
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from integration.consortium import Consortium

# The first group; half of the time goes by in it. `test_secrecy` searches what the
# coordinator has after the faults of `test_faults`, so the two stay together.
FIRST = (
    *("test_faults.py", "test_private.py", "test_secrecy.py"),
    *("test_shell.py", "test_strangers.py"),
)


# First, as xdist then reads the groups.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            group = "first" if item.path.name in FIRST else "second"
            item.add_marker(pytest.mark.xdist_group(group))
            item.add_marker(pytest.mark.federation)
            item.add_marker(pytest.mark.slow)
            # NVFlare and the libraries that it starts warn of their own affairs.
            item.add_marker(pytest.mark.filterwarnings("ignore"))


@pytest.fixture(scope="session")
def consortium(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Consortium]":
    if importlib.util.find_spec("nvflare") is None:
        pytest.skip("nvflare absent")
    from integration.consortium import Consortium

    spare = ("budapest", "switzerland")
    made = Consortium(tmp_path_factory.mktemp("consortium"), spare=spare)
    try:
        made.start()
        yield made
    finally:
        made.stop()
        # What NVFlare leaves open when a server dies, while its warning is ignored.
        gc.collect()
