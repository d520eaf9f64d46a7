"""The exception with which a rule of a silo ends a request."""

from typing import Any


class Refusal(Exception):  # noqa: N818 - a reply, caught at the door
    """A rule refused a request; the party's reply names the rule and nothing else.

    Parameters
    ----------
    rule : str
        All that leaves the silo.
    detail : str, optional
        A sentence with the silo's own numbers, for its log.
    about : JSON value, optional
        What the verdict is about, where that is not what the rule is about elsewhere:
        the same verdict about the same thing counts as one refusal.
    """

    def __init__(self, rule: str, detail: str = "", about: Any = None) -> None:
        super().__init__(f"{rule}. {detail}" if detail else rule)
        self.rule, self.detail, self.about = rule, detail, about
