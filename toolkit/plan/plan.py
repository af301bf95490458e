"""What would have to change on a node, and why. Decides; does nothing."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from datetime import date
from difflib import unified_diff

from msgspec import Struct
from msgspec.structs import replace

from toolkit.built.plan.model import Built
from toolkit.checks.check import Verdict
from toolkit.checks.rdma.makers import without_nvidia_peermem
from toolkit.errors import NoEvidence, Unparsable
from toolkit.facts.distros import Family, family_of
from toolkit.facts.node.node import Node
from toolkit.plan.acts import acts_for, keeps_of
from toolkit.plan.artefact import Trigger
from toolkit.plan.change import Act, Action, Blocked, Change, Wanted
from toolkit.plan.decide import decide
from toolkit.plan.decide_boot import decide_boot
from toolkit.plan.node_state import Situation
from toolkit.plan.trial import Trial
from toolkit.want import PeerPath, Want


class Plan(Struct, frozen=True):
    """Everything for one node, for the state in which it was read."""

    changes: tuple[Change, ...] = ()
    triggers: tuple[Trigger, ...] = ()  # in their order; REBOOT among them when it is owed
    blocked: tuple[Blocked, ...] = ()
    acts: tuple[Act, ...] = ()  # the commands that carry the triggers out
    family: str = ""  # "debian"
    wanted: tuple[Wanted, ...] = ()  # every file of ours that the node may have, whatever it has
    trial: Trial | None = None  # how the changed command line is tried first
    rest: Plan | None = None  # what is to be done without it, while nothing may be tried

    @property
    def empty(self) -> bool:
        """Nothing to do. What is blocked is not among what can be done."""
        return not self.changes and not self.triggers

    @property
    def needs_reboot(self) -> bool:
        return Trigger.REBOOT in self.triggers

    @property
    def trying(self) -> Plan | None:
        """What has the changed command line booted once; None where nothing is to be tried."""
        if self.trial is None:
            return None
        triggers = (Trigger.UPDATE_BOOTLOADER,)
        return Plan((self.trial.file,), triggers, acts=self.trial.acts, family=self.family)

    @property
    def sent(self) -> Plan:
        """What may go to the node before a trial has ended well."""
        return self.rest or self

    @property
    def installs(self) -> tuple[str, ...]:
        """Packages that are installed, each with its version."""
        acts = (each for each in self.acts if each.trigger is Trigger.INSTALL_PACKAGES)
        return tuple(name for act in acts for name in act.command[1:] if name[0] != "-")

    @property
    def only_reboot(self) -> bool:
        """All is written and the next boot has it: nothing is to be sent to the node."""
        return self.needs_reboot and not self.acts and not self.files

    @property
    def files(self) -> tuple[Change, ...]:
        """The changes that touch a file."""
        return tuple(each for each in self.changes if each.action is not Action.TRIGGER)


def make_plan(
    node: Node,
    verdicts: Mapping[str, Verdict],
    want: Want,
    *,
    today: date | None = None,
    builts: tuple[Built, ...] = (),
    untried: bool = False,
) -> Plan:
    """The plan for one node.

    :param verdicts: by check id, judged from the same evidence as ``node``.
    :param today: for waivers; without it none counts.
    :param builts: modules that were built elsewhere, and may be delivered.
    :param untried: a changed command line becomes the default without a trial.
    :raises Unsupported: for a distribution without a row in distros.py.
    :raises NoEvidence: where the node does not even tell its distribution and kernel.
    """
    if want.path is PeerPath.PEERMEM and without_nvidia_peermem(node.fresh()):
        want = replace(want, path=PeerPath.DMABUF)  # nothing of nvidia-peermem is placed there
    want = replace(want, upgrade=replace(want.upgrade, untried=untried))
    here = Situation(node, want, verdicts, family_of(node.distro), today, builts)
    decide(here)
    trial = decide_boot(here, untried=untried)
    if trial is None:
        return _planned(here, here.changes)
    rest = [change for change in here.changes if not change.artefact.startswith("boot.arguments")]
    return replace(_planned(here, here.changes), trial=trial, rest=_planned(here, rest))


def _planned(here: Situation, decided: list[Change]) -> Plan:
    """The plan that makes these changes, and no others."""
    acts: tuple[Act, ...] = ()
    changes, blocked = tuple(decided), list(here.blocked)
    try:
        acts = acts_for(changes, here.node, here.family)
    except (NoEvidence, Unparsable) as why:
        blocked.append(Blocked("", str(why), why.own_hint))
        changes = ()
    for each in () if here.want.checks else owed(here.node, here.family, acts):
        if isinstance(each, Blocked):
            blocked.append(each)
        else:
            acts = (*acts, each)
    triggers = {trigger for change in changes for trigger in change.triggers}
    return Plan(
        family=here.family.name,
        changes=changes,
        triggers=tuple(sorted(triggers | {act.trigger for act in acts})),
        acts=tuple(sorted(acts, key=lambda act: act.trigger)),
        blocked=tuple(blocked),
        wanted=tuple(here.kept.values()),
    )


def owed(node: Node, family: Family, planned: tuple[Act, ...]) -> Iterator[Act | Blocked]:
    """What is pending on the node and neither planned anyway nor moot by now."""
    calls = {act.call for act in planned}
    builds = {_package(act.command) for act in planned if act.trigger is Trigger.BUILD_DKMS}
    for line in node.pending:
        words = _words(line)
        if not words or words[0] not in Trigger.__members__ or len(words) == 1:
            yield Blocked(
                "",
                f"/var/lib/gdr-toolkit/pending: a trigger that is not known: {line[:120]!r}",
                hint="another version of the toolkit left it; finish with that one, or roll back",
            )
            continue
        act = Act(Trigger[words[0]], words[1:], keeps_of(Trigger[words[0]], node, family))
        if act.call not in calls and not _moot(act, builds, node):
            yield act


def _words(line: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(line))
    except ValueError:
        return ()


def _moot(act: Act, builds: set[tuple[str, str]], node: Node) -> bool:
    """DKMS refuses to add, remove or install twice; whatever else is owed may be repeated."""
    if act.command[0] != "dkms":
        return False
    package, version = _package(act.command)
    if (package, version) in builds:
        return True
    known = [each for each in node.dkms if (each.module, each.version) == (package, version)]
    match act.command[1:2]:
        case ("add",):
            return bool(known)
        case ("build" | "install",):
            kernel = act.command[act.command.index("-k") + 1 :][:1] if "-k" in act.command else ()
            return any((each.kernel,) == kernel and each.usable for each in known)
    return not known


def _package(command: tuple[str, ...]) -> tuple[str, str]:
    """Package and version that a DKMS command names: "-m P -v V" or "P/V"."""
    if "-m" in command and "-v" in command:
        return command[command.index("-m") + 1], command[command.index("-v") + 1]
    name, _, version = next((word for word in command[2:] if "/" in word), "").partition("/")
    return name, version


def diff(plan: Plan) -> str:
    """The differences of all files that the plan touches; "" where it touches none."""
    return "".join(map(_diff, plan.files))


def _diff(change: Change) -> str:
    before = f"a{change.path}" if change.old else "/dev/null"
    after = f"b{change.path}" if change.action is Action.PLACE else "/dev/null"
    if change.data:
        return f"--- {before}\n+++ {after}\n({_binary(change)})\n"
    if change.old and change.old_text is None:
        return f"--- {before}\n+++ {after}\n(its present text is not part of the evidence)\n"
    old = (change.old_text or "").split("\n")[:-1]
    new = change.text.split("\n")[:-1]
    if old == new:
        return f"--- {before}\n+++ {after}\n({change.why[0]})\n"
    return "".join(f"{line}\n" for line in unified_diff(old, new, before, after, lineterm=""))


def _binary(change: Change) -> str:
    was = f", in place of sha256 {change.old.sha256}" if change.old else ""
    return f"binary, {len(change.data)} bytes, sha256 {change.sha256}{was}"
