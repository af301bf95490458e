"""Does configuration let the modules load, and are they all of one stack?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from toolkit.checks.check import (
    Finding,
    Impact,
    Status,
    Tense,
    check,
    failed,
    not_applicable,
    passed,
    unknown,
)
from toolkit.checks.consumers.path import REGISTER, peermem_gap
from toolkit.checks.modules.fixes import reload
from toolkit.checks.modules.loading import PEERMEM_ONLY, loadable
from toolkit.checks.modules.obstacles import loaded_from_elsewhere, of_two_stacks
from toolkit.checks.modules.peermem import autoload
from toolkit.checks.rdma.makers import rdma_modules, takes_nvidia_peermem, without_nvidia_peermem
from toolkit.errors import NoEvidence, Unparsable
from toolkit.facts.boot.cmdline import Cmdline, parse_cmdline
from toolkit.facts.modules.load_order import OURS
from toolkit.facts.node.node import Node
from toolkit.want import PeerPath, Want

if TYPE_CHECKING:
    from toolkit.facts.modules.pasted_modules import ConfigLines

RDMA = ("mlx5_core", "mlx5_ib", "ib_core", "ib_uverbs", "rdma_cm")


@check(
    "modules.blacklist",
    impact=Impact.BROKEN,
    tense=Tense.AT_BOOT,
    source="modprobe.d(5); Mellanox/doca-driver-build entrypoint; kernel-parameters",
    fix="remove the blacklist or install line, then rebuild the initramfs",
)
def blacklist(node: Node, want: Want) -> Finding:
    """No module that the path needs is kept from loading.

    A containerised OFED leaves /etc/modprobe.d/blacklist-ofed-modules.conf behind, which
    kills the inbox stack. "blacklist" stops loading by alias and at boot; an install line
    to /bin/false and module_blacklist= stop an explicit modprobe too.
    """
    if not node.probed and node.said_config is not None:
        return _by_lines(node.said_config)
    needed = ["nvidia", *rdma_modules(node), "ib_core", "ib_uverbs"]
    if takes_nvidia_peermem(node, want):
        needed.append("nvidia_peermem")
    arguments = _arguments(node)
    on_cmdline = {
        module.replace("-", "_")
        for name in ("module_blacklist", "modprobe.blacklist", "rd.driver.blacklist")
        for module in arguments.listed(name)
    }
    stopped = {}
    for module in needed:
        if module in node.modprobe.blacklisted:
            stopped[module] = "blacklisted"
        if command := node.modprobe.blocked(module):
            stopped[module] = f"install {command}"
        if module in on_cmdline:
            stopped[module] = "blacklisted on the kernel command line"
    if not stopped:
        return passed("none of them")
    return failed(
        "; ".join(f"{module}: {how}" for module, how in stopped.items()),
        expected="no line that keeps them from loading",
        details=_lines_naming(node, set(stopped)),
    )


def _by_lines(said: ConfigLines) -> Finding:
    """Lines that somebody found; those that were not found may say more."""
    names = ("nvidia", "nvidia_peermem", *RDMA)
    stopped = {
        name: f"install {command}" if command else "blacklisted"
        for name in names
        if (command := said.config.blocked(name)) or name in said.config.blacklisted
    }
    if stopped:
        return failed(
            "; ".join(f"{module}: {how}" for module, how in stopped.items()),
            expected="no line that keeps them from loading",
            details=tuple(
                f"{file}: {line}"
                for line, file in said.files.items()
                if line.split()[1].replace("-", "_") in stopped
            ),
        )
    told = [f"{module}: {words}" for module, words in said.config.options]
    others = sorted(said.config.blacklisted)
    told += [f"blacklisted: {', '.join(others)}"] if others else []
    return unknown(
        f"none of {', '.join(names)} in these lines"
        f"{f' ({told[0]})' if told else ''}; what the others say is not told",
        hint="modprobe -c | grep -e blacklist -e install; cat /proc/cmdline",
    )


def _arguments(node: Node) -> Cmdline:
    """The kernel's; of an image those in its boot menu, and none where it has no menu."""
    if node.live:
        return node.cmdline
    return node.next_cmdline if node.boot_entries else parse_cmdline("")


