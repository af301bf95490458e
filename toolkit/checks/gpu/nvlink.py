"""Is the NVLink fabric up, on machines that have one?"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress

from toolkit.checks.check import Finding, Impact, check, failed, not_applicable, passed, unknown
from toolkit.checks.consumers.containers import in_pods, perhaps_in_pods
from toolkit.checks.gpu.driver import NOT_LOADED
from toolkit.checks.modules.fixes import fabric_manager_package
from toolkit.checks.role import PASSED_THROUGH, role
from toolkit.errors import NoEvidence, Unparsable
from toolkit.facts.gpu.driver import is_error
from toolkit.facts.gpu.smi_query import SmiGpu
from toolkit.facts.nccl.containers import FABRIC_MANAGER, IMEX, SUBNET, PerJob
from toolkit.facts.node.node import Node
from toolkit.plural import counted
from toolkit.want import Role, Want

RUNNING = "nv-fabricmanager running"


@check(
    "nvidia.fabricmanager",
    impact=Impact.BROKEN,
    source="NVIDIA Fabric Manager guide (NVLSM, ABORT_CUDA_JOBS_ON_FM_EXIT); siderolabs/docs "
    "PR 581 (ib_umad on NVLink 5)",
    fix="install nvidia-fabricmanager of the very version of the driver, and start it, on a "
    "drained node: stopping it ends running CUDA jobs; nvlsm, and ib_umad in modules-load.d, where "
    "NVSwitches are behind an HCA",
)
def fabricmanager(node: Node, want: Want) -> Finding:
    """Where there are NVSwitches, the fabric manager runs, of the driver's version.

    Without it CUDA says error 802, "system not yet initialized". It refuses to work with a
    driver of another version. On B200 and B300 the NVSwitches are behind an HCA: it needs
    ib_umad to reach them, and starts nvlsm, the subnet manager of NVLink, from a package of its
    own, without which there is no fabric. Racks whose NVLink spans nodes run both on their
    switches.
    """
    unit = node.services.get("nvidia-fabricmanager")
    if node.cuda_said:
        found = f"CUDA is not ready (802): {node.cuda_said}"
        return failed(found, expected="CUDA that starts", hint=_NOT_READY)
    if (said := _by_its_log(node)) is not None:
        return said
    if unit is not None and unit.failed:  # somebody pasted it, and may have pasted nothing else
        return failed(
            f"the fabric manager has failed ({unit.result})",
            expected=RUNNING,
            hint="journalctl -u nvidia-fabricmanager and /var/log/fabricmanager.log say why",
        )
    if unit is not None and unit.loaded == "not-found":
        return _without_unit(node)
    return _managed(node, want)


_NOT_READY = (
    "systemctl status nvidia-fabricmanager; in confidential mode nvidia-smi conf-compute -srs 1"
)
_NO_SWITCH = (
    "lspci -nn -d 10de: (Bridge [0680]); on HGX B200 and later it needs nvlsm, mlx5_ib and ib_umad"
)


def _by_its_log(node: Node) -> Finding | None:
    said = node.fm_said
    if "driver" in said:
        return failed(
            f"fabric manager {said['own']}, driver {said['driver']}; not running",
            expected="one version",
            hint=f"nvidia-fabricmanager={said['driver']}-*, then, with no job there, "
            "systemctl restart nvidia-fabricmanager; reboot where "
            "the driver on disk is of its version already",
        )
    if "gave_up" in said:
        return failed(said["gave_up"], expected=RUNNING, hint="what it logged before says why")
    if "none" in said:
        if told := _switches_told(node):
            return failed(f"{told}, and it finds no NVSwitch", expected=RUNNING, hint=_NO_SWITCH)
        return unknown(
            "it found no NVSwitch and ended: right where there is none, as in nodes of a rack",
            hint=_NO_SWITCH,
        )
    up = "up" in said and not node.probed
    return passed(f"it has configured all {said['up']}") if up else None


def _without_unit(node: Node) -> Finding:
    """There is no such unit: right where there is no NVSwitch, or a driver's container runs it."""
    gpus: tuple[SmiGpu, ...] = ()
    with suppress(NoEvidence, Unparsable):
        gpus = tuple(each for each in node.smi.gpus if each.fabric)
    if gpus and not any(map(_ill, gpus)):
        joined = counted(len(gpus), "GPU", "has", "have")
        return unknown(
            f"no unit nvidia-fabricmanager; {joined} joined the fabric: what runs it is not told",
            hint="the GPU driver's pod runs one of its own, and so do the switches of a rack",
        )
    if told := _switches_told(node):
        return failed(
            f"{told}, and no unit nvidia-fabricmanager",
            expected=RUNNING,
            hint="nvidia-fabricmanager of the driver's very version, then systemctl enable "
            "--now nvidia-fabricmanager; where the driver comes in a pod, that pod runs it",
        )
    return unknown(
        "no unit nvidia-fabricmanager; whether there are NVSwitches is not told",
        hint="lspci -nn -d 10de: (Bridge [0680]); nvidia-smi -q, Fabric",
    )


