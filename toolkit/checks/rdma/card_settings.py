"""What mlxconfig tells of a card's own settings, for the checks of what they lead to.

It tells of the cards that it was asked about, and of the next boot unless asked for more (-e).
"""

from __future__ import annotations

from toolkit.checks.check import Finding, failed, unknown
from toolkit.checks.role import role
from toolkit.facts.node.node import Node
from toolkit.plural import counted
from toolkit.want import Role, Want

_BUS = "lspci -vvv tells what is in force"


def ats_told(node: Node, want: Want) -> Finding | None:
    """ATS_ENABLED; None where no card tells it, or the evidence has the PCI bus itself."""
    told = _told(node, "ATS_ENABLED")
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
    words = [each for name in names if (each := _words(node, name))]
    return unknown("; ".join(words), hint=_BUS) if words else None


def _words(node: Node, name: str) -> str:
    told = _told(node, name)
    by_word: dict[str, list[str]] = {}
    for card, (_, word) in told.items():
        by_word.setdefault(word, []).append(card)
    if len(by_word) == 1:
        return f"{name} {next(iter(by_word))} on {counted(len(told), 'card')}"
    return ", ".join(f"{name} {word} on {' and '.join(cards)}" for word, cards in by_word.items())


def _told(node: Node, name: str) -> dict[str, tuple[int | None, str]]:
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
