"""More than one at work on the same nodes, and links that do not hold."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.fleet.links import Relay
from tests.fleet.nodes import Nodes, served
from tests.fleet.sshd import Keys
from toolkit.errors import ExitCode

pytestmark = pytest.mark.sshd
LONG = True


@pytest.fixture
def nodes(tmp_path: Path, keys: Keys) -> Iterator[Nodes]:
    with served(tmp_path, ("demo-iommu", "demo-stub"), keys) as made:
        yield made


def begun(nodes: Nodes, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        nodes.command("provision", *words),
        env=nodes.environment,
        cwd=nodes.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_two_runs_at_once_both_end_well(nodes: Nodes) -> None:
    runs = [begun(nodes, "--yes", "--reboot") for _ in range(2)]
    ended = [(run.communicate(timeout=120), run.returncode) for run in runs]
    told = "\n".join(out.partition("after\n")[2] for (out, _), _ in ended)
    assert [code for _, code in ended] == [ExitCode.OK, ExitCode.OK], told
    again = nodes.run("provision", "--check")
    assert again.returncode == ExitCode.OK, again.stdout


def test_a_node_that_another_run_works_on_is_not_rebooted(nodes: Nodes) -> None:
    """Nothing is left to place: before a reboot alone, too, the lock is asked for."""
    nodes.run("provision", "--yes")
    boot_id = nodes.tree("demo-iommu") / "proc/sys/kernel/random/boot_id"
    before = boot_id.read_text()
    with held(nodes.tree("demo-iommu")):
        run = begun(nodes, "--yes", "--reboot", "--limit", "demo-iommu")
        with pytest.raises(subprocess.TimeoutExpired):
            run.communicate(timeout=10)
        assert boot_id.read_text() == before
    told = run.communicate(timeout=300)
    assert run.returncode == ExitCode.OK, told
    assert boot_id.read_text() != before


@contextmanager
def held(tree: Path) -> Iterator[None]:
    """Another run's lock, whose process lives."""
    lock = tree / "var/lib/gdr-toolkit/lock"
    boot = (tree / "proc/sys/kernel/random/boot_id").read_text().strip()
    with subprocess.Popen(["sleep", "600"]) as other:
        began = Path(f"/proc/{other.pid}/stat").read_text().rpartition(") ")[2].split()[19]
        lock.symlink_to(f"{other.pid},{began},{boot},2026-11-21T10:00:00Z,ann")
        try:
            yield
        finally:
            other.kill()


def test_ctrl_c_amid_changes_ends_in_order_and_the_next_run_finishes(nodes: Nodes) -> None:
    with begun(nodes, "--yes", "--reboot", "--json") as run:
        journal = nodes.tree("demo-stub") / "var/lib/gdr-toolkit"
        end = time.monotonic() + 300
        while not journal.exists():
            assert run.poll() is None, run.communicate()
            assert time.monotonic() < end, "it never came to that"
            time.sleep(0.02)
        run.send_signal(signal.SIGINT)
        out, told = run.communicate(timeout=300)
    assert run.returncode == ExitCode.INTERRUPTED, told
    assert "Traceback" not in told
    assert {host["name"] for host in json.loads(out)["hosts"]} == set(nodes.names)
    finished = nodes.run("provision", "--yes", "--reboot")
    assert finished.returncode == ExitCode.OK, finished.stdout + finished.stderr


def test_cut_connections_cost_their_hosts_and_no_other(nodes: Nodes) -> None:
    """Cut within the greeting, the key exchange, the login, and the evidence."""
    server, cuts = nodes.servers["demo-stub"], (0, 40, 1500, 4000, 9000, 20000)
    with ExitStack() as stack:
        relays = {f"cut{at}": stack.enter_context(Relay(server.port, limit=at)) for at in cuts}
        with (nodes.folder / "hosts.ini").open("a") as inventory:
            for name, relay in relays.items():
                inventory.write(f"{name} ansible_host=127.0.0.1 ansible_port={relay.port}\n")
        key = server.known_hosts.read_text().partition(" ")[2]
        with (nodes.folder / "known_hosts").open("a") as known:
            for relay in relays.values():
                known.write(f"[127.0.0.1]:{relay.port} {key}")
        ended = replace(nodes, names=("demo-iommu", *relays)).run("doctor", "--json")
    assert ended.returncode == ExitCode.UNREACHABLE, ended.stdout + ended.stderr
    hosts = {host["name"]: host for host in json.loads(ended.stdout)["hosts"]}
    assert {hosts[name]["state"] for name in relays} <= {"out of reach", "cut off"}, hosts
    assert hosts["demo-iommu"]["state"] == "broken"
    assert hosts["demo-iommu"]["complete"] is True
