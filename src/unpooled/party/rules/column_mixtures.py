"""Which mixtures of a table's columns a request asks about, of somebody's choosing.

    a block V (p, l) of a Krylov round ──> S V     l directions of all p columns
    Fourier features, by a seed        ──> z       l waves across all p columns

Products with p directions are the covariance, column by column, and totals of enough
waves are solved for rows. So a silo counts the mixtures of its columns that it answered
about, and takes no more in all than a policy has room for (`Policy.check_mixtures`).
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from unpooled.ledger import canonical
from unpooled.party.rules.policy import Policy
from unpooled.party.views.view import View
from unpooled.protocol.evidence import features_digest
from unpooled.protocol.message import digest
from unpooled.protocol.refusal import Refusal
from unpooled.protocol.request import Request
from unpooled.protocol.step import Step, find_step
from unpooled.protocol.view_operations import Derive


def mixtures_in(
    policy: Policy, step: Step, request: Request, view: View
) -> dict[str, int]:
    """Return how many mixtures a request asks about, each set of them by a name.

    The same directions, asked again, have the same name. Where a silo allows the whole
    covariance of the columns, directions of it tell nothing more and are left out.
    """
    found = {}
    for position, operation in enumerate(request.operations):
        if isinstance(operation, Derive):
            transform = find_step(operation.step)
            chosen = not (transform.fitted_by or transform.by_column)
            if chosen and not policy.trusts_transform(transform.name):
                name = features_digest(request.operations[: position + 1])
                found[name] = len(operation.columns)
    if not policy.allows_pairs(len(view.columns), view.n_rows):
        features = features_digest(request.operations)
        for block in _blocks(step, request.public):
            told = request.chosen_record[block]["array"]
            name = digest(canonical([features, told]))
            found[name] = request.public[block].shape[1]
    return found


def _blocks(step: Step, public: Mapping[str, Any]) -> Iterator[str]:
    """Name the arguments that mix columns, for releases with an axis over mixtures."""
    told = {letter for leaf in step.leaves.values() for letter in leaf.letters}
    for name, argument in step.takes.items():
        first, *rest = argument.axes.split()
        if step.verb != "summed" or first != "p" or not rest or rest[0] not in told:
            continue
        if not isinstance(public.get(name), np.ndarray):
            # A total that the silos alone open: nobody could count its directions.
            raise Refusal("arguments")
        yield name
