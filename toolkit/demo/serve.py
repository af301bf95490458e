"""A demo fleet that stays up, each node behind the machine's own sshd, for programs of others.

FOLDER/hosts.ini     an inventory; it comes last: where it is, all nodes answer
FOLDER/ssh_config, known_hosts, client_key, groups.conf (ClusterShell's)
FOLDER/sshd/NAME     what sshd runs in place of any command: that command, on the node; as root in
                     a mount namespace, where NAME.view tells what of the node lies in which place

Whoever is killed leaves all that there: the next one to serve the folder ends and removes it.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from toolkit.demo.create import SYSTEM_PATH, environment
from toolkit.demo.fleet import known_hosts_file, names_of, prepare, public_file
from toolkit.errors import ToolkitError, Unsupported, UsageError
from toolkit.safe_file import FileLock, hold

_OURS = ("hosts.ini", "ssh_config", "groups.conf", "known_hosts", "client_key", "client_key.pub")
_FOLDERS = ("sshd", "nodes", "templates")
_MARK = "demo-fleet"  # its lock is held by whoever serves the folder
_MADE = "the folder is ours, too\n"  # what it holds where that is so
_START_S = 20.0  # sshd listens at once; a busy machine may take its time
_TRIES = 200
# Each family has it elsewhere. internal-sftp is none: a forced command goes before it.
_SFTP_AT = ("lib/openssh", "libexec/openssh", "lib/ssh", "libexec", "lib/misc")
_SSHD = """\
ListenAddress 127.0.0.1:{port}
HostKey {node}/host_key
AuthorizedKeysFile {folder}/client_key.pub
ForceCommand exec {folder}/sshd/{name}
{sftp}AllowUsers {user}
PermitRootLogin yes
PasswordAuthentication no
KbdInteractiveAuthentication no
DisableForwarding yes
PidFile none
StrictModes no
UsePAM no
UseDNS no
PrintLastLog no
MaxStartups 500
MaxSessions 100
"""
_ENTER = """\
#!/bin/sh
if [ -z "${{GDR_NODE:-}}" ]; then
{exports}
{view}fi
cd "$HOME" || exit
if [ -n "${{SSH_ORIGINAL_COMMAND:-}}" ]; then exec /bin/sh -c "$SSH_ORIGINAL_COMMAND"; fi
PS1='{name}# ' exec /bin/sh
"""
# As root, whose mistakes would be this machine's: the node's files in their places, all else kept.
_VIEW = """\
exec unshare --mount --propagation private /bin/sh -c '
mount --all --fstab "$1.view" && for at in {kept}; do
    mount -o remount,bind,ro "$at" 2>/dev/null || test ! -d "$at" || exit
done
exec "$1"' sh {enter}
"""
_PLACES = (
    *("sys", "boot", "lib/modules", "usr/src", "tmp", "var/tmp", "var/log", "var/lib/dkms"),
    *(f"proc/{each}" for each in ("cmdline", "cpuinfo", "modules", "version", "driver", "iomem")),
    *(f"proc/sys/kernel/{each}" for each in ("hostname", "osrelease", "random/boot_id")),
)
_SYSTEMS = (  # its commands by which a machine would be changed, wherever a program looks for them
    *("reboot", "shutdown", "systemctl", "modprobe", "rmmod", "depmod", "dkms", "sysctl"),
    *("update-grub", "update-initramfs", "dracut", "grubby"),
)
_AS_NAMED = "as-named"
_COMMAND = '#!/bin/sh\nexec "$GDR_BIN/${0##*/}" "$@"\n'
_DISKS = frozenset({"ext4", "xfs", "btrfs", "overlay", "zfs", "f2fs", "ext3", "nfs", "nfs4"})
_INVENTORY = """\
[demo]
{hosts}
[demo:vars]
ansible_host=127.0.0.1
ansible_user={user}
ansible_python_interpreter={python}
ansible_remote_tmp=$HOME/.ansible/tmp
ansible_ssh_private_key_file={folder}/client_key
ansible_ssh_common_args=-F {folder}/ssh_config -o IdentitiesOnly=yes \
-o UserKnownHostsFile={folder}/known_hosts -o GlobalKnownHostsFile=/dev/null
"""
_SSH_CONFIG = """\
Host {name}
    HostName 127.0.0.1
    Port {port}
    User {user}
    IdentityFile {folder}/client_key
    IdentitiesOnly yes
    IdentityAgent none
    UserKnownHostsFile {folder}/known_hosts
    GlobalKnownHostsFile /dev/null
