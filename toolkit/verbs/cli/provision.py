"""The verb that changes nodes: all at once, or as a rollout that cannot take the fleet down."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import closing
from functools import partial

from msgspec.structs import replace

from toolkit.built.delivery_cache import Shelf
from toolkit.cli.options import CHECKS, HOSTS, OUTPUT, REACH, WANT, Said
from toolkit.cli.verb import verb
from toolkit.errors import ExitCode, Outcome
from toolkit.features.slurm.run.service import SlurmService
from toolkit.groups import SiteWants
from toolkit.node.audit import of_run
from toolkit.plural import counted
from toolkit.report.document import Told
from toolkit.report.plan_text import plan_lines
from toolkit.report.table import clean
from toolkit.report.text import findings, report, summary
from toolkit.rollout.run import Rolled
from toolkit.ssh.pool import broken_off
from toolkit.upgrade import Upgrade
from toolkit.verbs.access import Fleet
from toolkit.verbs.cli.plan import (
    CHECK,
    DELIVERED,
    DIFF,
    OVER_JOBS,
    REBOOT,
    UNTRIED,
    judged_of,
    shelf_of,
    tell_plan,
)
from toolkit.verbs.cli.rollout import ROLLOUT, Resumed, agreed_of, ended, resumption, tell_halt
from toolkit.verbs.cli.session import Session, consent, fleet
from toolkit.verbs.cli.upgrade import UPGRADE, upgrade_of, with_packages
from toolkit.verbs.each import Kept
from toolkit.verbs.plan import Planned, plan_all
from toolkit.verbs.provision import Provisioned, ProvisionOptions, harm, untouched
from toolkit.verbs.rollout import roll_out
from toolkit.verbs.slurm_service import kept_off


@verb(
    HOSTS,
    REACH,
    WANT,
    CHECKS,
    OUTPUT,
    UPGRADE,
    (CHECK, DIFF, REBOOT, UNTRIED, OVER_JOBS),
    ROLLOUT,
    DELIVERED,
)
def provision(said: Said) -> ExitCode:
    """Bring nodes to the wanted state, and prove it: plan, apply, reboot if allowed, look again.

    Exits 0 when every node is as wanted at the end. A node that must reboot for it is
    rebooted only with --reboot; a changed kernel command line, and a kernel that --kernel
    installs, is booted once, and becomes the default only where no check is worse for it.
    What was done is undone by: invoke rollback --hosts ..., or as a whole by: invoke undo RUN.
    Ctrl-C finishes the nodes in hand and begins no other; a second one ends at once.
    docs/rollouts.md tells of batches, windows and resuming.
    With --only or --skip no file is touched but those that serve a check that is left.
    --driver, --ofed and --kernel carry out what rehearse foretells by the same words: packages
    are installed where the site has [packages] install = true, else they are named.

    Examples:
      invoke provision --hosts demo
      invoke provision --hosts gpu[001-128] --check --diff
      invoke provision --hosts gpu[001-128] --yes --reboot --fanout 16 --max-fail 5%
      invoke provision --hosts gpu[001-128] --yes --only peermem
      invoke provision --hosts gpu[001-128] --kernel 6.8.0-90-generic --reboot --max-unavailable 8
      invoke provision --hosts gpu[001-128] --yes --reboot --serial 1,10%,50% \\
          --max-unavailable 8 --drain 'drain {host}' --undrain 'resume {host}' \\
          --window 'Sat 22:00-04:00' --reason 'ticket 4711'
      invoke provision --via slurm --hosts '@gpu&@h100' --yes --reboot --serial 1,10%
      invoke provision --resume 2026-11-21T22-00-00-provision --yes
    """
    earlier = resumption(said)
    if earlier is not None:
        said = earlier.said
    session = Session.begin("provision", said)
    if earlier is not None:
        session = replace(session, folder=earlier.folder)
    shelf = shelf_of(session)
    with fleet(said) as opened, closing(Kept(opened)) as kept:
        left = earlier.left(kept.fleet) if earlier is not None else kept.fleet
        left = kept_off(left, session.folder.settle())
        planned = _planned(session, left, shelf)
        kept.close(but=[each.host for each in planned if each.value and each.value.pending])
        if said.looks:
            return tell_plan(session, planned)
        return _provision(session, left, planned, shelf, earlier)


def _planned(session: Session, fleet: Fleet, shelf: Shelf | None) -> list[Outcome[Planned]]:
    wants, untried = _wants(session), session.said.flag("boot_without_trial")
    upgrade = wants.common.upgrade
    more = partial(with_packages, upgrade) if upgrade != Upgrade() else None
    return plan_all(fleet, wants, session.today, session.folder, shelf, untried=untried, more=more)


def _provision(
    session: Session,
    fleet: Fleet,
    planned: list[Outcome[Planned]],
    shelf: Shelf | None,
    earlier: Resumed | None,
) -> ExitCode:
    said = session.said
    back = _to_give_back(session, fleet, planned)
    pending = [
        each.host for each in planned if each.value and (each.value.pending or each.host in back)
    ]
    agreed = agreed_of(session, pending, earlier, fleet.slurm)
    _tell_before(session, planned)
    if broken_off(planned):
        return _tell_after(session, Rolled({each.host: untouched(each) for each in planned}))
    todo = [each.value.plan for each in planned if each.value and each.value.pending]
    allowed = said.flag("reboot") or fleet.demo
    if todo and not fleet.demo:
        kernel = bool(said.text("kernel"))
        reboots = sum(e.needs_reboot or (kernel and bool(e.installs)) for e in todo) * allowed
        extra = f", reboot {reboots} of them" if reboots else ""
        cut = [str(len(batch)) for batch in agreed.terms.batches]
        cuts = f", in batches of {', '.join(cut)}" if len(cut) > 1 else ""
        consent(f"change {counted(len(todo), 'node')}{extra}{cuts}?", said)
    elif back:
        consent(f"give {counted(len(back), 'node')} back to service if as wanted?", said)
    rolled = roll_out(
        fleet,
        planned,
        _wants(session),
        session.today,
        options=_options(session, shelf, reboot=allowed),
        folder=session.folder,
        agreed=agreed,
    )
    return _tell_after(session, rolled)


def _wants(session: Session) -> SiteWants:
    """What each node should be, with the upgrade that was named."""
    wants = session.wants()
    return replace(wants, common=replace(wants.common, upgrade=upgrade_of(session.said)))


def _options(session: Session, shelf: Shelf | None, *, reboot: bool) -> ProvisionOptions:
    said = session.said
    return ProvisionOptions(
        reboot=reboot,
        over_jobs=said.flag("over_jobs"),
        shelf=shelf,
        untried=said.flag("boot_without_trial"),
        audit=of_run(session.folder.path.name, said.text("reason")),
    )


def _to_give_back(
    session: Session, fleet: Fleet, planned: Sequence[Outcome[Planned]]
) -> frozenset[str]:
    """Nodes on which nothing is to be done, and which one of our runs has left drained."""
    done = {each.host for each in planned if each.value and not each.value.pending}
    if fleet.slurm is None:
        return frozenset()
    service = SlurmService(fleet.slurm, session.folder.path.name)
    return frozenset(
        host.name for host in fleet.hosts if host.name in done and service.has_out(host)
    )


def _tell_before(session: Session, planned: Sequence[Outcome[Planned]]) -> None:
    paint = session.paint
    before = [each.value.judged for each in planned if each.value]
    plans = [(each.host, each.value.plan) for each in planned if each.value]
    counted = summary(judged_of(planned), paint)
    session.say("\n".join(["before", "", *findings(before, paint), *counted, ""]))
    by_host = {each.host: each for each in before}
    lines = plan_lines(plans, paint, diffs=session.said.flag("diff"), judged=by_host)
    session.say("\n".join(lines))


def _tell_after(session: Session, rolled: Rolled[Provisioned]) -> ExitCode:
    outcomes = list(rolled.outcomes.values())
    after = [each.map(lambda done: done.after) for each in outcomes]
    session.say("\n".join(["after", "", report(after, session.paint), *_beside(outcomes)]))
    ended_as = [each.map(_told) for each in outcomes]
    code = ended(session, rolled)
    if code is ExitCode.OK and not any(each.value and each.value.plans for each in outcomes):
        session.healed(rolled.outcomes)
    session.finish(ended_as, code)
    tell_halt(rolled)
    if rolled.halt:
        run = session.folder.path.name
        print(f" next: invoke runs.show {run}; invoke provision --resume {run}", file=sys.stderr)
    return code


def _beside(outcomes: Sequence[Outcome[Provisioned]]) -> list[str]:
    """What no verdict of the report tells, a block a kind and a line a node."""
    done = [(each.host, each.value) for each in outcomes if each.value]
    # GPUs that have gone, and what is worse by a check beside those that count.
    harms = {h: harm(each) for h, each in done if each.lost_gpus or each.after.beside}
    lost = [f"{host}: {what}" for host, what in harms.items() if what]
    out = [f"{host}: {each.service}" for host, each in done if each.service]
    pruned = [f"{host}: pruned: {line}" for host, each in done for line in each.pruned]
    blocks = [[clean(line) for line in each] for each in (lost, out, pruned)]
    blocks.insert(1, _owed(outcomes))
    return [line for each in blocks if each for line in ("", *each)]


def _owed(outcomes: Sequence[Outcome[Provisioned]]) -> list[str]:
    owing = [each.value for each in outcomes if each.value and each.value.reboot_owed]
    if not owing:
        return []
    busy = [f"{e.host}: not rebooted, {e.value.busy}" for e in outcomes if e.value and e.value.busy]
    idle = sum(not each.busy for each in owing)
    lines = [*map(clean, busy)]
    if busy:
        owe = counted(len(busy), "node", "owes a reboot and has jobs", "owe a reboot and have jobs")
        lines.append(f"{owe}: drain, or --over-jobs")
    if idle:
        owe = counted(idle, "node", "owes", "owe")
        lines.append(f"{owe} a reboot for it: run again with --reboot")
    return lines


def _told(done: Provisioned) -> Told:
    plan = done.left or (done.plans[-1] if done.plans else None)
    steps = (*done.steps, *(f"pruned: {line}" for line in done.pruned))
    if done.busy:
        steps = (*steps, f"not rebooted, {done.busy}")
    if done.service:
        steps = (*steps, done.service)
    return Told(done.after, done.before, plan, steps, done.rebooted)
