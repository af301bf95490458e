"""Starting and stopping a demo fleet."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from toolkit.demo.create import make_nodes
from toolkit.demo.nodes import fleet_names, recipe_of
from toolkit.errors import ToolkitError, UsageError
from toolkit.hosts.host import Host, one_word

_PACKAGE = Path(__file__).parent
_STOP_S = 10.0  # a server that has not ended by then is killed


def client_key_file(state: Path) -> Path:
    return state / "client_key"


def known_hosts_file(state: Path) -> Path:
    return state / "known_hosts"


def make_key(path: Path) -> None:
    """A new ed25519 key at ``path`` (mode 0600) and PATH.pub, unless it is there."""
    if path.exists():
        return
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    public_file(path).write_bytes(public + b"\n")
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(private)
    beside.rename(path)


def public_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.pub")


def write_known_hosts(state: Path) -> None:
    """One line a node. Ports differ from run to run, so that names stand there as aliases."""
    lines = [
        f"{place.name} {public_file(place / 'host_key').read_text('utf-8')}"
        for place in sorted((state / "nodes").iterdir())
        if not place.name.startswith(".")
    ]
    beside = state / f".known_hosts.{os.getpid()}"
    beside.write_text("".join(lines))
    beside.rename(known_hosts_file(state))


class DemoFleet:
    """Nodes being served; close it, or use it in a with statement."""

    def __init__(self, state: Path, names: tuple[str, ...], server: subprocess.Popen[str]) -> None:
        self._state = state
        self._server = server
        ports = _read_ports(server)
        self.hosts: tuple[Host, ...] = tuple(_host(state, name, ports[name]) for name in names)

    @property
    def pid(self) -> int:
        """The server's process id."""
        return self._server.pid

    def tree(self, name: str) -> Path:
        """Where the node's root lies on this machine."""
        return self._state / "nodes" / name / "tree"

    def close(self) -> None:
        """End the server, and with it whatever still runs on the nodes."""
        if self._server.stdin is None or self._server.stdin.closed:
            return
        with contextlib.suppress(OSError):  # it may have died before
            self._server.stdin.write("quit\n")
        with contextlib.suppress(OSError):
            self._server.stdin.close()
        try:
            self._server.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()
        if self._server.stdout is not None:
            self._server.stdout.close()

    def __enter__(self) -> DemoFleet:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def named(expression: str, state_dir: Path) -> tuple[Host, ...]:
    """The same nodes, of which none is made or served: their ports are chosen when they are.

    :raises UsageError: when the expression names no demo node.
    """
    return tuple(_host(state_dir, name, 0) for name in names_of(expression))


def names_of(expression: str) -> tuple[str, ...]:
    """:raises UsageError: when the expression names no demo node."""
    if names := fleet_names(expression):
        return names
    raise UsageError(f"{expression}: names no demo node", hint="demo, demo-all, demo[001-200]")


def start(expression: str, state_dir: Path) -> DemoFleet:
    """Serve the nodes that ``expression`` names, making those that are not there yet.

    The nodes' trees stay in ``state_dir`` between runs; a toolkit whose demo differs makes
    them anew.

    :raises UsageError: when the expression names no demo node, or none can be made.
    :raises ToolkitError: when the server does not come up.
    """
    names = names_of(expression)
    prepare(state_dir, names)
    server = subprocess.Popen(
        [sys.executable, "-m", "toolkit.demo", "serve", str(state_dir.resolve()), *names],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        env=os.environ | {"PYTHONPATH": _python_path()},
        start_new_session=True,  # Ctrl-C is for us: the nodes stay up while we clean up
    )
    try:
        return DemoFleet(state_dir.resolve(), names, server)
    except BaseException:
        server.kill()
        server.communicate()
        raise


def prepare(state_dir: Path, names: tuple[str, ...]) -> None:
    """Make trees and keys on disk; two runs at once wait for each other.

    :raises UsageError: they cannot be written.
    """
    try:
        state_dir.mkdir(parents=True, exist_ok=True)
        with _locked(state_dir):
            _make(state_dir, names)
    except OSError as why:
        raise UsageError(
            f"demo nodes cannot be made in {state_dir}: {why.strerror}",
            hint="set XDG_STATE_HOME to a folder with room, where you may write and run files",
        ) from why


def _make(state_dir: Path, names: tuple[str, ...]) -> None:
    version = state_dir / "version"
    if not version.exists() or version.read_text("utf-8") != _fingerprint():
        _clear(state_dir)
    make_nodes(state_dir, names)
    make_key(client_key_file(state_dir))
    for node in (state_dir / "nodes").iterdir():  # those, too, that a run left without on Ctrl-C
        if not node.name.startswith("."):
            make_key(node / "host_key")
    write_known_hosts(state_dir)
    version.write_text(_fingerprint())


def put_right(state_dir: Path, names: Iterable[str]) -> list[str]:
    """Those of the nodes on which a run has changed something since they were made."""
    nodes = state_dir / "nodes"
    return [name for name in names if (nodes / name / "tree/var/lib/gdr-toolkit/journal").exists()]


def reset(state_dir: Path) -> None:
    """Forget all trees, so that the next start makes them as they were at first."""
    if state_dir.is_dir():
        with _locked(state_dir):
            _clear(state_dir)


def _clear(state_dir: Path) -> None:
    (state_dir / "version").unlink(missing_ok=True)
    for folder in ("nodes", "templates"):
        shutil.rmtree(state_dir / folder, ignore_errors=True)


@contextlib.contextmanager
def _locked(state_dir: Path) -> Iterator[None]:
    with (state_dir / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fingerprint() -> str:
    """Changes whenever this package does."""
    digest = hashlib.sha256()
    for path in sorted([*_PACKAGE.glob("*.py"), *(_PACKAGE / "bin").iterdir()]):
        if path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _python_path() -> str:
    """Where this very toolkit is imported from, before whatever the user has set."""
    ours, theirs = str(_PACKAGE.parents[1]), os.environ.get("PYTHONPATH", "")
    return f"{ours}{os.pathsep}{theirs}" if theirs else ours


def _read_ports(server: subprocess.Popen[str]) -> dict[str, int]:
    ports: dict[str, int] = {}
    assert server.stdout is not None  # noqa: S101  # asked for, above
    for line in server.stdout:
        if line == "\n":
            return ports
        name, port = line.split()
        ports[name] = int(port)
    raise ToolkitError(
        f"the demo server ended with status {server.wait()} before it listened",
        hint="start it by hand to see why: python -m toolkit.demo serve STATE NODE",
    )


def _host(state: Path, name: str, port: int) -> Host:
    return Host(
        name,
        address="127.0.0.1",
        user=recipe_of(name).user,
        port=port,
        groups=("demo",),
        key_file=str(client_key_file(state)),
        options=(
            ("UserKnownHostsFile", one_word(known_hosts_file(state))),
            ("GlobalKnownHostsFile", "/dev/null"),
            ("HostKeyAlias", name),
            ("IdentitiesOnly", "yes"),
            ("IdentityAgent", "none"),
        ),
    )
