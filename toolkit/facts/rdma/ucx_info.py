"""UCX, as ``ucx_info -v`` and ``ucx_info -d`` print it.

Source: openucx/ucx src/tools/info/tl_info.c and version_info.c. Two layouts are known: up to
1.8 with "component:" and "Transport:" in lower-case columns and no memory types, later ones
with "Component:", "memory types:" and "System device:". Lines begin with "#", which is lost
where somebody copied them. Whoever judges UCX (``ucx.paths``) reads it as ``node.ucx_info``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

from toolkit.errors import Unparsable


@dataclass(frozen=True, slots=True)
class MemoryDomain:
    """One memory domain with its transports."""

    name: str  # "mlx5_0", "cuda_cpy", "gdr_copy"
    component: str  # "ib", "cuda_cpy"; "" where it was not printed
    dmabuf: bool  # "register: unlimited, dmabuf, cost: ..."
    memory: tuple[str, ...] | None  # "host", "cuda"; None in the old layout, which tells none
    transports: tuple[tuple[str, str], ...]  # transport and device: ("rc_mlx5", "mlx5_0:1")


@dataclass(frozen=True, slots=True)
class UcxInfo:
    version: str  # "1.17.0"; "" unless ucx_info -v was printed too
    configured: str  # configure's options; likewise
    domains: tuple[MemoryDomain, ...]

    @property
    def transports(self) -> frozenset[str]:
        return frozenset(name for each in self.domains for name, _ in each.transports)

    @property
    def knows_cuda(self) -> bool:
        """Whether UCX was built with CUDA, and its CUDA modules could be loaded."""
        return any(each.name.startswith(("cuda", "gdr_copy")) for each in self.domains) or any(
            name.startswith("cuda_") for name in self.transports
        )


_VERSION = re.compile(r"(?:Library version:|UCT version=|UCX version)\s*(\d[\w.]*)")


def parse_ucx_info(text: str) -> UcxInfo:
    """Read ``ucx_info -v``, ``ucx_info -d`` or both, of any layout.

    A text that begins in the middle of a domain gives one domain without a name.

    :raises Unparsable: where nothing in it is of ucx_info.
    """
    version = _VERSION.search(text)
    configured = re.search(r"[Cc]onfigured with: *(.*)", text)
    lines = [line.strip().removeprefix("#").strip() for line in text.split("\n")]
    starts = [at for at, line in enumerate(lines) if line.startswith("Memory domain:")]
    first = starts[0] if starts else len(lines)
    pieces = [lines[:first]] if any(line.startswith("Transport:") for line in lines[:first]) else []
    pieces += [lines[start:end] for start, end in pairwise([*starts, len(lines)])]
    if not pieces and version is None:
        raise Unparsable("ucx_info", text.strip().split("\n", 1)[0])
    domains = tuple(_domain(piece) for piece in pieces)
    return UcxInfo(
        version[1] if version else "", configured[1].strip() if configured else "", domains
    )


def _domain(lines: list[str]) -> MemoryDomain:
    values: dict[str, str] = {}
    transports: list[tuple[str, str]] = []
    for line in lines:
        key, colon, value = line.partition(":")
        key, value = key.strip().lower(), value.strip()
        if key == "transport":
            transports.append((value, ""))
        elif key == "device" and transports:
            transports[-1] = (transports[-1][0], value)
        elif colon:
            values.setdefault(key, value)
    kinds = values.get("memory types")
    return MemoryDomain(
        values.get("memory domain", ""),
        values.get("component", ""),
        "dmabuf" in values.get("register", "").split(", "),
        None if kinds is None else tuple(re.findall(r"([\w-]+) \(", kinds)),
        tuple(transports),
    )
