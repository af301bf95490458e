"""What kept work from being begun under a node's lock: see ``under_lock`` of lock.sh."""

from __future__ import annotations

from toolkit.errors import ApplyError, LockedError
from toolkit.evidence import Evidence


def must_have_begun(host: str, evidence: Evidence) -> None:
    """Raise where the lock was not to be had.

    :raises LockedError: another run holds the node; nothing was touched.
    :raises ApplyError: the node has no place for a lock; nothing was touched.
    """
    frames = evidence.frames
    if "lock" in frames:
        raise LockedError(
            f"{host}: {frames['lock'].text.strip() or 'another run holds the node'}",
            hint="nothing was touched; wait for it, or find out what became of it",
        )
    if "state" in frames:
        raise ApplyError(
            f"{host}: {frames['state'].source}: cannot be written, so nobody can hold the node",
            hint="nothing was touched; see that the disk is neither full nor read-only",
        )
