"""One end of a test on a node: what is started, what is told, and that nothing outlives it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.scripts.engine import SHELLS
from tests.scripts.shells import say
from toolkit.evidence import Evidence, State
from toolkit.features.exercise.io import script

pytestmark = pytest.mark.shell

# Listens where it is told to, as perftest does, and waits for one connection.
LISTENER = f"""#!{sys.executable}
import os, socket, sys
line = socket.create_server(("127.0.0.1", int(sys.argv[-1])))
print("CUDA", os.environ.get("CUDA_VISIBLE_DEVICES"), *sys.argv[1:], flush=True)
line.accept()
print("served", flush=True)
"""
CLIENT = f"""#!{sys.executable}
import socket, sys
socket.create_connection(("127.0.0.1", int(sys.argv[-1])))
print("drove", *sys.argv[1:-1])
"""
HANGS = '#!/bin/sh\necho $$ >"$GDR_ROOT/pid"\nexec /bin/sleep 600\n'
# A second is over as soon as the tool has begun.
BEGUN = '#!/bin/sh\nuntil [ -s "$GDR_ROOT/pid" ]; do /bin/sleep 0.05; done\nexec /bin/sleep 0.2\n'
FAILS = "#!/bin/sh\necho 'IB device mlx5_9 not found' >&2\nexit 3\n"


class Node:
    """A node in a folder, asked by one shell; it listens on this machine's loopback."""

    def __init__(self, root: Path, shell: tuple[str, ...]) -> None:
        self.root, self.shell = root, shell
        (root / "bin").mkdir(parents=True)
        counters = root / "sys/class/infiniband/mlx5_0/ports/1/counters"
        counters.mkdir(parents=True)
        (counters / "port_xmit_data").write_text("7\n")
        (root / "proc/net").mkdir(parents=True)
        (root / "proc/net/tcp").symlink_to("/proc/net/tcp")
        (root / "proc/sys/kernel/random").mkdir(parents=True)
        (root / "proc/sys/kernel/random/boot_id").write_text("b\n")

    def tool(self, name: str, text: str) -> None:
        (self.root / "bin" / name).write_text(text)
        (self.root / "bin" / name).chmod(0o755)

    @property
    def variables(self) -> dict[str, str]:
        return {"GDR_ROOT": str(self.root), "GDR_BIN": str(self.root / "bin")}

    def before(self, name: str, text: str) -> str:
        """PATH with a program of our own first."""
        folder = self.root / "before"
        folder.mkdir()
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
        return f"{folder}:{os.environ['PATH']}"

    def run(self, *words: str, **more: str) -> Evidence:
        done = say(self.shell, script(*words), **self.variables, **more)
        assert "Killed" in done.stderr or not done.stderr  # bash tells of it
        return Evidence.parse(done.stdout)

    def begin(self, *words: str) -> subprocess.Popen[str]:
        child = subprocess.Popen(
            [*self.shell, "-s"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"PATH": os.environ["PATH"], **self.variables},
        )
        assert child.stdin is not None
        child.stdin.write(script(*words))
        child.stdin.close()
        child.stdin = None  # so that communicate does not ask for it
        return child


@pytest.fixture(params=SHELLS)
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Node:
    return Node(tmp_path / "node", SHELLS[request.param])


def _gone(pid: int) -> bool:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z":
                time.sleep(0.05)
                continue
        return True
    return False


