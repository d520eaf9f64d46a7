"""Messages: exactly this form, every byte covered, one exception for any others."""

import json
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from unpooled.errors import AggregationError
from unpooled.protocol.message import decode, digest, encode, framed, joined, pieces
from unpooled.secure.keys.roster import Identity, Roster

IDENTITY = Identity()
ROSTER = Roster({"a": IDENTITY.public, "b": Identity().public})
HEADER = {"kind": "released", "party": "a", "seals": [[0, "aa", "bb"]], "n": 1.5}
ARRAYS = {"total": np.arange(5.0), "words": np.arange(6, dtype=np.uint64).reshape(2, 3)}
DATA = encode(HEADER, ARRAYS, IDENTITY)
FRONT = 13 + struct.unpack_from("<9sI", DATA)[1]

NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.text() | NUMBERS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
    ),
    max_leaves=8,
)
ARRAY = arrays_of.arrays(
    st.sampled_from([np.float64, np.int64, np.uint64, np.uint8, np.bool_]),
    arrays_of.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
)


def refused(data: bytes, party: str = "a") -> str:
    with pytest.raises(AggregationError) as wrong:
        decode(data, ROSTER, party)
    return wrong.value.rule


@pytest.mark.slow
@given(st.dictionaries(st.text(), JSON), st.dictionaries(st.text(), ARRAY, max_size=3))
def test_what_is_sent_arrives(header, arrays):
    message = decode(encode(header, arrays, IDENTITY), ROSTER, "a")

    assert message.header == header
    assert set(message.arrays) == set(arrays)
    for name, array in arrays.items():
        got = message.arrays[name]
        assert got.dtype == array.dtype
        assert got.shape == array.shape
        assert got.tobytes() == array.tobytes()
        assert not got.flags.writeable
        assert message.digests[name] == digest(array.tobytes())


@pytest.mark.slow
@given(st.dictionaries(st.text(), JSON), st.dictionaries(st.text(), ARRAY, max_size=3))
def test_pieces_are_the_message(header, arrays):
    apart = pieces(header, arrays, IDENTITY)

    assert joined(apart) == encode(header, arrays, IDENTITY)
    whole, message = decode(joined(apart)), decode(apart, ROSTER, "a")
    assert (message.header, message.digests) == (whole.header, whole.digests)
    for name, array in whole.arrays.items():
        assert message.arrays[name].tobytes() == array.tobytes()
        assert not message.arrays[name].flags.writeable


def test_no_large_array_is_copied():
    words = np.arange(2**16, dtype=np.uint64)
    sent = framed(HEADER, {"words": words}, IDENTITY)

    assert isinstance(sent, list)
    assert np.shares_memory(decode(sent, ROSTER, "a").arrays["words"], words)
    assert isinstance(framed(HEADER, {"words": words[:9]}, IDENTITY), bytes)


PIECES = pieces(HEADER, ARRAYS, IDENTITY)


@pytest.mark.parametrize(
    "altered",
    [
        [],
        PIECES[:1],
        PIECES[:-1],
        [*PIECES, b""],
        [PIECES[0], PIECES[2], PIECES[1]],
        [PIECES[0], PIECES[1], bytes(PIECES[2])[:-1]],
        [PIECES[0], PIECES[1], bytes(len(PIECES[2]))],
        [bytes(PIECES[0]) + bytes(64), *PIECES[1:]],
        [bytes(PIECES[0])[:-1], *PIECES[1:]],
        [PIECES[0], joined(PIECES[1:])],
    ],
    ids=lambda altered: f"{len(altered)} pieces",
)
def test_altered_pieces_are_refused(altered):
    with pytest.raises(AggregationError) as wrong:
        decode(altered, ROSTER, "a")

    assert wrong.value.rule == "malformed_message"


def test_known_digests_are_not_believed_by_the_receiver():
    wrong = encode(HEADER, ARRAYS, IDENTITY, {"total": "00" * 32})
    assert refused(wrong) == "malformed_message"


