"""A silo's signature under each of its ledger lines."""

from collections.abc import Mapping
from dataclasses import replace

from unpooled.ledger import Ledger, Release, Seal
from unpooled.secure.keys.roster import Identity


def sealed_lines(
    party: str,
    identity: Identity,
    ledger: Ledger,
    first: int,
    lines: list[tuple[Release, str]],
    digests: Mapping[str, str],
) -> Ledger:
    """Return the lines as they follow on the silo's own ledger, sealed.

    Parameters
    ----------
    first : int
        How many lines the silo sealed under this identity before.
    lines : list of (Release, str)
        With the name of each one's array.
    digests : mapping of str to str
        SHA-256 of the arrays by these names.
    """
    grown = Ledger(ledger)
    for sequence, (line, source) in enumerate(lines, first):
        content = digests[source]
        statement = line.statement(party, sequence, content)
        signature = identity.sign(statement).hex()
        seal = Seal(identity.public.hex(), sequence, content, signature)
        grown.append(replace(line, parties=(party,)), {party: seal})
    return grown[len(ledger) :]
