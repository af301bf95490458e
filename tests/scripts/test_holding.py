"""The look at who depends on modules, on trees of our own making, under each shell."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scripts.depending import first, make, process, put
from tests.scripts.engine import SHELLS
from tests.scripts.shells import say
from toolkit.evidence import Evidence, State
from toolkit.facts.modules.module_users import Holding, Net, Way, parse_holding, parse_users
from toolkit.node.collect import script

pytestmark = pytest.mark.shell


@pytest.fixture(params=sorted(SHELLS))
def shell(request: pytest.FixtureRequest) -> tuple[str, ...]:
    return SHELLS[request.param]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make(tmp_path / "node")


def seen(root: Path, shell: tuple[str, ...], call: str = "holding") -> Evidence:
    done = say(
        shell,
        script(call),
        PATH=first(root),
        GDR_ROOT=str(root),
        GDR_BIN=str(root / "bin"),
        SSH_CONNECTION="192.0.2.1 40000 198.51.100.7 22",
    )
    assert done.stderr == ""
    found = Evidence.parse(done.stdout)
    assert found.complete
    return found


def look(root: Path, shell: tuple[str, ...]) -> Holding:
    return parse_holding(seen(root, shell))


def test_ways_disks_and_files_are_told(root: Path, shell: tuple[str, ...]) -> None:
    found = look(root, shell)
    assert set(found.ways) == {
        Way("session", "192.0.2.1", "ens1np0"),
        Way("session", "192.0.2.1", "bond0"),
        Way("route", "default", "ens1np0"),
        Way("route", "default", "eno1"),
        Way("server", "10.0.0.5", "ens1np0"),
    }
    assert found.nets == {
        "bond0": Net("bond0", (), ("ens1np0",)),
        "ens1np0": Net("ens1np0", ("mlx5_core",), ()),
    }
    assert [(each.point, each.modules) for each in found.mounts] == [
        ("/", ("nvme",)),
        ("/home", ()),
    ]
    assert found.files == {"mlx5_core": True, "nvidia": False, "nvme": True}


def test_an_export_that_is_mounted_by_rdma_too_is_told_of_twice(
    root: Path, shell: tuple[str, ...]
) -> None:
    line = "{} 22 0:{} / /home{} rw - nfs4 files:/home rw,proto={},addr=10.0.0.5\n"
    put(
        root,
        "proc/self/mountinfo",
        line.format(99, 52, "", "tcp") * 2 + line.format(98, 53, 2, "rdma"),
    )
    assert [(each.point, each.options) for each in look(root, shell).mounts] == [
        ("/home", "rw,proto=tcp,addr=10.0.0.5"),
        ("/home2", "rw,proto=rdma,addr=10.0.0.5"),
    ]


def test_who_has_devices_open_is_named(root: Path, shell: tuple[str, ...]) -> None:
    process(root, 41, "cat", "/dev/null", "socket:[7]", "/tmp/dev/nvidia0")
    process(root, 42, "python3", "/dev/null", "/dev/infiniband/uverbs0", "/dev/infiniband/uverbs0",
            "/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap1")  # fmt: skip
    process(root, 43, r"a\nb", "/dev/nvidiactl (deleted)", uid=0)
    one, two = look(root, shell).users
    assert one.devices == (
        "/dev/infiniband/uverbs0",
        "/dev/nvidia0",
        "/dev/nvidia-caps/nvidia-cap1",
    )
    assert str(one) == "python3, pid 42 of alice, job 42"
    assert (two.pid, two.name, two.devices) == (43, "a?b", ("/dev/nvidiactl",))


def test_one_process_alone_is_seen(root: Path, shell: tuple[str, ...]) -> None:
    process(root, 42, "python3", "/dev/infiniband/uverbs0")
    assert [each.pid for each in parse_users(seen(root, shell, "occupied"))] == [42]


def test_a_files_name_can_neither_hide_nor_accuse(root: Path, shell: tuple[str, ...]) -> None:
    forged = "/tmp/x\nlrwx------ 1 0 0 64 Jan 1 00:00 99/fd/3 -> /dev/infiniband/uverbs1"
    process(root, 99, "innocent", "/dev/null")
    process(root, 7, "hider", forged, "/tmp/\n99/fd:", "/dev/infiniband/uverbs0")
    [user] = look(root, shell).users
    assert (user.pid, user.devices) == (7, ("/dev/infiniband/uverbs0",))


def test_without_a_tool_nobody_is_said_to_be_idle(
    root: Path, shell: tuple[str, ...], tmp_path: Path
) -> None:
    process(root, 42, "python3", "/dev/infiniband/uverbs0")
    few = tmp_path / "few"
    few.mkdir()
    for name in ("mktemp", "rm", "cat", "tr", "sed", "cut", "sort", "readlink", "ls", "grep"):
        (few / name).symlink_to(f"/usr/bin/{name}")
    (few / "id").symlink_to(root / "bin/id")
    busybox = "set -o nofork 2>/dev/null; " if shell[0] == "busybox" else ""
    done = say(
        (f"/usr/bin/{shell[0]}", *shell[1:]),
        busybox + script("occupied"),
        GDR_ROOT=str(root),
        GDR_BIN=str(root / "bin"),
        PATH=str(few),
    )
    found = Evidence.parse(done.stdout)
    if shell[0] != "busybox":  # which has awk and xargs in itself
        assert found.frame("users").state is State.ABSENT
        assert found.frame("users").source == "awk"


def test_the_machine_at_hand_can_be_looked_at(shell: tuple[str, ...]) -> None:
    with Path("/dev/null").open():
        done = say(shell, script("holding"))
    found = Evidence.parse(done.stdout)
    assert found.complete
    assert found.frame("users").state is State.OK
    assert done.stderr == ""
