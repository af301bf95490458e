"""Container runtimes on the node, who starts jobs there, and what operators' pods leave in /run.

Sources: NVIDIA/gpu-operator cmd/nvidia-validator (the files below /run/nvidia/validations);
NVIDIA/gpu-driver-container; drivers/infiniband/core/device.c, netns_mode; slurm.conf(5),
SwitchType; kubernetes-sigs/dra-driver-nvidia-gpu docs/prerequisites.md (nvidia-imex masked).
"""

from __future__ import annotations

import re
from enum import StrEnum

from msgspec import Struct

from toolkit.errors import Unparsable
from toolkit.facts.lines import named_lines, rows

_STARTED = "run/nvidia/validations/.driver-ctr-ready"  # written by the driver's own container
_VALIDATED = "run/nvidia/validations/driver-ready"  # by the validator, host driver or not
NETNS = "sys/module/ib_core/parameters/netns_mode"


class PerJob(StrEnum):
    """What shows that IMEX is not the node's own service, but each job's."""

    MASKED = "nvidia-imex.service is masked"
    COMPUTE_DOMAIN = "the DRA driver's ComputeDomains bring it"
    SLURM = "Slurm's switch/nvidia_imex gives each job its channel"


class Containers(Struct, frozen=True):
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
    netns = lines.get(NETNS, [""])[0]
    if netns not in {"", "Y", "N"}:
        raise Unparsable("/" + NETNS, netns)
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


_LIMIT = r"Max locked memory\s+(unlimited|\d+)\s+\S+\s+bytes\s*"


class Daemon(Struct, frozen=True):
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
        said = re.fullmatch(_LIMIT if kind == "limits" else r"(.*)", value.strip())
        if said is None:
            raise Unparsable(f"/proc/{path}", value)
        found.setdefault(int(pid), {})[kind] = said[1]
    return tuple(
        Daemon(pid, has["comm"], has.get("limits", ""))
        for pid, has in found.items()
        if "comm" in has
    )


# What runs the job, as toolkit/node/scripts/inside.sh read it from within, or from outside.
# Sources: proc(5), status, limits and mounts; linux-rdma/rdma-core libibverbs/dynamic_driver.c
# (which providers are loaded) and libibverbs/CMakeLists.txt (the library's name ends with the
# release of rdma-core); user_namespaces(7).
_IPC_LOCK = 14  # linux/capability.h
_ALL = "0 0 4294967295"  # the map of who is in no user namespace of its own
_SHM = "/dev/shm"  # noqa: S108 a mount that is read of
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_PROVIDER = re.compile(r"lib(\w+?)-rdmav(\d+)\.so")
_RELEASE = re.compile(r"libibverbs\.so\.1\.\d+\.(\d{1,3}(?:\.\d+)*)")
_NAMED = re.compile(r"(?:.*:)?(\w+) (/.*) (yes|no)")
_OPENED = re.compile(r"(/[^ ]*) (.+)")
_CUDA = re.compile(r"libcuda\.so\.(\d+(?:\.\d+)+)")


class Looked(Struct, frozen=True):
    """What was looked into, and how."""

    kind: str  # "docker"; "image" and "chroot" run nothing
    name: str
    outside: bool  # it has no shell: root read its files from the node
    whole: bool  # it was read to its end

    @property
    def runs(self) -> bool:
        """Whether devices, limits and memory are those that a job has."""
        return self.kind not in {"image", "chroot"}

    def __str__(self) -> str:
        short = self.name.rpartition("/")[2] if self.kind == "image" else self.name
        return f"{self.kind} {short}"


def parse_looked(text: str) -> Looked:
    """Read "kind", "name", "way" and "whole", one a line.

    :raises Unparsable: where one is missing.
    """
    told = dict(line.split(" ", 1) for line in text.split("\n")[:-1] if " " in line)
    try:
        return Looked(told["kind"], told["name"], told["way"] == "outside", told["whole"] == "yes")
    except KeyError as why:
        raise Unparsable("inside", text.split("\n", 1)[0]) from why


class Leader(Struct, frozen=True):
    """The process that a job in it descends from."""

    memlock: int | None  # bytes, the soft limit; -1 for unlimited, None where not told
    ipc_lock: bool | None  # CAP_IPC_LOCK is in effect
    mapped: bool  # in a user namespace of its own, where that capability is nothing to the kernel


