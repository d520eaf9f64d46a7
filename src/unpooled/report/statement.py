"""A study's statement for data protection: keys of [study], all optional.

[study]
purpose = "Which risk factors vary together?"
controllers = ["University Hospital A", "Hospital B"]
contact = "dpo@hospital-a.example"
legal_basis = "Art. 9(2)(j) GDPR; approval 2026-123 of the ethics committee"
retention = "Models and ledger for ten years; nothing else is kept"

They are part of the text that is announced to silos, and are printed in the report. The
library does nothing with them.
"""

from collections.abc import Mapping
from typing import Any

from unpooled.data.toml import Section
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


def read_statement(head: Section) -> dict[str, str]:
    """Return the statement of a study by heading; what is not given is left out.

    Parameters
    ----------
    head : Section
        The table [study].

    Raises
    ------
    StudyError
        When a value is not a text, or `controllers` neither a text nor a list of texts.
    """
    return statement_of(
        {
            key: head.names(key)
            if key == "controllers" and isinstance(head.content.get(key), list)
            else head.text(key)
            for key in HEADINGS
        }
    )