"""
_GROUPS = """\
[Main]
default: demo
[demo]
map: sed -n '/^\\[$GROUP]/,/^$/s/ ansible_port=.*//p' {folder}/hosts.ini
list: echo demo
"""


@contextlib.contextmanager
def served(expression: str, folder: Path) -> Iterator[dict[str, int]]:
    """Serve the nodes that ``expression`` names from ``folder``; yields the port of each.

    :raises UsageError: they are no demo nodes, or the folder cannot be had.
    :raises Unsupported: there is no sshd; or as root, no mount namespace.
    :raises ToolkitError: sshd does not start.
    """
    names, sshd = names_of(expression), _sshd()
    folder = folder.resolve()
    with _claimed(folder) as lock:
        try:
            _take_away(folder)
            prepare(folder, names)
            ports = _started(sshd, folder, names)
            _write(folder, ports)
            yield ports
        finally:
            _take_away(folder)
            made = (folder / _MARK).read_text() == _MADE
            lock.forget()
            if made:
                with contextlib.suppress(OSError):  # somebody has put something there
                    folder.rmdir()


def _sshd() -> str:
    found = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if found is None:
        raise Unsupported("there is no sshd on this machine", hint="install openssh-server")
    if os.geteuid() == 0:
        words = ("unshare", "--mount", "--propagation", "private", "true")
        if not shutil.which(words[0]) or _fails(words):
            raise Unsupported(
                "as root this would give root of this machine away: no mount namespace can be had",
                hint="serve it as an ordinary user",
            )
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # Debian's unit makes it
    return found


def _fails(words: tuple[str, ...]) -> bool:
    return subprocess.run(words, capture_output=True, check=False).returncode != 0


def _claimed(folder: Path) -> FileLock:
    """:raises UsageError: it is another's, or its name would not pass through others' files."""
    if re.search(r"[^\w./+@-]", str(folder)):
        raise UsageError(
            f"{folder}: has letters that inventories and ssh_config would have to quote",
            hint="name a folder by letters, digits and ./+@_- alone",
        )
    try:
        made = not folder.exists()
        if not (made or (folder / _MARK).exists()) and any(folder.iterdir()):
            raise UsageError(
                f"{folder}: there are other files", hint="name a folder that is empty or not there"
            )
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = hold(folder / _MARK)
        if made and lock is not None:
            os.write(lock.descriptor, _MADE.encode())
    except OSError as why:
        raise UsageError(f"{folder}: {why.strerror}", hint="name one that you may write") from why
    if lock is None:
        raise UsageError(
            f"{folder}: another process serves it", hint="end that one, or name another folder"
        )
    return lock


def _started(sshd: str, folder: Path, names: tuple[str, ...]) -> dict[str, int]:
    (folder / "sshd").mkdir()
    (folder / "sshd" / _AS_NAMED).write_text(_COMMAND)
    (folder / "sshd" / _AS_NAMED).chmod(0o755)
    with contextlib.ExitStack() as stack:  # all are held until each listens: sshd may share them
        probes = [stack.enter_context(socket.socket()) for _ in names]
        for probe in probes:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", 0))
        ports = {name: int(each.getsockname()[1]) for name, each in zip(names, probes, strict=True)}
        servers = {name: _launch(sshd, folder, name, port) for name, port in ports.items()}
        _await(servers, ports, folder)
    return ports


def _await(servers: dict[str, subprocess.Popen[bytes]], ports: dict[str, int], at: Path) -> None:
    """:raises ToolkitError: one of them does not listen."""
    end = time.monotonic() + _START_S
    for name, server in servers.items():
        while not _listens(ports[name]):
            if server.poll() is not None or time.monotonic() > end:
                log = (at / "sshd" / f"{name}.log").read_text(errors="replace")
                raise ToolkitError(
                    f"{name}: sshd does not start: {log.strip().rpartition(chr(10))[2]}",
                    hint="see that sshd -t is content, and try again",
                )
            time.sleep(0.01)


def sftp_server() -> str:
    """This machine's program for file transfers; "" where it has none, and sshd refuses them."""
    return shutil.which("sftp-server", path=":".join(f"/usr/{each}" for each in _SFTP_AT)) or ""


