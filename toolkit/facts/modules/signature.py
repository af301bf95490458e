"""The signature at the end of a module: who signed it, and by which digest.

Source: kernel scripts/sign-file.c and include/linux/module_signature.h; RFC 5652 for what
lies inside. Only names are read here: whether the signature is right is the kernel's matter.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from toolkit.errors import Unparsable

MAGIC = b"~Module signature appended~\n"
_FIELDS = 12  # algo, hash, id type, name length, key length, 3 of padding, 4 of signature length
_PKCS7 = 2
_SEQUENCE, _SET, _INTEGER, _OID, _CONTEXT0, _KEY_ID = 0x30, 0x31, 0x02, 0x06, 0xA0, 0x80
_COMMON_NAME = bytes.fromhex("550403")
_DIGESTS = {
    "2b0e03021a": "sha1",
    "608648016503040204": "sha224",
    "608648016503040201": "sha256",
    "608648016503040202": "sha384",
    "608648016503040203": "sha512",
    "608648016503040208": "sha3-256",
    "608648016503040209": "sha3-384",
    "60864801650304020a": "sha3-512",
}


class Signature(Struct, frozen=True):
    """Who signed a module."""

    signer: str  # common name of the certificate's issuer; "" where only a key id is told
    key: str  # serial number of the certificate, or the key's id: lower-case hex
    digest: str  # "sha256", or the object identifier in hex


def parse_signature(path: str, tail: bytes) -> Signature:
    """Read the end of a signed module file.

    :param tail: the last bytes, at least the whole of the signature.
    :raises Unparsable: for a signature of another kind than PKCS#7, or a damaged one.
    """
    if not tail.endswith(MAGIC):
        raise Unparsable(f"signature of {path}", tail[-len(MAGIC) :].hex())
    body = tail[: -len(MAGIC)]
    fields = body[-_FIELDS:]
    size = int.from_bytes(fields[8:], "big")
    if len(fields) < _FIELDS or fields[2] != _PKCS7 or not 0 < size <= len(body) - _FIELDS:
        raise Unparsable(f"signature of {path}", fields.hex())
    try:
        return _signed_data(body[len(body) - _FIELDS - size : -_FIELDS])
    except (ValueError, IndexError, StopIteration) as why:
        raise Unparsable(f"signature of {path}", str(why)) from why


def _elements(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The DER elements that stand side by side: tag and content."""
    at = 0
    while at < len(data):
        tag, length, at = data[at], data[at + 1], at + 2
        if length & 0x80:
            count = length & 0x7F
            if not 1 <= count <= 4:
                raise ValueError(f"length of {count} bytes")
            length, at = int.from_bytes(data[at : at + count], "big"), at + count
        if at + length > len(data):
            raise ValueError("an element ends behind its parent")
        yield tag, data[at : at + length]
        at += length


def _first(data: bytes, tag: int) -> bytes:
    return next(content for found, content in _elements(data) if found == tag)


def _signed_data(message: bytes) -> Signature:
    signed = _first(_first(_first(message, _SEQUENCE), _CONTEXT0), _SEQUENCE)
    info = _first(
        [content for found, content in _elements(signed) if found == _SET][-1], _SEQUENCE
    )  # the last set holds who signed
    parts = list(_elements(info))[1:]  # behind the version
    tag, who = parts[0]
    digest = _first(parts[1][1], _OID).hex()
    name = _DIGESTS.get(digest, digest)
    if tag == _KEY_ID:
        return Signature("", who.hex(), name)
    issuer, serial = _first(who, _SEQUENCE), _first(who, _INTEGER)
    # The last common name of a distinguished name; "" where it has none.
    found = ""
    for _, relative in _elements(issuer):
        for _, pair in _elements(relative):
            kind, value, *_ = _elements(pair)
            if kind == (_OID, _COMMON_NAME):
                found = value[1].decode("utf-8", "replace")
    return Signature(found, serial.hex(), name)
