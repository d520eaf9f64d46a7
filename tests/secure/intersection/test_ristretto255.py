"""Points of ristretto255: the published vectors, the algebra, and what is no point."""

import secrets
import sys
import tempfile
from pathlib import Path

import pytest

from unpooled.errors import DataError
from unpooled.secure.intersection import ristretto255 as curve

pytest.importorskip("rbcl")

# RFC 9497, appendix A.1.1: input, blind, blinded element.
DOMAIN = b"HashToGroup-OPRFV1-\x00-ristretto255-SHA512"
BLIND = bytes.fromhex(
    "64d37aed22a27f5191de1c1d69fadb899d8862b58eb4220029e036ec4c1f6706"
)
VECTORS = {
    b"\x00": "609a0ae68c15a3cf6903766461307e5c8bb2f95e7e6550e1ffa2dc99e412803c",
    b"\x5a" * 17: "da27ef466870f5f15296299850aa088629945a17d1f5b7f5ff043f76b3c06418",
}


def split(points):
    return [points[i : i + 32] for i in range(0, len(points), 32)]


def test_points_and_products_are_those_of_the_standard():
    points = curve.points_of(list(VECTORS), DOMAIN)
    found = split(curve.multiplied(points, BLIND))
    assert [point.hex() for point in found] == list(VECTORS.values())


def test_another_domain_gives_other_points():
    assert curve.points_of([b"a"], b"one") != curve.points_of([b"a"], b"two")


def test_a_detour_ends_where_the_scalar_alone_does():
    points = curve.points_of([b"a", b"b"], b"test")
    scalar, other = (curve.scalar_of(secrets.token_bytes(32)) for _ in "12")
    there, back = curve.detour(scalar)

    around = curve.multiplied(curve.multiplied(points, there), other)

    assert curve.multiplied(around, back) == curve.multiplied(
        curve.multiplied(points, other), scalar
    )
    assert curve.detour(scalar)[0] != there


def test_scalars_follow_from_their_seeds():
    assert curve.scalar_of(b"a" * 32) == curve.scalar_of(b"a" * 32)
    assert curve.scalar_of(b"a" * 32) != curve.scalar_of(b"b" * 32)


def test_threads_give_what_one_gives(monkeypatch):
    texts = [str(i).encode() for i in range(53)]
    alone = curve.multiplied(curve.points_of(texts, b"test"), BLIND)
    monkeypatch.setattr(curve, "_FEWEST", 10)
    monkeypatch.setattr(curve, "processors", lambda: 3)

    assert curve.multiplied(curve.points_of(texts, b"test"), BLIND) == alone


# Zero, an encoding that is not reduced, one that is negative, no element at all.
NO_POINTS = [
    bytes(32),
    b"\xff" * 32,
    b"\x01" + bytes(31),
    bytes.fromhex("26948d35ca62e643e26a83177332e6b6afeb9d08e4268b650f1f5bbd8d81d371"),
]


@pytest.mark.parametrize("wrong", NO_POINTS, ids=["zero", "large", "odd", "none"])
@pytest.mark.parametrize("fewest", [1, 1000])
def test_what_is_no_point_is_refused(wrong, fewest, monkeypatch, capfd):
    monkeypatch.setattr(curve, "_FEWEST", fewest)
    monkeypatch.setattr(curve, "processors", lambda: 2)
    points = curve.points_of([b"a"], b"test") + wrong

    with pytest.raises(ValueError, match="not of the group"):
        curve.multiplied(points, BLIND)
    assert capfd.readouterr() == ("", "")


def test_other_lengths_are_refused():
    with pytest.raises(ValueError, match="32 bytes"):
        curve.multiplied(bytes(33), bytes(32))


def test_no_file_is_left_behind():
    curve._group()
    loaded = sys.modules["rbcl._sodium"].lib_path
    assert Path(loaded).parent == Path(tempfile.gettempdir())
    assert not Path(loaded).exists()


def test_a_silo_without_the_library_says_what_to_install(monkeypatch):
    def missing(name):
        raise ImportError(name)

    curve._group.cache_clear()
    monkeypatch.setattr(curve.importlib, "import_module", missing)
    with pytest.raises(DataError, match=r"unpooled\[psi\]") as wrong:
        curve.points_of([b"a"], b"test")
    assert wrong.value.rule == "psi"
    curve._group.cache_clear()
