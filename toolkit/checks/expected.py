"""Is there in the node what the site expects of it? The table [expect] of the site's file."""

from __future__ import annotations

from toolkit.checks.check import (
    Check,
    Finding,
    Impact,
    check,
    failed,
    not_applicable,
    passed,
    unknown,
)
from toolkit.checks.expected_items import SEEN, Seen, meets
from toolkit.expect import ExpectKey, Value, said
from toolkit.facts.node.node import Node
from toolkit.plural import counted
from toolkit.want import Want

# What there is none of, where nothing at all is seen.
_NONE = {
    **dict.fromkeys(
        (ExpectKey.GPU_MODEL, ExpectKey.GPU_LINK, ExpectKey.BAR1), "no GPU on the PCI bus"
    ),
    **dict.fromkeys((ExpectKey.HCA_LINK, ExpectKey.FIRMWARE), "no HCA"),
    **dict.fromkeys((ExpectKey.LINK_LAYER, ExpectKey.RATE, ExpectKey.MTU), "no port that is up"),
    ExpectKey.DRIVER: "no NVIDIA driver is loaded",
}
_NOUNS = {
    ExpectKey.GPUS: "GPU",
    ExpectKey.NVSWITCHES: "NVSwitch",
    ExpectKey.HCAS: "HCA",
    ExpectKey.PORTS_UP: "port that is up",
}
_LOST = "or the site's file is out of date"


def against(key: ExpectKey, expected: Value, seen: tuple[Seen, ...], hint: str = "") -> Finding:
    """What a node has of one thing beside what is expected."""
    if not seen:
        return failed(_NONE[key], expected=said(key, expected), hint=f"{hint}, {_LOST}")
    if key is ExpectKey.FIRMWARE and isinstance(expected, tuple):
        seen = tuple(each for each in seen if each.other in dict(expected))
        if not seen:
            return failed("no HCA of these boards", expected=said(key, expected), hint=hint)
    met = {each: meets(key, expected, each) for each in seen}
    if wrong := [each for each in seen if met[each] is False]:
        return _failed(key, expected, wrong, len(seen), f"{hint}, {_LOST}")
    if untold := [each for each in seen if met[each] is None]:
        return unknown(f"not told of {untold[0].item}, {said(key, expected)} is expected")
    return passed(_shown(key, seen[0]) if len(seen) == 1 else _all(key, seen))


def _failed(key: ExpectKey, expected: Value, wrong: list[Seen], of: int, hint: str) -> Finding:
    one = f"{wrong[0].item}: " if wrong[0].item else ""
    return failed(
        f"{one}{_shown(key, wrong[0])}" if len(wrong) == 1 else f"{len(wrong)} of {of} differ",
        expected=said(key, expected),
        hint=hint,
        details=tuple(f"{each.item}: {_shown(key, each)}" for each in wrong if each.item),
    )


def _shown(key: ExpectKey, seen: Seen) -> str:
    value = seen.value if seen.value is not None else seen.other
    if key is ExpectKey.MTU and seen.other:
        return f"{said(key, value)}, net device {seen.other}"
    if key in _NOUNS and isinstance(value, int):
        number = f"{value} {_plural(_NOUNS[key], value)}"
        return f"{number} ({seen.note})" if seen.note else number
    return said(key, value)


def _plural(noun: str, number: int) -> str:
    if number == 1:
        return noun
    return {"NVSwitch": "NVSwitches", "port that is up": "ports that are up"}.get(noun, f"{noun}s")


def _all(key: ExpectKey, seen: tuple[Seen, ...]) -> str:
    shown = sorted({_shown(key, each) for each in seen})
    more = " and more" if len(shown) > 3 else ""
    return f"{', '.join(shown[:3])}{more} on {counted(len(seen), 'device')}"


def _check(name: str, impact: Impact, title: str, *, source: str, fix: str, hint: str) -> Check:
    """:param title: with what else ``explain`` prints below it.
    :param source: beside the site's file; ``hint``: what shows it on the node.
    """

    key = ExpectKey(name.removeprefix("expect."))

    def judge(node: Node, want: Want) -> Finding:
        expected = want.expect[key]
        if expected is None:
            return not_applicable(f"no {key} in [expect] of the site's file")
        return against(key, expected, SEEN[key](node), hint)

    judge.__doc__ = title
    source = f"the site's file, [expect] and [[group]]: {key}; {source}"
    return check(name, impact=impact, source=source, fix=fix, needs_gpu=False)(judge)


