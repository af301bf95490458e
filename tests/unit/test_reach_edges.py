"""What small modules of reach do where something stands in their way."""

from __future__ import annotations

import os
import stat
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from tests.features.iommu_groups.test_reach_domains import Answers
from toolkit.errors import BmcError, LockedError, TransportError, UsageError
from toolkit.evidence import Evidence, Frame, State
from toolkit.facts.rdma.exercise import Role
from toolkit.features.exercise import io
from toolkit.features.image.io import index
from toolkit.features.image.io.index import FileKind, TreeChange, differences, look, stamps
from toolkit.redfish import session
from toolkit.redfish.http import BmcLimits
from toolkit.redfish.session import Guest
from toolkit.rollout import claims
from toolkit.rollout.claims import claim, living
from toolkit.safe_file import hold
from toolkit.ssh import ssh_config_file
from toolkit.ssh.become import read_marks, refusal
from toolkit.ssh.credentials import read_secret_file
from toolkit.ssh.ssh_config_file import Block, look_up, read_settings
from toolkit.ssh.transport import Result


def test_a_run_that_another_controller_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr("time.sleep", waited.append)
    (tmp_path / "run1").mkdir()
    held = hold(tmp_path / "run1" / claims.FILE)
    assert held is not None
    with held:
        with pytest.raises(LockedError, match=r"run run1 of .* is at work on its hosts"):
            claim(tmp_path, "run1", "me", ["a"], alone=False)
        monkeypatch.setattr(claims, "living", lambda _: iter(()))
        with pytest.raises(LockedError, match=r"run run1 of another controller is at work on a"):
            claim(tmp_path, "run1", "me", ["a"], alone=False)
    assert waited == [0.02] * 100


def test_what_a_claim_says(tmp_path: Path) -> None:
    with claim(tmp_path, "run1", "jo at x", ["b", "a"], alone=True):
        [found] = living(tmp_path)
        assert found == claims.Claim("run1", "jo at x", True, frozenset({"a", "b"}))
    with claim(tmp_path, "run2", "jo", [], alone=False):
        [found] = living(tmp_path)
        assert (found.run, found.alone) == ("run2", False)
    assert list(living(tmp_path)) == []


def test_controllers_wait_for_one_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = hold(tmp_path / ".claims")
    assert held is not None
    waited: list[float] = []

    def wait(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 3:
            held.let_go()

    monkeypatch.setattr("time.sleep", wait)
    claim(tmp_path, "run", "me", [], alone=False).let_go()
    assert waited == [0.05] * 3
    with hold(tmp_path / ".claims") or pytest.fail("it is free"):
        monkeypatch.setattr(claims, "_PATIENCE_S", 0.0)
        with pytest.raises(LockedError, match=r"/\.claims is held by another controller"):
            claim(tmp_path, "run", "me", [], alone=False)


def test_a_place_where_nothing_can_be_claimed(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="/file: "):
        claim(tmp_path / "file", "run", "me", [], alone=False)


def whole(*frames: Frame, complete: bool = True) -> Answers:
    evidence = Evidence({each.key: each for each in frames}, complete)
    return Answers(Result(3, evidence.dump(), ""))


def test_a_test_of_two_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(io, "patience", lambda: 2)
    node = whole(Frame("listening", State.OK, "18515"))
    heard: list[int] = []
    io.look(node)
    words = ["ib_write_bw", "a b"]
    io.take_part(node, Role.SERVE, 30, ["A=1", "B=2"], words, listening=heard.append)
    io.take_part(node, Role.DRIVE, 30, ["A=1"], ["ib_write_bw"], port=18515)
    io.take_part(node, Role.ALONE, 30, [], ["gdrcopy_copybw"])
    calls = [each.rstrip("\n").rpartition("\n")[2] for each in node.scripts]
    assert calls == [
        "gdr_exercise look end",
        "gdr_exercise serve 60 'A=1 B=2' ib_write_bw 'a b' end",
        "gdr_exercise drive 60 A=1 18515 ib_write_bw end",
        "gdr_exercise alone 60 '' gdrcopy_copybw end",
    ]
    room = io._ROOM_S
    assert node.limits == [2 * room, *[max(60 + room, 2 * room)] * 3]
    hear = node.sinks[1]
    for line in ("= listening ok 18515", "= listening ok x", "= listening ok 1 2", "x", "= begin"):
        hear(line)
    assert heard == [18515]
    with pytest.raises(TransportError, match="gpu7: the test broke off, with status 3"):
        io.look(whole(complete=False))


@pytest.mark.parametrize(
    ("command", "user"),
    [("true", "met"), ("false", ""), ("read -r x", ""), ("test %n = gpu7", "met")],
)
def test_match_exec_asks_a_command(tmp_path: Path, command: str, user: str) -> None:
    file = tmp_path / "config"
    file.write_text(f'Match exec "{command}"\n User met\n')
    assert look_up(tuple(read_settings(file)), [], "gpu7").text("user") == user


def test_match_exec_that_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh_config_file, "_EXEC_S", 0.05)
    with pytest.raises(UsageError, match=r"here:1: Match exec has not ended after 0\.05 s"):
        ssh_config_file._runs("sleep 9", Block(("match",), "here:1", None))


