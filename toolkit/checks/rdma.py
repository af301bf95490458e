"""Are the HCAs RDMA devices, are their ports up, and may jobs pin memory?"""

from __future__ import annotations

import re

from toolkit.checks.check import Finding, Impact, Tense, check, failed, passed
from toolkit.facts.node import Node
from toolkit.facts.rdma import RdmaDevice
from toolkit.facts.topology import path_pairs
from toolkit.want import Want


@check(
    "rdma.devices",
    impact=Impact.BROKEN,
    source="/sys/class/infiniband, /dev/infiniband; rdma-core documentation",
    fix="modprobe mlx5_ib ib_uverbs; install rdma-core for the device nodes",
)
def devices(node: Node, want: Want) -> Finding:
    """Every HCA on the PCI bus is an RDMA device that user space can open."""
    driven = {each.address for each in node.rdma_devices}
    functions = node.pci.functions.values()
    # A function given to a guest, or a virtual one, is not this node's to drive.
    idle = [
        each.address
        for each in functions
        if each.may_be_hca
        and not each.virtual
        and each.driver != "vfio-pci"
        and each.address not in driven
    ]
    if not node.rdma_devices:
        return failed(
            f"no RDMA device; {len(idle)} HCAs on the PCI bus"
            if idle
            else "no RDMA device, no HCA",
            expected="an RDMA device for each HCA",
            details=tuple(idle),
        )
    if idle:
        return failed(
            f"no RDMA device for {len(idle)} of {len(idle) + len(driven)} HCAs",
            expected="an RDMA device for each HCA",
            details=tuple(idle),
        )
    if not any("/uverbs" in path for path in node.rdma_nodes):
        return failed(
            "no /dev/infiniband/uverbs*", expected="a uverbs node", hint="modprobe ib_uverbs"
        )
    return passed(f"{len(node.rdma_devices)} devices")


@check(
    "rdma.port",
    impact=Impact.BROKEN,
    source="/sys/class/infiniband/*/ports; Azure/azurehpc-health-checks",
    fix="cable, switch port or subnet manager; a port in INIT waits for a subnet manager",
)
def port(node: Node, want: Want) -> Finding:
    """Each HCA that shares a switch with a GPU has a port that is up.

    Judged are the HCAs that serve GPUs, where topology tells which those are: an unused
    management or storage port is no fault.
    """
    pairs = path_pairs(node.pci, node.hcas)
    near = {each.hca.address for each in pairs}
    judged = [each for each in node.rdma_devices if each.address in near] or list(node.rdma_devices)
    down = [each for each in judged if not any(one.up for one in each.ports)]
    if not judged:
        return failed("no RDMA device", expected="ports ACTIVE and LinkUp", hint="see rdma.devices")
    if down:
        return failed(
            f"{len(down)} of {len(judged)} HCAs without a port that is up",
            expected="ACTIVE, LinkUp",
            hint=_port_hint(down),
            details=tuple(f"{each.name}: {_states(each)}" for each in down),
        )
    return passed(f"{len(judged)} HCAs up")


def _states(device: RdmaDevice) -> str:
    return ", ".join(f"{p.state}/{p.phys_state}" for p in device.ports) or "no port"


def _port_hint(down: list[RdmaDevice]) -> str:
    waiting = any(p.state == "INIT" for each in down for p in each.ports)
    return "is a subnet manager running? sminfo" if waiting else ""


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
    Otherwise ibv_reg_mr and ibv_create_cq fail with "Cannot allocate memory".
    """
    login, service = _login_limits(node.memlock_files), _service_limit(node.service_limits)
    short = [
        f"logins ({kind}): {login.get(kind, 'default')}"
        for kind in ("soft", "hard")
        if login.get(kind) not in _UNLIMITED
    ]
    if service not in _UNLIMITED:
        short.append(f"services: {service or 'default'}")
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
