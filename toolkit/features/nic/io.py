"""Ask a node what the firmware of its HCAs is set to, and have it write settings."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from toolkit.errors import StaleError, TransportError
from toolkit.evidence import Evidence, Frame, State
from toolkit.features.reload.io import guard_sum
from toolkit.node.audit import before_script
from toolkit.node.collect import frames_of
from toolkit.node.deliver import must_have_begun
from toolkit.node.scripts import assembled
from toolkit.ssh.transport import Transport

_PARTS = ("frames.sh", "lock.sh", "agreed.sh", "nic.sh")
_LIMIT_S = 1800.0


def ask(transport: Transport) -> Evidence:
    """The frames of a look; changes nothing.

    :raises TransportError: whether it ran to its end cannot be known.
    """
    return frames_of(transport, assembled(_PARTS, "nics"), limit_s=_LIMIT_S)


def write_script(look: Evidence, words: Sequence[str], wait_s: int = 60, audit: str = "") -> str:
    """The script that writes. Cut off at any byte, it runs nothing.

    :param words: one for each card, as nic.sh takes them.
    :param audit: of ``node.audit.of_run``, for the node's own log.
    """
    told = shlex.join((guard_sum(look, left_out=("uid",)), str(wait_s), *words))
    return assembled(_PARTS, f"set_nics {told} end", before=before_script(audit))


def write(transport: Transport, text: str) -> Evidence:
    """Carry out ``write_script``; what its tool said, and the cards as they are then.

    :raises StaleError: a card is not as it was judged; nothing was written.
    :raises LockedError: another run holds the node; nothing was written.
    :raises ApplyError: the node has no place for a lock; nothing was written.
    :raises TransportError: whether it ran to its end cannot be known.
    """
    result = transport.run(text, limit_s=_LIMIT_S)
    evidence, name = Evidence.parse(result.stdout), transport.name
    must_have_begun(name, evidence)
    if "expect" in evidence.frames:
        raise StaleError(
            f"{name}: what its HCAs say has changed since it was looked at",
            hint=f"nothing was written; look again: nic --hosts {name}",
        )
    if not evidence.complete:
        raise TransportError(
            f"{name}: the script broke off, with status {result.exit}",
            hint=f"the node goes on with what it began: look again, nic --hosts {name}",
        )
    return evidence


def written(evidence: Evidence) -> tuple[Frame, ...]:
    """What the tool said of each card that was written to."""
    return tuple(each for key, each in evidence.frames.items() if key.startswith("set-"))


def again(look: Evidence, after: Evidence) -> Evidence:
    """The look with the cards as they were read after the change."""
    frames = [
        Frame(f"nic-{key.removeprefix('after-')}", each.state, each.source, each.text, each.exit)
        for key, each in after.frames.items()
        if key.startswith("after-")
    ]
    return look.plus(frames)


def failed(frame: Frame) -> str:
    """Why the tool did not write; "" where it did."""
    if frame.state is State.OK:
        return ""
    said = [line for line in frame.text.split("\n") if line.startswith("-E-")]
    return said[-1].removeprefix("-E-").strip() if said else frame.trouble
