"""The same bundles by Ansible, over real sshd, on nodes without Python.

A twin of each node is provisioned by ourselves: what Ansible leaves has to be the same, hash by
hash.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.fleet.ansible import Ansible, prepared, without_python
from tests.fleet.nodes import ROOT, Digest, Nodes, served
from tests.fleet.sshd import Keys
from toolkit.features.ansible.io import aliases, inventory
from toolkit.hosts.host import Host

pytestmark = pytest.mark.sshd
LONG = True

NAMES = ("demo-healthy", "demo-iommu", "demo-rocky", "demo-stub")
BUSY = set(NAMES[1:])  # those that have something to do
AT_ONCE = {"batches": "100%"}
JUDGED = {"gdr": f"env PYTHONPATH={ROOT} {sys.executable} -m toolkit.cli"}


@dataclass(frozen=True, slots=True)
class Site:
    """Nodes that Ansible works on, and their twins."""

    nodes: Nodes
    twins: Nodes
    ansible: Ansible
    first: dict[str, Digest]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, keys: Keys) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("ansible")
    path = without_python(folder / "commands")
    with ExitStack() as stack:
        nodes = stack.enter_context(served(folder / "a", NAMES, keys, system_path=path))
        twins = stack.enter_context(served(folder / "b", NAMES, keys))
        first = nodes.digest()
        assert first == twins.digest(), "the twins are not alike"
        yield Site(nodes, twins, prepared(nodes, "first"), first)


def test_a_node_without_python_is_no_node_for_ansibles_own_modules(site: Site) -> None:
    """Guards the test below: were there a Python, it would show nothing."""
    asked = site.ansible.run(
        *("ansible", "demo-stub", "-i", str(site.ansible.site / "inventory.yml")),
        *("-m", "ansible.builtin.ping"),
    )
    assert asked.exit != 0
    assert "/nowhere/python" in asked.text
    found = site.ansible.run(
        *("ansible", "demo-stub", "-i", str(site.ansible.site / "inventory.yml")),
        *("-m", "ansible.builtin.raw", "-a", "command -v python3 python || echo none"),
    )
    assert "\nnone\n" in found.text


def test_look_change_prove_and_take_back(site: Site) -> None:
    ansible, nodes = site.ansible, site.nodes

    looked = ansible.play("provision", "--check", "--diff", **AT_ONCE)
    assert looked.exit == 0, looked.text
    assert looked.changed == dict.fromkeys(BUSY, 1), looked.text
    assert "+++ b/etc/modules-load.d/gdr-toolkit.conf" in looked.text
    assert "place /etc/modules-load.d/gdr-toolkit.conf" in looked.text
    assert nodes.digest() == site.first, "--check changed something"

    done = ansible.play("provision", **AT_ONCE, reboot="true", share=str(len(BUSY)))
    assert done.exit == 0, done.text
    assert {host for host, count in done.changed.items() if count} == BUSY
    nodes.wait_for_boots()
    by_us = site.twins.run("provision", "--yes", "--reboot", "--boot-without-trial")
    assert by_us.returncode == 0, by_us.stdout + by_us.stderr
    site.twins.wait_for_boots()
    healed = nodes.digest()
    for name, twin in site.twins.digest().items():
        assert healed[name] == twin, f"{name} is not as its twin"
        assert (healed[name] != site.first[name]) == (name in BUSY)

    again = ansible.play("provision", **AT_ONCE, reboot="true")
    assert (again.exit, again.changed) == (0, dict.fromkeys(BUSY, 0)), again.text
    assert nodes.digest() == healed, "a second run found something to do"

    proved = ansible.play("verify", **JUDGED)
    assert (proved.exit, proved.changed) == (0, dict.fromkeys(NAMES, 0)), proved.text
    assert proved.text.count(": every check is content") == len(NAMES)
    assert {file.stem for file in (ansible.site / "evidence").iterdir()} == set(NAMES)

    back = ansible.play("rollback", **AT_ONCE, reboot="true")
    assert back.exit == 0, back.text
    nodes.wait_for_boots()
    last = nodes.digest()
    for name in NAMES:
        assert last[name] == site.first[name], f"{name} is not byte for byte what it was"
    nothing = ansible.play("rollback", **AT_ONCE)
    assert (nothing.exit, nothing.changed) == (0, dict.fromkeys(BUSY, 0)), nothing.text


# --- one that fails ---------------------------------------------------------------------------

CANARY, REST = "demo-iommu", {"demo-rocky", "demo-stub"}
LIMITS = "etc/security/limits.d/gdr-toolkit.conf"  # the canary's bundle places it


@pytest.fixture(scope="module")
def planned(site: Site) -> Ansible:
    """Planned anew, for what nodes are now."""
    return prepared(site.nodes, "second")


@contextmanager
def stale(site: Site) -> Iterator[str]:
    """Other hands have been at the canary since the plan was made."""
    file = site.nodes.tree(CANARY) / LIMITS
    there = file.parent.is_dir()
    file.parent.mkdir(exist_ok=True)
    file.write_text("of other hands\n")
    yield f"{CANARY}: /{LIMITS} is not as it was when the plan was made"
    file.unlink()
    if not there:
        file.parent.rmdir()


@contextmanager
def held(site: Site) -> Iterator[str]:
    """Another run, this very process, holds the canary."""
    tree = site.nodes.tree(CANARY)
    boot = (tree / "proc/sys/kernel/random/boot_id").read_text().strip()
    began = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    lock = tree / "var/lib/gdr-toolkit/lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.symlink_to(f"{os.getpid()},{began},{boot},2026-11-22T10:00:00Z,op 192.0.2.1")
    yield f"{CANARY}: held since 2026-11-22T10:00:00Z by process {os.getpid()}, started by op"
    lock.unlink()


@contextmanager
def away(site: Site) -> Iterator[str]:
    """Nobody answers at the canary's address."""
    server = site.nodes.servers[CANARY]
    server.stop()
    yield f"{CANARY}: out of reach: "
    server.launch()
    server.await_start()


