"""Every row of the tables over checks: ``ROWS`` of each ``test_checks_*`` in this folder."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from tests.evidence.judging import Row

FRAMEWORK = "test_checks_framework"  # holds what is true of all of them, and no rows


def by_file() -> dict[str, list[Row]]:
    """The rows of each file that has some, in the order of the files' names."""
    names = sorted(path.stem for path in Path(__file__).parent.glob("test_checks_*.py"))
    modules = {name: import_module(f"tests.checks.{name}") for name in names if name != FRAMEWORK}
    found = {name: list(getattr(module, "ROWS", ())) for name, module in modules.items()}
    return {name: rows for name, rows in found.items() if rows}


ROWS = [row for rows in by_file().values() for row in rows]

# Checks that have nothing of their own to be let off by: they are n/a by the rules of all checks
# alone (no GPU, an image, a role), which test_checks_framework holds. Why, in a sentence.
ASKED_OF_ALL = {
    "host.virt": "each node is bare metal, a host of guests or a guest",
    "kernel.version": "each node has a kernel",
    "kernel.lockdown": "a kernel without lockdown is one that is not locked down",
    "kernel.config.modsig": "each kernel demands signatures or does not",
    "secureboot.state": "a node without UEFI has no Secure Boot, which is the pass",
    "dmabuf.gpu": "each driver can export dma-buf or cannot",
    "peermem.unknown_symbol": "a log without the message is the pass",
    "modules.blacklist": "a node without a blacklist is the pass",
    "ofed.flavor": "the kernel's own stack is a flavour too",
    "iommu.cmdline": "each kernel has a command line",
    "pcie.hostbridge": "a log without a refusal is the pass",
    "bios.iommu": "each machine's firmware has it on or off",
    "bios.dma_protection": "each machine's firmware has it on or off",
    "bios.relaxed_ordering": "each PCI Express function has the bit",
    "bios.ten_bit_tag": "a device that cannot answer them is the pass",
    "bios.aspm": "each link has it on or off",
    "bios.link_speed": "each link has a target",
    "bios.numa_clustering": "each machine has at least one NUMA node for a socket",
    "bios.c_states": "each processor idles in some way",
    "bios.secure_boot": "each machine's firmware has it on or off",
    "nccl.env": "no variable that is in the way is the pass",
}
