"""Reload: which modules to take out and put back, in which order, and what came of it; pure.

A module goes after all that use it and comes before them. What the kernel would refuse itself
stops us as well, and before anything was touched: it would refuse amid the work.
"""

from __future__ import annotations

import re
from enum import StrEnum

from msgspec import Struct

from toolkit.errors import ExitCode, Unsupported, UsageError
from toolkit.facts.modules.module_users import Holding
from toolkit.features.reload.plan_obstacles import (
    MAY_GO_OVER,
    PEERMEM,
    ObstacleKind,
    ReloadObstacle,
    job_word,
    obstacles,
)

# What a word of the operator's begins with: whatever uses one of these goes along.
ROOTS: dict[str, tuple[str, ...]] = {
    "peermem": ("nvidia_peermem",),
    "rdma": ("mlx_compat", "mlxfw", "mlxdevm", "mlx5_core", "ib_core"),
    "driver": ("nvidia",),
}


class Reload(Struct, frozen=True):
    """What would be done on one node."""

    unload: tuple[str, ...]  # in this order
    load: tuple[str, ...]  # likewise
    obstacles: tuple[ReloadObstacle, ...]
    ours: tuple[str, ...] = ()  # net devices of our own session that go and come back
    over: tuple[str, ...] = ()  # what the operator named, and is there

    @property
    def empty(self) -> bool:
        return not self.load


def read_over(text: str) -> frozenset[str]:
    """The operator's --over: "ssh:eth0,job:python3".

    :raises UsageError: for a word that names no kind, or no thing.
    """
    words = [word for word in text.split(",") if word]
    for word in words:
        kind, _, name = word.partition(":")
        if kind not in MAY_GO_OVER or not name:
            raise UsageError(
                f"--over {word}: what to go over is named as KIND:NAME",
                hint=f"KIND is one of {', '.join(MAY_GO_OVER)}; --check shows the words",
            )
    return frozenset(words)


def read_what(text: str) -> tuple[str, ...]:
    """The operator's --what as roots: one of our words, or names of modules.

    :raises UsageError: for what cannot be the name of a module.
    """
    roots: list[str] = []
    for word in text.split(","):
        name = word.replace("-", "_")
        if not re.fullmatch(r"[A-Za-z0-9_]+", name):
            raise UsageError(
                f"--what {word!r} is no module", hint=f"{', '.join(ROOTS)}, or names as in lsmod"
            )
        roots += ROOTS.get(word, (name,))
    return tuple(dict.fromkeys(roots))


def reload_of(
    holding: Holding, roots: tuple[str, ...], over: frozenset[str] = frozenset(), *, ssh: bool
) -> Reload:
    """Decide for one node.

    :param ssh: the node was reached by SSH, so it must know of a session of ours.
    """
    # Users first; by name where either may go first.
    left, order = set(_closure(holding, roots)), list[str]()
    while left:
        free = sorted(each for each in left if not left & set(holding.modules[each].users))
        if not free:
            raise Unsupported(
                f"modules use one another: {', '.join(sorted(left))}", hint="reboot the node"
            )
        order += free
        left -= set(free)
    unload = tuple(order)
    load = list(reversed(unload))
    load += [each for each in roots if each == PEERMEM and each not in load]
    found = obstacles(holding, frozenset(unload), ssh=ssh)
    return Reload(
        unload,
        tuple(load),
        tuple(each for each in found if each.word not in over),
        tuple(dict.fromkeys(each.name for each in found if each.kind is ObstacleKind.SSH)),
        tuple(sorted({each.word for each in found} & over)),
    )


def _closure(holding: Holding, roots: tuple[str, ...]) -> frozenset[str]:
    """The roots that are loaded, and all that use them."""
    found: set[str] = set()
    waiting = [each for each in roots if each in holding.modules]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += holding.modules[name].users
    return frozenset(found)


class ReloadResult(StrEnum):
    """What came of it, in a word."""

    NOTHING = "nothing to reload"
    READY = "would be reloaded"
    WOULD_REBOOT = "would be rebooted"
    REFUSED = "refused"
    RELOADED = "reloaded"
    REBOOTED = "rebooted"
    FAILED = "failed"


class Reloading(Struct, frozen=True):
    """One node, before or after."""

    result: ReloadResult
    reload: Reload
    holding: Holding
    steps: tuple[str, ...] = ()  # "unload nvidia_peermem: done"
    missing: tuple[str, ...] = ()  # modules that should be loaded, and are not

    @property
    def rebooted(self) -> bool:
        return self.result is ReloadResult.REBOOTED

    @property
    def exit_code(self) -> ExitCode:
        if self.result is ReloadResult.REFUSED:
            told = {each.kind for each in self.reload.obstacles}
            return ExitCode.UNKNOWN if told == {ObstacleKind.UNKNOWN} else ExitCode.STOPPED
        return {
            ReloadResult.FAILED: ExitCode.STOPPED,
            ReloadResult.READY: ExitCode.PENDING,
            ReloadResult.WOULD_REBOOT: ExitCode.PENDING,
        }.get(self.result, ExitCode.OK)


def first_result(
    reload: Reload, holding: Holding, over: frozenset[str], *, reboot: bool
) -> ReloadResult:
    """What would come of it.

    :param reboot: nodes may be rebooted where a reload is refused; never under a job, though it
        has nothing to do with the modules, unless the operator named it.
    """
    if not reload.unload and not reload.load:
        return ReloadResult.NOTHING
    if not reload.obstacles:
        return ReloadResult.READY
    jobs = [each for each in holding.users if each.works and job_word(each) not in over]
    return (
        ReloadResult.WOULD_REBOOT
        if reboot and not jobs and not holding.guests
        else ReloadResult.REFUSED
    )
