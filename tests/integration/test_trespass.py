"""Whatever a captured server says at the silos' doors, they refuse and write down.

Each refusal is by every silo that can see the wrong, tells the name of a rule and
nothing else, and stands in that silo's own log.
"""

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from integration.captured import captured
from integration.forbidden_requests import COLUMNS, REQUESTS
from integration.rows import SILOS
from integration.terminal import unpooled
from unpooled.party.memory.audit_log import AuditLog
from unpooled.protocol.library_build import library_build
from unpooled.protocol.message import decode, encode, pieces
from unpooled.secure.keys.roster import Roster
from wire import Rogue

POLICY = """
min_rows = 10
allowed_columns = ["age", "sex", "trestbps", "thalach"]
allowed_steps = ["pca.*", "scaler.*", "imputer.*", "eigenproblem.*"]
"""
SHA256_OF_2_GB = "a7c744c13cc101ed66c29f672f92455547889cc586ce6d44fe76ae824958ea51"


@pytest.fixture(scope="module")
def guarded(consortium):
    """Silos with rules for these tests, and a log for them."""
    with consortium.settled(POLICY, audit="trespass"):
        yield consortium


@pytest.fixture(scope="module")
def doors(guarded):
    with captured(guarded) as doors:
        yield doors


def visitor(doors, study):
    return Rogue(doors, study=study, columns=COLUMNS)


def assert_only_the_rule(reply, rule):
    """A refusal says who, to which request, and by which rule; no array, no more."""
    assert reply.header["rule"] == rule
    assert set(reply.header) == {"kind", "party", "request", "error", "rule"}
    assert not reply.arrays


def assert_written(consortium, study, rule, asked, silos=SILOS):
    for silo in silos:
        journal = AuditLog(consortium.kit(silo) / "state" / "trespass.sqlite")
        refused = [e.record for e in journal.entries(study) if e.kind == "refused"]
        assert {"asked": asked, "rule": rule} in [
            {name: record[name] for name in ("asked", "rule")} for record in refused
        ], silo


# --- requests -------------------------------------------------------------------------


@pytest.mark.parametrize("what", REQUESTS)
def test_a_request_that_no_study_makes(doors, guarded, what):
    """Silos that follow refuse all of them by one rule, and tell which by none."""
    (step, *rest), _ = REQUESTS[what]
    rule = "not_followed"
    study = what.replace(" ", "-").replace("'", "")
    rogue = visitor(doors, study).enter()

    replies = rogue.step(step, *rest)

    for silo in SILOS:
        assert_only_the_rule(replies[silo], rule)
    assert_written(guarded, study, rule, step)


def say(doors, data, **more):
    """Say any bytes at every door."""
    replies = doors.answers(dict.fromkeys(SILOS, data), **more)
    return {silo: decode(replies[silo], doors.roster, silo) for silo in SILOS}


def deep(number):
    text = b'{"arrays":[],"header":{"kind":"step","view":' + b"[" * number
    text += b"]" * number + b"}}"
    return b"UNPOOLED1" + len(text).to_bytes(4, "little") + text + bytes(128)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x80\x05K\x01.",  # a pickle
        deep(200_000),
        encode({"kind": "step"}, {})[:-1],
        encode({"kind": "step"}, {"x": np.ones(9)})[:-8],
        encode({"kind": "system"}, {}),
        encode({"kind": "step", "study": ["deep"]}, {}),
    ],
    ids=["nothing", "pickle", "deep", "cut", "short", "kind", "study"],
)
def test_bytes_that_are_no_request(doors, guarded, data):
    for reply in say(doors, data).values():
        assert_only_the_rule(reply, "malformed_message")
    for silo in SILOS:
        journal = AuditLog(guarded.kit(silo) / "state" / "trespass.sqlite")
        rules = [e.record["rule"] for e in journal.entries("") if e.kind == "refused"]
        assert "malformed_message" in rules


def test_two_gigabytes(doors, guarded):
    """An argument of 2 GB arrives, is refused, and the silo goes on."""
    rogue = visitor(doors, "large").enter()
    public = {"mean": np.zeros(2**28)}
    front = pieces(
        *rogue.request("pca.local_squares", public).as_message(),
        digests={"public.mean": SHA256_OF_2_GB},
    )[:-1]

    reply = doors.answers({"va": b"".join(front)}, zeros=2**31)["va"]

    assert_only_the_rule(decode(reply, doors.roster, "va"), "not_followed")
    assert_written(guarded, "large", "not_followed", "pca.local_squares", ["va"])
    assert set(rogue.rules("scaler.local_counts").values()) == {"not_followed"}


