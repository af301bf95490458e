"""What ``systemctl status``, ``list-units`` and ``show`` say of services.

Sources, as read: systemd/systemd src/systemctl/systemctl-show.c (of 249 to 250),
print_status_info and show_one; systemctl-list-units.c (of 256 on), output_units_list. A status has
a line with the unit, then lines "Loaded:" and "Active:" with its states; the dot before the unit is
another letter in other locales and states, and older versions have none. A list has a row for each
unit, with a dot before the ill ones unless --plain is given, and a column of jobs where there are
some.
"""

from __future__ import annotations

import re

from msgspec import Struct

# "* openibd.service - openibd - configure Mellanox devices", "x.service".
_UNIT = re.compile(r"^[ \t]*(?:\S )?([\w@.:-]+\.service)(?: - .*)?[ \t]*$", re.MULTILINE)
_LOADED = re.compile(r"^\s*Loaded: (\S+)(?: \(([^)\n]*)\)?)?", re.MULTILINE)
# "failed (Result: exit-code)", "activating (auto-restart) (Result: exit-code)".
_ACTIVE = re.compile(
    r"^\s*Active: ([a-z-]+)(?: \((?!Result: )([^)\n]*)\))?(?: \((?!Result: )[^)\n]*\))?"
    r"(?: \(Result: ([^)\n]*)\))?",
    re.MULTILINE,
)
_ROW = re.compile(
    r"^[ \t]*(?:[^\w\s] )?[ \t]*([\w@.:-]+)\.service[ \t]+"
    r"(loaded|masked|not-found|bad-setting|error|merged|stub)[ \t]+"
    r"(active|reloading|inactive|failed|activating|deactivating|maintenance|refreshing)[ \t]+"
    r"([a-z-]+)\b",
    re.MULTILINE,
)
_SHOWN = re.compile(
    r"^(Id|LoadState|ActiveState|SubState|UnitFileState|Result)=(.*)$", re.MULTILINE
)


# src/systemctl/systemctl-show.c, show_one: where there is no such unit; src/shared/bus-wait-for-
# jobs.c, log_job_error_with_service_result: where one that was to be started was not.
_MISSING = re.compile(r"^Unit (\S+)\.service could not be found\.", re.MULTILINE)
_NOT_STARTED = re.compile(r"^Job for (\S+)\.service failed(?: because (.*?))?\.?$", re.MULTILINE)


class Service(Struct, frozen=True):
    """One unit, in the words of systemd."""

    name: str  # "nvidia-fabricmanager"
    loaded: str  # "loaded", "masked", "not-found"
    enabled: str  # "enabled", "disabled", "static"; "" where it is not told
    active: str  # "active", "inactive", "failed", "activating"
    result: str  # "exit-code" of one that failed, where that is told; "running" of one that does

    @property
    def failed(self) -> bool:
        """Whether it has given up, or is started again and again because it ends at once."""
        return self.active == "failed" or (self.active == "activating" and self.result in _ENDINGS)


# systemd src/core/service.c, service_result_table, and the sub state of who waits to start again.
_ENDINGS = frozenset(
    {"resources", "protocol", "timeout", "exit-code", "signal", "core-dump", "watchdog"}
    | {"start-limit-hit", "oom-kill", "exec-condition", "auto-restart", "auto-restart-queued"}
)


def parse_services(text: str) -> dict[str, Service]:
    """Each unit of which both states are told, by its name without ".service"."""
    found = {
        name: Service(name, "not-found", "", "inactive", "") for name in _MISSING.findall(text)
    }
    for name, why in _NOT_STARTED.findall(text):
        found[name] = Service(name, "loaded", "", "failed", why or "its start failed")
    for name, loaded, active, sub in _ROW.findall(text):
        found[name] = Service(name, loaded, "", active, sub)
    return found | _shown(text) | _statuses(text)


def _shown(text: str) -> dict[str, Service]:
    """Of ``systemctl show UNIT...``, with all properties or with -p; a blank line parts units."""
    found = {}
    for block in re.split(r"\n[ \t]*\n", text):
        has = dict(_SHOWN.findall(block))
        name = has.get("Id", "").removesuffix(".service")
        if name and "ActiveState" in has:
            ended = has.get("Result", "success")
            result = has.get("SubState", "") if ended == "success" else ended
            enabled = has.get("UnitFileState", "")
            found[name] = Service(
                name, has.get("LoadState", ""), enabled, has["ActiveState"], result
            )
    return found


def _statuses(text: str) -> dict[str, Service]:
    parts = _UNIT.split(text)
    found = {}
    for name, block in zip(parts[1::2], parts[2::2], strict=True):
        loaded, active = _LOADED.search(block), _ACTIVE.search(block)
        if loaded is None or active is None:
            continue
        words = [each.strip() for each in (loaded[2] or "").split(";")]
        enabled = words[1] if len(words) > 1 else ""
        result = active[3] or active[2] or ""
        unit = name.removesuffix(".service")
        found[unit] = Service(unit, loaded[1], enabled, active[1], result)
    return found
