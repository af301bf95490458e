"""Take back what a run of ours did."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from toolkit.errors import ApplyError, ExitCode
from toolkit.facts.node.node import Node
from toolkit.hosts.host import Host
from toolkit.node import deliver
from toolkit.node.audit import of_run
from toolkit.node.collect import collect
from toolkit.node.reboot import reboot
from toolkit.plan.boot_arguments import bare
from toolkit.plan.trial import lines_of
from toolkit.rollout.events import Witness
from toolkit.rollout.plan.batches import Phase
from toolkit.rollout.progress_line import heard
from toolkit.rollout.run import Rolled
from toolkit.ssh.transport import Sink, Transport
from toolkit.verbs.access import Fleet
from toolkit.verbs.budgeted import Counting, on_each_counted
from toolkit.verbs.jobs import refuse_jobs
from toolkit.verbs.provision import REBOOT_S


@dataclass(frozen=True, slots=True)
class RolledBack:
    """What was taken back on one node, and whether a reboot is owed for it."""

    steps: Sequence[str]
    rebooted: bool
    out: bool = False  # of service by our doing: it is not as wanted
    exit_code: ExitCode = ExitCode.OK  # what could not be taken back is an error in its place


def rollback(
    fleet: Fleet, which: str, how: Counting, *, allow_reboot: bool, over_jobs: bool = False
) -> Rolled[RolledBack]:
    """Restore bytes, mode and owner of what a run replaced, and remove what it made.

    :param which: a run's id, "last" or "all".
    :param over_jobs: a reboot may end somebody's job.
    :raises LockedError: another controller's run is at work on one of the hosts.
    """

    audit = of_run(how.folder.settle(), how.agreed.about.reason)

    def work(host: Host, transport: Transport, witness: Witness) -> RolledBack:
        def note(text: str) -> None:
            fleet.access.progress.note(host.name, text)

        def log(line: str) -> None:
            if told := heard(line):
                note(told)

        witness.about_to(Phase.APPLYING)
        undone = deliver.rollback(transport, which, sink=log, audit=audit)
        steps = tuple(map(str, undone.steps))
        if not allow_reboot or not undone.needs_reboot:
            return RolledBack(steps, False)
        if not over_jobs:
            refuse_jobs(transport)

        def about_to(boot_id: str) -> None:
            witness.about_to(Phase.REBOOTING, boot_id)

        return RolledBack((*steps, booted_back(transport, note, about_to)), True)

    return on_each_counted(fleet, "rolling back", work, how)


def booted_back(
    transport: Transport, say: Sink, about_to: Callable[[str], None] = lambda _: None
) -> str:
    """Reboot, and see that the command line is the one that the boot loader has by now.

    :param about_to: hears the id of the boot that is to be ended; what it raises keeps it.
    :returns: one line for the report.
    :raises ApplyError: the kernel was given another one.
    :raises TransportError: the node did not come back.
    """
    before = collect(transport)
    expected = lines_of(Node(before)).usual
    boot_id = before.text("boot-id").strip()
    about_to(boot_id)
    reboot(transport, boot_id, limit_s=REBOOT_S, note=say)
    if not expected:
        return "command line: not compared, the boot menu could not be read"
    now = lines_of(Node(collect(transport))).running
    if tuple(map(bare, now)) != expected:
        raise ApplyError(
            f"{transport.name}: booted with {' '.join(now)!r}, and its boot menu has "
            f"{' '.join(expected)!r}",
            hint="another entry was booted: look at the boot menu and its environment",
        )
    return "command line: as the boot menu has it"
