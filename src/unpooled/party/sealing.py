"""A party's signature under every line that it writes."""

from collections.abc import Mapping
from dataclasses import replace

from unpooled.ledger import Ledger, Release, Seal
from unpooled.secure.roster import Identity


def sealed_lines(
    ledger: Ledger,
    party: str,
    identity: Identity,
    first: int,
    lines: list[tuple[Release, str]],
    digests: Mapping[str, str],
) -> Ledger:
    """Return the lines as they follow on the silo's own ledger, sealed.

    Parameters
    ----------
    first : int
        The party's own count of lines under this key, so far.
    lines : list of (Release, str)
        Each with the name of its array in the message.
    digests : mapping of str to str
        SHA-256 by that name.
    """
    grown = Ledger(ledger)
    for sequence, (line, source) in enumerate(lines, first):
        content = digests[source]
        statement = line.statement(party, sequence, content)
        signature = identity.sign(statement).hex()
        seal = Seal(identity.public.hex(), sequence, content, signature)
        grown.append(replace(line, parties=(party,)), {party: seal})
    return grown[len(ledger) :]
