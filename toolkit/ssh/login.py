"""Getting in: which keys are tried in which order, then the password.

As ssh does: keys of the agent that are named in the configuration, the agent's others,
then the key files; a certificate before its bare key. With a password at hand only what
was configured is tried before it, for servers count attempts.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from toolkit.ssh import transport_errors
from toolkit.ssh.credentials import Credentials
from toolkit.ssh.ssh_config import Target

if TYPE_CHECKING:
    import paramiko
else:
    from toolkit.ssh import late as paramiko

_CERTIFICATE = "-cert.pub"


class Means(Struct, frozen=True):
    """One way to prove who we are; ``key`` is None for the password."""

    name: str  # "~/.ssh/id_ed25519", for the list of what was tried
    key: paramiko.PKey | None


def log_in(transport: paramiko.Transport, target: Target, credentials: Credentials) -> None:
    """Authenticate ``transport``, whose host key has been verified.

    :raises LoginError: when nothing that we have lets us in, naming what was tried.
    :raises paramiko.SSHException: the connection broke meanwhile.
    """
    tried: list[str] = []
    user = target.door.user
    with contextlib.closing(_Agent(target)) as agent:
        for means in _means(agent, target, credentials, tried):
            tried.append(means.name)
            if _try(transport, user, means, credentials):
                return
            if not transport.is_active():
                break
    if not transport.is_active():
        if len(tried) < 2:
            raise transport_errors.cut(target.door.host, "logging in")
        tried.append("then the node hung up; it may allow fewer tries")
    raise transport_errors.login_refused(target.door, ", ".join(tried))


def _try(transport: paramiko.Transport, user: str, means: Means, credentials: Credentials) -> bool:
    try:
        if means.key is not None:
            transport.auth_publickey(user, means.key)
        else:
            # Falls back to keyboard-interactive where the server prefers to ask.
            transport.auth_password(user, credentials.password or "")
    except paramiko.AuthenticationException:
        return False
    # A key may be accepted as the first of two things that the node wants.
    return transport.is_authenticated()


def _means(
    agent: _Agent, target: Target, credentials: Credentials, tried: list[str]
) -> Iterator[Means]:
    wanted = [_public(file) for file in target.key_files] if agent.keys else []
    for key in agent.keys:
        if key.asbytes() in wanted:
            yield Means(f"agent ({key.get_name()}, configured)", key)
    if not target.identities_only and credentials.password is None:
        for key in agent.keys:
            if key.asbytes() not in wanted:
                yield Means(f"agent ({key.get_name()})", key)
    if target.keys_configured or credentials.password is None:
        for file in target.key_files:
            yield from _from_file(file, target, tried)
    if credentials.password is not None:
        yield Means("the password", None)


def _from_file(file: str, target: Target, tried: list[str]) -> Iterator[Means]:
    """The certificates of one key file, then the bare key; what fails to load is noted."""
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415 as Paramiko, which see

    try:
        stat = Path(file).stat()
        keys = _load(file, target.certificates, stat.st_mtime_ns)
    except FileNotFoundError:
        if target.keys_configured:
            tried.append(f"{file} (not there)")
    except OSError as why:
        tried.append(f"{file} ({why.strerror})")
    except (paramiko.PasswordRequiredException, TypeError):
        tried.append(f"{file} (locked by a passphrase: ssh-add it to an agent)")
    except (paramiko.SSHException, ValueError, UnsupportedAlgorithm):
        tried.append(f"{file} (not a private key that we can read)")
    else:
        yield from keys


@lru_cache(maxsize=256)
def _load(file: str, certificates: tuple[str, ...], _mtime_ns: int) -> tuple[Means, ...]:
    """Keys are read once for all hosts: parsing RSA costs more than a connection."""
    bare = paramiko.PKey.from_path(file)
    bare.public_blob = None  # from_path takes a certificate beside the key unasked
    means: list[Means] = []
    for path in (*certificates, file + _CERTIFICATE):
        key = paramiko.PKey.from_path(file)
        # A configured certificate may belong to another of the keys.
        with contextlib.suppress(ValueError, OSError):
            key.load_certificate(path)
            if key.public_blob is not None and _body(bare) in key.public_blob.key_blob:
                means.append(Means(path, key))
    return (*means, Means(file, bare))


def _body(key: paramiko.PKey) -> bytes:
    """The public key without its type, as it also stands in its certificates."""
    return key.asbytes()[4 + len(key.get_name()) :]


def _public(file: str) -> bytes:
    """The public key that belongs to a key file, to find it in the agent; b"" if unknown."""
    with contextlib.suppress(OSError, ValueError, paramiko.SSHException, TypeError):
        if Path(file + ".pub").is_file():
            return paramiko.pkey.PublicBlob.from_file(file + ".pub").key_blob
        return paramiko.PKey.from_path(file).asbytes()
    return b""


class _Agent:
    """The keys of the running agent, if there is one that we may use."""

    def __init__(self, target: Target) -> None:
        self.keys: tuple[paramiko.PKey, ...] = ()
        self._agent: paramiko.Agent | None = None
        running = os.environ.get("SSH_AUTH_SOCK")
        if running and target.agent in ("", running, "SSH_AUTH_SOCK"):
            with contextlib.suppress(paramiko.SSHException, OSError):
                self._agent = paramiko.Agent()
                self.keys = tuple(self._agent.get_keys())

    def close(self) -> None:
        if self._agent is not None:
            self._agent.close()
