"""The verbs that plan changes, write them down, take them back and prove them."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, redirect_stdout
from pathlib import Path

from msgspec.structs import replace

from toolkit.built.delivery_cache import Shelf
from toolkit.built.io.store import Store, default_folder
from toolkit.checks.all import how_far
from toolkit.checks.judged import Judged, judge_node
from toolkit.cli.options import (
    BMC,
    CHECKS,
    HOSTS,
    INSIDE,
    OUTPUT,
    PASSPORT,
    REACH,
    READS,
    REGISTER,
    RUN,
    SAVED,
    WANT,
    Option,
    Said,
)
from toolkit.cli.outcome_line import record
from toolkit.cli.verb import verb
from toolkit.errors import ExitCode, Outcome, ToolkitError, UsageError
from toolkit.hosts.host import select
from toolkit.plan.plan import Plan
from toolkit.plural import counted
from toolkit.report.document import Told, checks_told, dumps
from toolkit.report.plan_text import plan_lines
from toolkit.report.text import errors
from toolkit.rollout.history import read_run
from toolkit.rollout.hooks import Hooks
from toolkit.rollout.journal import Story
from toolkit.rollout.run import Rolled
from toolkit.suites.run import verified_document
from toolkit.verbs.access import state_dir
from toolkit.verbs.cli.nodes import each_node
from toolkit.verbs.cli.rollout import (
    COUNTED,
    ROLLOUT,
    counting,
    ended,
    said_before,
    scheduled,
    tell_halt,
)
from toolkit.verbs.cli.session import Session, access, consent, fleet
from toolkit.verbs.cli.signing import SIGN, signing_of
from toolkit.verbs.plan import Planned, planning, write_bundles
from toolkit.verbs.rollback import RolledBack, undoing
from toolkit.verbs.rollback import rollback as rollback_nodes
from toolkit.verbs.rollback import undo as undo_nodes
from toolkit.want import Modules

DIFF = Option("diff", False, "show the lines that change", anew=True)
CHECK = Option("check", False, "plan only; exit 7 where something would change", anew=True)
# Where the site has modules = "built": see docs/delivery.md.
DELIVERED = (Option("cache", "", "folder of results of build, to deliver from"), *SIGN)
UNTRIED = Option(
    "boot_without_trial",
    False,
    "a changed command line, or kernel, is the default at once, untried",
)
REBOOT = Option("reboot", False, "reboot nodes that need it (demo nodes always may)")
_OUTPUT_ANEW = (*(each.name for each in OUTPUT), "quiet")  # undo: not as in the run
_OF_UNDO = frozenset({"max_unavailable", "stop_file", "job_timeout"})
OVER_JOBS = Option("over_jobs", False, "reboot also where a job has a GPU or an HCA open")


@verb(HOSTS, REACH, READS, WANT, CHECKS, OUTPUT, SAVED, (DIFF,), DELIVERED)
def plan(said: Said) -> ExitCode:
    """What would change on each node, and why; nothing is changed.

    Exits 0 when nothing would change, 7 when something would. With --only or --skip it is
    what the checks that are left ask for.

    Examples:
      invoke plan --hosts gpu[001-128] --diff
      invoke plan --hosts gpu[001-128] --only iommu,acs
      invoke plan --from evidence/
    """
    session = Session.begin("plan", said)
    return tell_plan(session, _planned(session))


def _planned(session: Session, *, untried: bool = False) -> list[Outcome[Planned]]:
    work = planning(session.wants(), session.today, shelf_of(session), untried=untried)
    return each_node(session, work, title="planning")


def shelf_of(session: Session) -> Shelf | None:
    """What may be delivered; None where the site has DKMS compile on each node.

    :raises UsageError: for a key that would sign nothing.
    """
    if session.want().modules is not Modules.BUILT:
        if session.said.text("sign_key") or session.said.text("sign_cert"):
            raise UsageError(
                "--sign-key signs what is delivered, and this site has DKMS compile on nodes",
                hint='modules = "built" in the site file, or [signing] there: the key of DKMS',
            )
        return None
    named = session.said.text("cache")
    return Shelf(Store(Path(named) if named else default_folder()), signing_of(session))


def tell_plan(session: Session, outcomes: list[Outcome[Planned]]) -> ExitCode:
    """Print what would change; the exit code says whether something would."""
    plans = [(each.host, each.value.plan) for each in outcomes if each.value]
    by_host = {each.host: each.value.judged for each in outcomes if each.value}
    diffs = session.said.flag("diff")
    lines = plan_lines(plans, session.paint, diffs=diffs, judged=by_host)
    part = next((each.partial for each in by_host.values() if each.partial), "")
    lines += [*errors(_errors(outcomes), session.paint), part]
    session.say("\n".join(lines).rstrip())
    code = record(session.said, [(e.host, code) for e in outcomes for code in _pending(e)])
    if code is ExitCode.OK:
        session.healed(each.host for each in outcomes)
    return session.finish(told_of(outcomes, {}), code)


def told_of(
    outcomes: Sequence[Outcome[Planned]], written: Mapping[str, str]
) -> list[Outcome[Told]]:
    """Verdicts and plans for a document; ``written``: the folder of a host that has one."""
    found = []
    for host, planned, error in ((each.host, each.value, each.error) for each in outcomes):
        files = (written[host],) if host in written else ()
        told = Told(judged=planned.judged, plan=planned.plan, written=files) if planned else None
        found.append(Outcome(host, told, error))
    return found


def _pending(outcome: Outcome[Planned]) -> list[ExitCode]:
    """What is so of a node; some of it can be decided and some not: then both."""
    if outcome.error is not None:
        return [outcome.error.exit_code]
    found = outcome.get().plan
    undecided = [ExitCode.UNKNOWN] if found.blocked else []
    return undecided + ([] if found.empty else [ExitCode.PENDING]) or [ExitCode.OK]


def _errors(outcomes: Sequence[Outcome[Planned]]) -> list[tuple[str, ToolkitError | None]]:
    return [(each.host, each.error) for each in outcomes]


def judged_of(outcomes: Sequence[Outcome[Planned]]) -> list[Outcome[Judged]]:
    """The verdicts alone."""
    return [each.map(lambda planned: planned.judged) for each in outcomes]


@verb(
    HOSTS,
    REACH,
    READS,
    WANT,
    OUTPUT,
    SAVED,
    (Option("out", "bundles", "folder for one bundle a host"),),
    DELIVERED,
)
def bundle(said: Said) -> ExitCode:
    """Write what provision would carry out: one folder a host, to read or to run elsewhere.

    A bundle runs by itself: sh HOST/apply.sh apply 60 end (60: seconds to wait for another run)
    Exit 3 where something could not be decided on a node: it is named, and in no bundle.

    Examples:
      invoke bundle --hosts gpu[001-004] --out bundles
    """
    said.not_dry("bundle", "what it would write: plan --diff")
    session = Session.begin("bundle", said)
    outcomes = _planned(session, untried=True)  # nobody would judge a trial
    outcomes, folders = write_bundles(outcomes, Path(said.text("out")))
    for folder in folders.values():
        session.say(str(folder))
    tell_blocked(session, outcomes)
    for line in errors(_errors(outcomes), session.paint):
        session.say(line)
    told = told_of(outcomes, {host: str(folder) for host, folder in folders.items()})
    return session.finish(told, session.ended(outcomes, bundled))


def bundled(outcome: Outcome[Planned]) -> ExitCode:
    """Unknown where something could not be decided, and so is in no bundle."""
    if outcome.error is not None:
        return outcome.error.exit_code
    return ExitCode.UNKNOWN if outcome.get().plan.blocked else ExitCode.OK


def tell_blocked(session: Session, outcomes: Sequence[Outcome[Planned]]) -> None:
    """What cannot be decided on any node, and so is in no bundle."""
    plans = [(e.host, e.value.plan) for e in outcomes if e.value and e.value.plan.blocked]
    if not plans:
        return
    alone = [(host, Plan(blocked=plan.blocked)) for host, plan in plans]
    session.say("\n".join(plan_lines(alone, session.paint, diffs=False)).rstrip())


@verb(
    HOSTS,
    REACH,
    (
        Option("run", "last", "id of the run to take back, last, or all"),
        Option("reboot", False, "reboot nodes where what was taken back needs it"),
        OVER_JOBS,
        Option("json", False, "one JSON document on standard output (docs/report.schema.json)"),
    ),
    COUNTED,
)
def rollback(said: Said) -> ExitCode:
    """Take back what provision did: bytes, mode and owner of every file, newest run first.

    A file that other hands have changed since is left alone, and named.

    Examples:
      invoke rollback --hosts gpu007
      invoke rollback --hosts gpu[001-128] --run all --yes
    """
    said.not_dry("rollback", "what there is to take back: history --hosts ...")
    session = Session.begin("rollback", said)
    with fleet(said) as opened:
        if not opened.demo:
            consent(
                f"take back run {said.text('run')!r} on {counted(len(opened.hosts), 'node')}?", said
            )
        rolled = rollback_nodes(
            opened,
            said.text("run"),
            counting(session, opened),
            allow_reboot=said.flag("reboot") or opened.demo,
            over_jobs=said.flag("over_jobs"),
        )
    return tell_back(session, rolled)


@verb(
    RUN,
    (Option("hosts", "", "only these of the run's hosts"),),
    tuple(each for each in HOSTS if each.name == "yes"),
    tuple(each for each in REACH if each.name not in {"user", "key", "ssh_config", "transport"}),
    (
        Option("reboot", False, "reboot nodes where what was taken back needs it"),
        OVER_JOBS,
        Option("reason", "", "why, for the journal: a ticket"),
        Option("json", False, "one JSON document on standard output (docs/report.schema.json)"),
    ),
    tuple(each for each in ROLLOUT if each.name in _OF_UNDO),
)
def undo(said: Said) -> ExitCode:
    """Take a run back on every host it changed: bytes, mode and owner of what it replaced.

    Nodes are reached as they were in that run. A file that was changed since, by other
    hands or by a later run, is left as it is, and named. Nodes of Slurm's are drained for it, and
    given back where every check is content.

    Examples:
      invoke undo 2026-11-21T22-00-00-provision
      invoke undo 2026-11-21T22-00-00-provision --hosts gpu007 --yes --reboot
    """
    said.not_dry("undo", f"what there is to take back: runs.show {said.text('run')}")
    run = read_run(state_dir() / "runs", said.text("run"))
    only = [host.name for host in select(said.text("hosts"))] if said.text("hosts") else []
    what = undoing(run, only)
    again = as_reached(said, run.story)
    session = Session.begin("undo", again)
    with fleet(again) as opened:
        chosen = opened.only(what.node_runs)
        if not opened.demo:
            consent(f"take back run {run.id} on {counted(len(chosen.hosts), 'node')}?", said)
        allowed = said.flag("reboot") or opened.demo
        how = counting(session, chosen, reason=said.text("reason"), undoes=what.run)
        hooks = scheduled(session, Hooks(), opened.slurm)
        wants, today = session.wants(), session.today
        rolled = undo_nodes(
            chosen,
            what,
            session.folder,
            replace(how.agreed, hooks=hooks, alone=True),
            judge=lambda host, evidence: judge_node(host, evidence, wants.of(host), today),
            allow_reboot=allowed,
            over_jobs=said.flag("over_jobs"),
        )
    return tell_back(session, rolled)


def as_reached(said: Said, story: Story) -> Said:
    """What the run had been told, apart from how it was to be told of."""
    again = said_before(said, story)
    told = {name: said.values[name] for name in _OUTPUT_ANEW if name in said.values}
    told["stop_file"] = said.text("stop_file")
    kept = {name: value for name, value in again.values.items() if name not in _OUTPUT_ANEW}
    return replace(again, values=kept | told)


def tell_back(session: Session, rolled: Rolled[RolledBack]) -> ExitCode:
    """What was taken back on each node, and what was not."""
    outcomes = list(rolled.outcomes.values())
    for outcome in outcomes:
        if outcome.value is not None:
            done = "; ".join(outcome.value.steps) or "nothing to take back"
            session.say(f"{outcome.host}: {done}{'; rebooted' * outcome.value.rebooted}")
    for line in errors(((each.host, each.error) for each in outcomes), session.paint):
        session.say(line)
    told = [each.map(lambda back: Told(steps=tuple(back.steps))) for each in outcomes]
    tell_halt(rolled)
    return session.finish(told, ended(session, rolled))


@verb(
    HOSTS,
    REACH,
    BMC,
    WANT,
    CHECKS,
    (
        Option("junit", "", "write JUnit XML to this file as well", file=True),
        Option("json", False, "one JSON document on standard output (docs/verify.schema.json)"),
        Option("verbose", False, "name every case", "v"),
    ),
    PASSPORT,
    REGISTER,
    INSIDE,
)
def verify(said: Said) -> ExitCode:
    """Prove it: the testinfra suite, one case per host and check, and the same in other words.

    With --passport a node is not ready unless it is the image that it was born from: see
    docs/passport.md. With --register each HCA is given memory of each GPU, which moves no byte:
    see docs/register.md. With --only or --skip it proves the checks that are left, and with
    --only nothing beside them.

    Examples:
      invoke verify --hosts gpu[001-128] --junit verify.xml
      invoke verify --hosts gpu[001-128] --only rdma,peermem
      invoke verify --hosts gpu[001-128] --register
      invoke verify --hosts gpu007 --register --inside docker:train
      invoke verify --hosts gpu[001-128] --passport --passport-key images.pub    # the first boot
      python -m pytest --pyargs toolkit.suites --hosts gpu007    # without our task
    """
    # Here, because pytest takes a quarter of a second that no other verb needs.
    from toolkit.suites.run import run_suite  # noqa: PLC0415 see above

    session = Session.begin("verify", said)
    wants = session.wants()
    sys.stdout.flush()
    with ExitStack() as stack:
        if said.flag("json"):  # then standard output is the document's alone
            stack.enter_context(redirect_stdout(sys.stderr))
        verbose = said.flag("verbose")
        ran = run_suite(access(said), wants, checks=wants.common.checks, verbose=verbose)
    session.cases(ran.junit)
    if said.flag("json") and ran.code not in {ExitCode.USAGE, ExitCode.BUG}:
        told = verified_document(said.text("profile"), ran.cases, ran.code, session.now)
        sys.stdout.write(
            dumps({**told, **checks_told(said.text("only"), said.text("skip"), wants.common.own)})
        )
    if judged := how_far(wants.common.checks, wants.common.own):
        session.say(judged)
    record(said, list(ran.codes))
    return ran.code
