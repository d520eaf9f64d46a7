"""Certificates as they would be at another time, or by another authority."""

import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

DAY = datetime.timedelta(days=1)


def signed_anew(certificate: bytes, key, until: datetime.datetime) -> bytes:
    """Return a certificate with the same contents, by whoever has the key."""
    old = x509.load_pem_x509_certificate(certificate)
    builder = x509.CertificateBuilder(
        old.issuer,
        old.subject,
        old.public_key(),
        x509.random_serial_number(),
        until - 2 * DAY,
        until,
        list(old.extensions),
    )
    made = builder.sign(key, hashes.SHA256())
    return made.public_bytes(serialization.Encoding.PEM)


def at_another_time(shift: str) -> dict[str, str] | None:
    """Return the environment of processes whose whole clock is wrong, such as by -1d.

    None where libfaketime is not installed: then only Python's clock can be shifted.
    """
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    if not found:
        return None
    # The monotonic clock stays: it measures timeouts.
    return {
        "LD_PRELOAD": str(found[0]),
        "FAKETIME": shift,
    }
