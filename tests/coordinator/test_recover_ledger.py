"""Lines that silos have and the ledger lacks: asked for, checked, written late."""

import numpy as np
import pytest

from unpooled.arrays import Array
from unpooled.coordinator import recover_ledger
from unpooled.coordinator.recover_ledger import recover
from unpooled.errors import AggregationError
from unpooled.ledger import Ledger, Release, Seal
from unpooled.party.memory import studies as dealings
from unpooled.protocol.message import Message, decode, encode
from unpooled.protocol.step import summed
from unpooled.secure.keys.roster import Identity, Roster
from wire import Silos, kind, silos

IDENTITIES = {name: Identity() for name in "abc"}
ROSTER = Roster({name: identity.public for name, identity in IDENTITIES.items()})


@summed(out="")
def counted(X: Array) -> dict[str, Array]:
    return {"out": np.array(float(len(X)))}


def sealed(party: str, sequence: int, round_number: int = 1, **changes) -> Release:
    """A line as a party has it in its own ledger."""
    values = {
        "study": "s", "round": round_number, "step": "x.y", "name": "n", "shape": (3,),
        "dtype": "uint64", "bytes": 24, "visibility": "summed", "direction": "out",
        "parties": (party,), "time": "then", "hash": "own",
    }  # fmt: skip
    line = Release(**(values | changes))
    identity = IDENTITIES[party]
    signature = identity.sign(line.statement(party, sequence, "00")).hex()
    seal = Seal(identity.public.hex(), sequence, "00", signature)
    return Release(**{**vars(line), "seals": {party: seal}})


def recalled(lines: dict[str, list[Release]], ledger: Ledger | None = None, **said):
    """Recall what parties have; `said` overrides how many lines one says it has."""
    ledger = Ledger() if ledger is None else ledger
    counts = {party: len(own) for party, own in lines.items()} | said
    offers = {p: Message({"lines": count}, {}, {}) for p, count in counts.items()}
    asked = []

    def ask(header, parties):
        (party,) = parties
        asked.append((party, header["after"]))
        after = header["after"]
        part = lines[party][after : after + dealings.LINES_OF_A_REPLY]
        return {party: Message({"lines": [x.as_record() for x in part]}, {}, {})}

    return recover(ledger, ROSTER, "s", offers, ask), ledger, asked


def test_nothing_is_asked_where_nothing_is_missing():
    assert recalled({name: [] for name in "abc"})[0::2] == (0, [])


def test_lines_of_one_round_become_one_line_with_all_seals():
    lines = {
        p: [sealed(p, 0), sealed(p, 1, 2), sealed(p, 2, 2, name="m")] for p in "abc"
    }
    last, ledger, asked = recalled(lines)
    assert last == 2
    assert asked == [("a", 0), ("b", 0), ("c", 0)]
    assert [(x.round, x.name, x.parties) for x in ledger] == [
        (1, "n", ("a", "b", "c")),
        (2, "n", ("a", "b", "c")),
        (2, "m", ("a", "b", "c")),
    ]
    assert ledger.verify(ROSTER)
    # Asked again, nothing is missing.
    assert recalled(lines, ledger)[0::2] == (0, [])


def test_a_round_that_only_some_answered_keeps_its_parties():
    lines = {
        "a": [sealed("a", 0), sealed("a", 1, 2)],
        "b": [sealed("b", 0, 2)],
        "c": [sealed("c", 0), sealed("c", 1, 3)],
    }
    last, ledger, _ = recalled(lines)
    assert last == 3
    assert [(x.round, x.parties) for x in ledger] == [
        (1, ("a", "c")), (2, ("a", "b")), (3, ("c",)),
    ]  # fmt: skip
    assert ledger.verify(ROSTER)


