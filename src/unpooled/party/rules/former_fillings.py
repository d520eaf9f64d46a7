"""Fillings as earlier versions of the library noted them, which still count.

A note of all rows has, for each column, how it was filled and a digest of its cells. It
does not have the number, so a filling that a fit gave cannot stay: the first one under
the present notes does. A chosen number is compared.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from unpooled.data.table import Table
from unpooled.party.memory.audit_state import Filling
from unpooled.protocol.refusal import Refusal

_CHOSEN = "chosen "


def check_former(
    notes: Sequence[dict[str, Any]],
    table: Table,
    column: str,
    now: Filling,
    key: bytes,
) -> None:
    """Refuse a chosen number where a column was filled otherwise, or by one before."""
    for note in notes:
        if note["rows"] != "all" or column not in note["columns"]:
            continue
        how, cells, _ = note["columns"][column]
        other = how != now.former and (now.chosen or how.startswith(_CHOSEN))
        # Other cells are other data: the table has changed.
        if other and cells == _digest(table, column, key):
            raise Refusal("another_filling")


def _digest(table: Table, column: str, key: bytes) -> str:
    found = hashlib.blake2b(digest_size=16, key=key)
    for block in table.blocks([column]):
        cells = block.X[:, 0]
        found.update(np.where(np.isnan(cells), np.nan, cells + 0.0).tobytes())
    return found.hexdigest()
