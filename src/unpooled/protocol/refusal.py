"""The exception with which a rule of a silo ends a request."""


class Refusal(Exception):  # noqa: N818 - a reply, caught at the door
    """A rule refused a request; the party's reply names the rule and nothing else.

    Parameters
    ----------
    rule : str
        All that leaves the silo.
    detail : str, optional
        A sentence with the silo's own numbers, for its log.
    """

    def __init__(self, rule: str, detail: str = "") -> None:
        super().__init__(f"{rule}. {detail}" if detail else rule)
        self.rule, self.detail = rule, detail
