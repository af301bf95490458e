"""Take modules out and put them back, where nobody depends on them; else say who does."""

from __future__ import annotations

import time
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from toolkit.errors import Outcome, TransportError
from toolkit.evidence import Evidence
from toolkit.facts.modules.module_users import parse_holding
from toolkit.features.reload import io as reach
from toolkit.features.reload.plan import Reload, Reloading, ReloadResult, first_result, reload_of
from toolkit.hosts.host import Host
from toolkit.node.audit import of_run
from toolkit.node.collect import ask
from toolkit.node.reboot import reboot
from toolkit.rollout.events import Witness
from toolkit.rollout.plan.batches import Phase
from toolkit.rollout.run import Rolled
from toolkit.ssh.transport import Sink, Transport
from toolkit.verbs.access import Fleet
from toolkit.verbs.budget_run import Counting, on_each_counted
from toolkit.verbs.each import on_each

ROUNDS = 3  # that a node may change under our hands; monitoring opens a GPU now and then
BACK_S = 300.0  # from a lost connection to the node's answer, where it may have rebooted


class ReloadRequest(Struct, frozen=True):
    """What the operator asked for."""

    roots: tuple[str, ...]
    over: frozenset[str] = frozenset()
    reboot: bool = False  # nodes may be rebooted where a live reload is refused
    wait_s: int = 60  # for another run's lock


class ReloadReading(Struct, frozen=True):
    """A node as it was judged."""

    look: Evidence
    reloading: Reloading


def look(fleet: Fleet, asked: ReloadRequest) -> list[Outcome[ReloadReading]]:
    """Who depends on the modules on each node; changes nothing."""

    def work(_: Host, transport: Transport) -> ReloadReading:
        return _judge(fleet, ask(transport), asked)

    return on_each(fleet, "looking at who depends", work)


def to_do(fleet: Fleet, looked: Sequence[Outcome[ReloadReading]]) -> tuple[Host, ...]:
    """Those where nothing stands in the way."""
    todo = {ReloadResult.READY, ReloadResult.WOULD_REBOOT}
    found = {each.host for each in looked if each.value and each.value.reloading.result in todo}
    return tuple(host for host in fleet.hosts if host.name in found)


def reload_nodes(
    fleet: Fleet, looked: Sequence[Outcome[ReloadReading]], asked: ReloadRequest, how: Counting
) -> Rolled[Reloading]:
    """Reload those where nothing stands in the way; the others stay as they are.

    :param how: its terms are of the hosts that ``to_do`` names.
    :raises LockedError: another controller's run is at work on one of the hosts.
    """
    before = {each.host: each.value for each in looked if each.value is not None}
    meant = replace(fleet, hosts=to_do(fleet, looked))
    if not meant.hosts:
        return Rolled({each.host: seen(each) for each in looked})
    audit = of_run(how.folder.settle(), how.agreed.about.reason)

    def work(host: Host, transport: Transport, witness: Witness) -> Reloading:
        return _bring(_Way(fleet, host, transport, witness, audit), before[host.name], asked)

    def harm(done: Reloading) -> str:
        return f"not loaded again: {', '.join(done.missing)}" if done.missing else ""

    def well(done: Reloading) -> bool:
        return done.result is not ReloadResult.FAILED

    rolled = on_each_counted(meant, "reloading", work, how, well=well, harm=harm)
    outcomes = {each.host: rolled.outcomes.get(each.host) or seen(each) for each in looked}
    return replace(rolled, outcomes=outcomes)


def seen(looked: Outcome[ReloadReading]) -> Outcome[Reloading]:
    """What is told of a node that was only looked at."""
    return Outcome(looked.host, looked.value.reloading if looked.value else None, looked.error)


def _judge(fleet: Fleet, evidence: Evidence, asked: ReloadRequest) -> ReloadReading:
    holding = parse_holding(evidence)
    by_ssh = fleet.access.transport != "local"
    found = reload_of(holding, asked.roots, asked.over, ssh=by_ssh)
    result = first_result(found, holding, asked.over, reboot=asked.reboot)
    return ReloadReading(evidence, Reloading(result, found, holding))


class _Way(Struct, frozen=True):
    """One node, and who hears of what is done there."""

    fleet: Fleet
    host: Host
    transport: Transport
    witness: Witness
    audit: str


def _bring(way: _Way, now: ReloadReading, asked: ReloadRequest) -> Reloading:
    """Reload or reboot, where the node is as it was judged; else judge it again.

    :raises Changed: it does not come to rest.
    """
    fleet, transport = way.fleet, way.transport
    for left in reversed(range(ROUNDS)):
        if now.reloading.result is ReloadResult.WOULD_REBOOT:
            now = _judge(fleet, ask(transport), asked)  # a job may have begun
            if now.reloading.result is ReloadResult.WOULD_REBOOT:
                boot_id = now.reloading.holding.boot_id
                way.witness.about_to(Phase.REBOOTING, boot_id)
                reboot(transport, boot_id, note=_note(fleet, way.host))
                return replace(now.reloading, result=ReloadResult.REBOOTED)
        if now.reloading.result is not ReloadResult.READY:
            break
        found = now.reloading.reload
        moved = (found.unload, found.load, found.ours)
        text = reach.script(now.look, *moved, wait_s=asked.wait_s, audit=way.audit)
        way.witness.about_to(Phase.APPLYING)
        try:
            done, _ = reach.carry_out(transport, text, sink=_log(fleet, way.host))
        except reach.ChangedUnderHand as why:
            if not left:
                raise
            now = _judge(fleet, why.look, asked)
            continue
        except TransportError:
            if not found.ours:
                raise
            done = _after_silence(transport, found)
        return _told(now.reloading, done)
    return now.reloading


def _told(reloading: Reloading, done: reach.Done) -> Reloading:
    missing = tuple(each for each in reloading.reload.load if each not in done.loaded)
    bad = missing or not all(step.ok for step in done.steps)
    result = ReloadResult.FAILED if bad else ReloadResult.RELOADED
    if done.rebooting:
        result = ReloadResult.REBOOTED
    return replace(reloading, result=result, steps=tuple(map(str, done.steps)), missing=missing)


def _after_silence(transport: Transport, found: Reload) -> reach.Done:
    """Our own interface went, as was agreed: wait for the node, and look what it has.

    :raises TransportError: it is not back in time.
    """
    end = time.monotonic() + BACK_S
    while True:
        transport.close()
        try:
            loaded = parse_holding(ask(transport)).modules
        except TransportError:
            if time.monotonic() > end:
                raise
            time.sleep(2)
            continue
        if all(each in loaded for each in found.load) or time.monotonic() > end:
            return reach.Done((), frozenset(loaded))
        time.sleep(2)


def _note(fleet: Fleet, host: Host) -> Sink:
    return lambda text: fleet.access.progress.note(host.name, text)


def _log(fleet: Fleet, host: Host) -> Sink:
    """Pass on each step as it ends."""

    def line(text: str) -> None:
        words = text.split(" ", 3)
        if words[0] == "=" and len(words) == 4 and words[1][0].isdigit():
            fleet.access.progress.note(host.name, words[3][:80])

    return line
