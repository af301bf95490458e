"""Reboot a node, and know that it did: the boot id must be another one."""

from __future__ import annotations

import shlex
import time

from toolkit.errors import TransportError
from toolkit.reach.transport import Sink as Note
from toolkit.reach.transport import Transport, quiet

# Detached, so that our own connection ends before the node does; a node without systemctl
# has reboot. Nothing of ours may hold the connection open.
_REBOOT = """#!/bin/sh
reboot_node() { # reboot_node BOOT_ID: ends that boot, and never the one after it
    now=$(cat "$GDR_ROOT/proc/sys/kernel/random/boot_id")
    if [ "$now" != "$1" ]; then
        echo "booted meanwhile"
        return
    fi
    if [ -n "$GDR_ROOT" ]; then PATH=$GDR_BIN:$PATH; else PATH=$PATH:/usr/sbin:/sbin; fi
    sync
    { sleep 1; systemctl reboot || reboot; } >/dev/null 2>&1 </dev/null &
    echo rebooting
}
"""
_BOOT_ID = """#!/bin/sh
boot_id() { cat "$GDR_ROOT/proc/sys/kernel/random/boot_id"; }
boot_id
"""
_POLL_S = 1.0


def reboot(transport: Transport, boot_id: str, *, limit_s: float = 900, note: Note = quiet) -> str:
    """Reboot and wait until the node answers with another boot id, which is returned.

    A node that has another one already is left alone: asked twice, it reboots once.

    :param boot_id: the one it has now.
    :param limit_s: firmware of a GPU server may take ten minutes.
    :raises TransportError: the node refused, or was not back in time; say so, do not retry.
    """
    asked = transport.run(f"{_REBOOT}reboot_node {shlex.quote(boot_id)}\n", limit_s=30)
    if asked.exit == 0 and "booted meanwhile" in asked.stdout:
        return _ask(transport)
    if asked.exit != 0 or "rebooting" not in asked.stdout:
        raise TransportError(
            f"{transport.name}: refuses to reboot: {asked.stderr.strip() or asked.exit}",
            hint="nothing was lost; reboot it by hand, then run again",
        )
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


def _ask(transport: Transport) -> str:
    """The boot id; "" while the node is down, or half up."""
    try:
        answer = transport.run(_BOOT_ID, limit_s=15)
    except TransportError:
        transport.close()
        return ""
    return answer.stdout.strip() if answer.exit == 0 else ""
