"""Killed at any moment, the work on an image leaves the old one or the new one, nothing between."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dev.run import ROOT
from tests.images.disks import Part, call, digest, disk
from tests.images.little import at_work, little_root, loops, mounts, names
from tests.images.worker import STAGED
from toolkit.errors import ExitCode
from toolkit.features.image.io.index import Index, differences, look
from toolkit.features.image.io.media import ImageSource, Medium, stage
from toolkit.features.image.io.tree import mend

pytestmark = pytest.mark.builds

LIMIT_S = 300.0
NEW = ["/etc/new", "/etc/one", "/etc/pipe", "/etc/two"]
RANDOM = random.Random(7)  # noqa: S311 # the same moments in every run, as far as a clock goes


class Image:
    """An image that is worked on and killed, with what it was to compare with."""

    def __init__(self, medium: str, home: Path, original: Path, given: Path | None = None) -> None:
        self.medium = medium if medium in {"disk", "tar"} else "root"
        self.mounted = medium == "mounted"
        self.home, self.original = home, original
        self.path = home / f"golden, image{'.tar' if given else ''}"
        self.given = given  # of an archive: what comes in; the image is what goes out
        self.put_back()
        self.before: Index | str = self.state()

    def put_back(self) -> None:
        """Make it the old one again."""
        self.let_go()
        if self.medium == "root":
            shutil.rmtree(self.path, ignore_errors=True)
        call("cp", "-a", "--sparse=always", "-T", self.original, self.path)
        if self.mounted:
            call("mount", "--bind", self.path, self.path)

    def let_go(self) -> None:
        if mounts(self.path):
            call("umount", self.path)

    @property
    def quiet(self) -> bool:
        """Whether no process, mount or loop device is left of a run."""
        mounted = [each for each in mounts(self.home) if ".gdr-image." in each]
        return (at_work(self.home), mounted, loops(self.home)) == ([], [], [])

    def state(self) -> Index | str:
        return look(self.path) if self.medium == "root" else digest(self.path)

    def is_old(self) -> bool:
        now = self.state()
        if isinstance(now, str) or isinstance(self.before, str):
            return now == self.before
        return differences(self.before, now) == ()

    def is_new(self) -> bool:
        if self.medium == "root":
            assert not isinstance(self.before, str)
            return [each.path for each in differences(self.before, look(self.path))] == NEW
        if self.given is not None:
            return self.is_new_archive()
        with stage(ImageSource(Medium.DISK, self.path)) as on:
            return on.read("/etc/new") == b"new\n" and on.read("/etc/one") == b"other\n"

    def is_new_archive(self) -> bool:
        """Whether it can be read to its end, and holds what the work made of the one given."""
        assert self.given is not None
        with tarfile.open(self.given) as old, tarfile.open(self.path) as new:
            before, after = ({each.removeprefix("./") for each in a.getnames()} for a in (old, new))
            one = new.extractfile("./etc/one")
            return after - before == {"etc/new"} and one is not None and one.read() == b"other\n"

    def work(self, step: int = 0) -> subprocess.Popen[str]:
        words = (self.medium, str(self.path), "", str(step))
        if self.given is not None:
            words = (self.medium, str(self.given), str(self.path), str(step))
        return subprocess.Popen(
            (sys.executable, "-m", "tests.images.worker", *words),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def killed_before(self, step: int) -> bool:
        """Let a run kill itself before a step; false where it came to its end before that."""
        with self.work(step) as running:
            running.wait(LIMIT_S)
        assert running.returncode in {0, -signal.SIGKILL}, step
        return running.returncode != 0

    def check(self) -> bool:
        """Nothing of the killed run goes on, and the image is whole: the old one or the new.

        :returns: whether it is the new one; it is made the old one again.
        """
        wait(lambda: self.quiet)
        assert len(names(self.home)) <= 3, names(self.home)  # it, a lock, one folder
        if self.mounted:
            mend(self.path)  # the next run begins with it
        if self.is_old():
            return False
        assert self.is_new()
        self.put_back()
        return True

    def finish(self) -> int:
        """A run that nobody kills clears away what was left; how many steps it took."""
        done, said = self.work().communicate(timeout=LIMIT_S)
        assert names(self.home) == [self.path.name], said
        assert self.is_new()
        self.put_back()
        return int(done.split()[-1])


def wait(done: Callable[[], bool]) -> None:
    end = time.monotonic() + LIMIT_S
    while not done():
        assert time.monotonic() < end, "it goes on"
        time.sleep(0.02)


@pytest.fixture(params=["root", "mounted", "disk", "tar"])
def image(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Image]:
    root = little_root(tmp_path / "original")
    original, given = root, None
    if request.param == "disk":
        original = disk(tmp_path / "original.img", (Part(40, root),), qcow2=True)
    if request.param == "tar":
        given, original = tmp_path / "in.tar", tmp_path / "original.tar"
        call("tar", "-c", "-C", root, "-f", given, ".")
        original.write_text("the old one\n")
    (tmp_path / "home").mkdir()
    made = Image(request.param, tmp_path / "home", original, given)
    yield made
    made.let_go()


def test_before_any_step(image: Image) -> None:
    steps = image.finish()
    assert steps > 10
    # All are alike up to the commit: of a mounted root its second half, of files every third.
    step, pace = (steps // 2, 1) if image.mounted else (1, 1 if image.medium == "root" else 3)
    new = 0
    while image.killed_before(step):
        new += image.check()
        # What the killed run left takes steps of its own: the last ones come after those.
        step += pace if step < steps - 6 else 1
    assert step > steps
    assert new > 0, "none was killed behind the moment in which the new one takes the place"
    assert image.is_new()
    assert names(image.home) == [image.path.name]


def test_at_any_time(image: Image) -> None:
    began = time.monotonic()
    image.finish()
    took = time.monotonic() - began
    for _ in range(4):
        with image.work() as killed:
            time.sleep(RANDOM.uniform(0.1, 0.9) * took)
            for pid in (killed.pid, *below(killed.pid)):
                kill(pid)
        image.check()
    image.finish()


@pytest.mark.parametrize("victim", ["its-helper", "the-first-in-there"])
def test_what_holds_the_mounts(image: Image, victim: str) -> None:
    """Killed while a script runs: the script ends, the run says so, the image is the old one."""
    if image.medium == "root":  # without a journal and with one
        (image.path / "etc/slow").touch()
    elif image.given is not None:
        (image.given.parent / "original/etc/slow").touch()
        call("tar", "-r", "-C", image.given.parent / "original", "-f", image.given, "./etc/slow")
    else:
        with stage(ImageSource(Medium.DISK, image.path)) as on:
            on.write("/etc/slow", b"")
            on.commit()
    image.before = image.state()
    with image.work() as running:
        assert running.stdout is not None
        assert running.stdout.readline().strip() == STAGED
        helper = children(running.pid)[0]
        kill(helper if victim == "its-helper" else children(helper)[0])
        _, said = running.communicate(timeout=LIMIT_S)
    assert running.returncode == 1
    assert "the connection was lost while the script ran" in said
    assert image.is_old()
    wait(lambda: image.quiet)  # the kernel takes namespaces apart once their last process is gone
    assert names(image.home) == [image.path.name]


def test_ctrl_c(image: Image) -> None:
    """Nothing is left for a next run to clear away, whenever it comes once there is a lock."""
    steps = image.finish()
    pace = steps // (5 if image.medium == "root" and not image.mounted else 2)
    for step in range(2, steps - 1, pace):
        with image.work(-step) as running:
            _, said = running.communicate(timeout=LIMIT_S)
        # What is in hand when the new one takes the place is finished.
        assert running.returncode in {0, ExitCode.INTERRUPTED}, said
        assert "Traceback" not in said
        assert names(image.home) == [image.path.name], step
        image.check()


@pytest.mark.parametrize("image", ["root"], indirect=True)
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGHUP])
def test_a_pipeline_that_is_cancelled(image: Image, how: signal.Signals) -> None:
    """As Ctrl-C: a whole copy of an image is much to leave to a next run."""
    (image.path / "etc/slow").touch()
    image.before = image.state()
    # Under nohup a run stays what it was told to be: deaf to it. These tests may run so, too.
    before = signal.signal(how, signal.SIG_DFL)
    try:
        work = image.work()
    finally:
        signal.signal(how, before)
    with work as running:
        assert running.stdout is not None
        assert running.stdout.readline().strip() == STAGED
        running.send_signal(how)
        running.wait(LIMIT_S)
    assert running.returncode == ExitCode.INTERRUPTED
    assert image.is_old()
    wait(lambda: image.quiet)  # the kernel takes namespaces apart once their last process is gone
    assert names(image.home) == [image.path.name]


def children(pid: int) -> list[int]:
    try:
        told = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    return [int(each) for each in told.split()]


def below(pid: int) -> list[int]:
    found = children(pid)
    return [*found, *(each for child in found for each in below(child))]


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
