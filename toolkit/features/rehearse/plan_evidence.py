"""The evidence of a node as it would read after an upgrade; pure.

A node that was upgraded says the same in all places but those that name the version. So each
frame has the new version where it had the old one; what else a release changes is done by name.
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from toolkit.compat.reader import Compat
from toolkit.compat.rows import build_numbers
from toolkit.errors import NoEvidence, Unparsable, read_or
from toolkit.evidence import Evidence, Frame, State
from toolkit.facts.node.node import Node
from toolkit.facts.rdma.devices import OfedFlavour
from toolkit.upgrade import Upgrade

# What nodes said in the past stays said.
_LOGS = frozenset({"dmesg", "earlier-ports", "dkms-make-logs"})
_FIRMWARE = re.compile(r"(?<![\d.])(\d{2})\.\d{2}\.\d{4}(?![\d.])")


def as_if(evidence: Evidence, upgrade: Upgrade, compat: Compat) -> Evidence:
    """The evidence after it.

    :raises NoEvidence: where a version that would change was not read.
    """
    node = Node(evidence)
    swaps: list[tuple[re.Pattern[str], str]] = []
    if upgrade.driver and node.driver is not None:
        swaps.append((_exactly(str(node.driver.version)), upgrade.driver))
    if upgrade.ofed and node.ofed.version is not None:
        swaps += _ofed_swaps(str(node.ofed.version), upgrade.ofed)
    if upgrade.kernel and upgrade.kernel != node.kernel:
        swaps.append((_exactly(node.kernel), upgrade.kernel))
    if upgrade.firmware:
        line = upgrade.firmware.partition(".")[0]
        swaps.append(
            (re.compile(rf"(?<![\d.]){line}\.\d{{2}}\.\d{{4}}(?![\d.])"), upgrade.firmware)
        )
    changed = evidence.plus(_swapped(each, swaps) for each in evidence.frames.values())
    return changed.plus(_without_memory_peers(node, changed, upgrade, compat))


def firmware_lines(node: Node) -> frozenset[str]:
    """The lines of firmware that the HCAs run: "28" of a ConnectX-7."""
    told = read_or(lambda: [each.firmware for each in node.rdma_devices], [])
    return frozenset(found[1] for each in told if (found := _FIRMWARE.fullmatch(each)))


def _exactly(version: str) -> re.Pattern[str]:
    """A version where it is the whole of one: behind "so." it is, within a longer one not."""
    return re.compile(rf"(?<!\d)(?<!\d\.){re.escape(version)}(?!\.?\d)")


def _ofed_swaps(old: str, new: str) -> list[tuple[re.Pattern[str], str]]:
    """As ofed_info writes it, and as its packages do: 24.10.OFED.24.10.2.1.8.1."""
    month, _, rest = old.partition("-")
    build = r"\.".join(map(str, build_numbers(rest)[:3]))
    dotted = new.replace("-", ".")
    return [
        (
            re.compile(rf"{re.escape(month)}\.OFED\.{re.escape(month)}\.{build}[\d.]*"),
            f"{new.partition('-')[0]}.OFED.{dotted}.1",
        ),
        (re.compile(rf"(?<![\d.]){re.escape(month)}-{build}(?:\.\d+)*"), new),
    ]


def _swapped(frame: Frame, swaps: list[tuple[re.Pattern[str], str]]) -> Frame:
    if frame.key in _LOGS:
        return frame
    text = frame.text
    for old, new in swaps:
        text = old.sub(new, text)  # a version has no backslash
    return replace(frame, text=text) if text != frame.text else frame


def _without_memory_peers(
    node: Node, evidence: Evidence, upgrade: Upgrade, compat: Compat
) -> list[Frame]:
    """The folder in sysfs by which old libraries know of peermem goes with OFED 24.04."""
    frame = evidence.frames.get("memory-peers")
    row = compat.ofed_release(upgrade.ofed) if upgrade.ofed else None
    try:
        mine = node.ofed.flavour is not OfedFlavour.INBOX
    except (NoEvidence, Unparsable):
        return []
    if frame is None or row is None or row.memory_peers or not mine:
        return []
    return [replace(frame, text="")] if frame.state is State.OK else []