def _port(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    for line in child.stdout:
        if line.startswith("= listening ok "):
            return line.split()[3]
    raise AssertionError("it never listened")


def test_both_ends_meet_on_a_port_that_the_node_found_free(node: Node) -> None:
    node.tool("ib_write_bw", LISTENER)
    node.tool("ib_read_bw", CLIENT)
    words = ("-d", "mlx5_0", "a b")
    child = node.begin("serve", "60", "CUDA_VISIBLE_DEVICES=GPU-1", "ib_write_bw", *words)
    port = _port(child)
    drove = node.run("drive", "60", "", port, "ib_read_bw", "-n", "5", "10.0.0.1")
    assert drove.text("run") == "drove -n 5 10.0.0.1 -p\n"
    assert child.stdout is not None
    rest = child.communicate(timeout=60)[0]
    assert child.returncode == 0
    served = Evidence.parse(f"= begin ok gdr-toolkit/1\n{rest}")
    assert served.text("run") == f"CUDA GPU-1 -d mlx5_0 a b -p {port}\nserved\n"
    assert served.text("counters-after") == "mlx5_0/ports/1/counters/port_xmit_data:7\n"
    assert drove.complete


def test_a_port_that_is_taken_is_passed_over(node: Node) -> None:
    """Two at once never ask for one port."""
    node.tool("ib_write_bw", LISTENER)
    children = [node.begin("serve", "60", "", "ib_write_bw") for _ in range(2)]
    ports = [_port(child) for child in children]
    assert len(set(ports)) == 2
    for child in children:
        child.terminate()
        child.communicate()


def test_what_hangs_is_ended_at_its_limit(node: Node) -> None:
    node.tool("ib_write_bw", HANGS)
    found = node.run("drive", "1", "", "20000", "ib_write_bw", PATH=node.before("sleep", BEGUN))
    assert found.frame("run").state is State.TIMEOUT
    assert "counters-after" in found.frames
    assert found.complete
    assert _gone(int((node.root / "pid").read_text()))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_nothing_outlives_a_script_that_is_told_to_end(node: Node, number: int) -> None:
    node.tool("ib_write_bw", HANGS)
    child = node.begin("serve", "300", "", "ib_write_bw")
    pid = _started(node)
    child.send_signal(number)
    child.communicate(timeout=60)
    assert _gone(pid)


def _started(node: Node) -> int:
    """The process of the tool that hangs, once it runs."""
    while not (node.root / "pid").exists() or not (node.root / "pid").read_text():
        time.sleep(0.05)
    return int((node.root / "pid").read_text())


def test_where_nobody_hears_the_script_any_more_the_tool_is_ended(node: Node) -> None:
    """A connection that breaks sends no signal."""
    node.tool("ib_write_bw", HANGS)
    child = node.begin("drive", "300", "", "20000", "ib_write_bw")
    pid = _started(node)
    assert child.stdout is not None
    child.stdout.close()
    assert _gone(pid)
    child.wait(timeout=60)


def test_a_script_that_is_killed_leaves_no_tool_behind(node: Node) -> None:
    node.tool("ib_write_bw", HANGS)
    child = node.begin("serve", "300", "", "ib_write_bw")
    pid = _started(node)
    child.kill()
    assert _gone(pid)
    child.communicate(timeout=60)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_tool_that_was_only_just_started_is_ended_too(
    node: Node, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the script knows its number: for a moment, which a busy machine makes long."""
    first, started, last = script("serve", "300", "", "ib_write_bw").partition("runner=$!\n")
    monkeypatch.setattr(f"{__name__}.script", lambda *_: f"{first}sleep 3\n{started}{last}")
    node.tool("ib_write_bw", HANGS)
    child = node.begin("serve")
    pid = _started(node)
    child.send_signal(number)
    assert _gone(pid)
    child.communicate(timeout=60)


def test_the_time_to_begin_to_listen_is_part_of_the_limit(node: Node) -> None:
    """By a clock: some sleep for whole seconds alone."""
    node.tool("ib_write_bw", HANGS)
    coarse = """#!/bin/sh
case $1 in *.*) exit 1 ;; esac
echo "$1" >>"$GDR_ROOT/slept"
exec /bin/sleep "$1"
"""
    found = node.run("serve", "3", "", "ib_write_bw", PATH=node.before("sleep", coarse))
    assert found.frame("listening").state is State.FAILED
    assert found.frame("run").state is State.TIMEOUT
    slept = (node.root / "slept").read_text().split()
    assert 1 <= slept.count("1") <= 4, "by turns of the loop it would be 15"


def test_a_tool_that_fails_says_so_and_nobody_is_kept_waiting(node: Node) -> None:
    node.tool("ib_write_bw", FAILS)
    found = node.run("serve", "60", "", "ib_write_bw")
    assert found.frame("listening").state is State.FAILED
    assert (found.frame("run").exit, found.frame("run").text) == (3, "IB device mlx5_9 not found\n")


@pytest.mark.parametrize("tool", ["sh", "/bin/sh", "ib_write_bw;id", "rm", ""])
def test_no_tool_but_those_of_the_list_is_ever_started(node: Node, tool: str) -> None:
    node.tool("sh", '#!/bin/sh\ntouch "$GDR_ROOT/started"\n')
    found = node.run("alone", "5", "", tool, "-c", f"touch {node.root}/started")
    assert found.frame("run").state is State.ABSENT
    assert not (node.root / "started").exists()


@pytest.mark.parametrize("keep", [0.5, 0.9, 0.999])
def test_a_script_that_was_cut_off_starts_nothing(node: Node, keep: float) -> None:
    node.tool("ib_write_bw", '#!/bin/sh\ntouch "$GDR_ROOT/started"\n')
    text = script("drive", "5", "", "20000", "ib_write_bw")
    say(node.shell, text[: int(len(text) * keep)], **node.variables)
    assert not (node.root / "started").exists()


def test_the_look_names_the_tools_that_are_there(node: Node) -> None:
    node.tool("ib_send_lat", "#!/bin/sh\n")
    node.tool("id", "#!/bin/sh\necho 0\n")
    found = node.run("look")
    assert found.text("exercise-tools") == "ib_send_lat /bin/ib_send_lat\n"
    assert found.frame("exercise-gpus").state is State.ABSENT
    assert found.frame("exercise-leaves").state is State.ABSENT
    assert found.complete
    node.tool("lldpcli", "#!/bin/sh\necho lldp.eth0.chassis.name=leaf01\n")
    assert node.run("look").frame("exercise-leaves").state is State.ABSENT, "no lldpd runs"
    (node.root / "run").mkdir(exist_ok=True)
    (node.root / "run/lldpd.socket").touch()
    assert node.run("look").text("exercise-leaves") == "lldp.eth0.chassis.name=leaf01\n"
