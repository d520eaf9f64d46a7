"""The format of a file's cells and names, as far as its ending leaves it open.

separator, decimal, encoding     of text files; the encoding of SAS, SPSS and Stata too
sheet                            of Excel workbooks
rename                           of all files that name their columns
"""

import codecs
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

from unpooled.data.columns import listing
from unpooled.data.toml import Section
from unpooled.errors import DataError

FORMAT_KEYS = ("separator", "decimal", "encoding", "sheet", "rename")


@final
@dataclass(frozen=True)
class FileFormat:
    """The format of a file's cells; None for the usual one of its ending.

    Parameters
    ----------
    separator : str, optional
        The character between two cells of a text file.
    decimal : {".", ","}, optional
        The character before the fraction of a number in a text file.
    encoding : str, optional
        The encoding of the text, by a name that Python knows, such as "cp1252".
    sheet : str, optional
        The sheet of an Excel workbook.
    rename : mapping of str to str, optional
        By the name of a column in the file, the study's name of it.
    """

    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    sheet: str | None = None
    rename: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        separator = self.separator
        if separator is not None and (len(separator) != 1 or separator in '"\r\n\0'):
            raise DataError(
                f'separator={separator!r}; give one character, such as ";" or "\\t".'
            )
        if self.decimal not in (None, ".", ","):
            raise DataError(f'decimal={self.decimal!r}; choose "." or ",".')
        if self.encoding is not None:
            try:
                codecs.lookup(self.encoding)
            except LookupError as error:
                raise DataError(
                    f"encoding={self.encoding!r} is not known. Common are "
                    f'"utf-8", "utf-16", "latin-1" and "cp1252".'
                ) from error

        if self.rename is not None:
            _check_names(self.rename)

    def check_used(self, source: str, *used: str) -> None:
        """Raise for what is given and means nothing for this kind of source."""
        for key in FORMAT_KEYS:
            if getattr(self, key) is not None and key not in used:
                raise DataError(
                    f"{key}={getattr(self, key)!r} does not apply to {source}: "
                    f"separator and decimal are those of CSV and TSV files, encoding "
                    f"also of SAS, SPSS and Stata files, sheet of Excel workbooks, and "
                    f"rename of files that name their columns (a query names those of "
                    f"a database: AS). Leave it out."
                )


def _check_names(rename: Any) -> None:
    names = list(rename.values()) if isinstance(rename, Mapping) else [""]
    if not all(isinstance(name, str) and name.strip() for name in names):
        raise DataError(
            f"rename={rename!r}; give the study's name of each column by its name in "
            f'the file, such as {{"ILL": "ill"}}.'
        )
    if twice := [name for name, times in Counter(names).items() if times > 1]:
        raise DataError(f"rename gives two columns the name {listing(twice)}.")


def format_keys(section: Section) -> dict[str, Any]:
    """Return the keys of a file's format that a table of a TOML file has."""
    found: dict[str, Any] = {}
    for key in FORMAT_KEYS:
        value = section.content.get(key)
        if key == "rename":
            if names := section.section(key, {}).content:
                found[key] = names
            continue
        # A tab is white space, which `Section.text` takes for an empty text.
        if key == "separator" and isinstance(value, str) and value:
            found[key] = value
        elif (text := section.text(key)) is not None:
            found[key] = text
    try:
        FileFormat(**found)
    except DataError as wrong:
        section.fail("", str(wrong).rstrip("."))
    return found
