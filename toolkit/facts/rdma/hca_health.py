"""The health of HCAs: the error counters of their ports, and what their drivers log of them.

Sources: Linux drivers/net/ethernet/mellanox/mlx5/core health.c, cmd.c (mlx5_cmd_check before
Linux 5.18, mlx5_cmd_out_err since; OFED writes the command in small letters) and events.c
(port_module, mlx5_pme_error_to_string); infiniband/hw/mlx5/mr.c (create_mkey_warn);
broadcom/bnxt bnxt.c and bnxt_hwrm.c; intel/ice ice_main.c (ice_rebuild); pensando/ionic
ionic_lif.c and ionic_dev.c (ionic_heartbeat_check); drivers/infiniband/hw/irdma, the event of ice,
and efa/efa_com.c; NVIDIA/NVSentinel, syslog-health-monitor, nicdriver.

A driver names its function, "bnxt_en 0000:3b:00.0 ens1f0np0: "; one that speaks of an RDMA device
alone has "infiniband rdmap0s6: ", and old mlx5 a function of its own, "mlx5_port_module_event:9:".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from toolkit.errors import Unparsable
from toolkit.facts.gpu.driver import normal_address
from toolkit.facts.gpu.kernel_trouble import Trouble, when
from toolkit.facts.lines import named_lines

# What the ports of HCAs sent and received between two moments: who moved the bytes.
# Source: /sys/class/infiniband/*/ports/*/counters and hw_counters
# (Documentation/ABI/stable/sysfs-class-infiniband; of RDMA drivers' own counters
# Documentation/infiniband). port_xmit_data and port_rcv_data count words of four bytes. Soft-RoCE
# has no such counters and counts packets.
SOURCE = "/sys/class/infiniband/*/ports/*"
_WORD = 4  # bytes that one step of port_xmit_data stands for
# Packets where no bytes are counted; drivers name them in their own way.
_SENT, _RECEIVED = ("sent_pkts", "port_xmit_packets"), ("rcvd_pkts", "port_rcv_packets")
# What grows when something is wrong; names of mlx5, rxe and the port counters of InfiniBand.
TROUBLES = (
    *("symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors"),
    *("port_xmit_discards", "port_xmit_constraint_errors", "local_link_integrity_errors"),
    *("excessive_buffer_overrun_errors", "out_of_sequence", "out_of_buffer", "packet_seq_err"),
    *("local_ack_timeout_err", "rnr_nak_retry_err", "implied_nak_seq_err", "req_cqe_error"),
    *("resp_cqe_error", "req_remote_access_errors", "req_transport_retries_exceeded"),
    *("retry_exceeded_err", "retry_rnr_exceeded_err", "out_of_seq_request", "send_err"),
)


class Moved(Struct, frozen=True):
    """What one port did between two looks. None: it was not counted, or the counter ran over."""

    device: str  # "mlx5_0"
    port: int
    sent: int | None  # bytes, headers included
    received: int | None
    sent_packets: int | None = None
    received_packets: int | None = None
    troubles: tuple[tuple[str, int], ...] = ()  # counters of trouble that grew, and by how much

    @property
    def told(self) -> bool:
        """Whether anything was counted at all."""
        counts = (self.sent, self.received, self.sent_packets, self.received_packets)
        return any(each is not None for each in counts)

    @property
    def carried(self) -> int | None:
        """The larger of both directions, in bytes; None where no bytes are counted."""
        told = [each for each in (self.sent, self.received) if each is not None]
        return max(told, default=None)


# Bits of what PortCounters has of these; a counter that is full counts no further (IBTA, 16.1.3.5;
# Linux, drivers/infiniband/core/sysfs.c, PORT_PMA_ATTR).
_BITS = {
    **dict.fromkeys(("link_error_recovery", "link_downed"), 8),
    **dict.fromkeys(("local_link_integrity_errors", "excessive_buffer_overrun_errors"), 4),
}


def full(name: str, count: int) -> bool:
    """Whether a counter stands at its end, so that what came since then is not in it."""
    return count in {(1 << bits) - 1 for bits in (_BITS.get(name, 16), 16, 32, 64)}


Counters = Mapping[tuple[str, int], Mapping[str, int]]  # by device and port, then by name


def parse_hca_counters(text: str) -> Counters:
    """Read "mlx5_0/ports/1/counters/port_xmit_data:123" lines.

    Counters that are no numbers are left out: some say "N/A (no PMA)".

    :raises Unparsable: at a line of another shape.
    """
    found: dict[tuple[str, int], dict[str, int]] = {}
    for number, (name, value) in enumerate(named_lines(text, SOURCE), start=1):
        parts = name.split("/")
        if len(parts) != 5 or parts[1] != "ports" or not parts[2].isdecimal():
            raise Unparsable(SOURCE, f"{name}:{value}", number)
        counters = found.setdefault((parts[0], int(parts[2])), {})
        if value.strip().isdecimal():
            counters[parts[4]] = int(value)
    return found


def moved(before: Counters, after: Counters) -> tuple[Moved, ...]:
    """What each port did between two looks; a port that one look lacks is left out."""
    return tuple(_moved(key, before[key], after[key]) for key in sorted(before) if key in after)


def _moved(key: tuple[str, int], before: Mapping[str, int], after: Mapping[str, int]) -> Moved:
    def grew(name: str) -> int | None:
        if name not in before or name not in after or after[name] < before[name]:
            return None
        return after[name] - before[name]

    def words(name: str) -> int | None:
        found = grew(name)
        return None if found is None else found * _WORD

    def packets(names: tuple[str, ...]) -> int | None:
        return next((found for name in names if (found := grew(name)) is not None), None)

    troubles = tuple((name, count) for name in TROUBLES if (count := grew(name)))
    return Moved(
        *key,
        words("port_xmit_data"),
        words("port_rcv_data"),
        packets(_SENT),
        packets(_RECEIVED),
        troubles,
    )


_ADDRESS = r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.\d"
_DRIVERS = ("mlx5_core", "mlx5_ib", "bnxt_en", "bnxt_re", "ice", "irdma", "efa", "ionic")
WATCHED = frozenset({"mlx5_core", "bnxt_en", "ice", "efa", "ionic"})  # of PCI functions
_LINE = re.compile(
    rf"(?<![\w.-])(?:({'|'.join(_DRIVERS)}|ionic_rdma|infiniband)(?: ({_ADDRESS}))?(?: [\w.@-]+)?: "
    r"|(?=mlx5_\w+:\d+:\(pid \d+\): ))(.*)"
)
_RDMA_NAME = re.compile(r"infiniband ([\w.@-]+): ")


class _Rule(Struct, frozen=True):
    """What one driver says of one kind of trouble; a group named "part" tells parts apart."""

    driver: str  # pattern of its name
    says: re.Pattern[str]
    mended: re.Pattern[str] | None = None  # what takes it back, of the same part


def _rule(driver: str, says: str, mended: str = "") -> _Rule:
    return _Rule(driver, re.compile(says), re.compile(mended) if mended else None)


_MODULE = r"Port module event(?:\[\w+\])?: module (?P<part>\d+), "
_RULES = (
    _rule(r"mlx5\w*", rf"{_MODULE}Cable error", rf"{_MODULE}Cable (?:un)?plugged"),
    _rule(
        r"bnxt\w*",
        r"Firmware not responding|Fatal firmware reset event|Firmware fatal reset event"
        r"|Firmware reset aborted"
        r"|abandoning msg.* due to firmware status|\bF(?:irm)?W(?:are)? fatal error",
    ),
    _rule(r"ice|irdma", r"Rebuild failed, unload and reload|critical PE Error|HMC Error"
          r"|PE Push Error|CRIT_?ERR|Requesting a reset"),
    _rule(
        r"efa",
        r"Admin queue (?:is closed|.*timeout)|The device (?:sent a completion but the driver didn't"
        r"|didn't send any completion)|Wait for completion \(polling\) timeout"
        r"|Reset indication didn't turn|Device isn't ready",
    ),
    _rule(r"ionic\w*", r"FW heartbeat stalled", r"FW heartbeat restored|FW Up: LIFs restarted"),
    _rule(r"ionic\w*", r"FW (?:is )?[Dd]own|FW Up: LIFs restart failed", r"FW Up: LIFs restarted"),
)  # fmt: skip


# What mlx5_core says; "Fatal error 3" is a function that was switched off, as VFs are.
_FATAL = re.compile(r"Fatal error (\d+) detected")
_ISSUE = re.compile(r"Health issue observed, .*severity\((\d)\)")
_SYNDROME = re.compile(r"\bsynd 0x([0-9a-f]+): (.+)")
_DUMP = re.compile(r"\bassert_(?:var\[\d+\]|exit_ptr|callra) 0x[0-9a-f]+")
_OTHERS = re.compile(
    r"health compromised|timeout\. Will cause a leak of a command resource"
    r"|in (?:pre-)?initializing state, aborting"
    r"|pci channel state = [23]\b|health recovery (?:flow aborted|failed)"
)
_OFF_BY_INTENT, _ERROR, _HOT = "3", 3, 0x10
# A command of the kernel's own by which memory or a queue was to be made; many others are asked of
# firmware that may refuse them, and harm nobody.
_COMMAND = re.compile(
    r"\b(CREATE_(?:MKEY|QP|CQ|DCT|SRQ|UMEM))\(0x[0-9a-f]+\) op_mod\(0x[0-9a-f]+\) failed, "
    r"status ([\w (]+[\w)])\(0x([0-9a-f]+)\), syndrome \(0x[0-9a-f]+\)",
    re.IGNORECASE,
)
_ASYNC = re.compile(r"\b(async reg mr) failed\. status (-\d+)")
# efa_com_cmd.c and bnxt_re's ib_verbs.c; EFA names the command, and then the memory in a line more.
_NAMED = re.compile(
    r"(?<=Failed to )(?:process command (?:REG_MR|CREATE_(?:QP|CQ|AH)|ALLOC_PD) \(opcode \d+\)"
    r"|register (?:user )?mr\b).*",
    re.IGNORECASE,
)
_REFUSED = (_COMMAND, _ASYNC, _NAMED)
_INTERNAL = 1  # MLX5_CMD_STAT_INT_ERR


def hca_troubles(lines: Iterable[str]) -> tuple[Trouble, ...]:
    """What the drivers say of the health of their HCAs, each line that counts, oldest first.

    What a driver took back later is left out. A dump of mlx5's health buffer is made for any
    syndrome, that of heat too: where the log lost the syndrome, whether it is ill is not known.
    """
    told: _Told = []
    for line in lines:
        found = _LINE.search(line)
        if found is None:
            continue
        named = _RDMA_NAME.search(line)
        device = normal_address(found[2]) if found[2] else named[1] if named else ""
        trouble = Trouble(device, when(line), line[found.start() :].strip())
        driver = found[1] or "mlx5_core"
        if driver.startswith("mlx5"):
            told = _mlx5(told, trouble, found[3])
        for number, rule in enumerate(_RULES):
            if driver == "infiniband" or re.fullmatch(rule.driver, driver):
                told = _ruled(told, trouble, (number, rule), found[3])
    return tuple(trouble for _, trouble in told)


def refused_commands(lines: Iterable[str]) -> tuple[Trouble, ...]:
    """What firmware refused to make, oldest first: keys of memory, queues; why it does not say."""
    told = []
    for line in lines:
        found = _LINE.search(line)
        said = found and next(filter(None, (each.search(found[3]) for each in _REFUSED)), None)
        if found and said:
            named = _RDMA_NAME.search(line)
            device = normal_address(found[2]) if found[2] else named[1] if named else ""
            words = f"{said[1].upper()}: {said[2]}" if said.re is _COMMAND else said[0]
            told.append(Trouble(device, when(line), words, sick=None))
    return tuple(told)


_Key = tuple[str, int, str]  # the device, the number of the rule, the part
_Told = list[tuple[_Key, Trouble]]


def _ruled(told: _Told, trouble: Trouble, rule: tuple[int, _Rule], said: str) -> _Told:
    """With this line, or without those that it takes back."""
    number, each = rule
    if each.mended is not None and (over := each.mended.search(said)):
        key = trouble.address, number, over.groupdict().get("part", "")
        return [one for one in told if one[0] != key]
    if ill := each.says.search(said):
        return [*told, ((trouble.address, number, ill.groupdict().get("part", "")), trouble)]
    return told


def _mlx5(told: _Told, trouble: Trouble, said: str) -> _Told:
    key = trouble.address, _DUMPED, ""
    sick = _mlx5_sick(said)
    if sick is None:
        begun = any(one[0] == key for one in told)
        if begun or not _DUMP.search(said):
            return told
        return [*told, (key, replace(trouble, sick=None))]
    told = [one for one in told if one[0] != key]  # the syndrome of what was dumped
    return [*told, ((trouble.address, _MLX5, ""), trouble)] if sick else told


_DUMPED, _MLX5 = -2, -1  # in place of a rule's number


def _mlx5_sick(said: str) -> bool | None:
    """Whether mlx5_core tells of failing health; None where the line is not of it."""
    if (refused := _COMMAND.search(said)) and int(refused[3], 16) == _INTERNAL:
        return True
    if fatal := _FATAL.search(said):
        return fatal[1] != _OFF_BY_INTENT
    if issue := _ISSUE.search(said):
        return int(issue[1]) <= _ERROR
    if syndrome := _SYNDROME.search(said):
        return int(syndrome[1], 16) not in {0, _HOT}
    return True if _OTHERS.search(said) else None
