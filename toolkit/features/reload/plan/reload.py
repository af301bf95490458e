"""Which modules to take out and put back, in which order, and what stands in the way.

A module goes after all that use it and comes before them. What the kernel would refuse itself
stops us as well, and before anything was touched: it would refuse amid the work.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from toolkit.errors import Unsupported, UsageError
from toolkit.facts.modules.module_users import Holding
from toolkit.features.reload.plan.obstacles import MAY_GO_OVER, PEERMEM, Kind, Obstacle, obstacles

# What a word of the operator's begins with: whatever uses one of these goes along.
ROOTS: dict[str, tuple[str, ...]] = {
    "peermem": ("nvidia_peermem",),
    "rdma": ("mlx_compat", "mlxfw", "mlxdevm", "mlx5_core", "ib_core"),
    "driver": ("nvidia",),
}


@dataclass(frozen=True, slots=True)
class Reload:
    """What would be done on one node."""

    unload: tuple[str, ...]  # in this order
    load: tuple[str, ...]  # likewise
    obstacles: tuple[Obstacle, ...]
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
    unload = _order(holding, _closure(holding, roots))
    load = list(reversed(unload))
    load += [each for each in roots if each == PEERMEM and each not in load]
    found = obstacles(holding, frozenset(unload), ssh=ssh)
    return Reload(
        unload,
        tuple(load),
        tuple(each for each in found if each.word not in over),
        tuple(dict.fromkeys(each.name for each in found if each.kind is Kind.SSH)),
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


def _order(holding: Holding, modules: frozenset[str]) -> tuple[str, ...]:
    """Users first; by name where either may go first.

    :raises Unsupported: where modules use one another in a ring.
    """
    left, order = set(modules), list[str]()
    while left:
        free = sorted(each for each in left if not left & set(holding.modules[each].users))
        if not free:
            raise Unsupported(
                f"modules use one another: {', '.join(sorted(left))}", hint="reboot the node"
            )
        order += free
        left -= set(free)
    return tuple(order)
