"""``demo --serve``: programs of others reach the nodes by what its folder says."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import testinfra

from tests.fleet.ansible import Ansible
from tests.fleet.nodes import ROOT
from tests.invoked import gdr
from toolkit.demo.serve import _running
from toolkit.errors import ExitCode

pytestmark = pytest.mark.sshd
NODES = "demo1,demo4"  # a healthy one and one with a stub
LOADED = {"demo1": True, "demo4": False}
LIMIT_S = 300


@contextmanager
def served(
    folder: Path, nodes: str = NODES, program: tuple[str, str] = ("-m", "toolkit.cli")
) -> Iterator[subprocess.Popen[str]]:
    """The verb as a process of its own, once all nodes answer."""
    with subprocess.Popen(
        [sys.executable, *program, "demo", "--serve", str(folder), "--hosts", nodes],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert any("up until Ctrl-C" in line for line in process.stdout)
            yield process
        finally:
            process.kill()


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("serve") / "fleet"
    with served(folder) as process:
        yield folder
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == ExitCode.OK
    assert not folder.exists()
    assert _running(folder) == set()


def run(*words: str, cwd: Path) -> str:
    ended = subprocess.run(
        words, capture_output=True, text=True, cwd=cwd, timeout=LIMIT_S, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.mark.parametrize("name", LOADED)
def test_plain_openssh_runs_a_command_on_the_node(fleet: Path, name: str) -> None:
    found = run("ssh", "-F", str(fleet / "ssh_config"), name, "uname -n; lsmod", cwd=fleet)
    assert found.startswith(f"{name}\n")
    assert ("nvidia_peermem" in found) is LOADED[name]


def test_ansibles_modules_run_there(fleet: Path, tmp_path: Path) -> None:
    ansible = Ansible(tmp_path, tmp_path)
    listed = ("-i", str(fleet / "hosts.ini"), "demo", "-o")
    pinged = ansible.run("ansible", *listed, "-m", "ping")
    assert (pinged.exit, pinged.text.count('"ping": "pong"')) == (0, 2), pinged.text
    assert "discovered Python" not in pinged.text
    shell = ansible.run("ansible", *listed, "-m", "shell", "-a", "uname -n; lsmod")
    for name, loaded in LOADED.items():
        (line,) = (each for each in shell.text.split("\n") if each.startswith(f"{name} |"))
        assert ("nvidia_peermem" in line) is loaded, shell.text


def test_without_an_sftp_server_transfers_are_refused_and_ansible_does_without(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "fleet"
    unknown = "from toolkit.demo import serve; serve._SFTP_AT = ()"
    program = f"{unknown}; from toolkit.cli import main; main()"
    with served(folder, "demo1", ("-c", program)) as process:
        words = ("sftp", "-F", str(folder / "ssh_config"), "-b", "-", "demo1")
        done = subprocess.run(words, input="pwd\n", capture_output=True, text=True, check=False)
        assert "subsystem request failed" in done.stderr
        asked = ("ansible", "-i", str(folder / "hosts.ini"), "demo1", "-m", "ping")
        assert '"ping": "pong"' in Ansible(tmp_path, tmp_path).run(*asked).text
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == ExitCode.OK


@pytest.mark.parametrize("name", LOADED)
def test_testinfra_asks_it_by_ssh(fleet: Path, name: str) -> None:
    host = testinfra.get_host(f"ssh://{name}?ssh_config={fleet}/ssh_config")
    assert host.check_output("uname -n") == name
    assert ("nvidia_peermem" in host.check_output("lsmod")) is LOADED[name]


def test_clush_has_its_group(fleet: Path) -> None:
    clush = str(Path(sys.executable).with_name("clush"))
    config = ("--groupsconf", str(fleet / "groups.conf"), "-o", f"-F {fleet}/ssh_config")
    found = run(clush, *config, "-g", "demo", "uname -n", cwd=fleet)
    assert sorted(found.split("\n")) == ["", "demo1: demo1", "demo4: demo4"]


def test_its_inventory_is_one_of_ours(fleet: Path, tmp_path: Path) -> None:
    words = ("doctor", "--inventory", str(fleet / "hosts.ini"), "--hosts", "@demo", "--quiet")
    looked = gdr(*words, state=tmp_path)
    assert looked.returncode == ExitCode.FAILED, looked.stderr
    assert "1 of 2 nodes are ready" in looked.stdout


@pytest.mark.root
def test_as_root_a_session_sees_the_nodes_files_and_writes_nothing_of_this_machine(
    fleet: Path,
) -> None:
    ssh, boot = ("ssh", "-F", str(fleet / "ssh_config"), "demo4"), "/proc/sys/kernel/random/boot_id"
    tree = fleet / "nodes/demo4/tree"
    host = testinfra.get_host(f"ssh://demo4?ssh_config={fleet}/ssh_config")
    assert host.file("/proc/cmdline").content_string == (tree / "proc/cmdline").read_text()
    assert host.file("/sys/module/mlx5_core").is_directory
    assert not host.file("/sys/module/nvidia_peermem").exists
    run(*ssh, "touch /etc/modprobe.d/own; ! touch /usr/own 2>/dev/null", cwd=fleet)
    assert (tree / "etc/modprobe.d/own").exists()
    before, ours = run(*ssh, f"cat {boot}", cwd=fleet), Path(boot).read_text()
    run(*ssh, "/sbin/reboot", cwd=fleet)
    assert (run(*ssh, f"cat {boot}", cwd=fleet) != before, Path(boot).read_text()) == (True, ours)


def test_what_a_killed_one_has_left_is_ended_and_removed_by_the_next(tmp_path: Path) -> None:
    folder = tmp_path / "fleet"
    ssh = ("ssh", "-F", str(folder / "ssh_config"), "demo1")
    with served(folder, "demo1") as process:
        run(*ssh, "setsid sleep 600 >/dev/null 2>&1 </dev/null & touch mark", cwd=tmp_path)
        process.send_signal(signal.SIGKILL)
    (folder / "mine").touch()
    while len(left := _running(folder)) > 2:  # a session that ended is served for a moment more
        time.sleep(0.05)
    assert len(left) == 2  # sshd, and what was put into the background
    reading = ("tail", "-f", str(folder / "sshd/demo1.log"))
    with (
        subprocess.Popen(reading, stderr=subprocess.DEVNULL) as own,
        served(folder, "demo1") as process,
    ):
        assert own.poll() is None  # whoever but reads there is no part of it
        own.kill()
        assert left.isdisjoint(_running(folder))
        assert "mark" not in run(*ssh, "ls", cwd=tmp_path)
        assert gdr("demo", "--serve", str(folder), state=tmp_path).returncode == ExitCode.USAGE
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT_S) == ExitCode.OK
    assert [each.name for each in folder.iterdir()] == ["mine"]
    assert _running(folder) == set()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--serve", "full"), "there are other files"),
        (("--serve", "in two words"), "inventories and ssh_config would have to quote"),
        (("--serve", "new", "--hosts", "gpu1"), "names no demo node"),
        (("--serve", "new", "--reset"), "--serve goes with --hosts alone"),
        (("--hosts", "demo"), "--hosts goes with --serve"),
        (("--serve", "file/new"), "Not a directory"),
    ],
)
def test_what_cannot_be_served_is_one_sentence(
    tmp_path: Path, words: tuple[str, ...], why: str
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full/mine").touch()
    (tmp_path / "file").touch()
    before = sorted(tmp_path.rglob("*"))
    ended = gdr("demo", *words, state=tmp_path / "state", cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (ExitCode.USAGE, "")
    assert why in ended.stderr
    assert sorted(tmp_path.rglob("*")) == before
