"""Ubuntu's own RDMA stack and the open driver: no OFED was ever there, and none of our files.

The expert's machine of that kind keeps what OFED's packages had placed, since nothing that he
asked of it looks there. The machines composed here begin without.
"""

from __future__ import annotations

import re
from functools import cache

from tests.evidence.frames import ABSENT
from tests.evidence.machines.making import edit, like
from toolkit.evidence import Evidence

KERNEL, DRIVER = "6.8.0-60-generic", "570.124.06"
_DKMS = f"/lib/modules/{KERNEL}/updates/dkms"


@cache
def inbox() -> Evidence:
    """The evidence, on the board of the base: HGX H100 with ConnectX-7 for InfiniBand."""
    start = edit("inbox-dmabuf")
    text = start.text
    driver = text("exports").split(f"@{_DKMS}/nvidia.ko")[1]
    return like(
        start,
        ("hca_type:mlx5_ib", "hca_type:MT4129"),
        modules=_without("mlx_compat", text("modules")),
        module_state=_without("24.10", text("module-state")),
        rdma_modinfo=re.sub(r",?mlx_compat", "", _without("24.10", text("rdma-modinfo"))),
        all_modinfo="".join(
            f"filename:{block}"
            for block in text("all-modinfo").split("filename:")[1:]
            if "updates/dkms" not in block or "nvidia" in block
        ),
        peermem_modinfo=text("peermem-modinfo").replace("nvidia,ib_uverbs", ""),
        peermem_resolve=f"insmod {_DKMS}/nvidia-peermem.ko \n",
        module_deps="updates/dkms/nvidia-peermem.ko:\nupdates/dkms/nvidia.ko:\n",
        kernels=_without("dkms/(ib_|mlx)", text("kernels")),
        exports=f"@{_DKMS}/nvidia.ko{driver}",
        modules_load="",
        dkms_status=f"nvidia/{DRIVER}, {KERNEL}, x86_64: installed\n",
        dkms_tree="/var/lib/dkms/nvidia\ncalled by:\n/etc/kernel/postinst.d/dkms\n",
        sources=f"/usr/src/nvidia-{DRIVER}\n",
        initramfs=_without("mlnx|^newer", text("initramfs")),
        peermem_elf=ABSENT,
        placed="",
        ours="",
        rebuild_hooks="",
    )


def driven_by(core: str, verbs: str) -> Evidence:
    """The same with another provider's modules loaded: "bnxt_en" and "bnxt_re"."""
    start = inbox()
    changed = {
        key: start.text(key).replace("mlx5_core", core).replace("mlx5_ib", verbs)
        for key in ("modules", "module-state")
    }
    if core == verbs:  # EFA is one module
        changed["modules"] = _once(changed["modules"], core)
    return like(start, **{key.replace("-", "_"): value for key, value in changed.items()})


def _without(pattern: str, text: str) -> str:
    return "".join(line + "\n" for line in text.split("\n")[:-1] if not re.search(pattern, line))


def _once(text: str, name: str) -> str:
    """One line for the module, that holds nothing but ib_uverbs and ib_core."""
    lines = [line for line in text.split("\n")[:-1] if not line.startswith(f"{name} ")]
    return "".join(f"{line}\n" for line in (*lines, f"{name} 139264 0 - Live 0x0000000000000000"))
