"""Kernel arguments that a node should boot with, whoever of us asks for them.

All of them land in one file of ours on the node. A topic adds its own function to
``CONTRIBUTORS``, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from toolkit.checks.pci.iommu_words import INTEL, translation_asked
from toolkit.checks.role import role
from toolkit.errors import Unsupported, read_or
from toolkit.facts.node.node import Node
from toolkit.plan.acs import PROOFS as ACS_PROOFS
from toolkit.plan.acs import acs_arguments
from toolkit.want import Iommu, Role, Want

PASSED_THROUGH = ("iommu.passthrough", "iommu.boot")


class Argument(Struct, frozen=True):
    """One word of the kernel's command line."""

    word: str  # "iommu=pt"; no blanks
    why: str  # in one line: what it is for
    proofs: tuple[str, ...]  # ids of the checks that pass once it is in effect


class Contributor(Struct, frozen=True):
    """One topic that asks for arguments.

    ``gather`` answers what the node should be told, () for nothing. It raises NoEvidence or
    Unparsable where the node does not tell, and Unsupported where no rule of ours fits; then
    nothing is written, if one of ``proofs`` does not pass.
    """

    gather: Callable[[Node, Want], tuple[Argument, ...]]
    proofs: tuple[str, ...]  # all that its arguments may have


def iommu_arguments(node: Node, want: Want) -> tuple[Argument, ...]:
    """What makes the kernel give identity domains to devices.

    On a host of virtual machines an Intel IOMMU must be on; where the kernel is not built so,
    it is asked to. AMD's is on by default, and ``amd_iommu=on`` is no value that the kernel
    knows. ``iommu=`` is read on x86 alone. In a guest the host decides.

    :raises Unsupported: where others ask for translation: the last word counts, and ours may
        not be the last.
    """
    here = role(node, want)
    if want.iommu is Iommu.ANY or here is Role.VM:
        return ()
    if contrary := translation_asked(node.next_cmdline, node.cpu.vendor or node.cpu.model):
        raise Unsupported(
            f"{contrary} is in the boot configuration, and what others ask for is not overridden",
            hint='take it away there, or say iommu = "any" in the site file',
        )
    if node.arch == "aarch64":
        words: tuple[str, ...] = ("iommu.passthrough=1",)
    elif here is Role.VM_HOST and node.cpu.vendor in INTEL and not _on_by_default(node):
        words = ("intel_iommu=on", "iommu=pt")
    else:
        words = ("iommu=pt",)
    return tuple(
        Argument(word, "the IOMMU passes devices through", PASSED_THROUGH) for word in words
    )


def acs_off(node: Node, want: Want) -> tuple[Argument, ...]:
    """What lets peer traffic through bridges between GPUs and HCAs."""
    why = "bridges between GPUs and HCAs let peer traffic through"
    return tuple(Argument(word, why, ACS_PROOFS) for word in acs_arguments(node, want))


def _on_by_default(node: Node) -> bool:
    """Whether the running kernel turns an Intel IOMMU on by itself; not, where nobody knows."""
    return read_or(lambda: node.kernel_config.get("CONFIG_INTEL_IOMMU_DEFAULT_ON") == "y", False)


CONTRIBUTORS = (Contributor(iommu_arguments, PASSED_THROUGH), Contributor(acs_off, ACS_PROOFS))
PROOFS = tuple(dict.fromkeys(proof for each in CONTRIBUTORS for proof in each.proofs))


def needed(
    wanted: tuple[Argument, ...], placed: tuple[str, ...], lacking: Callable[[Argument], bool]
) -> tuple[Argument, ...]:
    """Those of the arguments that a file of ours should hold.

    What other hands have seen to is left to them, each argument by itself.

    :param placed: the words that our file holds; () where there is none.
    :param lacking: whether a proof of the argument does not pass.
    """
    found = tuple(each for each in wanted if each.word in placed or lacking(each))
    return found or (wanted if placed else ())


def arguments_in(text: str) -> tuple[str, ...]:
    """The words of a file of ours that holds kernel arguments, whatever its family.

    :param text: sh that appends to GRUB_CMDLINE_LINUX, or a line of words.
    """
    lines = (line for line in text.split("\n") if not line.startswith("#"))
    words = (word for line in lines for word in line.rpartition("}")[2].split())
    return tuple(bare(word.replace("\\", "")) for word in words)


def quoted(word: str) -> str:
    """The word as GRUB's scripts must have it: a semicolon would end their command."""
    return f'"{word}"' if ";" in word else word


def bare(word: str) -> str:
    """The word as the kernel takes it."""
    return word.replace('"', "")
