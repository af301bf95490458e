"""systemd as the first process of a sandbox, in namespaces of its own."""

from __future__ import annotations

import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.builds.sandbox import PATH, Done, Sandbox

LIMIT_S = 300
_SCRIPT = """\
mount -t proc proc /proc
mount -t tmpfs sys /sys && mkdir -p /sys/fs/cgroup /sys/module
mount -t tmpfs run /run
mount -t cgroup2 cgroup2 /sys/fs/cgroup
exec /lib/systemd/systemd --unit=gdr-test.target --log-target=null
"""


@dataclass(slots=True)
class Systemd:
    """The sandbox's own systemd, for ``with``: no unit is started but those asked for."""

    box: Sandbox
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    _inner: int = field(default=0, init=False)

    def __enter__(self) -> Self:
        self.box.write("/etc/systemd/system/gdr-test.target", "[Unit]\nDefaultDependencies=no\n")
        own = ("--pid", "--fork", "--kill-child", "--mount", "--uts", "--ipc", "--cgroup")
        self._process = subprocess.Popen(
            ["unshare", *own, "chroot", str(self.box.root), "sh", "-euc", _SCRIPT],
            env={"PATH": PATH, "container": "gdr-test"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.wait_for(lambda: bool(self._child()), "no process in the namespace")
        self._inner = self._child()
        self.wait_for(
            lambda: (
                self.run("systemctl", "is-system-running", check=False).out.strip()
                in {"running", "degraded", "starting"}
            ),
            "systemd does not answer",
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, why: BaseException | None, at: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(LIMIT_S)

    def run(self, *words: str, check: bool = True) -> Done:
        """Run a command beside that systemd."""
        spaces = ("-t", str(self._inner), "-m", "-p", "-u", "-i", "-C", "-r", "-w")
        done = subprocess.run(
            ["nsenter", *spaces, *words],
            env={"PATH": PATH},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert not check or done.returncode == 0, done.stdout
        return Done(done.returncode, done.stdout)

    def wait_for(self, what: object, otherwise: str) -> None:
        """Until ``what()`` is true.

        :raises AssertionError: it was not in time, with the sentence.
        """
        assert callable(what)
        end = time.monotonic() + LIMIT_S
        while not what():
            assert time.monotonic() < end, otherwise
            time.sleep(0.1)

    def _child(self) -> int:
        """The process that is the first one inside; 0 while there is none."""
        assert self._process is not None
        pid = self._process.pid
        try:
            told = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        except OSError:
            return 0
        return int(told[0]) if told else 0
