"""Nodes whose kernel demands signatures."""

from __future__ import annotations

from tests.evidence.build import DRIVER, SRC, UPDATES, modinfo, rdma_core
from tests.evidence.frames import Override
from tests.evidence.healthy_files import elf
from tests.evidence.modules import signed

DKMS = "DKMS module signing key"
BY_DKMS = f"signer:         {DKMS}\nsig_key:        12:34\n"
SIGNED_BY_DKMS: dict[str, Override] = {
    "sig-enforce": "Y\n",
    "tainted": "4096\n",
    "rdma-modinfo": rdma_core().replace("depends:", f"{BY_DKMS}depends:"),
    "nvidia-modinfo": modinfo(
        f"{UPDATES}/nvidia.ko", depends="", version=DRIVER, srcversion=SRC["nvidia"],
    ) + BY_DKMS,
    "peermem-elf": elf(signature=signed(DKMS)),
}  # fmt: skip
OUTLIER = {**SIGNED_BY_DKMS, "peermem-elf": elf(signature=signed("NVIDIA Support"))}
