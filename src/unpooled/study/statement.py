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

from unpooled.data.toml import Section

# Keys of [study], with the words by which they are printed.
HEADINGS: Mapping[str, str] = {
    "purpose": "Purpose",
    "controllers": "Controllers",
    "contact": "Contact",
    "legal_basis": "Legal basis",
    "retention": "Retention",
}


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
    found = {}
    for key, heading in HEADINGS.items():
        several = key == "controllers" and isinstance(head.content.get(key), list)
        text = "; ".join(head.names(key) or ()) if several else head.text(key)
        if text:
            found[heading] = " ".join(text.split())
    return found
