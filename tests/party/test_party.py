"""The party's door: what is asked for is installed, known, and answered once."""

import json
import logging

import numpy as np
import pytest

from silo_doors import (
    KINDS,
    PLACE,
    SECRET,
    check_refusal,
    counts,
    fails_loudly,
    fails_oddly,
    fails_politely,
    here,
    knock,
    ran,
    stays_here,
)
from unpooled.protocol.message import decode, encode
from wire import Rogue, rows, silos

# Fixtures of another module.
__all__ = ["here"]

SECRETS = ("918273645546", "9.182736", PLACE, "/", "Traceback", "Error(")


@pytest.mark.thinned(1)
@pytest.mark.parametrize(
    "step",
    [
        "",
        ".",
        "os.system",
        "os.path.join",
        "builtins.eval",
        "builtins.__import__",
        "subprocess.run",
        "sys.modules",
        "pca.PCA",
        "pca.__dict__",
        "pca.__loader__",
        "pca.scatter",
        "pca.np",
        "pca.local_total.function",
        "pca.local_total.__call__",
        "pca.projected",
        "imputer.imputed",
        "__init__.x",
        "__main__.x",
        "models.pca.local_total",
        "unpooled.models.pca.pca.local_total",
        "unpooled.PCA",
        "unpooled.errors.RULES",
        "pca .local_total",
        "pca.local_total ",
        "PCA.local_total",
        "..pca.local_total",
        "silo_doors.SECRET",
        "test_party.Rogue",
        "silo_doors.no_such",
        "silo_doors.check_refusal",
        "a" * 10_000,
        "a." * 5_000 + "b",
        "\0.\0",
        "pca.local_totаl",  # a Cyrillic letter
    ],
)
def test_unknown_steps_are_refused(here, step):
    rogue = Rogue(here).enter()
    for reply in rogue.step(step).values():
        check_refusal(reply, "allowed_steps")


def test_no_module_is_imported_for_a_name(here):
    import sys

    before = set(sys.modules)
    rogue = Rogue(here).enter()
    for step in ("this.s", "antigravity.fly", "scipy.cluster", "unpooled.study"):
        rogue.step(step)
    assert not {"this", "antigravity", "scipy.cluster", "unpooled.study"} & (
        set(sys.modules) - before
    )


@pytest.mark.parametrize(
    ("step", "rule", "error"),
    [
        ("fails_loudly", "failed_in_silo", "ReleaseRefusedError"),
        ("fails_oddly", "failed_in_silo", "ReleaseRefusedError"),
        ("fails_politely", "infinite_values", "DataError"),
    ],
)
def test_reasons_stay_in_the_silos_own_log(here, caplog, step, rule, error):
    rogue = Rogue(here).enter()
    with caplog.at_level(logging.INFO, "unpooled.party"):
        replies = rogue.step(f"silo_doors.{step}")
    check_refusal(replies["a"], rule)
    assert replies["a"].header["error"] == error
    if step != "fails_oddly":
        assert str(SECRET) in caplog.text
        assert PLACE in caplog.text


def test_the_error_at_the_coordinator_holds_no_value_and_no_path(here):
    for step in (fails_loudly, fails_politely, fails_oddly):
        with pytest.raises(Exception, match="a ") as wrong:
            here.federation.sum(step)
        chain, error = "", wrong.value
        while error is not None:
            chain += f"{error!r} {error} {vars(error)}"
            error = error.__cause__ or error.__context__
        assert not [secret for secret in SECRETS[:3] if secret in chain]
    for _, data in here.wire.received:
        text = json.dumps(decode(data).header)
        assert not [secret for secret in SECRETS if secret in text]


@pytest.mark.parametrize(
    "public",
    [
        {},
        {"text": "x"},
        {"text": "x", "number": 1, "more": 2},
        {"X": 5, "text": "x", "number": 1},
        {"self": 1},
        {"text": np.zeros(3), "number": 1},
        {"__class__": "x", "number": 1},
    ],
)
def test_arguments_that_the_step_does_not_declare(here, public):
    rogue = Rogue(here).enter()
    for reply in rogue.step("silo_doors.shouts", public).values():
        check_refusal(reply, "arguments")