def _lines_naming(node: Node, modules: set[str]) -> tuple[str, ...]:
    return tuple(
        f"/etc/modprobe.d/{name}: {line}"
        for name, line in node.modprobe_files
        if line.split()[:1] in (["blacklist"], ["install"])
        and line.split()[1:2]
        and line.split()[1].replace("-", "_") in modules
    )


@check(
    "modules.origin",
    impact=Impact.BROKEN,
    on_disk=True,
    source="mlnx-ofa_kernel packaging (updates/, extra/); Mellanox/nv_peer_memory issue 39",
    fix="depmod -a, rebuild the initramfs; then " + reload("rdma"),
)
def origin(node: Node, want: Want) -> Finding:
    """The RDMA modules come from one stack, and the loaded ones are those on disk.

    An initramfs with inbox mlx5 inside wins over OFED on disk; peermem then finds no
    symbol ("Unknown symbol ... err -2"), or OFED's ib_uverbs is refused on the kernel's own
    ib_core ("disagrees about version of symbol"). Told by srcversion, by version and build id,
    by the mark of out-of-tree modules, and by what the kernel says of refused ones.
    """
    if not node.probed and (told := of_two_stacks(node, RDMA)) is not None:
        return failed(told.found, expected=told.expected, hint=told.command)
    files = node.rdma_files
    if not files:
        return not_applicable("no RDMA module on disk for the running kernel")
    origins = {name: files[name].origin for name in RDMA if name in files}
    if len(set(origins.values())) > 1:
        return failed(
            ", ".join(f"{name} {where}" for name, where in origins.items()),
            expected="all of one stack",
            hint=f"depmod -a {node.kernel}",
        )
    if stale := loaded_from_elsewhere(node, origins):
        return failed(
            f"loaded from elsewhere than on disk: {', '.join(stale)}",
            expected="the loaded modules are those on disk",
        )
    if (refused := of_two_stacks(node, RDMA)) is not None:
        return failed(refused.found, expected=refused.expected, hint=refused.command)
    where = next(iter(origins.values()), "")
    version = next((files[name].version for name in origins if files[name].version), "")
    return passed(f"all {where} {version}".rstrip())


# Is nvidia-peermem there before anybody's job can ask for it?
@check(
    "peermem.order",
    impact=Impact.FRAGILE,
    paths=PEERMEM_ONLY,
    source="systemd src/modules-load/modules-load.c; systemctl(1), show; bootup(7)",
    fix="load it by modules-load.d, or by a unit that slurmd and kubelet come after",
)
def order(node: Node, want: Want) -> Finding:
    """nvidia-peermem was loaded at boot before slurmd and kubelet began to start jobs.

    A job that finds no nvidia-peermem at its start does without it until its end, and copies
    through host memory. Told by the journal's note of the insertion, or by our unit that loads
    it, beside the times at which those services began. That systemd-modules-load ended well says
    nothing: it does so where it found no such module.
    """
    if node.unit_times is None:
        return not_applicable("neither slurmd nor kubelet is started by systemd at boot")
    begun = [(unit.began, name) for name, unit in node.starters if unit.began]
    if not begun:
        return not_applicable("neither slurmd nor kubelet has been started since the boot")
    when, service = min(begun)
    # When it was there at the latest, and by what we know.
    found: list[tuple[float, str]] = []
    inserted = node.peermem_inserted
    if inserted.at:
        found.append((inserted.at, "inserted"))
    ours = node.unit_times.get(OURS)
    if ours is not None and ours.active and ours.well and ours.done:
        found.append((ours.done, f"{OURS} was up"))
    there = min(found, default=None)
    if there is None:
        return _nowhere(node, want, f"loaded before {service} began, {when:.1f} s after the boot")
    known = f"{there[1]} {there[0]:.1f} s after the boot"
    if there[0] <= when:
        return passed(f"{known}, {service} began at {when:.1f} s")
    return failed(known, expected=f"before {service} began, at {when:.1f} s")