# --- who takes part -------------------------------------------------------------------


def test_a_relay_that_swaps_ephemeral_keys(doors, guarded):
    """The man in the middle: hungary's key is replaced by one of the relay's own."""
    rogue = visitor(doors, "swapped")
    offers = rogue.join()
    offers["hungary"].header["key"] = (
        X25519PrivateKey.generate().public_key().public_bytes_raw().hex()
    )

    for reply in rogue.agree(offers).values():
        assert_only_the_rule(reply, "wrong_signature")

    # Nothing is agreed, so nothing leaves.
    for reply in rogue.step("pca.local_total").values():
        assert_only_the_rule(reply, "not_followed")
    assert_written(guarded, "swapped", "wrong_signature", "agree")


STRANGER = Roster({**dict.fromkeys(SILOS, bytes(32)), "nobody": bytes(32)})
JOINS = {
    "plain": ({"protection": "plain"}, "allow_disclosed"),
    "two": ({"parties": SILOS[:2]}, "min_parties"),
    "twice": ({"parties": [*SILOS, "va"]}, "wrong_roster"),
    "stranger": ({"parties": [*SILOS, "nobody"]}, "wrong_roster"),
    "keys": ({"roster": STRANGER.digest()}, "wrong_roster"),
    "columns": ({"partition": "columns"}, "partition"),
}


@pytest.mark.parametrize("what", JOINS)
def test_a_study_that_silos_do_not_join(doors, guarded, what):
    change, rule = JOINS[what]
    rogue, parties = (
        visitor(doors, f"joins-{what}"),
        list(change.get("parties", ())),
    )
    pinned = {name: doors.roster[name] for name in parties or SILOS if name in SILOS}
    header = {"kind": "join", "protection": "masked", "partition": "rows"}
    header |= {"library": library_build()}
    header |= {"parties": list(SILOS), "roster": Roster(pinned).digest()} | change
    asked = [silo for silo in SILOS if silo in header["parties"]]

    for silo in asked:
        assert_only_the_rule(rogue.say(silo, rogue.where | header), rule)

    assert_written(guarded, f"joins-{what}", rule, "join", asked)


# --- what was said before -------------------------------------------------------------


class Recorder:
    """Doors whose visitor remembers what he said."""

    def __init__(self, doors):
        self.parties, self.roster = doors.parties, doors.roster
        self._doors, self.said = doors, []

    def answers(self, requests):
        self.said.append(requests)
        return self._doors.answers(requests)


def test_a_replayed_study(doors, guarded):
    """Every message of a study, byte for byte, to the same doors and to new ones."""
    recorder = Recorder(doors)
    rogue = visitor(recorder, "replayed").enter()
    rogue.step("scaler.local_counts")
    rogue.ask_all({"kind": "leave"})

    with captured(guarded) as later:
        for where in (doors, later):
            for requests in recorder.said[:-1]:
                replies = where.answers(requests)
                for silo, reply in replies.items():
                    message = decode(reply, doors.roster, silo)
                    kind = decode(requests[silo]).header["kind"]
                    rule = "replayed" if kind == "join" else "out_of_order"
                    assert_only_the_rule(message, rule)
    assert_written(guarded, "replayed", "replayed", "join")


def test_a_round_is_answered_once(doors, guarded):
    rogue = visitor(doors, "once").enter()
    rogue.step("scaler.local_squares", {"mean": np.zeros(3)})
    rogue.round = 0

    for reply in rogue.step("scaler.local_squares", {"mean": np.ones(3)}).values():
        assert_only_the_rule(reply, "replayed")
    assert_written(guarded, "once", "replayed", "scaler.local_squares")


# --- the silo's log -------------------------------------------------------------------


def test_the_log_shows_every_refusal(doors, guarded):
    """`unpooled silo log` has a line for each refusal of these tests, and verifies."""
    visitor(doors, "shown").enter().step("os.system")
    kit = guarded.kit("va")

    shown = unpooled("silo", "log", "--verify", "--kit", kit)

    assert shown.returncode == 0, shown.stderr
    assert "Verified:" in shown.stdout
    text = " ".join(shown.stdout.split())
    entries = AuditLog(kit / "state" / "trespass.sqlite").entries()
    refused = [entry.record for entry in entries if entry.kind == "refused"]
    assert refused
    for record in refused:
        assert f"refused {record['asked']}: {record['rule']}" in text
