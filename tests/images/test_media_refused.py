"""What stands in the way is told in one sentence, and the image is untouched."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dev.run import ROOT
from tests.images.disks import Part, call, digest, disk
from tests.images.little import little_root, names
from toolkit.errors import ApplyError, ExitCode, Unsupported, UsageError
from toolkit.features.image.io.index import look
from toolkit.features.image.io.media import ImageSource, Medium, stage

pytestmark = pytest.mark.builds


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Path]:
    """A little disk that holds one image and has no space for a second."""
    folder = tmp_path / "full"
    folder.mkdir()
    call("mount", "-t", "tmpfs", "-o", "size=16m", "full", folder)
    try:
        yield folder
    finally:
        call("umount", folder)


def fill(folder: Path, left: int) -> None:
    """Leave so many bytes."""
    told = os.statvfs(folder)
    with (folder / "filler").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, told.f_bavail * told.f_frsize - left)


def test_a_full_disk_beside_a_folder(full: Path, tmp_path: Path) -> None:
    image = little_root(full / "image")
    fill(full, 1 << 20)
    before = look(image)
    refused(ImageSource(Medium.ROOT, image))
    assert look(image) == before
    assert names(full) == ["filler", "image"]


def test_a_full_disk_beside_a_disk(full: Path, tmp_path: Path) -> None:
    root = little_root(tmp_path / "root")
    image = full / "node.qcow2"
    call("cp", disk(tmp_path / "node.qcow2", (Part(40, root),), qcow2=True), image)
    fill(full, 1 << 20)
    before = digest(image)
    refused(ImageSource(Medium.DISK, image))
    assert digest(image) == before
    assert names(full) == ["filler", "node.qcow2"]


def test_a_full_disk_where_an_archive_goes(full: Path, tmp_path: Path) -> None:
    root = little_root(tmp_path / "root")
    call("tar", "-c", "-C", root, "-f", tmp_path / "in.tar", ".")
    (full / "out.tar").write_text("the old one\n")
    fill(full, 1 << 20)
    refused(ImageSource(Medium.TAR, tmp_path / "in.tar", full / "out.tar"))
    assert (full / "out.tar").read_text() == "the old one\n"
    assert names(full) == ["filler", "out.tar"]


def test_a_disk_that_fills_up_when_the_result_is_made(full: Path, tmp_path: Path) -> None:
    root = little_root(tmp_path / "root")
    call("tar", "-c", "-C", root, "-f", tmp_path / "in.tar", ".")
    (full / "out.tar").write_text("the old one\n")
    with stage(ImageSource(Medium.TAR, tmp_path / "in.tar", full / "out.tar")) as on:
        fill(full, 1 << 20)
        with pytest.raises(ApplyError, match="the disk beside it is full"):
            on.commit()
    assert (full / "out.tar").read_text() == "the old one\n"
    assert names(full) == ["filler", "out.tar"]


def refused(source: ImageSource) -> None:
    with pytest.raises(ApplyError, match="the disk beside it is full") as told, stage(source):
        pass
    assert told.value.exit_code is ExitCode.STOPPED
    assert told.value.hint


def test_only_root_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    image = little_root(tmp_path / "image")
    with (
        pytest.raises(UsageError, match="only root") as told,
        stage(ImageSource(Medium.ROOT, image)),
    ):
        pass
    assert "sudo" in told.value.hint
    assert names(tmp_path) == ["image"]


def test_an_image_in_which_nothing_can_be_written_is_told_so(tmp_path: Path) -> None:
    """Here for a file where a folder should be; a file system that is full likewise."""
    image = little_root(tmp_path / "image")
    shutil.rmtree(image / "usr")
    (image / "usr").write_text("")
    before = look(image)
    source = ImageSource(Medium.ROOT, image)
    words = "nothing can be written in it: Not a directory"
    with pytest.raises(ApplyError, match=words) as told, stage(source):
        pass
    assert "the image is as it was" in told.value.hint
    assert look(image) == before
    assert names(tmp_path) == ["image"]


def test_what_is_missing_on_this_machine_is_told_before_anything_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "node.qcow2").write_bytes(b"QFI\xfb" + bytes(600))
    real = shutil.which
    monkeypatch.setattr(
        shutil, "which", lambda name, path: None if name == "qemu-img" else real(name, path=path)
    )
    source = ImageSource(Medium.DISK, tmp_path / "node.qcow2")
    with pytest.raises(Unsupported, match="qemu-img: not on this machine") as told, stage(source):
        pass
    assert "qemu-utils" in told.value.hint
    assert names(tmp_path) == ["node.qcow2"]


def test_a_machine_that_gives_no_namespaces_is_told_so(tmp_path: Path) -> None:
    """As in a container that was given no right to mount."""
    image = little_root(tmp_path / "image")
    bounded = ("setpriv", "--bounding-set", "-sys_admin", "--")
    worker = (sys.executable, "-m", "tests.images.worker", "root", str(image), "", "0")
    done = subprocess.run(
        (*bounded, *worker), cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert "image: this machine gives no namespaces to work in: unshare" in done.stderr
    assert "--privileged" in done.stderr
    assert "Traceback" not in done.stderr
    assert names(tmp_path) == ["image"]
