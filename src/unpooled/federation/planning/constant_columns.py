"""Columns that are constant in every silo, and whether a value differs between silos.

A plan asks no silo for a value. Where a model takes no constant column, silos that all
have one compare their values without showing them: see
`secure/comparison/equal_constants.py`.
"""

import secrets
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from unpooled.coordinator.coordinator import Coordinator
from unpooled.protocol.message import Message, encode
from unpooled.secure.comparison.equal_constants import SHARE_BYTES, all_equal
from unpooled.secure.keys.agreement import offer_in


def compared(coordinator: Coordinator, columns: Sequence[str]) -> dict[str, bool]:
    """Return for columns that each silo found constant whether all values are equal.

    A column is left out where a silo does not compare it: where it holds categories or
    no value there, or where the silo has not approved the study or runs an earlier
    version.

    Parameters
    ----------
    coordinator : Coordinator
        Of silos that were just asked for a plan.
    columns : sequence of str
        The columns.

    Raises
    ------
    AggregationError
        When a silo does not answer, or an answer is not signed by it.
    """
    about = {
        "study": coordinator.study,
        "session": secrets.token_hex(16),
        "parties": sorted(coordinator.parties),
        "partition": coordinator.partition,
    }
    offers = _asked(coordinator, {"kind": "offer comparison", **about})
    signed = {
        party: offer_in(reply.header)
        for party, reply in offers.items()
        if reply.header.get("kind") == "offer"
    }
    if len(signed) < len(offers):
        return {}
    question = {"kind": "compare constants", **about, "columns": list(columns)}
    replies = _asked(coordinator, question | {"offers": signed})
    told = [shares_of(reply.header, columns) for reply in replies.values()]
    return {
        column: all_equal(shares[column] for shares in told)
        for column in columns
        if all(column in shares for shares in told)
    }


def shares_of(header: Mapping[str, Any], columns: Collection[str]) -> dict[str, bytes]:
    """Return the shares in a silo's reply; what is none is left out."""
    shares = header.get("shares")
    if header.get("kind") != "compared" or not isinstance(shares, dict):
        return {}
    found = dict[str, bytes]()
    for column in columns:
        try:
            share = bytes.fromhex(shares[column])
        except (KeyError, TypeError, ValueError):
            continue
        if len(share) == SHARE_BYTES:
            found[column] = share
    return found


def _asked(coordinator: Coordinator, header: dict[str, Any]) -> dict[str, Message]:
    message = dict.fromkeys(coordinator.parties, encode(header, {}))
    replies = coordinator.exchange(message, "plan")
    if replies.problem:
        raise replies.problem
    return replies.messages