def _launch(sshd: str, folder: Path, name: str, port: int) -> subprocess.Popen[bytes]:
    node, enter = folder / "nodes" / name, folder / "sshd" / name
    settings = environment(node) | {"PATH": f"{node / 'bin'}:{SYSTEM_PATH}"}
    exports = "\n".join(f"export {key}={shlex.quote(value)}" for key, value in settings.items())
    view = ""
    if os.geteuid() == 0:
        view = _VIEW.format(kept=" ".join(_kept(folder)), enter=enter)
        enter.with_name(f"{name}.view").write_text("".join(_laid(folder, node)))
    enter.write_text(_ENTER.format(exports=exports, view=view, name=name))
    enter.chmod(0o755)
    sftp = sftp_server()
    config = enter.with_name(f"{name}.conf")
    config.write_text(
        _SSHD.format(
            port=port,
            node=node,
            folder=folder,
            name=name,
            sftp=f"Subsystem sftp {sftp}\n" if sftp else "",
            user=pwd.getpwuid(os.geteuid()).pw_name,
        )
    )
    with enter.with_name(f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            [sshd, "-D", "-e", "-f", str(config)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C is for us
        )


def _laid(folder: Path, node: Path) -> Iterator[str]:
    """What lies where in a session on the node, as fstab(5) has it."""
    tree = node / "tree"
    own = [f"etc/{each.name}" for each in (tree / "etc").iterdir() if each.name != "passwd"]
    pairs = [(tree / each, Path("/", each)) for each in (*_PLACES, *sorted(own))]
    commands = (Path(at, name) for name in _SYSTEMS for at in ("/usr/sbin", "/usr/bin"))
    there = {each.resolve() for each in commands if each.exists()}  # most are links to a few
    pairs += [(folder / "sshd" / _AS_NAMED, each) for each in sorted(there)]
    needed = (folder, Path(sys.executable), Path(sys.base_prefix))  # also where they lie below /tmp
    for source, place in [(folder, folder), *pairs]:
        hides = place != folder and any(each.is_relative_to(place) for each in needed)
        if source.exists() and place.exists() and not hides:
            yield f"{source} {place} none bind 0 0\n"


def _kept(folder: Path) -> list[str]:
    """Where this machine's disks are: nothing is written there but in ``folder``."""
    rows = (line.split() for line in Path("/proc/self/mounts").read_text().split("\n") if line)
    points = {place for _, place, kind, *_ in rows if kind in _DISKS and "\\" not in place}
    passing = ("/tmp/", "/run/", "/dev/", "/proc/", "/sys/")  # noqa: S108 no file is made there
    return sorted(each for each in points - {str(folder)} if not each.startswith(passing))


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


def _write(folder: Path, ports: dict[str, int]) -> None:
    about = {"folder": folder, "user": pwd.getpwuid(os.geteuid()).pw_name}
    config = (_SSH_CONFIG.format(name=name, port=port, **about) for name, port in ports.items())
    (folder / "ssh_config").write_text("".join(config))
    keys = (
        f"{name},[127.0.0.1]:{port} {public_file(folder / 'nodes' / name / 'host_key').read_text()}"
        for name, port in ports.items()
    )
    known_hosts_file(folder).write_text("".join(keys))
    (folder / "groups.conf").write_text(_GROUPS.format(folder=folder))
    hosts = "".join(f"{name} ansible_port={port}\n" for name, port in ports.items())
    beside = folder / "sshd/hosts.ini"
    beside.write_text(_INVENTORY.format(hosts=hosts, python=sys.executable, **about))
    beside.rename(folder / "hosts.ini")


def _take_away(folder: Path) -> None:
    """End all that serves the folder or runs on its nodes, and remove what was made there."""
    for _ in range(_TRIES):  # what is killed may have started something meanwhile
        if not (running := _running(folder)):
            break
        for pid in running:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    for name in (*_OURS, "version", "lock"):
        (folder / name).unlink(missing_ok=True)
    for name in _FOLDERS:
        shutil.rmtree(folder / name, ignore_errors=True)


def _running(folder: Path) -> set[int]:
    """Its servers, their sessions, and what went into the background of a node."""
    ours = re.escape(os.fsencode(folder))
    server = re.compile(rb"(?:sshd: )?\S*sshd -D -e -f %b/sshd/" % ours)
    inside = os.fsencode(f"GDR_ROOT={folder}/nodes/")
    found, parents = set[int](), dict[int, int]()
    for place in Path("/proc").iterdir():
        if not place.name.isdigit():
            continue
        with contextlib.suppress(OSError, IndexError):
            state, parent, *_ = (
                (place / "stat").read_text(errors="replace").rpartition(")")[2].split()
            )
            if state == "Z":
                continue
            parents[int(place.name)] = int(parent)
            words = (place / "cmdline").read_bytes().replace(b"\0", b" ")
            if server.match(words) or inside in (place / "environ").read_bytes():
                found.add(int(place.name))
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {os.getpid()}
