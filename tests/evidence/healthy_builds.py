"""Frames of the healthy node, for the facts of ``node_builds``."""

from __future__ import annotations

from tests.evidence.frames import ABSENT, Override

_KERNEL = "5.15.0-170-generic"  # as in build.py, which imports this
_UPDATES = f"/lib/modules/{_KERNEL}/updates/dkms"


def built(
    release: str = _KERNEL, *, peermem: str = "nvidia,ib_uverbs", signer: str = "", driver: str = ""
) -> str:
    """The frame "all-modinfo" for one kernel with OFED and the driver."""
    driver = driver or "580.126.16"
    rows = [("ib_core", "mlx_compat", ""), ("ib_uverbs", "ib_core", "")]  # as OFED's: no version
    rows += [("mlx5_core", "mlx_compat", "25.10-1.7.1"), ("nvidia", "", driver)]
    rows += [("nvidia-peermem", peermem, driver)]
    return "".join(
        f"filename:       /lib/modules/{release}/updates/dkms/{name}.ko\n"
        + (f"version:        {version}\n" if version else "")
        + f"license:        Dual MIT/GPL\ndepends:        {depends}\n"
        f"vermagic:       {release} SMP mod_unload modversions \n"
        + (f"signer:         {signer}\n" if signer else "")
        for name, depends, version in rows
    )


def listing(release: str = _KERNEL, folder: str = "updates/dkms", *more: str) -> str:
    """What lsinitramfs lists, cut down as the probe does."""
    at = f"usr/lib/modules/{release}"
    lines = ["etc/modprobe.d/nvidia.conf", f"{at}/modules.dep"]
    lines += [f"{at}/{folder}/{name}.ko" for name in ("ib_core", "mlx5_core", "mlx5_ib")]
    return "".join(f"{line}\n" for line in (*lines, *more))


FRAMES: dict[str, Override] = {
    "tools": "gcc\ng++\nmake\nld\n",
    "gcc-version": "11.4.0\n",
    "kernel-configs": (
        f"@{_KERNEL}\nCONFIG_MODVERSIONS=y\n# CONFIG_PREEMPT_RT is not set\n"
        "CONFIG_DMA_SHARED_BUFFER=y\n"
    ),
    "all-modinfo": built(),
    "dkms-version": "dkms-3.2.2\n",
    "dkms-tree": (
        "/var/lib/dkms/mlnx-ofed-kernel\n/var/lib/dkms/nvidia\n"
        "called by:\n/etc/kernel/postinst.d/dkms\n"
    ),
    "dkms-failures": "",
    "rebuild-hooks": (  # those of the RHEL family too: tests change the family alone
        "runs /usr/lib/gdr-toolkit/rebuild\n"
        "text /etc/dkms/framework.conf.d/gdr-toolkit-rebuild.conf\n"
        "runs /etc/kernel/header_postinst.d/zz-gdr-toolkit\n"
        "runs /etc/kernel/install.d/95-gdr-toolkit.install\n"
        "runs /etc/kernel/postinst.d/zz-gdr-toolkit\n"
    ),
    "ofed-container": "",
    "openib-conf": "# openibd\nONBOOT=yes\nALLOW_STOP=yes\nFORCE_MODE=no\n",
    "openibd-state": (
        "LoadState=loaded\nActiveState=active\nResult=success\nUnitFileState=enabled\n"
    ),
    "openibd-log": "Loading HCA driver and Access Layer: [  OK  ]\n",
    "initramfs": listing(),
    "initramfs-next": ABSENT,
}
