"""Look at the firmware settings of HCAs, write those that were agreed on, and read them again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from toolkit.checks.role import role as role_of
from toolkit.errors import Outcome, UsageError
from toolkit.evidence import Evidence
from toolkit.facts.node.node import Node
from toolkit.features.nic import io as reach
from toolkit.features.nic.plan import NicReading, NicWish, reading, wanted, wishes_back
from toolkit.hosts.host import Host
from toolkit.node.audit import of_run
from toolkit.node.collect import collect
from toolkit.rollout.events import KEPT, Witness
from toolkit.rollout.history import read_run
from toolkit.rollout.plan.batches import Phase
from toolkit.rollout.run import Rolled
from toolkit.ssh.transport import Transport
from toolkit.verbs.access import Fleet
from toolkit.verbs.budget_run import Counting, on_each_counted
from toolkit.verbs.each import on_each
from toolkit.want import Role, Want

VERB = "nic"


class NicRequest(Struct, frozen=True):
    """What the operator asked for."""

    want: Callable[[str], Want]  # of a host
    named: tuple[NicWish, ...] = ()
    profile: bool = True  # what role and site want goes along
    back: Mapping[str, tuple[NicWish, ...]] = field(default_factory=dict)  # by host, of an undo
    wait_s: int = 60  # for another run's lock


class NicLook(Struct, frozen=True):
    """A node as it was judged."""

    look: Evidence
    reading: NicReading


def look(fleet: Fleet, asked: NicRequest) -> list[Outcome[NicLook]]:
    """What each node's HCAs are set to, and what would be written; changes nothing."""

    def work(host: Host, transport: Transport) -> NicLook:
        role = _role(host, transport, asked)
        evidence = reach.ask(transport)
        return NicLook(evidence, _judged(host, evidence, role, asked))

    return on_each(fleet, "reading the firmware of HCAs", work)


def _role(host: Host, transport: Transport, asked: NicRequest) -> Role | None:
    """The role that was said, else the one that the node shows; of an undo it does not matter."""
    want = asked.want(host.name)
    if want.role is not None or not asked.profile:
        return want.role
    return role_of(Node(collect(transport)), want)


def _judged(host: Host, look: Evidence, role: Role | None, asked: NicRequest) -> NicReading:
    want = asked.want(host.name)
    wishes = asked.back.get(host.name, ()) if asked.back else asked.named
    if asked.profile and not asked.back:
        wishes = (*wishes, *wanted(role, dict(want.nic)))
    return replace(reading(look, wishes, want.compat), role=role)


def to_do(fleet: Fleet, looked: Sequence[Outcome[NicLook]]) -> tuple[Host, ...]:
    """Those on which something is to be written, and nothing stands in the way."""
    names = {each.host for each in looked if each.value and each.value.reading.plan.ready}
    return tuple(host for host in fleet.hosts if host.name in names)


def write_settings(
    fleet: Fleet, looked: Sequence[Outcome[NicLook]], asked: NicRequest, how: Counting
) -> Rolled[NicReading]:
    """Write what was planned, what there was in the journal before; the others stay as they are.

    :param how: its terms are of the hosts that ``to_do`` names.
    :raises LockedError: another controller's run is at work on one of the hosts.
    :raises JournalError: there is no journal to be had; nothing was written.
    """
    before = {each.host: each.value for each in looked if each.value is not None}
    seen = {each.host: each.map(lambda look: look.reading) for each in looked}
    meant = replace(fleet, hosts=to_do(fleet, looked))
    if not meant.hosts:
        return Rolled(seen)
    audit = of_run(how.folder.settle(), how.agreed.about.reason)

    def work(host: Host, transport: Transport, witness: Witness) -> NicReading:
        now = before[host.name]
        text = reach.write_script(now.look, now.reading.plan.words, asked.wait_s, audit)
        witness.keep(now.reading.plan.kept)
        witness.about_to(Phase.APPLYING)
        after = reach.write(transport, text)
        told = _judged(host, reach.again(now.look, after), now.reading.role, asked)
        steps = [f"wrote {each}" for each in now.reading.plan.edits if each not in told.plan.edits]
        failures = [
            f"{each.source}: {why}" for each in reach.written(after) if (why := reach.failed(each))
        ]
        if not failures and told.plan.edits:
            failures = [f"was written, and is not there: {', '.join(map(str, told.plan.edits))}"]
        return replace(told, steps=tuple(steps), failed="; ".join(failures))

    counted = replace(how, agreed=replace(how.agreed, alone=True))
    rolled = on_each_counted(meant, "writing settings", work, counted, well=_well)
    return replace(rolled, outcomes={**seen, **rolled.outcomes})


def _well(done: NicReading) -> bool:
    return not done.failed and not done.plan.edits


def kept_by(runs: Path, name: str) -> Mapping[str, tuple[NicWish, ...]]:
    """By host, the wishes that take a run back.

    :raises UsageError: there is no such run, it was none of this verb, or it wrote nothing.
    """
    run = read_run(runs, name)
    if run.story.about.verb != VERB:
        raise UsageError(
            f"run {run.id} was {run.story.about.verb}, not {VERB}",
            hint=f"take it back by: undo {run.id}",
        )
    kept: dict[str, list[str]] = {}
    for event in run.story.events:
        if event.phase == KEPT:
            kept.setdefault(event.host, []).append(event.detail)
    if not kept:
        raise UsageError(f"run {run.id} wrote nothing", hint="there is nothing to take back")
    return {host: wishes_back(each) for host, each in kept.items()}
