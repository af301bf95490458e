"""What we do about ACS on one node: an argument of the next boot, or a unit that runs early.

On bare metal alone: on a host of guests ACS keeps them apart, and a guest sees no bridge of the
host. Named are bridges between GPUs and HCAs, and of boards in rdma_topo's table what it names;
all others are left as they are.

Of several ``pci=`` on one command line each counts, and of several equal options in them the last;
so a second list of ours would silently undo somebody else's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from toolkit.checks.check import Status
from toolkit.checks.pci.acs import IN_TABLE, demanded, mask, persistence, redirect
from toolkit.checks.pci.iommu import asks_for_acs
from toolkit.checks.role import lent_gpus, role
from toolkit.errors import NoEvidence, Unparsable, Unsupported, read_or
from toolkit.facts.boot.acs_boot import device_path
from toolkit.facts.node.node import Node
from toolkit.facts.pci.acs import AcsArgument, Demand, acs_argument
from toolkit.facts.pci.config_space import REDIRECT
from toolkit.facts.pci.platform import Platform
from toolkit.want import Role, Want

UNIT = "/etc/systemd/system/gdr-toolkit-acs.service"
PROOFS = ("acs.redirect", "acs.mask", "acs.persistence")
_CHECKS = (redirect, mask, persistence)
_LONGEST = 2048 - 64  # bytes that x86 and arm64 take; the loader adds some of its own
# As the kernel sets them for an IOMMU, but for redirects: "x" would be what the firmware left.
_NO_REDIRECT_UNDER_IOMMU = "x0100x1"


def acs_demands(node: Node, want: Want) -> tuple[Demand, ...]:
    """The bridges that a node should not leave to kernel and firmware; () where there are none.

    Told by where GPUs and HCAs sit, not by what the registers hold, so that what is mended
    stays wanted.

    :raises NoEvidence: where config space or PCI tree were not read.
    """
    if not node.live or role(node, want) is not Role.BARE_METAL:
        return ()
    if want.role is None and lent_gpus(node):
        return ()  # a guest may have one: what isolates it is not taken away on a guess
    if node.platform is Platform.COHERENT:
        return ()
    wanted = demanded(node, virtualised=False)
    if node.platform in IN_TABLE:
        return tuple(each for each in wanted if each.bridge.acs_registers() is not None)
    return tuple(each for each in wanted if _may_redirect(each))


def _may_redirect(demand: Demand) -> bool:
    registers = demand.bridge.acs_registers()
    return registers is not None and bool(registers.capability & REDIRECT)


def acs_arguments(node: Node, want: Want) -> tuple[str, ...]:
    """The words that the next boot's command line needs; () where none do it, or none is due.

    What keeps ACS from being planned is said by ``acs_unit``: arguments of other topics do not
    wait for it, unless a word of ours is on the node, which would be lost.

    :raises NoEvidence: where then the node does not tell its bridges, or its next kernel.
    """
    ours = any(_names_acs(text) for text in _ours(node))
    try:
        wanted = acs_demands(node, want)
        if not wanted or not (ours or _fails(node, want)):
            return ()
        word = _argument(node, wanted)
        return () if not word or any(_of_others(node)) else (word,)
    except (NoEvidence, Unparsable):
        if ours:
            raise
        return ()


def acs_unit(node: Node, want: Want) -> Mapping[str, str] | None:
    """What the unit is to clear, where no argument of the next kernel does.

    A unit that is in place stays while it is of use: taking it away would set the bits again.

    :raises NoEvidence: where the node does not tell its bridges, its next kernel, or lockdown.
    :raises Unsupported: where somebody else's argument is in the way of ours, where the kernel
        lets nobody write to registers, or where a unit is too late.
    """
    wanted = acs_demands(node, want)
    if not wanted:
        return None
    if UNIT not in node.placed and (word := _argument(node, wanted)):
        for other in _of_others(node):
            raise Unsupported(
                f"the next boot has {other}, which is not ours; of two such lists the last counts",
                hint=f"take it away, or let it name these bridges too: {word}",
            )
        return None
    kernel = node.next_boot.kernel
    if node.platform in IN_TABLE:
        raise Unsupported(
            f"{kernel} has no pci=config_acs= that works, and IOMMU groups, which {node.platform} "
            "needs otherwise, are made before any unit runs",
            hint="a kernel from 6.15 on, or 6.12.23, 6.13.11, 6.14.2; or ACS set in the BIOS",
        )
    if node.lockdown != "none":
        raise Unsupported(
            f"lockdown ({node.lockdown}) refuses what setpci writes, and {kernel} has no argument "
            "that is known to set ACS",
            hint="another kernel (see explain acs.redirect), or ACS off in the BIOS",
        )
    if not node.has_setpci:
        raise Unsupported(
            f"setpci is not on the node, and {kernel} has no argument that is known to set ACS",
            hint="install pciutils",
        )
    bridges = " ".join(device_path(each.bridge) for each in wanted)
    return {"bridges": bridges, "clear": f"{REDIRECT:04x}"}


def _argument(node: Node, wanted: tuple[Demand, ...]) -> str:
    """One word; "" where no argument of the next kernel will do."""
    option = acs_argument(node.next_boot.kernel)
    word = ""
    if node.platform in IN_TABLE:
        if option is AcsArgument.CONFIG:
            word = _list(option, (f"{each.mask}@{device_path(each.bridge)}" for each in wanted))
    elif option is AcsArgument.CONFIG:
        marks = _NO_REDIRECT_UNDER_IOMMU if asks_for_acs(node) else wanted[0].mask
        word = _list(option, (f"{marks}@{device_path(each.bridge)}" for each in wanted))
    elif option is AcsArgument.REDIRECT:
        word = _list(option, (device_path(each.bridge) for each in wanted))
    others = (each for each in node.next_cmdline.words if each.strip('"') != word)
    return word if len(" ".join((*others, word)).encode()) <= _LONGEST else ""


def _list(option: AcsArgument, devices: Iterator[str]) -> str:
    return f"pci={option}={';'.join(devices)}"


def _fails(node: Node, want: Want) -> bool:
    """Whether something fails that the site does not live with."""
    waived = {each.check for each in want.waivers}
    return any(each(node, want).status is Status.FAIL for each in _CHECKS if each.id not in waived)


def _of_others(node: Node) -> Iterator[str]:
    """Words of the next boot that set ACS, and that no file of ours asks for."""
    ours = "\n".join(_ours(node))
    for word in node.next_cmdline.words:
        bare = word.strip('"')
        if bare.startswith("pci=") and _names_acs(bare) and bare not in ours:
            yield bare


def _names_acs(text: str) -> bool:
    return any(f"{option}=" in text for option in AcsArgument)


def _ours(node: Node) -> tuple[str, ...]:
    files = read_or(lambda: node.ours, {})
    return tuple(text for path, text in files.items() if "gdr-toolkit" in path)
