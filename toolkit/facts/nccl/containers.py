"""Container runtimes on the node, who starts jobs there, and what operators' pods leave in /run.

Sources: NVIDIA/gpu-operator cmd/nvidia-validator (the files below /run/nvidia/validations);
NVIDIA/gpu-driver-container; drivers/infiniband/core/device.c, netns_mode; slurm.conf(5),
SwitchType; kubernetes-sigs/dra-driver-nvidia-gpu docs/prerequisites.md (nvidia-imex masked).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from toolkit.errors import Unparsable
from toolkit.facts.lines import named_lines

_STARTED = "run/nvidia/validations/.driver-ctr-ready"  # written by the driver's own container
_VALIDATED = "run/nvidia/validations/driver-ready"  # by the validator, host driver or not
_NETNS = "sys/module/ib_core/parameters/netns_mode"


class PerJob(StrEnum):
    """What shows that IMEX is not the node's own service, but each job's."""

    MASKED = "nvidia-imex.service is masked"
    COMPUTE_DOMAIN = "the DRA driver's ComputeDomains bring it"
    SLURM = "Slurm's switch/nvidia_imex gives each job its channel"


@dataclass(frozen=True, slots=True)
class Containers:
    runtimes: tuple[str, ...] = ()  # "containerd", "cri-o", "docker", "k3s"
    memlock: tuple[tuple[str, str], ...] = ()  # process, limit in bytes or "unlimited"
    shared_netns: bool | None = None  # whether every network namespace sees every RDMA device
    operator: bool = False  # the GPU operator has been here
    driver_container: bool = False  # the running NVIDIA driver came from a container
    rdma_enabled: bool | None = None  # the driver container loads nvidia-peermem; None: not told
    ofed_container: bool = False  # a network operator's DOCA driver pod is ready
    ofed_newer: bool = False  # and became so after the GPU driver's pod
    kubelet: bool | None = None  # it runs or is configured; None: not looked for
    imex: frozenset[PerJob] = frozenset()  # who brings IMEX to each job


def parse_containers(text: str) -> Containers:
    """Read the probe's lines: "runtime:docker", "memlock/containerd:unlimited", files by path.

    :raises Unparsable: where netns_mode is neither Y nor N.
    """
    lines: dict[str, list[str]] = {}
    for name, value in named_lines(text, "containers"):
        lines.setdefault(name, []).append(value.strip())
    started, validated = _settings(lines.get(_STARTED)), _settings(lines.get(_VALIDATED))
    netns = lines.get(_NETNS, [""])[0]
    if netns not in {"", "Y", "N"}:
        raise Unparsable("/" + _NETNS, netns)
    told = (validated or {}).get("IS_HOST_DRIVER", "")
    here = told == "false" if told else started is not None and "driver-root" in lines
    enabled = (started or {}).get("GPU_DIRECT_RDMA_ENABLED", "")
    return Containers(
        tuple(lines.get("runtime", ())),
        tuple(
            (name.partition("/")[2], value)
            for name, values in lines.items()
            if name.startswith("memlock/")
            for value in values
        ),
        netns == "Y" if netns else None,
        started is not None or validated is not None,
        here,
        enabled == "true" if enabled else None,
        "ready" in lines.get("ofed", ()),
        "newer" in lines.get("ofed", ()),
        "yes" in lines["kubelet"] if "kubelet" in lines else None,
        _per_job(lines),
    )


def _per_job(lines: dict[str, list[str]]) -> frozenset[PerJob]:
    told = lines.get("imex", ())
    switches = (
        value.split("#")[0].partition("=")[2].strip().lower()
        for name, values in lines.items()
        if name.endswith("slurm.conf")
        for value in values
    )
    shown = {
        PerJob.MASKED: "masked" in told,
        PerJob.COMPUTE_DOMAIN: "compute-domain" in told,
        PerJob.SLURM: "switch/nvidia_imex" in switches,
    }
    return frozenset(each for each, so in shown.items() if so)


def _settings(lines: list[str] | None) -> dict[str, str] | None:
    """ "KEY: value" or "KEY=value" lines; None where the file is not there."""
    if lines is None:
        return None
    pairs = (line.replace("=", ":", 1).partition(":") for line in lines)
    return {key.strip(): value.strip() for key, _, value in pairs}


# Daemons that run, and what they may pin.
# Sources: /proc/PID/comm and /proc/PID/limits; a name there has at most 15 characters.
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
