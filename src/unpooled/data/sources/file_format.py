"""The format of a file's cells, as far as its ending leaves it open.

separator, decimal, encoding     of text files; the encoding of SAS, SPSS and Stata too
sheet                            of Excel workbooks
"""

import codecs
from dataclasses import dataclass
from typing import final

from unpooled.data.toml import Section
from unpooled.errors import DataError

FORMAT_KEYS = ("separator", "decimal", "encoding", "sheet")


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
    """

    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    sheet: str | None = None

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

    def check_used(self, source: str, *used: str) -> None:
        """Raise for what is given and means nothing for this kind of source."""
        for key in FORMAT_KEYS:
            if getattr(self, key) is not None and key not in used:
                raise DataError(
                    f"{key}={getattr(self, key)!r} does not apply to {source}: "
                    f"separator and decimal are those of CSV and TSV files, encoding "
                    f"also of SAS, SPSS and Stata files, and sheet of Excel workbooks. "
                    f"Leave it out."
                )


def format_keys(section: Section) -> dict[str, str]:
    """Return the keys of a file's format that a table of a TOML file has."""
    found: dict[str, str] = {}
    for key in FORMAT_KEYS:
        value = section.content.get(key)
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
