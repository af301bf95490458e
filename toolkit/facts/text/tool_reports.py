"""Reports of tools that judge for themselves, rdma_topo, dcgmi and fi_info; and logs of services.

Sources: linux-rdma/rdma-core kernel-boot/rdma_topo (check_ok, check_fail, CommandError), and
NVIDIA's own of DGX Station; NVIDIA/DCGM dcgmi, Diag.cpp; ofiwg/libfabric util/info.c; NVIDIA's
Fabric Manager guide, log levels; NVIDIA/gpu-driver-container, reload_nvidia_peermem.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from toolkit.errors import Unparsable
from toolkit.facts.gpu.driver import normal_address
from toolkit.facts.gpu.kernel_trouble import Trouble
from toolkit.facts.kinds import CUDA_802

_OF_DMA = "xx110x1"  # the mask of the port above a DMA function


class TopoCheck(Struct, frozen=True):
    """What ``rdma_topo check`` found; it may end at the first failure."""

    right: tuple[str, ...]
    wrong: tuple[str, ...]

    @property
    def whole(self) -> bool:
        """Whether it came to its end: last of all it looks at a group for each DMA function."""
        groups = sum("iommu_group for DMA" in each for each in self.right)
        return groups >= max(1, sum(_OF_DMA in each for each in self.right))


_TOPO = re.compile(r"(OK|FAIL|E:)\s+(\S.*)")


def parse_rdma_topo(text: str) -> TopoCheck:
    """Read ``rdma_topo check``; "E: " is an error of the tool, which then has checked nothing more.

    :raises Unparsable: without a line of its own, or where it could not go on.
    """
    right: list[str] = []
    wrong: list[str] = []
    for line in text.split("\n"):
        found = _TOPO.fullmatch(line.strip())
        if found is None:
            continue
        if found[1] == "E:":
            raise Unparsable("rdma_topo check", line)
        (right if found[1] == "OK" else wrong).append(found[2])
    if not right and not wrong:
        raise Unparsable("rdma_topo check", text.strip().split("\n")[0])
    return TopoCheck(tuple(right), tuple(wrong))


class DiagResult(Struct, frozen=True):
    """One test of ``dcgmi diag``."""

    name: str  # "PCIe"
    result: str  # "Pass", "Fail", "Skip", "Warn"
    rest: tuple[str, ...] = ()  # which GPUs, and what is said below


_DIAG_ROW = re.compile(r"\|\s?(.*?)\s*\|\s*(.*?)\s*\|?\s*")
_RESULT = re.compile(
    r"(?:GPU ?\d+: )?(Pass|Fail|Skip|Warn)(?:ed|ing)?\b(?: - (.*))?", re.IGNORECASE
)
_WORST = ("Pass", "Skip", "Warn", "Fail")


def parse_dcgmi_diag(text: str) -> tuple[DiagResult, ...]:
    """Read the table of ``dcgmi diag``; of DCGM 4 each test has a line a GPU below its own.

    :raises Unparsable: where it has no test with a result.
    """
    found: list[DiagResult] = []
    for line in text.split("\n"):
        row = _DIAG_ROW.fullmatch(line.strip())
        if row is None or (set(row[1]) <= set("-=+ ") and row[1]):
            continue
        told = _RESULT.match(row[2])
        if told and row[1] and not row[1].startswith("Warning"):
            found.append(DiagResult(row[1], told[1].capitalize(), (told[2],) if told[2] else ()))
        elif found and row[2] and (not row[1] or row[1].startswith(("Warning", "Error", "Info"))):
            last = found[-1]
            result = told[1].capitalize() if told else last.result
            worst = max(last.result, result, key=_WORST.index)
            found[-1] = DiagResult(last.name, worst, (*last.rest, row[2]))
    if not found:
        raise Unparsable("dcgmi diag", text.strip().split("\n")[0])
    return tuple(found)


class FabricInfo(Struct, frozen=True):
    """One entry of ``fi_info``."""

    provider: str  # "efa", "cxi", "tcp;ofi_rxm"
    domain: str  # "rdmap0s6-rdm", "cxi0"


class FiInfo(Struct, frozen=True):
    entries: tuple[FabricInfo, ...]
    error: str = ""  # "fi_getinfo: -61 (No data available)": nothing fits what was asked for


_FI_PAIR = re.compile(r"(provider|domain): (\S.*)")
_FI_ERROR = re.compile(r"^\s*(fi_getinfo: .*\S)\s*$", re.MULTILINE)


def parse_fi_info(text: str) -> FiInfo:
    """Read ``fi_info``.

    :raises Unparsable: where it has neither an entry nor an error, or an entry has no domain.
    """
    pairs = [found for line in text.split("\n") if (found := _FI_PAIR.fullmatch(line.strip()))]
    error = _FI_ERROR.search(text)
    entries: list[FabricInfo] = []
    for each in pairs:
        if each[1] == "provider":
            entries.append(FabricInfo(each[2], ""))
        elif entries and not entries[-1].domain:
            entries[-1] = FabricInfo(entries[-1].provider, each[2])
    if (not entries and error is None) or not all(each.domain for each in entries):
        raise Unparsable("fi_info", text.strip().split("\n")[0])
    return FiInfo(tuple(dict.fromkeys(entries)), error[1] if error else "")


_FM = re.compile(
    r"detected NVSwitch (non-)?fatal error (\d+) .*?pci bus id ([0-9a-fA-F:.]+)", re.IGNORECASE
)
_FM_WHEN = re.compile(r"^\[([A-Z][a-z]{2} \d\d \d{4} [\d:]{8})\]")


def fabric_manager_errors(lines: Iterable[str]) -> tuple[Trouble, ...]:
    """What the fabric manager logged of NVSwitches: the same numbers as the driver's SXids.

    It calls each an ERROR, those too that its word then says are not fatal.
    """
    told = []
    for line in lines:
        if found := _FM.search(line):
            when = _FM_WHEN.match(line)
            text = line[found.start() :].strip()
            address = normal_address(found[3])
            at = when[1] if when else ""
            told.append(Trouble(address, at, text, int(found[2]), sick=not found[1]))
    return tuple(told)


_FM_ENDS = re.compile(
    r"Successfully configured all the available (?P<up>.*NVSwitches)"
    r"|driver interface version (?P<own>[\d.]+\d) don't match with driver version "
    r"(?P<driver>[\d.]+\d)"
    r"|(?P<none>\[NV_WARN_NOTHING_TO_DO\])"
    r"|(?P<gave_up>failed to configure all the available .*NVSwitches"
    r"|fabric manager config file item: \w+ has an invalid value)"
    r"|(?P<imex_up>Identified this node as ID \d+)"
    r"|(?P<imex>No matching network interface found for any IP addresses in the node config\w*)",
)


def fabric_manager_end(text: str) -> dict[str, str]:
    """What the fabric manager said last of its start: by "up", "driver", "none" or "gave_up".

    IMEX, whose log has the same form, is "imex" where it found no address of its own.
    """
    said = [found.groupdict() for found in _FM_ENDS.finditer(text)]
    return {name: value for name, value in said[-1].items() if value} if said else {}


def cuda_not_ready(text: str) -> str:
    """The line by which a program tells of CUDA's error 802, cudaErrorSystemNotReady."""
    found = re.search(rf"^{CUDA_802}.*$", text, re.MULTILINE)
    return " ".join(found[0].split())[:160] if found else ""


