"""Which HCA takes the memory of which GPU, as toolkit/node/scripts/register.py was told.

Sources: linux-rdma/rdma-core libibverbs/cmd_mr.c, dummy_ops.c; Linux
drivers/infiniband/core/uverbs_std_types_mr.c; NVIDIA/open-gpu-kernel-modules
kernel-open/nvidia/nv-dmabuf.c, kernel-open/nvidia-peermem/nvidia-peermem.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from toolkit.errors import Unparsable

# What the kernel's ioctl and libibverbs' own stand-in say of a call that is not there.
NO_CALL = frozenset({"EOPNOTSUPP", "EPROTONOSUPPORT", "ENOSYS", "ENOTTY", "ENOTSUP"})
DMABUF, MAPPED, BY_PCIE, DATA_DIRECT = "dmabuf", "dmabuf-vmm", "dmabuf-pcie", "data-direct"
PEERMEM = "peermem"
WAYS = (DMABUF, MAPPED, BY_PCIE, DATA_DIRECT, PEERMEM)
# Ways of one HCA or driver generation: that one has them proves something, that none has nothing.
EXTRA = frozenset({BY_PCIE, DATA_DIRECT})


@dataclass(frozen=True, slots=True)
class DmabufAnswer:
    """What an HCA says to a registration of no dma-buf at all: EBADF, where it has the call."""

    public: (
        str  # by ibv_reg_dmabuf_mr, as libraries ask; "absent" where libibverbs has no such call
    )
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


@dataclass(frozen=True, slots=True)
class RegisteredPair:
    """One registration of 2 MiB of a GPU's memory with an HCA."""

    gpu: str  # "0000:18:00.0"
    hca: str  # "mlx5_0"
    way: str  # one of WAYS; "open" where the HCA could not be opened
    said: str  # "ok", or the name of the errno

    @property
    def taken(self) -> bool:
        return self.said == "ok"


@dataclass(frozen=True, slots=True)
class Registration:
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
