"""The room that an image is worked on in: what it is told, and what it makes of each failure."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.features.image.rooming import Tools, lay_tools, opened
from toolkit.errors import ApplyError, TransportError, Unsupported
from toolkit.features.image.io import namespace
from toolkit.features.image.io.namespace import TOOLS, ImageGround, MountRoom, demand, full, refusal
from toolkit.safe_file import hold

STILL = MountRoom.still


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tools:
    return lay_tools(tmp_path / "tools", monkeypatch)


def test_a_room_has_namespaces_of_its_own_and_ends_with_its_input(tools: Tools) -> None:
    with opened(tools) as room:
        pid = int(room.words()[2])
        assert room.door == Path(f"/proc/{pid}/root")
        kinds = "--mount --pid --uts --ipc --net"
        assert room.words() == ("nsenter", "--target", str(pid), *kinds.split(), "--")
        os.kill(pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    room.close()
    [made] = tools.calls("unshare")
    assert made.startswith(f"unshare {kinds} --fork --kill-child sh -c ")
    assert [each.removeprefix("mount ") for each in tools.calls("mount")] == [
        "-n --make-rprivate /",
        "-n -t proc proc /proc",
    ]


def test_a_command_has_its_input_and_its_output(tools: Tools) -> None:
    with opened(tools) as room:
        assert room.call("cat", text="a\udcffb") == "a\udcffb"
        assert room.call("sh", "-c", 'echo "$LC_ALL" "$1"', "x", Path("/y")) == "C /y\n"


def test_whoever_works_in_there_holds_the_lock(tools: Tools) -> None:
    with opened(tools) as room:
        [named] = [each for each in room.call("sh", "-c", "ls -l /proc/$$/fd").split("\n")
                   if each.endswith(f"-> {tools.folder}/lock")]  # fmt: skip
        assert named
        assert hold(tools.folder / "lock") is None


def test_a_machine_that_gives_no_namespaces(tools: Tools) -> None:
    tools.add("unshare", "echo first >&2; echo 'unshare: Operation not permitted' >&2; exit 1\n")
    with pytest.raises(Unsupported) as raised, opened(tools):
        pass
    says = "image: this machine gives no namespaces to work in: unshare: Operation not permitted"
    assert str(raised.value) == says


def test_a_room_that_was_ended_from_outside(tools: Tools) -> None:
    with opened(tools) as room:
        os.kill(int(room.words()[2]), 9)
        room._waiting.wait()
        with pytest.raises(ApplyError, match="image: what held its mounts was ended from outside"):
            room.call("true")


def test_a_room_that_does_not_end_is_killed(tools: Tools, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespace, "_END_S", 0.05)
    monkeypatch.setattr(namespace, "_WAIT", "echo $$; exec sleep 99")
    with opened(tools) as room:
        pid = room._waiting.pid
    assert room._waiting.returncode == -9
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    for stream in (room._waiting.stdin, room._waiting.stdout, room._waiting.stderr):
        assert stream is not None
        assert stream.closed


def test_a_command_is_killed_with_whoever_waits_for_it(
    tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pressed(child: subprocess.Popen[bytes], _: bytes) -> None:
        monkeypatch.undo()
        assert child.returncode is None
        raise KeyboardInterrupt

    with opened(tools) as room:
        monkeypatch.setattr(subprocess.Popen, "communicate", pressed)
        with pytest.raises(KeyboardInterrupt):
            room.call("sleep", "99")


def test_a_script_has_the_root_or_the_machine(tools: Tools, tmp_path: Path) -> None:
    with opened(tools) as room:
        lines: list[str] = []
        script = 'echo "$PATH"; echo "$HOME $LC_ALL $SYSTEMD_OFFLINE $ROOMING"; exit 3\n'
        result = room.run(script, tmp_path, 60, lines.append)
        assert result.exit == 3
        assert lines == result.stdout.split("\n")[:-1]
        assert lines[0] == f"/run/gdr-image:{namespace.PATH}"
        assert lines[1] == "/root C 1 "
        [call] = tools.calls("setpriv")
        never = "-sys_module,-syslog,-sys_boot,-sys_time,-sys_rawio"
        assert call.startswith(f"setpriv --bounding-set {never} chroot {tmp_path} env -i PATH=")
        ground = ImageGround("image", room)
        said = ground.run("echo $ROOMING; ls -l /proc/$$/fd\n").stdout
        assert said.startswith(f"{tools.folder}\n")
        assert f"-> {tools.folder}/lock\n" in said
        assert len(tools.calls("setpriv")) == 1
        assert ImageGround("image", room, tmp_path).run("true\n").exit == 0
        assert len(tools.calls("setpriv")) == 2
        assert ground.name == "image"
        ground.close()
        assert ground.run("true\n").exit == 0


def test_a_script_that_does_not_end_in_time(tools: Tools) -> None:
    with opened(tools) as room, pytest.raises(TransportError) as raised:
        room.run("sleep 9\n", None, 0.05, lambda _: None)
    assert str(raised.value) == "image: no answer within 0.05 s while the script ran"


def test_what_is_left_running_in_there_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, ...]] = []
    monkeypatch.setattr(MountRoom, "call", lambda _, *words: calls.append(words))
    STILL(object.__new__(MountRoom))
    assert calls == [("sh", "-c", "kill -9 -1; :")]


def test_what_lacks_is_named_with_its_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, path: {"cp": path}.get(name))
    demand("image", ["cp"])
    with pytest.raises(Unsupported) as raised:
        demand("image", ["xz", "cp", "qemu-img", "mount", "sync", "zstd", "tar"])
    assert str(raised.value) == "image: xz, qemu-img, mount, sync, zstd, tar: not on this machine"
    assert raised.value.hint == (
        "packages xz-utils (xz in the RHEL family), qemu-utils (qemu-img in the RHEL family), "
        "util-linux and coreutils, zstd, tar"
    )
    for tool in ("gzip", "bzip2"):
        with pytest.raises(Unsupported) as raised:
            demand("image", [tool])
        assert raised.value.hint == f"packages {tool}"


def test_a_room_is_not_begun_without_its_tools(
    tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert set(TOOLS) >= {
        "unshare",
        "nsenter",
        "setpriv",
        "mount",
        "umount",
        "chroot",
        "cp",
        "sync",
    }
    monkeypatch.setitem(namespace._OUTSIDE, "PATH", str(tools.folder))
    with pytest.raises(Unsupported, match="unshare, nsenter, setpriv"), opened(tools):
        pass


@pytest.mark.parametrize(
    ("said", "last"),
    [
        (b"first\nlast\n", "last"),
        (b"why\n       dmesg(1) may have more information\n", "why"),
        (b"dmesg(1) may have more\n", ""),
        (b"", ""),
        (b"x" * 400, "x" * 300),
        (b"\xff", "\N{REPLACEMENT CHARACTER}"),
    ],
)
def test_the_last_words_of_a_tool(said: bytes, last: str) -> None:
    error = refusal("image", "mount", 32, said)
    assert str(error) == f"image: mount ended with status 32: {last}"


@pytest.mark.parametrize(
    "said",
    ["cp: x: No space left on device\nmore", "Disk quota exceeded", "tar: Wrote only 1 of 2"],
)
def test_a_full_disk_is_called_that(said: str) -> None:
    assert str(refusal("image", "cp", 1, said.encode())) == str(full("image"))
    assert "no space" in str(full("image"))


def test_a_failed_command_is_told_by_its_name(tools: Tools) -> None:
    with opened(tools) as room, pytest.raises(ApplyError) as raised:
        room.call("sh", "-c", "echo no >&2; exit 7")
    assert str(raised.value) == "image: sh ended with status 7: no"
