"""Does anything rest on a module that OFED has left empty?"""

from __future__ import annotations

from toolkit.checks.check import Finding, Impact, check, failed, not_applicable, passed
from toolkit.facts.node.node import Node
from toolkit.want import Want

# mlnx-ofa_kernel, --build-dummy-mods: each says "NAME dummy kernel module", and this version.
DUMMY = "2.0.0"
# What asks for it finds it loaded, and does without RDMA.
SERVES = {
    "efa": "EFA",
    "hfi1": "Omni-Path",
    "irdma": "Intel HCAs",
    "mana_ib": "Azure MANA",
    "mlx4_ib": "ConnectX-3",
    "qedr": "Marvell HCAs",
    "ocrdma": "Emulex HCAs",
    "iw_cxgb4": "Chelsio HCAs",
    "usnic_verbs": "Cisco usNIC",
    "rdma_rxe": "Soft-RoCE",
    "nvme_rdma": "NVMe over RDMA",
    "nvmet_rdma": "NVMe targets over RDMA",
    "rpcrdma": "NFS over RDMA",
    "xprtrdma": "NFS over RDMA",
    "svcrdma": "NFS servers over RDMA",
    "9pnet_rdma": "9P over RDMA",
    "rds_rdma": "RDS over RDMA",
    "smc": "SMC-R",
    "smc_diag": "SMC-R",
    "ib_srp": "SRP",
    "ib_srpt": "SRP targets",
    "ib_iser": "iSER",
    "ib_isert": "iSER targets",
    "ib_mthca": "InfiniHost",
    "ib_qib": "QLogic HCAs",
    "rdmavt": "Omni-Path",
    "ib_ucm": "the old ib_ucm interface",
}


@check(
    "ofed.dummies",
    impact=Impact.SLOW,
    source="mlnx-ofa_kernel, --build-dummy-mods (its spec and DKMS use it); /sys/module/*/version",
    fix="an OFED built with that module (mlnxofedinstall --with-nvmf, --with-nfsrdma), or the "
    "kernel's own RDMA stack where OFED no longer has it",
)
def dummies(node: Node, want: Want) -> Finding:
    """No loaded module is one that OFED has left empty.

    OFED puts dummies in the place of the kernel's drivers that it does not bring: efa, irdma,
    nvme-rdma, rpcrdma and others. modprobe loads them without a word, and nothing works: NVMe
    over RDMA, GPUDirect Storage over it, NFS over RDMA, other makers' HCAs. Whoever has one
    loaded relied on it. Told by their version, and by being out of tree.
    """
    here = {name: state for name, state in node.module_state.items() if name in SERVES}
    if not here:
        return not_applicable("no module with a version is loaded that OFED might leave empty")
    empty = [n for n, s in here.items() if s.version == DUMMY and s.in_tree is not True]
    if empty:
        return failed(
            f"loaded and empty: {', '.join(empty)}",
            expected="modules that do what they are loaded for",
            hint=f"modinfo -F description {empty[0]}; what asks for it has no RDMA",
            details=tuple(f"{name}: {SERVES[name]}" for name in empty),
        )
    return passed(f"{', '.join(here)}: not OFED's dummies")
