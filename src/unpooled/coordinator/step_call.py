"""The interface of whatever runs a federation's rounds: the coordinator, or a dry run.

A `StepCall` is what an estimator's verb asks for; a `RoundRunner` carries it out at
every party and returns totals; a `RoundRecord` is what that cost.
"""

import abc
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

from unpooled.ledger import Ledger
from unpooled.protocol.following import Call, OpenedRound
from unpooled.protocol.request import Request, view_arrays
from unpooled.protocol.sizes import ViewSize
from unpooled.protocol.step import Step
from unpooled.protocol.topology import Graph
from unpooled.protocol.view_operations import Operation, Rows


@final
@dataclass(frozen=True)
class RoundRecord:
    """The cost of one round, in seconds and bytes.

    Attributes
    ----------
    round : int
        Number of the round in the study; 0 for the key agreement that begins each fit.
    step : str
        Name of the step, or kind of the message.
    seconds : float
        From the first message sent to the last reply checked.
    bytes_out, bytes_in : int
        Sent and received by each party, on average: whole messages, with headers and
        signatures.
    """

    round: int
    step: str
    seconds: float
    bytes_out: int
    bytes_in: int


class Needs(NamedTuple):
    """Requirements of a model on the cells of its columns.

    Attributes
    ----------
    complete : bool
        It takes no missing cells.
    varying : bool
        It takes no column that is constant over the rows of all silos.
    within : bool
        Nor one that is constant within every silo, with other values elsewhere.
    except_of : tuple of str
        Columns that may be constant all the same, such as a response. Their names
        are not sent to silos.
    valued : bool
        It takes no column that lacks every value in all silos.
    """

    complete: bool = False
    varying: bool = False
    within: bool = False
    except_of: tuple[str, ...] = ()
    valued: bool = False


_NOTHING = Needs()


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class StepCall:
    """A step to be run at every party, with its view and its arguments.

    Attributes
    ----------
    step : Step
        The declared step.
    operations : tuple of Operation
        The view: what each silo applies to its own rows before the step.
    extents : mapping of str to ViewSize
        Size of the view, by party.
    public : mapping
        Keyword arguments of the step.
    to : {"coordinator", "parties"}
        Who can open the totals of a summed step.
    kept_of : str
        Address of the fit whose kept arrays the step reads; empty for this fit.
    topology : mapping of str to tuple of str, optional
        Neighbours of each party, in an exchanged step.
    needs : Needs
        What the model that asks needs of the cells of its columns, for a plan.
    """

    step: Step
    operations: tuple[Operation, ...]
    extents: Mapping[str, ViewSize]
    public: Mapping[str, Any]
    to: str = "coordinator"
    kept_of: str = ""
    topology: Graph | None = None
    needs: Needs = _NOTHING

    def sizes(self, parties: Iterable[str]) -> dict[str, Mapping[str, int]]:
        """Return the sizes of the axis letters by party, in the order of `parties`."""
        return {
            party: self.extents[party].sizes(self.step, self.public)
            for party in parties
        }

    @property
    def selects_rows(self) -> bool:
        """Whether the view has some of the blocks of rows only."""
        return any(isinstance(one, Rows) for one in self.operations)

    def new_arrays(self, sent: set[str]) -> frozenset[str]:
        """Return the keys of the view's arrays that were not sent in this session."""
        return frozenset(set(view_arrays(self.operations)) - sent)

    def request(
        self,
        *,
        study: str,
        session: str,
        round_number: int,
        fresh: frozenset[str],
        calls: tuple[Call, ...] = (),
        opened: tuple[OpenedRound, ...] = (),
    ) -> Request:
        """Return the request that every party receives."""
        return Request(
            study=study,
            session=session,
            round=round_number,
            step=self.step.name,
            to=self.to,
            operations=self.operations,
            public=dict(self.public),
            fresh=fresh,
            kept_of=self.kept_of,
            calls=calls,
            opened=opened,
            topology=self.topology,
        )


