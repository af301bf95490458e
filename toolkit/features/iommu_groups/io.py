"""Ask a node for its IOMMU groups, and have it change their domains."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from msgspec import Struct

from toolkit.errors import ApplyError, StaleError, TransportError
from toolkit.evidence import Evidence, State
from toolkit.features.reload.io import guard_sum as reload_guard_sum
from toolkit.node.audit import before_script
from toolkit.node.collect import frames_of
from toolkit.node.deliver import must_have_begun
from toolkit.node.scripts import assembled
from toolkit.ssh.transport import Transport

_PARTS = ("frames.sh", "routes.sh", "holding.sh", "lock.sh", "agreed.sh", "domains.sh")
_NOT_JUDGED = frozenset({"uid", "domains-before"})


class GroupsChanged(Struct, frozen=True):
    """What came of it on one node."""

    steps: tuple[str, ...]  # "echo identity >/sys/.../type: done"
    groups: str  # the text of the frame: the groups as they are now


def look_script() -> str:
    """The script that only looks."""
    return assembled(_PARTS, "domains")


def change_script(look: Evidence, words: Sequence[str], wait_s: int = 60, audit: str = "") -> str:
    """The script that changes. Cut off at any byte, it runs nothing.

    :param words: one for each group, as domains.sh takes them.
    :param audit: of ``reach.audit.of_run``, for the node's own log.
    """
    told = shlex.join((guard_sum(look), str(wait_s), *words))
    return assembled(_PARTS, f"set_domains {told} end", before=before_script(audit))


def guard_sum(look: Evidence) -> str:
    """What a look's judgement rests on, as domains.sh sums it up again."""
    return reload_guard_sum(look, left_out=_NOT_JUDGED)


def ask(transport: Transport) -> Evidence:
    """The frames of a look; changes nothing.

    :raises TransportError: whether it ran to its end cannot be known.
    """
    return frames_of(transport, look_script(), limit_s=120)


def change(transport: Transport, text: str, *, limit_s: float = 1800) -> GroupsChanged:
    """Carry out ``change_script``.

    :raises StaleError: the node is not as it was judged; nothing was touched.
    :raises LockedError: another run holds the node; nothing was touched.
    :raises ApplyError: a step failed; its group has the domain and the drivers that it had,
        unless a step that puts them back is among the failed ones. Or the node has no place
        for a lock: nothing was touched.
    :raises TransportError: whether it ran to its end cannot be known.
    """
    result = transport.run(text, limit_s=limit_s)
    evidence = Evidence.parse(result.stdout)
    frames, name = evidence.frames, transport.name
    must_have_begun(name, evidence)
    if "expect" in frames:
        raise StaleError(
            f"{name}: who depends on its devices has changed since it was looked at",
            hint="nothing was touched; look again: iommu --check",
        )
    if not evidence.complete or "groups-after" not in frames:
        raise TransportError(
            f"{name}: the script broke off, with status {result.exit}",
            hint="the node goes on with what it began: look again, iommu --check",
        )
    told = []
    for key, frame in evidence.frames.items():
        if key.partition(".")[0].isdigit():
            words = " ".join(frame.text.split())
            how = {State.OK: "done", State.TIMEOUT: "no answer, abandoned"}
            told.append(f"{frame.source}: {how.get(frame.state, f'failed {words}'.rstrip())}")
        elif key == "kept" and frame.state is not State.OK:
            told.append(f"{frame.source}: cannot be written")
    steps = tuple(told)
    if result.exit != 0:
        bad = [each for each in steps if not each.endswith(": done")]
        raise ApplyError(
            f"{name}: {'; '.join(bad) or 'a step failed'}",
            hint="what the kernel says of it: dmesg | tail; then look again: iommu --check",
        )
    return GroupsChanged(steps, frames["groups-after"].text)
