"""OpenSSL as a child that can ask nobody, with its secret on a pipe."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from toolkit.errors import UsageError

PIN = "KBUILD_SIGN_PIN"  # where the kernel's own sign-file looks for passphrase and PIN
LIMIT_S = 60.0  # a token over the network, or one that waits for a touch


def run_openssl(
    words: Sequence[str],
    data: bytes,
    *,
    secret: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run OpenSSL in a session of its own, so that it cannot ask anybody anything.

    :raises UsageError: it is not here, or gave no answer in time.
    """
    given = {k: v for k, v in os.environ.items() if k != PIN}
    try:
        with _readable(secret) as passed:
            return subprocess.run(
                (*words, *(word for reader in passed for word in ("-passin", f"fd:{reader}"))),
                input=data,
                capture_output=True,
                env={**given, **(environment or {}), "LC_ALL": "C"},
                pass_fds=passed,
                start_new_session=True,
                timeout=LIMIT_S,
                check=False,
            )
    except FileNotFoundError as why:
        raise UsageError(
            "openssl is not here, and signatures are made by it", hint="install openssl"
        ) from why
    except subprocess.TimeoutExpired as why:
        raise UsageError(
            f"openssl {words[1]}: no answer within {LIMIT_S:.0f} s",
            hint="does the token wait for a touch, or its network?",
        ) from why


@contextmanager
def _readable(secret: str | None) -> Iterator[tuple[int, ...]]:
    """The descriptor that a child reads the secret from; none where there is none."""
    if secret is None:
        yield ()
        return
    reader, writer = os.pipe()
    try:
        os.write(writer, secret.encode("utf-8", "surrogateescape") + b"\n")  # far below a pipe's
        os.close(writer)
        yield (reader,)
    finally:
        with suppress(OSError):
            os.close(reader)
