"""Evidence of a healthy node, and of nodes that differ from it in a few frames.

    node()                                      healthy: HGX, Ubuntu, DOCA-OFED, peermem
    node({"cmdline": "ro\\n"})                   one frame with another text
    node({"dkms-status": ABSENT})               one that was not there
    node({"nvidia-smi": failed(18, "...\\n")})   a command that ended badly
    node({"kernels": MISSING})                  one that the evidence lacks
    node(board=BOARD.but(GPUS[0], driver=""))   another PCI tree

The keys are those of the probe, which ``test_build`` holds against the probe itself.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.evidence.board import BOARD, GPUS, HCAS, Board
from tests.evidence.frames import ABSENT, MISSING, Bad, Override
from tests.evidence.healthy_boot import ARGUMENTS, grub
from tests.evidence.healthy_builds import FRAMES as BUILDS
from tests.evidence.healthy_companions import FRAMES as COMPANIONS
from tests.evidence.healthy_consumers import FRAMES as CONSUMERS
from tests.evidence.healthy_fabric import FRAMES as FABRIC
from tests.evidence.healthy_fabric import SMI_Q
from tests.evidence.healthy_files import FRAMES as FILES
from tests.evidence.healthy_firmware import FRAMES as FIRMWARE
from toolkit.evidence import INSIDE, Evidence, Frame, State
from toolkit.facts.kinds import KINDS

# What may be given beside the probe's frames; the last one has the probe where it was asked for.
LOOSE = frozenset(kind.frame for kind in KINDS) | {"registration"}
KERNEL, NEXT_KERNEL = "5.15.0-170-generic", "5.15.0-171-generic"
DRIVER = "580.126.16"
UPDATES = f"/lib/modules/{KERNEL}/updates/dkms"
PEERMEM = f"{UPDATES}/nvidia-peermem.ko"
OFED = "25.10.OFED.25.10.1.7.1.1"


def node(
    frames: Mapping[str, Override] | None = None,
    *,
    board: Board = BOARD,
    complete: bool = True,
) -> Evidence:
    """Evidence of the healthy node, but for ``frames`` and ``board``."""
    texts: dict[str, Override] = {**HEALTHY, **board.frames()}
    for key, value in (frames or {}).items():
        assert key in {*texts, *LOOSE} or key.split("/")[0] == INSIDE, (
            f"neither the probe nor an import has a frame {key}"
        )
        texts[key] = value
    made = {key: _frame(key, value) for key, value in texts.items() if value is not None}
    return Evidence(made, complete)


def _frame(key: str, value: str | Bad) -> Frame:
    source = SOURCES.get(key, key)
    if isinstance(value, Bad):
        return Frame(key, value.state, source, value.text, value.exit)
    return Frame(key, State.OK, source, value)


SOURCES = {"mlnx-qos": "mlnx_qos -i ib0"}  # where it tells more than the key


def modinfo(
    path: str, *, depends: str, version: str = "", srcversion: str = "", signer: str = ""
) -> str:
    """One block of a modinfo frame, headed by the path."""
    lines = [f"@{path}", f"filename:       {path}"]
    lines += [f"version:        {version}"] if version else []
    lines += ["license:        Dual BSD/GPL", f"srcversion:     {srcversion or 'A' * 23}"]
    lines += [f"depends:        {depends}"]
    lines += [f"vermagic:       {KERNEL} SMP mod_unload modversions "]
    lines += [f"signer:         {signer}"] if signer else []
    return "".join(line + "\n" for line in lines)


def rdma_core(folder: str = UPDATES, *, version: str = "25.10-1.7.1", suffix: str = "") -> str:
    """modinfo of the RDMA modules, as the probe asks for them: by name."""
    blocks = []
    for name in ("mlx5_core", "mlx5_ib", "ib_core", "ib_uverbs", "rdma_cm"):
        block = modinfo(
            f"{folder}/{name}.ko",
            depends="mlx_compat",
            version=version if name == "mlx5_core" else "",  # of OFED's it alone has one
            srcversion=SRC[name] + suffix,
        )
        blocks.append(block.replace(f"@{folder}/{name}.ko", f"@{name}", 1))
    return "".join(blocks)


def kernel_block(release: str, *, peermem: bool = True, nvidia: bool = True) -> str:
    """One kernel of the frame "kernels"."""
    folder = f"/lib/modules/{release}"
    files = [f"{folder}/updates/dkms/{name}.ko" for name in ("ib_core", "ib_uverbs", "mlx5_core")]
    files += [f"{folder}/updates/dkms/nvidia.ko"] if nvidia else []
    files += [f"{folder}/updates/dkms/nvidia-peermem.ko"] if peermem else []
    return "".join(line + "\n" for line in (f"@{release}", "image", "headers", *files))


def hca_lines(name: str, address: str, *ports: tuple[str, str]) -> str:
    """One RDMA device of the frame "infiniband", with (state, phys_state) of its ports."""
    lines = [
        f"{name}/fw_ver:28.43.2026",
        f"{name}/hca_type:MT4129",
        f"{name}/board_id:MT_0000000838",
    ]
    for number, (state, phys) in enumerate(ports, start=1):
        at = f"{name}/ports/{number}"
        lines += [f"{at}/state:{state}", f"{at}/phys_state:{phys}"]
        lines += [f"{at}/rate:400 Gb/sec (4X NDR)", f"{at}/link_layer:InfiniBand"]
        lines += [f"{at}/counters/{counter}:0" for counter in ("symbol_error", "link_downed")]
    lines += [f"{name}/device:{address}", f"{name}/net:ib{name[-1]}"]
    return "".join(line + "\n" for line in lines)


UP, DOWN, INIT = ("4: ACTIVE", "5: LinkUp"), ("1: DOWN", "2: Polling"), ("2: INIT", "5: LinkUp")
# The storage HCA is dual-ported, and one of its ports has no cable.
INFINIBAND = (
    hca_lines("mlx5_0", HCAS[0], UP)
    + hca_lines("mlx5_1", HCAS[1], UP)
    + hca_lines("mlx5_2", HCAS[2], UP, DOWN)
)

SRC = {
    "nvidia": "1111111111111111111111A",
    "nvidia_peermem": "2222222222222222222222B",
    "mlx5_core": "3333333333333333333333C",
    "mlx5_ib": "4444444444444444444444D",
    "ib_core": "5555555555555555555555E",
    "ib_uverbs": "6666666666666666666666F",
    "rdma_cm": "7777777777777777777777A",
}
PEERMEM_INFO = modinfo(
    PEERMEM, depends="nvidia,ib_uverbs", version=DRIVER, srcversion=SRC["nvidia_peermem"]
)


def module_state(taint: str | None = None, **holders: str) -> str:
    """/sys/module of the healthy node, with the holders of a module in place of its own.

    :param taint: the mark of every module, where the probe tells it.
    """
    held = {"nvidia": "nvidia_uvm nvidia_peermem", "ib_uverbs": "nvidia_peermem rdma_ucm mlx5_ib"}
    held |= {"ib_core": "ib_uverbs mlx5_ib", "mlx5_core": "mlx5_ib"} | holders
    versions = {"nvidia": DRIVER, "nvidia_peermem": DRIVER, "mlx5_core": "25.10-1.7.1"}
    lines = []
    for name, source in SRC.items():
        lines += [f"{name}/version:{versions[name]}"] if name in versions else []
        lines += [f"{name}/srcversion:{source}", f"{name}/initstate:live", f"{name}/refcnt:1"]
        lines += [f"{name}/taint:{taint}"] if taint is not None else []
        lines += [f"{name}/holder:{each}" for each in held.get(name, "").split()]
    return "".join(line + "\n" for line in lines)


def without_srcversion(text: str) -> str:
    """Of modinfo or /sys/module, as on kernels that give none: Debian's, and OFED's ib_core."""
    kept = (line for line in text.split("\n")[:-1] if "srcversion:" not in line)
    return "".join(f"{line}\n" for line in kept)


def build_note(digest: str) -> str:
    """The note of a build id, byte by byte, as od prints it."""
    data = bytes.fromhex("040000001400000003000000474e5500" + digest)
    return " ".join(f"{each:02x}" for each in data)


def without_module(name: str) -> str:
    """/sys/module of a node on which ``name`` is not loaded."""
    lines = module_state().split("\n")[:-1]
    return "".join(
        f"{line}\n"
        for line in lines
        if not line.startswith(f"{name}/") and not line.endswith(f"holder:{name}")
    )


def groups(domain: str, *numbers: str) -> str:
    """The frame "iommu-groups", by default of every group on the board."""
    return "".join(f"{each}/type:{domain}\n" for each in numbers or ("10", "11", "20", "21", "30"))


def gpu_rows(memory: str = "81559 MiB", driver: str = DRIVER) -> str:
    return "".join(
        f"0000{address.upper()}, NVIDIA H100 80GB HBM3, {driver}, {memory}, Enabled\n"
        for address in GPUS
    )


CONFIG = """\
CONFIG_CC_VERSION_TEXT="gcc (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0"
CONFIG_MODVERSIONS=y
# CONFIG_IOMMU_DEFAULT_PASSTHROUGH is not set
CONFIG_PCI_P2PDMA=y
CONFIG_DMA_SHARED_BUFFER=y
CONFIG_INFINIBAND=m
CONFIG_INFINIBAND_USER_ACCESS=m
CONFIG_INFINIBAND_USER_MEM=y
CONFIG_INFINIBAND_ON_DEMAND_PAGING=y
CONFIG_MLX5_CORE=m
CONFIG_MLX5_INFINIBAND=m
"""
CPU = "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Intel(R) Xeon(R) Platinum 8480+\n"
GUEST_CPU = CPU + "flags\t\t: fpu vme hypervisor avx2\n"
ORDINARY_CPU = CPU + (
    "siblings\t: 112\ncpu cores\t: 56\nflags\t\t: fpu vme x2apic avx2\n"
    "address sizes\t: 46 bits physical, 57 bits virtual\n"
)
OPEN = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.126.16  Release Build  (dvs)\n"
    "GCC version:  gcc version 11.4.0 (Ubuntu 11.4.0-1ubuntu1~22.04)\n"
)
PROPRIETARY = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.126.16  Tue Jan 13 2026\n"
EXPORT = (
    "0x0badcafe\tib_register_peer_memory_client\tdrivers/infiniband/core/ib_uverbs\tEXPORT_SYMBOL\n"
)

# Every frame of the probe but those of the board, in the probe's order.
HEALTHY: dict[str, Override] = {
    "uid": "0\n",
    "boot-id": "0b5c7f0e-3b1f-4a53-9d3e-5d9d8a1f2c11\n",
    "hostname": "gpu01\n",
    "os-release": (
        'PRETTY_NAME="Ubuntu 22.04.5 LTS"\nID=ubuntu\nID_LIKE=debian\nVERSION_ID="22.04"\n'
    ),
    "cpu": ORDINARY_CPU,
    "dmi": "sys_vendor:Dell Inc.\nproduct_name:PowerEdge XE9680\n",
    "acpi-tables": "/sys/firmware/acpi/tables/DMAR\n",
    "kernel-release": KERNEL + "\n",
    "cmdline": f"BOOT_IMAGE=/boot/vmlinuz-{KERNEL} {ARGUMENTS}\n",
    "lockdown": "[none] integrity confidentiality\n",
    "kernel-config": CONFIG,
    "kernels": kernel_block(KERNEL),
    "headers": "Makefile present\ninclude/config/auto.conf present\nModule.symvers present\n",
    "reboot-required": ABSENT,
    "boot-entries": grub(),
    "loader": "grub /boot/grub\n",
    "boot-trials": ABSENT,
    "modules": "nvidia_peermem 16384 0 - Live 0x0000000000000000 (OE)\n",
    "module-state": module_state(),
    "nvidia-version": OPEN,
    "nvidia-params": 'EnableMSI: 1\nDmaRemapPeerMmio: 1\nRegistryDwords: ""\n',
    "kallsyms": "0000000000000000 T ib_register_peer_memory_client\t[ib_uverbs]\n",
    "symvers": f"@/usr/src/ofa_kernel/x86_64/{KERNEL}/Module.symvers\n{EXPORT}",
    "dkms-fragments": "",
    "dkms-confs": (
        f'nvidia-{DRIVER}/dkms.conf:PACKAGE_NAME="nvidia"\n'
        f'nvidia-{DRIVER}/dkms.conf:PACKAGE_VERSION="{DRIVER}"\n'
        f'nvidia-{DRIVER}/dkms.conf:BUILT_MODULE_NAME[0]="nvidia"\n'
        f'nvidia-{DRIVER}/dkms.conf:BUILT_MODULE_NAME[1]="nvidia-peermem"\n'
    ),
    "sources": f"/usr/src/ofa_kernel\n/usr/src/nvidia-{DRIVER}\n",
    "modprobe-files": "nvidia.conf:blacklist nouveau\n",
    "modules-load": "/etc/modules-load.d/nvidia-peermem.conf:nvidia-peermem\n",
    "etc-modules": "# /etc/modules\n",
    "peermem-files": PEERMEM + "\n",
    "legacy": "",
    "infiniband": INFINIBAND,
    "rdma-nodes": "".join(
        f"/dev/infiniband/{name}\n" for name in ("rdma_cm", "uverbs0", "uverbs1", "uverbs2")
    ),
    "pci": MISSING,  # these four come from the board
    "pci-links": MISSING,
    "pci-resources": MISSING,
    "pci-config": MISSING,
    "iommu-groups": groups("identity"),
    "iommu-units": "/sys/class/iommu/dmar0 -> ../../devices/virtual/iommu/dmar0\n",
    "acs-units": "acs-off.service enabled /usr/local/sbin/acs-off\n",
    "setpci": "/usr/bin/setpci\n",
    "numa-nodes": "0-1\n",
    "aer": "uptime:360000\nfunctions:13\n",
    "default-routes": "eno1\n",
    "ssh-interface": "eno1\n",
    **FIRMWARE,
    "limits": (
        "limits.d/90-rdma.conf:* soft memlock unlimited\n"
        "limits.d/90-rdma.conf:* hard memlock unlimited\n"
    ),
    "service-limits": "system.conf.d/rdma.conf:DefaultLimitMEMLOCK=infinity\n",
    "limits-now": "Max locked memory         unlimited            unlimited            bytes\n",
    "placed": "",
    "ours": "",
    **dict.fromkeys(("owned", "pending", "journal"), ABSENT),
    "left": "",
    **dict.fromkeys(("passport", "passport-sig", "passport-files"), ABSENT),
    **dict.fromkeys(("passport-loaded", "passport-since"), ABSENT),
    "modprobe-config": "blacklist nouveau\noptions mlx5_core probe_vf=1\n",
    "rdma-modinfo": rdma_core(),
    "nvidia-modinfo": modinfo(
        f"{UPDATES}/nvidia.ko", depends="", version=DRIVER, srcversion=SRC["nvidia"]
    ),
    "peermem-modinfo": PEERMEM_INFO,
    **FILES,
    **BUILDS,
    **FABRIC,
    **COMPANIONS,
    "peermem-resolve": f"insmod {UPDATES}/nvidia.ko\ninsmod {PEERMEM}\n",
    "arch": "x86_64\n",
    "boot-default": ABSENT,
    "grub-env": "",
    "grub-abstraction": "\n",
    "grub-fs": "ext2\n",
    "dkms-status": (
        f"mlnx-ofed-kernel/{OFED}, {KERNEL}, x86_64: installed\n"
        f"nvidia/{DRIVER}, {KERNEL}, x86_64: installed\n"
    ),
    "ofed-info": "OFED-internal-25.10-1.7.1:\n",
    "openibd": "enabled\n",
    "boot-order": ABSENT,
    "boot-order-log": ABSENT,
    "dmesg": "[    1.0] Linux version 5.15.0-170-generic\n",
    **CONSUMERS,
    "nvidia-smi": gpu_rows(),
    "nvidia-topology": "",
    "nvidia-smi-q": SMI_Q,
}