def _switches_told(node: Node) -> str:
    looks: dict[str, Callable[[], bool]] = {
        "GPUs that have not joined the NVLink fabric": lambda: any(
            each.fabric and _ill(each) for each in node.smi_shown.gpus
        ),
        "NVSwitches on the PCI bus": lambda: any(
            each.driver != PASSED_THROUGH for each in node.nvswitches
        ),
        "nvidia-nvswitch in the kernel log": lambda: "nvidia-nvswitch" in "\n".join(node.dmesg),
    }
    for told, ask in looks.items():
        with suppress(NoEvidence, Unparsable):
            if ask():
                return told
    return ""


def _managed(node: Node, want: Want) -> Finding:
    behind = any(each is not None and each.nvl5 for each in node.gpu_chips.values())
    if why := _no_switches(node, want, behind):
        return not_applicable(why)
    if behind and "ib_umad" not in node.module_state:
        return failed("ib_umad is not loaded", expected="ib_umad", hint="modprobe ib_umad")
    names = {each.name for each in node.daemons}
    running = FABRIC_MANAGER in names
    driver = node.driver.version if node.driver else None
    manager = node.fabric_manager
    if manager is not None and driver is not None and str(manager) != str(driver):
        return failed(
            f"fabric manager {manager}, driver {driver}" + ("" if running else "; not running"),
            expected="one version",
            hint="drain the node (a fabric manager that stops aborts running CUDA jobs), install "
            f"{fabric_manager_package(node, driver)}, systemctl restart nvidia-fabricmanager",
        )
    if not running:
        return failed(
            "the fabric manager does not run",
            expected=RUNNING,
            hint="systemctl enable --now nvidia-fabricmanager",
        )
    if behind and SUBNET not in names:
        return failed(
            "the fabric manager runs, and nvlsm does not",
            expected="nvlsm running, the subnet manager of NVLink",
            hint="drain the node, for a restart ends running CUDA jobs; install nvlsm; "
            "systemctl restart nvidia-fabricmanager, which starts it",
        )
    version = f"{manager}, as the driver" if manager is not None else "not installed on the node"
    return passed(f"running; version {version}")


def _no_switches(node: Node, want: Want, behind: bool) -> str:
    switches = node.nvswitches
    if not switches:
        if not behind:
            return "no NVSwitch"
        guest = role(node, want) is Role.VM
        return "the NVSwitches may be the host's: see nvidia.fabric_state" if guest else ""
    given = all(each.driver == PASSED_THROUGH for each in switches)
    return "the NVSwitches are passed through to guests" if given else ""


@check(
    "nvidia.fabric_state",
    impact=Impact.BROKEN,
    source="nvidia-smi -q, Fabric; NVIDIA/DCGM dcgm_fields.h, 170 to 175",
    fix="start the fabric manager; where it runs, its log names the GPU or NVSwitch that is ill",
)
def fabric_state(node: Node, want: Want) -> Finding:
    """Every GPU of an NVLink fabric has joined it, and is healthy there.

    CUDA waits for it: until then programs end with error 802.
    """
    if node.no_driver:
        return not_applicable(NOT_LOADED)
    shown = node.smi_shown
    gpus = [each for each in shown.gpus if each.fabric]
    if not gpus and not shown.lacks:
        silent = _silent(node, want)
        return silent or not_applicable("no GPU is part of an NVLink fabric")
    kinds = {(each.name, each.device) for each in gpus}
    gpus += [e for e in shown.gpus if not e.fabric and e.name and (e.name, e.device) in kinds]
    if ill := {each.address: why for each in gpus if (why := _ill(each))}:
        waiting = all(why.startswith("In Progress") for why in ill.values())
        return failed(
            f"{len(ill)} of {len(gpus)} GPUs: {', '.join(sorted(set(ill.values())))}",
            expected="Completed, Success",
            hint="wait two minutes after the fabric manager's start; then its log"
            if waiting
            else "journalctl -u nvidia-fabricmanager",
            details=tuple(f"{address}: {why}" for address, why in ill.items()),
        )
    if len({each.cluster for each in gpus}) > 1:
        return failed(
            "GPUs of one node are in different NVLink domains",
            expected="one ClusterUUID for all",
            hint="nvidia-smi -q | grep -A8 Fabric; the log of the fabric manager, or of NMX",
            details=tuple(f"{each.address}: {each.cluster or 'none'}" for each in gpus),
        )
    strange = next((f"{e.address}: {why}" for e in gpus if (why := _untold(e))), "")
    joined = f"{counted(len(gpus), 'GPU', 'has', 'have')} joined" if gpus else ""
    if strange or shown.lacks:
        lacks = f"nvidia-smi -q: {shown.lacks}" if shown.lacks else ""
        found = strange or "; ".join(filter(None, (joined, lacks)))
        return unknown(
            found, hint="nvidia-smi -q | grep -A8 Fabric" if strange else "nvidia-smi -q"
        )
    return passed(joined)