@pytest.mark.parametrize("trouble", [stale, held, away])
def test_a_canary_that_fails_stops_the_rest(
    site: Site, planned: Ansible, trouble: Callable[[Site], AbstractContextManager[str]]
) -> None:
    with trouble(site) as sentence:
        before = site.nodes.digest()
        done = planned.play("provision", batches="1,100%", wait_s="0")
        assert done.exit != 0
        assert done.failed == {CANARY} == set(done.changed), done.text
        assert f'"msg": "{sentence}' in done.text, done.text
        assert site.nodes.digest() == before


def test_a_batch_that_is_larger_than_its_share_of_the_budget_is_not_begun(
    site: Site, planned: Ansible
) -> None:
    before = site.nodes.digest()
    done = planned.play("provision", **AT_ONCE, share="2")
    assert done.failed, done.text
    assert "3 hosts in a batch and 0 failed are more than -e share=2" in done.text
    assert site.nodes.digest() == before


def test_a_share_of_failures_that_was_allowed_lets_the_rest_go_on(
    site: Site, planned: Ansible
) -> None:
    with stale(site):
        looked = planned.play("provision", "--check", batches="2,100%", max_fail="50")
        strict = planned.play("provision", "--check", batches="2,100%")
    assert looked.failed == strict.failed == {CANARY}
    assert looked.changed == {CANARY: 0, **dict.fromkeys(REST, 1)}, looked.text
    assert strict.changed == {CANARY: 0, "demo-rocky": 1}, strict.text


def test_verify_fails_where_a_bundle_was_not_carried_out(site: Site, planned: Ansible) -> None:
    foreign = site.nodes.tree("demo-healthy") / "etc/modprobe.d/foreign.conf"
    foreign.write_bytes(b"# na\xefve\r\n")
    proved = planned.play("verify", "--limit", "demo-stub,demo-healthy")
    assert proved.failed == {"demo-stub"}
    assert "demo-stub: its bundle was not carried out" in proved.text
    assert "demo-healthy: its evidence is whole, and was not judged" in proved.text
    foreign.unlink()
    kept = (planned.site / "evidence/demo-healthy.evidence").read_bytes()
    assert b"# na\xefve\r\n" in kept, "evidence is to be kept word for word"