@pytest.mark.parametrize("at", range(0, len(DATA), 3))
def test_every_flipped_byte_is_noticed(at):
    for flip in (1, 0x80, 0xFF):
        altered = bytearray(DATA)
        altered[at] ^= flip
        assert refused(bytes(altered)) in ("wrong_signature", "malformed_message")


def test_regions_have_the_fate_they_should():
    padding = slice(FRONT + 64, len(DATA) - 5 * 8 - 6 * 8)
    assert not any(DATA[padding])
    assert padding.stop - padding.start > 0
    for at, rule in [
        (0, "malformed_message"),  # magic
        (FRONT - 1, "wrong_signature"),  # header
        (FRONT + 5, "wrong_signature"),  # signature
        (padding.start, "malformed_message"),
        (len(DATA) - 1, "malformed_message"),  # payload
    ]:
        altered = bytearray(DATA)
        altered[at] ^= 1
        assert refused(bytes(altered)) == rule


@pytest.mark.parametrize("length", [*range(0, len(DATA), 5), len(DATA) - 1])
def test_every_truncation_is_noticed(length):
    refused(DATA[:length])
    refused(DATA[length:] if length else b"")


def test_what_follows_is_noticed():
    assert refused(DATA + b"\0") == "malformed_message"
    assert refused(DATA + bytes(64)) == "malformed_message"
    assert refused(DATA + DATA) == "malformed_message"


def test_whose_signature():
    assert refused(DATA, "b") == "wrong_signature"
    assert refused(DATA, "c") == "wrong_signature"
    assert refused(encode(HEADER, ARRAYS), "a") == "wrong_signature"
    assert refused(encode(HEADER, ARRAYS, Identity()), "a") == "wrong_signature"
    # A signature cut from another message of the same party.
    other = encode({**HEADER, "n": 2.5}, ARRAYS, IDENTITY)
    spliced = DATA[:FRONT] + other[FRONT : FRONT + 64] + DATA[FRONT + 64 :]
    assert refused(spliced) == "wrong_signature"


def test_arrays_of_another_message_do_not_fit():
    other = encode(HEADER, {**ARRAYS, "total": np.arange(5.0) + 1}, IDENTITY)
    assert len(other) == len(DATA)
    assert refused(DATA[: FRONT + 64] + other[FRONT + 64 :]) == "malformed_message"


def raw(text: bytes, payload: bytes = b"", length: int | None = None) -> bytes:
    """A message with any header, signed by its party."""
    size = len(text) if length is None else length
    front = struct.pack("<9sI", b"UNPOOLED1", size) + text
    padding = bytes(-(len(front) + 64) % 64)
    return front + IDENTITY.sign(front) + padding + payload


ZEROS = digest(bytes(8))


def manifest(*entries: object) -> bytes:
    return json.dumps({"header": {}, "arrays": entries}).encode()


def test_the_form_that_the_broken_ones_break():
    text = manifest(["x", "<f8", [1], ZEROS])
    assert decode(raw(text, bytes(8)), ROSTER, "a").arrays["x"] == 0


