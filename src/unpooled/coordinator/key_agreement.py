"""What a fit begins with: offers of keys, and a key for the parties alone.

The coordinator carries all of it and can open none: offers are signed, and the key of
the group is sealed by one party for each other.
"""

from collections.abc import Callable, Mapping
from typing import Any

from unpooled.protocol.message import Message
from unpooled.secure.keys.roster import Roster

Tell = Callable[[dict[str, Any], tuple[str, ...]], Mapping[str, Message]]


def join_header(
    where: Mapping[str, str],
    parties: tuple[str, ...],
    roster: Roster,
    protection: str,
    partition: str,
) -> dict[str, Any]:
    """Return the message that asks every party for its offer."""
    return {
        "kind": "join",
        **where,
        "parties": list(parties),
        "roster": roster.digest(),
        "protection": protection,
        "partition": partition,
    }


def agree_header(
    where: Mapping[str, str], offers: Mapping[str, Message]
) -> dict[str, Any]:
    """Return the message that hands the offers round."""
    signed = {
        party: [reply.header["key"], reply.header["signature"]]
        for party, reply in offers.items()
    }
    return {"kind": "agree", **where, "offers": signed}


def share_group_key(
    where: Mapping[str, str], parties: tuple[str, ...], tell: Tell
) -> None:
    """Have the first party make a key, and every other take it."""
    leader, others = parties[0], parties[1:]
    offer = tell({"kind": "offer group key", **where}, (leader,))
    sealed = offer[leader].header["sealed"]
    accept = {"kind": "accept group key", "leader": leader, "sealed": sealed, **where}
    tell(accept, others)