def test_a_final_match_is_read_in_a_second_pass(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text("Match final\n User last\n Port 7\nHost *\n User first\n")
    found = look_up(tuple(read_settings(file)), [], "gpu7")
    assert (found.text("user"), found.text("port")) == ("first", "7")
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        list(read_settings(tmp_path))


@pytest.mark.parametrize(
    ("noise", "says"),
    [
        ("motd\ngdr-no-sudo\n", "there is no sudo on the node"),
        ("sudo: 3 incorrect password attempts", "sudo does not take the password"),
        ("sudo: a password is required", "sudo wants a password"),
        ("jo is not in the sudoers file", "the user is not in the sudoers file"),
        ("Sorry, user jo may not run sudo on x", "the user may not run sudo"),
        (
            "user jo is not allowed to execute",
            "the user may run some commands with sudo, but not sh",
        ),
        ("sudo: sorry, you must have a tty", "sudo wants a terminal"),
        ("the no new privileges flag", "sudo is forbidden to gain rights in this session"),
        ("x\nsudo: first\nsudo: " + "y" * 300 + "\nz", "not root: sudo: " + "y" * 194),
        ("motd\n sudo: x", ""),
    ],
)
def test_why_somebody_is_not_root(noise: str, says: str) -> None:
    found = refusal("gpu7", read_marks(noise))
    assert str(found) == (f"gpu7: {says}" if says else "None")
    assert refusal("gpu7", read_marks(f"{noise}\ngdr-begin\n")) is None


@pytest.mark.parametrize(
    ("mode", "good"), [(0o600, True), (0o400, True), (0o640, False), (0o601, False)]
)
def test_a_secret_in_a_file(tmp_path: Path, mode: int, good: bool) -> None:
    file = tmp_path / "secret"
    file.write_text("first\nsecond\n")
    file.chmod(mode)
    if good:
        assert read_secret_file(file) == "first"
        return
    with pytest.raises(UsageError, match=f"/secret: has mode {mode:04o}: others may read it"):
        read_secret_file(file)


def test_a_secret_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "secret"
    file.write_text("\n")
    file.chmod(0o600)
    with pytest.raises(UsageError, match="/secret: the password is empty"):
        read_secret_file(file)
    with pytest.raises(UsageError, match="/none: cannot be read: No such file"):
        read_secret_file(tmp_path / "none")
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(UsageError, match="/pipe: is no file"):
        read_secret_file(tmp_path / "pipe")
    mine = os.geteuid()
    owner = os.fstat

    def theirs(descriptor: int) -> os.stat_result:
        row = list(owner(descriptor))
        row[stat.ST_UID] = mine + 4711
        return os.stat_result(row)

    monkeypatch.setattr(os, "fstat", theirs)
    with pytest.raises(UsageError, match=f"/secret: belongs to user {mine + 4711}"):
        read_secret_file(file)


def test_every_kind_of_path_is_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d/file").write_text("x")
    (tmp_path / "link").symlink_to("/nowhere")
    os.mkfifo(tmp_path / "pipe")
    before = look(tmp_path)
    kinds = {path: entry.kind for path, entry in before.items()}
    assert kinds == {
        "/": FileKind.FOLDER, "/d": FileKind.FOLDER, "/d/file": FileKind.FILE,
        "/link": FileKind.LINK, "/pipe": FileKind.PIPE,
    }  # fmt: skip
    assert before["/link"].what == "/nowhere"
    reads: list[str] = []
    hashed = index._hash
    monkeypatch.setattr(index, "_hash", lambda full: (reads.append(full), hashed(full))[1])  # type: ignore[func-returns-value]  # a stand-in
    assert look(tmp_path, before) == before
    assert reads == []
    (tmp_path / "d/file").write_text("yy")
    (tmp_path / "d/file").chmod(0o600)
    (tmp_path / "link").unlink()
    (tmp_path / "link").mkdir()
    (tmp_path / "pipe").chmod(0o600)
    (tmp_path / "new").touch()
    after = look(tmp_path, before)
    assert {each.path: each.change for each in differences(before, after)} == {
        "/d/file": TreeChange.CONTENT,
        "/link": TreeChange.KIND,
        "/new": TreeChange.ADDED,
        "/pipe": TreeChange.ATTRIBUTES,
    }
    gone = {each.path: each.change for each in differences(after, before)}
    assert gone["/new"] is TreeChange.REMOVED
    paths = [each.path for each in differences(before, after)]
    assert paths == sorted(paths)
    whole = stamps(tmp_path)
    assert set(whole) == set(after)
    assert set(stamps(tmp_path, {"/d"})) == set(after) - {"/d", "/d/file"}


def test_devices_and_attributes(monkeypatch: pytest.MonkeyPatch) -> None:
    def status(mode: int) -> Any:
        class Status:
            st_mode, st_rdev = mode, os.makedev(8, 1)

        return Status()

    assert index._what(FileKind.DEVICE, "", status(stat.S_IFBLK)) == "b 8:1"
    assert index._what(FileKind.DEVICE, "", status(stat.S_IFCHR)) == "c 8:1"
    held = {"user.b": b"2", "user.a": b"1"}
    monkeypatch.setattr(os, "listxattr", lambda *_, **__: list(held))
    monkeypatch.setattr(os, "getxattr", lambda _, name, **__: held[name])
    first = index._attributes("x")
    assert len(first) == 64
    held["user.a"] = b"12"
    second = index._attributes("x")
    held = {"user.a": b"12", "user.b": b"2"}
    assert index._attributes("x") == second != first
    monkeypatch.setattr(os, "listxattr", lambda *_, **__: [])
    assert index._attributes("x") == ""


class Login(Guest):
    """A guest whose login only notes who carries it out."""

    def __init__(self, why: Exception | None = None) -> None:
        self.why, self.left = why, 0

    def _enter(self) -> None:
        self.by = threading.current_thread()
        if self.why:
            raise self.why

    def leave(self) -> None:
        self.left += 1


def test_a_login_at_a_bmc_is_seen_through_whatever_the_main_thread_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    guest, other = Login(), Login()
    assert guest.__enter__() is guest
    assert guest.by is not threading.main_thread()
    thread = threading.Thread(target=other.__enter__)
    thread.start()
    thread.join()
    assert other.by is thread
    refused = Login(BmcError("no"))
    with pytest.raises(BmcError, match="no"):
        refused.__enter__()
    assert refused.left == 0

    def pressed(_: Future[None]) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Future, "result", pressed)
    with pytest.raises(KeyboardInterrupt):
        guest.__enter__()
    assert guest.left == 1
    assert BmcLimits(3, 3, 4) == session._HURRY