@check(
    "nvlink.links",
    impact=Impact.SICK,
    source="nvidia-smi nvlink -s; NVML, nvmlDeviceGetNvLinkState; NVIDIA/DCGM diag, PCIe "
    "gpu_nvlinks_expected_up",
    fix="drain the node, reset all its GPUs or reboot it; exchange what comes again",
)
def links(node: Node, want: Want) -> Finding:
    """Every NVLink of a GPU on a board of NVSwitches is active.

    On such boards all links of a GPU are wired. Cards with bridges, and boards of Volta and before,
    leave some of them free: there GPUs may differ, and an inactive link is not known to be a fault.
    """
    if not node.has_nvlinks:
        return not_applicable("nvidia-smi nvlink -s was not given")
    gpus = node.nvlinks
    if not any(each.active for each in gpus):
        return not_applicable("no NVLink is active, as in a partition of one GPU")
    dead = [each for each in gpus if each.inactive]
    told = tuple(
        f"GPU {each.index}: link {', '.join(map(str, each.inactive))} of {len(each.links)} inactive"
        for each in dead
    )
    if any(_wired(each.name) for each in dead):
        return failed(
            f"inactive links on {counted(len(dead), 'GPU')}",
            expected="every link active",
            hint="drain the node; nvidia-smi nvlink -e, dmesg | grep -i xid; then reset all GPUs",
            details=told,
        )
    if told:
        return unknown(f"{told[0]}: wired or not, by its board", hint="nvidia-smi topo -m")
    short = [each for each in gpus if len(each.links) < _count(each.name)]
    counts = {len(each.links) for each in gpus}
    if short or len(counts) > 1:
        seen = " and ".join(map(str, sorted(counts)))
        return unknown(f"GPUs with {seen} links: it may be cut", hint="give all of nvlink -s")
    return passed(f"{counts.pop()} active on {counted(len(gpus), 'GPU')}")


# By the names that nvidia-smi prints: "NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3".
_COUNTS = {r"A100-SXM": 12, r"[AH]800": 8, r"\bH[12]00(?! NVL| PCIe)|\bH20\b|\bG?B[23]00\b": 18}
_WIRED = re.compile(r"SXM(?![23])|\bH[128]00.* HBM3e?$|\bH20\b|\bH[28]00$|\bG?B[23]00\b")


def _count(name: str) -> int:
    """How many links a GPU of this name has; 0 where that is not known."""
    found = (count for pattern, count in _COUNTS.items() if re.search(pattern, name))
    return next(found, 0) if _wired(name) else 0


def _wired(name: str) -> bool:
    return bool(_WIRED.search(name))


def _silent(node: Node, want: Want) -> Finding | None:
    """Where the board has NVSwitches, and the driver knows of such states and tells none.

    Before Hopper no GPU has one; a guest may have been given GPUs without their links.
    """
    if role(node, want) is Role.VM or not all(e.fabric_status in _NOT_TOLD for e in node.smi.gpus):
        return None
    chips = [each for each in node.gpu_chips.values() if each is not None]
    hopper = bool(node.nvswitches) and any(each.architecture == "Hopper" for each in chips)
    if not hopper and not any(each.nvl5 and not each.multi_node for each in chips):
        return None
    return unknown("no GPU tells of a fabric that this board has", hint="nvidia-smi nvlink -s")


