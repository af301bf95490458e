"""One file of ours on a node, the work it calls for, and the checks that prove it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import IntEnum
from fnmatch import fnmatchcase

from msgspec import Struct

from toolkit.built.plan.model import Built
from toolkit.facts.distros import Family
from toolkit.facts.node.node import Node
from toolkit.plan.boot_arguments import Argument, Contributor
from toolkit.want import Want


class Trigger(IntEnum):
    """Work that files of ours call for, in the order in which it is done."""

    INSTALL_PACKAGES = 0  # what an upgrade asks for, by the node's own package manager
    BUILD_DKMS = 1
    DEPMOD = 2
    REBUILD_INITRAMFS = 3
    UPDATE_BOOTLOADER = 4
    RELOAD_MODULES = 5
    DAEMON_RELOAD = 6
    START_UNITS = 7  # units of ours whose work is due now, too
    REBOOT = 8  # owed, never done by the bundle itself


Values = Callable[[Node, Want], Mapping[str, str] | None]


def never(_node: Node, _want: Want) -> None:
    """For a file that no template gives, or that a run places for a while and should not stay."""


class Delivered(Struct, frozen=True):
    """A kernel module that was built elsewhere, for one place on one node."""

    values: Mapping[str, str]  # what its path is made of
    data: bytes
    then: tuple[Trigger, ...]
    why: tuple[str, ...] = ()  # what it mends that no proof tells


# Raises Unsupported where this node's command line is not ours to change.
Told = Callable[[Node, tuple[Argument, ...]], Mapping[str, str]]
Chooser = Callable[[Node, Want, tuple[Built, ...]], Delivered | None]


class Artefact(Struct, frozen=True):
    """One row of artefacts.py.

    ``values`` answers what the template needs, or None where the node should not have the
    file. It raises NoEvidence or Unparsable where the node does not tell, and Unsupported
    where no rule of ours fits; then the artefact is blocked, if one of its proofs fails.
    Rows with one title are ways to one end: where no family's row leads there, it is blocked, too.
    """

    id: str  # "modules-load.peermem"
    title: str  # "load nvidia-peermem at boot"
    path: str  # where it lands; {NAMES} are taken from the values
    template: str  # below templates/; "" where ``chosen`` gives the content
    values: Values
    then: tuple[Trigger, ...]
    proofs: tuple[str, ...]  # ids of the checks that pass once it is in effect
    families: Callable[[Family], bool]  # those it is a rule for
    needs: tuple[str, ...] = ()  # checks that must pass, or be mended in the same plan, first
    removed: tuple[Trigger, ...] = ()  # work that its removal calls for
    mode: int = 0o644
    derived: bool = False  # the system derives the file from others: nothing of ours is placed
    modules: tuple[str, ...] = ()  # how the names of those begin that its triggers make anew
    chosen: Chooser | None = None  # in place of values: a build at hand, or what then differs
    asking: tuple[Contributor, ...] = ()  # who may put kernel arguments into it, in place of values
    told: Told | None = None  # what the template needs for those arguments
    in_images: bool = False  # placed there although its proofs ask of the present alone

    def owns(self, path: str) -> bool:
        """Whether a path that an earlier run placed is one of this artefact's."""
        return not self.derived and fnmatchcase(path, re.sub(r"\{\w+\}", "*", self.path))
