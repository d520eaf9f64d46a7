"""Numbers and names as the command writes them."""

import math

_TERMINAL_SAFE = "\N{REPLACEMENT CHARACTER}"


def printable(text: str) -> str:
    """Return a text on one line, without characters that a terminal would obey.

    Names of columns and parties come from files; an escape sequence in one must not
    move the cursor or change what is on the screen.
    """
    flat = " ".join(text.split())
    return "".join(c if c.isprintable() else _TERMINAL_SAFE for c in flat)


def size(n: int) -> str:
    """Return a number of bytes as people read it: 3,672 bytes, 51.2 kB, 38.0 MB."""
    if n < 10_000:
        return f"{n:,} bytes"
    power = min(int(math.log10(n)) // 3, 3)
    return f"{n / 1000**power:.1f} {['', 'kB', 'MB', 'GB'][power]}"


def shape(axes: tuple[int, ...]) -> str:
    """Return the shape of an array: 13 × 13, or 1 for a single number."""
    return " × ".join(f"{size:,}" for size in axes) or "1"


def count(n: int, one: str, many: str = "") -> str:
    """Return "1 round", "6 rounds"."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"
