"""Take back what a run of ours did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from toolkit.errors import Outcome
from toolkit.flow.access import Fleet
from toolkit.flow.each import on_each
from toolkit.flow.jobs import refuse_jobs
from toolkit.flow.provision import REBOOT_S
from toolkit.hosts import Host
from toolkit.reach import deliver
from toolkit.reach.collect import collect
from toolkit.reach.reboot import reboot
from toolkit.reach.transport import Transport


@dataclass(frozen=True, slots=True)
class RolledBack:
    """What was taken back on one node, and whether a reboot is owed for it."""

    steps: Sequence[str]
    rebooted: bool


def rollback(
    fleet: Fleet, which: str, *, allow_reboot: bool, over_jobs: bool = False
) -> list[Outcome[RolledBack]]:
    """Restore bytes, mode and owner of what a run replaced, and remove what it made.

    :param which: a run's id, "last" or "all".
    :param over_jobs: a reboot may end somebody's job.
    """

    def work(host: Host, transport: Transport) -> RolledBack:
        def note(text: str) -> None:
            fleet.access.progress.note(host.name, text)

        undone = deliver.rollback(transport, which, sink=note)
        steps = tuple(map(str, undone.steps))
        if not allow_reboot or not undone.needs_reboot:
            return RolledBack(steps, False)
        if not over_jobs:
            refuse_jobs(transport)
        boot_id = collect(transport).text("boot-id").strip()
        reboot(transport, boot_id, limit_s=REBOOT_S, note=note)
        return RolledBack(steps, True)

    return on_each(fleet, "rolling back", work)
