"""What ``systemctl status`` says of a service.

Source: systemd/systemd src/systemctl/systemctl-show.c, print_status_info. A line with the unit,
then lines "Loaded:" and "Active:" with its states; the dot before the unit is another letter in
other locales and states, and older versions have none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# "* openibd.service - openibd - configure Mellanox devices", "x.service".
_UNIT = re.compile(r"^[ \t]*(?:\S )?([\w@.:-]+\.service)(?: - .*)?[ \t]*$", re.MULTILINE)
_LOADED = re.compile(r"^\s*Loaded: (\S+)(?: \(([^)\n]*)\)?)?", re.MULTILINE)
_ACTIVE = re.compile(r"^\s*Active: ([a-z-]+)(?: \(([^)\n]*)\))?", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Service:
    """One unit, in the words of systemd."""

    name: str  # "nvidia-fabricmanager"
    loaded: str  # "loaded", "masked", "not-found"
    enabled: str  # "enabled", "disabled", "static"; "" where it is not told
    active: str  # "active", "inactive", "failed", "activating"
    result: str  # "exit-code" of one that failed, "running" of one that does

    @property
    def failed(self) -> bool:
        return self.active == "failed"


def parse_systemctl_status(text: str) -> dict[str, Service]:
    """Each unit of which both states are told, by its name without ".service"."""
    parts = _UNIT.split(text)
    found = {}
    for name, block in zip(parts[1::2], parts[2::2], strict=True):
        loaded, active = _LOADED.search(block), _ACTIVE.search(block)
        if loaded is None or active is None:
            continue
        words = [each.strip() for each in (loaded[2] or "").split(";")]
        enabled = words[1] if len(words) > 1 else ""
        result = (active[2] or "").removeprefix("Result: ")
        unit = name.removesuffix(".service")
        found[unit] = Service(unit, loaded[1], enabled, active[1], result)
    return found
