"""Which HCA takes the memory of which GPU, as toolkit/node/scripts/register.py was told.

Sources: linux-rdma/rdma-core libibverbs/cmd_mr.c, dummy_ops.c; Linux
drivers/infiniband/core/uverbs_std_types_mr.c; NVIDIA/open-gpu-kernel-modules
kernel-open/nvidia/nv-dmabuf.c, kernel-open/nvidia-peermem/nvidia-peermem.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from msgspec import Struct

from toolkit.errors import Unparsable

# What the kernel's ioctl and libibverbs' own stand-in say of a call that is not there.
NO_CALL = frozenset({"EOPNOTSUPP", "EPROTONOSUPPORT", "ENOSYS", "ENOTTY", "ENOTSUP"})
DMABUF, MAPPED, BY_PCIE, DATA_DIRECT = "dmabuf", "dmabuf-vmm", "dmabuf-pcie", "data-direct"
PEERMEM = "peermem"
WAYS = (DMABUF, MAPPED, BY_PCIE, DATA_DIRECT, PEERMEM)
# Ways of one HCA or driver generation: that one has them proves something, that none has nothing.
EXTRA = frozenset({BY_PCIE, DATA_DIRECT})


class DmabufAnswer(Struct, frozen=True):
    """What an HCA says to a registration of no dma-buf at all: EBADF, where it has the call."""

    public: str  # by ibv_reg_dmabuf_mr, as libraries ask; "absent": libibverbs has no such call
    kernel: str  # past the provider; "absent" likewise, "" where it was not asked

    @property
    def able(self) -> bool | None:
        """Whether it registers dma-buf memory; None where the answers prove neither."""
        if self.public == "EBADF":
            return True
        return False if self.public in NO_CALL or self.public == "absent" else None

    @property
    def why_not(self) -> str:
        """Who cannot: the library, its provider, or the kernel; "" for one that can."""
        if self.able is not False:
            return ""
        if self.public == "absent":
            return "libibverbs has no ibv_reg_dmabuf_mr: rdma-core before 34"
        if self.kernel == "EBADF":
            return "the kernel can, and the provider library cannot: rdma-core is too old"
        if self.kernel in NO_CALL:
            return f"the kernel's driver of it has no such call ({self.kernel})"
        return f"ibv_reg_dmabuf_mr says {self.public}"


class RegisteredPair(Struct, frozen=True):
    """One registration of 2 MiB of a GPU's memory with an HCA."""

    gpu: str  # "0000:18:00.0"
    hca: str  # "mlx5_0"
    way: str  # one of WAYS; "open" where the HCA could not be opened
    said: str  # "ok", or the name of the errno

    @property
    def taken(self) -> bool:
        return self.said == "ok"


class Registration(Struct, frozen=True):
    """All that was tried on one node."""

    libraries: Mapping[str, str]  # file by "libibverbs" and "libcuda"
    missing: Mapping[str, str]  # why there is none, or why it gave no list
    memlock: int | None  # bytes that the process might lock; None for no limit
    hcas: Mapping[str, DmabufAnswer]
    gpus: tuple[str, ...]  # PCI addresses of those of which all was asked
    left: Mapping[str, str]  # GPU or HCA: why it was left alone, or came to nothing
    unexported: Mapping[tuple[str, str], str]  # (GPU, way): the call of CUDA that failed, and why
    pairs: tuple[RegisteredPair, ...]
    whole: bool  # it came to its end

    def of(self, gpu: str, hca: str) -> dict[str, str]:
        """What one pair came to, by way."""
        return {e.way: e.said for e in self.pairs if (e.gpu, e.hca) == (gpu, hca)}

    def every_gpu(self) -> list[str]:
        """GPUs that CUDA listed, in the order of their addresses, those left alone too."""
        named = {*self.gpus, *(gpu for gpu, _ in self.unexported), *(e.gpu for e in self.pairs)}
        return sorted(named | {name for name in self.left if _ADDRESS.fullmatch(name)})


