"""Text on the terminal: numbers, names that are safe to print, one console."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

_UNPRINTABLE = "\N{REPLACEMENT CHARACTER}"


def printable(text: str) -> str:
    """Return a text on one line, without control characters.

    Names of columns and parties come from files; an escape sequence in one must not
    move the cursor or change what is on the screen.
    """
    flat = " ".join(text.split())
    return "".join(c if c.isprintable() else _UNPRINTABLE for c in flat)


def shape(axes: tuple[int, ...]) -> str:
    """Return the shape of an array: 13 × 13, or 1 for a single number."""
    return " × ".join(f"{length:,}" for length in axes) or "1"


def console() -> "Console":
    """Return the console that commands write to."""
    from rich.console import Console

    # With emoji, ":AB:" in a fingerprint would be replaced.
    return Console(highlight=False, emoji=False)


def say(text: str) -> None:
    """Write one line without line breaks, so that a path in it can be copied."""
    console().print(text, markup=False, soft_wrap=True)


def complain(reason: str) -> None:
    """Write one red line to standard error."""
    from rich.console import Console
    from rich.text import Text

    text = Text("Error: ", "bold red") + Text(printable(reason), "red")
    # Without line breaks: the terminal wraps it, and a log has one line.
    Console(stderr=True).print(text, soft_wrap=True)
