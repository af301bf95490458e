"""Nodes whose bridges redirect peer traffic, by the kernel that they run."""

from __future__ import annotations

from tests.evidence.board import BOARD, PORTS, REDIRECTS, Board
from tests.evidence.build import KERNEL, node
from tests.evidence.frames import Override
from tests.evidence.healthy_boot import grub
from tests.unit.planning import rocky
from toolkit.facts.node.node import Node
from toolkit.want import Role, Want

BARE = Want(role=Role.BARE_METAL)
PATHS = (
    "0000:15:01.0/00.0/00.0",
    "0000:15:01.0/00.0/01.0",
    "0000:97:01.0/00.0/00.0",
    "0000:97:01.0/00.0/01.0",
)
REDIRECTED = BOARD
for _port in PORTS:
    REDIRECTED = REDIRECTED.but(_port, acs=REDIRECTS)
NEW, OLD, ODD = "6.12.30-amd64", "6.1.0-56-amd64", "6.11.0-29-generic"
BY_LIST = f"pci=disable_acs_redir={';'.join(PATHS)}"
CONFIG = ";".join(f"x0100x1@{path}" for path in PATHS)
LOOSE: dict[str, Override] = {"infiniband": ""}


def runs(kernel: str, arguments: str = "ro", **frames: Override) -> dict[str, Override]:
    """A node that runs this kernel, and boots it next; nobody has seen to ACS."""
    return {
        "kernel-release": f"{kernel}\n",
        "boot-entries": grub(arguments, kernels=(kernel,)),
        "acs-units": "",
        **frames,
    }


def made(changed: dict[str, Override], board: Board = REDIRECTED) -> Node:
    return Node(node(changed, board=board))


def rhel(kernel: str) -> dict[str, Override]:
    """One of the RHEL family, with its bridges."""
    entries = {
        key: str(value).replace(KERNEL, kernel) for key, value in rocky("ro iommu=pt").items()
    }
    frames: dict[str, Override] = {**REDIRECTED.frames(), **entries}
    return frames | {"kernel-release": f"{kernel}\n", "acs-units": ""}