EXPECTED = (
    _check(
        "expect.gpus",
        Impact.BROKEN,
        """The node has as many GPUs as the site expects.

        A node that has lost a GPU is in order in every other respect, and one that has lost them
        all looks like a node without GPUs. A GPU that answers no more counts as lost, though it
        keeps its place on the bus until the next boot.
        """,
        source="/sys/bus/pci/devices; nvidia-smi",
        fix="drain the node and see why a GPU is gone: dmesg, Xid 79; a power cycle, then the "
        "maker",
        hint="lspci -d 10de:, nvidia-smi -L; dmesg | grep -i xid",
    ),
    _check(
        "expect.gpu_model",
        Impact.BROKEN,
        """Every GPU is of the model that the site expects.

        The words of the expected name must be in the name that nvidia-smi tells: "H100" is any
        H100. A PCI id such as "10de:2330" needs no driver.
        """,
        source="nvidia-smi; /sys/bus/pci/devices/*/device",
        fix="the GPU that was bought, or the site's file as the node is",
        hint="nvidia-smi -L",
    ),
    _check(
        "expect.nvswitches",
        Impact.BROKEN,
        """The node has as many NVSwitches as the site expects.

        The fabric manager does not start, or leaves GPUs out, where one is missing.
        """,
        source="/sys/bus/pci/devices, class 0680",
        fix="drain the node: dmesg, SXid; a power cycle, then the maker",
        hint="lspci -d 10de: -nn; dmesg | grep -i sxid",
    ),
    _check(
        "expect.gpu_link",
        Impact.SLOW,
        """The PCIe link of every GPU is at least what the site expects.

        An idle GPU lowers its speed: judged are the lanes, and the speed that both ends can.
        """,
        source="/sys/bus/pci/devices/*/{current,max}_link_{speed,width}",
        fix="reseat the card or its riser; link speed and bifurcation in the BIOS",
        hint="nvidia-smi -q | grep -A9 'GPU Link Info'",
    ),
    _check(
        "expect.bar1",
        Impact.SLOW,
        """BAR1 of every GPU is at least as large as the site expects.

        A board that was exchanged comes with the BIOS's defaults.
        """,
        source="/sys/bus/pci/devices/*/resource",
        fix="Above 4G decoding and Resizable BAR on in the BIOS, and enough 64-bit MMIO space",
        hint="nvidia-smi -q | grep -A3 BAR1",
    ),
    _check(
        "expect.hcas",
        Impact.BROKEN,
        """The node has as many HCAs as the site expects.

        Counted are PCI functions with an RDMA device, two of a card with two ports, and no virtual
        functions. Without a single RDMA device those count that could have one.
        """,
        source="/sys/class/infiniband; /sys/bus/pci/devices",
        fix="see why the HCA is gone: dmesg; reseat it, then a power cycle",
        hint="ibstat -l, lspci -d 15b3:; dmesg | grep -i mlx5",
    ),
    _check(
        "expect.hca_link",
        Impact.SLOW,
        """The PCIe link of every HCA that serves GPUs is at least what the site expects.""",
        source="/sys/bus/pci/devices/*/current_link_{speed,width}",
        fix="reseat the card or its riser; link speed and bifurcation in the BIOS",
        hint="lspci -vv -s ADDRESS | grep LnkSta",
    ),
    _check(
        "expect.firmware",
        Impact.FRAGILE,
        """The HCAs that serve GPUs run the firmware that the site expects.

        One version for all of them, or one for each board: firmware = { MT_0000000838 = "28.43" }.
        """,
        source="/sys/class/infiniband/*/{fw_ver,board_id}",
        fix="flash the expected one (mlxfwmanager, flint) on a drained node, then a power cycle",
        hint="ibstat | grep -i firmware",
    ),
    _check(
        "expect.ports_up",
        Impact.BROKEN,
        """As many ports are up as the site expects.

        All RDMA ports of the node count, those for storage too; virtual functions do not.
        """,
        source="/sys/class/infiniband/*/ports/*/{state,phys_state}",
        fix="cable, transceiver or switch port of the one that is down; see rdma.port",
        hint="ibstat; ip -br link",
    ),
    _check(
        "expect.link_layer",
        Impact.BROKEN,
        """Ports that serve GPUs are of the fabric that the site expects.

        A card for both kinds that was exchanged comes with its maker's choice, and no link.
        """,
        source="/sys/class/infiniband/*/ports/*/link_layer",
        fix="mlxconfig -d DEVICE set LINK_TYPE_P1=1 (InfiniBand) or 2 (Ethernet), then a power "
        "cycle of the drained node: the port is down until then",
        hint="ibstat | grep 'Link layer'",
    ),
    _check(
        "expect.rate",
        Impact.SLOW,
        """Every port that serves GPUs and is up has at least the rate that the site expects.

        Where all ports of a node, or all nodes, are equally slow, nothing else tells.
        """,
        source="/sys/class/infiniband/*/ports/*/rate",
        fix="cable, transceiver and switch port of the slower one; the card that was bought",
        hint="ibstat | grep Rate",
    ),
    _check(
        "expect.mtu",
        Impact.SLOW,
        """Ports that serve GPUs have the MTU that the site expects.

        Up to 4096 it is the RDMA port's, above that the net device's of a RoCE port.
        """,
        source="ibv_devinfo, active_mtu; /sys/class/net/*/mtu; "
        "include/rdma/ib_addr.h, iboe_get_mtu",
        fix="MTU of the net device, at both ends and on the switch; for InfiniBand, the subnet "
        "manager's partition",
        hint="ibv_devinfo | grep active_mtu; ip link",
    ),
    _check(
        "expect.driver",
        Impact.FRAGILE,
        """The NVIDIA driver is of the version, or of the branch, that the site expects.""",
        source="/proc/driver/nvidia/version",
        fix="the site's own way of installing the driver, on a drained node",
        hint="cat /proc/driver/nvidia/version",
    ),
    _check(
        "expect.ofed",
        Impact.FRAGILE,
        """The RDMA stack is the one that the site expects.""",
        source="ofed_info -s, the version of mlx5_core",
        fix="the site's own way of installing the RDMA stack, on a drained node",
        hint="ofed_info -s; modinfo mlx5_core",
    ),
    _check(
        "expect.kernel",
        Impact.FRAGILE,
        """The running kernel is the one that the site expects.""",
        source="uname -r",
        fix="install that kernel and reboot the drained node into it",
        hint="uname -r; grubby --default-kernel",
    ),
)
