"""Numbers, p-values, lists, sizes and times as people write them."""

import math
import re
import unicodedata
from collections.abc import Iterable

# Characters that change the direction of the text around them: a column's name must
# not be able to reverse a sentence about it.
_TURNING = frozenset(
    "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)
# Control characters, halves of surrogate pairs, and unassigned code points.
_UNREADABLE = ("Cc", "Cs", "Cn")
_RAISED = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


def byte_size(n: int) -> str:
    """Return a number of bytes as "9,999 bytes", "10.0 kB", "2.5 MB" or "3.0 TB"."""
    if n < 10_000:
        return f"{n:,} bytes"
    value, unit = n / 1000, "kB"
    for larger in ("MB", "GB", "TB"):
        # Rounded to one decimal, this would be 1000.0 of the smaller unit.
        if value >= 999.95:
            value, unit = value / 1000, larger
    return f"{value:.1f} {unit}"


def minute(time: str) -> str:
    """Return an ISO 8601 time without seconds and zone: "2026-11-26 23:15"."""
    return time[:16].replace("T", " ")


def listed(names: Iterable[str]) -> str:
    """Return names as "a, b and c"."""
    names = [str(name) for name in names]
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def counted(n: int, one: str, many: str | None = None) -> str:
    """Return "1 silo", "4 silos"."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def number(x: float, digits: int = 4) -> str:
    """Return a measured number with so many significant digits."""
    if not math.isfinite(x):
        return "none" if math.isnan(x) else str(x)
    if x == 0:
        return "0"
    exponent = math.floor(math.log10(abs(x)))
    if -4 <= exponent < 6:
        text = f"{x:,.{max(digits - 1 - exponent, 0)}f}"
    else:
        mantissa, _, power = f"{x:.{digits - 1}e}".partition("e")
        text = f"{mantissa} × 10{str(int(power)).translate(_RAISED)}"
    return text.replace("-", "−")


def known_to(x: float, error: float) -> str:
    """Return a number that may be wrong by `error`, without digits beyond it."""
    if x == 0 or not (math.isfinite(x) and 0 < error < math.inf):
        return number(x)
    place = math.floor(math.log10(error))
    if place < math.floor(math.log10(abs(x))) - 4:
        return number(x)
    # Divided by a power of ten where it is a whole number, which is exact.
    step = 10 ** abs(place)
    rounded = float(round(x / step) * step) if place >= 0 else round(x * step) / step
    if rounded == 0:
        return "0"
    size = math.floor(math.log10(abs(rounded)))
    return number(rounded, min(max(size - place + 1, 1), 4))


def ratio(x: float) -> str:
    """Return a ratio with at least two digits of its difference from 1.

    That of one euro more, or of one day, begins with 0.9999 or 1.0000.
    """
    away = abs(x - 1.0)
    if not 1e-9 <= away < 0.005:
        return number(x)
    return f"{x:.{1 - math.floor(math.log10(away))}f}"


def probability(p: float) -> str:
    """Return a p-value with three digits after the point, or as "< 0.001"."""
    if math.isnan(p):
        return "none"
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def degrees_of_freedom(x: int | float) -> str:
    """Return degrees of freedom, which approximate tests have fractions of."""
    if not math.isfinite(x):
        return number(x)
    return f"{x:,.1f}".removesuffix(".0")


def plain_number(x: int | float) -> str:
    """Return a number that a person chose, with the digits that were written."""
    mantissa, _, power = f"{x:,g}".partition("e")
    if power:
        raised = f"10{str(int(power)).translate(_RAISED)}"
        mantissa = raised if mantissa == "1" else f"{mantissa} × {raised}"
    return mantissa.replace("-", "−")


def signed(x: float) -> str:
    """Return a number within [-1, 1] to three places, with its sign."""
    return f"{x:+.3f}".replace("-", "−")


def per_cent(share: float) -> str:
    """Return a share as a percentage."""
    return f"{100 * share:.1f} %"


def duration(seconds: float) -> str:
    """Return a time in milliseconds or seconds."""
    if seconds < 0.0995:
        return f"{1e3 * seconds:.1f} ms"
    return f"{seconds:,.2f} s"


def left_out(shown: int, total: int, items: str, which: str) -> str:
    """Return "Of 64 columns, the first 30 are shown."; empty where all are shown."""
    if shown >= total:
        return ""
    return f"Of {total:,} {items}, the {which} {shown} are shown."


def clean(text: str) -> str:
    """Return a text from outside with unreadable characters replaced by U+FFFD."""
    return "".join(
        "\ufffd" if c in _TURNING or unicodedata.category(c) in _UNREADABLE else c
        for c in re.sub("[\t-\r\u2028\u2029]", " ", text)
    )
