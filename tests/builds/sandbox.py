"""Sandboxes: a tree that may be changed at will, and is whole again afterwards."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.builds.grounds import kernels, tree
from tests.builds.mirrors import NotToBeHad
from tests.builds.remembering import TOLD, remembering

PREFIX = "gdr-sandbox-"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LIMIT_S = 600
_DEVICES = {"null": 3, "zero": 5, "full": 7, "random": 8, "urandom": 9}  # minors of major 1
_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
}


@dataclass(frozen=True, slots=True)
class Done:
    """What came of a command."""

    status: int  # exit status; 128 + the number of the signal that ended it
    out: str  # stdout and stderr, as they came


@dataclass(slots=True)
class Sandbox:
    """A root of its own over trees that stay as they are; for ``with``.

    What is written goes to a layer that is thrown away at the end. It has /proc, and a /dev
    with no disk in it; no /sys.
    """

    lower: tuple[Path, ...]  # topmost first
    home: Path = field(default_factory=lambda: Path(tempfile.gettempdir()))
    _at: Path = field(default=Path(), init=False)

    @classmethod
    def of(cls, name: str) -> Sandbox:
        """Over the tree of that name.

        :raises NotToBeHad: where there is no such tree and none can be made.
        """
        return cls((tree(name),))

    def branch(self) -> Sandbox:
        """A sandbox over all that is in this one, which must be left alone meanwhile."""
        return Sandbox((self.upper, *self.lower), self.home)

    @property
    def root(self) -> Path:
        return self._at / "root"

    @property
    def upper(self) -> Path:
        """What was changed, as overlayfs keeps it."""
        return self._at / "up"

    def __enter__(self) -> Self:
        sweep(self.home)
        self._at = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=self.home))
        self._at.chmod(0o755)
        for name in ("up", "work", "root"):
            (self._at / name).mkdir()
        try:
            self._mount()
        except BaseException:
            _remove(self._at)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _remove(self._at)

    def _mount(self) -> None:
        remembered = remembering(self.lower)
        lower = (*self.lower, remembered.layer) if remembered else self.lower
        layers = ":".join(str(each).replace(":", "\\:") for each in lower)
        _call(
            *("mount", "-t", "overlay", "gdr-sandbox", "-o"),
            # volatile: to unmount it would write out all that anybody has changed on that disk,
            # such as the guests beside it, and what is deleted a moment later.
            f"lowerdir={layers},upperdir={self.upper},workdir={self._at / 'work'},volatile",
            str(self.root),
        )
        for kind, name in (("proc", "proc"), ("tmpfs", "dev")):
            _call("mount", "-t", kind, "gdr-sandbox", str(self.root / name))
        if remembered:
            (self.root / TOLD).mkdir()
            _call("mount", "--bind", str(remembered.answers), str(self.root / TOLD))
        for name, minor in _DEVICES.items():
            device = self.root / "dev" / name
            os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, minor))
            device.chmod(0o666)
        for name, target in _LINKS.items():
            (self.root / "dev" / name).symlink_to(target)
        (self.root / "dev/shm").mkdir()
        (self.root / "dev/shm").chmod(0o1777)
        resolve = self.root / "etc/resolv.conf"
        resolve.unlink(missing_ok=True)
        shutil.copy("/etc/resolv.conf", resolve)

    def run(
        self,
        *words: str | Path,
        check: bool = True,
        env: dict[str, str] | None = None,
        text: str = "",
        limit_s: float = LIMIT_S,
    ) -> Done:
        """Run a command inside, as root; all that it started is ended with it.

        :param check: a status other than 0 is an AssertionError that shows what was said.
        :param text: what it reads on its standard input.
        :raises subprocess.TimeoutExpired: when it has not ended by itself.
        """
        # Files, no pipes: DKMS leaves a "sleep 3" behind, which would keep a pipe open.
        temporary = partial(tempfile.TemporaryFile, "w+", errors="replace")
        with temporary() as given, temporary() as said:
            given.write(text)
            given.seek(0)
            with subprocess.Popen(
                ["chroot", str(self.root), *map(str, words)],
                env={"PATH": PATH, "LC_ALL": "C.UTF-8", "HOME": "/root", **(env or {})},
                stdin=given,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            ) as child:
                try:
                    child.wait(timeout=limit_s)
                finally:
                    with suppress(ProcessLookupError):
                        os.killpg(child.pid, signal.SIGKILL)
            said.seek(0)
            out = said.read()
        status = child.returncode if child.returncode >= 0 else 128 - child.returncode
        assert not check or status == 0, f"{shown(words)}: {status}\n{out[-3000:]}"
        return Done(status, out)

    def shell(
        self, script: str, *, check: bool = True, limit_s: float = LIMIT_S, **given: str
    ) -> Done:
        """Run a script by the tree's own sh; ``given`` are its variables."""
        return self.run("sh", "-euc", script, check=check, env=given, limit_s=limit_s)

    def path(self, inside: str) -> Path:
        """Where a path of the inside lies outside."""
        return self.root / inside.lstrip("/")

    def write(self, path: str, content: str | bytes, mode: int = 0o644) -> Path:
        """Put a file there, with the folders that it needs."""
        target = self.path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
        target.chmod(mode)
        return target

    def read(self, path: str) -> str:
        return self.path(path).read_text()

    @property
    def kernels(self) -> tuple[str, ...]:
        """Releases of the kernels whose headers are here, oldest first."""
        return kernels(self.root)

    def kernel(self, words: str) -> str:
        """The newest kernel whose release begins with ``words`` ("6.1.") and is no variant.

        A variant is asked for by ending in its name: "6.1.*-cloud-amd64".
        """
        start, _, end = words.partition("*")
        found = [
            each
            for each in self.kernels
            if each.startswith(start)
            and each.endswith(end)
            and (end or not any(f"-{kind}-" in each for kind in ("rt", "cloud")))
        ]
        assert found, f"no kernel {words} among {self.kernels}"
        return found[-1]


def shown(words: tuple[str | Path, ...]) -> str:
    return " ".join(map(str, words))


def _call(*words: str) -> None:
    try:
        done = subprocess.run(
            words,
            env={**os.environ, "PATH": PATH, "LC_ALL": "C"},
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError as why:
        raise NotToBeHad(f"{words[0]}: {why}") from why
    if done.returncode:
        raise NotToBeHad(f"{shown(words)}: {done.stderr.strip()}")


def mounts_below(folder: Path) -> tuple[str, ...]:
    """What is mounted there, deepest first; also what a test mounted itself."""
    rows = [row.split() for row in Path("/proc/self/mountinfo").read_text().splitlines()]
    points = [row[4].encode().decode("unicode_escape") for row in rows]
    return tuple(each for each in reversed(points) if Path(each).is_relative_to(folder))


def _remove(folder: Path) -> None:
    """Unmount all that is there, then delete; never deletes through a mount."""
    for point in mounts_below(folder):
        done = subprocess.run(("umount", point), capture_output=True, check=False)
        if done.returncode:  # something still runs there: it goes when that ends
            _call("umount", "--lazy", point)
    left = mounts_below(folder)
    assert not left, f"still mounted: {left}"
    shutil.rmtree(folder, ignore_errors=True)


def sweep(home: Path) -> None:
    """Remove what runs left that were killed."""
    for folder in home.glob(f"{PREFIX}*"):
        owner = folder.name.removeprefix(PREFIX).split("-")[0]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists():
            with suppress(NotToBeHad, AssertionError):
                _remove(folder)
