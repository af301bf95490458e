"""Container runtimes on the node, and what the Kubernetes operators' pods leave in /run.

Sources: NVIDIA/gpu-operator cmd/nvidia-validator (the files below /run/nvidia/validations);
NVIDIA/gpu-driver-container; drivers/infiniband/core/device.c, netns_mode.
"""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.errors import Unparsable
from toolkit.facts.lines import named_lines

_STARTED = "run/nvidia/validations/.driver-ctr-ready"  # written by the driver's own container
_VALIDATED = "run/nvidia/validations/driver-ready"  # by the validator, host driver or not
_NETNS = "sys/module/ib_core/parameters/netns_mode"


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
    )


def _settings(lines: list[str] | None) -> dict[str, str] | None:
    """ "KEY: value" or "KEY=value" lines; None where the file is not there."""
    if lines is None:
        return None
    pairs = (line.replace("=", ":", 1).partition(":") for line in lines)
    return {key.strip(): value.strip() for key, _, value in pairs}