_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_KINDS = {
    "libibverbs": r"(?:- )?(\S.*)",
    "libcuda": r"(?:- )?(\S.*)",
    "memlock": r"(\d{1,20}|unlimited)",
    "hca": r"(\S+) (public|kernel) (\S+)",
    "refused": r"(\S+) (.+)",
    "lost": r"(\S+) (timeout|ended|signal:\d+) ?(.*)",
    "gpu": r"(\S+) (?:(ok)|skipped (.+)|failed (\S+) (.+))",
    "pair": r"(\S+) (\S+) (\S+) (\S+)",
    "end": r"()",
}


def parse_registration(text: str) -> Registration:
    """Read what register.py printed.

    :raises Unparsable: at a line of another shape.
    """
    said: dict[str, list[tuple[str, tuple[str, ...]]]] = {kind: [] for kind in _KINDS}
    for number, line in enumerate(text.split("\n")[:-1], start=1):
        kind, _, rest = line.partition(" ")
        found = re.fullmatch(_KINDS[kind], rest) if kind in _KINDS else None
        if found is None:
            raise Unparsable("registration", line, number)
        said[kind].append((rest, tuple(each or "" for each in found.groups())))
    libraries: dict[str, str] = {}
    missing: dict[str, str] = {}
    for kind in ("libibverbs", "libcuda"):
        for rest, (words,) in said[kind]:
            (missing if rest.startswith("- ") else libraries)[kind] = words
    limits = [words[0] for _, words in said["memlock"]]
    gpus = [words for _, words in said["gpu"]]
    return Registration(
        libraries,
        missing,
        int(limits[0]) if limits and limits[0] != "unlimited" else None,
        _asked(words for _, words in said["hca"]),
        tuple(gpu for gpu, ok, *_ in gpus if ok),
        _left(said),
        {(gpu, way): why for gpu, _, _, way, why in gpus if way},
        tuple(RegisteredPair(*words) for _, words in said["pair"]),
        bool(said["end"]),
    )


def _asked(rows: Iterable[tuple[str, ...]]) -> dict[str, DmabufAnswer]:
    answers: dict[str, dict[str, str]] = {}
    for name, by, said in rows:
        answers.setdefault(name, {})[by] = said
    return {
        name: DmabufAnswer(each["public"], each.get("kernel", ""))
        for name, each in answers.items()
        if "public" in each
    }


def _left(said: Mapping[str, list[tuple[str, tuple[str, ...]]]]) -> dict[str, str]:
    left = {gpu: why for _, (gpu, _, why, *_) in said["gpu"] if why}
    left |= {name: why for _, (name, why) in said["refused"]}
    for _, (name, how, step) in said["lost"]:
        died = {"timeout": "gave no answer in time", "ended": "its process ended"}
        told = died.get(how, f"its process died of signal {how.partition(':')[2]}")
        left[name] = f"{told}, at {step}" if step else told
    return left


_OF_DMABUF = {
    "ENOTSUPP": "the NVIDIA driver refuses this HCA as a peer of the GPU: no supported PCIe path "
    "between the two",
    "ENOMEM": "the NVIDIA driver could not map it for this HCA: no room in BAR1, or the IOMMU "
    "refused",
    "EFAULT": "the HCA's driver could not map it",
}
_OF_PEERMEM = {
    "EFAULT": "no peer-memory client took the address: nvidia-peermem is not loaded or not bound, "
    "or the NVIDIA driver gave it no pages",
    "ENOMEM": "the HCA's driver had no memory for it",
    "EINVAL": "the NVIDIA driver could not map it for this HCA",
}
_SMALL = 2 << 20


def cause(way: str, said: str, memlock: int | None = None) -> str:
    """What an errno means for a way; the errno alone where its sources give it no one meaning.

    :param memlock: bytes that the process might lock.
    """
    if said in NO_CALL:
        return f"{said}: the HCA's driver or its library has no such call"
    if way == PEERMEM and said == "ENOMEM" and memlock is not None and memlock < _SMALL:
        return f"ENOMEM: memlock allows {memlock} bytes, and no peer-memory client took the address"
    words = (_OF_PEERMEM if way == PEERMEM else _OF_DMABUF).get(said, "")
    return f"{said}: {words}" if words else said


