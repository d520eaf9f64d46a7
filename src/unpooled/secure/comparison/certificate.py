"""The key and the certificate of one computing process, for one session.

MPyC reads its key from a file. The file is encrypted under a password that only the two
processes have, in memory. So a file that is left behind, because both processes were
killed, is useless.
"""

import secrets
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
)


def make_certificate(folder: Path, party: int) -> tuple[bytes, str]:
    """Write a new key and its certificate where MPyC reads them, and return both.

    Parameters
    ----------
    folder : Path
        The working directory of the process, readable by this user only.
    party : int
        Number of the party, from which MPyC derives the subject's name.

    Returns
    -------
    certificate : bytes
        The certificate in PEM.
    password : str
        Password of the key file.
    """
    from cryptography import x509  # which takes longer than a small first fit's rounds

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
        # The clocks of organisations differ.
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
