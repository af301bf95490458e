"""Which checks tell of one property on disk, and which of it in effect."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from toolkit.facts.node.node import Node


def on_disk_build(node: Node) -> str:
    """Version and source of the nvidia-peermem that the next load takes; "" for none."""
    chosen = node.peermem_chosen
    return _build(chosen.version, chosen.srcversion) if chosen else ""


def loaded_build(node: Node) -> str:
    """The same of the one that is loaded."""
    state = node.module_state.get("nvidia_peermem")
    return _build(state.version, state.srcversion) if state else ""


def _build(version: str, srcversion: str) -> str:
    return " ".join(filter(None, (version, srcversion and f"srcversion {srcversion}")))


def nothing_more(_node: Node) -> str:
    """For properties of which the check has said it all."""
    return ""


Describe = Callable[[Node], str]


@dataclass(frozen=True, slots=True)
class Property:
    """One property, and the ids of the checks that judge its columns."""

    name: str
    wanted: str
    on_disk: tuple[str, ...] = ()
    in_effect: tuple[str, ...] = ()
    disk_says: Describe = nothing_more  # in place of what passing checks say
    effect_says: Describe = nothing_more


PROPERTIES = (
    Property("driver", "one version everywhere", in_effect=("nvidia.version",)),
    Property(
        "nvidia-peermem",
        "whole, and loaded as on disk",
        ("peermem.file", "peermem.stub", "peermem.vermagic", "peermem.crc", "peermem.loadable"),
        ("peermem.loaded", "peermem.bound", "peermem.loaded_vs_disk"),
        on_disk_build,
        loaded_build,
    ),
    Property("nvidia-peermem at boot", "loaded at boot", ("peermem.autoload",)),
    Property("nvidia-peermem rebuilt", "after each update", ("peermem.rebuild",)),
    Property(
        "RDMA modules",
        "one stack, loaded as on disk",
        ("ofed.kernel_match", "ofed.headers_link"),
        ("modules.origin",),
    ),
    Property("initramfs", "no inbox RDMA beside OFED", ("kernel.initrd_rdma",)),
    Property("openibd", "can restart", in_effect=("ofed.openibd",)),
    Property(
        "IOMMU domains of HCAs", "identity, or no IOMMU", ("iommu.boot",), ("iommu.passthrough",)
    ),
    Property(
        "ACS on GPU-HCA paths",
        "as platform and role want it",
        ("acs.persistence",),
        ("acs.redirect", "acs.mask"),
    ),
    Property("kernel arguments", "none that misleads", in_effect=("iommu.cmdline",)),
    Property("locked memory", "unlimited", ("rdma.memlock",), ("rdma.memlock_now",)),
    Property("the site's key", "trusted", ("secureboot.site_key",)),
)
