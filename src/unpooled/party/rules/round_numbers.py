"""Numbers of rounds, which the silo counts too: no request uses all of them up.

A session begins with any number, as a resumed study goes on where it was. Afterwards
each step is of the next round, or of a later one where a secure comparison took the
rounds between.
"""

from unpooled.protocol.refusal import Refusal

LAST_ROUND = 2**31
# A comparison takes some tens of rounds.
MOST_SKIPPED = 2**12


def check_round(number: int, answered: int) -> None:
    """Refuse a round that was answered, or that is far ahead.

    Parameters
    ----------
    number : int
        Number of the requested round.
    answered : int
        Number of the last round that the session answered; 0 before the first.
    """
    if number <= answered:
        raise Refusal("replayed")
    next_round = answered + 1 if answered else number
    if number > min(next_round + MOST_SKIPPED, LAST_ROUND):
        raise Refusal("out_of_order")
