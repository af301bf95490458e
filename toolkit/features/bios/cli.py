"""BIOS: the verb that reads settings over Redfish, plans changes, and sends them on consent."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from toolkit.cli.options import BMC, HOSTS, REACH, WANT, Option, Said
from toolkit.cli.verb import verb
from toolkit.errors import ExitCode, Outcome, UsageError, code_of, worst
from toolkit.features.bios.plan_reading import BiosOutcome, BiosReading
from toolkit.features.bios.plan_wishes import BiosWish, BlockKind, read_asked
from toolkit.features.bios.run import BiosRun, kept_by, roll_out_bios
from toolkit.features.bios.run_look import BiosQuery, look_all
from toolkit.features.bios.run_reset import Consent
from toolkit.features.bios.show import changed_lines, document, looked_lines, planned_lines, summary
from toolkit.hosts.host import fold, select
from toolkit.redfish.fleet import open_bmcs
from toolkit.report.document import dumps
from toolkit.rollout.events import KEPT
from toolkit.rollout.history import read_run
from toolkit.rollout.run import Rolled
from toolkit.ssh.pool import NotBegun, broken_off
from toolkit.verbs.access import state_dir
from toolkit.verbs.cli.rollout import ROLLOUT, agreed_of, renewed, said_before
from toolkit.verbs.cli.session import Session, access, consent
from toolkit.verbs.connect import open_fleet
from toolkit.want import Role, Want

BIOS = (
    Option("set", "", "SETTING=VALUE,..., raw:ATTRIBUTE=VALUE, profile: plan that", many=True),
    Option("undo", "", "plan to take back what this run of bios changed; runs lists them"),
    Option("apply", False, "send what was planned; it takes effect at the machine's next start"),
    Option("reboot", False, "with --apply: reset machines, and see what is in force then"),
    Option("over_jobs", False, "reset also where a job is at work, or nobody can tell"),
    Option("force_reset", False, "reset hard where a graceful reset is not offered or heeded"),
    Option(
        "boot_timeout", 1200, "seconds from a reset until all must be in force", was="boot_limit"
    ),
    Option("role", "", "bare-metal, vm-host or vm; else the site's file or the node says"),
    Option("verbose", False, "settings of which nothing is wanted, and all that follows", "v"),
    Option("json", False, "one JSON document on standard output (docs/bios.schema.json)"),
)
_ROLL = tuple(each for each in ROLLOUT if each.name != "resume")


@verb(HOSTS, REACH, WANT, BMC, BIOS, _ROLL)
def bios(said: Said) -> ExitCode:
    """Settings of a BIOS that decide on peer-to-peer traffic: current, pending, wanted.

    Reads BMCs over Redfish and changes nothing; --set plans a change, and only --apply sends it.
    No machine is reset without --reboot, none under a job. See docs/bios.md.

    Exits 0 when all is as wanted, 2 when a setting differs or cannot be changed, 3 when the BIOS
    does not tell, 4 when a BMC is out of reach, 7 when a change is planned or waits for a reset.

    Examples:
      invoke bios --hosts gpu[001-128] --bmc-map bmcs --bmc-user op --bmc-password-file pw
      invoke bios --hosts gpu007 --set acs=off,aspm=off
      invoke bios --hosts gpu[001-128] --set profile --apply --reboot --serial 1,10%
      invoke bios --undo 2026-11-22T22-00-00-bios --apply --reboot
    """
    return run_bios(said)


def run_bios(said: Said) -> ExitCode:
    """See the verb.

    :raises ToolkitError: what was said makes no sense, or nobody agrees to it.
    """
    task = _task(said)
    session = Session.begin("bios", task.said)
    ways = access(task.said)  # once: passwords are read here
    if ways.bmc is None:
        raise UsageError("nobody to log in as at the BMCs", hint="--bmc-user; see docs/bios.md")
    with open_fleet(replace(ways, bmc=None)) as every:  # its own, since registries are read anew
        opened = every.only(task.back) if task.back else every
        with open_bmcs(ways.bmc, opened.hosts, fresh=task.plans) as bmcs:
            if task.plans:
                bmcs.refuse_shared()
            asking = BiosQuery(
                _want(session), read_asked(task.set) if task.set else None, task.back
            )
            looked = look_all(opened, bmcs.connect, asking, session.folder)
            _refuse_nonsense(looked)
            if not task.plans:
                return _tell_looked(session, looked)
            if not said.flag("apply") or said.dry or broken_off(looked):
                return _tell_planned(session, looked)
            run = BiosRun(opened, bmcs.connect, asking, _consent(said), session.folder)
            return _apply(session, run, looked, task.undoes)


class _Task(Struct, frozen=True):
    said: Said
    set: str = ""
    undoes: str = ""
    back: Mapping[str, tuple[BiosWish, ...]] = field(default_factory=dict)

    @property
    def plans(self) -> bool:
        return bool(self.set or self.back)


def _task(said: Said) -> _Task:
    """What is meant, from what was said."""
    undo, wish = said.text("undo"), said.text("set")
    if undo and wish:
        raise UsageError("--set and --undo: one of them", hint="take back first, then set")
    for name in ("apply", "reboot"):
        if said.flag(name) and not (undo or wish):
            raise UsageError(f"--{name} without --set", hint="say what to change: --set acs=off")
    if said.flag("reboot") and not said.flag("apply"):
        raise UsageError("--reboot without --apply", hint="a plan resets nothing: add --apply")
    if not undo:
        return _Task(said, wish)
    run = read_run(state_dir() / "runs", undo)
    only = [host.name for host in select(said.text("hosts"))] if said.text("hosts") else []
    then = said_before(said, run.story)
    now = {name: said.values[name] for name in _NOW if name in said.values}
    then = replace(then, values=then.values | now)
    again = renewed(then, said, [each.name for each in (*BMC, *ROLLOUT)])
    return _Task(again, "", run.id, kept_by(run, only))


# Of an undo: what is said now counts, whatever was said then.
_NOW = (
    "apply", "reboot", "over_jobs", "force_reset", "boot_timeout", "set", "undo", "yes", "reason",
    "json", "verbose",
)  # fmt: skip


def _want(session: Session) -> Want:
    want, said = session.want(), session.said.text("role")
    if not said:
        return want
    if said not in list(Role):
        raise UsageError(f"--role {said!r}", hint=f"one of {', '.join(Role)}")
    return replace(want, role=Role(said))


def _consent(said: Said) -> Consent:
    limit = said.number("boot_timeout", 1200)
    if limit < 1:
        raise UsageError(
            f"--boot-timeout {limit}: at least 1 second", hint="leave it out for the usual limit"
        )
    return Consent(
        reboot=said.flag("reboot"),
        over_jobs=said.flag("over_jobs"),
        force=said.flag("force_reset"),
        boot_s=float(limit),
    )


def _apply(
    session: Session, run: BiosRun, looked: Sequence[Outcome[BiosReading]], undoes: str
) -> ExitCode:
    said = session.said
    todo = [e for e in looked if e.value and e.value.plan.pending and not e.value.plan.stopped]
    agreed = agreed_of(session, [each.host for each in todo], slurm=run.fleet.slurm)
    agreed = replace(agreed, about=replace(agreed.about, undoes=undoes))
    session.say("\n".join(planned_lines(looked, session.paint, verbose=said.flag("verbose"))))
    if todo:
        resets = ", and reset these machines" if run.consent.reboot else ""
        what = "1 BIOS" if len(todo) == 1 else f"{len(todo)} BIOSes"
        consent(f"change {what}{resets}?", said, look="leave --apply out")
    rolled = roll_out_bios(run, looked, agreed)
    return _tell_changed(session, rolled)


def _refuse_nonsense(looked: Sequence[Outcome[BiosReading]]) -> None:
    """A value that no BIOS of them takes is a slip, not a finding."""
    plans = [each.value.plan for each in looked if each.value]
    slips = [b for plan in plans for b in plan.blocked if b.block is BlockKind.NO_VALUE and b.named]
    for slip in slips:
        takers = [plan for plan in plans if not any(b.wish == slip.wish for b in plan.blocked)]
        if not takers:
            raise UsageError(f"--set {slip.wish}: no BIOS of them takes it", hint=slip.reason)


def _tell_looked(session: Session, looked: Sequence[Outcome[BiosReading]]) -> ExitCode:
    said = session.said
    session.say("\n".join(looked_lines(looked, session.paint, verbose=said.flag("verbose"))))
    codes = [e.error.exit_code if e.error else e.get().shown for e in looked]
    return _finish(session, looked, worst(codes))


def _tell_planned(session: Session, looked: Sequence[Outcome[BiosReading]]) -> ExitCode:
    said = session.said
    session.say("\n".join(planned_lines(looked, session.paint, verbose=said.flag("verbose"))))
    codes = [e.error.exit_code if e.error else e.get().to_do for e in looked]
    if ExitCode.PENDING in codes and not said.flag("apply"):
        session.remark("nothing was sent; send it with --apply")
    return _finish(session, looked, worst(codes))


def _tell_changed(session: Session, rolled: Rolled[BiosOutcome]) -> ExitCode:
    outcomes = list(rolled.outcomes.values())
    session.say("\n".join([*changed_lines(outcomes, session.paint), summary(outcomes)]))
    codes = [*map(code_of, outcomes)]
    if rolled.interrupted:
        codes.append(ExitCode.INTERRUPTED)
    if rolled.halt:
        left = [each.host for each in outcomes if isinstance(each.error, NotBegun)]
        print(f"stopped: {rolled.halt}; not begun: {fold(left)}", file=sys.stderr)
    run = session.folder.path.name
    # By the journal: a change that stopped midway has no outcome that would tell.
    if any(e.phase == KEPT for e in read_run(session.folder.path.parent, run).story.events):
        session.remark(f"taken back by: bios --undo {run} --apply")
    return _finish(session, outcomes, worst(codes))


def _finish(
    session: Session,
    outcomes: Sequence[Outcome[BiosReading] | Outcome[BiosOutcome]],
    code: ExitCode,
) -> ExitCode:
    text = dumps(document(outcomes, code, session.now))
    session.folder.keep("bios.json", text)
    if session.said.flag("json"):
        sys.stdout.write(text)
    session.kept()
    return code
