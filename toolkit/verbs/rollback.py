"""Take back what a run of ours did.

Undo a run: each node takes back what it did for that run, newest first.

No plan is carried out: the node has the bytes of before, and compares. A file that was
changed since, by other hands or by a later run, is left as it is, and named.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from toolkit.checks.check import Status
from toolkit.checks.judged import Judged
from toolkit.errors import ApplyError, ExitCode, ToolkitError, UsageError
from toolkit.evidence import Evidence
from toolkit.facts.node.node import Node
from toolkit.hosts.host import Host
from toolkit.node import deliver
from toolkit.node.audit import of_run
from toolkit.node.collect import collect
from toolkit.node.deliver import heard
from toolkit.node.reboot import reboot
from toolkit.plan.boot_arguments import bare
from toolkit.plan.trial import lines_of
from toolkit.rollout.events import Witness
from toolkit.rollout.history import PastRun
from toolkit.rollout.hooks import Hooks, OutOfService
from toolkit.rollout.plan.batches import Phase
from toolkit.rollout.run import Rolled
from toolkit.rollout.runs import RunFolder
from toolkit.ssh.transport import Sink, Transport
from toolkit.verbs.access import Fleet
from toolkit.verbs.budget_run import Counting, on_each_counted
from toolkit.verbs.provision import REBOOT_S
from toolkit.verbs.reading import refuse_jobs
from toolkit.verbs.rollout import Agreed
from toolkit.verbs.slurm_service import kept_off

Judge = Callable[[str, Evidence], Judged]


class RolledBack(Struct, frozen=True):
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
        node = _TakingBack(host, transport, fleet, witness, allow_reboot, over_jobs, audit)
        done = node.take_back(which)
        return node.end(tuple(map(str, done.steps)), booting=done.needs_reboot)

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


class Undoing(Struct, frozen=True):
    """What is to be taken back: the names that nodes gave to our runs, newest first."""

    run: str
    node_runs: Mapping[str, Sequence[str]]  # by host


def undoing(run: PastRun, hosts: Sequence[str] = ()) -> Undoing:
    """What undoing a run means.

    :param hosts: only these; all that were touched unless given.
    :raises UsageError: nothing was touched, or a host was not.
    """
    verb = run.story.about.verb
    if verb != "provision":
        own = {"bios": f"bios --undo {run.id}", "nic": f"nic --hosts SET --undo {run.id}"}
        raise UsageError(
            f"run {run.id} was {verb}, which is not undone",
            hint=own.get(verb, "bring the nodes where they were: provision --hosts ..."),
        )
    touched = run.touched()
    if strangers := sorted(set(hosts) - set(touched)):
        raise UsageError(
            f"run {run.id} changed nothing on {', '.join(strangers)}",
            hint=f"see what it did: runs.show {run.id}",
        )
    chosen = [host for host in touched if not hosts or host in hosts]
    if not chosen:
        raise UsageError(f"run {run.id} changed no node", hint="there is nothing to undo")
    told = run.node_runs()
    return Undoing(run.id, {host: told.get(host, ()) for host in chosen})


def undo(
    fleet: Fleet,
    what: Undoing,
    folder: RunFolder,
    agreed: Agreed,
    *,
    judge: Judge,
    allow_reboot: bool,
    over_jobs: bool = False,
) -> Rolled[RolledBack]:
    """Take it back on the hosts of the fleet, which are those of ``what``; a run of its own.

    Where a scheduler takes nodes out of service, they are given back if every check is content.

    :param agreed: its terms are of the fleet's hosts, and it tells which run is taken back.
    :param judge: evidence of a host -> whether it is as wanted.
    :param over_jobs: a reboot may end somebody's job.
    :raises LockedError: another controller's run is at work on one of the hosts.
    :raises JournalError: what is done cannot be written down, so nothing was.
    """
    fleet = kept_off(fleet, folder.settle())
    audit = of_run(folder.settle(), agreed.about.reason)

    def work(host: Host, transport: Transport, witness: Witness) -> RolledBack:
        way = (host, transport, fleet, witness, allow_reboot, over_jobs, audit)
        return _Undo(*way, agreed.hooks, judge).go(what)

    how = Counting(folder, agreed)
    return on_each_counted(fleet, "undoing", work, how, well=lambda done: not done.out)


class _TakingBack(Struct):
    host: Host
    transport: Transport
    fleet: Fleet
    witness: Witness
    allow_reboot: bool
    over_jobs: bool
    audit: str

    def take_back(self, name: str) -> deliver.Applied:
        """:raises UsageError: the node's journal has no such run that stands."""
        self.witness.about_to(Phase.APPLYING)
        return deliver.rollback(self.transport, name, sink=self._log, audit=self.audit)

    def end(self, steps: Sequence[str], *, booting: bool) -> RolledBack:
        if not booting or not self.allow_reboot:
            return RolledBack(steps, False)
        if not self.over_jobs:
            refuse_jobs(self.transport)

        def about_to(boot_id: str) -> None:
            self.witness.about_to(Phase.REBOOTING, boot_id)

        return RolledBack((*steps, booted_back(self.transport, self.note, about_to)), True)

    def _log(self, line: str) -> None:
        if told := heard(line):
            self.note(told)

    def note(self, text: str) -> None:
        self.fleet.access.progress.note(self.host.name, text)


class _Undo(_TakingBack):
    hooks: Hooks
    judge: Judge

    def go(self, what: Undoing) -> RolledBack:
        names = what.node_runs[self.host.name]
        if not names:
            raise ApplyError(
                f"{self.host.name}: run {what.run} was at work here, and was never told "
                "what the node calls it",
                hint="look at the node's own journal, /var/lib/gdr-toolkit/journal, "
                f"then: rollback --hosts {self.host.name} --run NAME",
            )
        if not self.hooks.takes_out:
            return self._back(names)
        out = OutOfService(self.host, self.transport, self.hooks, self.witness, self.note)
        out.take()
        try:
            done = self._back(names)
            judged = self.judge(self.host.name, collect(self.transport))
        except ToolkitError as why:
            out.stay(str(why))
            raise
        if judged.exit_code is ExitCode.OK:
            _, told = out.give_back()
            return replace(done, steps=(*done.steps, *([told] if told else [])))
        short = [v.check.id for v in (*judged.having(Status.FAIL), *judged.having(Status.UNKNOWN))]
        found = ", ".join(short) or "its evidence was cut off"
        told = out.stay(f"taken back, and not as wanted: {found}")
        return replace(done, steps=(*done.steps, told), out=True, exit_code=judged.exit_code)

    def _back(self, names: Sequence[str]) -> RolledBack:
        steps: list[str] = []
        booting = False
        for name in names:
            try:
                done = self.take_back(name)
            except UsageError:
                steps.append(f"{name}: was taken back before")
                continue
            steps += map(str, done.steps)
            booting = booting or done.needs_reboot
        return self.end(steps, booting=booting)
