"""Modules go and come back under the node's lock, on trees of our own, under each shell."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from tests.scripts.depending import first, make, process, put, reloadable
from tests.scripts.engine import SHELLS
from tests.scripts.shells import say
from toolkit.errors import ApplyError, LockedError, TransportError
from toolkit.evidence import Evidence
from toolkit.facts.modules.module_users import parse_holding
from toolkit.features.reload import io as reach
from toolkit.node.collect import script as look_script
from toolkit.ssh.transport import Result, Sink, quiet

pytestmark = pytest.mark.shell
OUT, IN = ("nvidia_peermem", "nvidia_uvm", "nvidia"), ("nvidia", "nvidia_uvm", "nvidia_peermem")


class Tree:
    """A node in a folder, asked by one shell."""

    name = "gpu01"

    def __init__(self, root: Path, shell: tuple[str, ...]) -> None:
        self.root, self.shell = root, shell

    def variables(self) -> dict[str, str]:
        return {
            "PATH": first(self.root),
            "GDR_ROOT": str(self.root),
            "GDR_BIN": str(self.root / "bin"),
            "SSH_CONNECTION": "192.0.2.1 40000 198.51.100.7 22",
        }

    def run(self, script: str, *, limit_s: float = 60, sink: Sink = quiet) -> Result:
        done = subprocess.run(
            [*self.shell, "-s"],
            input=script,
            env=self.variables(),
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            timeout=limit_s,
            check=False,
        )
        assert done.stderr == ""
        return Result(done.returncode, done.stdout, done.stderr)

    def close(self) -> None:
        """Nothing is open."""

    def look(self) -> Evidence:
        return Evidence.parse(self.run(look_script("holding")).stdout)

    @property
    def calls(self) -> list[str]:
        """What was unloaded and loaded, in order."""
        file = self.root / "calls"
        return file.read_text().split("\n")[:-1] if file.exists() else []

    @property
    def loaded(self) -> list[str]:
        return [line.split()[0] for line in (self.root / "proc/modules").read_text().splitlines()]


@pytest.fixture(params=sorted(SHELLS))
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Tree:
    return Tree(reloadable(make(tmp_path / "node")), SHELLS[request.param])


def reload(node: Tree, look: Evidence | None = None) -> reach.Done:
    text = reach.script(look or node.look(), OUT, IN, wait_s=0)
    return reach.carry_out(node, text)[0]


def test_modules_go_and_come_back_in_order(node: Tree) -> None:
    done = reload(node)
    assert node.calls == [*(f"rmmod {each}" for each in OUT), *(f"modprobe {each}" for each in IN)]
    assert all(step.ok for step in done.steps)
    assert set(IN) <= done.loaded
    assert not (node.root / "var/lib/gdr-toolkit/lock").is_symlink()


def test_the_sum_is_the_same_on_both_sides_whatever_the_node_says(node: Tree) -> None:
    process(node.root, 41, r"a\nb|= x", "/dev/infiniband/uverbs0")
    process(node.root, 42, "caf\udcc3\udca9 'x' $HOME `id` %s \\t", "/dev/nvidia0")
    put(node.root, "proc/self/mountinfo", "22 1 0:9 / /a\\040b rw - nfs4 s:/x rw,addr=10.0.0.5\n")
    assert parse_holding(node.look()).users
    assert reload(node).steps


def test_a_job_that_began_meanwhile_is_left_alone(node: Tree) -> None:
    before = node.look()
    process(node.root, 42, "python3", "/dev/infiniband/uverbs0")
    with pytest.raises(reach.ChangedUnderHand, match="has changed since") as found:
        reload(node, before)
    assert node.calls == []
    assert [each.name for each in parse_holding(found.value.look).users] == ["python3"]
    assert not (node.root / "var/lib/gdr-toolkit/lock").is_symlink()


def test_counts_of_other_modules_may_change(node: Tree) -> None:
    before = node.look()
    modules = node.root / "proc/modules"
    modules.write_text(modules.read_text().replace("nvme 9 1", "nvme 9 7"))
    assert len(reload(node, before).steps) == 6


def test_a_count_of_these_may_not(node: Tree) -> None:
    before = node.look()
    modules = node.root / "proc/modules"
    modules.write_text(modules.read_text().replace("nvidia_uvm 9 0", "nvidia_uvm 9 1"))
    with pytest.raises(reach.ChangedUnderHand):
        reload(node, before)
    assert node.calls == []


def test_what_went_comes_back_where_the_next_one_refuses(node: Tree) -> None:
    put(node.root, "refuses", "nvidia\n")
    done = reload(node)
    assert node.calls == [
        *("rmmod nvidia_peermem", "rmmod nvidia_uvm", "rmmod nvidia"),
        *("modprobe nvidia_uvm", "modprobe nvidia_peermem"),
    ]
    assert [str(step) for step in done.steps if not step.ok] == [
        "unload nvidia: failed: rmmod: ERROR: Module nvidia is in use"
    ]
    assert set(IN) <= done.loaded


def test_one_that_does_not_load_keeps_no_other_out(node: Tree) -> None:
    put(node.root, "fails", "nvidia_uvm\n")
    done = reload(node)
    assert [step.module for step in done.steps if not step.ok] == ["nvidia_uvm"]
    assert "nvidia_peermem" in done.loaded
    assert "nvidia_uvm" not in done.loaded


def test_another_run_keeps_us_out(node: Tree) -> None:
    state = node.root / "var/lib/gdr-toolkit"
    state.mkdir(parents=True)
    with subprocess.Popen(["sleep", "60"]) as other:
        began = Path(f"/proc/{other.pid}/stat").read_text().rpartition(") ")[2].split()[19]
        (state / "lock").symlink_to(f"{other.pid},{began},b,2026-01-01T00:00:00Z,alice 192.0.2.9")
        try:
            with pytest.raises(LockedError, match="started by alice"):
                reload(node)
        finally:
            other.kill()
    assert node.calls == []


def test_a_node_without_a_place_for_a_lock_is_left_alone_and_said_so(node: Tree) -> None:
    put(node.root, "var/lib", "no folder")
    with pytest.raises(ApplyError, match="cannot be written, so nobody can hold the node"):
        reload(node)
    assert node.calls == []


def test_a_script_cut_off_touches_nothing(node: Tree) -> None:
    text = reach.script(node.look(), OUT, IN)
    for cut in (len(text) - 2, len(text) - 5, len(text) - 40, len(text) // 2):
        say(node.shell, text[:cut], **node.variables())
        assert node.calls == []


def test_it_goes_on_to_its_end_without_its_controller(node: Tree) -> None:
    put(node.root, "stays", "nvidia_uvm\n")
    text = reach.script(node.look(), OUT, IN)
    with subprocess.Popen(
        [*node.shell, "-s"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=node.variables(),
        text=True,
    ) as run:
        assert run.stdin is not None
        assert run.stdout is not None
        run.stdin.write(text)
        run.stdin.close()
        _amid(node)
        run.stdout.close()
        put(node.root, "go", "")
        run.wait(60)
    assert len(node.calls) == 6
    assert set(IN) <= set(node.loaded)


def _amid(node: Tree) -> None:
    """Once the second module is on its way out, where it stays until it may go."""
    while "rmmod nvidia_uvm" not in node.calls:
        time.sleep(0.05)


def test_who_is_stopped_amid_the_work_puts_back_what_went(node: Tree) -> None:
    put(node.root, "stays", "nvidia_uvm\n")
    text = reach.script(node.look(), OUT, IN)
    with subprocess.Popen(
        [*node.shell, "-s"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env=node.variables(),
        text=True,
    ) as run:
        assert run.stdin is not None
        run.stdin.write(text)
        run.stdin.close()
        _amid(node)
        run.terminate()
        put(node.root, "go", "")
        assert run.wait(60) == 5
    assert "rmmod nvidia" not in node.calls
    assert set(IN) <= set(node.loaded)


def test_our_own_address_comes_back_by_hand_where_nobody_else_sees_to_it(node: Tree) -> None:
    put(node.root, "away", "")
    text = reach.script(node.look(), OUT, IN, ("ens1np0",), wait_s=0)
    done, _ = reach.carry_out(node, text.replace("BY_HAND_S=10", "BY_HAND_S=1"))
    told = (node.root / "ip-calls").read_text()
    assert "link set dev ens1np0 up\n" in told
    assert "addr replace 198.51.100.7/24 brd 198.51.100.255 dev ens1np0\n" in told
    assert "-4 route replace default via 198.51.100.1 proto static dev ens1np0\n" in told
    assert not done.rebooting
    assert "reboot" not in node.calls


def test_a_node_whose_address_stays_away_reboots(node: Tree) -> None:
    put(node.root, "away", "for good\n")
    text = reach.script(node.look(), OUT, IN, ("ens1np0",), wait_s=0).replace(
        "AWAY_S=60", "AWAY_S=1"
    )
    done, _ = reach.carry_out(node, text)
    assert done.rebooting
    while "systemctl reboot" not in node.calls:
        time.sleep(0.1)
    put(node.root, "proc/sys/kernel/random/boot_id", "another\n")  # lets its watcher go


def test_a_node_that_says_nothing_is_not_taken_for_done(node: Tree) -> None:
    class Dead(Tree):
        def run(self, script: str, *, limit_s: float = 60, sink: Sink = quiet) -> Result:
            return Result(137, "= begin ok gdr-toolkit/1\n= uid ok id -u\n|0\n", "")

    with pytest.raises(TransportError, match="broke off, with status 137"):
        reach.carry_out(Dead(node.root, node.shell), "")