# The last words of a driver's container: NVIDIA/gpu-driver-container nvidia-driver, its driver
# manager, and Mellanox/doca-driver-build entrypoint.sh and entrypoint/ (in Go).
_DRIVER_POD = re.compile(
    r"(?P<up>Done, now waiting for signal|Userspace-only install complete|Driver loaded success"
    r"|\b[Ss]etting driver ready state|driver container exec end, sleeping)"
    r"|(?P<away>Successfully uninstalled (?i:nvidia) driver components)"
    r"|(?P<ill>Could not (?:unload|stop|locate|resolve) .*|An instance of the NVIDIA driver is "
    r"already running|(?:Unable|Failed) to (?:cleanup|uninstall|unload|drain) .{0,200}?driver.*"
    r"|(?:rmmod: ERROR: )?Module \S+ is (?:used and will FAIL driver reload|in use\b).*"
    r"|Command \".{0,300}?\" failed with exit code: \d+|Error: Unable to find a match.*"
    r"|Error: Failed to download metadata.*|Storage modules are loaded .*"
    r"|not (?:set|provided), terminating"
    r"|Timeout \(\d+ sec\.\) .*|\bFailed to (?:determine|discover|inject|find|reload) .*"
    r"|(?:Entrypoint Run|DTK Build) failed.*|Failed to update the NVIDIA driver)"
)


def driver_container(text: str) -> tuple[bool | None, str]:
    """Whether a driver's container has come up, and its last words of failure.

    None where it says neither; of a failure the first since it was up last, which others follow.
    """
    ill, up = "", None
    for found in _DRIVER_POD.finditer(text):
        if found["up"] or found["away"]:  # the manager drains the node, and tries it again
            ill, up = "", True if found["up"] else None
        elif not ill:
            ill, up = found["ill"].strip(), False
    return up, ill


_PEERMEM = re.compile(
    r"\b(?:(successfully loaded|failed to load) nvidia-peermem module|(waiting for) mellanox ofed"
    r"|(Caught signal))"
)


def peermem_container(text: str) -> str:
    """What the GPU Operator's nvidia-peermem-ctr said last: "successfully loaded", "Caught signal".

    :raises Unparsable: where none of its lines is there.
    """
    found = list(_PEERMEM.finditer(text))
    if not found:
        raise Unparsable("nvidia-peermem-ctr", text.strip().split("\n")[0])
    return next(word for word in found[-1].groups() if word)
