"""The main job over real sshd: look, change, prove, take back."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.nodes import Nodes, served
from tests.fleet.sshd import Keys
from toolkit.errors import ExitCode

pytestmark = pytest.mark.sshd
LONG = True

HEALABLE = (
    "demo-healthy",
    "demo-iommu",
    "demo-stub",
    "demo-kernel",
    "demo-rocky",
    "demo-initramfs",
    "demo-acs",
)


# How each is healed does not hang on what carries the scripts: by the second transport go a node
# with nothing to do, one that boots and one that builds.
BY_OPENSSH = ("demo-healthy", "demo-iommu", "demo-stub")


@pytest.fixture
def names() -> tuple[str, ...]:
    """Of the smaller tests, none asks more."""
    return ("demo-iommu",)


@pytest.fixture
def nodes(tmp_path: Path, keys: Keys, names: tuple[str, ...]) -> Iterator[Nodes]:
    with served(tmp_path, names, keys) as made:
        yield made


def document(text: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def states(text: str) -> dict[str, str]:
    return {host["name"]: host["state"] for host in document(text)["hosts"]}


@pytest.mark.parametrize(
    ("transport", "names"),
    [
        pytest.param("paramiko", HEALABLE, id="paramiko"),
        pytest.param("openssh", BY_OPENSSH, id="openssh"),
    ],
)
def test_look_change_prove_and_take_back(
    nodes: Nodes, transport: str, names: tuple[str, ...]
) -> None:
    first = nodes.digest()

    looked = nodes.run("doctor", "--json", transport=transport)
    assert looked.returncode == ExitCode.FAILED, looked.stderr
    assert states(looked.stdout)["demo-healthy"] == "ready"
    assert states(looked.stdout)["demo-stub"] == "broken"
    assert nodes.digest() == first, "doctor changed something"

    checked = nodes.run("provision", "--check", transport=transport)
    assert checked.returncode == ExitCode.PENDING, checked.stdout + checked.stderr
    assert nodes.digest() == first, "--check changed something"

    changed = nodes.run("provision", "--yes", "--reboot", "--json", transport=transport)
    assert changed.returncode == ExitCode.OK, changed.stdout + changed.stderr
    assert set(states(changed.stdout).values()) == {"ready"}
    rebooted = {h["name"] for h in document(changed.stdout)["hosts"] if h["rebooted"]}
    assert {"demo-iommu", "demo-rocky", "demo-initramfs", "demo-acs"} & set(names) <= rebooted
    assert "demo-iommu" in rebooted
    assert "demo-healthy" not in rebooted
    healed = nodes.digest()

    proved = nodes.run("verify", transport=transport)
    assert proved.returncode == ExitCode.OK, proved.stdout + proved.stderr

    again = nodes.run("provision", "--check", transport=transport)
    assert again.returncode == ExitCode.OK, again.stdout + again.stderr
    second = nodes.run("provision", "--yes", "--reboot", transport=transport)
    assert second.returncode == ExitCode.OK
    assert nodes.digest() == healed, "a second provision found something to do"

    undone = nodes.run("rollback", "--yes", "--reboot", "--run", "all", transport=transport)
    assert undone.returncode == ExitCode.OK, undone.stdout + undone.stderr
    last = nodes.digest()
    for name in nodes.names:
        assert last[name] == first[name], f"{name} is not byte for byte what it was"


def test_a_node_is_not_rebooted_unless_it_was_said(nodes: Nodes) -> None:
    boot_id = nodes.tree("demo-iommu") / "proc/sys/kernel/random/boot_id"
    before = boot_id.read_text()
    ended = nodes.run("provision", "--yes", "--limit", "demo-iommu")
    assert ended.returncode == ExitCode.FAILED, ended.stdout + ended.stderr
    assert "owes a reboot" in ended.stdout
    assert boot_id.read_text() == before


def test_nobody_to_ask_means_nothing_is_changed(nodes: Nodes) -> None:
    before = nodes.digest()
    ended = nodes.run("provision")
    assert ended.returncode == ExitCode.USAGE
    assert "--yes" in ended.stderr
    assert nodes.digest() == before


def test_a_node_that_trusts_a_key_takes_its_bundles_alone(nodes: Nodes) -> None:
    tree, key = nodes.tree("demo-iommu"), nodes.folder / "bundles"
    words = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(key))
    subprocess.run(words, check=True)
    signers = tree / "etc/gdr-toolkit/allowed_signers"
    signers.parent.mkdir()
    signers.write_text(f"gdr-toolkit {key.with_suffix('.pub').read_text()}")
    (tree.parent / "bin/ssh-keygen").symlink_to(shutil.which("ssh-keygen") or "")
    site = nodes.folder / "site.toml"
    site.write_text(f'[bundles]\nsign_key = "{key}"\n')
    before, call = nodes.digest(), ("provision", "--yes", "--limit", "demo-iommu")
    ended = nodes.run(*call)
    assert ended.returncode == ExitCode.STOPPED, ended.stdout + ended.stderr
    assert "the bundle is not signed, and the node takes only signed ones" in ended.stdout
    assert nodes.digest() == before
    ended = nodes.run(*call, "--site", str(site))
    assert ended.returncode == ExitCode.FAILED, ended.stdout + ended.stderr
    assert "owes a reboot" in ended.stdout
    assert nodes.digest() != before
