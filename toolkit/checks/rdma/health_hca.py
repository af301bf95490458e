"""What the kernel and the ports tell of the health of HCAs and of their links."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from toolkit.checks.check import (
    Finding,
    Impact,
    Status,
    check,
    failed,
    not_applicable,
    passed,
    unknown,
)
from toolkit.checks.rdma.makers import has_connectx
from toolkit.checks.rdma.pasted_ports import errors_told
from toolkit.facts.gpu.kernel_trouble import Trouble
from toolkit.facts.node.node import Node
from toolkit.facts.rdma.hca_health import WATCHED, Counters, full
from toolkit.plural import counted, first_of
from toolkit.want import Want

_WATCHED = " or ".join((", ".join(sorted(WATCHED)[:-1]), sorted(WATCHED)[-1]))
HOUR, DAY = 3600, 86400
_SHOWN = 3
# Of the link below; more an hour than a good link has on the average since boot.
_AN_HOUR = {"symbol_error": 36000, "link_error_recovery": 300, "port_rcv_errors": 36000}
_NEVER = ("local_link_integrity_errors", "excessive_buffer_overrun_errors")
_LEAST_S = 600  # between two readings that make a rate
_FLAPS = 5  # a link goes down with its switch, or when somebody pulls the cable


@check(
    "hca.health",
    impact=Impact.SICK,
    source="Linux, drivers/net/ethernet/mellanox/mlx5/core health.c (poll_health, "
    "print_health_info), cmd.c (wait_func, cb_timeout_handler) and events.c (port_module); "
    "broadcom/bnxt, intel/ice, pensando/ionic; drivers/infiniband/hw/irdma and efa/efa_com.c",
    fix="drain the node, reboot it cold; update the HCA's firmware; exchange what comes again: the "
    "HCA, or the cable or module that its driver has shut off",
)
def hca_health(node: Node, want: Want) -> Finding:
    """No driver has logged a failing HCA, or a cable that it had to shut off.

    A firmware that no longer counts ("health compromised"), a fatal sensor, a syndrome of the
    firmware, a command or admin queue that is never answered: jobs then hang rather than fail. A
    module with "Cable error" carries no traffic until it is plugged anew; "Cable unplugged" is what
    unused ports say. "Fatal error 3" is a function that was switched off, and "insufficient power
    (27W)" is printed by good cards.
    """
    every = node.hca_troubles
    told = [each for each in every if each.sick]
    if told:
        by_hca: dict[str, list[Trouble]] = {}
        for each in told:
            by_hca.setdefault(each.address or "one that the log does not name", []).append(each)
        tool = "mlxfwmanager" if has_connectx(node) else "its maker's tool"
        return failed(
            f"{counted(len(by_hca), 'HCA')} with failing firmware or hardware: {', '.join(by_hca)}",
            expected="no word of failing health",
            hint=f"drain the node and reboot it cold; {tool} shows newer firmware",
            details=tuple(line for group in by_hca.values() for line in _shown(group)),
        )
    if every:
        return unknown(
            f"{every[0].address}: its firmware dumped its health; the syndrome is not in the log",
            hint="dmesg | grep -i synd; devlink health show",
        )
    refused = tuple(node.refused_commands)
    if refused and not node.knows_pci:
        return _refused(refused)
    if not any(each.driver in WATCHED for each in node.hcas):
        return not_applicable(f"no HCA that {_WATCHED} drives: no other driver is known here")
    return passed(f"nothing {node.log_reaches}", details=_words(refused))


def _words(refused: tuple[Trouble, ...]) -> tuple[str, ...]:
    told = Counter(f"{each.address or 'an HCA'} refused {each.text}" for each in refused)
    return tuple(words + (f", {count} times" if count > 1 else "") for words, count in told.items())


def _refused(refused: tuple[Trouble, ...]) -> Finding:
    """A key may be refused to any memory: that of a GPU that nothing pins, of storage, or too much.

    Whose it was stands in the words of the program, at that time.
    """
    words = _words(refused)
    return unknown(
        f"{first_of(words)}; for which memory the log does not tell",
        hint="what the job said then (NCCL_DEBUG=INFO, UCX_LOG_LEVEL=debug); is nvidia-peermem "
        "loaded? rdma resource show tells how many keys are in use",
    )


def _shown(group: list[Trouble]) -> list[str]:
    lines = [f"{each.text}{f', {each.when}' if each.when else ''}" for each in group[:_SHOWN]]
    left = len(group) - len(lines)
    return lines + ([f"{group[0].address}: {left} more like these"] if left else [])


@check(
    "port.errors",
    impact=Impact.SICK,
    source="/sys/class/infiniband/*/ports/*/counters (IBTA PortCounters); thresholds of "
    "NVIDIA/NVSentinel, nic-health-monitor, link counter detection; ibdiagnet user manual, Bit "
    "Error Rate (--ber_thresh); Linux, mlx5/counters.rst",
    fix="clean and reseat the cable or transceiver, then exchange it, then the HCA's port",
)
def port_errors(node: Node, want: Want) -> Finding:
    """The links of RDMA ports are sound: they stay up, and few of their symbols are lost.

    Counted since the driver was loaded and told as a mean over the time since boot. A link that
    is bad since an hour would hide in it: where an earlier run has read the same counters since
    the same boot, what came since then is judged as well. What queue pairs count (timeouts of
    acknowledgements, packets out of sequence) is shown and not judged: the other end, or its
    job, may be the cause. Many counters are of 4, 8 or 16 bits: a full one tells no rate.
    mlxlink and ethtool -S, given as text, tell the share of bits that is lost after correction:
    more than 1e-12, over five minutes or longer, is a bad link, as is a module's own alarm.
    """
    if (said := errors_told(node)) and (said.status is Status.FAIL or not node.has_rdma):
        return said
    ports = node.port_errors
    if not ports:
        return not_applicable("no counters of RDMA ports were read")
    # The uptime stands with the AER counters; without them a mean cannot be told.
    hours = max(1.0, node.aer.uptime / HOUR) if node.aer else 0.0
    since = f"in {hours:.0f} h" if hours else "since the driver was loaded"
    bad = _bad(ports, hours)
    recent, between = _since_earlier(node)
    fresh = _bad(recent, between)
    if bad or fresh:
        since = since if bad else f"in the last {_span(between)}"
        lately = tuple(f"{each}, in the last {_span(between)}" for each in fresh.values())
        return failed(
            f"errors on {len({*bad, *fresh})} of {counted(len(ports), 'port')} {since}",
            expected="a link that stays up, without errors of note",
            hint="drain the node; mlxlink -d DEVICE -c -e shows the cable and its eye",
            details=(*bad.values(), *lately),
        )
    if ended := _full(ports):
        hint = "perfquery -x; perfquery -R sets it back to zero, then read it again in an hour"
        return unknown(f"{ended} is all that it can count: no rate", hint=hint)
    seen = tuple(
        f"{device} port {port}: {words}"
        for (device, port), counts in ports.items()
        if (words := ", ".join(f"{name} {count}" for name, count in counts.items() if count))
    )
    return passed(f"none of note on {counted(len(ports), 'port')} {since}", details=seen)


def _full(ports: Counters) -> str:
    ended = (
        f"{device} port {port}: {name} {counts[name]}"
        for (device, port), counts in ports.items()
        for name in (*_AN_HOUR, "link_downed")
        if full(name, counts.get(name, 0))
    )
    return next(ended, "")


def _bad(ports: Counters, hours: float) -> dict[tuple[str, int], str]:
    return {
        (device, port): f"{device} port {port}: {words}"
        for (device, port), counts in ports.items()
        if (words := ", ".join(_over(counts, hours)))
    }


def _since_earlier(node: Node) -> tuple[Counters, float]:
    """What the ports counted since an earlier run, and in how many hours; nothing without one."""
    earlier, aer = node.earlier_ports, node.aer
    if earlier is None or aer is None or aer.uptime - earlier[0] < _LEAST_S:
        return {}, 0.0
    before = earlier[1]
    more = {
        port: {name: count - before[port].get(name, 0) for name, count in counts.items()}
        for port, counts in node.port_errors.items()
        if port in before
    }
    return more, (aer.uptime - earlier[0]) / HOUR


def _span(hours: float) -> str:
    return f"{hours:.0f} h" if hours >= 2 else f"{hours * 60:.0f} min"


def _over(counts: Mapping[str, int], hours: float) -> list[str]:
    told = [f"{name} {counts[name]}" for name in _NEVER if counts.get(name)]
    if not hours:
        return told
    told += [
        f"{name} {counts[name] / hours:.0f} an hour"
        for name, limit in _AN_HOUR.items()
        if counts.get(name, 0) / hours > limit
    ]
    down = counts.get("link_downed", 0)
    if down > _FLAPS and down > hours * HOUR / DAY:
        told.append(f"link_downed {down}")
    return told
