"""Sign what was built, on its way out: the cache of builds keeps no signature."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from toolkit.built.io.certificate import Certificate, read_certificate
from toolkit.built.io.signer import Signer, open_signer
from toolkit.built.io.signing_key import take_key
from toolkit.built.plan.model import Built, BuiltFile
from toolkit.built.plan.signature import digest_for, unsigned, with_signature
from toolkit.errors import UsageError


@dataclass(frozen=True, slots=True)
class Signing:
    """The site's key, ready: it has signed once."""

    signer: Signer

    @property
    def certificate(self) -> Certificate:
        return self.signer.certificate

    def signed(self, built: Built, config: Mapping[str, str]) -> Built:
        """The same build, its modules signed by our key alone; inputs and other files as they were.

        :param config: options of the kernel that the modules are for: it names the digest.
        :raises UsageError: the key cannot be used any more.
        :raises Unparsable: a module ends in a damaged signature.
        :raises Unsupported: the kernel asks for a digest that we do not know.
        """
        digest = digest_for(config)
        files = tuple(
            self._signed(each, digest) if each.name.endswith(".ko") else each
            for each in built.files
        )
        return replace(built, files=files)

    def _signed(self, file: BuiltFile, digest: str) -> BuiltFile:
        plain = unsigned(file.name, file.data)
        message = self.signer.sign(plain, digest)
        return BuiltFile(file.name, with_signature(file.name, plain, message))


def open_signing(
    key: str, certificate: str, secret: str | None, *, now: datetime
) -> Signing | None:
    """What ``--sign-key`` and ``--sign-cert`` ask for; None where neither was said.

    Called before anything is built: a wrong PIN is told at once, not after an hour.

    :param secret: the key's passphrase, or the token's PIN.
    :raises UsageError: one without the other, or an unusable key.
    """
    if not key and not certificate:
        return None
    if not key or not certificate:
        raise UsageError(
            "--sign-key and --sign-cert belong together",
            hint="the key stays where it is; the certificate is what kernels know it by",
        )
    found = read_certificate(Path(certificate), now=now)
    return Signing(open_signer(take_key(key, secret), found))
