"""The verb for settings in the firmware of HCAs."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from msgspec.structs import replace

from toolkit.cli.options import HOSTS, REACH, WANT, Option, Said
from toolkit.cli.verb import verb
from toolkit.errors import ExitCode, Outcome, UsageError, worst
from toolkit.features.nic.plan import NicReading, read_wishes
from toolkit.features.nic.run import (
    VERB,
    NicLook,
    NicRequest,
    kept_by,
    look,
    to_do,
    write_settings,
)
from toolkit.features.nic.show import nic_document, nic_lines
from toolkit.plural import counted
from toolkit.report.document import dumps
from toolkit.rollout.run import Rolled
from toolkit.ssh.pool import broken_off
from toolkit.verbs.access import Fleet, state_dir
from toolkit.verbs.cli.rollout import COUNTED, counting, ended, tell_halt
from toolkit.verbs.cli.session import Session, consent, fleet
from toolkit.want import Role, Want

NIC = (
    Option("set", "", "SETTING=VALUE,..., profile: plan that", many=True),
    Option("undo", "", "plan to take back what this run of nic wrote; runs lists them"),
    Option("apply", False, "write what was planned; it takes effect with a cold boot"),
    Option("role", "", "bare-metal, vm-host or vm; else the site's file or the node says"),
    Option("verbose", False, "with a plan: every setting too, not only those to be written", "v"),
    Option("json", False, "one JSON document on standard output (docs/nic.schema.json)"),
)
_COUNTED = tuple(each for each in COUNTED if each.name != "site")


@verb(HOSTS, REACH, WANT, _COUNTED, NIC)
def nic(said: Said) -> ExitCode:
    """Settings in the firmware of HCAs that decide on GPUDirect RDMA: now, next boot, wanted.

    Reads ConnectX and BlueField by mlxconfig or mstconfig and changes nothing; --set plans a
    change, and only --apply writes it, what there was in the run's journal before. No node is
    booted: settings take effect with a cold boot. HCAs of other makers are named. See docs/nic.md.

    Exits 0 when all is as wanted, 2 when a setting differs or cannot be had, 3 when a card does
    not tell, 5 when a tool did not write, 7 when a change is planned or waits for a cold boot.

    Examples:
      invoke nic --hosts gpu[001-128]
      invoke nic --hosts gpu007 --set ATS_ENABLED=off,LINK_TYPE=eth
      invoke nic --hosts gpu[001-128] --set profile --apply
      invoke nic --hosts gpu007 --undo 2026-11-28T12-00-00-nic --apply
    """
    session = Session.begin(VERB, said)
    asked = _request(session)
    planned = bool(said.text("set") or said.text("undo"))
    with fleet(said) as opened:
        if strangers := [h.name for h in opened.hosts if asked.back and h.name not in asked.back]:
            what = f"run {said.text('undo')} wrote nothing on {', '.join(strangers)}"
            raise UsageError(what, hint="nothing was done: leave them out of --hosts")
        looked = look(opened, asked)
        if not (planned and said.flag("apply")) or said.dry or broken_off(looked):
            seen = [each.map(lambda look: look.reading) for each in looked]
            return _tell(session, seen, planned=planned, done=False)
        rolled = _write(session, opened, looked, asked)
    tell_halt(rolled)
    code = ended(session, rolled)
    _tell(session, list(rolled.outcomes.values()), planned=True, done=True)
    if any(each.value is not None and each.value.steps for each in rolled.outcomes.values()):
        run = session.folder.path.name
        session.remark(f"taken back by: nic --hosts {said.text('hosts')} --undo {run} --apply")
    return code


def _write(
    session: Session, opened: Fleet, looked: list[Outcome[NicLook]], asked: NicRequest
) -> Rolled[NicReading]:
    said, hosts = session.said, to_do(opened, looked)
    if hosts and not opened.demo:
        settings = sum(len(e.value.reading.plan.edits) for e in looked if e.value)
        what = f"write {counted(settings, 'setting')} on {counted(len(hosts), 'node')}?"
        consent(what, said, look="leave --apply out")
    meant = replace(opened, hosts=hosts)
    return write_settings(opened, looked, asked, counting(session, meant, undoes=said.text("undo")))


def _request(session: Session) -> NicRequest:
    """:raises UsageError: options that say nothing together."""
    said = session.said
    wish, undo = said.text("set"), said.text("undo")
    if wish and undo:
        raise UsageError("--set and --undo: one of them", hint="take back first, then set")
    if said.flag("apply") and not (wish or undo):
        raise UsageError("--apply without --set", hint="say what to change: --set ATS_ENABLED=off")
    wants = session.wants()
    text = said.text("role")
    if text and text not in list(Role):
        raise UsageError(f"--role {text!r}", hint=f"one of {', '.join(Role)}")
    role = Role(text) if text else None

    def want(host: str) -> Want:
        found = wants.of(host)
        return replace(found, role=role) if role is not None else found

    if undo:
        return NicRequest(want, profile=False, back=kept_by(state_dir() / "runs", undo))
    if not wish:
        return NicRequest(want)
    named, profile = read_wishes(wish)
    return NicRequest(want, named, profile)


def _tell(
    session: Session, outcomes: Sequence[Outcome[NicReading]], *, planned: bool, done: bool
) -> ExitCode:
    said = session.said
    lines = nic_lines(outcomes, session.paint, planned=planned, verbose=said.flag("verbose"))
    session.say("\n".join(lines).rstrip())
    codes = [
        e.error.exit_code if e.error else e.get().exit_code if planned else e.get().shown
        for e in outcomes
    ]
    if planned and not done and ExitCode.PENDING in codes and not said.flag("apply"):
        session.remark("nothing was written; write it with --apply")
    code = worst(codes)
    text = dumps(nic_document(outcomes, code, session.now))
    session.folder.keep("nic.json", text)
    if said.flag("json"):
        sys.stdout.write(text)
    session.kept()
    return code
