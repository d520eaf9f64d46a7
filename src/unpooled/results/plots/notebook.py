"""A summary as a notebook shows it: headings, pictures and tables."""

import itertools
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from unpooled.results.exhibits import ResultTable
from unpooled.results.formats import clean
from unpooled.results.plots.drawing import ON_WHITE, page_variable
from unpooled.results.plots.svg import svg

if TYPE_CHECKING:
    from unpooled.results.summary import Summary

# Ids of pictures are unique in a notebook, however often a summary is shown.
_numbers = itertools.count(1)


def html(summary: "Summary") -> str:
    """Return a summary as HTML; names from outside are escaped."""
    colours = "; ".join(f"{page_variable(n)}: {ON_WHITE[n]}" for n in ON_WHITE)
    parts = [Markup("<h3>{}</h3>").format(clean(summary.title))]
    for exhibit in summary.exhibits:
        parts.append(Markup("<h4>{}</h4>").format(clean(exhibit.heading)))
        if exhibit.text:
            parts.append(Markup("<p>{}</p>").format(clean(exhibit.text)))
        if exhibit.picture is not None:
            drawn = svg(exhibit.picture, f"unpooled-{next(_numbers)}")
            parts.append(Markup('<div style="max-width: 31rem">{}</div>').format(drawn))
        for table in exhibit.on_pages:
            parts += [_paragraph(table.caption), _table(table), _paragraph(table.notes)]
    return Markup('<div style="{}">{}</div>').format(colours, Markup().join(parts))


def _paragraph(text: str) -> Markup:
    return Markup("<p>{}</p>").format(clean(text)) if text else Markup()


def _table(table: ResultTable) -> Markup:
    sides = ["right" if column.numeric else "left" for column in table.columns]

    def line(tag: str, cells: tuple[str, ...]) -> Markup:
        found = [
            Markup('<{0} style="text-align: {1}">{2}</{0}>').format(
                Markup(tag), side, escape(clean(cell))
            )
            for cell, side in zip(cells, sides, strict=True)
        ]
        return Markup("<tr>{}</tr>").format(Markup().join(found))

    head = line("th", tuple(column.heading for column in table.columns))
    body = Markup().join(line("td", row) for row in table.shown)
    return Markup("<table><thead>{}</thead><tbody>{}</tbody></table>").format(
        head, body
    )
