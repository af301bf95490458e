"""Are the HCAs RDMA devices, are their ports up, and may jobs pin memory?"""

from __future__ import annotations

import re

from toolkit.checks.check import (
    Finding,
    Impact,
    Tense,
    check,
    failed,
    not_applicable,
    passed,
    unknown,
)
from toolkit.checks.consumers.containers import in_pods
from toolkit.checks.modules.fixes import by_family
from toolkit.checks.rdma.makers import maker_of, serving, spares, unused_boards
from toolkit.checks.rdma.pasted_ports import (
    devices_told,
    link_type_told,
    listed_beside,
    memlock_told,
    port_told,
)
from toolkit.checks.role import PASSED_THROUGH
from toolkit.errors import read_or
from toolkit.facts.node.node import Node
from toolkit.facts.pci.functions import MELLANOX
from toolkit.facts.pci.kernel_log import parse_probe_failures
from toolkit.facts.pci.topology import best_pairs, pair
from toolkit.facts.rdma.devices import Kind, RdmaDevice
from toolkit.plural import counted, first_of
from toolkit.want import Want

ETHERNET = 0x0200  # class and subclass of a network function
_PROBED = frozenset(
    {"mlx4_core", "mlx5_core", "bnxt_en", "bnxt_re", "efa", "ice", "irdma", "ionic"}
)
# How GPU memory is reached through devices that are no HCAs.
_OTHERS = {
    Kind.SOFTWARE: "Soft-RoCE and Soft-iWARP copy through the processor: no GPUDirect RDMA",
    Kind.OMNI_PATH: "Omni-Path has GPUDirect in its own driver, not through verbs",
}


@check(
    "rdma.devices",
    impact=Impact.BROKEN,
    source="/sys/class/infiniband, /dev/infiniband; rdma-core, libibverbs and its providers",
    fix="modprobe -a ib_uverbs and the maker's own (mlx5_ib, bnxt_re, irdma, ionic_rdma, efa, "
    "mana_ib); install rdma-core for the device nodes",
)
def devices(node: Node, want: Want) -> Finding:
    """Every HCA on the PCI bus is an RDMA device that user space can open.

    Software devices (rxe, siw) look like HCAs to every tool and can never do GPUDirect RDMA.
    EFA devices do it in a way of their own. A card far from the GPUs that is there for
    Ethernet alone is none of them. Where libibverbs has no provider for a device,
    the kernel has it and user space does not: after an update of only one of them.
    """
    if not node.probed and (told := devices_told(node) or _untaken(node)):
        return told
    idle = _idle(node)
    if not node.rdma_devices:
        away = _away(node)
        return not_applicable(away) if away else _none(node, idle)
    kinds = {each.kind for each in node.rdma_devices}
    if kinds <= _OTHERS.keys():
        only = f"{counted(len(node.rdma_devices), 'device')} of {' and '.join(sorted(kinds))}"
        others = (f"{each.name}: {_OTHERS[each.kind]}" for each in node.rdma_devices)
        return failed(
            f"no RDMA device for {counted(len(idle), 'HCA')}, only {only}"
            if idle
            else f"no HCA: {only}",
            expected="an RDMA device for each HCA" if idle else "an HCA",
            details=(*idle, *others),
        )
    missed = [each for each in idle if not _plain_nic(node, each)]
    if missed and not node.probed and not any(each.address for each in node.rdma_devices):
        return listed_beside(node, len(missed))
    if missed:
        driven = len({each.address for each in node.rdma_hardware})
        what_to_do, details = _not_taken(node, missed)
        return failed(
            f"no RDMA device for {len(missed)} of {len(idle) + driven} HCAs",
            expected="an RDMA device for each HCA",
            hint=what_to_do or _load(node),
            details=details,
        )
    return _opened(node)


