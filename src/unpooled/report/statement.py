"""A study's statement for data protection: purpose, controllers, and so on."""

from collections.abc import Mapping
from typing import Any

from unpooled.errors import DataError

# Keys of [study] and parameters of `unpooled.report`, with the words that are printed.
HEADINGS: Mapping[str, str] = {
    "purpose": "Purpose",
    "controllers": "Controllers",
    "contact": "Contact",
    "legal_basis": "Legal basis",
    "retention": "Retention",
}


def statement_of(given: Mapping[str, Any]) -> dict[str, str]:
    """Return texts by heading; what is not given is left out.

    Parameters
    ----------
    given : mapping of str to str, sequence of str or None
        By the keys of `HEADINGS`; only `controllers` may be a sequence.

    Raises
    ------
    DataError
        When a value is neither, or empty.
    """
    found = {}
    for key, heading in HEADINGS.items():
        value = given.get(key)
        if value is None:
            continue
        texts: list[Any] = [value]
        if key == "controllers" and isinstance(value, list | tuple):
            texts = [*value]
        if not texts or not all(isinstance(t, str) and t.strip() for t in texts):
            wanted = "a text or a list of texts" if key == "controllers" else "a text"
            raise DataError(f"{key}={value!r} must be {wanted}.")
        found[heading] = "; ".join(" ".join(text.split()) for text in texts)
    return found
