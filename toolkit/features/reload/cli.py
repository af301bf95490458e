"""The verb that takes modules out of nodes and puts them back."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from toolkit.cli.options import HOSTS, REACH, Option, Said
from toolkit.cli.verb import verb
from toolkit.errors import ExitCode, Outcome, UsageError
from toolkit.features.reload.plan import Reloading, ReloadResult, read_over, read_what
from toolkit.features.reload.plan_obstacles import ReloadObstacle, uses
from toolkit.features.reload.run import ReloadRequest, look, reload_nodes, seen, to_do
from toolkit.plural import and_more, counted
from toolkit.report.document import Told
from toolkit.report.table import Ink, Painter, clean, wrapped
from toolkit.report.text import errors
from toolkit.rollout.run import Rolled
from toolkit.ssh.pool import broken_off
from toolkit.verbs.cli.rollout import COUNTED, counting, ended, tell_halt
from toolkit.verbs.cli.session import Session, consent, fleet

# What a reload would come to, or came to: what goes, who depends on it, what was done.
_INKS = {
    ReloadResult.NOTHING: Ink.GREY,
    ReloadResult.READY: Ink.YELLOW,
    ReloadResult.WOULD_REBOOT: Ink.YELLOW,
    ReloadResult.REFUSED: Ink.RED,
    ReloadResult.RELOADED: Ink.GREEN,
    ReloadResult.REBOOTED: Ink.GREEN,
    ReloadResult.FAILED: Ink.RED,
}
_SHOWN = 8  # processes a node, unless --verbose


def reload_lines(
    outcomes: Sequence[Outcome[Reloading]], paint: Painter, *, verbose: bool = False
) -> list[str]:
    """One part a node, what could not be done, and what to do where nodes refuse."""
    lines: list[str] = []
    for each in outcomes:
        if each.value is not None:
            lines += [*_node(each.host, each.value, paint, verbose=verbose), ""]
    lines += errors(((each.host, each.error) for each in outcomes), paint)
    refused = [e.host for e in outcomes if e.value and e.value.result is ReloadResult.REFUSED]
    if refused:
        lines += [
            f"{len(refused)} of {len(outcomes)} nodes refuse: end what depends, say --over WORD "
            "for each thing by its name,",
            "or reboot in place of a reload: --reboot (a node with jobs is left alone)",
        ]
    return lines


def _node(host: str, told: Reloading, paint: Painter, *, verbose: bool) -> Iterator[str]:
    ink = _INKS[told.result]
    yield f"{paint(host, Ink.BOLD)}  {paint(told.result.value, ink)}"
    if told.result is ReloadResult.NOTHING:
        return
    yield from _wrapped("  out   ", " ".join(told.reload.unload) or "-")
    yield from _wrapped("  in    ", " ".join(told.reload.load))
    yield from _held(told, verbose=verbose)
    for obstacle in told.reload.obstacles:
        yield from _obstacle(obstacle, paint)
    for word in told.reload.over:
        yield f"  over  {clean(word)}, as was said"
    for step in told.steps:
        if verbose or "failed" in step:
            yield f"  {clean(step)}"
    if told.missing:
        yield f"  {paint('not loaded now', Ink.RED)}: {clean(' '.join(told.missing))}"


def _wrapped(head: str, text: str) -> list[str]:
    return wrapped(text, first=head, rest=" " * len(head))


def _held(told: Reloading, *, verbose: bool) -> Iterator[str]:
    """Holders, users and storage: what was seen, whether it is in the way or not."""
    gone = frozenset(told.reload.unload)
    width = max(map(len, told.reload.unload), default=0)
    for name in told.reload.unload:
        module = told.holding.modules[name]
        more = max(module.refs - len(module.users), 0)
        held = ", ".join(module.users) or "no module"
        yield from _wrapped(f"  {name:<{width}}  used by ", held + and_more(more))
    users = [each for each in told.holding.users if uses(each) & gone]
    shown = users if verbose else users[:_SHOWN]
    for user in shown:
        yield f"  open  {clean(f'{user}: ' + ', '.join(user.devices))}"
    if len(users) > len(shown):
        yield f"  open  {len(users) - len(shown)} more processes: --verbose"
    for disk in told.holding.remote:
        yield f"  disk  {clean(f'{disk.name} of a server, by {disk.module}')}"


def _obstacle(obstacle: ReloadObstacle, paint: Painter) -> Iterator[str]:
    yield f"  {paint('stop', Ink.RED)}  {clean(obstacle.text)}"
    if obstacle.hint:
        yield f"        next: {clean(obstacle.hint)}"
    if obstacle.word:
        yield f"        or:   --over {clean(shlex.quote(obstacle.word))}"


RELOAD = (
    Option("what", "peermem", "peermem, rdma, driver, or names of modules: a,b"),
    Option("check", False, "change nothing; exit 7 where something would be reloaded"),
    Option("over", "", "go over one thing that depends, by its name: ssh:eth0", many=True),
    Option("reboot", False, "reboot nodes where a reload is refused, unless jobs run there"),
    Option("verbose", False, "every process and step", "v"),
    Option("json", False, "one JSON document on standard output (docs/report.schema.json)"),
)


@verb(HOSTS, REACH, RELOAD, COUNTED)
def reload(said: Said) -> ExitCode:
    """Take kernel modules out and put them back, where nobody depends on them.

    Refuses where our SSH session, the default route, a mount, a disk of a server or a process
    depends on them, and names it. What is named with --over may go all the same; no process is
    ended and no module is forced. See docs/reload.md.

    Exits 0 when all is loaded as it is on disk, 5 where a node refused or a step failed, 3 where
    it cannot be told what depends.

    Examples:
      invoke reload --hosts gpu[001-128] --check
      invoke reload --hosts gpu007 --what rdma
      invoke reload --hosts gpu007 --over job:dcgmi
      invoke reload --hosts gpu[001-128] --what driver --reboot --yes
    """
    session = Session.begin("reload", said)
    asked = _request(said)
    with fleet(said) as opened:
        looked = look(opened, asked)
        if said.looks or broken_off(looked):
            rolled = Rolled({each.host: seen(each) for each in looked})
        else:
            todo = [each.value.reloading for each in looked if each.value]
            _consent(todo, said, demo=opened.demo)
            meant = replace(opened, hosts=to_do(opened, looked))
            rolled = reload_nodes(opened, looked, asked, counting(session, meant))
    outcomes = list(rolled.outcomes.values())
    session.say(
        "\n".join(reload_lines(outcomes, session.paint, verbose=said.flag("verbose"))).rstrip()
    )
    told = [
        each.map(lambda done: Told(reloading=done, steps=done.steps, rebooted=done.rebooted))
        for each in outcomes
    ]
    tell_halt(rolled)
    return session.finish(told, ended(session, rolled))


def _request(said: Said) -> ReloadRequest:
    over = read_over(said.text("over"))
    if any(word.startswith("ssh:") for word in over) and not said.flag("reboot"):
        raise UsageError(
            "--over ssh: takes the way to the node away, and needs --reboot beside it",
            hint="where the address does not come back within a minute, the node reboots",
        )
    return ReloadRequest(read_what(said.text("what")), over, said.flag("reboot"))


def _consent(todo: list[Reloading], said: Said, *, demo: bool) -> None:
    reloads = sum(each.result is ReloadResult.READY for each in todo)
    reboots = sum(each.result is ReloadResult.WOULD_REBOOT for each in todo)
    if demo or not reloads + reboots:
        return
    parts = [f"reload modules on {counted(reloads, 'node')}"] if reloads else []
    parts += [f"reboot {counted(reboots, 'node')}"] if reboots else []
    consent(f"{', and '.join(parts)}?", said)
