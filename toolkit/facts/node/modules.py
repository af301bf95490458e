"""Kernel modules of one machine: loaded, on disk, configured."""

from __future__ import annotations

from toolkit.evidence import State
from toolkit.facts.fact import fact
from toolkit.facts.lines import named_lines
from toolkit.facts.modules.kernel_modules import (
    LoadedModule,
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
from toolkit.facts.modules.load_order import (
    STARTERS,
    Inserted,
    UnitTimes,
    parse_inserted,
    parse_unit_times,
)
from toolkit.facts.reading import Reading, parsed, where_there


class KernelModules(Reading):
    """Kernel modules of one machine: loaded, on disk, configured."""

    @fact
    def modules(self) -> dict[str, LoadedModule]:
        """Those that are loaded, by name; none in an image."""
        if not self.live:
            return {}
        return {each.name: each for each in parse_modules(self._text("modules"))}

    @fact
    def module_state(self) -> dict[str, ModuleState]:
        """Of those that are loaded, by name; none in an image."""
        return {} if not self.live else parse_module_state(self._text("module-state"))

    # The RDMA core modules on disk, by name.
    rdma_files = parsed("rdma-modinfo", parse_modinfo)

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
        # A softdep may load more behind it.
        loads = [path.removeprefix("/usr") for path in parse_show_depends(answer)]
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

    # Of what loads modules and of what starts jobs; None where nothing starts jobs at boot.
    unit_times = where_there("boot-order", parse_unit_times, None)

    @property
    def starters(self) -> tuple[tuple[str, UnitTimes], ...]:
        """The services here that start jobs."""
        times = self.unit_times or {}
        return tuple(
            (name, times[name]) for name in STARTERS if name in times and times[name].loaded
        )

    @fact
    def peermem_inserted(self) -> Inserted:
        """What the journal has of nvidia-peermem since the boot; a journal may have forgotten."""
        log = self._text("boot-order-log") if self._read_well("boot-order-log") else ""
        return parse_inserted(log, "nvidia_peermem")

    modprobe = parsed("modprobe-config", parse_modprobe_config)

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
        return {} if not self.live else parse_kallsyms(self._text("kallsyms"))

    symvers = parsed("symvers", parse_symvers)

    @fact
    def legacy_files(self) -> tuple[str, ...]:
        """Files of nvidia-peer-memory, the module before nvidia-peermem."""
        return tuple(self._text("legacy").split())
