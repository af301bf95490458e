"""The NVIDIA driver, OFED and DKMS of one machine."""

from __future__ import annotations

import re

from toolkit.evidence import State
from toolkit.facts.fact import fact
from toolkit.facts.gpu.driver import (
    Driver,
    GpuRow,
    driver_of,
    parse_api_mismatch,
    parse_driver,
    parse_gpu_rows,
    parse_nvml_mismatch,
    parse_params,
    parse_unsupported,
)
from toolkit.facts.gpu.kernel_trouble import Trouble, unstarted
from toolkit.facts.modules.dkms import (
    parse_dkms_confs,
    parse_dkms_status,
    parse_driver_sources,
)
from toolkit.facts.modules.kernel_modules import parse_modinfo, parse_modinfo_files
from toolkit.facts.node.fabric import Fabric
from toolkit.facts.rdma.devices import Ofed, OfedFlavour
from toolkit.facts.reading import parsed, there, where_there
from toolkit.facts.versions import parse_ofed_version

# "25.10-1.7.1": what OFED's modules say of themselves.
_OFED_MODULE = re.compile(r"\d{2}\.\d{2}-\d+(\.\d+)+")
# Names under which OFED registers with DKMS: vendor deb, vendor rpm, Ubuntu's own.
OFED_DKMS = ("mlnx-ofed-kernel", "mlnx-ofa_kernel", "doca-ofed")


class Stack(Fabric):
    """The NVIDIA driver, OFED and DKMS of one machine."""

    @fact
    def driver(self) -> Driver | None:
        """The loaded driver; in an image the one that its kernel would load. None for none."""
        if not self.live:
            # That of the module on disk, else of the source that DKMS would build it from.
            at = f"/lib/modules/{self._text('kernel-release').strip()}/"
            for each in parse_modinfo_files(self._text("all-modinfo")).values():
                if each.name == "nvidia" and each.version and at in each.filename:
                    return driver_of(each.version, each.license)
            versions = [each.version for each in self.dkms if each.module == self.driver_dkms]
            if not versions:
                return None
            return driver_of(versions[-1], "GPL" if "open" in self.driver_dkms else "")
        return parse_driver(self._text("nvidia-version")) if self._there("nvidia-version") else None

    @fact
    def no_driver(self) -> bool:
        """Known to have none loaded: what only a loaded driver tells is then no gap."""
        return self._given("nvidia-version") and self.driver is None

    driver_params = parsed("nvidia-params", parse_params)
    has_nvidia_smi = there("nvidia-smi")

    @fact
    def gpu_rows(self) -> tuple[GpuRow, ...]:
        """As the probe asked nvidia-smi; from loose files, as its other answers tell them."""
        if self._given("nvidia-smi") or self.probed:
            return parse_gpu_rows(self._text("nvidia-smi"))
        told = self.smi
        return tuple(
            GpuRow(e.address, e.name, told.driver, e.memory_mib, e.persistence, e.errors)
            for e in told.gpus
        )

    @fact
    def mismatched_library(self) -> str:
        """Version of the user-space libraries that the driver does not talk to; "" for none."""
        if not self.probed and self._given("nvidia-smi-q"):
            return parse_nvml_mismatch(self.sources.frame("nvidia-smi-q").text)
        failed = self._state("nvidia-smi") is State.FAILED
        return parse_nvml_mismatch(self.sources.frame("nvidia-smi").text) if failed else ""

    @fact
    def api_mismatch(self) -> str:
        """What a loose kernel log tells of user space that is not the driver's; "" for nothing.

        Of a node that was probed its nvidia-smi tells, and how it is now.
        """
        return parse_api_mismatch(self._loose_log())

    @fact
    def unsupported_gpus(self) -> dict[str, bool]:
        """GPUs that the driver does not drive, says the kernel log; by address."""
        return parse_unsupported(self._text("dmesg").split("\n")) if self._given("dmesg") else {}

    @fact
    def unstarted_gpus(self) -> tuple[Trouble, ...]:
        """What a loose kernel log says of GPUs that the driver could not start."""
        return unstarted(self._loose_log())

    def _loose_log(self) -> list[str]:
        """Lines of a kernel log that was given as a file; none of a node that was probed."""
        return [] if self.probed or not self._given("dmesg") else self._text("dmesg").split("\n")

    # What DKMS knows; nothing where the node has no DKMS.
    dkms = where_there("dkms-status", parse_dkms_status, ())
    dkms_packages = parsed("dkms-confs", parse_dkms_confs)

    @fact
    def driver_sources(self) -> frozenset[str]:
        """Releases of the driver whose source lies below /usr/src, for DKMS or by itself."""
        packages = [each.version for each in self.dkms_packages if each.name != "nvidia-peermem"]
        return frozenset((*packages, *parse_driver_sources(self._text("dkms-confs")).values()))

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
        """The RDMA stack, from whatever ``ofed_info -s`` answers, else DKMS, else the modules.

        A distribution's prebuilt packages and a driver container bring no ofed_info; but
        OFED's mlx5_core has a version, and the kernel's own has none.

        :raises Unparsable: where ofed_info answers without a version.
        """
        if self._there("ofed-info"):
            answer = self._text("ofed-info")
            mlnx = "MLNX_OFED" in answer
            flavour = OfedFlavour.MLNX_OFED if mlnx else OfedFlavour.DOCA_OFED
            return Ofed(flavour, parse_ofed_version(answer))
        if self.ofed_dkms:
            return Ofed(OfedFlavour.DOCA_OFED)
        if not self._there("rdma-modinfo"):
            return Ofed(OfedFlavour.INBOX)
        driver = parse_modinfo(self._text("rdma-modinfo")).get("mlx5_core")
        if driver is None or not _OFED_MODULE.fullmatch(driver.version):
            return Ofed(OfedFlavour.INBOX)
        inside = self._given("ofed-container") and self._there("ofed-container")
        contained = inside and self._text("ofed-container").strip()
        packaging = "container" if contained else "prebuilt"
        return Ofed(OfedFlavour.DOCA_OFED, parse_ofed_version(driver.version), packaging)

    @fact
    def ofed_dkms(self) -> str:
        """DKMS name of OFED's kernel modules; "" where they are not by DKMS."""
        names = [each.module for each in self.dkms]
        return next((name for name in names if name.startswith(OFED_DKMS)), "")

    @fact
    def ofed_sources(self) -> tuple[str, ...]:
        """Paths below /usr/src that OFED left: /usr/src/ofa_kernel and its folders."""
        return tuple(p for p in self._text("sources").split("\n") if p.startswith("/usr/src/ofa"))


def _plain(names: tuple[str, ...]) -> set[str]:
    """Module names without the prefixes of Debian's packages."""
    return {
        name.replace("nvidia-current-open", "nvidia").replace("nvidia-current", "nvidia")
        for name in names
    }
