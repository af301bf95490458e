"""A folder as an image: how its copy is made, and how both change places."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from toolkit.errors import ApplyError, StaleError, UsageError
from toolkit.features.image.io import tree as file_journal
from toolkit.features.image.io import tree as media_tree
from toolkit.features.image.io.tree import TreeMedium


class FakeRoom:
    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def call(self, *argv: str | Path) -> str:
        self.calls.append([str(each) for each in argv])
        return ""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "root"
    (made / "etc").mkdir(parents=True)
    (made / "etc/a").write_text("old")
    return made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "aside"
    (made / "root").mkdir(parents=True)
    (made / "root/new").touch()
    return made


def with_mounts(monkeypatch: pytest.MonkeyPatch, *found: tuple[Path, str]) -> None:
    monkeypatch.setattr(media_tree, "mounts", lambda _: found)


COPY = ["cp", "-a", "-x", "--reflink=auto", "-T"]


def test_folder_and_copy_change_places(root: Path, folder: Path) -> None:
    tree, room = TreeMedium(root), FakeRoom()
    assert tree.target == root
    assert "change places in one step" in tree.way
    assert tree.bring(room, folder) == folder / "root"  # type: ignore[arg-type]  # a stand-in
    tree.pack(room, folder, ())  # type: ignore[arg-type]  # a stand-in
    assert room.calls == [
        [*COPY, str(root), f"{folder}/root"],
        ["sync", "-f", f"{folder}/root"],
    ]
    tree.put(folder)
    assert (root / "new").exists()
    assert (folder / "root/etc/a").read_text() == "old"


def test_what_a_killed_run_left_is_mended_first(
    root: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room, mended = FakeRoom(), list[tuple[Path, int]]()
    monkeypatch.setattr(file_journal, "mend", lambda path: mended.append((path, len(room.calls))))
    TreeMedium(root).bring(room, folder)  # type: ignore[arg-type]  # a stand-in
    assert mended == [(root, 0)]


KINDS = [
    *("proc", "sysfs", "devtmpfs", "devpts", "mqueue", "cgroup", "cgroup2", "securityfs"),
    *("debugfs", "tracefs", "pstore", "bpf", "efivarfs", "configfs", "hugetlbfs", "fusectl"),
    *("binfmt_misc", "autofs", "rpc_pipefs"),
]


@pytest.mark.parametrize("kind", KINDS)
def test_what_this_machine_mounts_in_it_is_not_its_own(
    root: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    with_mounts(monkeypatch, (root / "srv", kind), (root / "boot", "ext4"), (root, "xfs"))
    room = FakeRoom()
    TreeMedium(root).bring(room, folder)  # type: ignore[arg-type]  # a stand-in
    assert [each[-2:] for each in room.calls] == [
        [str(root), f"{folder}/root"],
        [f"{root}/boot", f"{folder}/root/boot"],
    ]
    assert all(each[:-2] == COPY for each in room.calls)


@pytest.mark.parametrize(
    ("place", "own"),
    [("dev", 0), ("proc", 0), ("run", 0), ("sys", 0), ("tmp/a", 0), ("var/run", 1), ("runs", 1)],
)
def test_what_each_boot_mounts_is_not_its_own(
    root: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, place: str, own: int
) -> None:
    with_mounts(monkeypatch, (root / place, "ext4"))
    (root / place).mkdir(parents=True)
    tree, room = TreeMedium(root), FakeRoom()
    tree.bring(room, folder)  # type: ignore[arg-type]  # a stand-in
    assert len(room.calls) == 1 + own
    monkeypatch.setattr(file_journal, "prepare", lambda *_: None)
    (root / place / "touched").touch()
    if own:
        with pytest.raises(StaleError):
            tree.pack(room, folder, ())  # type: ignore[arg-type]  # a stand-in
    else:
        tree.pack(room, folder, ())  # type: ignore[arg-type]  # a stand-in


def test_parts_are_copied_from_above(
    root: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_mounts(monkeypatch, (root / "boot/efi", "vfat"), (root / "boot", "ext4"))
    room = FakeRoom()
    TreeMedium(root).bring(room, folder)  # type: ignore[arg-type]  # a stand-in
    assert [each[-2] for each in room.calls[1:]] == [f"{root}/boot", f"{root}/boot/efi"]


def test_with_mounts_it_is_replaced_file_by_file(
    root: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_mounts(monkeypatch, (root, "ext4"))
    done: list[tuple[object, ...]] = []
    monkeypatch.setattr(file_journal, "prepare", lambda *words: done.append(words))
    monkeypatch.setattr(file_journal, "carry_out", lambda *words: done.append(words))
    tree, room = TreeMedium(root), FakeRoom()
    assert "file by file" in tree.way
    tree.bring(room, folder)  # type: ignore[arg-type]  # a stand-in
    changed = ("a difference",)
    tree.pack(room, folder, changed)  # type: ignore[arg-type]  # a stand-in
    tree.put(folder)
    assert done == [(room, root, folder / "root", changed), (root,)]
    assert len(room.calls) == 1
    assert not (root / "new").exists()


@pytest.mark.parametrize(
    "touch",
    [
        lambda root: (root / "etc/b").touch(),
        lambda root: (root / "etc/a").write_text("longer"),
        lambda root: (root / "etc/a").chmod(0o711),
        lambda root: (root / "etc/a").unlink(),
    ],
)
def test_a_folder_that_somebody_changed_meanwhile(
    root: Path, folder: Path, touch: Callable[[Path], object]
) -> None:
    tree, room = TreeMedium(root), FakeRoom()
    tree.bring(room, folder)  # type: ignore[arg-type]  # a stand-in
    touch(root)
    with pytest.raises(StaleError, match="somebody changed it"):
        tree.pack(room, folder, ())  # type: ignore[arg-type]  # a stand-in
    assert len(room.calls) == 1


@pytest.mark.parametrize(
    ("number", "kind", "says"),
    [
        (errno.EINVAL, UsageError, "cannot let two folders change places: "),
        (errno.ENOSYS, UsageError, "cannot let two folders change places: "),
        (errno.EXDEV, UsageError, "cannot let two folders change places: "),
        (errno.EBUSY, UsageError, "cannot let two folders change places: "),
        (errno.EPERM, UsageError, "cannot let two folders change places: "),
        (errno.EROFS, UsageError, "nothing can be written beside it: "),
        (errno.ENOSPC, ApplyError, "no space"),
    ],
)
def test_a_file_system_that_cannot(
    root: Path,
    *,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    kind: type[Exception],
    says: str,
) -> None:
    def fails(*_: Path) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(media_tree, "exchange", fails)
    with pytest.raises(kind, match=says) as raised:
        TreeMedium(root).put(folder)
    assert str(raised.value).startswith(f"{root}: ")


def test_what_is_no_image(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="/file: is no folder"):
        TreeMedium(tmp_path / "file")
    with pytest.raises(UsageError, match="/: is this machine itself"):
        TreeMedium(Path("/"))
    (tmp_path / "link").symlink_to(tmp_path)
    assert TreeMedium(tmp_path / "link").target == tmp_path
