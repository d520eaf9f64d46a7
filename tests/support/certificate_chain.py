"""Certificates of an authority that lives as long as a test."""

import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = datetime.timedelta(days=1)


class Authority:
    """A root certificate, and the key that signs others.

    Parameters
    ----------
    folder : Path
        Gets ``NAME.crt`` and ``NAME.key`` of all, the root's own as ``root.crt``.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = named("authority of a test")
        builder = self._builder(self._name, self._key).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        self.root = self._write("root", builder)

    def certify(self, name: str, *hosts: str) -> Path:
        """Write a key and a certificate for a name, and return the latter's path."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(named(name), key)
        if hosts:
            alternatives = x509.SubjectAlternativeName(map(x509.DNSName, hosts))
            builder = builder.add_extension(alternatives, critical=False)
        path = self.folder / f"{name}.key"
        path.touch(0o600)
        path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return self._write(name, builder)

    def _builder(
        self, name: x509.Name, key: ec.EllipticCurvePrivateKey
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        number = x509.random_serial_number()
        return x509.CertificateBuilder(
            self._name, name, key.public_key(), number, now - DAY, now + DAY
        )

    def _write(self, name: str, builder: x509.CertificateBuilder) -> Path:
        path = self.folder / f"{name}.crt"
        certificate = builder.sign(self._key, hashes.SHA256())
        path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        return path


def named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
