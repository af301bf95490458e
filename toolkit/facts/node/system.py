"""The machine, its kernel, and what it would boot next."""

from __future__ import annotations

from toolkit.errors import NoEvidence, read_or
from toolkit.facts.boot.cmdline import Cmdline, parse_cmdline
from toolkit.facts.boot.kernel import parse_config, parse_headers, parse_kernels, parse_lockdown
from toolkit.facts.boot.next_boot import (
    MARK,
    BootEntry,
    BootMenu,
    Loader,
    Tried,
    default_entry,
    parse_boot_entries,
    parse_loader,
    parse_trials,
)
from toolkit.facts.distros import parse_os_release
from toolkit.facts.fact import fact
from toolkit.facts.firmware.machine import Cpu, parse_cpu, parse_dmi
from toolkit.facts.reading import Reading, parsed, there, where_there
from toolkit.facts.versions import Version, parse_kernel_release, parse_uname


class System(Reading):
    """The machine, its kernel, and what it would boot next."""

    boot_id = parsed("boot-id", str.strip)

    @fact
    def hostname(self) -> str:
        """As the kernel has it; "" where loose files do not tell."""
        return self._text("hostname").strip() if self._given("hostname") else ""

    @fact
    def root(self) -> bool:
        """Whether the probe ran as root."""
        return self._text("uid").strip() == "0"

    # "x86_64", "aarch64".
    arch = parsed("arch", str.strip)
    distro = parsed("os-release", parse_os_release)

    @fact
    def cpu(self) -> Cpu:
        """The first processor; in an image one that nothing is known of."""
        return parse_cpu(self._text("cpu") if self.live else "")

    dmi = parsed("dmi", parse_dmi)

    @fact
    def has_dmi(self) -> bool:
        """Whether the machine has names in DMI, which some arm64 boards and loose files lack."""
        return self._given("dmi") and self._there("dmi")

    @fact
    def kernel(self) -> str:
        """Kernel release, as ``uname -r`` prints it; in an image the one it was read for."""
        if self._given("uname") and not self._given("kernel-release"):
            return str(parse_uname(self._text("uname")))
        return str(parse_kernel_release(self._text("kernel-release")))

    @fact
    def kernel_version(self) -> Version:
        return Version(self.kernel)

    cmdline = parsed("cmdline", parse_cmdline)
    # "none", "integrity" or "confidentiality"; none where the kernel has no lockdown.
    lockdown = where_there("lockdown", parse_lockdown, "none")
    kernel_config = parsed("kernel-config", parse_config)
    kernels = parsed("kernels", parse_kernels)
    # Parts of the running kernel's build folder.
    headers = parsed("headers", parse_headers)
    reboot_required = there("reboot-required")

    @fact
    def boot_menu(self) -> BootMenu:
        environment = self._text("grub-env") if self._read_well("grub-env") else None
        return parse_boot_entries(self._text("boot-entries"), environment)

    @fact
    def boot_entries(self) -> tuple[BootEntry, ...]:
        return self.boot_menu.entries

    @fact
    def grubby_default(self) -> str:
        """The image that ``grubby --default-kernel`` names; "" without grubby."""
        return self._text("boot-default") if self._read_well("boot-default") else ""

    @fact
    def next_boot(self) -> BootEntry:
        """The entry that an unattended reboot takes; in an image the first of its kernel.

        :raises NoEvidence: where the boot configuration does not tell.
        """
        entry = self.default_entry if self.live else self._own_entry()
        if entry is None:
            raise NoEvidence("boot configuration: no entry that boots a kernel was found")
        return entry

    @fact
    def default_entry(self) -> BootEntry | None:
        """What the boot loader takes by itself, whatever kernel an image was read for."""
        return default_entry(self.boot_menu, self.grubby_default)

    def _own_entry(self) -> BootEntry | None:
        own = [each for each in self.boot_entries if each.kernel == self.kernel]
        return next((each for each in own if not each.recovery), None)

    @fact
    def loader(self) -> Loader:
        found = parse_loader(self._text("loader"))
        if found is Loader.TRANSACTIONAL or not self._of_ostree():
            return found
        return Loader.OSTREE

    def _of_ostree(self) -> bool:
        """Whether another source than /run/ostree-booted tells so: bootc passes these words too."""
        return read_or(
            lambda: self.distro.ostree or bool(self.cmdline["ostree"] or self.cmdline["composefs"]),
            False,
        )

    @fact
    def trial(self) -> str:
        """The id of the trial that this boot is; "" for none."""
        return self.cmdline[MARK]

    # What was tried here and did not become the default, by id.
    trials = where_there("boot-trials", parse_trials, dict[str, Tried]())

    @fact
    def grub_disk(self) -> tuple[str, str]:
        """What GRUB's environment lies on: layers ("lvm"; "" for none), and a file system.

        :raises NoEvidence: where GRUB could not tell.
        """
        return self._text("grub-abstraction").strip(), self._text("grub-fs").strip()

    @fact
    def grub_variables(self) -> dict[str, str]:
        """GRUB's environment, as it stands on the disk."""
        lines = self._text("grub-env").split("\n")
        return dict(line.split("=", 1) for line in lines if "=" in line)

    @fact
    def default_kernel(self) -> str:
        """Kernel release that the next boot starts; in an image the one it was read for.

        :raises Unparsable: where its file is not named after one: Arch's "vmlinuz-linux".
        """
        if not self.live:
            return self.kernel
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
