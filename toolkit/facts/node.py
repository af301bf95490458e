"""One machine, read lazily from its evidence; it remembers what it cited."""

from __future__ import annotations

from toolkit.errors import NoEvidence
from toolkit.evidence import State
from toolkit.facts.boot import BootEntry, BootMenu, default_entry, parse_boot_entries
from toolkit.facts.cmdline import Cmdline, parse_cmdline
from toolkit.facts.distro import Distro, parse_os_release
from toolkit.facts.dkms import DkmsBuild, DkmsPackage, parse_dkms_confs, parse_dkms_status
from toolkit.facts.fact import fact
from toolkit.facts.firmware import Cpu, parse_cpu, parse_dmi
from toolkit.facts.gpu import (
    Driver,
    GpuRow,
    parse_driver,
    parse_gpu_rows,
    parse_nvml_mismatch,
    parse_params,
)
from toolkit.facts.iommu import Domain, parse_groups
from toolkit.facts.kernel import (
    InstalledKernel,
    parse_config,
    parse_headers,
    parse_kernels,
    parse_lockdown,
)
from toolkit.facts.lines import named_lines
from toolkit.facts.modules import (
    LoadedModule,
    ModprobeConfig,
    ModuleFile,
    ModuleState,
    parse_kallsyms,
    parse_modinfo,
    parse_modprobe_config,
    parse_module_state,
    parse_modules,
    parse_modules_load,
    parse_show_depends,
    parse_symvers,
)
from toolkit.facts.ours import Placed, parse_contents, parse_placed
from toolkit.facts.pci import PciFunction, PciTree, parse_pci
from toolkit.facts.rdma import Ofed, OfedFlavour, RdmaDevice, parse_infiniband
from toolkit.facts.reading import Reading
from toolkit.facts.versions import Version, parse_kernel_release, parse_ofed_version

# Names under which OFED registers with DKMS: vendor deb, vendor rpm, Ubuntu's own.
OFED_DKMS = ("mlnx-ofed-kernel", "mlnx-ofa_kernel", "doca-ofed")


