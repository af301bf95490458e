"""What is said of a rollout, and what a run that is resumed had been told."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from toolkit.cli.options import BMC, REACH, TAKEN, WANT, Option, Said
from toolkit.cli.outcome_line import record
from toolkit.errors import ExitCode, UsageError
from toolkit.features.slurm.run.nodes import Site
from toolkit.features.slurm.run.service import SlurmService
from toolkit.hosts.host import fold
from toolkit.node.audit import whoami
from toolkit.rollout.events import steps_of
from toolkit.rollout.hooks import Hooks, check_hook
from toolkit.rollout.journal import About, Journal, Story, stamp
from toolkit.rollout.plan.batches import ENDED, Past, pasts, terms_of
from toolkit.rollout.plan.window import parse_window
from toolkit.rollout.run import Brakes, Rolled, T
from toolkit.rollout.runs import RunFolder, safe_name
from toolkit.ssh.pool import NotBegun
from toolkit.untrusted import read_json
from toolkit.verbs.access import Fleet, site_file, state_dir
from toolkit.verbs.budget_run import Counting
from toolkit.verbs.cli.session import Session
from toolkit.verbs.rollout import Agreed
from toolkit.verbs.slurm_service import held_elsewhere
from toolkit.want import DEFAULT_PROFILE, Want

ROLLOUT = (
    Option("serial", "", "in batches: 1,10%,50%; the first is the canary, the last is repeated"),
    Option(
        "max_unavailable", "", "so many nodes out of service at once, at most: 4, or 10%", anew=True
    ),
    Option("max_fail_percentage", "", "as --max-fail with a share: 5 is --max-fail 5%", anew=True),
    Option("drain", "", "command that takes a node out of service; {host} is its name"),
    Option("undrain", "", "command that gives it back once it is as wanted"),
    Option(
        "hook_timeout", 600, "seconds that either command may take", anew=True, was="hook_limit"
    ),
    Option(
        "job_timeout",
        3600,
        "--via slurm: seconds to wait for a drained node's jobs to end",
        anew=True,
        was="job_limit",
    ),
    Option(
        "window",
        "",
        'begin hosts only then: "Sat 22:00-04:00", "Mon-Fri 01:00-05:00", 4h',
        anew=True,
    ),
    Option("stop_file", "", "begin no further host once this file is there", anew=True),
    Option("reason", "", "why, for the journal: a ticket", anew=True),
    Option("resume", "", "go on with a run that broke off; runs lists them", anew=True),
)
# Of what changes hosts without a plan: rollback, reload.
COUNTED = (
    *(each for each in ROLLOUT if each.name == "max_unavailable"),
    *(each for each in WANT if each.name == "site"),
)
_ALONE = (
    "serial",
    "max_unavailable",
    "drain",
    "undrain",
    "window",
    "via",
)  # what makes it a rollout
_PATHS = (
    "site", "inventory", "hosts_file", "ssh_config", "key", "cache", "stop_file",
    "bmc_map", "bmc_ca", "bmc_password_file",
)  # fmt: skip
_SECRET = frozenset(
    {"ask_pass", "ask_become_pass", "pass_fd", "become_pass_fd", "bmc_pass_fd", "yes", "resume"}
)
_NOT_SAID = ("", "False", "-1")
_DEFAULTS = {each.name: str(each.default) for each in (*REACH, *ROLLOUT, *BMC)}
_RIVALS = (  # of which one may be said
    frozenset({"max_fail", "max_fail_percentage"}),
    frozenset({"bmc_password_file", "bmc_pass_fd"}),
    frozenset({"bmc_ca", "bmc_pin", "bmc_insecure"}),
)


class Resumed(Struct, frozen=True):
    """A run that is gone on with."""

    said: Said  # as at first, with what was said anew
    folder: RunFolder
    story: Story
    past: Mapping[str, Past]

    def left(self, fleet: Fleet) -> Fleet:
        """The hosts that have not ended well, and are part of the run.

        :raises UsageError: there is none.
        """
        # A run that was killed before it wrote of any host has them all.
        known = [host for host in fleet.hosts if not self.past or host.name in self.past]
        hosts = [host for host in known if self.past.get(host.name, Past()).last not in ENDED]
        if not hosts:
            raise UsageError("every host of that run has ended", hint="begin another one")
        return replace(fleet, hosts=tuple(hosts))


def resumption(said: Said) -> Resumed | None:
    """What ``--resume`` names; None where a run begins.

    :raises UsageError: for hosts said beside it, or a name that is none.
    :raises JournalError: the run has no journal that can be used.
    """
    run = said.text("resume")
    if not run:
        return None
    folder = state_dir() / "runs" / safe_name(run)
    with Journal.open(folder) as journal:
        story = journal.story()
    if story.about.verb != "provision":
        raise UsageError(
            f"{run} was {story.about.verb}, which is not resumed",
            hint="say it again: what was done is found done",
        )
    _refuse_unlike(said, _told(story))
    past = pasts(steps_of(story.events))
    return Resumed(said_before(said, story), RunFolder.again(folder), story, past)


def _refuse_unlike(said: Said, then: Mapping[str, object]) -> None:
    """What a run was told holds for all its hosts; said otherwise, it would be dropped in silence.

    :raises UsageError: for an option that may not be given anew, with another value than then.
    """
    now = read_json(_words(said))
    for each in TAKEN["provision"]:
        value = now.get(each.name, each.default)
        if each.anew or str(value) in {str(each.default), str(then.get(each.name))}:
            continue
        option = each.name.rstrip("_").replace("_", "-")
        raise UsageError(
            f"--resume and --{option}: a run goes on with what it was told at first",
            hint="leave it out, or begin another run",
        )


def _told(story: Story) -> dict[str, str | int | bool]:
    """What a run was told at first, by the names that options have today."""
    now = {each.was: each.name for each in TAKEN.get(story.about.verb, ()) if each.was}
    words = read_json(story.about.words)
    return {now.get(name, name): value for name, value in words.items()}


def said_before(said: Said, story: Story) -> Said:
    """What a run had been told, with what may be said anew."""
    then = replace(said, values=said.values | _told(story))
    return renewed(then, said, [each.name for each in TAKEN["provision"] if each.anew])


def renewed(then: Said, said: Said, names: Iterable[str]) -> Said:
    """What was said then, and of ``names`` what is said now; of rivals the one of now alone."""
    # Of an option that has its default nobody knows that it was given.
    anew = {
        name
        for name in names
        if str(said.values.get(name, "")) not in {*_NOT_SAID, _DEFAULTS.get(name, "")}
    }
    anew |= {name for rivals in _RIVALS if anew & rivals for name in rivals}
    return replace(then, values=then.values | {n: said.values[n] for n in anew & {*said.values}})


def agreed_of(
    session: Session,
    pending: Sequence[str],
    earlier: Resumed | None = None,
    slurm: Site | None = None,
) -> Agreed:
    """The terms for what was planned.

    :param pending: the hosts on which something is to be done.
    :param slurm: what takes nodes out of service and gives them back.
    :raises UsageError: for options that make no sense, and outside of the window.
    """
    said = session.said
    hooks = _hooks(session, slurm)
    old = earlier.story.batches if earlier else ()
    known = {host for batch in old for host in batch}
    site = session.want().rollout.max_unavailable
    terms = terms_of(
        [*(host for batch in old for host in batch), *(h for h in pending if h not in known)],
        serial=said.text("serial"),
        max_unavailable=said.text("max_unavailable"),
        max_fail=_max_fail(said),
        at_once=said.number("fanout", 64),
    )
    terms = replace(terms, budget=min(terms.budget, site or terms.budget))
    if old:
        late = tuple(host for host in pending if host not in known)
        terms = replace(terms, batches=(*old, late) if late else old)
    brakes = _brakes(session)
    about = About(session.verb, whoami(), stamp(), said.text("reason"), _words(said))
    alone = site is not None or any(said.text(name) for name in _ALONE)
    past = earlier.past if earlier else None
    reported = held_elsewhere(slurm, session.folder.path.name)
    return Agreed(terms, about, brakes, hooks, alone, past, reported)


def _hooks(session: Session, slurm: Site | None) -> Hooks:
    said = session.said
    hooks = Hooks(said.text("drain"), said.text("undrain"), float(said.number("hook_timeout", 600)))
    check_hook("--drain", hooks.drain)
    check_hook("--undrain", hooks.undrain)
    if slurm is None:
        return hooks
    if hooks.drain or hooks.undrain:
        raise UsageError(
            "--via slurm drains and resumes by itself, and --drain or --undrain was said",
            hint="leave them out; or leave out --via slurm, and name the nodes",
        )
    return scheduled(session, hooks, slurm)


def scheduled(session: Session, hooks: Hooks, slurm: Site | None) -> Hooks:
    """The same, with Slurm taking nodes out of service where they are its nodes."""
    if slurm is None:
        return hooks
    jobs_s = float(session.said.number("job_timeout", 3600))
    return replace(hooks, scheduler=SlurmService(slurm, session.folder.settle(), jobs_s))


def _max_fail(said: Said) -> str:
    share = said.text("max_fail_percentage").removesuffix("%")
    if share and said.text("max_fail"):
        raise UsageError(
            "--max-fail and --max-fail-percentage say the same: give one",
            hint="leave one of them out",
        )
    return f"{share}%" if share else said.text("max_fail")


def _brakes(session: Session) -> Brakes:
    said = session.said
    window = parse_window(said.text("window"), datetime.now())
    places = (session.folder.path / "stop", state_dir() / "stop")
    brakes = Brakes(window, (*_stop_files(said), *places))
    if not said.flag("check") and (why := brakes.pulled()):
        raise UsageError(f"nothing may begin now: {why}", hint="nothing was touched")
    return brakes


def _words(said: Said) -> str:
    """What was said, for --resume: no secrets, and paths that hold from anywhere."""
    values = {name: value for name, value in said.values.items() if name not in _SECRET}
    for name in _PATHS:
        if values.get(name):
            values[name] = str(Path(str(values[name])).absolute())
    profile = Path(str(values.get("profile", "")))
    if profile.suffix == ".toml":
        values["profile"] = str(profile.absolute())
    return json.dumps(values, ensure_ascii=True)


def counting(session: Session, fleet: Fleet, **about: str) -> Counting:
    """How hosts are changed without a plan: all in one batch, within the budget.

    :param about: what the journal is told beside: reason, undoes.
    """
    said = session.said
    site, profile = said.text("site"), said.text("profile") or DEFAULT_PROFILE
    # Checks of the site have no say here: a mistake in one keeps nobody from taking back.
    limit = Want.load(profile, site=site_file(site)).rollout.max_unavailable
    terms = terms_of(
        [host.name for host in fleet.hosts],
        max_unavailable=said.text("max_unavailable"),
        max_fail=said.text("max_fail"),
        at_once=fleet.access.fanout,
    )
    terms = replace(terms, budget=min(terms.budget, limit or terms.budget))
    words = {"reason": "", "undoes": "", **about}
    agreed = Agreed(
        terms,
        About(session.verb, whoami(), stamp(), words["reason"], "{}", words["undoes"]),
        # Its own stop files; the window of another run says nothing of this one.
        Brakes(stop_files=(*_stop_files(said), session.folder.path / "stop")),
        alone=limit is not None or bool(said.text("max_unavailable")),
        reported=held_elsewhere(fleet.slurm, session.folder.settle()),
    )
    return Counting(session.folder, agreed)


def _stop_files(said: Said) -> tuple[Path, ...]:
    return tuple(Path(each) for each in (said.text("stop_file"),) if each)


def ended(session: Session, rolled: Rolled[T]) -> ExitCode:
    """The worst of what came of all hosts, which the last line will tell of."""
    ends = [
        (name, each.error.exit_code if each.error else each.get().exit_code)
        for name, each in rolled.outcomes.items()
    ]
    return record(session.said, [*ends, *[("", ExitCode.INTERRUPTED)] * rolled.interrupted])


def tell_halt(rolled: Rolled[T]) -> None:
    """On standard error, where hosts were left out: why, and which."""
    if rolled.halt:
        left = [name for name, each in rolled.outcomes.items() if isinstance(each.error, NotBegun)]
        print(f"stopped: {rolled.halt}; not begun: {fold(left)}", file=sys.stderr)