# --- the site's own tasks ----------------------------------------------------------------------

HOOK = """\
- ansible.builtin.shell: echo {name} {{{{ inventory_hostname }}}} >> "{{{{ folder }}}}/log"
  delegate_to: localhost
  become: false
- ansible.builtin.fail:
    msg: not this one
  when: inventory_hostname == "demo-stub"
"""


def test_the_sites_own_tasks_come_before_and_after_and_may_keep_a_host(
    site: Site, tmp_path: Path
) -> None:
    own = tmp_path / "own/playbooks"
    own.mkdir(parents=True)
    for name in ("before", "after"):
        (own / f"{name}.yml").write_text(HOOK.format(name=name))
    hooked = prepared(site.nodes, "hooked", "--site", str(own.parent))
    before, words = site.nodes.digest(), ("--limit", "demo-stub,demo-rocky")
    looked = hooked.play("provision", "--check", *words, **AT_ONCE)
    assert (looked.exit, (hooked.site / "log").exists()) == (0, False), looked.text
    done = hooked.play("provision", *words, **AT_ONCE, reboot="true", max_fail="50")
    assert done.failed == {"demo-stub"}, done.text
    log = sorted((hooked.site / "log").read_text().split("\n"))
    assert log == ["", "after demo-rocky", "before demo-rocky", "before demo-stub"]
    site.nodes.wait_for_boots()
    after = site.nodes.digest()
    assert after["demo-stub"] == before["demo-stub"]
    assert after["demo-rocky"] != before["demo-rocky"]
    assert hooked.play("rollback", "--limit", "demo-rocky", **AT_ONCE, reboot="true").exit == 0
    site.nodes.wait_for_boots()


# --- the plays themselves ----------------------------------------------------------------------


def test_ansible_reads_of_the_inventory_what_was_meant(site: Site, tmp_path: Path) -> None:
    names = ("root@gpu1:2222", "::1", "localhost", "no", "0x10", "a b", "all", "gpu[1:3]")
    hosts = [Host(name, address="192.0.2.1", jump="op@gate:22") for name in names]
    named = aliases(names)
    (tmp_path / "hosts.yml").write_text(inventory(hosts, named))
    words = ("ansible-inventory", "-i", str(tmp_path / "hosts.yml"), "--list")
    asked = site.ansible.run(*words)
    read = json.loads(asked.text[asked.text.index("{") :])["_meta"]["hostvars"]
    assert {values["gdr_name"]: name for name, values in read.items()} == named
    assert {values["ansible_host"] for values in read.values()} == {"192.0.2.1"}
    assert all("ProxyJump=op@gate:22" in v["ansible_ssh_common_args"] for v in read.values())


def test_the_plays_are_clean(site: Site, tmp_path: Path) -> None:
    """The linter finds fault with a bad play alone, and each of ours is one to Ansible."""
    plays = tmp_path / "playbooks"
    shutil.copytree(ROOT / "playbooks", plays, ignore=shutil.ignore_patterns("__pycache__"))
    bad = tmp_path / "bad.yml"
    bad.write_text("- hosts: all\n  tasks:\n    - shell: echo {{ nothing }}\n")
    lint = ("ansible-lint", "--offline", "--profile", "production", "-qq", "-f", "pep8")
    said = site.ansible.run(*lint, str(plays), str(bad)).text
    assert "bad.yml:" in said, f"the linter sees nothing: {said}"
    assert not [line for line in said.splitlines() if "bad.yml:" not in line], said
    names = [str(play) for play in sorted(plays.glob("*.yml"))]
    listed = site.ansible.run("ansible-playbook", "--syntax-check", *names)
    assert listed.exit == 0, listed.text
    assert [listed.text.count(f"playbook: {name}") for name in names] == [1] * len(names)
