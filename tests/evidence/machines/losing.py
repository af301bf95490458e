"""A machine that has lost a device, or whose kernel tells of trouble: nothing else is changed."""

from __future__ import annotations

import re

from msgspec.structs import replace

from toolkit.evidence import Evidence, State
from toolkit.facts.node.node import Node

_PCI = ("pci", "pci-links", "pci-resources")
_RDMA = ("infiniband", "rdma-gids")


def devices(evidence: Evidence) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The addresses of its GPUs, and of its HCAs."""
    node = Node(evidence)
    gpus = tuple(each.address for each in node.pci.gpus)
    return gpus, tuple(each.address for each in node.hcas)


def without(evidence: Evidence, address: str) -> Evidence:
    """Off the bus, as after a reboot: neither the kernel nor a tool knows of the device."""
    bus = address.split(":", 1)[1]
    name = Node(evidence).hca_names.get(address)
    return _changed(
        evidence,
        {
            **{key: rf"{re.escape(address)}(?:/| ).*\n" for key in _PCI},
            "pci-config": rf"@{re.escape(address)}\n(?:[^@].*\n)*",
            "nvidia-smi": rf"[0-9A-F]+:{bus},.*\n",
            "nvidia-smi-q": rf"GPU [0-9A-F]+:{bus}\n(?: .*\n)*",
            **{key: rf"{name}/.*\n" for key in _RDMA if name},
        },
    )


def without_port(evidence: Evidence, name: str) -> Evidence:
    """The device is there, the port of it is not: its driver has not brought it up."""
    return _changed(evidence, dict.fromkeys(_RDMA, rf"{name}/ports/.*\n"))


def _changed(evidence: Evidence, gone: dict[str, str]) -> Evidence:
    frames = dict(evidence.frames)
    for key, lines in gone.items():
        if key in frames:
            text = re.sub(f"(?mi)^{lines}", "", frames[key].text)
            frames[key] = replace(frames[key], text=text)
    return Evidence(frames, evidence.complete)


def logged(evidence: Evidence, *lines: str) -> Evidence:
    """The kernel has said these lines too, last of all."""
    log = evidence.frames["dmesg"]
    text = log.text + "".join(f"[ 9123.111111] {line}\n" for line in lines)
    dmesg = replace(log, state=State.OK, text=text)
    return Evidence({**evidence.frames, "dmesg": dmesg}, evidence.complete)


def counters(evidence: Evidence, *lines: str) -> Evidence:
    """The counters of AER that are not zero are these too."""
    totals = evidence.frames["aer"]
    text = totals.text + "".join(f"{line}\n" for line in lines)
    return Evidence({**evidence.frames, "aer": replace(totals, text=text)}, evidence.complete)
