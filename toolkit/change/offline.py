"""What a plan for an image leaves out: an image does not run.

Services are not started and modules not loaded: what is placed does that at the first boot. The
boot menu is made anew only where there is one; an image that has none gets one when it is
installed, and its system reads our file then.
"""

from __future__ import annotations

from dataclasses import replace

from toolkit.change.artefact import Artefact, Trigger
from toolkit.change.change import Action, Change
from toolkit.facts.node import Node

OF_FILES = frozenset(
    {
        Trigger.BUILD_DKMS,
        Trigger.DEPMOD,
        Trigger.REBUILD_INITRAMFS,
        Trigger.UPDATE_BOOTLOADER,
    }
)
UNSEEN = "an image: whether it is needed shows only once it runs"


def reason_unseen(artefact: Artefact, node: Node) -> tuple[str, ...]:
    """Why a file is placed in an image though none of its proofs can be asked there."""
    return (UNSEEN,) if artefact.in_images and not node.live else ()


def left_for_boot(changes: list[Change], node: Node) -> list[Change]:
    """The changes with what an image can be given of their work; all of it on a live node."""
    if node.live:
        return changes
    made = OF_FILES if node.boot_entries else OF_FILES - {Trigger.UPDATE_BOOTLOADER}
    kept = [
        replace(each, triggers=tuple(trigger for trigger in each.triggers if trigger in made))
        for each in changes
    ]
    return [each for each in kept if each.triggers or each.action is not Action.TRIGGER]