def test_a_step_before_the_keys_are_agreed_gets_nothing(here):
    """Join, and ask at once: no masks yet, so no values may leave."""
    ran.clear()
    rogue = Rogue(here)
    assert set(rogue.rules("silo_doors.counts").values()) == {"out_of_order"}
    rogue.join()
    for step in ("counts", "stays_here"):
        for reply in rogue.step(f"silo_doors.{step}").values():
            check_refusal(reply, "out_of_order")
    assert ran == []


def test_the_silos_own_ledger_is_the_coordinators(here):
    federation = here.federation
    with federation.fitting():
        federation.sum(counts)
        federation.keep(stays_here)
    with federation.fitting():
        federation.sum(counts)
    for name, party in here.parties.items():
        own = party.studies["study"].ledger
        assert own.verify(here.roster)
        assert [line.parties for line in own] == [(name,)] * 3
        for line, theirs in zip(own, here.ledger, strict=True):
            assert line.seals[name] == theirs.seals[name]
            for field in ("study", "round", "step", "name", "shape", "dtype", "bytes"):
                assert getattr(line, field) == getattr(theirs, field)
            assert line.visibility == theirs.visibility
            assert line.direction == theirs.direction


def test_description_shows_allowed_columns_only():
    here = silos(policy={"allowed_columns": ["x0", "x2"]})
    reply = knock(here, encode({"kind": "describe"}, {}))
    assert reply.header["columns"] == ["x0", "x2"]
    assert set(reply.header) == {
        "party", "request", "kind", "columns", "categorical", "named", "label",
        "partition", "rows",
    }  # fmt: skip
    # On a row partition how many rows a silo has is its own business.
    assert reply.header["rows"] is None


def test_replies_to_no_message_hold_secrets(here):
    """All that a rogue coordinator hears from a, beside masked words, is dull."""
    rogue = Rogue(here).enter()
    said = [
        rogue.say("a", {"kind": k, **rogue.where, "parties": list("abc")})
        for k in KINDS
    ]
    said += [rogue.step(s)["a"] for s in ("pca.local_total", "silo_doors.counts", "x")]
    for reply in said:
        text = json.dumps({k: v for k, v in reply.header.items() if k != "seals"})
        assert not [secret for secret in SECRETS if secret in text]
        assert "30" not in json.dumps(
            {k: v for k, v in reply.header.items() if k in ("rule", "error", "kind")}
        )


def test_recall_tells_a_coordinator_what_it_may_have_missed(here):
    here.federation.sum(counts)
    here.federation.sum(counts)
    reply = knock(here, encode({"kind": "recall", "study": "study", "after": 1}, {}))
    own = here.parties["a"].studies["study"].ledger
    assert reply.header["lines"] == [line.as_record() for line in own[1:]]
    reply = knock(here, encode({"kind": "recall", "study": "other", "after": 0}, {}))
    assert reply.header["lines"] == []


def test_a_silo_without_a_folder_takes_no_models(here):
    here.federation.sum(counts)
    header = {"kind": "deliver", "study": "study", "name": "m"}
    reply = knock(here, encode(header, {"file": np.zeros(3, np.uint8)}))
    check_refusal(reply, "delivery")


def test_threads_at_the_door_are_answered_one_at_a_time(here):
    from concurrent.futures import ThreadPoolExecutor

    rogue = Rogue(here).enter()
    request = encode(*rogue.request("silo_doors.counts").as_message())
    ran.clear()
    with ThreadPoolExecutor(8) as pool:
        replies = set(pool.map(here.parties["a"].handle, [request] * 16))
    assert len(replies) == 1
    assert ran == ["counts"]


def test_approvals_need_a_place_to_be_written():
    from unpooled.data.sources.open_source import open_source
    from unpooled.errors import StudyError
    from unpooled.party.party import Party
    from unpooled.party.rules.policy import Policy
    from unpooled.secure.keys.roster import Identity, Roster

    me = Identity()
    front = ("a", open_source(rows()), Policy(), me, Roster({"a": me.public}))
    with pytest.raises(StudyError, match="need an audit log"):
        Party(*front, approval="each-study")
    with pytest.raises(StudyError, match="choose none or each-study"):
        Party(*front, approval="sometimes")
