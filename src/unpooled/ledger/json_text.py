"""JSON from a file that anyone may have written."""

import json
from typing import Any


def from_json(text: str | bytes) -> Any:
    """Return the content of a text; a `ValueError` for whatever is wrong with it.

    Python raises a RecursionError, which is none, for a text of ten thousand brackets.
    """
    try:
        return json.loads(text)
    except RecursionError as wrong:
        raise ValueError("it is nested too deeply") from wrong
