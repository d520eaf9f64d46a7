"""The facts that a report is made from, apart from how it looks.

A run folder holds the same facts, so its report can be written again at any time.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, final

import numpy as np

from unpooled.coordinator.channel import LocalChannel
from unpooled.coordinator.step_call import RoundRecord
from unpooled.errors import DataError, ReleaseRefusedError
from unpooled.federation.federation import Federation
from unpooled.federation.planning.dry_run import plan
from unpooled.ledger import Ledger, Release
from unpooled.models.base import FederatedEstimator
from unpooled.protocol.block_levels import COUNTED
from unpooled.protocol.declaration import Declared, Public
from unpooled.protocol.matching_stages import STAGES
from unpooled.protocol.step import find_step, home_of, module_of
from unpooled.results.subjects import first_line, subject
from unpooled.results.summary import Summary, summaries_of

SIMULATED = (
    "This was a simulation: all silos ran in one process on one machine. The messages, "
    "keys and rules were those used between organisations, but the person who ran the "
    "process had access to all rows."
)


@final
@dataclass(frozen=True)
class Facts:
    """The contents of a report, without its appearance.

    Attributes
    ----------
    title, study : str
        The heading, and the study's name in the ledger.
    parties : tuple of str
        The silos, in the study's order.
    partition : {"rows", "columns"}
        What differs between silos.
    protection : {"masked", "plain"}
        How totals travelled.
    ledger : Ledger
        Every array that left or entered a silo.
    rounds : list of RoundRecord
        Time and bytes of each exchange.
    models : list of (str, estimator)
        Fitted, with the names of their steps.
    feature_names : tuple of str
        Columns of the federation.
    policies : dict of str to dict, or None
        Each silo's rules by its name, where the coordinator knows them.
    notes : list of str
        Plain sentences for the first page.
    statement : dict of str to str
        What the study says of itself, by heading: purpose, controllers, contact, legal
        basis and retention, as far as they are given.
    carried : dict of str to tuple of str
        By silo, columns of which one row carries half of a direction, or more.
    columns_of : dict of str to tuple of str
        By silo, its own columns, where silos have different ones and that is known.
    evaluation : Summary or None
        How the models did on rows that they were not fitted on, if that was asked for.
    silo : str
        The silo whose own log the ledger is; empty of a coordinator's ledger, which has
        the lines of all silos.
    label : str
        The label of the study's rows; empty where it has none, or it is not known.
    rows_at_least : int
        Rows that are certainly behind each total, where N is not known: of a silo's own
        log, the silo's own.
    """

    title: str
    study: str
    parties: tuple[str, ...]
    partition: str
    protection: str
    ledger: Ledger
    rounds: list[RoundRecord]
    models: list[tuple[str, Any]]
    feature_names: tuple[str, ...]
    policies: dict[str, dict[str, Any]] | None = None
    notes: list[str] = field(default_factory=list)
    statement: dict[str, str] = field(default_factory=dict)
    evaluation: Summary | None = None
    carried: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    columns_of: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    silo: str = ""
    label: str = ""
    rows_at_least: int = 0

    @cached_property
    def summaries(self) -> list[Summary]:
        """The results of the models, in their order."""
        return summaries_of([model for _, model in self.models])

    @property
    def n_rows(self) -> int | None:
        """N, the total sample size, where a fitted model has it."""
        counts = [0]
        for _, model in self.models:
            # Not `getattr`: it would request what the silos keep.
            known = vars(model)
            for name in ("n_samples_", "n_samples_seen_"):
                counts.append(int(np.max(known.get(name, 0))))
            counts.append(int(np.sum(known.get("class_count_", 0))))
            # The size in a description, of all rows and of each class; NaN where
            # withheld.
            counts.append(int(np.nan_to_num(known.get("size_", 0.0)).max()))
        return max(counts) or None

    @property
    def label_read(self) -> str:
        """The label, if a step of the ledger read it."""
        steps = {line.step for line in self.ledger}
        return self.label if any(map(_reads_label, steps)) else ""

    def lines(self, direction: str) -> list[Release]:
        """Return the ledger's lines of one direction; what is kept is neither."""
        return [
            line
            for line in self.ledger
            if line.direction == direction and line.visibility != "kept"
        ]


