"""Versions of the programs that computed results or wrote a report."""

import platform
from collections.abc import Mapping
from importlib import metadata

from unpooled.protocol.library_build import library_build

_PACKAGES = ("numpy", "scipy", "scikit-learn", "cryptography")


def versions() -> Mapping[str, str]:
    """Return the versions of the programs that run here, by name.

    This library's is that of the build: another source of the same version may word a
    report differently, which `unpooled audit` would take for an edit.
    """
    found = {"Python": platform.python_version(), "unpooled": library_build()}
    found |= {package: metadata.version(package) for package in _PACKAGES}
    # Not platform.platform() or node(): a name of the machine does not belong here.
    found["System"] = f"{platform.system()} on {platform.machine()}"
    return found
