"""The demo server behaves as sshd does where a client can tell."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar

import paramiko
import pytest

from toolkit.demo import __main__ as serving
from toolkit.demo import fleet as demo_fleet
from toolkit.demo.fleet import DemoFleet, reset, start
from toolkit.errors import UsageError
from toolkit.hosts.host import Host
from toolkit.ssh.ssh_config import SshConfig

LONG = True


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def fleet(state: Path) -> Iterator[DemoFleet]:
    with start("demo[1-2]", state) as started:
        yield started


@contextlib.contextmanager
def connected(host: Host) -> Iterator[paramiko.SSHClient]:
    """A client that knows the node by its alias, as ours does."""
    file = SshConfig(()).target(host).known_hosts[0]
    known = paramiko.HostKeys(file)
    alias = dict(host.options)["HostKeyAlias"]
    client = paramiko.SSHClient()
    for kind, key in known[alias].items():
        client.get_host_keys().add(f"[{host.address}]:{host.port}", kind, key)
    try:
        client.connect(
            host.address,
            port=host.port,
            username=host.user,
            key_filename=host.key_file,
            allow_agent=False,
            look_for_keys=False,
            timeout=60,
            banner_timeout=60,
            auth_timeout=60,
        )
        yield client
    finally:
        client.close()


def run(host: Host, command: str, stdin: bytes = b"") -> tuple[int, bytes, bytes]:
    with connected(host) as client:
        source, output, errors = client.exec_command(command, timeout=60)
        source.write(stdin)
        source.channel.shutdown_write()
        said = output.read()
        return output.channel.recv_exit_status(), said, errors.read()


def answers(host: Host) -> bool:
    with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
        return run(host, "true")[0] == 0
    return False


def eventually(claim: Callable[[], bool], within_s: float = 100) -> bool:
    until = time.monotonic() + within_s
    while not claim():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def alive(pid: int) -> bool:
    """Running; a zombie that nobody has fetched yet counts as ended."""
    try:
        return ") Z" not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def test_its_known_hosts_are_one_file_wherever_a_home_lies(tmp_path: Path) -> None:
    host = demo_fleet._host(tmp_path / "my home 100%d", "demo1", 22)
    known = SshConfig(()).target(host).known_hosts
    assert known == (str(tmp_path / "my home 100%d/known_hosts"), "/dev/null")


def test_a_command_has_its_status_and_both_its_streams(fleet: DemoFleet) -> None:
    assert run(fleet.hosts[0], "echo out; echo err >&2; exit 3") == (3, b"out\n", b"err\n")


def test_each_node_answers_for_itself(fleet: DemoFleet) -> None:
    names = [run(host, "uname -n")[1] for host in fleet.hosts]
    assert names == [b"demo1\n", b"demo2\n"]


def test_quick_commands_are_never_answered_too_late(fleet: DemoFleet) -> None:
    with connected(fleet.hosts[0]) as client:
        for number in range(40):
            _, output, _ = client.exec_command(f"echo {number}")
            assert output.read() == f"{number}\n".encode()


def test_a_command_is_fed_its_input_and_told_where_it_ends(fleet: DemoFleet) -> None:
    data = os.urandom(3_000_000)
    status, said, _ = run(fleet.hosts[0], "cat", data)
    assert (status, said == data) == (0, True)


def test_many_clients_at_once(fleet: DemoFleet) -> None:
    with ThreadPoolExecutor(24) as pool:
        done = list(pool.map(lambda i: run(fleet.hosts[i % 2], f"echo {i}"), range(48)))
    assert done == [(0, f"{i}\n".encode(), b"") for i in range(48)]


def test_another_key_is_refused(fleet: DemoFleet) -> None:
    host = fleet.hosts[0]
    with paramiko.Transport((host.address, host.port)) as transport:
        transport.start_client(timeout=60)
        with pytest.raises(paramiko.AuthenticationException):
            transport.auth_publickey("root", paramiko.RSAKey.generate(2048))
        with pytest.raises(paramiko.BadAuthenticationType):
            transport.auth_password("root", "guess")


def test_a_reboot_drops_all_connections_and_comes_back_as_another_boot(fleet: DemoFleet) -> None:
    host = fleet.hosts[1]
    before = run(host, "cat $GDR_ROOT/proc/sys/kernel/random/boot_id")
    mark = fleet.tree("demo2") / "tmp/pid"
    with connected(host) as idle:
        idle.exec_command(f"echo $$ >{mark}.new; mv {mark}.new {mark}; exec sleep 600")
        assert eventually(mark.exists)
        run(host, 'echo nobody >"$GDR_POWER"')  # the name of no node costs no other its reboot
        began = time.monotonic()
        with contextlib.suppress(paramiko.SSHException, OSError):
            run(host, "reboot; sleep 60")
        assert time.monotonic() - began < 50
        transport = idle.get_transport()
        assert transport is not None
        assert eventually(lambda: not transport.is_active())
    assert eventually(lambda: not Path("/proc", mark.read_text().strip()).exists())

    assert eventually(lambda: answers(host))
    assert run(host, "cat $GDR_ROOT/proc/sys/kernel/random/boot_id") != before
    assert run(fleet.hosts[0], "uname -n")[0] == 0  # the neighbour stays up


def test_the_port_of_a_node_that_boots_is_nobody_elses_meanwhile(tmp_path: Path) -> None:
    """Its listener is closed then, and nobody has connected who could leave the port waiting."""
    begun, go = tmp_path / "begun", tmp_path / "go"
    with start("demo1", tmp_path) as fleet, socket.socket() as other:
        boot = tmp_path / "nodes/demo1/bin/boot"
        boot.unlink()
        boot.write_text(f"#!/bin/sh\n: >{begun}\nuntil [ -e {go} ]; do sleep 0.05; done\n")
        boot.chmod(0o755)
        [power] = tmp_path.glob("power.*")
        power.write_text("demo1\n")
        assert eventually(begun.exists)
        try:
            with pytest.raises(OSError, match="Address already in use"):
                other.bind((fleet.hosts[0].address, fleet.hosts[0].port))
        finally:
            go.touch()
        assert eventually(lambda: answers(fleet.hosts[0]))


@pytest.mark.parametrize(("age_s", "booted"), [(60, True), (-600, False)])  # young for long
def test_a_reboot_that_was_lost_with_its_server_is_made_up_for(
    tmp_path: Path, age_s: int, *, booted: bool
) -> None:
    """Killed amid a reboot, the demo said for 20 minutes that the node is rebooting."""
    with start("demo1", tmp_path) as first:
        tree = first.tree("demo1")
    told = tree / "proc/sys/kernel/random/boot_id"
    before, lock = told.read_text(), tree / "var/lib/gdr-toolkit/lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.symlink_to(f"1,20,{before.strip()},2026-11-23T05:08:07Z,rebooting for root")
    then = time.time() - age_s
    os.utime(lock, (then, then), follow_symlinks=False)
    with start("demo1", tmp_path):
        assert (told.read_text() != before) is booted


def test_a_command_outlives_its_connection(fleet: DemoFleet) -> None:
    mark = fleet.tree("demo1") / "tmp/mark"
    with connected(fleet.hosts[0]) as client:
        client.exec_command(f"sleep 0.5; echo done >{mark}")
    assert eventually(mark.exists)


def test_a_command_that_still_writes_finds_its_pipe_closed(fleet: DemoFleet) -> None:
    mark = fleet.tree("demo1") / "tmp/pipe"
    with connected(fleet.hosts[0]) as client:
        client.exec_command(f"trap '' PIPE; while echo tick; do sleep 0.05; done; echo $? >{mark}")
        time.sleep(0.2)
    assert eventually(mark.exists)


def test_a_killed_command_has_no_exit_status(fleet: DemoFleet) -> None:
    assert run(fleet.hosts[0], "kill -9 $$")[0] == -1


def test_trees_stay_between_runs_until_they_are_reset(tmp_path: Path) -> None:
    for expected in (False, True):
        with start("demo3", tmp_path) as fleet:
            mark = fleet.tree("demo3") / "etc/mark"
            assert mark.exists() is expected
            mark.touch()
    reset(tmp_path)
    with start("demo3", tmp_path) as fleet:
        assert not (fleet.tree("demo3") / "etc/mark").exists()


def test_a_newer_toolkit_makes_its_nodes_anew(tmp_path: Path) -> None:
    with start("demo3", tmp_path) as fleet:
        (fleet.tree("demo3") / "etc/mark").touch()
    (tmp_path / "version").write_text("of another toolkit")
    with start("demo3", tmp_path) as fleet:
        assert not (fleet.tree("demo3") / "etc/mark").exists()


def test_the_client_key_is_for_its_owner_alone(fleet: DemoFleet) -> None:
    assert Path(fleet.hosts[0].key_file).stat().st_mode & 0o777 == 0o600


def test_an_expression_without_demo_nodes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="names no demo node"):
        start("gpu01", tmp_path)


ORPHAN = """
import sys, time
from pathlib import Path
from toolkit.demo.fleet import start
fleet = start("demo1", Path(sys.argv[1]))
print(fleet.pid, flush=True)
time.sleep(60)
"""


def test_the_server_ends_when_whoever_started_it_is_killed(state: Path, fleet: DemoFleet) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", ORPHAN, str(state)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    with parent:
        assert parent.stdout is not None
        server = int(parent.stdout.readline())
        assert alive(server)
        parent.send_signal(signal.SIGKILL)
    assert eventually(lambda: not alive(server))
    assert run(fleet.hosts[0], "true")[0] == 0  # another server of the same nodes goes on


def test_closing_a_fleet_ends_what_hangs_on_its_nodes(state: Path) -> None:
    fleet = start("demo2", state)
    with connected(fleet.hosts[0]) as client:
        _, output, _ = client.exec_command("echo $$; exec sleep 600")
        pid = int(output.readline())
        assert alive(pid)
        fleet.close()
    assert eventually(lambda: not alive(pid))
    assert not alive(fleet.pid)


@pytest.mark.parametrize(("said", "grace"), [("quit\n", [{"grace_s": 0}]), ("", [{}])])
def test_commands_have_a_while_unless_quit_is_said(
    state: Path,
    fleet: DemoFleet,
    monkeypatch: pytest.MonkeyPatch,
    said: str,
    grace: list[dict[str, float]],
) -> None:
    class Served:
        """A server that nobody comes to."""

        ports: ClassVar = {"demo1": 22}
        stopped: ClassVar[list[dict[str, float]]] = []

        def __init__(self, *_: object) -> None:
            return

        def serve(self) -> None:
            return

        def stop(self, **asked: float) -> None:
            self.stopped.append(asked)

    monkeypatch.setattr(serving, "Server", Served)
    monkeypatch.setattr("sys.stdin", io.StringIO(said))
    assert serving.main(["serve", str(state), "demo1"]) == 0
    assert Served.stopped == grace
