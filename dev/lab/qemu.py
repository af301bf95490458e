"""What a guest is made of, and the words that QEMU is given for it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

KERNELS = ("6.1", "6.12")
IOMMUS = ("none", "intel", "amd")
# Emulated at once; with a richer processor Debian's kernel loads modules for it, for seconds.
# Without the hypervisor's bit, and with a board of its own, the guest is a node, not a machine
# rented to somebody; 46 bits are what GPUs' windows take. Without rdrand all wait for chance.
_CPU = "qemu64,phys-bits=46,-hypervisor,+rdrand"
_VENDORS = {"none": "AuthenticAMD", "intel": "GenuineIntel", "amd": "AuthenticAMD"}
_SCSI = ("-device", "virtio-scsi-pci", "-device", "scsi-hd,drive=disk,bootindex=0")
_DEVICES = {
    "none": (),
    "intel": ("-device", "intel-iommu,intremap=on"),
    "amd": ("-device", "amd-iommu,intremap=on"),
}


@dataclass(frozen=True, slots=True)
class Spec:
    """A guest that is asked for; equal ones boot from one disk."""

    kernel: str = "6.1"
    iommu: str = "intel"
    pci: str = ""  # a table's text, see pcitree.py
    layers: tuple[Path, ...] = ()  # over the system, topmost first
    memory_mb: int = 1024
    cpus: int = 1  # two guests have two processors between them in CI
    # QEMU's own devices that bridges can be tried with: a root port with ACS, on its own group.
    extra: tuple[str, ...] = ()
    virtualbox: bool = (
        False  # as such a hypervisor would have it: it says so, and has its disk's bus
    )

    @property
    def resumable(self) -> bool:
        """Whether QEMU can write down the state of such a guest: not that of its AMD IOMMU."""
        return self.iommu != "amd"


@dataclass(frozen=True, slots=True)
class Wiring:
    """What one guest has for itself."""

    disk: Path  # written to
    console: Path
    control: Path  # socket of QEMU's monitor, QMP
    port: int  # on loopback, to the guest's sshd
    table: Path | None = None  # of pcitree
    nodes: int = 1  # of NUMA
    incoming: Path | None = None  # the state of a machine that goes on here


def command(spec: Spec, wiring: Wiring) -> tuple[str, ...]:
    """The whole command; the guest lives as long as the process."""
    table = ("-fw_cfg", f"name=opt/gdr.pcitree,file={wiring.table}") if wiring.table else ()
    cpu = _CPU.replace("-hypervisor", "+hypervisor") if spec.virtualbox else _CPU
    return (
        *("qemu-system-x86_64", "-nodefaults", "-display", "none"),
        *("-machine", "q35", "-accel", "tcg,thread=multi,tb-size=512"),
        *("-cpu", f"{cpu},vendor={_VENDORS[spec.iommu]}"),
        *("-smp", str(spec.cpus), "-m", str(spec.memory_mb), *_numa(spec, wiring.nodes)),
        *(() if spec.virtualbox else _board()),
        *_DEVICES[spec.iommu],
        *("-serial", f"file:{wiring.console}", "-qmp", f"unix:{wiring.control},server,nowait"),
        *("-drive", f"file={wiring.disk},if=none,id=disk,cache=unsafe,discard=unmap"),
        *(_SCSI if spec.virtualbox else ("-device", "virtio-blk-pci,drive=disk,bootindex=0")),
        # Nothing leads out: what a guest may reach is nobody's business but the test's.
        *("-netdev", f"user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{wiring.port}-:22"),
        *("-device", "virtio-net-pci,netdev=net,romfile="),
        *("-object", "rng-random,filename=/dev/urandom,id=rng"),
        *("-device", "virtio-rng-pci,rng=rng"),
        *table,
        *spec.extra,
        *(("-incoming", f"exec:cat '{wiring.incoming}'") if wiring.incoming else ()),
    )


def _numa(spec: Spec, nodes: int) -> tuple[str, ...]:
    """The memory in equal parts, a processor to each as long as there are any."""
    if nodes < 2:
        return ()
    words: list[str] = []
    for node in range(nodes):
        size = spec.memory_mb // nodes
        words += ["-object", f"memory-backend-ram,id=m{node},size={size}M"]
        cpus = f",cpus={node}" * (node < spec.cpus)
        words += ["-numa", f"node,nodeid={node},memdev=m{node}{cpus}"]
    return tuple(words)


def _board() -> tuple[str, ...]:
    """Tables of the firmware that name no hypervisor; the BIOS writes its own (type 0)."""
    maker = "manufacturer=GDR Toolkit"
    return (
        *("-smbios", f"type=1,{maker},product=Lab"),
        *("-smbios", f"type=2,{maker},product=Lab"),
        *("-smbios", f"type=3,{maker}"),
    )