def _nowhere(node: Node, want: Want, expected: str) -> Finding:
    if node.peermem_inserted.refused:
        return failed(node.peermem_inserted.refused, expected=expected)
    if autoload.judge(node, want).status is Status.FAIL:
        return not_applicable("nothing loads it at boot; see peermem.autoload")
    return unknown(
        "the journal does not tell when it was loaded",
        hint="name it in /etc/modules-load.d; a journal that has let go of its boot says it again"
        " after the next",
    )


# Does anything rest on a module that OFED has left empty?
# mlnx-ofa_kernel, --build-dummy-mods: each says "NAME dummy kernel module", with a version of its
# own (irdma 5.7, smc 4.1, mana_ib 23.10, ib_srp OFED's), and rests on mlx_compat alone.
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
    source="mlnx-ofa_kernel, --build-dummy-mods (its spec and DKMS use it); /sys/module/*/holders",
    fix="an OFED built with that module (mlnxofedinstall --with-nvmf, --with-nfsrdma), or the "
    "kernel's own RDMA stack where OFED no longer has it",
)
def dummies(node: Node, want: Want) -> Finding:
    """No loaded module is one that OFED has left empty.

    OFED puts dummies in the place of the kernel's drivers that it does not bring: efa, irdma,
    nvme-rdma, rpcrdma and others. modprobe loads them without a word, and nothing works: NVMe
    over RDMA, GPUDirect Storage over it, NFS over RDMA, other makers' HCAs. Whoever has one
    loaded relied on it. Told by resting on nothing of RDMA, and by being out of tree.
    """
    here = {name: state for name, state in node.module_state.items() if name in SERVES}
    if not here:
        return not_applicable("no module with a version is loaded that OFED might leave empty")
    core = node.module_state.get("ib_core")
    if core is not None and not core.holders:
        return not_applicable("ib_core is built in, so that OFED is not there: no module is empty")
    resting = {each for state in node.module_state.values() for each in state.holders}
    empty = [n for n, s in here.items() if n not in resting and s.in_tree is not True]
    if empty:
        return failed(
            f"loaded and empty: {', '.join(empty)}",
            expected="modules that do what they are loaded for",
            hint=f"modinfo -F description {empty[0]}; what asks for it has no RDMA",
            details=tuple(f"{name}: {SERVES[name]}" for name in empty),
        )
    return passed(f"{', '.join(here)}: not OFED's dummies")


# What is set up of the path that a node does not take, and does not work.
@check(
    "path.other",
    impact=Impact.FRAGILE,
    paths=frozenset({PeerPath.DMABUF}),
    source="systemd-modules-load.service(8); modules-load.d(5)",
    fix="mend nvidia-peermem (--profile peermem tells what it lacks), or take it out of the file "
    "that loads it at boot",
)
def other(node: Node, want: Want) -> Finding:
    """Where dma-buf is taken, nothing loads an nvidia-peermem at boot that does not load.

    GPUDirect works by dma-buf; but who has nvidia-peermem loaded at boot counts on it for
    libraries that cannot take dma-buf, and systemd-modules-load fails at each boot. With an
    RDMA stack that has no peer-memory interface the line is without effect, and nothing is lost.
    """
    if why := without_nvidia_peermem(node):
        return not_applicable(why)
    if not peermem_gap(node):
        return passed("nvidia-peermem works too")
    loads = autoload.judge(node, want)
    if loads.status is not Status.PASS:
        return not_applicable("nothing loads nvidia-peermem at boot")
    if REGISTER not in node.symbols:
        return not_applicable(
            f"{loads.found} asks for nvidia-peermem; the loaded RDMA stack has no interface for it"
        )
    if "nvidia_peermem" in node.modprobe.blacklisted:
        return not_applicable("nvidia-peermem is blacklisted, so that nothing loads it at boot")
    obstacle = _obstacle(node, want)
    return failed(
        f"not loaded, though {loads.found} loads nvidia-peermem at boot",
        expected="nvidia-peermem loaded, or not asked for",
        hint=obstacle.hint or f"modprobe nvidia-peermem, or take it out of {loads.found}",
        details=(obstacle.found,),
    )


def _obstacle(node: Node, want: Want) -> Finding:
    try:
        return loadable.judge(node, replace(want, path=PeerPath.PEERMEM))
    except (NoEvidence, Unparsable) as why:
        return not_applicable(str(why))
