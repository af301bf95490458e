"""What the drivers of HCAs logged of failing firmware, hardware and cables.

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
from collections.abc import Iterable
from dataclasses import dataclass, replace

from toolkit.facts.gpu.driver import normal_address
from toolkit.facts.gpu.kernel_trouble import Trouble, when

_ADDRESS = r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.\d"
_DRIVERS = ("mlx5_core", "mlx5_ib", "bnxt_en", "bnxt_re", "ice", "irdma", "efa", "ionic")
WATCHED = frozenset({"mlx5_core", "bnxt_en", "ice", "efa", "ionic"})  # of PCI functions
_LINE = re.compile(
    rf"(?<![\w.-])(?:({'|'.join(_DRIVERS)}|ionic_rdma|infiniband)(?: ({_ADDRESS}))?(?: [\w.@-]+)?: "
    r"|(?=mlx5_\w+:\d+:\(pid \d+\): ))(.*)"
)
_RDMA_NAME = re.compile(r"infiniband ([\w.@-]+): ")


@dataclass(frozen=True, slots=True)
class _Rule:
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
