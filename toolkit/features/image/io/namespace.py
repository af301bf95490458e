"""Namespaces of their own, in which an image is worked on, and which end with us.

One process of ours waits in them for the end of its standard input, which the kernel brings
about when we die, however we die. It is the first process in there: with it go all others,
every mount and, with the mounts, every loop device.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from toolkit.errors import ApplyError, Unsupported
from toolkit.ssh.become import Become
from toolkit.ssh.limits import Hearing
from toolkit.ssh.local import run_child
from toolkit.ssh.stream import Lines, conclude
from toolkit.ssh.transport import Result, Sink, quiet
from toolkit.ssh.transport_errors import late

TOOLS = ("unshare", "nsenter", "setpriv", "mount", "umount", "chroot", "cp", "sync")
_PACKAGES = {
    "qemu-img": "qemu-utils (qemu-img in the RHEL family)",
    "xz": "xz-utils (xz in the RHEL family)",
    **{each: each for each in ("tar", "gzip", "zstd", "bzip2")},
}
_KINDS = ("--mount", "--pid", "--uts", "--ipc", "--net")
# Its number is told in the words of those outside: their /proc is still there when it reads it.
_WAIT = (
    "read -r pid _ </proc/self/stat && mount -n --make-rprivate / && mount -n -t proc proc /proc"
    ' && echo "$pid" && read -r _'
)
# What no script in an image may do to the machine that it does not belong to.
_NEVER = "-sys_module,-syslog,-sys_boot,-sys_time,-sys_rawio"
_FULL = ("No space left on device", "Disk quota exceeded", "Wrote only")  # the last is tar's
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_INSIDE = (f"PATH=/run/gdr-image:{PATH}", "HOME=/root", "LC_ALL=C", "SYSTEMD_OFFLINE=1")
_OUTSIDE = {"PATH": PATH, "LC_ALL": "C"}
_END_S = 30.0


class MountRoom:
    """The namespaces, from the first call of ``open`` until ``close``."""

    def __init__(self, name: str, waiting: subprocess.Popen[bytes], pid: int, lock: int) -> None:
        self._name = name
        self._waiting = waiting
        self._pid = pid
        self._lock = lock

    @classmethod
    def open(cls, name: str, lock: int) -> MountRoom:
        """Make them.

        :param name: of the image, for sentences.
        :param lock: the descriptor of a lock, which stays locked while a process is in there.
        :raises Unsupported: this machine gives none, or lacks a tool.
        """
        demand(name, TOOLS)
        waiting = subprocess.Popen(
            ("unshare", *_KINDS, "--fork", "--kill-child", "sh", "-c", _WAIT),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=_OUTSIDE,
            start_new_session=True,
            pass_fds=(lock,),
        )
        assert waiting.stdout is not None  # noqa: S101 # it was asked for, a line above
        told = waiting.stdout.readline().strip()
        if not told:
            _, said = waiting.communicate()
            why = said.decode(errors="replace").strip().rpartition("\n")[2]
            raise Unsupported(
                f"{name}: this machine gives no namespaces to work in: {why}",
                hint="a container needs the right to mount (--privileged); elsewhere be root",
            )
        return cls(name, waiting, int(told), lock)

    @property
    def door(self) -> Path:
        """The root of the namespaces, as seen from outside: a path may be put behind it."""
        return Path(f"/proc/{self._pid}/root")

    def words(self) -> tuple[str, ...]:
        """What goes before a command so that it runs in there.

        :raises ApplyError: they have ended.
        """
        if self._waiting.poll() is not None:
            raise ApplyError(
                f"{self._name}: what held its mounts was ended from outside",
                hint="the image is as it was; run it again",
            )
        return ("nsenter", "--target", str(self._pid), *_KINDS, "--")

    def call(self, *argv: str | Path, text: str = "") -> str:
        """Run one command in there, to its end; its standard output.

        :raises ApplyError: it failed, with its last words; a full disk is called that.
        """
        words = [*self.words(), *map(str, argv)]
        with subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=_OUTSIDE,
            start_new_session=True,
            pass_fds=(self._lock,),
        ) as child:
            try:
                out, said = child.communicate(text.encode("utf-8", "surrogateescape"))
            except BaseException:
                child.kill()
                raise
        if child.returncode:
            raise refusal(self._name, str(argv[0]), child.returncode, said)
        return out.decode("utf-8", "surrogateescape")

    def run(self, script: str, root: Path | None, limit_s: float, sink: Sink) -> Result:
        """Feed a script to ``sh -s`` in there, below ``root`` or with the machine's own root.

        :raises TransportError: it did not come to its end.
        """
        become = Become(wanted=False)
        within: tuple[str, ...] = ()
        if root is not None:
            within = ("setpriv", "--bounding-set", _NEVER, "chroot", str(root), "env", "-i")
            within += _INSIDE
        lines = Lines(sink, Hearing(self._name))
        words = [*self.words(), *within, "sh", "-c", become.command]
        ended = run_child(
            words, become.feed(script), limit_s=limit_s, lines=lines, keep=(self._lock,)
        )
        if ended.late:
            raise late(self._name, limit_s, "the script ran")
        return conclude(self._name, lines.end(), ended.stderr)

    def still(self) -> None:
        """End what scripts have left running in there."""
        self.call("sh", "-c", "kill -9 -1; :")

    def close(self) -> None:
        """End all that is in there, and wait until it is gone. Again does nothing."""
        with suppress(OSError):
            if self._waiting.stdin is not None:
                self._waiting.stdin.close()
        try:
            self._waiting.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._waiting.kill()  # and, by --kill-child, the one that waits
            self._waiting.wait()
        for stream in (self._waiting.stdout, self._waiting.stderr):
            if stream is not None:
                stream.close()


def demand(name: str, tools: Iterable[str]) -> None:
    """See that this machine has what is needed at the end before anything is begun.

    :raises Unsupported: it lacks some, which are named with their packages.
    """
    lacks = [each for each in tools if shutil.which(each, path=_OUTSIDE["PATH"]) is None]
    if lacks:
        packages = dict.fromkeys(_PACKAGES.get(each, "util-linux and coreutils") for each in lacks)
        raise Unsupported(
            f"{name}: {', '.join(lacks)}: not on this machine",
            hint=f"packages {', '.join(packages)}",
        )


class ImageGround:
    """This machine as a Transport, from inside the namespaces of an image: not in its tree."""

    def __init__(self, name: str, room: MountRoom, root: Path | None = None) -> None:
        self._name, self._room, self._root = name, room, root

    @property
    def name(self) -> str:
        return self._name

    def run(self, script: str, *, limit_s: float = 120, sink: Sink = quiet) -> Result:
        """As Transport's."""
        return self._room.run(script, self._root, limit_s, sink)

    def close(self) -> None:
        """The namespaces end with the stage, not with this."""


def refusal(name: str, tool: str, status: int, said: bytes) -> ApplyError:
    """What the failure of a tool amounts to."""
    lines = said.decode(errors="replace").strip().split("\n")
    if any(words in line for line in lines for words in _FULL):
        return full(name)
    # mount ends with a word on where one might read more.
    last = next((line for line in reversed(lines) if "dmesg(1)" not in line), "")[:300]
    return ApplyError(
        f"{name}: {tool} ended with status {status}: {last}", hint="the image is as it was"
    )


def full(name: str) -> ApplyError:
    """There is no room for the work beside the image."""
    return ApplyError(
        f"{name}: the disk beside it is full: no space for a copy to work on",
        hint="the image is as it was; make room for one more of it, and run it again",
    )