def parse_leader(text: str) -> Leader:
    """Read lines of /proc/PID/status, limits and uid_map.

    :raises Unparsable: where a number is none.
    """
    limit = re.search(r"^Max locked memory +(\S+)", text, re.MULTILINE)
    caps = re.search(r"^CapEff:\s*([0-9a-fA-F]+)", text, re.MULTILINE)
    maps = re.findall(r"^uid_map:\s*(.+)$", text, re.MULTILINE)
    if limit and not (limit[1] == "unlimited" or limit[1].isdecimal()):
        raise Unparsable("/proc/PID/limits", limit[0])
    return Leader(
        None if limit is None else -1 if limit[1] == "unlimited" else int(limit[1]),
        bool(int(caps[1], 16) >> _IPC_LOCK & 1) if caps else None,
        any(" ".join(each.split()) != _ALL for each in maps),
    )


def parse_shm(text: str) -> int | None:
    """The size of /dev/shm in bytes, from its last mount; -1 where it may take half of the memory.

    :returns: None where nothing is mounted there.
    """
    mounts = [line.split() for line in text.split("\n") if line]
    ours = [words for words in mounts if len(words) > 3 and words[1] == _SHM]
    if not ours or ours[-1][2] != "tmpfs":
        return None
    size = re.search(r"(?:^|,)size=(\d+)([kmg]?)(?:,|$)", ours[-1][3])
    return int(size[1]) * _UNITS[size[2]] if size else -1


def parse_opened(text: str) -> dict[str, str]:
    """Each uverbs node with "ok", or why it cannot be opened.

    :raises Unparsable: at a line that begins with no path.
    """
    return {row[1]: row[2] for row in rows(text, _OPENED, "/dev/infiniband")}


class Providers(Struct, frozen=True):
    """libibverbs, and the libraries by which it drives HCAs."""

    libibverbs: tuple[str, ...] = ()  # paths
    release: str = ""  # of rdma-core, by the name of the first; "" where it does not tell
    providers: tuple[tuple[str, str], ...] = ()  # "mlx5", path
    takes: frozenset[tuple[str, str]] = frozenset()  # number of the private interface, "yes"

    def refused(self, name: str) -> str:
        """The file name of that provider, where every libibverbs looks for another one."""
        files = [path.rpartition("/")[2] for each, path in self.providers if each == name]
        told = [{said for number, said in self.takes if f"rdmav{number}." in e} for e in files]
        return files[0] if told and all(each == {"no"} for each in told) else ""


def parse_providers(text: str) -> Providers:
    """Read the probe's paths, links with " -> TARGET", and "PATH takes NUMBER yes"."""
    libraries, release, providers = [], "", []
    takes = frozenset(re.findall(r" takes (\d+) (yes|no|unreadable)$", text, re.MULTILINE))
    for line in text.split("\n")[:-1]:
        path, _, target = line.partition(" -> ")
        base = path.rpartition("/")[2]
        named = _PROVIDER.fullmatch(base)
        if named is not None:
            providers.append((named[1], path))
        elif base == "libibverbs.so.1":
            libraries.append(path)
            told = _RELEASE.fullmatch(target.rpartition("/")[2])
            release = release or (told[1] if told else "")
    found = tuple(dict.fromkeys(providers))
    return Providers(tuple(dict.fromkeys(libraries)), release, found, takes)


def parse_drivers(text: str) -> frozenset[str]:
    """Which providers libibverbs is told to load: "FILE:driver mlx5" lines.

    :raises Unparsable: at a line without a file.
    """
    words = (line.split() for _, line in named_lines(text, "/etc/libibverbs.d"))
    return frozenset(each[1].rpartition("/lib")[2] for each in words if len(each) > 1)


def parse_cuda(text: str) -> tuple[tuple[str, str], ...]:
    """Each libcuda that a job could load, with the driver that it is of, "" where not told.

    Stubs, and the libraries of forward compatibility, are not among them.
    """
    found = []
    for line in text.split("\n")[:-1]:
        path, _, target = line.partition(" -> ")
        if "/stubs/" in path or "/compat/" in path:
            continue
        told = _CUDA.fullmatch(target.rpartition("/")[2])
        found.append((path, told[1] if told else ""))
    return tuple(dict.fromkeys(found))


def parse_named(text: str) -> tuple[tuple[str, str, bool], ...]:
    """Each file that a setting names: the setting, the path, whether it is there.

    :raises Unparsable: at a line of another shape.
    """
    found = rows(text, _NAMED, "files that settings name")
    return tuple(dict.fromkeys((told[1], told[2], told[3] == "yes") for told in found))


def parse_variables(text: str) -> dict[str, str]:
    """NAME=VALUE lines, the last of a name counts."""
    return dict(line.split("=", 1) for line in text.split("\n") if "=" in line)