def _away(node: Node) -> str:
    """Who has every card that may be an HCA, where that is not the node itself; "" where it is."""
    cards = node.pci.adapters if node.knows_pci else ()
    if cards and all(each.driver == PASSED_THROUGH for each in cards):
        return "every HCA is given to guests (vfio-pci): judge it there"
    if not node.namespaced:
        return ""
    return "every RDMA device is in a pod's network namespace (exclusive mode): judge it there"


def _none(node: Node, idle: list[str]) -> Finding:
    if not idle:
        return failed(
            "no RDMA device, no HCA",
            expected="an HCA",
            hint="attach one (AWS: EFA, at the launch), or take a size that has them"
            if node.is_guest
            else "lspci -nn: is the card in, and on in the BIOS?",
        )
    what_to_do, details = _not_taken(node, idle)
    return failed(
        f"no RDMA device; {counted(len(idle), 'HCA')} on the PCI bus",
        expected="an RDMA device for each HCA",
        hint=what_to_do or _load(node),
        details=details,
    )


def _load(node: Node) -> str:
    rows = (maker_of(node, each) for each in _idle(node))
    names = dict.fromkeys(name for row in rows if row is not None for name in row.modules)
    return f"modprobe -a {' '.join(names)}; dmesg tells why one of them refuses"


def _not_taken(node: Node, addresses: list[str]) -> tuple[str, tuple[str, ...]]:
    """What to do about HCAs that their driver gave up, and of each why; "" where none was."""
    failures = parse_probe_failures(read_or(lambda: node.dmesg, ()))
    gone = {each: failures[each] for each in addresses if each in failures}
    details = tuple(
        f"{each}: {gone[each].driver} gave up with error {gone[each].error}"
        + (f": {gone[each].said}" if gone[each].said else "")
        if each in gone
        else each
        for each in addresses
    )
    if not gone:
        return "", details
    return (
        f"the driver is there and gave up: dmesg | grep {next(iter(gone))}; a card whose firmware "
        "does not answer needs the node powered off and on, or new firmware, not modprobe",
        details,
    )


def _untaken(node: Node) -> Finding | None:
    """HCAs that their drivers gave up, by a kernel log without lists; None where it has none."""
    if node.tells_rdma or not node.has_log:
        return None
    for address, each in parse_probe_failures(node.dmesg).items():
        if each.driver in _PROBED:
            said = f", at: {each.said}" if each.said else ""
            return failed(
                f"{address}: {each.driver} did not take it, error {each.error}{said}",
                expected="an HCA that its driver starts",
                hint="the kernel log before it says at what; firmware and driver of one age "
                "(mlxfwmanager), and a power cycle of the card",
            )
    return None


def _idle(node: Node) -> list[str]:
    driven = {each.address for each in node.rdma_hardware}
    driven |= {each.address for each in node.namespaced}
    # Of a bond the first function has the RDMA device, and carries the traffic of all.
    bonded = {_card(each.address) for each in node.rdma_devices if "bond" in each.name}
    # A function given to a guest, or a virtual one, is not this node's to drive.
    return [
        each.address
        for each in node.pci.functions.values()
        if each.may_be_hca
        and not each.virtual
        and each.driver != "vfio-pci"
        and each.address not in driven
        and _card(each.address) not in bonded
    ]


def _plain_nic(node: Node, address: str) -> bool:
    """A net device of the node itself: Ethernet, and every GPU has a nearer HCA.

    A ConnectX is bought for RDMA, so one that nothing drives is missed wherever it is.
    """
    function = node.pci.functions[address]
    undriven = function.vendor == MELLANOX and not function.driver.startswith("mlx")
    if function.klass >> 8 != ETHERNET or undriven:
        return False
    best = best_pairs(node.pci, node.hcas)
    return bool(best) and all(
        each.distance < pair(node.pci, each.gpu, function).distance for each in best
    )


def _card(address: str) -> str:
    """What the functions of one card have in common: "0000:19:00"."""
    return address.rpartition(".")[0]


