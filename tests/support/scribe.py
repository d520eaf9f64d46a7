"""What writes rounds into an audit log, in a test or in a process that a test kills."""

import sys

from unpooled.ledger import Release, Seal
from unpooled.party.memory.audit_log import AuditLog
from unpooled.protocol.answered import Answered
from unpooled.secure.keys.roster import Identity


def a_round(
    journal: AuditLog, identity: Identity, study: str = "s", lines: int = 2
) -> None:
    """Write a round of made-up lines of party a, sealed in their order."""
    ledger, key = journal.ledger(study), identity.public.hex()
    before = len(ledger)
    for sequence in range(before, before + lines):
        line = Release(
            study, 1, "x.y", "n", (3,), "uint64", 24, "summed", "out", ("a",)
        )
        signature = identity.sign(line.statement("a", sequence, "00")).hex()
        ledger.append(line, {"a": Seal(key, sequence, "00", signature)})
    answered = Answered(
        "s", "session", 1, "x.y", "v", "f", 1, {}, {"a": key}, "masked", "r"
    )
    journal.released(
        identity,
        ledger[before:],
        ran=("x.y", ()),
        request="00",
        answered=answered,
        columns=["x0"],
        parties=["a", "b", "c"],
        table="table",
        rows=None,
    )


if __name__ == "__main__":
    # Each round is told once it is written, so that the test knows what must be there.
    endless, me = AuditLog(sys.argv[1]), Identity(bytes.fromhex(sys.argv[2]))
    print("ready", flush=True)
    while True:
        a_round(endless, me, lines=3)
        print(endless.study("s").lines, flush=True)
