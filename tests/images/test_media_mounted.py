"""--root where a file system is mounted: replaced file by file, with a journal."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.images.disks import call
from tests.images.little import little_root, mounts, names
from toolkit.errors import StaleError, UsageError
from toolkit.features.image.io.index import TreeChange, TreeDifference, look
from toolkit.features.image.io.media import ImageSource, Medium, stage
from toolkit.features.image.io.tree import APPLY, PREPARE, mend

pytestmark = pytest.mark.builds


@pytest.fixture
def image(tmp_path: Path) -> Iterator[Path]:
    """A mounted root with /boot in a file system of its own, and a /proc that is ours."""
    root = tmp_path / "image"
    little_root(root)
    (root / "boot").mkdir()
    call("mount", "--bind", root, root)
    call("mount", "-t", "tmpfs", "-o", "size=4m", "boot", root / "boot")
    call("mount", "-t", "proc", "proc", root / "proc")
    (root / "boot/vmlinuz-6.1").write_text("a kernel\n")
    try:
        yield root
    finally:
        while mounts(root):
            call("umount", "-R", root)


def source(path: Path) -> ImageSource:
    return ImageSource(Medium.ROOT, path)


CHANGES = """
echo new >/etc/new && rm -r /etc/ssh && echo two >/boot/vmlinuz-6.12 && chmod 700 /usr/lib
rm /out && mkdir -p /out/deep && echo x >/out/deep/file && chmod 640 /out/deep/file
rm /etc/pipe && ln -s /etc/one /etc/pipe && sync
"""


def test_all_that_changed_is_replaced_and_nothing_else_is_touched(image: Path) -> None:
    before, untouched = image.stat().st_ino, (image / "etc/os-release").stat()
    with stage(source(image)) as on:
        assert "file by file, with a journal" in on.way
        assert on.run(CHANGES).exit == 0
        assert on.read("/boot/vmlinuz-6.1") == b"a kernel\n"
        found = on.commit()
    assert found == (
        TreeDifference("/boot/vmlinuz-6.12", TreeChange.ADDED),
        TreeDifference("/etc/new", TreeChange.ADDED),
        TreeDifference("/etc/pipe", TreeChange.KIND),
        TreeDifference("/out", TreeChange.KIND),
        TreeDifference("/out/deep", TreeChange.ADDED),
        TreeDifference("/out/deep/file", TreeChange.ADDED),
        TreeDifference("/usr/lib", TreeChange.ATTRIBUTES),
    )
    assert (image / "etc/pipe").readlink() == Path("/etc/one")
    assert stat.S_IMODE((image / "out/deep/file").stat().st_mode) == 0o640
    assert stat.S_IMODE((image / "usr/lib").stat().st_mode) == 0o700
    assert (image / "boot/vmlinuz-6.12").read_text() == "two\n"
    assert (image / "etc/ssh/ssh_host_ed25519_key").exists()  # host keys stay as they were
    assert image.stat().st_ino == before
    now = (image / "etc/os-release").stat()
    assert (now.st_ino, now.st_ctime_ns) == (untouched.st_ino, untouched.st_ctime_ns)
    assert [each for each in names(image) if ".gdr" in each] == []
    assert names(image.parent) == ["image"]


def test_leaving_without_commit_leaves_it(image: Path) -> None:
    call("umount", image / "proc")
    before = look(image)
    with stage(source(image)) as on:
        on.run(CHANGES)
    assert look(image) == before


def test_what_somebody_changed_meanwhile_is_not_overwritten(image: Path) -> None:
    with stage(source(image)) as on:
        on.write("/etc/one", b"ours\n")
        (image / "etc/one").write_text("theirs\n")
        with pytest.raises(StaleError, match="somebody changed it"):
            on.commit()
    assert (image / "etc/one").read_text() == "theirs\n"


def test_what_the_builder_has_mounted_in_it_may_change(image: Path) -> None:
    """As /run, which those who work in a root by chroot(8) have there."""
    call("mount", "-t", "tmpfs", "run", image / "run")
    (image / "run/secret").write_text("the builder's\n")
    with stage(source(image)) as on:
        on.write("/etc/one", b"ours\n")
        assert not (on.outside / "run/secret").exists()
        (image / "run/later").write_text("the builder's\n")
        on.commit()
    assert (image / "etc/one").read_text() == "ours\n"
    assert names(image / "run") == ["later", "secret"]


def test_a_full_part_of_it_stops_before_anything_is_replaced(image: Path) -> None:
    call("umount", image / "proc")
    before = look(image)
    with stage(source(image)) as on:
        on.write("/etc/one", b"ours\n")
        on.write("/boot/big", bytes(5 << 20))
        with pytest.raises(Exception, match="the disk beside it is full"):
            on.commit()
    after = look(image)
    assert {path: each.what for path, each in after.items()} == {
        path: each.what for path, each in before.items()
    }


def test_a_list_that_was_cut_is_never_half_followed(image: Path) -> None:
    (image / APPLY).write_text('{"act": "remove", "path": "etc"}\n')
    with pytest.raises(UsageError, match="cannot be read: the list of a run that was killed"):
        mend(image)
    assert (image / "etc/one").exists()


def test_a_list_that_was_only_prepared_is_taken_back(image: Path) -> None:
    (image / "etc/.gdr-image.new-0").write_text("new\n")
    step = '{"act": "place", "path": "etc/one", "new": "etc/.gdr-image.new-0", "owner": [0, 0]}'
    (image / PREPARE).write_text(f"{step}\nend\n")
    mend(image)
    assert (image / "etc/one").read_text() == "twice\n"
    assert not (image / "etc/.gdr-image.new-0").exists()
    assert not (image / PREPARE).exists()


def test_nothing_below_what_is_mounted_is_ever_removed_with_the_copy(image: Path) -> None:
    """An operator's own mounts in the image survive a run."""
    with stage(source(image)) as on:
        on.write("/etc/new", b"")
        on.commit()
    assert (image / "proc/self").exists()
    assert os.path.ismount(image / "boot")