@pytest.mark.parametrize(
    "data",
    [
        raw(b""),
        raw(b"5"),
        raw(b"[]"),
        raw(b"{}"),
        raw(b'{"header":{}}'),
        raw(b'{"header":[],"arrays":[]}'),
        raw(b'{"header":{},"arrays":[],"more":1}'),
        raw(b'{"header":{},"arrays":{}}{}'),
        raw(b'{"header":{},"arrays":5}'),
        raw(b'{"header":{},"arrays":[5]}'),
        raw(b'{"header":{},"header":{},"arrays":[]}'),
        raw(b'{"header":{"a":1,"a":2},"arrays":[]}'),
        raw(b'{"header":{"a":NaN},"arrays":[]}'),
        raw(b'{"header":{"a":Infinity},"arrays":[]}'),
        raw(b'{"header":{"a":-Infinity},"arrays":[]}'),
        raw(b'{"header":{"a":1e999},"arrays":[]}'),
        raw(b'{"header":{"a":' + b"9" * 5000 + b'},"arrays":[]}'),
        raw(b'{"header":' + b'{"a":' * 9_999 + b"1" + b"}" * 9_999 + b',"arrays":[]}'),
        raw(b'{"header":{"a":"\xff"},"arrays":[]}'),
        raw(b"[" * 100_000),
        raw(b"{}", length=2**32 - 1),
        raw(b"{}", length=2**24 + 1),
        raw(manifest(["x", "<f8", [1], ZEROS])),
        raw(manifest(["x", "<f8", [2], ZEROS]), bytes(8)),
        raw(manifest(["x", "<f8", [1], ZEROS]), bytes(16)),
        raw(manifest(["x", "<f8", [1], "00" * 32]), bytes(8)),
        raw(manifest(["x", "<f8", [1], None]), bytes(8)),
        raw(manifest(["x", "<f8", [1]]), bytes(8)),
        raw(manifest([5, "<f8", [1], ZEROS]), bytes(8)),
        raw(manifest(["x", "|O", [1], ZEROS]), bytes(8)),
        raw(manifest(["x", "<c16", [1], ZEROS]), bytes(16)),
        raw(manifest(["x", ">f8", [1], ZEROS]), bytes(8)),
        raw(manifest(["x", ["<f8"], [1], ZEROS]), bytes(8)),
        raw(manifest(["x", "<f8", [-1], ZEROS]), bytes(8)),
        raw(manifest(["x", "<f8", [True], ZEROS]), bytes(8)),
        raw(manifest(["x", "<f8", [1.0], ZEROS]), bytes(8)),
        raw(manifest(["x", "<f8", 1, ZEROS]), bytes(8)),
        raw(manifest(["x", "<f8", "1", ZEROS]), bytes(8)),
        raw(manifest(["x", "<f8", [2**62, 2**62], ZEROS]), bytes(8)),
        raw(manifest(["x", "<f8", [10**400], ZEROS]), bytes(8)),
        raw(manifest(["x", "<f8", [0, 2**70], digest(b"")])),
        raw(manifest(["x", "<f8", [1] * 100, ZEROS]), bytes(8)),
        raw(manifest(["x", "<f8", [1], ZEROS], ["x", "<f8", [1], ZEROS]), bytes(16)),
    ],
)  # fmt: skip
def test_other_forms_are_refused(data):
    assert refused(data) == "malformed_message"
    with pytest.raises(AggregationError):
        decode(data)


@pytest.mark.slow
def test_a_header_has_at_most_16_mebibytes():
    header = {"kind": "x" * 2**24}
    with pytest.raises(AggregationError, match="does not have the form"):
        decode(encode(header, {}))
    decode(encode({"kind": "x" * 2**20}, {}))


@given(st.binary(max_size=300))
def test_any_bytes_are_refused(data):
    for text in (
        data,
        b"UNPOOLED1" + data,
        DATA[:13] + data,
        DATA[: FRONT + 64] + data,
    ):
        refused(text)
        with pytest.raises(AggregationError) as wrong:
            decode(text)
        assert wrong.value.rule == "malformed_message"


@pytest.mark.slow
@given(data=st.data())
@settings(max_examples=200)
def test_mutations_are_refused(data):
    altered = bytearray(DATA)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(altered) - 1))
        stop = data.draw(st.integers(at, min(len(altered), at + 20)))
        altered[at:stop] = data.draw(st.binary(max_size=20))
        if not altered:
            break
    if bytes(altered) != DATA:
        refused(bytes(altered))


@given(JSON)
def test_any_manifest_is_refused_or_read(value):
    data = raw(json.dumps({"header": {}, "arrays": value}).encode(), bytes(8))
    if value in ([], {}):
        return
    refused(data)


def test_errors_hold_nothing_of_the_message():
    secret = encode({"kind": "x", "secret": 918273}, {"n": np.array([918273.5])})
    for data in (secret[:-1], secret + b"\0", secret.replace(b"918273", b"91827x")):
        with pytest.raises(AggregationError) as wrong:
            decode(data)
        assert "91827" not in str(wrong.value)
