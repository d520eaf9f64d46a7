"""A plan: what a fit would exchange, what silos would refuse, what it would cost."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, final

from unpooled.data.columns import listing
from unpooled.errors import RULES
from unpooled.ledger import HEAD, Ledger, Release
from unpooled.ledger.notebook_tables import html_table
from unpooled.protocol.opened_numbers import SHARE, messages_of, numbers_of_lines
from unpooled.protocol.privacy_cost import Spent, spent
from unpooled.results.formats import counted

if TYPE_CHECKING:
    import pandas as pd

# Work of a computing process for what it sends: 0.1 to 0.25 s for 1 MB, measured.
_SECONDS_PER_BYTE = 2.5e-7


@final
@dataclass(frozen=True)
class Refused:
    """Steps that silos would refuse by one rule.

    Attributes
    ----------
    rule, sentence, remedy : str
        The rule's name, what it says, and what can be done.
    steps : mapping of str to list of str
        By silos, listed in a text, the steps that the same silos would refuse.
    columns : mapping of str to tuple of str
        By party, the columns that a rule about cells names.
    explanations : mapping of str to str
        By simulated party, its own numbers behind the refusal.
    """

    rule: str
    sentence: str
    remedy: str
    steps: Mapping[str, list[str]]
    columns: Mapping[str, tuple[str, ...]]
    explanations: Mapping[str, str]

    def __str__(self) -> str:
        lines = [f"Refused by {self.rule}: {self.sentence}."]
        lines += [f"  {who}: {', '.join(steps)}" for who, steps in self.steps.items()]
        lines += [
            f"  {party}, columns: {listing(columns)}"
            for party, columns in self.columns.items()
        ]
        return "\n".join([*lines, f"  {self.remedy}" * bool(self.remedy)])


@final
@dataclass(frozen=True)
class Plan:
    """A fit's exchanges, refusals and costs, before anything is sent.

    Attributes
    ----------
    releases : tuple of Release
        The lines of the ledger, in order (without times, hashes and seals).
    refusals : tuple of (str, str, str)
        Party, step and rule, for each step that a silo would refuse.
    parties : tuple of str
        Names of the parties.
    protection : str
        "masked" or "plain".
    notes : tuple of str
        Reasons for choices that models made, and the cost of the other choices.
    latency : float
        Seconds from a request to the last reply, measured while the silos were queried
        for their rules; 0 where they were not.
    n_columns : int
        Number of columns that the fit reads; 0 where it is not known.
    columns_at : mapping of str to int
        On a column partition, how many columns each silo has; else empty.
    explanations : mapping of (str, str) to str
        By party and rule, the silo's own numbers behind a refusal. Only where silos are
        simulated: they tell, for instance, how many rows a silo has.
    refused_columns : tuple of tuple of str
        For each refusal the columns that it is about, where a rule about cells names
        them; empty where there are none.
    libraries : mapping of str to str
        Each silo's build of the library; empty where the silos are simulated.
    undecided : mapping of str to str
        The silos where a person has not approved the study, each with "waiting" or
        "denied".
    """

    releases: tuple[Release, ...]
    refusals: tuple[tuple[str, str, str], ...]
    parties: tuple[str, ...]
    protection: str
    notes: tuple[str, ...] = ()
    latency: float = 0.0
    n_columns: int = 0
    columns_at: Mapping[str, int] = field(default_factory=dict)
    explanations: Mapping[tuple[str, str], str] = field(default_factory=dict)
    refused_columns: tuple[tuple[str, ...], ...] = ()
    libraries: Mapping[str, str] = field(default_factory=dict)
    undecided: Mapping[str, str] = field(default_factory=dict)

    @property
    def reasons(self) -> tuple[tuple[str, str, str, tuple[str, ...]], ...]:
        """Party, step, rule and named columns of each refusal."""
        named = itertools.chain(self.refused_columns, itertools.repeat(()))
        return tuple(
            (*refusal, columns)
            for refusal, columns in zip(self.refusals, named, strict=False)
        )

    @property
    def refused(self) -> tuple[Refused, ...]:
        """The refusals by rule, in the order of the first of each."""
        found = []
        for rule in dict.fromkeys(rule for _, _, rule in self.refusals):
            by_step: dict[str, list[str]] = {}
            columns: dict[str, tuple[str, ...]] = {}
            for party, step, other, named in self.reasons:
                if other == rule:
                    by_step.setdefault(step, []).append(party)
                    columns |= {party: named} if named else {}
            steps: dict[str, list[str]] = {}
            for step, parties in by_step.items():
                of_all = set(parties) == set(self.parties) and len(self.parties) > 1
                several = dict.fromkeys(parties)
                who = f"all {len(self.parties)} silos" if of_all else ", ".join(several)
                steps.setdefault(who, []).append(step)
            told = {
                party: more
                for (party, other), more in self.explanations.items()
                if other == rule
            }
            found.append(
                Refused(rule, *RULES.get(rule, (rule, "")), steps, columns, told)
            )
        return tuple(found)

    @property
    def rounds(self) -> int:
        """Number of synchronous exchanges, without the key agreement."""
        return len({line.round for line in self.releases})

    @property
    def bytes(self) -> int:
        """Bytes of arrays that each party would send; the largest, if they differ."""
        return self._bytes("out")

    @property
    def bytes_in(self) -> int:
        """Bytes of arrays that each party would receive."""
        return self._bytes("in")

    @property
    def seconds(self) -> float:
        """Estimated time of rounds and secure computation, without work on rows."""
        kinds = ("compared", "computed")
        lines = [line for line in self.releases if line.visibility in kinds]
        compared = len({x.round for x in lines if x.visibility == "compared"})
        within = sum(messages_of(line) for line in lines)
        # Messages between computing processes go one way: half a latency each.
        waits = (self.rounds - compared + (compared + within) / 2.0) * self.latency
        return waits + _SECONDS_PER_BYTE * sum(line.bytes for line in lines)

    @property
    def numbers(self) -> float:
        """Count of the numbers that the fit would open, as of `max_released_share`.

        Releases with an entry for each person are not among them.
        """
        return max(
            numbers_of_lines(line for line in self.releases if party in line.parties)[0]
            for party in self.parties
        )

    @property
    def privacy(self) -> Spent | None:
        """Cost of all releases with noise together; None where there are none."""
        return spent(self.releases)

    @property
    def opened(self) -> str:
        """Sentences on the numbers that the fit would open, and on their privacy."""
        privacy, n = self.privacy, round(self.numbers)
        opens = f"Opens {n:,} number{'s' * (n != 1)}"
        after = "" if privacy is None else f" {privacy}"
        if not self.n_columns or not n:
            return f"{opens}.{after}"
        if self.columns_at:
            return f"{opens}{self._of_people()}{after}"
        each = self.numbers / self.n_columns
        return (
            f"{opens}, {each:,.1f} for each of "
            f"{self.n_columns:,} columns. Silos that allow numbers up to a share of "
            f"{SHARE} of the cells need {math.ceil(each / SHARE):,} rows in all."
            f"{after}"
        )

    def _of_people(self) -> str:
        """Return how many people it takes where each silo counts about own columns."""
        party, own = min(self.columns_at.items(), key=lambda item: item[1])
        # A total is about a column at least of each other silo too.
        each = self.numbers / (own + len(self.parties) - 1)
        people = counted(math.ceil(each / SHARE), "person", "people")
        return (
            f", which each silo counts about its own columns: {party}, with "
            f"{own:,} of {self.n_columns:,}, allows them by a share of {SHARE} from "
            f"{people} on, or from more where folds of them are fitted."
        )

    def to_frame(self) -> "pd.DataFrame":
        """Return the lines of the plan as a pandas data frame.

        Returns
        -------
        DataFrame
            One row for each array: "round", "step", "name", "shape" (a tuple), "bytes",
            "visibility", "direction" and "parties" (a tuple).

        Raises
        ------
        DataError
            If pandas is not installed.
        """
        frame = Ledger(self.releases).to_frame()
        return frame.drop(columns=["study", "peers", "time"])

    def _repr_html_(self) -> str:
        caption = " ".join(
            [f"{self._head}.", self.opened, *self.notes, *map(str, self.refused)]
        )
        return html_table(caption, HEAD, Ledger(self.releases).rows())

    @property
    def _head(self) -> str:
        return (
            f"{len(self.parties)} parties, {self.rounds} rounds, each sends "
            f"{self.bytes:,} bytes ({self.protection})"
        )

    def _bytes(self, direction: str) -> int:
        lines = [line for line in self.releases if line.direction == direction]
        return max(
            sum(line.bytes for line in lines if party in line.parties)
            for party in self.parties
        )

    def __str__(self) -> str:
        table = str(Ledger(self.releases))
        return "\n".join(
            [self._head, self.opened, *self.notes, table, *map(str, self.refused)]
        )
