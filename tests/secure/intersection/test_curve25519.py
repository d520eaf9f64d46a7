"""Points of Curve25519: the published vectors, the algebra, and where points lie."""

import secrets

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import (
    X25519PrivateKey,
    X25519PublicKey,
)

from unpooled.secure.intersection import curve25519 as curve

P, A = 2**255 - 19, 486662
DOMAIN = b"QUUX-V01-CS02-with-curve25519_XMD:SHA-512_ELL2_NU_"
# RFC 9380, appendix J.4.2: message, x of Q (before the cofactor is cleared).
VECTORS = {
    b"": "51125222da5e763d97f3c10fcc92ea6860b9ccbbd2eb1285728f566721c1e65b",
    b"abc": "7d56d1e08cb0ccb92baf069c18c49bb5a0dcd927eff8dcf75ca921ef7f3e6eeb",
    b"abcdef0123456789": (
        "3fbe66b9c9883d79e8407150e7c2a1c8680bee496c62fabe4619a72b3cabe90f"
    ),
}


def split(points):
    return [points[i : i + 32] for i in range(0, len(points), 32)]


def on_curve(point):
    u = int.from_bytes(point, "little")
    return pow(u * (u * (u + A) + 1) % P, (P - 1) // 2, P) in (0, 1)


@pytest.mark.parametrize("with_gmpy2", [False, True])
def test_points_are_those_of_the_standard(with_gmpy2, monkeypatch):
    if not with_gmpy2:
        monkeypatch.setattr(curve, "_legendre", None)
    elif curve._legendre is None:
        pytest.skip("gmpy2 is not installed")
    found = split(curve.points_of(list(VECTORS), DOMAIN))

    assert [point[::-1].hex() for point in found] == list(VECTORS.values())


def test_all_points_lie_on_the_curve_and_not_on_its_twist():
    texts = [str(i).encode() for i in range(500)]

    assert all(map(on_curve, split(curve.points_of(texts, b"test"))))


def test_another_domain_gives_other_points():
    assert curve.points_of([b"a"], b"one") != curve.points_of([b"a"], b"two")


def test_multiplication_is_x25519():
    scalar = secrets.token_bytes(32)
    points = curve.points_of([b"a", b"b"], b"test")
    key = X25519PrivateKey.from_private_bytes(scalar)

    expected = [
        key.exchange(X25519PublicKey.from_public_bytes(p)) for p in split(points)
    ]
    assert split(curve.multiplied(points, scalar)) == expected


def test_a_detour_ends_where_the_scalar_alone_does():
    points = curve.points_of([b"a", b"b"], b"test")
    scalar, other = secrets.token_bytes(32), secrets.token_bytes(32)
    there, back = curve.detour(scalar)

    around = curve.multiplied(curve.multiplied(points, there), other)

    assert curve.multiplied(around, back) == curve.multiplied(
        curve.multiplied(points, other), scalar
    )
    assert curve.detour(scalar)[0] != there


def test_processes_give_what_one_gives(monkeypatch):
    texts = [str(i).encode() for i in range(50)]
    alone = curve.multiplied(curve.points_of(texts, b"test"), bytes(31) + b"\x01")
    monkeypatch.setattr(curve, "_FEWEST", 10)
    monkeypatch.setattr(curve, "_processors", lambda: 3)

    assert curve.multiplied(curve.points_of(texts, b"test"), bytes(31) + b"\x01") == (
        alone
    )


@pytest.mark.parametrize("fewest", [1, 1000])
def test_points_of_small_order_are_refused(fewest, monkeypatch, capfd):
    monkeypatch.setattr(curve, "_FEWEST", fewest)
    monkeypatch.setattr(curve, "_processors", lambda: 2)
    points = curve.points_of([b"a"], b"test") + bytes(32)

    with pytest.raises(ValueError, match=r"small order|shared key"):
        curve.multiplied(points, secrets.token_bytes(32))


def test_other_lengths_are_refused():
    with pytest.raises(ValueError, match="32 bytes"):
        curve.multiplied(bytes(33), bytes(32))