def _opened(node: Node) -> Finding:
    if node.no_uverbs:
        return failed(
            "no /dev/infiniband/uverbs*", expected="a uverbs node", hint="modprobe ib_uverbs"
        )
    package = by_family(node, "ibverbs-providers", "libibverbs", "rdma-core and libmlx5-1")
    hint = f"install {package} of one version with libibverbs; then ibv_devinfo"
    if node.devinfo_trouble:
        return failed(node.devinfo_trouble, expected="every HCA in ibv_devinfo", hint=hint)
    hcas = [each.name for each in node.rdma_devices if each.kind is Kind.HCA]
    seen = node.devinfo if not node.devinfo_failed else None
    unseen = [name for name in hcas if seen is not None and name not in seen]
    if unseen:
        return failed(
            f"user space does not see {len(unseen)} of {len(hcas)} HCAs",
            expected="every HCA in ibv_devinfo",
            hint=hint,
            details=tuple(unseen),
        )
    if node.no_uverbs is None and seen is None:
        return unknown(
            "of /dev/infiniband a part was listed, without a uverbs node",
            hint="ls -l /dev/infiniband, whole, with the next prompt; ibv_devinfo",
        )
    others = [each for each in node.rdma_devices if each.kind is not Kind.HCA]
    return passed(
        f"{counted(len(node.rdma_devices), 'device')}",
        details=(
            *(f"{each.name}: {each.kind}, no HCA" for each in others),
            *(f"{each}: for Ethernet alone, far from the GPUs" for each in _idle(node)),
        ),
    )


@check(
    "rdma.port",
    impact=Impact.BROKEN,
    source="/sys/class/infiniband/*/ports; Azure/azurehpc-health-checks",
    fix="cable, switch port or subnet manager; a port in INIT waits for a subnet manager",
)
def port(node: Node, want: Want) -> Finding:
    """Each HCA that shares a switch with a GPU has a port that is up.

    Judged are the HCAs that serve GPUs, where topology tells which those are: an unused
    management or storage port is no fault, nor is the second port of a card while no card of
    its kind has that one up, nor a kind of card without any link, where every GPU has one of
    another kind that is in use and of which there are more. The states are different faults:
    INIT waits for a subnet manager, Polling finds no partner, Disabled was switched off. A dead
    port still shows a rate, 40 Gb/s: it says nothing. On Ethernet, Disabled means no more than
    that the net device is down or has no carrier.
    """
    if not node.tells_rdma and (told := port_told(node) or link_type_told(node)):
        return told
    judged = serving(node)
    unused = unused_boards(node, judged)
    spare = spares(judged, unused)
    down = [each for each in judged if not any(one.up for one in each.ports) and each not in spare]
    if not node.rdma_devices and (away := _away(node)):
        return unknown(away, hint="--inside POD") if node.namespaced else not_applicable(away)
    if not judged:
        found = "no RDMA device but of software" if node.rdma_devices else "no RDMA device"
        return failed(found, expected="ports ACTIVE and LinkUp", hint="see rdma.devices")
    if down:
        return failed(
            f"{len(down)} of {len(judged)} HCAs without a port that is up: {_names(down)}",
            expected="ACTIVE, LinkUp",
            hint="; ".join(dict.fromkeys(_fault(node, each) for each in down)),
            details=tuple(f"{each.name}: {_states(each)}" for each in down),
        )
    return passed(
        f"{counted(len(judged) - len(spare), 'HCA')} up",
        details=tuple(
            f"{each.name}: {_states(each)}, a "
            f"{'card' if each.board in unused else 'second port'} that is not in use"
            for each in spare
        ),
    )


def _names(devices: list[RdmaDevice]) -> str:
    """The first of them with their states; all are in the details."""
    return first_of([f"{each.name} {_states(each)}" for each in devices], 4)


