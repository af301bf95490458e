"""The same properties, asked in other words.

Doctor and test_node share one probe and one set of parsers, hence one set of bugs. Here
testinfra asks the node itself; where the two disagree, the probe or a parser is wrong.
"""

from __future__ import annotations

import pytest
from testinfra.host import Host

from toolkit.facts.node.node import Node


@pytest.fixture(scope="session")
def prefix(host: Host) -> str:
    """Where the node's own tree begins: "" but on simulated nodes."""
    return str(host.check_output('printf %s "$GDR_ROOT"'))


def _word(host: Host, path: str) -> str:
    return str(host.file(path).content_string).strip()


def test_the_running_kernel(host: Host, node: Node, prefix: str) -> None:
    assert node.kernel == _word(host, f"{prefix}/proc/sys/kernel/osrelease")


def test_the_boot_id(host: Host, node: Node, prefix: str) -> None:
    assert node.boot_id == _word(host, f"{prefix}/proc/sys/kernel/random/boot_id")


def test_the_boot_parameters(host: Host, node: Node, prefix: str) -> None:
    words = _word(host, f"{prefix}/proc/cmdline").split()
    iommu = [word.removeprefix("iommu=") for word in words if word.startswith("iommu=")]
    assert node.cmdline["iommu"] == (iommu[-1] if iommu else "")


def test_the_distribution(host: Host, node: Node, prefix: str) -> None:
    found = host.run("grep ^ID= %s", f"{prefix}/etc/os-release").stdout
    assert node.distro.id == found.strip().partition("=")[2].strip("\"'").lower()


def test_the_loaded_modules(host: Host, node: Node, prefix: str) -> None:
    listed = host.run("cut -d' ' -f1 %s", f"{prefix}/proc/modules").stdout.split()
    assert sorted(node.modules) == sorted(listed)


def test_whether_peermem_is_loaded(host: Host, node: Node, prefix: str) -> None:
    # /sys/module also holds what is built in; the list holds only what was loaded.
    in_list = host.run("grep -q '^nvidia_peermem ' %s", f"{prefix}/proc/modules").rc == 0
    assert ("nvidia_peermem" in node.module_state) == in_list


def test_the_number_of_pci_functions(host: Host, node: Node, prefix: str) -> None:
    counted = host.check_output("ls %s | wc -l", f"{prefix}/sys/bus/pci/devices")
    assert len(node.pci.functions) == int(counted)


def test_the_rdma_devices(host: Host, node: Node, prefix: str) -> None:
    listed = host.run("ls %s", f"{prefix}/sys/class/infiniband").stdout.split()
    assert sorted(device.name for device in node.rdma_devices) == sorted(listed)


def test_the_gpus_by_their_class(host: Host, node: Node, prefix: str) -> None:
    # The vendor of every display controller, by a loop in place of our parser.
    found = host.check_output(
        "for d in %s/*; do read -r c <$d/class; read -r v <$d/vendor; "
        'case "$c $v" in 0x03*" 0x10de") echo $d; esac; done | wc -l',
        f"{prefix}/sys/bus/pci/devices",
    )
    # What the kernel has kept of a GPU that fell off the bus is there until the next boot.
    assert sum(each.was_gpu for each in node.pci.functions.values()) == int(found)
