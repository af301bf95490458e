"""Every check, in the order in which a report tells of them: causes before effects."""

from __future__ import annotations

import copyreg
from collections.abc import Sequence
from difflib import get_close_matches

from toolkit.checks import expected, host, image, inventory, measured
from toolkit.checks.check import Check
from toolkit.checks.consumers import consumers, containers, nccl_log, path, unused
from toolkit.checks.firmware import bios_cpu, bios_iommu, bios_link, bios_memory
from toolkit.checks.gpu import accelerator_stack, driver, gds, gpu, health, health_smi, nvlink
from toolkit.checks.kernel import boot_arguments, builds, dkms, kernel, rebuilding, secureboot
from toolkit.checks.modules import loading, modules, ofed, peermem
from toolkit.checks.pci import acs, ats, bar, iommu, link, pcie, pcie_caps, platform
from toolkit.checks.rdma import hca, health_hca, rdma, registration, roce
from toolkit.errors import UsageError
from toolkit.want import Selection

ALL: tuple[Check, ...] = (
    host.virt,
    image.passport,
    health.lost,
    health.xid,
    health.sxid,
    health_smi.reset,
    health_smi.ecc,
    health_hca.hca_health,
    health_hca.port_errors,
    link.fatal,
    *expected.EXPECTED,
    kernel.version,
    kernel.headers,
    builds.compiler,
    builds.preempt_rt,
    dkms.present,
    dkms.state,
    dkms.owner_conflict,
    dkms.last_failure,
    kernel.pending_reboot,
    kernel.config_dmabuf,
    kernel.config_infiniband,
    builds.config_p2pdma,
    kernel.lockdown,
    secureboot.modsig,
    secureboot.state,
    secureboot.mok,
    secureboot.site_key,
    secureboot.unsupported_gate,
    secureboot.signed,
    driver.present,
    health_smi.nvml,
    driver.version,
    driver.flavor,
    driver.params,
    inventory.gpu_count,
    gpu.gpu_class,
    gpu.persistence,
    gpu.mig_vgpu,
    inventory.nvswitches,
    health_smi.throttle,
    gpu.confidential,
    nvlink.fabricmanager,
    nvlink.fabric_state,
    nvlink.links,
    nvlink.imex,
    path.selected,
    modules.other,
    path.cuda_attrs,
    path.dmabuf_gpu,
    path.dmabuf_nic,
    registration.by_dmabuf,
    path.peer_symbol,
    peermem.file,
    peermem.stub,
    loading.vermagic,
    loading.crc,
    loading.provider,
    loading.loadable,
    loading.unknown_symbol,
    peermem.loaded,
    peermem.bound,
    registration.by_peermem,
    loading.params,
    peermem.loaded_vs_disk,
    peermem.autoload,
    modules.order,
    peermem.legacy_conflict,
    rebuilding.rebuild,
    modules.blacklist,
    modules.origin,
    ofed.flavor,
    ofed.hca,
    ofed.kernel_match,
    ofed.headers_link,
    ofed.openibd,
    modules.dummies,
    builds.initrd_rdma,
    inventory.hca_count,
    rdma.devices,
    rdma.port,
    hca.rate,
    hca.firmware,
    roce.gid,
    roce.mtu,
    roce.qos,
    registration.refused,
    rdma.memlock,
    hca.memlock_now,
    hca.selinux,
    boot_arguments.cmdline,
    iommu.state,
    platform.smmu,
    iommu.passthrough,
    iommu.faults,
    iommu.boot,
    acs.redirect,
    acs.mask,
    acs.persistence,
    ats.nic,
    ats.sriov,
    platform.topo_gate,
    platform.topo_override,
    platform.datadirect,
    platform.coherent,
    pcie.vfio_bound,
    pcie.distance,
    pcie.hostbridge,
    pcie.numa,
    link.link,
    link.aer,
    pcie_caps.mps,
    pcie_caps.mrrs,
    pcie_caps.relaxed_ordering,
    pcie_caps.tags,
    bar.bar1,
    bios_memory.above_4g,
    bios_memory.mmio_window,
    bios_memory.resizable_bar,
    bios_memory.sr_iov,
    bios_iommu.iommu,
    bios_iommu.dma_protection,
    bios_iommu.acs,
    bios_iommu.ats,
    bios_link.relaxed_ordering,
    bios_link.ten_bit_tag,
    bios_link.payload,
    bios_link.aspm,
    bios_link.link_speed,
    bios_cpu.numa_clustering,
    bios_cpu.c_states,
    bios_cpu.power_profile,
    bios_cpu.smt,
    bios_iommu.x2apic,
    bios_iommu.secure_boot,
    accelerator_stack.gdrcopy,
    gds.nvidia_fs,
    gds.iommu,
    gds.p2pdma,
    gds.nvme,
    accelerator_stack.ibgda,
    accelerator_stack.efa,
    accelerator_stack.dcgm,
    accelerator_stack.diag,
    accelerator_stack.libfabric,
    consumers.cuda,
    containers.rdma_devices,
    containers.peermem_sidecar,
    *containers.INSIDE,
    consumers.too_old,
    unused.gdr,
    unused.gdr_part,
    consumers.nccl_env,
    consumers.ucx_paths,
    consumers.nvshmem_transport,
    consumers.perftest_path,
    nccl_log.log,
    nccl_log.agrees,
    measured.pair,
    measured.collective,
    measured.storage,
)

BY_ID = {check.id: check for check in ALL}


def named(name: str, own: Sequence[Check] = ()) -> Check:
    """The check of this id.

    :param own: a site's.
    :raises UsageError: for an unknown id, with the nearest known ones.
    """
    known = {**BY_ID, **{each.id: each for each in own}}
    if name in known:
        return known[name]
    topic, _, last = name.lower().partition(".")
    near = (
        [each for each in known if last and each.startswith(f"{last}.")]  # "pcie.acs"
        or [each for each in known if topic and each.startswith(topic)]
        or [each for each in known if name and name.lower() in each]
        or get_close_matches(name.lower(), known, n=5)
    )
    # The one that was meant first, and the others of its topic in their own order.
    meant = get_close_matches(name.lower(), near, n=1)
    near.sort(key=lambda each: each not in meant)
    hint = f"known: {', '.join(near)}" if near else "the verb checks lists them all"
    raise UsageError(f"no check {name!r}", hint=hint)


def ids_of(own: Sequence[Check]) -> list[str]:
    """The ids of all, and of a site's."""
    return [*BY_ID, *(each.id for each in own)]


def how_far(checks: Selection, own: Sequence[Check] = ()) -> str:
    """How far the verdicts of a run go that left checks out; "" where all are judged."""
    said = [f"--{name}" for name in ("only", "skip") if getattr(checks, name)]
    count, verb = sum(map(checks.has, ids_of(own))), "say" if said[1:] else "says"
    told = f"{count} of {len(ids_of(own))} checks judged, as {' and '.join(said)} {verb}"
    return told if said else ""


def shipped(name: str) -> Check:
    """The check of ours with that id."""
    return BY_ID[name]


# For another process a check is its id: that has the same ones.
copyreg.pickle(Check, lambda check: (shipped, (check.id,)))