def _states(device: RdmaDevice) -> str:
    told = ("/".join(filter(None, (p.state, p.phys_state))) for p in device.ports)
    return ", ".join(told) or "no port"


def _fault(node: Node, device: RdmaDevice) -> str:
    """What keeps the port that is nearest to being up from it, and what to do."""
    maker = maker_of(node, device.address)
    tools = maker.tools if maker is not None else "mlxlink -d DEVICE -m"
    ports = [one for one in device.ports if one.state in {"INIT", "ARMED"}] or list(device.ports)
    if not ports:
        return "no port: see the kernel log"
    one = ports[0]
    if one.state in _WAITS:
        return _WAITS[one.state]
    if one.phys_state == "Disabled" and one.link_layer == "Ethernet":
        net = device.netdevs[0] if device.netdevs else "NETDEV"
        return f"no carrier, or switched off: ip link set {net} up; cable, switch port"
    known = one.phys_state != "LinkUp" or one.link_layer == "InfiniBand"
    return _DOWN.get(one.phys_state if known else "", f"cable, transceiver or switch port; {tools}")


_WAITS = {
    "INIT": "INIT waits for a subnet manager, is one running? sminfo",
    "ARMED": "ARMED: the subnet manager has not finished, see its log",
}
_DOWN = {
    "LinkUp": "the cable is well: of a virtual function its GUID and state at the host (ip link "
    "set PF vf N node_guid ... state auto) and virt_enabled; otherwise the subnet manager's log",
    "Disabled": "switched off: ibportstate LID PORT enable, here or at the switch",
    "Polling": "no partner answers: cable, transceiver, switch port",
    "Sleep": "no partner answers: cable, transceiver, switch port",
}


_UNLIMITED = {"unlimited", "infinity", "-1"}


@check(
    "rdma.memlock",
    impact=Impact.BROKEN,
    tense=Tense.AT_BOOT,
    source="limits.conf(5); systemd-system.conf(5), DefaultLimitMEMLOCK; UCX documentation",
    fix="memlock unlimited in /etc/security/limits.d and DefaultLimitMEMLOCK=infinity",
)
def memlock(node: Node, want: Want) -> Finding:
    """Logins and services may pin as much memory as they ask for.

    PAM limits do not reach services, and systemd's do not reach logins: both are needed.
    Otherwise ibv_reg_mr and ibv_create_cq fail with "Cannot allocate memory". Pods have
    neither: they are given CAP_IPC_LOCK, or the limit of their runtime (ctr.rdma_devices).
    """
    if said := memlock_told(node):
        return said
    login, service = _login_limits(node.memlock_files), _service_limit(node.service_limits)
    short = [
        f"logins ({kind}): {login.get(kind, 'default')}"
        for kind in ("soft", "hard")
        if login.get(kind) not in _UNLIMITED
    ]
    if service not in _UNLIMITED:
        short.append(f"services: {service or 'default'}")
    if short and (pods := in_pods(node)):
        return not_applicable(f"{pods}: they need CAP_IPC_LOCK, not the limits of logins")
    if short:
        return failed("; ".join(short), expected="unlimited for logins and services")
    return passed("unlimited for logins and services")


def _login_limits(text: str) -> dict[str, str]:
    """The last limit of everybody ("*"), soft and hard; later files win."""
    limits: dict[str, str] = {}
    for line in text.split("\n"):
        words = line.partition(":")[2].split("#")[0].split()
        if len(words) == 4 and words[0] == "*" and words[2] == "memlock":
            kinds = ("soft", "hard") if words[1] == "-" else (words[1],)
            limits |= dict.fromkeys(kinds, words[3])
    return limits


def _service_limit(text: str) -> str:
    """The last DefaultLimitMEMLOCK, soft part where there are two; "" for none."""
    found = re.findall(r"^[^:]*:\s*DefaultLimitMEMLOCK\s*=\s*(\S*)", text, re.MULTILINE)
    return found[-1].split(":")[0] if found else ""
