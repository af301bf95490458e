"""Evidence of images: what the probe reads of a tree that does not run."""

from __future__ import annotations

from tests.evidence.build import KERNEL, kernel_block, node
from tests.evidence.frames import ABSENT, Bad, Override
from tests.unit.judged import TODAY
from toolkit.evidence import Evidence, State
from toolkit.plan.artefact import Trigger
from toolkit.plan.change import Change
from toolkit.verbs.plan import Planned, plan_node
from toolkit.want import Want

# Kept by the running kernel, or told by commands that ask it.
OF_A_RUN = (
    *("boot-id", "hostname", "cpu", "dmi", "acpi-tables", "cmdline", "lockdown", "modules"),
    *("module-state", "nvidia-version", "nvidia-params", "kallsyms", "infiniband", "rdma-nodes"),
    *("pci", "pci-links", "pci-resources", "pci-config", "iommu-groups", "iommu-units", "setpci"),
    *("numa-nodes", "aer", "default-routes", "ssh-interface", "limits-now", "peermem-params"),
    *("sig-enforce", "tainted", "trusted-keys", "efi-secureboot", "mokutil", "mok-key"),
    *("openibd-state", "openibd-log", "openibd", "dmesg", "nvidia-smi", "nvidia-topology"),
    *("nvidia-smi-q", "net-devices", "daemons", "virt", "memory-peers", "setup", "acpi-bytes"),
)
IMAGE: dict[str, Override] = dict.fromkeys(OF_A_RUN, ABSENT)
NOT_BUILT: dict[str, Override] = {
    "kernels": kernel_block(KERNEL, peermem=False),
    "peermem-files": "",
    "peermem-modinfo": "",
    "peermem-elf": "",
    "peermem-resolve": Bad(State.FAILED, 1),
    "rebuild-hooks": "",
}


def image(frames: dict[str, Override] | None = None) -> Evidence:
    """Evidence of an image that has all that the healthy node has on its disk, but ``frames``."""
    return node({**IMAGE, **(frames or {})})


def planned(frames: dict[str, Override] | None = None, want: Want | None = None) -> Planned:
    return plan_node("image", image(frames), want or Want(), TODAY)


def change(found: Planned, artefact: str) -> Change:
    [one] = [each for each in found.plan.changes if each.artefact == artefact]
    return one


LIVE_WORK = {
    Trigger.RELOAD_MODULES,
    Trigger.DAEMON_RELOAD,
    Trigger.START_UNITS,
    Trigger.REBOOT,
}