def facts_of(model: Any, federation: Any, title: str | None = None) -> Facts:
    """Gather the facts of a fit.

    Parameters
    ----------
    model : estimator, Pipeline, or a list or dict of them
        Fitted.
    federation : Federation
        The one it was fitted on, or a view of it.
    title : str, optional
        The heading; by default what the last model does.
    """
    from sklearn.utils.validation import check_is_fitted

    if not isinstance(federation, Federation):
        raise DataError(
            f"The report needs the Federation that the model was fitted on, not "
            f"{type(federation).__name__}: report(model, federation, path)."
        )
    models = named_models(model)
    for _, estimator in models:
        check_is_fitted(estimator)
        _check_fitted_on(federation, estimator)
    coordinator = federation.coordinator
    policies = getattr(coordinator, "policies", None)
    local = isinstance(getattr(coordinator, "channel", None), LocalChannel)
    return Facts(
        title=title or (subject(models[-1][1]) if models else "A federated study"),
        study=coordinator.study,
        parties=federation.parties,
        partition=federation.partition,
        protection=coordinator.protection,
        ledger=federation.ledger,
        rounds=list(federation.rounds),
        models=models,
        feature_names=federation.feature_names,
        columns_of=federation.columns_of if federation.partition == "columns" else {},
        label=federation.label or "",
        policies=policies and {name: dict(policies[name]) for name in policies},
        notes=[SIMULATED] if local else [],
        carried=getattr(coordinator, "carried", {}),
    )


def _check_fitted_on(federation: Federation, model: Any) -> None:
    """Refuse a model without lines in the ledger: its page would say nothing left."""
    module = f"{home_of(type(model).__module__)}."

    def has_lines(lines: Iterable[Release]) -> bool:
        return any(line.step.startswith(module) for line in lines)

    if not isinstance(model, FederatedEstimator) or has_lines(federation.ledger):
        return
    try:
        # Some fits release nothing, such as filling in a constant.
        missing = has_lines(plan(model, federation).releases)
    except DataError:
        missing = True
    if missing:
        raise DataError(
            f"The federation's ledger has no line of {type(model).__name__}, which was "
            f"fitted on another. Pass the federation of the fit, or a view of it."
        )


def named_models(model: Any) -> list[tuple[str, Any]]:
    """Return (name, estimator) for every estimator in a model, in order."""
    if isinstance(model, Mapping):
        pairs = list(model.items())
    elif hasattr(model, "steps"):
        pairs = list(model.steps)
    elif isinstance(model, Sequence) and not isinstance(model, str):
        pairs = [(type(one).__name__.lower(), one) for one in model]
    elif hasattr(model, "get_params"):
        return [(type(model).__name__.lower(), model)]
    else:
        raise DataError(
            f"The report takes a fitted estimator, a Pipeline, or a list or dict of "
            f"them, not {type(model).__name__}."
        )
    found = []
    for name, part in pairs:
        if part is None or part == "passthrough":
            continue
        inner = named_models(part)
        alone = len(inner) == 1 and inner[0][1] is part
        found += [(str(name), part)] if alone else inner
    return found


def subject_of_step(step: str) -> str:
    """Return in a few words what a step is part of: its model's subject."""
    if step in STAGES:
        return "Matching rows by their ids"
    if step in COUNTED:
        return "Counting blocks of rows before folds and splits"
    return first_line(module_of(step)) or step


def _reads_label(step: str) -> bool:
    if step in STAGES or step in COUNTED:
        return False
    try:
        return "y" in find_step(step).reads
    except ReleaseRefusedError:
        return False


def argument(step: str, name: str) -> Public | None:
    """Return the declaration of a step's public array, if the step is known here."""
    try:
        return find_step(step).takes.get(name)
    except ReleaseRefusedError:
        return None


def declaration(step: str, name: str) -> Declared | None:
    """Return the declaration of an array of a step, if the step is known here."""
    if (stage := {**STAGES, **COUNTED}.get(step)) is not None:
        return stage.declared.get(name)
    try:
        return find_step(step).declared.get(name)
    except ReleaseRefusedError:
        return None
