"""Sealing secrets at rest: AES-256-GCM, each value bound to its project, owner and place.

A box moved to another row, tenant or field does not open. Knows nothing of where boxes are stored, or of what the
secrets are for.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import secrets
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from toolcrib.errors import BadSettings, SealKeyMismatch
from toolcrib.storage.records_secrets import SealedValue

PREFIX = "sealed:"
_KEY_BYTES = 32
_NONCE_BYTES = 12


class Sealer:
    """Seals and opens with one key. `key_id` is a fingerprint that may be stored and shown."""

    def __init__(self, key: bytes) -> None:
        self._aead = AESGCM(key)
        self.key_id = hashlib.sha256(b"toolcrib seal key" + key).hexdigest()[:16]

    def seal(self, secret: str, *, project: str, owner: str, place: str) -> SealedValue:
        nonce = os.urandom(_NONCE_BYTES)
        box = nonce + self._aead.encrypt(nonce, secret.encode(), self._binding(project, owner, place))
        return SealedValue(secrets.token_hex(12), project, owner, place, self.key_id, box)

    def open(self, value: SealedValue) -> str:
        nonce, sealed = value.box[:_NONCE_BYTES], value.box[_NONCE_BYTES:]
        try:
            return self._aead.decrypt(nonce, sealed, self._binding(value.project, value.owner, value.place)).decode()
        except InvalidTag:
            raise SealKeyMismatch(
                f"The sealed value {value.id} of {value.owner} cannot be opened with the seal key in use.",
                hint="start with the key the value was sealed with, or send the secret again",
            ) from None

    def _binding(self, project: str, owner: str, place: str) -> bytes:
        return "\0".join((self.key_id, project, owner, place)).encode()


def load_key(*, text: str | None, path: Path | None, default_path: Path) -> bytes:
    """The seal key: from the setting, else its file, else a file of ours that is made on first use (mode 0600)."""
    if text is not None:
        return _decode(text, "TOOLCRIB_SEAL_KEY")
    if path is not None:
        return _decode(_read(path), str(path))
    if not default_path.exists():
        write_private(default_path, base64.b64encode(os.urandom(_KEY_BYTES)).decode())
    return _decode(_read(default_path), str(default_path))


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read, complete or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(path)


def _read(path: Path) -> str:
    try:
        return path.read_text("ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise BadSettings(f"The seal key file {path} cannot be read: {error}.") from error


def _decode(text: str, where: str) -> bytes:
    try:
        key = base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != _KEY_BYTES or len(set(key)) < 8:
        raise BadSettings(
            f"The seal key in {where} is not {_KEY_BYTES} random bytes in base64.",
            hint="make one with: python -c 'import os, base64; print(base64.b64encode(os.urandom(32)).decode())'",
        )
    return key