class RoundRunner(abc.ABC):
    """Runs the rounds of a federation.

    Attributes
    ----------
    parties : tuple of str
        Names of the parties, in the study's order.
    study : str
        Name of the study.
    protection : {"masked", "plain"}
        How totals travel.
    ledger : Ledger
        Every array that crossed a silo's boundary.
    records : list of RoundRecord
        The cost of each round.
    notes : list of str
        Reasons for choices that models made, for plan and report.
    planned : bool
        Whether answers are placeholders and nothing leaves a silo.
    n_rows : int
        In a plan, what stands for the number of rows of all silos.
    n_classes : int
        In a plan, the fewest classes that a label is taken to have.
    follows : bool
        Whether every silo repeats each call by itself, and is sent what it needs.
    needs : Needs
        What the model that asks needs of the cells of its columns, for a plan.
    """

    parties: tuple[str, ...]
    study: str
    protection: str
    ledger: Ledger
    records: list[RoundRecord]
    notes: list[str]
    planned: bool
    follows: bool
    n_rows: int = 0
    n_classes: int = 2
    needs: Needs = Needs()

    @abc.abstractmethod
    def enter(self, call: Callable[[], Call] | None = None) -> None:
        """Begin a fit, in a session of its own; fits may be nested.

        Parameters
        ----------
        call : callable, optional
            Returns the call whose rounds follow; only called where the silos follow.
        """

    @abc.abstractmethod
    def exit(self) -> None:
        """End a fit; the outermost ends the session."""

    @abc.abstractmethod
    def begin_computing(self, allow_coordinator_party: bool = False) -> None:
        """Prepare the secure comparisons of this fit, unless that was done.

        Parameters
        ----------
        allow_coordinator_party : bool, default False
            Whether the coordinator may compute as a third party beside two silos.

        Raises
        ------
        AggregationError
            When too few parties, or too many without a committee, would compute.
        """

    def narrow(self) -> None:  # noqa: B027 - only a plan has something to note
        """Note that the fit leaves out columns which only its totals tell."""

    @abc.abstractmethod
    def seed(self) -> int:
        """Return the public seed of this session, which nobody chose.

        Where no session is open, one begins: the seed is made of its keys.
        """

    @abc.abstractmethod
    def run_step(self, call: StepCall) -> dict[str, Any]:
        """Run a step at every party.

        Returns
        -------
        dict of str to array, `Veiled` or dict
            The totals by name of a summed step, `Veiled` with ``to="parties"``; such a
            dict by party of a disclosed one; the signs of a compared one. Empty for an
            exchanged step.
        """

    def run_steps(self, calls: Sequence[StepCall]) -> list[dict[str, Any]]:
        """Run several steps at every party, in the same messages.

        Parameters
        ----------
        calls : sequence of StepCall
            Calls of summed steps, no two of them alike.

        Returns
        -------
        list of dict
            As of `run_step`, in the order of the calls.
        """
        return [self.run_step(call) for call in calls]


class RunnerOver(RoundRunner):
    """A runner that leaves to another one whatever it does not define itself."""

    _runner: RoundRunner

    def _stand_before(self, runner: RoundRunner) -> None:
        self._runner = runner
        for name in RoundRunner.__annotations__:
            setattr(self, name, getattr(runner, name))

    def enter(self, call: Callable[[], Call] | None = None) -> None:
        """Begin a fit."""
        self._runner.enter(call)

    def exit(self) -> None:
        """End a fit."""
        self._runner.exit()

    def begin_computing(self, allow_coordinator_party: bool = False) -> None:
        """Prepare the secure comparisons of this fit, unless that was done."""
        self._runner.begin_computing(allow_coordinator_party)

    def narrow(self) -> None:
        """Note that the fit leaves out columns which only its totals tell."""
        self._runner.narrow()

    def seed(self) -> int:
        """Return the session's seed."""
        return self._runner.seed()
