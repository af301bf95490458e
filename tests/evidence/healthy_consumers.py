"""Frames of the healthy node, for the facts of ``node_consumers``."""

from __future__ import annotations

from tests.evidence.frames import ABSENT, Override

LIBS = "/usr/lib/x86_64-linux-gnu"


def nccl(version: str) -> str:
    """libnccl as NVIDIA's package installs it: two links and the file."""
    return (
        f"{LIBS}/libnccl.so -> libnccl.so.2\n"
        f"{LIBS}/libnccl.so.2 -> libnccl.so.{version}\n"
        f"{LIBS}/libnccl.so.{version}\n"
    )


def ucx_info(version: str, options: str = "--with-cuda=/usr/local/cuda") -> str:
    """``ucx_info -v`` since 1.13."""
    return (
        f"# Library version: {version}\n# Library path: {LIBS}/libucs.so.0\n"
        f"# API headers version: {version}\n# Git branch '', revision 7bb2722\n"
        f"# Configured with: --disable-logging --enable-mt {options} --with-verbs\n"
    )


FRAMES: dict[str, Override] = {
    "memory-peers": "",
    "libraries": nccl("2.27.3"),
    "verbs-libraries": f"{LIBS}/libibverbs.so.1 yes\n",
    "perftest": "path /usr/bin/ib_write_bw\ncuda yes\ndmabuf yes\n",
    "nccl-conf": ABSENT,
    "nccl-topology": "",
    "consumer-settings": "",
    "ucx-info": ucx_info("1.18.0"),
}
