"""How a rule of a silo ends a request: by its name, and nothing else."""


class Refusal(Exception):  # noqa: N818 - a reply, caught at the door
    """A rule said no; the party's door turns it into a reply that names the rule."""

    def __init__(self, rule: str) -> None:
        super().__init__(rule)
        self.rule = rule
