"""A key and a certificate of one process, for one session."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)


def make_certificate(folder: Path, party: int) -> bytes:
    """Write a new key and its certificate where MPyC reads them; return the latter.

    Parameters
    ----------
    folder : Path
        The process's working directory; nobody else may read it.
    party : int
        Its number; MPyC asks for the name that follows from it.
    """
    config = folder / ".config"
    config.mkdir(mode=0o700)
    key = ec.generate_private_key(ec.SECP256R1())
    name = f"MPyC party {party}"
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    today = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # Clocks of organisations differ.
        .not_valid_before(today - timedelta(days=2))
        .not_valid_after(today + timedelta(days=30))
        .sign(key, SHA256())
        .public_bytes(Encoding.PEM)
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (config / f"party_{party}.key").write_bytes(private)
    (config / f"party_{party}.crt").write_bytes(certificate)
    return certificate
