"""TOML tables, read with errors that name the file and the key."""

import difflib
import json
import math
import re
import tomllib
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn, final

from unpooled.errors import StudyError

_MOST_BITS = 4096  # of a whole number
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


@final
class Section:
    """A table of a TOML file, whose values are read and checked by key.

    Parameters
    ----------
    file : str
        Name of the file, for messages.
    title : str
        Name of the table, for messages; empty for the file's top.
    content : Any
        The value in the file, of any type.
    """

    def __init__(self, file: str, title: str, content: Any) -> None:
        self.file, self.title = file, title
        if not isinstance(content, dict):
            self.fail("", f"must be a table of keys, not {_shown(content)}")
        self.content: dict[str, Any] = content

    @classmethod
    def from_text(cls, file: str, text: str) -> "Section":
        """Parse the text of a file; raise a `StudyError` when it is not TOML."""
        try:
            content = tomllib.loads(text)
            _check_sizes(content)
        # A ValueError also says that a number has too many digits for Python to read.
        except (ValueError, RecursionError) as wrong:
            remedy = _remedy(text, str(wrong))
            raise StudyError(f"{file} is not TOML: {wrong}.{remedy}") from wrong
        return cls(file, "", content)

    def __contains__(self, key: str) -> bool:
        return key in self.content

    def __iter__(self) -> Iterator[str]:
        return iter(self.content)

    def fail(self, key: str, problem: str) -> NoReturn:
        """Raise a `StudyError` about a key."""
        table = f"[{self.title}]" if self.title else ""
        place = " ".join(part for part in (table, key) if part)
        raise StudyError(f"{', '.join(p for p in (self.file, place) if p)}: {problem}.")

    def only(self, known: Sequence[str], what: str = "key") -> None:
        """Raise when there are unknown keys."""
        for key in self.content:
            if key not in known:
                hint = suggestion(key, known)
                self.fail(key, f"no such {what}. {hint}Known are {', '.join(known)}")

    def section(self, key: str, default: Any = None) -> "Section":
        """Return a table inside this one."""
        title = f"{self.title}.{key}" if self.title else key
        content = self.content.get(key, default)
        if content is None:
            self.fail(f"[{key}]", "this table is missing")
        return Section(self.file, title, content)

    def text(self, key: str, *, choices: Sequence[str] = ()) -> str | None:
        """Return a non-empty string, or None when the key is absent."""
        value = self.content.get(key)
        if value is None:
            return None
        if not isinstance(value, str) or not value.strip() or "\0" in value:
            self.fail(key, f"must be a text, not {_shown(value)}")
        if choices and value not in choices:
            hint = suggestion(value, choices)
            known = " or ".join(f'"{choice}"' for choice in choices)
            self.fail(key, f'"{value}" is unknown. {hint}Choose {known}')
        return value

    def required(self, key: str) -> str:
        """Return a non-empty string; raise when the key is absent."""
        return self.text(key) or self.fail(key, "this key is missing; it takes a text")

    def name(self, key: str) -> str:
        """Return a text that can be part of a file's name."""
        value = self.required(key)
        self.check_name(key, value)
        return value

    def check_name(self, key: str, value: str) -> None:
        """Raise unless a name can be part of a file name on every system."""
        if not _NAME.fullmatch(value):
            self.fail(
                key,
                f'"{value}" must be letters (a to z), digits, "-" and "_", at most '
                f"64, and begin with a letter or digit",
            )

    def names(
        self, key: str, *, empty: bool = False, one: bool = False
    ) -> tuple[str, ...] | None:
        """Return distinct strings, or None when the key is absent.

        With `one` a string stands for a list of itself.
        """
        value = self.content.get(key)
        if one and isinstance(value, str):
            value = [value]
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
            self.fail(key, f"must be a list of texts, not {_shown(value)}")
        if (not value and not empty) or len(set(value)) != len(value):
            self.fail(key, "must have at least one entry, and none twice")
        return tuple(value)

    def flag(self, key: str, default: bool) -> bool:
        """Return a boolean."""
        value = self.content.get(key, default)
        if not isinstance(value, bool):
            self.fail(key, f"must be true or false, not {_shown(value)}")
        return value

    def whole(self, key: str) -> int | None:
        """Return a non-negative integer, or None when the key is absent."""
        value = self.content.get(key)
        if value is not None and (type(value) is not int or value < 0):
            self.fail(key, f"must be a whole number from 0, not {_shown(value)}")
        return value

    def number(self, key: str) -> float | int | None:
        """Return a non-negative number, possibly infinite, or None when absent."""
        value = self.content.get(key)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if value is not None and not (number and value >= 0):
            self.fail(key, f"must be a number from 0, not {_shown(value)}")
        return value

    def _of_columns(self, key: str, values: str) -> "Section":
        """Return a table of columns, each with a list such as `values`."""
        given = self.content.get(key, {})
        if not isinstance(given, dict):
            self.fail(
                key,
                f"must name columns, each with a list, such as {{ chol = {values} }}, "
                f"not {_shown(given)}",
            )
        return self.section(key, {})

    def ranges(self, key: str) -> dict[str, list[float]]:
        """Return a table of lists of numbers, by key."""
        inner = self._of_columns(key, "[100, 230]")
        for name, values in inner.content.items():
            if not isinstance(values, list) or not all(map(_is_number, values)):
                problem = "must be a list of two numbers such as [100, 230]"
                inner.fail(name, f"{problem}, not {_shown(values)}")
        return {name: [float(v) for v in inner.content[name]] for name in inner}

    def codes(self, key: str) -> dict[str, list[float | str]]:
        """Return a table of lists of numbers and texts, by key."""
        inner = self._of_columns(key, '[0, "n/d"]')
        found: dict[str, list[float | str]] = {}
        for name in inner:
            values = inner.content[name]
            if not isinstance(values, list) or not all(
                isinstance(value, str) or _is_number(value) for value in values
            ):
                inner.fail(
                    name,
                    f"must be a list of numbers and texts such as [0] or "
                    f'["n/d"], not {_shown(values)}',
                )
            found[name] = [v if isinstance(v, str) else float(v) for v in values]
        return found


