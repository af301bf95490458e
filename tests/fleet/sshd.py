"""Real OpenSSH servers on loopback, for whoever runs the tests; root is not needed.

with Sshd(tmp_path, env={"GDR_ROOT": str(tree)}) as sshd:
    transport = SshTransport(sshd.host(), config=SshConfig())

with many(64, tmp_path) as servers:
    hosts = [each.host() for each in servers]
"""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.ports import free_port
from toolkit.hosts.host import Host

_GRANTING = """#!/bin/sh
while :; do
    case ${1:-} in
        -p) shift 2 ;;
        -*) shift ;;
        *) break ;;
    esac
done
[ $# = 0 ] || exec "$@"
"""
START_S = 60.0  # a busy machine may take its time


def program(name: str) -> str | None:
    """Where a program is; sshd hides in sbin, which users' PATHs may lack."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


@dataclass(frozen=True, slots=True)
class Keys:
    """Key pairs of a test site, made once and shared by its servers."""

    host: Path
    user: Path
    authority: Path  # signs users' certificates

    @classmethod
    def make(cls, folder: Path) -> Keys:
        folder.mkdir(parents=True, exist_ok=True)
        keys = cls(folder / "host_key", folder / "user_key", folder / "authority")
        for key in (keys.host, keys.user, keys.authority):
            if not key.exists():
                keygen("-t", "ed25519", "-N", "", "-f", str(key))
        return keys


def keygen(*words: str) -> None:
    subprocess.run(["ssh-keygen", "-q", *words], check=True, capture_output=True)


def fingerprint(key: Path) -> str:
    """``SHA256:...`` of a key file's public half."""
    words = ["ssh-keygen", "-l", "-f", str(key.with_suffix(".pub"))]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()[1]


class Sshd:
    """One server: its own port, host key, authorised key and known_hosts file."""

    def __init__(
        self,
        folder: Path,
        *,
        env: Mapping[str, str] | None = None,
        settings: Sequence[str] = (),
        keys: Keys | None = None,
        address: str = "127.0.0.1",
    ) -> None:
        """:param settings: further sshd_config lines; they win over the ones here."""
        self.folder = folder
        self.address = address
        self.keys = keys or Keys.make(folder / "keys")
        self.port = 0
        self._env = self._as_if_root() | dict(env or {})
        self._settings = tuple(settings)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Sshd:
        self.launch()
        self.await_start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _as_if_root(self) -> dict[str, str]:
        """For whoever runs the tests without being root or a sudoer: a sudo that grants all.

        Root logs in as root and needs none; the real sudo is asked in tests of its own.
        """
        if os.geteuid() == 0:
            return {}
        tools = self.folder / "tools"
        tools.mkdir(parents=True, exist_ok=True)
        (tools / "sudo").write_text(_GRANTING)
        (tools / "sudo").chmod(0o755)
        return {"PATH": f"{tools}:{os.environ.get('PATH', '/usr/bin:/bin')}"}

    @property
    def known_hosts(self) -> Path:
        return self.folder / f"known_hosts.{self.port}"

    @property
    def log(self) -> str:
        return (self.folder / f"log.{self.port}").read_text(errors="replace")

    def host(self, name: str = "", **fields: str | int) -> Host:
        """The host to connect to; nothing of the user's own ~/.ssh takes part."""
        return Host(
            name=name or f"{self.address}:{self.port}",
            address=self.address,
            user=str(fields.get("user", getpass.getuser())),
            port=int(fields.get("port", self.port)),
            key_file=str(fields.get("key_file", self.keys.user)),
            options=(
                ("UserKnownHostsFile", str(fields.get("known_hosts", self.known_hosts))),
                ("GlobalKnownHostsFile", "/dev/null"),
                ("IdentitiesOnly", "yes"),
                ("IdentityAgent", "none"),
            ),
        )

    def launch(self) -> None:
        """Start it; ``await_start`` sees it listen."""
        server = program("sshd")
        assert server, "the sshd fixture is used without the sshd marker's check"
        self.folder.mkdir(parents=True, exist_ok=True)
        if os.geteuid() == 0:
            # Debian makes this when the service starts, which no test does.
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        self.port = self.port or free_port(self.address)
        config = self.folder / f"sshd_config.{self.port}"
        config.write_text("\n".join(self._lines()) + "\n")
        with (self.folder / f"log.{self.port}").open("ab") as log:
            self._process = subprocess.Popen(
                [server, "-D", "-e", "-f", str(config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._note_host_key()

    def await_start(self) -> None:
        end = time.monotonic() + START_S
        while time.monotonic() < end:
            assert self._process is not None
            if self._process.poll() is not None:
                raise RuntimeError(f"sshd did not start: {self.log}")
            with contextlib.suppress(OSError), socket.create_connection((self.address, self.port)):
                return
            time.sleep(0.005)
        raise RuntimeError(f"sshd does not listen after {START_S} s: {self.log}")

    def stop(self) -> None:
        """End the server and every session that it serves."""
        if self._process is None:
            return
        for pid in _descendants(self._process.pid):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, 9)
        self._process.kill()
        self._process.wait()
        self._process = None

    def _lines(self) -> Iterator[str]:
        yield from self._settings
        yield f"Port {self.port}"
        yield f"ListenAddress {self.address}"
        yield f"HostKey {self.keys.host}"
        yield f"AuthorizedKeysFile {self.keys.user}.pub"
        yield f"TrustedUserCAKeys {self.keys.authority}.pub"
        yield from (
            "PidFile none",
            "StrictModes no",
            "UsePAM no",
            "PermitRootLogin yes",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "LogLevel VERBOSE",
            "MaxStartups 500",
            "UseDNS no",
            "Subsystem sftp internal-sftp",
        )
        if self._env:
            yield "SetEnv " + " ".join(f'"{key}={value}"' for key, value in self._env.items())

    def _note_host_key(self) -> None:
        kind, blob, *_ = self.keys.host.with_suffix(".pub").read_text().split()
        name = self.address if ":" not in self.address else f"{self.address}"
        self.known_hosts.write_text(f"[{name}]:{self.port} {kind} {blob}\n")


@contextlib.contextmanager
def many(count: int, folder: Path, *, env: Mapping[str, str] | None = None) -> Iterator[list[Sshd]]:
    """``count`` servers that share one set of keys."""
    keys = Keys.make(folder / "keys")
    servers = [Sshd(folder / str(number), env=env, keys=keys) for number in range(count)]
    try:
        for server in servers:
            server.launch()
        for server in servers:
            server.await_start()
        yield servers
    finally:
        for server in servers:
            server.stop()


def _descendants(pid: int) -> list[int]:
    """Children of children too: a session's shell is a grandchild of its server."""
    found: list[int] = []
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, children.read_text().split()):
                found += [child, *_descendants(child)]
    return found
