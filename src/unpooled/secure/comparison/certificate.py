"""A key and a certificate of one process, for one session.

MPyC reads its key from a file. What is written there is sealed under a password that is
in the memory of the two processes alone: a file that is left behind, because both were
killed, opens nothing.
"""

import secrets
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
)


def make_certificate(folder: Path, party: int) -> tuple[bytes, str]:
    """Write a new key and its certificate where MPyC reads them.

    Parameters
    ----------
    folder : Path
        The process's working directory; nobody else may read it.
    party : int
        Its number; MPyC asks for the name that follows from it.

    Returns
    -------
    certificate : bytes
        In PEM.
    password : str
        Of the key's file.
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
    password = secrets.token_hex(32)
    sealed = BestAvailableEncryption(password.encode())
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, sealed)
    (config / f"party_{party}.key").write_bytes(private)
    (config / f"party_{party}.crt").write_bytes(certificate)
    return certificate, password
