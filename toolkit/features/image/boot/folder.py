"""The folder that one boot of an image has for itself, and the keys in it.

TMPDIR/gdr-boot-XXXXXXXX/        one-time keys, the console, a throw-away disk
    lock                         held for as long as the boot takes

An image takes the keys without being changed, in one of two ways. systemd 252 and later (Debian
12, RHEL 9) reads credentials from SMBIOS strings, and hands the one called tmpfiles.extra to
systemd-tmpfiles: its lines put a host key and a login key into /run, and name both to sshd in a
file that the boot loses with its disk. What has cloud-init instead finds a second drive called
CIDATA (NoCloud) with the same keys. Both are always offered; what asks for neither is not entered.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec import Struct

from toolkit.errors import UsageError
from toolkit.hosts.host import one_word
from toolkit.safe_file import hold

_PREFIX = "gdr-boot-"
_YOUNG_S = 60.0


def boot_home() -> Path:
    """Where boots have their folders."""
    return Path(os.environ.get("TMPDIR") or "/var/tmp")  # noqa: S108 where large files belong


@contextmanager
def boot_folder() -> Iterator[Path]:
    """All that the boot has for itself; what a killed one has left goes first."""
    home = boot_home()
    for left in home.glob(f"{_PREFIX}*"):
        _sweep(left)
    try:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=home))
        held = hold(folder / "lock")
    except OSError as why:
        raise UsageError(f"{home}: {why.strerror}", hint="TMPDIR=/FOLDER with room") from why
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if held is not None:
            held.let_go()


def _sweep(left: Path) -> None:
    """Remove what a boot has left whose process is gone: the kernel then takes its lock back.

    A number of its process would not tell: containers may share the folder, and not the numbers.
    """
    with suppress(OSError):
        told = left.lstat()
        young = time.time() - told.st_mtime < _YOUNG_S  # may be about to take its lock
        if told.st_uid != os.geteuid() or not stat.S_ISDIR(told.st_mode) or young:
            return
        if (held := hold(left / "lock")) is not None:
            with held:
                shutil.rmtree(left, ignore_errors=True)


PLACE = "/run/gdr-toolkit-boot"
_SSHD = "/etc/ssh/sshd_config.d/00-gdr-toolkit-boot.conf"


class OneTime(Struct, frozen=True):
    """Files on our side; all lie in a folder that goes with the boot."""

    name: str  # the host's, for --hosts and reports
    ssh_config: Path
    credential: Path
    seed: Path


class _Pair(Struct, frozen=True):
    private: bytes  # as OpenSSH's own tools write it
    public: str  # "ssh-ed25519 AAAA..."


def one_time(folder: Path, name: str, port: int) -> OneTime:
    """Make the keys, and write what each side needs of them.

    :param folder: for its owner alone.
    :param port: on loopback, to the guest's sshd.
    """
    login, host = _pair(), _pair()
    key = folder / "key"
    _write(key, login.private)
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {host.public}\n")
    made = OneTime(name, folder / "ssh_config", folder / "credential", folder / "seed")
    made.ssh_config.write_text(
        f"Host {name}\n  HostName 127.0.0.1\n  Port {port}\n  User root\n"
        f"  IdentityFile {one_word(key)}\n  IdentitiesOnly yes\n"
        f"  UserKnownHostsFile {one_word(folder / 'known_hosts')}\n"
        "  GlobalKnownHostsFile /dev/null\n"
        "  StrictHostKeyChecking yes\n  HostKeyAlgorithms ssh-ed25519\n  ConnectTimeout 60\n"
    )
    credential = b64encode(_tmpfiles(login, host).encode()).decode()
    _write(made.credential, f"io.systemd.credential.binary:tmpfiles.extra={credential}".encode())
    made.seed.mkdir()
    (made.seed / "meta-data").write_text(f"instance-id: {name}\n")
    (made.seed / "user-data").write_text(_cloud_config(login, host))
    return made


def _tmpfiles(login: _Pair, host: _Pair) -> str:
    """Lines of tmpfiles.d(5); + replaces what may be there, ~ says that the content is base64.

    The first word of sshd's that says something stands, and its includes stand first: so ours
    also lets root in where the image's own configuration does not.
    """
    settings = (
        f"HostKey {PLACE}/host_key\n"
        f"AuthorizedKeysFile {PLACE}/authorized_keys .ssh/authorized_keys\n"
        "PermitRootLogin prohibit-password\nPubkeyAuthentication yes\nUseDNS no\n"
    )
    rows = (
        (f"{PLACE}/host_key", "0600", host.private),
        (f"{PLACE}/authorized_keys", "0600", f"{login.public}\n".encode()),
        (_SSHD, "0644", settings.encode()),
    )
    return f"d {PLACE} 0755 root root - -\n" + "".join(
        f"f+~ {path} {mode} root root - {b64encode(data).decode()}\n" for path, mode, data in rows
    )


def _cloud_config(login: _Pair, host: _Pair) -> str:
    private = "".join(f"    {line}\n" for line in host.private.decode().splitlines())
    return (
        "#cloud-config\n"
        "disable_root: false\n"
        f"ssh_keys:\n  ed25519_private: |\n{private}  ed25519_public: {host.public}\n"
        f"users:\n  - name: root\n    ssh_authorized_keys:\n      - {login.public}\n"
    )


def _pair() -> _Pair:
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    return _Pair(private, public.decode())


def _write(path: Path, data: bytes) -> None:
    """For its owner alone, from its first moment on."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
