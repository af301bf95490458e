"""What mlxlink and ethtool tell of single ports, for the checks of ports, rates, errors, PCIe.

One port is asked at a time, so that a sound one leaves the others open: it passes no check.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from toolkit.checks.check import Finding, Status, failed, unknown
from toolkit.checks.role import role
from toolkit.facts.node.node import Node
from toolkit.facts.rdma.firmware_tools import UNPLUGGED, Link
from toolkit.plural import counted, first_of
from toolkit.want import Role, Want

# What a sound link loses after correction: ibdiagnet's manual, --ber_thresh; and for how long that
# manual has errors counted first, in minutes.
MOST_ERRORS, LEAST_MINUTES = 1e-12, 5.0
_FAR = 4  # times slower than both ends of its cable can: two generations, which no switch explains
OTHERS = "the other ports were not given: ibstat"


def devices_told(node: Node) -> Finding | None:
    """What loose files tell that have no ports, or from a user space that sees none."""
    if node.devinfo_given and node.devinfo_trouble:
        return failed(
            node.devinfo_trouble,
            expected="every HCA in ibv_devinfo",
            hint="in a container: --device /dev/infiniband; libibverbs and its providers "
            "(ibverbs-providers, rdma-core) of one version; else ls /sys/class/infiniband",
        )
    if node.nodes_listed and (told := _nodes(node)):
        return told
    if not node.tells_rdma and (listing := node.lists_no_hca):
        hint = "lspci -nn | grep -E '\\[02(00|07)\\]' tells whether there is one without a driver"
        return failed(f"no RDMA device, no HCA in the {listing}", expected="an HCA", hint=hint)
    if not node.tells_rdma and node.listed_devices is not None:
        # What a list of names tells, which has neither ports nor the HCAs that have no device.
        names = [each.name for each in node.listed_devices]
        soft = [name for name in names if re.match(r"rxe|siw", name)]
        if len(soft) < len(names):
            found = (
                f"{counted(len(names), 'RDMA device')} listed; whether each HCA has one is not told"
            )
            return unknown(found, hint="lspci -nn; ibstat tells of their ports")
        return failed(
            f"no HCA: only software devices {', '.join(soft)}"
            if soft
            else "no RDMA device is listed",
            expected="an RDMA device for each HCA",
            hint="lspci -nn tells whether there is an HCA; dmesg, why its driver has none",
        )
    return None


def _nodes(node: Node) -> Finding | None:
    uverbs = [path for path in node.rdma_nodes if "/uverbs" in path]
    if node.no_uverbs:
        return failed(
            "no /dev/infiniband/uverbs*: user space can open no RDMA device",
            expected="a uverbs node for each HCA",
            hint="modprobe ib_uverbs, and the HCA's driver (lsmod, ibstat); in a container "
            "--device /dev/infiniband, or a device plugin's resource",
        )
    if node.tells_rdma or node.listed_devices is not None:
        return None
    if not uverbs:
        return unknown(
            "no uverbs node in what was listed of /dev/infiniband, which may be a part of it",
            hint="ls -l /dev/infiniband, whole, with the next prompt; ibv_devinfo",
        )
    who = f"; only {node.nodes_closed} may open them" if node.nodes_closed else ""
    return unknown(
        f"{counted(len(uverbs), 'uverbs node')}{who}; whether each HCA has one is not told",
        hint="ibstat; lspci -nn; ibv_devinfo as the user who runs the job",
    )


def listed_beside(node: Node, hcas: int) -> Finding:
    """Lists of RDMA devices tell no PCI address: beside lspci no more than their number counts."""
    found = counted(len(node.rdma_hardware), "RDMA device")
    left = "whether each HCA has one" if len(node.rdma_hardware) < hcas else "user space's side"
    return unknown(
        f"{found}, {counted(hcas, 'HCA')} on the PCI bus; {left} is not told",
        hint="ls -l /sys/class/infiniband; ls /dev/infiniband",
    )


def _words(link: Link) -> str:
    told = [f"{link.speed:g} Gb/s" if link.speed else "", *(f"{k} {v}" for k, v in link.facts)]
    return ", ".join(filter(None, told)) or "up"


def port_told(node: Node) -> Finding | None:
    """Whether the links that mlxlink was asked about are up; None where it was not.

    A port without a cable beside one that is up is a second port that nobody uses, or may be.
    """
    links = node.said_links
    spare = any(each.up for each in links.values())
    down = {
        name: each
        for name, each in links.items()
        if not (each.up or (spare and each.opcode == UNPLUGGED))
    }
    if down:
        return failed(
            f"{len(down)} of {counted(len(links), 'link')} not up: "
            + ", ".join(f"{name} {each.state}" for name, each in down.items()),
            expected="Active",
            hint=next((e.diagnosis for e in down.values() if e.diagnosis), "")
            or "cable, transceiver, switch port; mlxlink -d DEVICE -m shows the module",
            details=tuple(f"{n}: {e.diagnosis}" for n, e in down.items() if e.diagnosis),
        )
    told = "; ".join(f"{n}: {_words(e)}" for n, e in links.items() if e.up)
    return unknown(f"the link is up, {told}", hint=OTHERS) if told else None


def rate_told(node: Node) -> Finding | None:
    """Whether a link is slower than it is set to and its cable can be; None where it is not.

    A slower switch makes a link slower, which is no fault.
    """
    links = {name: each for name, each in node.said_links.items() if each.up and each.best}
    slow = {name: each for name, each in links.items() if each.speed < each.best}
    narrow = {n: e for n, e in node.said_links.items() if e.up and e.infiniband and e.width == 1}
    alike = {
        name: each
        for name, each in slow.items()
        if any(other.best == each.best and other.speed > each.speed for other in links.values())
    }
    far = {name: each for name, each in slow.items() if each.speed * _FAR < each.best}
    if wrong := {**narrow, **alike, **far}:
        return failed(
            f"{counted(len(wrong), 'port')} slower than they can be: {', '.join(wrong)}",
            expected="the speed that both ends and the cable can",
            details=tuple(
                f"{n}: {e.speed:g} of {e.best:g} Gb/s, {e.width}x" for n, e in wrong.items()
            ),
        )
    if slow:
        name, each = next(iter(slow.items()))
        return unknown(
            f"{name}: {each.speed:g} of {each.best:g} Gb/s; whether its switch can more is untold",
            hint="the speed that the switch's port is set to, and can",
        )
    return None


def errors_told(node: Node) -> Finding | None:
    """Whether a link loses more than a sound one; None where neither tool was asked."""
    found = [each for each in (_by_mlxlink(node), _by_counters(node), _by_modules(node)) if each]
    return next((each for each in found if each.status is Status.FAIL), next(iter(found), None))


def _by_mlxlink(node: Node) -> Finding | None:
    up = {name: each for name, each in node.said_links.items() if each.up}
    ill = {name: why for name, each in up.items() if (why := _ill(each))}
    if ill:
        return failed(
            f"{counted(len(ill), 'link')} not sound: {next(iter(ill))}: {next(iter(ill.values()))}",
            expected=f"no more than {MOST_ERRORS:g} of its bits lost after correction",
            hint="drain the node; clean and reseat the cable, then exchange it; mlxlink --pc sets "
            "the counters back",
            details=tuple(f"{name}: {why}" for name, why in ill.items()),
        )
    if not up:
        return None
    short = [name for name, each in up.items() if each.errors < 0 or each.minutes < LEAST_MINUTES]
    if short:
        return unknown(
            f"{short[0]}: errors of {LEAST_MINUTES:g} minutes or more are not told",
            hint="mlxlink -d DEVICE -m -c, with traffic on it",
        )
    return unknown(f"{', '.join(up)}: sound", hint=OTHERS)


def _ill(link: Link) -> str:
    if link.diagnosis:
        return link.diagnosis
    if link.errors > MOST_ERRORS and link.minutes >= LEAST_MINUTES:
        return f"{link.errors:g} of its bits lost after correction in {link.minutes:g} minutes"
    return "; ".join(link.beyond)


_BROKEN = ("module_bus_stuck", "module_bad_shorted")  # the module or its cable, by its own word
_SEEN = (
    *("link_down_events_phy", "rx_crc_errors_phy", "rx_symbol_err_phy", "rx_pcs_symbol_err_phy"),
    *("rx_discards_phy", "tx_discards_phy", "rx_out_of_buffer", "module_high_temp"),
    *("tx_pause_storm_warning_events", "outbound_pci_stalled_wr_events", "rx_steer_missed_packets"),
    *("rx_pci_signal_integrity", "tx_pci_signal_integrity", "outbound_pci_buffer_overflow"),
)
_BITS = 3e13  # that could have been received: five minutes at 100 Gb/s


def _by_counters(node: Node) -> Finding | None:
    """From ``ethtool -S``: of what could be received, how much was lost after correction."""
    told = node.counted_ports
    ill = {net: why for net, counts in told.items() if (why := _lossy(counts))}
    if ill:
        return failed(
            f"{counted(len(ill), 'port')} not sound: {next(iter(ill))}: {next(iter(ill.values()))}",
            expected=f"no more than {MOST_ERRORS:g} of its bits lost after correction",
            hint="drain the node; clean and reseat the cable, then exchange it",
            details=tuple(f"{net}: {why}" for net, why in ill.items()),
        )
    if not told:
        return None
    net, counts = next(iter(told.items()))
    if "rx_pcs_symbol_err_phy" not in counts:
        return unknown(f"{net}: no counter of a kind that is known here", hint="mlxlink -m -c")
    seen = ", ".join(f"{name} {counts[name]}" for name in _SEEN if counts.get(name))
    return unknown(
        f"{net}: {seen or 'no error'} since its driver was loaded",
        hint=f"a second reading an hour later tells what grows; {OTHERS}",
    )


def _lossy(counts: Mapping[str, int]) -> str:
    lost, bits = counts.get("rx_pcs_symbol_err_phy", 0), counts.get("rx_bits_phy", 0)
    if bits >= _BITS and lost / bits > MOST_ERRORS:
        return f"rx_pcs_symbol_err_phy {lost} of {bits:g} bits"
    return ", ".join(f"{name} {counts[name]}" for name in _BROKEN if counts.get(name))


def _by_modules(node: Node) -> Finding | None:
    """From ``ethtool -m``: what the module itself has raised."""
    told = node.ethtool_said.modules
    raised = [why for each in told for why in (*each.alarms, *each.dark)]
    if raised:
        return failed(
            f"a module raises {first_of(raised)}",
            expected="no alarm, and a signal on every lane",
            hint="drain the node; clean and reseat the module, look at its airflow, exchange it",
            details=tuple(raised),
        )
    if not told:
        return None
    warned = ", ".join(why for each in told for why in each.warnings)
    return unknown(f"a module without alarm{f'; {warned}' if warned else ''}", hint=OTHERS)


def drops_told(node: Node) -> Finding | None:
    """Whether ``ethtool -S`` shows a lossless priority that drops; None where it does not."""
    wrong = {net: why for net, counts in node.counted_ports.items() if (why := _dropped(counts))}
    if not wrong:
        return None
    return failed(
        f"{next(iter(wrong))}: {next(iter(wrong.values()))}",
        expected="a priority with PFC drops nothing",
        hint="headroom of the buffer (mlnx_qos --buffer_size, --cable_len), and what keeps the "
        "receiver from emptying it: PCIe, IOMMU, a hung job",
        details=tuple(f"{net}: {why}" for net, why in wrong.items()),
    )


def _dropped(counts: Mapping[str, int]) -> str:
    """Pauses are counted for a priority where PFC is on for it alone."""
    lossless = [p for p in range(8) if f"rx_prio{p}_pause" in counts]
    told = [
        f"PFC on {p}, and rx_prio{p}_discards {counts[f'rx_prio{p}_discards']}"
        for p in lossless
        if counts.get(f"rx_prio{p}_discards")
    ]
    storm = counts.get("tx_pause_storm_error_events")
    told += [f"tx_pause_storm_error_events {storm}: pauses were given up"] if storm else []
    return ", ".join(told)


def firmware_told(node: Node) -> Finding | None:
    """Versions from ``rdma dev``, ``ethtool -i`` or mlxfwmanager; None where none is given."""
    boards: dict[str, dict[str, list[str]]] = {}
    cards = (*node.ethtool_said.drivers, *node.said_firmware)
    owed = next((each.owed for each in cards if each.owed), "")
    for each in cards:
        if each.board:
            boards.setdefault(each.board, {}).setdefault(each.firmware, []).append(each.address)
    if mixed := {board: has for board, has in boards.items() if len(has) > 1}:
        return failed(
            "; ".join(f"{board}: {' and '.join(sorted(has))}" for board, has in mixed.items()),
            expected="one firmware for each board",
            hint=owed,
            details=tuple(
                f"{v}: {', '.join(at)}" for has in mixed.values() for v, at in has.items()
            ),
        )
    told = [f"{e.driver} {e.firmware}".strip() for e in cards if e.firmware]
    told += [f"{e.name} {e.firmware}" for e in node.listed_devices or () if e.firmware]
    if not told:
        return None
    return unknown(
        f"{', '.join(dict.fromkeys(told))}; which are equal boards is not told",
        hint=owed or "ibv_devinfo",
    )


def pcie_told(node: Node) -> Finding | None:
    """What mlxlink says of a card's PCIe link; the slot's own side it does not tell."""
    slow = next((each for each in node.said_pcie_links if each.slower), None)
    if slow is None:
        return None
    return unknown(
        f"x{slow.width} at {slow.speed:g} GT/s of x{slow.best_width} at {slow.best_speed:g}; what "
        "the slot can is not told",
        hint="lspci -vvv",
    )


_LEAST_LOCKED = 1 << 30  # bytes; buffers of a job are larger


def memlock_told(node: Node) -> Finding | None:
    """What shells, processes and files say that may be locked; None where none was asked."""
    limits = node.said_limits
    short = [each for each in limits if 0 <= each.size < _LEAST_LOCKED]
    if short:
        return failed(
            f"{short[0].whose} may lock {short[0].size >> 10} KiB",
            expected="unlimited for logins and services",
            hint="memlock unlimited in /etc/security/limits.d and DefaultLimitMEMLOCK=infinity; "
            "--ulimit memlock=-1 for a container. Root has a limit in containers alone",
            details=tuple(f"{each.whose}: {each.size >> 10} KiB" for each in short[1:]),
        )
    words = (f"{e.whose}: {'unlimited' if e.size < 0 else f'{e.size >> 20} MiB'}" for e in limits)
    hint = "systemctl show -p DefaultLimitMEMLOCK; ulimit -l, where a job runs"
    return unknown(f"{'; '.join(words)}; others are not told", hint=hint) if limits else None


_BUS = "lspci -vvv tells what is in force"


def ats_told(node: Node, want: Want) -> Finding | None:
    """ATS_ENABLED; None where no card tells it, or the evidence has the PCI bus itself."""
    told = _setting_told(node, "ATS_ENABLED")
    off = [card for card, (value, _) in told.items() if value == 0]
    if told and role(node, want) is Role.VM_HOST and off:
        return failed(
            f"ATS_ENABLED is off on {len(off)} of {counted(len(told), 'card')}",
            expected="ATS on each, for guests that do GPUDirect",
            hint=f"mlxconfig -d {off[0]} set ATS_ENABLED=1 writes the HCA's own settings; then "
            "drain the node, cold boot",
            details=tuple(off),
        )
    return _open(node, "ATS_ENABLED")


def ordering_told(node: Node) -> Finding | None:
    """PCI_WR_ORDERING, which says what a card does with whatever was not asked for otherwise."""
    return _open(node, "PCI_WR_ORDERING")


def link_type_told(node: Node) -> Finding | None:
    """LINK_TYPE_P1 and P2: what the ports are set to be; whether they are up it does not tell."""
    found = _open(node, "LINK_TYPE_P1", "LINK_TYPE_P2")
    return found and unknown(f"{found.found}; whether the link is up is not told", hint="ibstat")


def sriov_told(node: Node) -> Finding | None:
    """SRIOV_EN, and how many virtual functions there may be."""
    return _open(node, "SRIOV_EN", "NUM_OF_VFS")


def _open(node: Node, *names: str) -> Finding | None:
    """What the cards say, and that it is not what is in force on the bus."""
    words = [each for name in names if (each := _setting_words(node, name))]
    return unknown("; ".join(words), hint=_BUS) if words else None


def _setting_words(node: Node, name: str) -> str:
    told = _setting_told(node, name)
    by_word: dict[str, list[str]] = {}
    for card, (_, word) in told.items():
        by_word.setdefault(word, []).append(card)
    if len(by_word) == 1:
        return f"{name} {next(iter(by_word))} on {counted(len(told), 'card')}"
    return ", ".join(f"{name} {word} on {' and '.join(cards)}" for word, cards in by_word.items())


def _setting_told(node: Node, name: str) -> dict[str, tuple[int | None, str]]:
    """By card: its number, and its word, with what it is now where the next boot changes it."""
    if node.knows_pci:
        return {}
    found = {each.device: each.settings[name] for each in node.cards if name in each.settings}
    return {
        card: (
            each.next if each.now is None else each.now,
            f"{each.word} after the next boot, {each.now} now" if each.pending else each.word,
        )
        for card, each in found.items()
    }
