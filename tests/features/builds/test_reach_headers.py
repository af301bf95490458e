"""Headers are unpacked in a folder that everybody writes to, from packages of anybody."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from toolkit.errors import UsageError
from toolkit.features.builds.io import headers


def _left(place: Path, name: str) -> Path:
    folder = place / f"gdr-headers-{name}"
    folder.mkdir()
    (folder / "lock").touch()
    return folder


def test_what_a_killed_run_left_is_removed(tmp_path: Path) -> None:
    left = _left(tmp_path, "old")
    headers._sweep(tmp_path)
    assert not left.exists()


def test_a_lock_that_is_a_link_is_not_opened(tmp_path: Path) -> None:
    """Whoever may write there could have us empty any file."""
    victim = tmp_path / "passwd"
    victim.write_text("root")
    folder = tmp_path / "gdr-headers-hostile"
    folder.mkdir()
    (folder / "lock").symlink_to(victim)
    headers._sweep(tmp_path)
    assert victim.read_text() == "root"
    assert folder.exists()


def test_a_folder_of_somebody_else_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = _left(tmp_path, "theirs")
    mine = os.geteuid()
    monkeypatch.setattr("os.geteuid", lambda: mine + 1)
    headers._sweep(tmp_path)
    assert theirs.exists()


def test_a_package_whose_usr_is_a_link_moves_nothing_of_this_machine(tmp_path: Path) -> None:
    machine, part, layer = (tmp_path / name for name in ("machine", "part", "layer"))
    (machine / "src/linux").mkdir(parents=True)
    part.mkdir()
    (part / "usr").symlink_to(machine)
    assert list(headers._places(part, layer)) == []
    (part / "usr").unlink()
    (part / "usr/src").mkdir(parents=True)
    assert list(headers._places(part, layer)) == [(part / "usr/src", layer / "usr/src")]


def test_a_link_of_one_package_does_not_lead_the_next_one_astray(tmp_path: Path) -> None:
    machine, source, target = (tmp_path / name for name in ("machine", "source", "target"))
    machine.mkdir()
    source.mkdir()
    (source / "file").touch()
    target.symlink_to(machine)
    headers._move(source, target)
    assert list(machine.iterdir()) == []


def test_an_unpacker_that_gives_up_early_ends_the_one_that_feeds_it(tmp_path: Path) -> None:
    begun = time.monotonic()
    with pytest.raises(UsageError, match="cannot be unpacked"):
        headers._piped(("timeout", "100", "yes"), ("false",), tmp_path, "x.rpm")
    assert time.monotonic() - begun < 90


def test_what_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    given = tmp_path / "given"
    (given / "usr/src").mkdir(parents=True)
    (given / "usr/src/pipe").symlink_to("pipe")
    (given / "usr/src/loop").mkdir()
    os.mkfifo(given / "usr/src/loop/pipe")
    with (
        pytest.raises(UsageError, match="--headers cannot be laid out"),
        headers.unpack_headers([str(given)]),
    ):
        pytest.fail("a pipe cannot be copied")


def test_where_there_is_no_room_at_all_that_is_one_sentence_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(**_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(headers, "TemporaryDirectory", full)
    with (
        pytest.raises(UsageError, match=r"cannot be laid out below .*: No space left"),
        headers.unpack_headers(["x.deb"]),
    ):
        pass


def test_an_unpacker_that_does_not_end_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(headers, "_LIMIT_S", 0.2)
    begun = time.monotonic()
    with pytest.raises(UsageError, match=r"x\.deb is not unpacked within 0\.2 s"):
        headers._call("coreutils", "sh", "-c", "exec sleep 100", "x.deb", str(tmp_path))
    with pytest.raises(UsageError, match=r"x\.rpm is not unpacked within 0\.2 s"):
        headers._piped(("sleep", "100"), ("sleep", "100"), tmp_path, "x.rpm")
    assert time.monotonic() - begun < 90


def test_a_package_that_comes_on_standard_input_is_named_all_the_same(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^x\.rpm cannot be unpacked"):
        headers._piped(("false", "-"), ("cat",), tmp_path, "x.rpm")


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "headers.deb")
    with (
        pytest.raises(UsageError, match="neither a file nor a folder"),
        headers.unpack_headers([str(tmp_path / "headers.deb")]),
    ):
        pass
