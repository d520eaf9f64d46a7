"""Exhibits: a picture, or none, over the tables that hold its numbers."""

from dataclasses import dataclass
from typing import final

from markupsafe import Markup

from unpooled.report.exhibits import Table


@final
@dataclass(frozen=True)
class Exhibit:
    """A picture, or none, over the tables that hold its numbers."""

    heading: str
    text: str
    tables: list[Table]
    picture: Markup | None = None
