"""The folder beside an image: ours alone, and gone at the end, whoever was killed before."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
import time
from pathlib import Path

import pytest

from toolkit.errors import ApplyError, LockedError, ToolkitError, UsageError
from toolkit.features.image.io import aside as media_aside
from toolkit.features.image.io.aside import aside, mounts, remove, unwritable
from toolkit.safe_file import hold


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def test_it_is_beside_the_image_and_goes_with_its_block(tmp_path: Path) -> None:
    target = tmp_path / "disk.img"
    with aside(target) as (folder, held):
        assert folder.parent == tmp_path
        assert folder.name.startswith(".disk.img.gdr-image.")
        modes = {each: stat.S_IMODE((folder / each).stat().st_mode) for each in names(folder)}
        lock = modes.pop("lock")
        assert modes == {"layers": 0o755, "scratch": 0o1777, "view": 0o755}
        assert lock == 0o600
        assert hold(folder / "lock") is None
        os.fstat(held.descriptor)
        assert names(tmp_path) == sorted([folder.name, ".disk.img.gdr-image.lock"])
    assert names(tmp_path) == []


def test_it_goes_after_a_failure_as_well(tmp_path: Path) -> None:
    def work() -> None:
        with aside(tmp_path / "a") as (folder, _):
            (folder / "view/deep").mkdir()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert names(tmp_path) == []


def test_one_image_has_one_run_and_says_whose(tmp_path: Path) -> None:
    with aside(tmp_path / "a"):
        with pytest.raises(LockedError) as raised, aside(tmp_path / "a"):
            pass
        who = f"{tmp_path}/a: another run is at work on it: process {os.getpid()} since 2"
        assert str(raised.value).startswith(who)
        (tmp_path / ".a.gdr-image.lock").write_text("")
        with pytest.raises(LockedError, match="it does not say who"), aside(tmp_path / "a"):
            pass
        with aside(tmp_path / "b"):
            pass


def test_what_a_killed_run_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    left = tmp_path / ".a[1].gdr-image.old"
    (left / "view").mkdir(parents=True)
    for other in (".a1.gdr-image.x", ".b.gdr-image.x", "a[1]"):
        (tmp_path / other).mkdir()
    (tmp_path / ".a[1].gdr-image.file").touch()
    (tmp_path / ".a[1].gdr-image.link").symlink_to(tmp_path / "a[1]")
    with aside(tmp_path / "a[1]"):
        assert not left.exists()
    assert names(tmp_path) == sorted(
        [
            ".a1.gdr-image.x",
            ".b.gdr-image.x",
            "a[1]",
            ".a[1].gdr-image.file",
            ".a[1].gdr-image.link",
        ]
    )


def test_who_was_killed_may_still_be_ending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = tmp_path / ".a.gdr-image.old"
    left.mkdir()
    held = hold(left / "lock")
    assert held is not None
    slept: list[float] = []

    def ended(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 2:
            held.let_go()

    monkeypatch.setattr(time, "sleep", ended)
    with aside(tmp_path / "a"):
        assert not left.exists()
    assert slept == [0.05, 0.05]


def test_who_does_not_end_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(media_aside, "_PATIENCE_S", 0.0)
    left = tmp_path / ".a.gdr-image.old"
    left.mkdir()
    held = hold(left / "lock")
    assert held is not None
    with held, pytest.raises(LockedError) as raised, aside(tmp_path / "a"):
        pass
    says = f"{tmp_path}/a: processes of a run that was killed are still at work in {left}"
    assert str(raised.value) == says
    assert raised.value.hint.endswith(f"fuser -v {left}/lock")
    assert names(tmp_path) == [".a.gdr-image.old"]


def test_what_another_user_made_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = tmp_path / ".a.gdr-image.old"
    left.mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: left.stat().st_uid + 1)
    with aside(tmp_path / "a"):
        assert left.exists()


@pytest.mark.parametrize("where", ["hold", "mkdtemp"])
@pytest.mark.parametrize(
    ("number", "kind", "says"),
    [
        (errno.ENOSPC, ApplyError, "no space for a copy"),
        (errno.EDQUOT, ApplyError, "no space for a copy"),
        (errno.EROFS, UsageError, "nothing can be written beside it: Read-only file system"),
    ],
)
def test_nothing_can_be_written_beside_it(
    tmp_path: Path,
    *,
    monkeypatch: pytest.MonkeyPatch,
    where: str,
    number: int,
    kind: type[ToolkitError],
    says: str,
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    place = media_aside if where == "hold" else tempfile
    monkeypatch.setattr(place, where, fails)
    with pytest.raises(kind, match=says) as raised, aside(tmp_path / "a"):
        pass
    assert str(raised.value).startswith(f"{tmp_path}/a: ")
    assert names(tmp_path) == []
    assert type(unwritable(tmp_path, OSError(number, "x"))) is kind


def test_a_folder_half_made_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x").touch()

    def fails(_: Path, __: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Path, "chmod", fails)
    with pytest.raises(UsageError, match="Input/output error"), aside(tmp_path / "a"):
        pass
    assert names(tmp_path) == ["x"]


def test_somebody_else_has_the_lock_of_a_folder_just_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def taken(file: Path) -> object:
        return None if file.name == "lock" else hold(file)

    monkeypatch.setattr(media_aside, "hold", taken)
    with pytest.raises(LockedError, match="lock of a folder just made"), aside(tmp_path / "a"):
        pass


def test_a_folder_that_is_still_written_to_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    tries: list[Path] = []
    monkeypatch.setattr(shutil, "rmtree", lambda folder, **_: tries.append(folder))
    remove(tmp_path)
    assert tries == [tmp_path] * 20
    assert slept == [0.1] * 20


def test_nothing_is_removed_through_a_mount(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(media_aside, "mounts", lambda folder: ((folder / "m", "ext4"),))
    remove(tmp_path)
    assert tmp_path.exists()


def test_what_is_mounted_below_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = (
        b"22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
        b"23 22 0:5 / /srv/a\\040b rw - tmpfs tmpfs rw\n"
        b"24 22 0:6 / /srv/a\\040b/proc rw shared:2 master:1 - proc proc rw\n"
        b"25 22 0:7 / /srv/ab rw - xfs /dev/b rw\n"
        b"26 22 0:8 / /srv/\\303\\244 rw - xfs /dev/b rw\n"
    )
    monkeypatch.setattr(Path, "read_bytes", lambda _: rows)
    assert mounts(Path("/srv/a b")) == (
        (Path("/srv/a b"), "tmpfs"),
        (Path("/srv/a b/proc"), "proc"),
    )
    assert mounts(Path("/srv/\N{LATIN SMALL LETTER A WITH DIAERESIS}")) == (
        (Path("/srv/\N{LATIN SMALL LETTER A WITH DIAERESIS}"), "xfs"),
    )
    assert len(mounts(Path("/"))) == 5
    assert mounts(Path("/sr")) == ()


@pytest.mark.parametrize("after", [False, True])
def test_a_ctrl_c_while_it_is_made_or_removed_waits_until_that_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    which = "remove" if after else "_folder"
    done = getattr(media_aside, which)

    def pressed(*words: Path) -> object:
        os.kill(os.getpid(), 2)
        return done(*words)

    monkeypatch.setattr(media_aside, which, pressed)
    ran: list[bool] = []
    with pytest.raises(KeyboardInterrupt), aside(tmp_path / "a"):
        ran.append(True)
    assert ran == [True] * after
    assert names(tmp_path) == []