class Node(Reading):
    """One machine. Asking for a fact that was not read raises NoEvidence or Unparsable."""

    # --- machine ---

    @fact
    def boot_id(self) -> str:
        return self._text("boot-id").strip()

    @fact
    def root(self) -> bool:
        """Whether the probe ran as root."""
        return self._text("uid").strip() == "0"

    @fact
    def arch(self) -> str:
        """ "x86_64", "aarch64"."""
        return self._text("arch").strip()

    @fact
    def distro(self) -> Distro:
        return parse_os_release(self._text("os-release"))

    @fact
    def cpu(self) -> Cpu:
        return parse_cpu(self._text("cpu"))

    @fact
    def dmi(self) -> dict[str, str]:
        return parse_dmi(self._text("dmi"))

    # --- kernel and boot ---

    @fact
    def kernel(self) -> str:
        """Kernel release, as ``uname -r`` prints it."""
        return str(parse_kernel_release(self._text("kernel-release")))

    @fact
    def kernel_version(self) -> Version:
        return Version(self.kernel)

    @fact
    def cmdline(self) -> Cmdline:
        return parse_cmdline(self._text("cmdline"))

    @fact
    def lockdown(self) -> str:
        """ "none", "integrity" or "confidentiality"; none where the kernel has no lockdown."""
        return parse_lockdown(self._text("lockdown")) if self._there("lockdown") else "none"

    @fact
    def kernel_config(self) -> dict[str, str]:
        return parse_config(self._text("kernel-config"))

    @fact
    def kernels(self) -> tuple[InstalledKernel, ...]:
        return parse_kernels(self._text("kernels"))

    @fact
    def headers(self) -> dict[str, bool]:
        """Parts of the running kernel's build folder."""
        return parse_headers(self._text("headers"))

    @fact
    def reboot_required(self) -> bool:
        return self._there("reboot-required")

    @fact
    def boot_menu(self) -> BootMenu:
        environment = self._text("grub-env") if self._read_well("grub-env") else None
        return parse_boot_entries(self._text("boot-entries"), environment)

    @fact
    def boot_entries(self) -> tuple[BootEntry, ...]:
        return self.boot_menu.entries

    @fact
    def next_boot(self) -> BootEntry:
        """The entry that an unattended reboot takes.

        :raises NoEvidence: where the boot configuration does not tell.
        """
        grubby = self._text("boot-default") if self._read_well("boot-default") else ""
        entry = default_entry(self.boot_menu, grubby)
        if entry is None:
            raise NoEvidence("boot configuration: no entry that boots a kernel was found")
        return entry

    @fact
    def default_kernel(self) -> str:
        """Kernel release that the next boot starts.

        :raises Unparsable: where its file is not named after one: Arch's "vmlinuz-linux".
        """
        return str(parse_kernel_release(self.next_boot.kernel))

    @fact
    def next_cmdline(self) -> Cmdline:
        """The arguments that the next boot passes to its kernel.

        :raises NoEvidence: where they refer to variables of GRUB that were not read.
        """
        if self.next_boot.unresolved:
            names = ", ".join(f"${name}" for name in self.next_boot.unresolved)
            raise NoEvidence(f"boot configuration: {names} not known", hint="grub2-editenv list")
        return self.next_boot.cmdline

    # --- modules ---

    @fact
    def modules(self) -> dict[str, LoadedModule]:
        return {each.name: each for each in parse_modules(self._text("modules"))}

    @fact
    def module_state(self) -> dict[str, ModuleState]:
        return parse_module_state(self._text("module-state"))

    @fact
    def rdma_files(self) -> dict[str, ModuleFile]:
        """The RDMA core modules on disk, by name."""
        return parse_modinfo(self._text("rdma-modinfo"))

    @fact
    def driver_file(self) -> ModuleFile | None:
        """The nvidia module on disk; None where there is none for the running kernel."""
        return next(iter(parse_modinfo(self._text("nvidia-modinfo")).values()), None)

    @fact
    def peermem_files(self) -> tuple[ModuleFile, ...]:
        """Every nvidia-peermem on disk for the running kernel."""
        files = parse_modinfo(self._text("peermem-modinfo")).values()
        return tuple(each for each in files if each.name == "nvidia_peermem")

    @fact
    def peermem_chosen(self) -> ModuleFile | None:
        """The one of them that modprobe takes; None where it finds none.

        :raises NoEvidence: where modprobe was not there or gave no answer.
        """
        if self._state("peermem-resolve") is State.FAILED:
            return None
        answer = self._text("peermem-resolve")
        # kmod may be built for /usr/lib/modules, which is the same folder.
        loads = [path.removeprefix("/usr") for path in parse_show_depends(answer)[-1:]]
        # Debian's packages hide it behind "install ... modprobe -i nvidia-current-peermem".
        words = answer.split()
        for each in self.peermem_files:
            if each.filename.removeprefix("/usr") in loads or each.stem in words:
                return each
        return None

    @fact
    def modprobe_files(self) -> tuple[tuple[str, str], ...]:
        """Every line of /etc/modprobe.d, with the file that it stands in."""
        return tuple(named_lines(self._text("modprobe-files"), "/etc/modprobe.d"))

    @fact
    def modprobe(self) -> ModprobeConfig:
        return parse_modprobe_config(self._text("modprobe-config"))

    @fact
    def modules_load(self) -> dict[str, tuple[str, ...]]:
        """Modules loaded at boot, by the file that names them."""
        files = parse_modules_load(self._text("modules-load"))
        if self._there("etc-modules"):
            lines = (line.strip() for line in self._text("etc-modules").split("\n"))
            # Debian allows parameters behind the name.
            words = (line.split()[0].replace("-", "_") for line in lines if line and line[0] != "#")
            files["/etc/modules"] = tuple(words)
        return files

    @fact
    def symbols(self) -> dict[str, str]:
        """Live symbols of the peer-memory interface, and the module that exports each."""
        return parse_kallsyms(self._text("kallsyms"))

    @fact
    def symvers(self) -> dict[str, str]:
        return parse_symvers(self._text("symvers"))

    @fact
    def legacy_files(self) -> tuple[str, ...]:
        """Files of nvidia-peer-memory, the module before nvidia-peermem."""
        return tuple(self._text("legacy").split())

    # --- driver, OFED, DKMS ---

    @fact
    def driver(self) -> Driver | None:
        """The loaded driver; None where none is loaded."""
        return parse_driver(self._text("nvidia-version")) if self._there("nvidia-version") else None

    @fact
    def driver_params(self) -> dict[str, str]:
        return parse_params(self._text("nvidia-params"))

    @fact
    def has_nvidia_smi(self) -> bool:
        return self._there("nvidia-smi")

    @fact
    def gpu_rows(self) -> tuple[GpuRow, ...]:
        return parse_gpu_rows(self._text("nvidia-smi"))

    @fact
    def mismatched_library(self) -> str:
        """Version of the user-space libraries that the driver does not talk to; "" for none."""
        failed = self._state("nvidia-smi") is State.FAILED
        return parse_nvml_mismatch(self._evidence.frame("nvidia-smi").text) if failed else ""

    @fact
    def dkms(self) -> tuple[DkmsBuild, ...]:
        """What DKMS knows; nothing where the node has no DKMS."""
        return parse_dkms_status(self._text("dkms-status")) if self._there("dkms-status") else ()

    @fact
    def dkms_packages(self) -> tuple[DkmsPackage, ...]:
        return parse_dkms_confs(self._text("dkms-confs"))

    @fact
    def driver_dkms(self) -> str:
        """DKMS name of the driver ("nvidia", "nvidia-current-open"); "" if not by DKMS."""
        packages = {each.name for each in self.dkms_packages if "nvidia" in _plain(each.builds)}
        names = [each.module for each in self.dkms]
        return next((name for name in names if name in packages or name == "nvidia"), "")

    @fact
    def peermem_dkms(self) -> str:
        """DKMS name of the package that builds nvidia-peermem; "" for none."""
        owners = [each for each in self.dkms_packages if "nvidia-peermem" in _plain(each.builds)]
        names = {each.module for each in self.dkms}
        return next((each.name for each in owners if each.name in names), "")

    @fact
    def ofed(self) -> Ofed:
        """The RDMA stack, from whatever ``ofed_info -s`` answers, else from DKMS.

        :raises Unparsable: where ofed_info answers without a version.
        """
        if self._there("ofed-info"):
            answer = self._text("ofed-info")
            mlnx = "MLNX_OFED" in answer
            flavour = OfedFlavour.MLNX_OFED if mlnx else OfedFlavour.DOCA_OFED
            return Ofed(flavour, parse_ofed_version(answer))
        return Ofed(OfedFlavour.DOCA_OFED) if self.ofed_dkms else Ofed(OfedFlavour.INBOX)

    @fact
    def ofed_dkms(self) -> str:
        """DKMS name of OFED's kernel modules; "" where they are not by DKMS."""
        names = [each.module for each in self.dkms]
        return next((name for name in names if name.startswith(OFED_DKMS)), "")

    @fact
    def ofed_sources(self) -> tuple[str, ...]:
        """Paths below /usr/src that OFED left: /usr/src/ofa_kernel and its folders."""
        return tuple(p for p in self._text("sources").split("\n") if p.startswith("/usr/src/ofa"))

    # --- RDMA and PCI ---

    @fact
    def rdma_devices(self) -> tuple[RdmaDevice, ...]:
        return parse_infiniband(self._text("infiniband"))

    @fact
    def rdma_nodes(self) -> tuple[str, ...]:
        """Device files below /dev/infiniband."""
        return tuple(self._text("rdma-nodes").split())

    @fact
    def pci(self) -> PciTree:
        """The PCI functions, without their config space."""
        return parse_pci(
            self._text("pci"), self._text("pci-links"), self._text("pci-resources"), ""
        )

    @fact
    def pci_config(self) -> PciTree:
        """The same with the config space of bridges, GPUs, HCAs and NVMe."""
        frames = ("pci", "pci-links", "pci-resources", "pci-config")
        return parse_pci(*(self._text(key) for key in frames))

    @fact
    def hcas(self) -> tuple[PciFunction, ...]:
        """PCI functions of the HCAs: those that drive an RDMA device, else those that could."""
        functions = self.pci.functions
        driving = [each.address for each in self.rdma_devices if each.address in functions]
        if driving:
            return tuple(functions[address] for address in dict.fromkeys(driving))
        return tuple(each for each in functions.values() if each.may_be_hca)

    @fact
    def iommu_groups(self) -> dict[str, Domain]:
        return parse_groups(self._text("iommu-groups"))

    @fact
    def iommu_units(self) -> tuple[str, ...]:
        """The IOMMUs that the kernel drives: "dmar0", "ivhd0"; none when it is off."""
        paths = (line.split(" -> ")[0] for line in self._text("iommu-units").split("\n") if line)
        return tuple(path.rpartition("/")[2] for path in paths)

    @fact
    def dmesg(self) -> tuple[str, ...]:
        """Lines of the kernel log."""
        return tuple(self._text("dmesg").split("\n")[:-1])

    # --- limits, and what is ours ---

    @fact
    def memlock_files(self) -> str:
        """Lines of limits.conf and limits.d that set memlock, as "FILE:LINE"."""
        return self._text("limits")

    @fact
    def service_limits(self) -> str:
        """systemd's system.conf and its drop-ins, as "FILE:LINE"."""
        return self._text("service-limits")

    @fact
    def placed(self) -> dict[str, Placed]:
        """Files that lie where artefacts would go, by path."""
        return parse_placed(self._text("placed"))

    @fact
    def ours(self) -> dict[str, str]:
        """The text of those files, by path."""
        return parse_contents(self._text("ours"))

    @fact
    def owned(self) -> frozenset[str]:
        """Paths that an earlier run of ours placed."""
        text = self._text("owned") if self._there("owned") else ""
        return frozenset(line for line in text.split("\n") if line)

    @fact
    def pending(self) -> tuple[str, ...]:
        """Triggers that an earlier run still owes."""
        text = self._text("pending") if self._there("pending") else ""
        return tuple(line for line in text.split("\n") if line)


def _plain(names: tuple[str, ...]) -> set[str]:
    """Module names without the prefixes of Debian's packages."""
    return {
        name.replace("nvidia-current-open", "nvidia").replace("nvidia-current", "nvidia")
        for name in names
    }
