"""How firmware and kernel set up processors and memory: threads, idle states, clocks, sockets.

Sources: Documentation/ABI/testing/sysfs-devices-system-cpu, sysfs-devices-node;
Documentation/admin-guide/pm; drivers/pci/pcie/aspm.c for the policy.
"""

from __future__ import annotations

import re

from msgspec import Struct

from toolkit.errors import Unparsable
from toolkit.facts.lines import named_lines

_CPU = "devices/system/cpu"
_SOURCE = "/sys/devices/system"
_STATE = re.compile(rf"{_CPU}/cpu0/cpuidle/state(\d+)/(name|latency|disable)")
_PACKAGE = re.compile(r"package/node(\d+)")


class IdleState(Struct, frozen=True):
    """One way for a processor to rest."""

    name: str  # "C6", "POLL"
    latency_us: int  # until it works again
    disabled: bool  # by somebody on the running system


class Setup(Struct, frozen=True):
    """Of processors and memory; "" and None for what this kernel or machine does not tell."""

    online: int  # logical processors; 0 where not told
    smt: str  # "on", "off", "forceoff", "notsupported", "notimplemented"
    idle_driver: str  # "intel_idle", "acpi_idle", "none"
    idle: tuple[IdleState, ...]
    clock_driver: str  # "intel_pstate", "amd-pstate-epp", "acpi-cpufreq"
    governor: str  # "performance", "powersave", ...
    energy_bias: int | None  # 0 performance, 6 normal, 15 saves power; Intel's alone
    turbo: bool | None
    aspm_policy: str  # "default": as the firmware set it; "performance": off by the kernel
    packages: tuple[tuple[int, int], ...]  # NUMA node and socket; of a node that spans several each

    @property
    def sockets(self) -> int:
        """0 where not told."""
        return len({socket for _, socket in self.packages})


def parse_setup(text: str) -> Setup:
    """Read the probe's ``name:value`` lines, names below /sys.

    :raises Unparsable: where a number is none.
    """
    said = {name: value.strip() for name, value in named_lines(text, _SOURCE)}
    turbo = said.get(f"{_CPU}/cpufreq/boost", "")
    if no_turbo := said.get(f"{_CPU}/intel_pstate/no_turbo", ""):
        turbo = "0" if no_turbo == "1" else "1"
    policy = re.search(r"\[(\w+)\]", said.get("module/pcie_aspm/parameters/policy", ""))
    online = said.get(f"{_CPU}/online", "")
    bias = said.get(f"{_CPU}/cpu0/power/energy_perf_bias", "")
    return Setup(
        count_nodes(online) if online else 0,  # the same form of list
        said.get(f"{_CPU}/smt/control", ""),
        said.get(f"{_CPU}/cpuidle/current_driver", ""),
        _idle(said),
        said.get(f"{_CPU}/cpu0/cpufreq/scaling_driver", ""),
        said.get(f"{_CPU}/cpu0/cpufreq/scaling_governor", ""),
        _number("energy_perf_bias", bias) if bias else None,
        turbo == "1" if turbo else None,
        policy[1] if policy else "",
        tuple(
            (int(found[1]), _number(name, socket))
            for name, value in said.items()
            if (found := _PACKAGE.fullmatch(name))
            for socket in value.split()
        ),
    )


def _idle(said: dict[str, str]) -> tuple[IdleState, ...]:
    states: dict[int, dict[str, str]] = {}
    for name, value in said.items():
        if found := _STATE.fullmatch(name):
            states.setdefault(int(found[1]), {})[found[2]] = value
    return tuple(
        IdleState(
            each.get("name", f"state{number}"),
            _number("cpuidle latency", each.get("latency", "0")),
            each.get("disable", "0") != "0",
        )
        for number, each in sorted(states.items())
    )


def _number(what: str, value: str) -> int:
    if not re.fullmatch(r"-?\d{1,9}", value, re.ASCII):
        raise Unparsable(what, value)
    return int(value)


# NUMA nodes. Source: /sys/devices/system/node/online (Documentation/admin-guide/mm).
_RANGE = re.compile(r"(\d{1,4})(?:-(\d{1,4}))?")


def count_nodes(text: str) -> int:
    """How many nodes a list names: "0" is one, "0-1" two, "0,8" two.

    :raises Unparsable: for a list of another form.
    """
    count = 0
    for part in text.strip().split(","):
        found = _RANGE.fullmatch(part)
        if found is None:
            raise Unparsable("/sys/devices/system/node/online", text.strip(), 1)
        count += int(found[2] or found[1]) - int(found[1]) + 1
    return count
