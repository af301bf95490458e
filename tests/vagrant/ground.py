"""Libvirt and Vagrant for one test run, in namespaces of their own: nothing of it outlives us."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from dev.lab.machine import factor
from dev.run import ROOT

PREFIX = "gdr-ground-"
SCRIPT = Path(__file__).with_name("ground.sh")
START_S = 60.0
_UNSHARE = ("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child")


class GroundError(Exception):
    """Libvirt did not start, or a command inside failed; says what was said."""


@dataclass(slots=True)
class Ground:
    """For ``with``. All that runs inside ends with it, also where we are killed."""

    folder: Path = field(default=Path(), init=False)
    _holder: subprocess.Popen[str] | None = field(default=None, init=False)
    _inside: int = field(default=0, init=False)  # the first process of the namespaces

    def __enter__(self) -> Self:
        sweep()
        self.folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all that runs inside, and delete what it had."""
        if self._holder is not None:
            self._holder.kill()  # and with it, by --kill-child, the first process inside
            self._holder.communicate(timeout=30)
        if self._inside:
            _await_end(self._inside)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self) -> None:
        said = self.folder / "said"
        with said.open("w") as out:
            self._holder = subprocess.Popen(
                (*_UNSHARE, str(SCRIPT), str(self.folder)),
                stdin=subprocess.PIPE,  # it ends when this does, and so when we do
                stdout=out,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
        end = time.monotonic() + START_S
        while "ready\n" not in said.read_text():
            if self._holder.poll() is not None or time.monotonic() > end:
                raise GroundError(f"libvirt does not start: {said.read_text()[-2000:]}")
            time.sleep(0.1)
        number = self._holder.pid
        self._inside = int(Path(f"/proc/{number}/task/{number}/children").read_text().split()[0])

    def start(self, *words: str, cwd: Path = ROOT) -> subprocess.Popen[str]:
        """Begin a command inside, among what Vagrant finds in its environment."""
        enter = ("nsenter", "--target", str(self._inside), "--mount", "--net", "--pid")
        return subprocess.Popen(
            (*enter, f"--wd={cwd}", "--", *words),
            env=os.environ | self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )

    def run(self, *words: str, limit_s: float, cwd: Path = ROOT) -> tuple[int, str]:
        """A command's exit status, and all that it printed.

        :raises GroundError: it has not ended in time, with what it had printed; it is ended.
        """
        child = self.start(*words, cwd=cwd)
        with child:
            try:
                printed, _ = child.communicate(timeout=limit_s)
            except subprocess.TimeoutExpired as why:
                child.kill()
                printed = (why.stdout or b"").decode(errors="replace")[-2000:]
                raise GroundError(f"{' '.join(words)}: over {limit_s:g} s\n{printed}") from None
        return child.returncode, printed

    @property
    def environment(self) -> dict[str, str]:
        """Vagrant with nothing of the user's, emulated, by the Vagrantfile of the project."""
        return {
            "VAGRANT_CWD": str(ROOT / "vagrant"),
            "VAGRANT_HOME": str(self.folder / "home"),
            "VAGRANT_DOTFILE_PATH": str(self.folder / "machines"),
            "VAGRANT_DEFAULT_PROVIDER": "libvirt",
            "VAGRANT_CHECKPOINT_DISABLE": "1",
            "GDR_VAGRANT_BOXES": str(self.folder / "boxes"),
            "GDR_VAGRANT_DRIVER": "qemu",
            "GDR_PATIENCE": str(factor()),
            "XDG_STATE_HOME": str(self.folder / "state"),
        }


def sweep() -> None:
    """Delete what runs left that were killed; what ran in them has ended by itself."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        owner = folder.name.removeprefix(PREFIX).split("-")[0]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists():
            shutil.rmtree(folder, ignore_errors=True)


def _await_end(pid: int) -> None:
    """Until the first process is gone: the kernel has ended all others before it."""
    end = time.monotonic() + 30
    while Path(f"/proc/{pid}").exists() and time.monotonic() < end:
        time.sleep(0.05)
