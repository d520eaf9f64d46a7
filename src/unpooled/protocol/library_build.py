"""Builds of this library: its version, with a digest of the source that is installed.

    0.2.0+5f0c2a9be1d47c33
    └─┬─┘ └──────┬───────┘
    version   first 64 bits of SHA-256 over all modules of the package

Steps are looked up by name in what each end has installed, so two ends with different
source may compute different things under the same declaration. Both ends state their
build, and other builds are refused unless the study's text lists them.

The digest shows that a silo was not upgraded, or that somebody edited a file. It proves
nothing about a silo that lies: that silo could as well change its rows.
"""

import hashlib
import sys
from collections.abc import Collection
from functools import cache
from pathlib import Path

from unpooled.data.toml import Section
from unpooled.errors import StudyError

_DIGITS = 16


@cache
def library_build() -> str:
    """Return the build that this process runs, as "version+digest"."""
    return _installed_build()


def is_installed() -> bool:
    """Return whether the installed source is still that of `library_build`.

    A process that runs for long asks before it begins something new.
    """
    return library_build() == _installed_build()


def source_digest(folder: Path) -> str:
    """Return the SHA-256 digest of a package's modules, with their places in it."""
    found = hashlib.sha256()
    modules = {path.relative_to(folder).as_posix(): path for path in _modules(folder)}
    for place in sorted(modules):
        content = modules[place].read_bytes()
        # With lengths, so that a line cannot move from one module into the next.
        found.update(f"{len(place)} {place} {len(content)}\n".encode())
        found.update(content)
    return found.hexdigest()


def allowed_builds(text: str) -> tuple[str, ...]:
    """Return the builds that a study's text lists beside that of its coordinator.

    A text that is not that of a study lists none.
    """
    try:
        head = Section.from_text("the announced study", text).section("study")
        return head.names("versions") or ()
    except StudyError:
        return ()


def is_allowed(build: object, allowed: Collection[str]) -> bool:
    """Whether an end of this build may take part with this process."""
    return build == library_build() or (isinstance(build, str) and build in allowed)


def _installed_build() -> str:
    package = sys.modules["unpooled"]
    folder = Path(str(package.__file__)).parent
    return f"{package.__version__}+{source_digest(folder)[:_DIGITS]}"


def _modules(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*.py") if path.is_file()]
