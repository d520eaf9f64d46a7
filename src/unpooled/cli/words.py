"""Numbers and names as the command writes them."""

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
    value, unit = n / 1000, "kB"
    for larger in ("MB", "GB", "TB"):
        # Rounded to one decimal, this would be 1000.0 of the smaller unit.
        if value >= 999.95:
            value, unit = value / 1000, larger
    return f"{value:.1f} {unit}"


def shape(axes: tuple[int, ...]) -> str:
    """Return the shape of an array: 13 × 13, or 1 for a single number."""
    return " × ".join(f"{size:,}" for size in axes) or "1"


def count(n: int, one: str, many: str = "") -> str:
    """Return "1 round", "6 rounds"."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"
