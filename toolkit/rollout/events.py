"""Who hears what is about to be done on a node, before it is done."""

from __future__ import annotations

from typing import Protocol

from toolkit.rollout.plan.batches import Phase


class Witness(Protocol):
    """Hears of the acts on one node. What it raises keeps the act from being begun."""

    def about_to(self, phase: Phase, boot_id: str = "") -> None:
        """The next act; ``boot_id`` is that in which the node was read.

        :raises ToolkitError: it cannot be written down, so it must not be done.
        """

    def ran(self, run: str) -> None:
        """The node gave this name to a run of ours, in its own journal."""

    def booted(self, boot_id: str) -> bool:
        """Whether the node has been rebooted by us since we last changed it.

        Another reboot would serve nothing: what the first has not brought, none will.

        :param boot_id: the one that it has now.
        """


class Nobody:
    """Hears everything and writes nothing down; knows what it heard itself."""

    def __init__(self) -> None:
        self._left_boot = ""  # the boot id that our latest reboot was to end

    def about_to(self, phase: Phase, boot_id: str = "") -> None:
        if phase in {Phase.APPLYING, Phase.REBOOTING}:
            self._left_boot = boot_id if phase is Phase.REBOOTING else ""

    def ran(self, run: str) -> None: ...

    def booted(self, boot_id: str) -> bool:
        return self._left_boot not in {"", boot_id}
