"""The exception with which a rule of a silo ends a request."""


class Refusal(Exception):  # noqa: N818 - a reply, caught at the door
    """A rule refused a request; the party's reply names the rule and nothing else."""

    def __init__(self, rule: str) -> None:
        super().__init__(rule)
        self.rule = rule
