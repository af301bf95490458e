"""What an NCCL log says, in a few lines: channels by device, and distances by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from toolkit.compat import Compat
from toolkit.facts.nccl_log import Decision, Edge


def by_device(edges: Iterable[Edge]) -> tuple[str, ...]:
    """ "NET/IB/3 send: 0 of 2 channels direct", those that are not direct first.

    Devices that stand alike share a line; where several hosts speak, those that have channels
    through host memory are named.
    """
    every: Counter[tuple[str, str, int, str]] = Counter()
    direct: Counter[tuple[str, str, int, str]] = Counter()
    for edge in edges:
        key = edge.host, edge.network, edge.device, edge.direction.value
        every[key] += 1
        direct[key] += edge.gdr
    several = len({host for host, *_ in every}) > 1
    alike: dict[tuple[bool, str, str, int, int, str], list[int]] = {}
    for key, count in sorted(every.items()):
        host, network, device, direction = key
        good = direct[key] == count
        row = good, host if several and not good else "", network, direct[key], count, direction
        if device not in alike.setdefault(row, []):
            alike[row].append(device)
    return tuple(
        f"{host}{' ' if host else ''}NET/{network}/{','.join(map(str, devices))} {direction}: "
        f"{on} of {count} channels direct{' each' if len(devices) > 1 else ''}"
        for (_, host, network, on, count, direction), devices in sorted(alike.items())
    )


def decoded(decision: Decision, version: str, compat: Compat) -> str:
    """One decision with its numbers as names."""
    state = "on" if decision.enabled else "off"
    told = f"GPU {decision.gpu} and HCA {decision.hca}: {state}"
    if decision.distance is None or decision.limit is None:
        return told
    return f"{told}, {meaning(decision.distance, decision.limit, version, compat)}"


def meaning(distance: int, limit: int, version: str, compat: Compat) -> str:
    """ "distance 8 (PHB), limit 5 (PXB)"; where the version is not told, by the versions it fits.

    A default limit is PXB or P2C: the rows of which the printed limit is one fit.
    """
    if version:
        far, near = (compat.path_name(version, number) for number in (distance, limit))
        return f"distance {distance} ({far or 'unknown'}), limit {limit} ({near or 'unknown'})"
    fits = [
        row
        for row in compat.distances
        if limit < len(row.names) and row.names[limit] in {row.limit, row.c2c}
    ]
    names = {row.names[distance] for row in fits if distance < len(row.names)}
    shown = " or ".join(sorted(names)) or "unknown"
    return f"distance {distance} ({shown} by version), limit {limit}"
