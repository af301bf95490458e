"""How a signature is fastened to a module, and which digest a kernel asks for.

Source: kernel scripts/sign-file.c, include/linux/module_signature.h, kernel/module/Kconfig.
The signature itself is made where the key is; see toolkit/built/signing.py. Signatures are
never part of what the cache of builds keeps: a key may change, and nothing need be compiled
for it. A module is signed on its way out, into a package or to a node.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from toolkit.errors import Unparsable, Unsupported
from toolkit.facts.modules.signature import MAGIC

_PKCS7 = 2
_TRAILER = struct.Struct(">BBBBB3xI")  # algorithm, hash, kind, signer, key, signature's length
_ELF = b"\x7fELF"
# CONFIG_MODULE_SIG_HASH may name these; SHA-1 is left out: OpenSSL 3 refuses it on many
# systems, and a kernel that still asks for it takes the others as well.
DIGESTS = (
    *("sha224", "sha256", "sha384", "sha512"),
    *("sha3-256", "sha3-384", "sha3-512"),  # since kernel 6.7
)
USUAL = "sha256"  # what kernels without a word on it can check: they verify themselves by it


def digest_for(config: Mapping[str, str]) -> str:
    """The digest that a kernel's modules are signed with.

    A kernel without CONFIG_MODULE_SIG_HASH looks at no signature; the usual one does no harm.

    :param config: options of the kernel by name, quotes taken off; "n" for those not set.
    :raises Unsupported: for a digest that is none of DIGESTS.
    """
    asked = config.get("CONFIG_MODULE_SIG_HASH", "").strip('"')
    if asked in {"", "n"}:
        return USUAL
    if asked == "sha1":
        return USUAL if config.get("CONFIG_CRYPTO_SHA256", "y") == "y" else "sha512"
    if asked not in DIGESTS:
        raise Unsupported(
            f"the kernel asks for modules signed by {asked!r}, and we know no such digest",
            hint=f"digests that we know: {', '.join(DIGESTS)}",
        )
    return asked


def unsigned(name: str, module: bytes) -> bytes:
    """The module without its signature, or without all of them: it may carry several.

    :param name: for the message.
    :raises Unparsable: where the end says that it is signed, and is damaged.
    """
    while module.endswith(MAGIC):
        body = module[: -len(MAGIC)]
        fields = body[-_TRAILER.size :]
        if len(fields) < _TRAILER.size:
            raise Unparsable(f"signature of {name}", fields.hex())
        *_, kind, signer, key, length = _TRAILER.unpack(fields)
        rest = len(body) - _TRAILER.size - length
        if kind != _PKCS7 or signer or key or not length or rest <= 0:
            raise Unparsable(f"signature of {name}", fields.hex())
        module = body[:rest]
    return module


def with_signature(name: str, module: bytes, message: bytes) -> bytes:
    """The module with one signature behind it, as the kernel's own sign-file writes it.

    :param module: whole and never packed; the kernel checks it as it is after unpacking.
    :param message: a detached CMS SignedData in DER, over exactly these bytes.
    :raises Unsupported: for bytes that are no module.
    """
    if not module.startswith(_ELF):
        raise Unsupported(
            f"{name} is no module, or a packed one, and cannot be signed",
            hint="unpack it first: xz -d, zstd -d or gzip -d",
        )
    trailer = _TRAILER.pack(0, 0, _PKCS7, 0, 0, len(message))
    return module + message + trailer + MAGIC
