"""An identity key that is encrypted where it is stored.

    identity.key   "unpooled-key-1 <salt> <nonce> <key, encrypted and authenticated>"

The password is in a file outside of the kit, so that a backup or a copied disk of the
kit gives nobody the key: a credential of the service manager (systemd's
``LoadCredentialEncrypted=unpooled-identity:...``), or the file that the variable
``UNPOOLED_IDENTITY_PASSWORD_FILE`` names. The silo's processes find it there by
themselves. Against somebody who controls the running machine nothing of this helps.

scrypt (RFC 7914) makes each guess of a password cost 32 MB and a tenth of a second.
"""

import os
import secrets
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from unpooled.errors import StudyError

_FORM = "unpooled-key-1"
_CREDENTIAL = "unpooled-identity"
_VARIABLE = "UNPOOLED_IDENTITY_PASSWORD_FILE"


def is_locked(text: str) -> bool:
    """Whether the text of an identity's file is encrypted."""
    return text.startswith(_FORM)


def locked(private: bytes, password: bytes) -> str:
    """Return the encrypted text of a private key."""
    salt, nonce = secrets.token_bytes(16), secrets.token_bytes(12)
    sealed = ChaCha20Poly1305(_key(password, salt)).encrypt(
        nonce, private, _FORM.encode()
    )
    return f"{_FORM} {salt.hex()} {nonce.hex()} {sealed.hex()}"


def opened(text: str, path: Path) -> bytes:
    """Return the private key of a text, encrypted or not; `path` is for messages."""
    if not is_locked(text):
        return bytes.fromhex(text)
    salt, nonce, sealed = map(bytes.fromhex, text.split()[1:])
    key = _key(password_here(path), salt)
    try:
        return ChaCha20Poly1305(key).decrypt(nonce, sealed, _FORM.encode())
    except InvalidTag:
        raise StudyError(
            f"The password of the identity key {path} is another one."
        ) from None


def password_here(path: Path) -> bytes:
    """Return the password that this process was given for an identity's file."""
    places = [
        Path(folder) / _CREDENTIAL
        for folder in [os.environ.get("CREDENTIALS_DIRECTORY")]
        if folder
    ]
    places += [Path(name) for name in [os.environ.get(_VARIABLE)] if name]
    for place in places:
        if place.is_file():
            return password_of(place)
    absent = "".join(f" There is no file {place}." for place in places)
    raise StudyError(
        f"The identity key {path} is encrypted. Give its password as the systemd "
        f"credential {_CREDENTIAL}, or name its file in {_VARIABLE}.{absent}"
    )


def password_of(path: Path) -> bytes:
    """Return the password in a file, without the line's end."""
    try:
        password = path.read_bytes().strip()
    except OSError as wrong:
        raise StudyError(f"Cannot read {path}: {wrong.strerror}.") from wrong
    if len(password) < 12:
        raise StudyError(f"The password in {path} is shorter than 12 characters.")
    return password


def _key(password: bytes, salt: bytes) -> bytes:
    return Scrypt(salt=salt, length=32, n=2**15, r=8, p=1).derive(password)
