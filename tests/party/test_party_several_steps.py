"""Several steps in one message: each is answered, checked and written as if alone."""

from dataclasses import replace

import numpy as np
import pytest

from unpooled.coordinator.replies import Replies, replies_by_step
from unpooled.protocol.message import decode, encode, joined
from unpooled.protocol.several_steps import parts_of, replies_together, together
from unpooled.protocol.view_operations import Select
from wire import COLUMNS, Rogue, rows, silos

TOTAL = "pca.local_total"
VIEWS = [(Select(COLUMNS),), (Select(COLUMNS[:2]),), (Select(COLUMNS[1:]),)]


@pytest.fixture
def rogue():
    return Rogue(
        silos({name: rows(60, seed=i) for i, name in enumerate("abc")})
    ).enter()


def requests(rogue, views=VIEWS, **more):
    """Steps of one round."""
    made = [rogue.request(TOTAL, operations=view, **more) for view in views]
    return [replace(request, round=made[0].round) for request in made]


def message(rogue, steps):
    parts = [encode(*request.as_message()) for request in steps]
    where = rogue.where
    return parts, encode(*together(where["study"], where["session"], parts))


def answered(rogue, steps):
    """Return the replies to steps that came together, by party."""
    _, data = message(rogue, steps)
    replies = rogue.silos.answers(dict.fromkeys(rogue.names, data))
    roster = rogue.silos.roster
    return {
        party: [decode(part, roster, party) for part in parts_of(decode(reply))]
        for party, reply in replies.items()
    }


def rules(rogue, data):
    replies = rogue.silos.answers(dict.fromkeys(rogue.names, data))
    return {decode(reply).header.get("rule", "") for reply in replies.values()}


def test_each_step_has_its_own_masks_and_lines(rogue):
    steps = requests(rogue)
    replies = answered(rogue, steps)

    for party, own in replies.items():
        assert [reply.header["kind"] for reply in own] == ["released"] * 3
        words = [reply.arrays["count"].tobytes() for reply in own]
        # The same number under other masks.
        assert len(set(words)) == 3
        ledger = rogue.silos.parties[party].studies["study"].ledger
        assert [line.round for line in ledger] == [1] * 6
        ledger.verify()


def test_the_same_bytes_get_the_same_reply_and_a_round_is_answered_once(rogue):
    steps = requests(rogue)
    _, data = message(rogue, steps)
    first = rogue.silos.answers({"a": data})
    assert rogue.silos.answers({"a": data}) == first

    _, other = message(rogue, steps[::-1])
    alone = encode(*steps[0].as_message())
    for late in (other, alone):
        (reply,) = rogue.silos.answers({"a": late}).values()
        assert decode(reply).header["rule"] == "replayed"


def test_after_a_step_that_is_refused_none_is_answered(rogue):
    views = [VIEWS[0], (Select(("nobody has it",)),), VIEWS[2]]
    replies = answered(rogue, requests(rogue, views))

    for party, own in replies.items():
        assert [reply.header["kind"] for reply in own] == ["released", "refused"]
        assert own[1].header["rule"] == "unknown_columns"
        assert len(rogue.silos.parties[party].studies["study"].ledger) == 2


def test_forms_that_no_coordinator_sends_are_refused(rogue):
    steps = requests(rogue)
    equal = [steps[0], steps[0]]
    apart = [steps[0], replace(steps[1], round=steps[0].round + 1)]
    elsewhere = [steps[0], replace(steps[1], session="another")]
    for several in (equal, apart, elsewhere, steps[:1]):
        assert rules(rogue, message(rogue, several)[1]) == {"malformed_message"}

    join = encode({"kind": "join", **rogue.where}, {})
    where = rogue.where["study"], rogue.where["session"]
    good = encode(*steps[0].as_message())
    header, arrays = together(*where, [good, good[:-1]])
    _, whole = together(*where, [encode(*one.as_message()) for one in steps])
    for broken in (
        encode(*together(*where, [good, join])),
        encode(header, arrays),
        encode(header, dict(reversed(whole.items()))),
        encode(header, {"0": arrays["0"], "1": np.zeros(3)}),
    ):
        assert rules(rogue, broken) == {"malformed_message"}
    # Nothing left, and the session goes on.
    assert {
        len(party.studies["study"].ledger) for party in rogue.silos.parties.values()
    } == {0}
    rogue.round += 1
    assert answered(rogue, requests(rogue))["a"][0].header["kind"] == "released"


# --- what a coordinator takes ---------------------------------------------------------


def by_step(rogue, lie):
    """Return the replies by step, and the problem, where the parts are `lie`'s."""
    steps = requests(rogue)
    parts, data = message(rogue, steps)
    party = rogue.silos.parties["a"]
    own = parts_of(decode(joined(party.handle(data))))
    answer = decode(encode(*replies_together(lie(own))))
    replies = Replies({"a": answer})
    return replies_by_step(rogue.silos.roster, parts, replies), replies.problem


def test_replies_are_taken_by_the_step_that_they_name(rogue):
    found, problem = by_step(rogue, lambda own: own)
    assert problem is None
    assert [list(one) for one in found] == [["a"]] * 3


@pytest.mark.parametrize(
    "lie",
    [
        lambda own: own[::-1],
        lambda own: [own[0], own[0], own[0]],
        lambda own: [*own, own[0]],
        lambda own: [own[0], own[1][:-8] + b"\0" * 8, own[2]],
        lambda own: [own[0], b"", own[2]],
    ],
)
def test_replies_to_other_steps_are_a_problem(rogue, lie):
    _, problem = by_step(rogue, lie)

    assert problem is not None
    assert problem.rule == "malformed_message"
