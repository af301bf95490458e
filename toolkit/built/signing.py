"""Sign what was built, on its way out: the cache of builds keeps no signature.

The key never enters this process. The message is that of the kernel's own sign-file: CMS
SignedData, detached, without certificates, attributes or capabilities. The key is opened by
OpenSSL, where it lies: a file by its path, a token by its URI. Passphrase and PIN go through a
pipe, never through a command line or the environment of a child.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from toolkit.built.io.openssl import Certificate, read_certificate, run_openssl
from toolkit.built.io.signing_key import SigningKey, take_key
from toolkit.built.plan.model import Built, BuiltFile
from toolkit.built.plan.signature import digest_for, unsigned, with_signature
from toolkit.errors import UsageError

_TRIAL = b"gdr-toolkit\n"
_UNREADABLE = re.compile("Could not read signing key|unable to load (signing )?key")
# What OpenSSL says, in its order of importance; the key's name is put in for {key}.
_SAID = (
    ("does not match certificate|key values mismatch|key type mismatch",
     "the certificate is not that of the key {key}",
     "give the certificate made with it: openssl x509 -noout -pubkey against openssl pkey -pubout"),
    ("PIN incorrect", "the token refuses the PIN",
     "each wrong one counts, and the token locks itself after a few"),
    ("PIN locked", "the token is locked: too many wrong PINs", "its security officer unlocks it"),
    ("No matching initialized token|No slot with a token|no token",
     "no token fits {key}", "list them: pkcs11-tool --list-slots, p11tool --list-tokens"),
    ("private key was not found|object not found|Could not find signing key",
     "no private key {key}", "list the token's: pkcs11-tool --list-objects --login"),
    ("not a valid PKCS#11 URI", "{key} is no PKCS#11 URI", "RFC 7512: pkcs11:token=T;object=O"),
    ("bad decrypt|maybe wrong password|bad password read|empty password|Enter pass ?phrase",
     "the passphrase does not open the key {key}",
     "--ask-sign-pin, --sign-pin-fd 3 3</path/to/passphrase, or KBUILD_SIGN_PIN"),
    (_UNREADABLE.pattern,
     "{key} is no private key that OpenSSL reads", "PEM or DER, as: openssl genrsa -out key.pem"),
    ("Could not read signing cert|unable to load (signing )?cert",
     "the certificate for {key} cannot be read", "openssl x509 -in CERTIFICATE -noout -text"),
    ("invalid digest|unsupported|unknown option",
     "this OpenSSL cannot make such a signature", "it should be OpenSSL 1.1.1 or newer"),
)  # fmt: skip


class Signer:
    """One key with its certificate, tried once."""

    def __init__(self, key: SigningKey, certificate: Certificate) -> None:
        self._key = key
        self.certificate = certificate

    def __repr__(self) -> str:
        return f"Signer({self._key.name}, {self.certificate.title})"

    def sign(self, module: bytes, digest: str) -> bytes:
        """The signature of ``module``: a detached CMS SignedData in DER.

        :param digest: "sha256" and the like, as OpenSSL's -md takes it.
        :raises UsageError: the key cannot be used, what it made does not verify, or there is no
            room for either.
        """
        try:
            return self._signed(module, digest)
        except OSError as why:
            raise UsageError(
                f"{why.filename or 'temporary folder'}: {why.strerror}",
                hint="to sign takes a few KiB there; TMPDIR names another folder",
            ) from why

    def _signed(self, module: bytes, digest: str) -> bytes:
        # A certificate is no secret; the folder goes, whatever comes.
        with tempfile.TemporaryDirectory(prefix="gdr-sign-") as folder:
            pem = Path(folder, "certificate.pem")
            pem.write_text(self.certificate.pem, encoding="ascii")
            message = self._message(module, digest, pem)
            made = Path(folder, "message.der")
            made.write_bytes(message)
            self._verify(module, made, pem)
        return message

    def _message(self, module: bytes, digest: str, pem: Path) -> bytes:
        key = self._key
        engine = _engine(key) if key.on_token else ()
        words = (
            *("openssl", "cms", "-sign", "-binary", "-noattr", "-nosmimecap", "-nocerts"),
            *("-md", digest, "-signer", str(pem), *engine, "-inkey", key.name, "-outform", "DER"),
        )
        done = run_openssl(words, module, secret=key.secret, environment=_environment(key))
        if done.returncode or not done.stdout:
            raise _refusal(key, done.stderr.decode("utf-8", "replace"))
        return done.stdout

    def _verify(self, module: bytes, message: Path, pem: Path) -> None:
        """A token may have signed with another key of the same size than the certificate's."""
        words = ("openssl", "cms", "-verify", "-binary", "-inform", "DER", "-in", str(message))
        trust = ("-content", "/dev/stdin", "-noverify", "-nointern", "-certfile", str(pem))
        done = run_openssl((*words, *trust, "-out", os.devnull), module)
        if done.returncode:
            raise UsageError(
                f"what {self._key.name} signed is not verified by the certificate of "
                f"{self.certificate.title}",
                hint="give the certificate that was made with this key",
            )


def open_signer(key: SigningKey, certificate: Certificate) -> Signer:
    """A signer that has signed once, so that a long build does not end at a wrong PIN.

    :raises UsageError: one sentence on what is wrong with key, certificate or tools.
    """
    signer = Signer(key, certificate)
    signer.sign(_TRIAL, "sha256")
    return signer


def _engine(key: SigningKey) -> tuple[str, ...]:
    """What makes OpenSSL read a URI: the provider where there is one, else the engine."""
    environment = _environment(key)
    ask = ("openssl", "list", "-providers", "-provider", "pkcs11")
    if run_openssl(ask, b"", environment=environment).returncode == 0:
        return ("-provider", "pkcs11", "-provider", "default")
    asked = run_openssl(("openssl", "engine", "pkcs11"), b"", environment=environment)
    if asked.returncode == 0:
        return ("-engine", "pkcs11", "-keyform", "engine")
    raise UsageError(
        "this OpenSSL reads no PKCS#11 URI: neither provider nor engine is here",
        hint="apt install libengine-pkcs11-openssl, or pkcs11-provider; dnf install openssl-pkcs11",
    )


def _environment(key: SigningKey) -> Mapping[str, str]:
    if not key.module:
        return {}
    return {"PKCS11_MODULE_PATH": key.module, "PKCS11_PROVIDER_MODULE": key.module}


def _refusal(key: SigningKey, said: str) -> UsageError:
    if key.secret and not key.on_token and _UNREADABLE.search(said):
        # One wrong passphrase in 256 makes bytes that look decrypted, and are no key.
        return UsageError(
            f"the passphrase does not open the key {key.name}, or it is no private key",
            hint=f"openssl pkey -in {key.name} -noout",
        )
    for pattern, sentence, hint in _SAID:
        if re.search(pattern, said, re.IGNORECASE):
            return UsageError(sentence.format(key=key.name), hint=hint)
    last = next((line for line in reversed(said.split("\n")) if line.strip()), "nothing")
    return UsageError(
        f"{key.name} cannot sign; OpenSSL said: {last.strip()[:200]}",
        hint="try it by hand: openssl cms -sign -binary -in MODULE -signer CERT -inkey KEY",
    )


class Signing(Struct, frozen=True):
    """The site's key, ready: it has signed once."""

    signer: Signer

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
