"""Reboot a node, and know that it did: the boot id must be another one.

What a node remembers of command lines that were tried on it.

A line is written before the boot that it tells of, so that a trial whose controller died is
never taken for one that nobody began.
"""

from __future__ import annotations

import shlex
import time
from typing import Protocol, runtime_checkable

from toolkit.errors import ApplyError, StaleError, TransportError
from toolkit.node.deliver import restart
from toolkit.ssh.transport import Sink as Note
from toolkit.ssh.transport import Transport, quiet

_BOOT_ID = """#!/bin/sh
boot_id() { cat "$GDR_ROOT/proc/sys/kernel/random/boot_id"; }
boot_id
"""
_POLL_S = 1.0
_NOTE = """#!/bin/sh
note_trial() { # note_trial ID OUTCOME WHY: its line, and that of no other; none without OUTCOME
    folder=$GDR_ROOT/var/lib/gdr-toolkit
    file=$folder/trials
    umask 022
    mkdir -p "$folder" && {
        [ ! -e "$file" ] || grep -v -e "^$1 " "$file"
        [ -z "$2" ] || printf '%s\\n' "$1 $2 $(date -u +%Y-%m-%dT%H:%M:%SZ)${3:+ $3}"
    } >"$file.new" && { [ -s "$file.new" ] || rm -f "$file"; } &&
        if [ -s "$file.new" ]; then mv -f "$file.new" "$file"; else rm -f "$file.new"; fi &&
        sync && echo noted
}
"""


@runtime_checkable
class Restarting(Protocol):
    """A transport to a node that others reboot: a scheduler which would wonder otherwise."""

    def restart(self, boot_id: str, wait_s: int) -> None:
        """As ``deliver.restart``, and raising what it does."""


def reboot(
    transport: Transport,
    boot_id: str,
    *,
    wait_s: int = 60,
    limit_s: float = 900,
    note: Note = quiet,
) -> str:
    """Reboot and wait until the node answers with another boot id, which is returned.

    A node that has another one already is left alone: asked twice, it reboots once.

    :param boot_id: the one it had when it was looked at.
    :param wait_s: for the lock of another run, whose work a reboot would cut off.
    :param limit_s: firmware of a GPU server may take ten minutes.
    :raises LockedError: another run is at work on it; it was not rebooted.
    :raises TransportError: the node refused, or was not back in time; say so, do not retry.
    """
    try:
        if isinstance(transport, Restarting):
            transport.restart(boot_id, wait_s)
        else:
            restart(transport, boot_id, wait_s=wait_s)
    except StaleError:
        return _ask(transport)
    transport.close()
    note("rebooting")
    begun = time.monotonic()
    while time.monotonic() - begun < limit_s:
        time.sleep(_POLL_S)
        now = _ask(transport)
        if now and now != boot_id:
            note(f"back after {time.monotonic() - begun:.0f} s")
            return now
    raise TransportError(
        f"{transport.name}: rebooted, and was not back within {limit_s:.0f} s",
        hint="look at its console; every change is on its disk, so run again once it is up",
    )


def boot_id_of(transport: Transport) -> str:
    """The boot that the node is in; "" while it is half up.

    :raises TransportError: it does not answer.
    """
    answer = transport.run(_BOOT_ID, limit_s=15)
    return answer.stdout.strip() if answer.exit == 0 else ""


def _ask(transport: Transport) -> str:
    """The same; "" also while the node is down."""
    try:
        return boot_id_of(transport)
    except TransportError:
        transport.close()
        return ""


def note(transport: Transport, trial: str, outcome: str, why: str = "") -> None:
    """Have the node remember how a trial stands.

    :param outcome: a word of ``TrialOutcome``, or "" to forget the trial.
    :param why: one sentence; of one that is open, the boot from which it is asked for.
    :raises ApplyError: it cannot be written down.
    :raises TransportError: whether it was cannot be known.
    """
    said = " ".join(why.split())[:300]
    words = shlex.join((trial, outcome, said))
    answer = transport.run(f"{_NOTE}note_trial {words}\n", limit_s=60)
    if answer.exit != 0 or "noted" not in answer.stdout:
        raise ApplyError(
            f"{transport.name}: /var/lib/gdr-toolkit/trials cannot be written: "
            f"{answer.stderr.strip() or answer.exit}",
            hint="a trial that is not written down is not begun; mend the disk",
        )