def _remedy(text: str, problem: str) -> str:
    """Return what to do about a mistake that people make in TOML, or nothing.

    The line is not repeated: it may be an address with a password.
    """
    if re.search(r"(?m)^\s*\[steps\]\s*(#.*)?$", text):
        return " Write [[steps]] with two brackets, once for each step."
    found = re.search(r"at line (\d+)", problem)
    line = text.splitlines()[int(found[1]) - 1] if found else ""
    key, _, value = line.partition("=")
    if "Unescaped" in problem or "hex value" in problem or "\\" in value:
        return " In a path write / in place of \\, or 'single quotes' around it."
    if re.search(r"[^\W0-9A-Za-z_]", re.sub(r"\"[^\"]*\"|'[^']*'", "", line)):
        return (
            " Names with letters other than a to z stand in quotes, such as "
            '{ "Größe" = [0] }; those of silos and studies have none.'
        )
    if "Invalid value" not in problem:
        return ""
    if re.match(r"\s*(True|False)\b", value):
        return f" After {key.strip()} = write true or false, in lower case."
    if re.match(r"[\s\[{]*[\w./~ -]*[^\W\d]", value):
        return f' After {key.strip()} = put each text in quotes, such as "name".'
    return ""


def suggestion(name: str, known: Collection[str]) -> str:
    """Return ``'Did you mean "x"? '``, or an empty string when no name is similar."""
    # Without case: "pca" is similar to "PCA".
    folded = {other.casefold(): other for other in known}
    # A slip is nearer; other words with letters in common are not meant.
    close = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.7)
    return f'Did you mean "{folded[close[0]]}"? ' if close else ""


def read_text(path: Path) -> str:
    """Return the text of a file, or raise a `StudyError`."""
    try:
        # Editors on Windows write a byte order mark, which is no part of the text.
        return path.read_text("utf-8-sig")
    except FileNotFoundError as absent:
        raise StudyError(f"There is no file {path}.") from absent
    except OSError as wrong:
        raise StudyError(f"Cannot read {path}: {wrong.strerror or wrong}.") from wrong
    except UnicodeDecodeError as wrong:
        raise StudyError(
            f"Cannot read {path}: it is not text in UTF-8 ({wrong}). Save it in UTF-8."
        ) from wrong


def toml_text(text: str) -> str:
    """Return a text in quotes, as a key or value of a TOML file."""
    # JSON and TOML escape alike, except surrogate pairs and an unescaped DEL.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def is_plain(value: Any) -> bool:
    """Whether a TOML value can be a parameter: number, string, list or table."""
    if isinstance(value, list):
        return all(map(is_plain, value))
    if isinstance(value, dict):
        return all(map(is_plain, value.values()))
    return isinstance(value, bool | int | float | str)


def _check_sizes(value: Any) -> None:
    """Raise a `ValueError` for a whole number that no message could repeat.

    Python reads hexadecimal digits without a limit, and writes 4,300 decimal ones.
    """
    if isinstance(value, list | dict):
        for one in value.values() if isinstance(value, dict) else value:
            _check_sizes(one)
    elif isinstance(value, int) and value.bit_length() > _MOST_BITS:
        raise ValueError(f"A whole number has more than {_MOST_BITS:,} bits")


def _is_number(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    # An integer of a thousand digits is valid TOML, but not a cell value.
    return number and abs(value) < 1e300 and not math.isnan(value)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
