"""What the ports of HCAs sent and received between two moments: who moved the bytes.

Source: /sys/class/infiniband/*/ports/*/counters and hw_counters
(Documentation/ABI/stable/sysfs-class-infiniband; of RDMA drivers' own counters
Documentation/infiniband). port_xmit_data and port_rcv_data count words of four bytes. Soft-RoCE
has no such counters and counts packets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from toolkit.errors import Unparsable
from toolkit.facts.lines import named_lines

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


@dataclass(frozen=True, slots=True)
class Moved:
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