# What nvidia-smi says of each part of the health; of an incorrect configuration, what it is.
_YES = frozenset({"true", "yes"})
_ILL = {
    "summary": frozenset({"unhealthy", "limited capacity"}),
    "bandwidth": frozenset({"degraded"}),
    "route unhealthy": _YES,
    "route recovery in progress": _YES,
    "access timeout recovery": _YES,
}
_WELL = {"healthy", "full", "false", "no", "none", "not supported"}
_CONFIGURATION = "incorrect configuration"


def _health(gpu: SmiGpu) -> list[tuple[str, str, str]]:
    told = ((name.replace("_", " "), value, value.lower()) for name, value in gpu.fabric_health)
    return [each for each in told if each[2] not in _WELL]


def _ill(gpu: SmiGpu) -> str:
    if not gpu.fabric:
        return "not part of the fabric"
    if gpu.fabric != "Completed" or gpu.fabric_status not in {"Success", "", *_NOT_TOLD}:
        status = "" if gpu.fabric_status in _NOT_TOLD else gpu.fabric_status
        return " ".join(filter(None, (gpu.fabric, status)))
    bad = [
        f"{name} {value}"
        for name, value, word in _health(gpu)
        if word in _ILL.get(name.lower(), ())
        or (name.lower() == _CONFIGURATION and not is_error(value))
    ]
    return ", ".join(bad)


_NOT_TOLD = ("N/A", "[N/A]")


def _untold(gpu: SmiGpu) -> str:
    if gpu.fabric_status in _NOT_TOLD:
        return f"{gpu.fabric}, and its status is {gpu.fabric_status}"
    return next((f"{name} is {value}" for name, value, _ in _health(gpu)), "")


@check(
    "nvidia.imex",
    impact=Impact.SLOW,
    source="NVIDIA IMEX service guide, Deployment models; kubernetes-sigs/dra-driver-nvidia-gpu "
    "docs/prerequisites.md; slurm.conf(5), switch/nvidia_imex; open-gpu-kernel-modules nv-reg.h",
    fix="a channel and a daemon for each job (Slurm's switch/nvidia_imex, a prolog, ComputeDomains "
    "of the DRA driver), or on nodes that no DRA driver serves nvidia-imex for the whole node",
)
def imex(node: Node, want: Want) -> Finding:
    """On a node whose NVLink spans nodes, IMEX runs and a channel is there.

    Without it memory of other nodes cannot be imported over NVLink, and jobs fall back to
    the network. Where each job or ComputeDomain has its own daemon and channel, the node has
    neither between jobs: NVIDIA's DRA driver demands that nvidia-imex be masked, for a daemon of
    the whole node would take its place and let jobs into each other's memory.
    """
    unit = node.services.get("nvidia-imex")
    by_unit = (unit.result or "failed") if unit is not None and unit.failed else ""
    if why := node.fm_said.get("imex") or by_unit:
        return failed(
            f"nvidia-imex has failed ({why})",
            expected="nvidia-imex running, and a channel",
            hint="journalctl -u nvidia-imex and /var/log/nvidia-imex.log say why; nodes_config.cfg "
            "must name the nodes of the domain",
        )
    spanning = [address for address, chip in node.gpu_chips.items() if chip and chip.multi_node]
    if spanning and node.no_driver:
        return not_applicable(NOT_LOADED)
    joined = [each.address for each in node.smi.gpus if each.in_cluster] if spanning else []
    if not joined:
        return not_applicable("no NVLink that spans nodes")
    runs = any(each.name == IMEX for each in node.daemons)
    channels = node.imex_channels
    if runs and channels:
        return passed(f"running for {counted(len(joined), 'GPU')}")
    if by := _per_job(node, begun=runs or bool(channels)):
        return not_applicable(f"each job has its own IMEX: {by}")
    gaps = [] if runs else ["nvidia-imex does not run"]
    if not channels:
        gaps.append("no channel in /dev/nvidia-caps-imex-channels")
    return failed(
        "; ".join(gaps),
        expected="nvidia-imex running, and a channel; or both for each job",
        hint="decide by the IMEX guide, Deployment models: for each job (Slurm's "
        "SwitchType=switch/nvidia_imex), or for the node, with NVreg_CreateImexChannel0=1",
    )


def _per_job(node: Node, *, begun: bool) -> str:
    """What shows that jobs bring IMEX with them; "" where nothing does.

    :param begun: half of the node's own is there, which must be shown to be a job's.
    """
    shown = next((str(each) for each in PerJob if each in node.containers.imex), "")
    return shown or (in_pods(node) if begun else perhaps_in_pods(node))
