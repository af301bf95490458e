"""The modules that the tests of this folder are about, each compiled once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.modules.building import (
    WITH_PEERS,
    Signing,
    headers,
    make,
    other_kernel,
    release,
    signing,
)
from tests.modules.machine import REGISTER, Machine

ALL = "nvidia ib_uverbs nvidia-peermem"
P2P = ("nvidia_p2p_get_pages", "nvidia_p2p_get_pages_persistent", "nvidia_p2p_put_pages")


@dataclass(frozen=True, slots=True)
class Built:
    """Folders with compiled modules."""

    headers: Path
    release: str
    good: Path  # all three, in one build
    stub: Path  # nvidia-peermem, compiled where OFED was not seen
    inbox: Path  # ib_uverbs as the kernel has it, without the interface
    updated: Path  # ib_uverbs after an update that changed the interface
    careless: Path  # nvidia-peermem, linked in spite of missing symbol versions
    other: Path  # all three, for another kernel
    ours: Signing  # a key of which kernels may know
    theirs: Signing  # a key of which they do not


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    at, build = tmp_path_factory.mktemp("modules"), headers()
    elsewhere = other_kernel(build, at / "other-headers")
    return Built(
        build,
        release(build),
        make(build, at / "good", ALL, WITH_PEERS),
        make(build, at / "stub", "nvidia-peermem"),
        make(build, at / "inbox", "ib_uverbs"),
        make(build, at / "updated", "ib_uverbs", f"{WITH_PEERS} -DOTHER_SHAPE"),
        make(build, at / "careless", "nvidia-peermem", WITH_PEERS, "KBUILD_MODPOST_WARN=1"),
        make(elsewhere, at / "other", ALL, WITH_PEERS),
        signing(at / "ours", "DKMS module signing key"),
        signing(at / "theirs", "NVIDIA Support"),
    )


@pytest.fixture
def machine(built: Built, tmp_path: Path) -> Machine:
    """A machine on which modprobe nvidia-peermem would succeed."""
    node = Machine(tmp_path / "root", built.release)
    for name in ALL.split():
        node.put(built.good / f"{name}.ko")
    node.load(built.good / "nvidia.ko", *P2P)
    node.load(built.good / "ib_uverbs.ko", REGISTER)
    return node
