"""What a study says of itself for data protection: keys of [study], all optional.

[study]
purpose = "Which risk factors vary together?"
controllers = ["University Hospital A", "Hospital B"]
contact = "dpo@hospital-a.example"
legal_basis = "Art. 9(2)(j) GDPR; approval 2026-123 of the ethics committee"
retention = "Models and ledger for ten years; nothing else is kept"

They are part of the text that is announced to silos, and are printed in the report. The
library does nothing with them.
"""

from unpooled.data.toml import Section
from unpooled.report.statement import HEADINGS, statement_of


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
