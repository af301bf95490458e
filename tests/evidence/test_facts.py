"""What the facts of the healthy node are, one by one; and what they are where nothing was given.

A check asks of a few fields of a fact; the rest stands in ``facts/healthy.txt``. What changes
there is read in review; to accept it, run these tests with GDR_ACCEPT=1 in the environment.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path

import pytest
from msgspec import Struct
from msgspec.structs import asdict, replace

from tests.evidence.build import node
from toolkit.errors import NoEvidence, NotCollected, Unparsable
from toolkit.evidence import Evidence, State
from toolkit.facts.fact import fact
from toolkit.facts.node.node import Node
from toolkit.facts.rdma.ethtool import EthtoolSaid

KEPT = Path(__file__).parent / "facts" / "healthy.txt"
LARGE = {"pci_config", "near_pairs", "tree_pairs", "pairs"}  # each holds whole functions of ``pci``
NAMES = sorted(
    {
        name
        for room in Node.__mro__
        for name, held in vars(room).items()
        if not name.startswith("_") and isinstance(held, fact | property)
    }
)


def shown(value: object) -> str:
    """As Python would write it; sets in order."""
    if isinstance(value, Struct):
        told = (f"{name}={shown(held)}" for name, held in asdict(value).items())
        return f"{type(value).__name__}({', '.join(told)})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{shown(key)}: {shown(held)}' for key, held in value.items())}}}"
    if isinstance(value, set | frozenset):
        return f"{{{', '.join(sorted(map(shown, value)))}}}"
    if isinstance(value, list | tuple):
        return f"({', '.join(map(shown, value))})"
    return f"{type(value).__name__}.{value.name}" if isinstance(value, Enum) else repr(value)


def lines(name: str, value: object) -> Iterator[str]:
    """One line, or those of each part of what is long."""
    whole = shown(value)
    if len(name) + len(whole) < 160:
        yield f"{name}: {whole}"
    elif isinstance(value, Struct):
        for each, held in asdict(value).items():
            yield from lines(f"{name}.{each}", held)
    elif isinstance(value, dict | list | tuple):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, held in items:
            yield from lines(f"{name}[{shown(key)}]", held)
    else:
        yield f"{name}: {whole}"


def told(evidence: Evidence) -> Iterator[str]:
    healthy = Node(evidence)
    for name in NAMES:
        if name in LARGE:
            continue
        try:
            yield from lines(name, getattr(healthy, name))
        except (NoEvidence, Unparsable) as why:
            yield f"{name}: not told: {why}"


def test_the_facts_of_the_healthy_node() -> None:
    text = "\n".join(told(node())) + "\n"
    if os.environ.get("GDR_ACCEPT") == "1":
        KEPT.write_text(text)
    assert text == KEPT.read_text()


# Here each line is read as it is: the probe wrote it, and it may end with a path, or a file did.
EXACT = {
    "acpi-bytes", "acpi-tables", "acs-units", "aer", "dkms-tree", "dmesg", "exports", "headers",
    "initramfs", "kernel-config", "kernel-configs", "kernels", "libraries", "limits",
    "modprobe-config", "modprobe-files", "module-state", "openibd-log", "openibd-state",
    "pci-links", "peermem-elf", "peermem-params", "perftest", "rdma-modinfo", "rebuild-hooks",
    "service-limits", "sources", "symvers", "tools", "trusted-keys", "verbs-libraries",
}  # fmt: skip
SYSFS = {"infiniband", "pci", "pci-links", "pci-resources"}  # there an address is a file's name
ADDRESS = re.compile(r"\b(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\b")


@pytest.mark.parametrize(
    ("exact", "change"),
    [
        pytest.param(EXACT, lambda text: text.replace("\n", " \t\n"), id="blanks-end-a-line"),
        pytest.param(
            SYSFS, lambda text: ADDRESS.sub(lambda found: found[0].upper(), text), id="upper-case"
        ),
    ],
)
def test_how_a_text_is_set_changes_no_fact(exact: set[str], change: Callable[[str], str]) -> None:
    whole = node()
    frames = {
        key: frame
        if key in exact or frame.state is not State.OK
        else replace(frame, text=change(frame.text))
        for key, frame in whole.frames.items()
    }
    assert frames != whole.frames
    assert list(told(Evidence(frames, whole.complete))) == list(told(whole))


# What holds where nothing was given; of all else the first frame that is missed is named.
NOTHING: dict[str, object] = {
    **dict.fromkeys(
        ("cross_matrix", "dcgmi_diag", "driver_pod", "earlier_ports", "fi_info", "gdrcopy_sanity",
         "gdscheck", "grub_default", "kube_gpus", "listed_devices", "lsmod", "make_log", "nccl_log",
         "peermem_said", "plugin_log", "rdma_topo", "registration", "said_config", "said_symbols",
         "shared_netns", "ucx_info", "ucx_run")
    ),
    **dict.fromkeys(
        ("companions_probed", "devinfo_given", "drivers_told", "given_kernel", "has_bios_text",
         "has_bmc", "has_dmi", "has_gpu_rows",
         "has_log", "has_nvlinks", "has_rdma", "is_guest", "knows_cmdline", "knows_cpu",
         "knows_images", "knows_pci", "knows_state", "no_driver", "nodes_listed", "openibd_given",
         "peermem_changed", "probed",
         "role_told", "tells_containers",
         "tells_rdma"),
        False,
    ),
    **dict.fromkeys(
        ("api_mismatch", "bmc_lockdown", "cuda_said", "hostname", "ucx_tcp",
         "lists_no_hca", "modprobe_said", "nodes_closed", "peermem_container"), ""
    ),
    **{name: {} for name in ("counted_ports", "fm_said", "left", "own_interfaces",
                             "qos_asked", "said_links", "said_qos", "said_signers", "services",
                             "ucx_ways", "unsupported_gpus")},
    **dict.fromkeys(("acs_said", "asked_containers", "bar1_alone", "cards",
                     "collective_runs", "cufile_said", "gdsio_runs", "namespaced",
                     "offered", "perftest_runs", "pod_list",
                     "said_firmware",
                     "said_limits", "said_pcie_links", "unstarted_gpus", "verbs_troubles"),
                    ()),
    "ethtool_said": EthtoolSaid(),
    "inside": None,
    "live": True,
    "loose": True,
    "nodes_whole": True,
    "lspci_differences": (),
    "not_inserted": (),
    "dark_devices": (),
    "tagged_modules": frozenset(),
}  # fmt: skip
FRAMES = {
    "inside/process": "inside_leader",
    "inside/shm": "inside_shm",
    "inside/rdma-open": "inside_uverbs",
    "inside/rdma-nodes": "inside_nodes",
    "inside/rdma-devices": "inside_rdma",
    "inside/gpu-nodes": "inside_gpus",
    "inside/providers": "inside_providers",
    "inside/environment": "inside_variables inside_drivers",
    "inside/mlx5-libraries": "inside_mlx5",
    "inside/cuda-libraries": "inside_cuda inside_stub",
    "inside/named-files": "inside_named",
    "acpi-bytes": "iommu_table",
    "acpi-tables": "acpi_tables",
    "acs-units": "acs_units",
    "aer": "aer",
    "all-modinfo": "kernel_modules",
    "arch": "arch",
    "bmc": "bmc",
    "bmc-bios": "bios bios_hidden bios_settings",
    "bmc-secureboot": "bmc_secure_boot",
    "bmc-system": "bmc_machine",
    "boot-default": "grubby_default",
    "boot-id": "boot_id",
    "boot-order": "starters unit_times",
    "boot-order-log": "peermem_inserted",
    "boot-trials": "trials",
    "cmdline": "acs_arguments cmdline trial",
    "companion-files": "companion_files",
    "companion-modinfo": "companion_modules gdrdrv_built_for",
    "containers": "containers",
    "cpu": "cpu",
    "cufile": "cufile",
    "daemons": "daemons",
    "dcgm": "dcgm_gpus",
    "dkms-confs": "dkms_packages driver_dkms driver_sources peermem_dkms",
    "dkms-failures": "build_failures",
    "dkms-fragments": "configured_certificate configured_key",
    "dkms-status": "dkms ofed_dkms",
    "dkms-tree": "autoinstall_off dkms_callers dkms_tree",
    "dkms-version": "dkms_version has_dkms",
    "dmesg": (
        "bus_errors dma_faults dmesg fallen_gpus hca_troubles iommu_log log_is_whole log_reaches "
        "log_since_boot refused_commands sxids uvm_troubles xids"
    ),
    "dmi": "dmi",
    "fabricmanager-version": "fabric_manager",
    "gcc-version": "gcc_major",
    "gdrcopy": "gdrdrv",
    "gds": "nvidia_fs",
    "grub-abstraction": "grub_disk",
    "grub-env": (
        "boot_entries boot_menu default_entry default_kernel grub_variables "
        "next_acs_arguments next_boot next_cmdline"
    ),
    "headers": "headers",
    "ibv-devinfo": "devinfo devinfo_failed devinfo_trouble",
    "imex-channels": "imex_channels",
    "infiniband": "hca_names hca_roles node_guids port_errors rdma_devices rdma_hardware "
    "said_devices",
    "initramfs": "has_initramfs initramfs",
    "initramfs-next": "initramfs_next",
    "iomem": "windows",
    "iommu-groups": "iommu_groups iommu_told",
    "iommu-units": "iommu_units",
    "kallsyms": "symbols",
    "kernel-config": "kernel_compiler kernel_config",
    "kernel-configs": "kernel_configs",
    "kernel-release": "exports kernel kernel_version",
    "kernels": "kernels",
    "legacy": "legacy_files",
    "libraries": "libraries",
    "limits": "memlock_files",
    "loader": "loader",
    "lockdown": "lockdown lockdown_hidden",
    "lspci": "lspci",
    "lspci-tree": "lspci_tree",
    "memory-peers": "memory_peers",
    "modprobe-config": "modprobe",
    "modprobe-files": "modprobe_files",
    "module-deps": "module_deps",
    "module-state": "module_state users",
    "modules": "modules",
    "modules-load": "modules_load",
    "mok-key": "own_key",
    "mokutil": "secure_boot",
    "nccl-topology": "nccl_topology",
    "net-devices": "net_devices",
    "numa-nodes": "numa_nodes",
    "nvidia-modinfo": "driver_file",
    "nvidia-params": "driver_params",
    "nvidia-smi": "has_nvidia_smi mismatched_library smi_said",
    "nvidia-smi-q": "bar1_sizes gpu_chips gpu_rows smi unified_memory smi_shown",
    "nvidia-topology": "has_nvidia_topology matrix nvlinked",
    "nvidia-version": "driver",
    "nvlink-status": "nvlinks",
    "ofed-container": "ofed_container",
    "ofed-info": "ofed",
    "ompi-info": "mpis",
    "openib-conf": "openib_conf",
    "openibd-log": "openibd_log",
    "openibd-state": "openibd",
    "os-release": "distro",
    "ours": "ours",
    "owned": "owned",
    "passport": "passport passport_text",
    "passport-files": "passport_hashes",
    "passport-loaded": "passport_loaded",
    "passport-since": "passport_since",
    "passport-verified": "passport_verified",
    "pci": "coherent_gpus compute_hcas hcas near_pairs nvswitches pairs pci pci_config platform "
    "tree_pairs",
    "openibd-said": "openibd_said",
    "pci-resources": "regions",
    "peermem-modinfo": "peermem_files",
    "peermem-params": "peermem_params",
    "peermem-resolve": "peermem_chosen peermem_image",
    "pending": "pending",
    "perftest": "perftest",
    "placed": "placed",
    "rdma-gids": "gids pkeys",
    "rdma-modinfo": "rdma_files",
    "rdma-nodes": "no_uverbs rdma_nodes",
    "reboot-required": "reboot_required",
    "rebuild-hooks": "can_rebuild rebuild_hooks",
    "roce-ecn": "roce_ecn",
    "selinux": "selinux",
    "selinux-denials": "rdma_denials",
    "service-limits": "service_limits",
    "setpci": "has_setpci",
    "settings of NCCL, UCX and NVSHMEM": "settings",
    "setup": "setup",
    "sig-enforce": "signatures_demanded",
    "signing-files": "key_files",
    "sources": "ofed_folders ofed_sources",
    "symvers": "symbol_versions symvers",
    "tainted": "let_unsigned_in",
    "tools": "tools",
    "trusted-keys": "keys",
    "ucx-info": "ucx",
    "uid": "root",
    "unsupported-modules": "unsupported_gate",
    "verbs-libraries": "verbs",
    "virt": "container virtualization",
}


@pytest.mark.parametrize("name", NAMES)
def test_a_fact_that_was_not_given_says_which_frame_it_lacks(name: str) -> None:
    bare = Node(Evidence({}, complete=True))
    if name in NOTHING:
        assert getattr(bare, name) == NOTHING[name]
        return
    with pytest.raises(NotCollected) as missed:
        getattr(bare, name)
    frame = next(key for key, names in FRAMES.items() if name in names.split())
    assert str(missed.value) == f"{frame}: not part of this evidence"