# How much memory may be locked, as shells, prlimit, /proc, PAM's files and systemd print it.
# Sources, as read: bash builtins/ulimit.def, print_it; zsh Src/Builtins/rlimits.c and older forms,
# busybox shell/shell_common.c, dash src/miscbltin.c, tcsh sh.func.c (limit), fish ulimit.rs;
# util-linux sys-utils/prlimit.c; Linux fs/proc/base.c, proc_pid_limits; limits.conf(5); systemd's
# properties LimitMEMLOCK and DefaultLimitMEMLOCK. Shells count in KiB, the others in bytes.
_KIB = 1024
_VALUE = r"(\d+|unlimited|infinity)"
# "max locked memory (kbytes, -l) 64", "-l: locked-in-memory size (kb) 6", "locked memory(kbytes) 9"
_OF_SHELL = re.compile(rf"^(.*)\(([^()\n]*)\) *{_VALUE}[ \t]*$", re.MULTILINE | re.IGNORECASE)
_LOCKED = re.compile(r"\block\w*(?:-in-| into |[- ])(?:memory|address space)\b", re.IGNORECASE)
_IN_KIB = re.compile(r"\bk(?:i?b|bytes)\b", re.IGNORECASE)
_OF_CSH = re.compile(rf"^memorylocked\s+{_VALUE} ?(?:kB|kbytes)?[ \t]*$", re.MULTILINE)
_BARE = re.compile(rf"^\s*{_VALUE}[ \t]*$", re.MULTILINE)
_OF_PROCESS = re.compile(
    rf"^(?:MEMLOCK .*address space|Max locked memory)\s+{_VALUE}\s+{_VALUE}\s+bytes\s*$",
    re.MULTILINE,
)
_OF_PAM = re.compile(
    rf"^(?:[^\s:#]+:)?\s*([^\s#:]+)\s+(soft|hard|-)\s+memlock\s+(-1|{_VALUE})[ \t]*(?:#.*)?$",
    re.MULTILINE,
)
_OF_SYSTEMD = re.compile(
    rf"^(?:\S+:)?\s*((?:Default)?LimitMEMLOCK)(?:Soft)?\s*=\s*{_VALUE}(?::\S*)?\s*$", re.MULTILINE
)
_ASKED = re.compile(r"\bulimit -\w*l")


class Limit(Struct, frozen=True):
    """What one thing may lock."""

    whose: str  # "a shell", "a process", "logins", "services"
    size: int  # bytes; -1 for any number


def parse_limits(text: str, typed: str = "") -> tuple[Limit, ...]:
    """Every limit of locked memory that a text tells; the soft one, which is in force.

    Of PAM's files what holds for all ("*"), or else for those that are named.

    :param typed: the commands that were typed: ``ulimit -l`` prints a number and no word.
    :raises Unparsable: where there is none.
    """
    found = [
        Limit("a shell", _size(value, _KIB))
        for name, unit, value in _OF_SHELL.findall(text)
        if _LOCKED.search(name) and _IN_KIB.search(unit)
    ]
    found += [Limit("a shell", _size(each, _KIB)) for each in _OF_CSH.findall(text)]
    if _ASKED.search(typed):
        found += [Limit("a shell", _size(each, _KIB)) for each in _BARE.findall(text)]
    found += [Limit("a process", _size(soft, 1)) for soft, _ in _OF_PROCESS.findall(text)]
    for who, kind, value, _ in _OF_PAM.findall(text):
        whose = "logins" if who == "*" else f"logins of {who}"
        found.append(Limit(whose if kind != "hard" else f"{whose} at most", _size(value, _KIB)))
    for name, value in _OF_SYSTEMD.findall(text):
        found.append(Limit("services" if name[0] == "D" else "a service", _size(value, 1)))
    if not found:
        raise Unparsable("limits", text.strip().split("\n")[0])
    return tuple(dict.fromkeys(found))


def _size(value: str, unit: int) -> int:
    return int(value) * unit if value.isdecimal() else -1