def test_many_lines_come_in_several_replies(monkeypatch):
    monkeypatch.setattr(dealings, "LINES_OF_A_REPLY", 4)
    monkeypatch.setattr(recover_ledger, "LINES_OF_A_REPLY", 4)
    lines = {"a": [sealed("a", k, k + 1) for k in range(10)]}
    _, ledger, asked = recalled(lines)
    assert asked == [("a", 0), ("a", 4), ("a", 8)]
    assert len(ledger) == 10
    assert ledger.verify(ROSTER)


@pytest.mark.parametrize("said", [-1, 3, "2", 2.0, True, None, [], 10**9])
def test_a_party_that_says_another_number(said):
    with pytest.raises(AggregationError, match=r"did not return|fewer"):
        recalled({"a": [sealed("a", 0), sealed("a", 1)]}, a=said)


def test_a_log_that_was_cut_is_noticed():
    lines = {"a": [sealed("a", 0), sealed("a", 1)]}
    _, ledger, _ = recalled(lines)
    with pytest.raises(AggregationError, match=r"fewer lines of s .* older backup"):
        recalled({"a": lines["a"][:1]}, ledger)


@pytest.mark.parametrize(
    "line",
    [
        sealed("a", 1),
        sealed("a", 0, study="other"),
        sealed("a", 0, 0),
        sealed("a", 0, 2**40),
        sealed("a", 0, visibility="hidden"),
        sealed("b", 0),
        Release(**{**vars(sealed("a", 0)), "bytes": 5}),
        Release(**{**vars(sealed("a", 0)), "seals": {"a": sealed("b", 0).seals["b"]}}),
        Release(**{**vars(sealed("a", 0)), "seals": {}}),
    ],
)
def test_a_line_that_is_not_what_was_asked_for_is_not_written(line):
    ledger = Ledger()
    with pytest.raises(AggregationError) as wrong:
        recalled({"a": [line]}, ledger)
    assert wrong.value.rule in ("malformed_message", "wrong_signature")
    assert len(ledger) == 0


@pytest.fixture
def here() -> Silos:
    return silos()


def lie(here: Silos, party: str, of_kind: str, **changes) -> None:
    """Have a party change what it replies, under its own signature."""
    own = here.parties[party]._identity

    def altered(replies):
        out = []
        for name, data in replies:
            if name == party and kind(data) == of_kind:
                message = decode(data)
                data = encode({**message.header, **changes}, message.arrays, own)
            out.append((name, data))
        return out

    here.wire.on_replies = altered


@pytest.mark.parametrize("lines", [None, "1", -1, 1, 10**12, [], {}])
def test_a_party_that_lies_about_its_lines_ends_the_fit(here, lines):
    lie(here, "b", "offer", lines=lines)
    with pytest.raises(AggregationError, match=r"^b"):
        here.federation.sum(counted)
    assert len(here.ledger) == 0


@pytest.mark.thinned(1)
@pytest.mark.parametrize("lines", [None, 5, "x", [1], [{}], [None], [[]], {"a": 1}])
def test_a_party_that_recalls_something_else_ends_the_fit(here, lines):
    here.federation.sum(counted)
    here.wire.on_replies = lambda replies: replies[:2]
    with pytest.raises(AggregationError, match="c did not answer"):
        here.federation.sum(counted)
    before = len(here.ledger)
    lie(here, "c", "recalled", lines=lines)
    with pytest.raises(AggregationError, match="c did not return"):
        here.federation.sum(counted)
    assert len(here.ledger) == before


def test_recorders_see_what_was_recalled_before_the_next_round(here):
    federation, seen = here.federation, []
    coordinator = federation.coordinator
    coordinator.recorders.append(lambda: seen.append(len(here.ledger)))  # type: ignore[attr-defined]
    here.wire.on_replies = lambda replies: (
        [] if kind(replies[0][1]) == "released" else replies
    )
    with pytest.raises(AggregationError, match="did not answer"), federation.fitting():
        federation.sum(counted)
    here.wire.on_replies = lambda replies: replies
    with federation.fitting():
        federation.sum(counted)
    assert seen == [0, 1, 2]
    assert [line.round for line in here.ledger] == [1, 2]
    assert here.ledger.verify(here.roster)
