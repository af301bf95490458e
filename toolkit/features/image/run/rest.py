"""When a boot has come to rest, and what it still waits for."""

from __future__ import annotations

from dataclasses import dataclass

# sysinit and what is queued for the first boot: a suite that asks earlier finds half of it. The
# limit is the guest's own: one that never comes to rest is in, and says what it waits for.
_SETTLE = """state=
if command -v timeout >/dev/null; then
    state=$(timeout {limit_s:.0f} systemctl is-system-running --wait)
fi
[ -n "$state" ] || state=$(systemctl is-system-running)
printf '%s\\n' "$state"
systemctl list-units --state=failed --plain --no-legend --no-pager | cut -d' ' -f1 | sed 's/^/! /'
systemctl list-jobs --plain --no-legend --no-pager | while read -r _ unit _; do echo "? $unit"; done
"""


@dataclass(frozen=True, slots=True)
class Rest:
    """What systemd says once it has come to rest, or is waited for no longer."""

    state: str  # "running", "degraded", "starting"; "" where it has none
    failed: tuple[str, ...] = ()  # units
    waiting: tuple[str, ...] = ()  # units that are still to start or to stop


def settled(said: str) -> Rest:
    """Read what the script said: a word, then "! UNIT" and "? UNIT"."""
    lines = [line for line in said.split("\n") if line]
    units = {mark: tuple(e[2:] for e in lines if e.startswith(f"{mark} ")) for mark in "!?"}
    words = [line.strip() for line in lines if line[:2] not in {"! ", "? "}]
    return Rest(words[0] if words else "", units["!"], units["?"])


def settle_script(limit_s: float) -> str:
    """What waits, in the guest, until systemd has started all that it was to start."""
    return _SETTLE.format(limit_s=limit_s)
