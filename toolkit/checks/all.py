"""Every check, in the order in which a report tells of them: causes before effects."""

from __future__ import annotations

from toolkit.checks import acs, driver, iommu, kernel, modules, ofed, path, pcie, peermem, rdma
from toolkit.checks.check import Check
from toolkit.errors import UsageError

ALL: tuple[Check, ...] = (
    kernel.version,
    kernel.headers,
    kernel.pending_reboot,
    kernel.config_dmabuf,
    kernel.config_infiniband,
    kernel.lockdown,
    driver.present,
    driver.version,
    driver.flavor,
    driver.params,
    path.selected,
    path.dmabuf_gpu,
    path.peer_symbol,
    peermem.file,
    peermem.stub,
    peermem.loaded,
    peermem.bound,
    peermem.loaded_vs_disk,
    peermem.autoload,
    peermem.legacy_conflict,
    modules.blacklist,
    modules.origin,
    ofed.flavor,
    ofed.kernel_match,
    rdma.devices,
    rdma.port,
    rdma.memlock,
    iommu.passthrough,
    iommu.boot,
    iommu.cmdline,
    acs.redirect,
    pcie.distance,
    pcie.link,
    pcie.bar1,
)

BY_ID = {check.id: check for check in ALL}


def named(name: str) -> Check:
    """The check of this id.

    :raises UsageError: for an unknown id, with the nearest known ones.
    """
    if name in BY_ID:
        return BY_ID[name]
    topic = name.partition(".")[0]
    near = [known for known in BY_ID if known.startswith(topic)] or list(BY_ID)
    raise UsageError(f"no check {name!r}", hint=f"known: {', '.join(near)}")
