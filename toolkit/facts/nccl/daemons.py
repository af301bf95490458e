"""Daemons that run, and what they may pin.

Sources: /proc/PID/comm and /proc/PID/limits; a name there has at most 15 characters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from toolkit.errors import Unparsable
from toolkit.facts.lines import named_lines

FABRIC_MANAGER, PERSISTENCE, IMEX, SUBNET, MPS = (
    "nv-fabricmanage",
    "nvidia-persiste",
    "nvidia-imex",
    "nvlsm",
    "nvidia-cuda-mps",
)
# They start jobs, which inherit their limits. Runtimes of containers have a check of their own.
SCHEDULERS = frozenset({"slurmd", "pbs_mom", "sge_execd", "lsf_sbatchd", "sbatchd", "raylet"})


@dataclass(frozen=True, slots=True)
class Daemon:
    pid: int
    name: str  # "slurmd"
    memlock: str  # the soft limit of locked memory: "unlimited" or bytes; "" if not told

    @property
    def unlimited(self) -> bool:
        return self.memlock == "unlimited"


def parse_daemons(text: str) -> tuple[Daemon, ...]:
    """Read "1234/comm:slurmd" and "1234/limits:Max locked memory  65536  65536  bytes" lines.

    :raises Unparsable: at a line of neither shape.
    """
    found: dict[int, dict[str, str]] = {}
    for path, value in named_lines(text, "/proc"):
        pid, _, kind = path.partition("/")
        if not re.fullmatch(r"[0-9]{1,10}", pid) or kind not in {"comm", "limits"}:
            raise Unparsable("/proc", f"{path}:{value}")
        limit = None
        if kind == "limits":
            limit = re.fullmatch(r"Max locked memory\s+(unlimited|\d+)\s+\S+\s+bytes\s*", value)
            if limit is None:
                raise Unparsable(f"/proc/{path}", value)
        said = limit[1] if kind == "limits" and limit else value.strip()
        found.setdefault(int(pid), {})[kind] = said
    return tuple(
        Daemon(pid, has["comm"], has.get("limits", ""))
        for pid, has in found.items()
        if "comm" in has
    )
