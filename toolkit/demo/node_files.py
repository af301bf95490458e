"""What the node's commands know of it beyond the tree: the folder .node."""

from __future__ import annotations

from toolkit.demo.machine import Machine, functions, gpus, hcas
from toolkit.demo.nodes import DemoFamily, Recipe
from toolkit.demo.pci import ACS_REDIRECT
from toolkit.demo.software import head
from toolkit.demo.tree import NodeTree

_CPU = """\
processor\t: {number}
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 143
model name\t: Intel(R) Xeon(R) Platinum 8480+
stepping\t: 8
physical id\t: {number}
siblings\t: 112
core id\t\t: 0
cpu cores\t: 56
flags\t\t: fpu vme de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat clflush mmx sse sse2 \
ht syscall nx pdpe1gb rdtscp lm constant_tsc vmx smx est tm2 ssse3 fma sse4_1 sse4_2 x2apic aes \
avx avx2 avx512f clwb amx_tile
address sizes\t: 52 bits physical, 57 bits virtual

"""

# As /proc/driver/nvidia/params of branch 570 has them.
_PARAMS = (
    "ResmanDebugLevel: 4294967295\nRmLogonRC: 1\nModifyDeviceFiles: 1\nDeviceFileUID: 0\n"
    "DeviceFileGID: 0\nDeviceFileMode: 438\nInitializeSystemMemoryAllocations: 1\n"
    "UsePageAttributeTable: 4294967295\nEnableMSI: 1\nEnablePCIeGen3: 0\nMemoryPoolSize: 0\n"
    "EnableStreamMemOPs: 0\nEnableResizableBar: 0\nEnableGpuFirmware: 18\n"
    "EnablePCIERelaxedOrderingMode: 0\nEnableUserNUMAManagement: 1\n"
    "NvLinkDisable: 0\nDmaRemapPeerMmio: 1\nCreateImexChannel0: 0\nImexChannelCount: 2048\n"
    'GrdmaPciTopoCheckOverride: 0\nCoherentGPUMemoryMode: ""\nRegistryDwords: ""\n'
    'RegistryDwordsPerDevice: ""\nRmMsg: ""\nGpuBlacklist: ""\nTemporaryFilePath: ""\n'
    'ExcludedGpus: ""\n'
)

_LIMIT = "Max locked memory         8388608              8388608              bytes     "

# What udev loads for the hardware, and openibd or rdma-core for the fabric.
_BOOT_MODULES = (
    "nvme i40e nvidia nvidia_uvm nvidia_modeset nvidia_drm mlx5_core mlx5_ib ib_umad ib_ipoib"
    " rdma_cm rdma_ucm"
)

_LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
"""


def inside(recipe: Recipe) -> NodeTree:
    """Facts for the commands in ``bin``, one file each."""
    tree = NodeTree()
    machine = recipe.machine
    tree.data(".node/elf-head", head())
    tree.line(".node/vermagic", recipe.vermagic)
    tree.line(".node/family", recipe.family.value)
    tree.line(".node/user", recipe.user)
    tree.line(".node/module-folder", recipe.module_folder)
    tree.line(".node/boot-modules", _BOOT_MODULES)
    tree.text(".node/hangs", "".join(f"{name}\n" for name in recipe.hangs))
    if recipe.logged:
        tree.text(".node/logged", "".join(f"{line}\n" for line in recipe.logged))
    tree.text(".node/nvidia-params", _PARAMS)
    tree.text(".node/lspci", lspci(machine))
    tree.text(".node/gpus", _gpu_rows(machine))
    tree.text(".node/topology", topology(machine))
    tree.line(".node/ofed-info", recipe.ofed_info)
    if machine.acs & ACS_REDIRECT:
        tree.text(".node/acs", _registers(machine))
    tree.text("proc/cpuinfo", "".join(_CPU.format(number=number) for number in (0, 1)))
    tree.folder("proc/sys/kernel/random")
    tree.folder("proc/1")
    tree.text("proc/self/mountinfo", "25 1 259:2 / / rw - ext4 /dev/nvme0n1p2 rw\n")
    if gpus(machine):
        for pid, name in ((1702, "nvidia-persiste"), (1811, "nv-fabricmanage")):
            tree.line(f"proc/{pid}/comm", name)
            tree.line(f"proc/{pid}/limits", _LIMIT)
            _process(tree, pid, name, 0, f"system.slice/{name}.service", "/dev/nvidia0")
    if recipe.job:
        group = "system.slice/slurmstepd.scope/job_2207/step_0/user/task_0"
        _process(tree, 40962, "python3", 1000, group, "/dev/nvidia0", "/dev/infiniband/uverbs0")
    if recipe.family is DemoFamily.ARCH:
        tree.line(".node/kernel", recipe.kernel)
    return tree


def _registers(machine: Machine) -> str:
    """Address, path as kernel arguments name it, and what ACS control holds under an IOMMU."""
    parents = {each.address: each.parent for each in functions(machine)}
    lines = []
    for each in functions(machine):
        chain = [each.address]
        while parents.get(chain[0]):
            chain.insert(0, parents[chain[0]])
        path = "/".join((chain[0], *(one.rpartition(":")[2] for one in chain[1:])))
        if each.acs is not None:
            lines.append(f"{each.address} {path} {each.acs}\n")
    return "".join(lines)


def _process(tree: NodeTree, pid: int, name: str, uid: int, group: str, *devices: str) -> None:
    ids = "\t".join([str(uid)] * 4)
    tree.text(f"proc/{pid}/status", f"Name:\t{name}\nPPid:\t1\nUid:\t{ids}\n")
    tree.line(f"proc/{pid}/cgroup", f"0::/{group}")
    for number, device in enumerate(devices, start=3):
        tree.link(f"proc/{pid}/fd/{number}", device)


def lspci(machine: Machine) -> str:
    """``lspci -D``, with the numbers that -n and -nn show between tabs."""
    lines = []
    for each in functions(machine):
        kind, _, name = each.label.partition(": ")
        vendor, device = each.ids
        code = f"{each.pci_class >> 8:04x}"
        lines.append("\t".join((each.address, kind, code, name, f"{vendor:04x}:{device:04x}")))
    return "".join(f"{line}\n" for line in lines)


def _gpu_rows(machine: Machine) -> str:
    """index, bus id, name, memory in MiB, UUID: what ``nvidia-smi --query-gpu`` draws on."""
    return "".join(
        f"{index}\t0000{each.address.upper()}\tNVIDIA H100 80GB HBM3\t81559\t"
        f"GPU-{each.bus:08x}-6f1c-4d27-9a35-{index:012x}\n"
        for index, each in enumerate(gpus(machine))
    )


def topology(machine: Machine) -> str:
    """``nvidia-smi topo -m``."""
    cards, nics = gpus(machine), hcas(machine)
    devices = [*cards, *nics]
    names = [f"GPU{i}" for i in range(len(cards))] + [f"NIC{i}" for i in range(len(nics))]
    lines = ["\t".join(["", *names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"])]
    for name, one in zip(names, devices, strict=True):
        row = [name]
        for other in devices:
            if one is other:
                row.append(" X ")
            elif one in cards and other in cards:
                row.append("NV18")
            elif abs(one.bus - other.bus) == 1:
                row.append("PIX")  # below the same switch
            else:
                row.append("NODE" if one.numa == other.numa else "SYS")
        if one in cards:
            first = one.numa * 56
            row += [f"{first}-{first + 55}", str(one.numa), "N/A"]
        lines.append("\t".join(row))
    lines += [_LEGEND, "NIC Legend:\n", *(f"  NIC{i}: mlx5_{i}" for i in range(len(nics)))]
    return "\n".join(lines) + "\n"
