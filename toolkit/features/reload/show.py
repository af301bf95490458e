"""What a reload would come to, or came to: what goes, who depends on it, what was done."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from toolkit.errors import Outcome
from toolkit.features.reload.plan import Reloading, ReloadResult
from toolkit.features.reload.plan_obstacles import ReloadObstacle, uses
from toolkit.report.table import Ink, Painter, clean, wrapped
from toolkit.report.text import errors

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
    yield from _wrapped("  in    ", " ".join(told.reload.load) or "-")
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
        also = f", and {more} more" if more else ""
        yield from _wrapped(f"  {name:<{width}}  used by ", held + also)
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
