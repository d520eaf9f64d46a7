"""What the lines of a ledger or plan say, as tuples that a test can list."""

from collections.abc import Iterable
from operator import attrgetter
from typing import Any

from unpooled.ledger import Release


def fields(lines: Iterable[Release], names: str, **chosen: str) -> list[Any]:
    """Return fields of lines, in their order; `names` are separated by blanks.

    Of `chosen` fields, such as ``direction="out"``, lines have these values.
    """
    get = attrgetter(*names.split())
    return [
        get(line)
        for line in lines
        if all(getattr(line, name) == value for name, value in chosen.items())
    ]
