"""The NVIDIA driver, as it runs and as nvidia-smi answers.

Sources: /proc/driver/nvidia/version and params (kernel-open/nvidia/nv-procfs.c).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct

from toolkit.errors import Unparsable
from toolkit.facts.versions import Version


class Flavor(StrEnum):
    OPEN = "open"
    PROPRIETARY = "proprietary"


class Driver(Struct, frozen=True):
    """The NVIDIA kernel driver that is loaded, or would be."""

    version: Version
    flavor: Flavor


# "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build ..."
# "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.90.07  Fri May 31 ..."
_NVRM = re.compile(r"NVRM version: NVIDIA UNIX .*?\s(\d{3,}(?:\.\d+)+)\b")


def parse_driver(text: str) -> Driver:
    """Read /proc/driver/nvidia/version.

    :raises Unparsable: where the first line names no version.
    """
    first = next((line for line in text.split("\n") if line.strip()), "")
    found = _NVRM.match(first)
    if found is None:
        raise Unparsable("/proc/driver/nvidia/version", first, 1)
    flavor = Flavor.OPEN if "Open Kernel Module" in first else Flavor.PROPRIETARY
    return Driver(Version(found[1]), flavor)


def driver_of(version: str, license_: str) -> Driver:
    """The driver that a module on disk is, which tells its flavour by its licence alone.

    :param license_: "Dual MIT/GPL" or "NVIDIA", as modinfo prints it.
    """
    return Driver(Version(version), Flavor.OPEN if "GPL" in license_ else Flavor.PROPRIETARY)


def parse_params(text: str) -> dict[str, str]:
    """Read /proc/driver/nvidia/params: ``Key: value``; strings lose their quotes.

    :raises Unparsable: at a line without a colon.
    """
    params: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line:
            continue
        key, colon, value = line.partition(":")
        if not colon:
            raise Unparsable("/proc/driver/nvidia/params", line, number)
        params[key.strip()] = value.strip().strip('"')
    return params


def option_values(options: str) -> dict[str, str]:
    """Parameters of one module's options, by the key that params would show.

    ``NVreg_EnableStreamMemOPs=1`` is shown as ``EnableStreamMemOPs``.
    """
    words = re.findall(r'(\w+)=("[^"]*"|\S+)', options)
    return {name.removeprefix("NVreg_"): value.strip('"') for name, value in words}


class GpuRow(Struct, frozen=True):
    """One GPU, as nvidia-smi lists it."""

    address: str  # "0000:19:00.0": nvidia-smi's eight-digit domain cut to four
    name: str
    driver: str
    memory_mib: int  # 0 where nvidia-smi says "[N/A]"
    persistence: str  # "Enabled" or "Disabled"
    errors: tuple[str, ...] = ()  # what stands in place of values: "[Unknown Error]", "ERR!"


_BUS_ID = re.compile(r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]")
# "81559 MiB", "[N/A]", "N/A", "[Not Supported]", "[Unknown Error]", "[GPU requires reset]"
_MEMORY = re.compile(r"([0-9]{1,9}) MiB|\[[^\]]+\]|N/A")
_ERROR = re.compile(r"Unknown Error|GPU is lost|requires reset|\bERR!?(?=\W|$)", re.IGNORECASE)


def is_error(value: str) -> bool:
    """Whether NVML failed to tell a value: the GPU does not answer as one in order does."""
    return bool(_ERROR.search(value))


def parse_gpu_rows(text: str) -> tuple[GpuRow, ...]:
    """Read the CSV that the probe asks of nvidia-smi, without header.

    :raises Unparsable: at a row of another shape: "No devices were found".
    """
    rows = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        fields = [field.strip() for field in line.split(",")]
        if len(fields) != 5 or not _BUS_ID.fullmatch(fields[0]):
            raise Unparsable("nvidia-smi --query-gpu", line, number)
        memory = _MEMORY.fullmatch(fields[3])
        if memory is None and not is_error(fields[3]):
            raise Unparsable("nvidia-smi --query-gpu", line, number)
        mib = int(memory[1] or 0) if memory else 0
        address = normal_address(fields[0])
        wrong = tuple(field for field in fields[1:] if is_error(field))
        rows.append(GpuRow(address, fields[1], fields[2], mib, fields[4], wrong))
    return tuple(rows)


_MISMATCH = re.compile(
    r"Driver/library version mismatch\s*\nNVML library version: (\d+(?:\.\d+)*)\s*(?:\n|\Z)"
)
# Of one sentence the kernel log has four lines, each with its time.
_API_MISMATCH = re.compile(
    r"NVRM: API mismatch: the client has (?:the )?version (?P<client>\d[\d.]*\d),? but"
    r"\W.*?this kernel module has (?:the )?version (?P<module>\d[\d.]*\d)",
    re.DOTALL,
)
_LOADING = "NVRM: loading NVIDIA UNIX"


def parse_nvml_mismatch(text: str) -> str:
    """The version of the libraries, where nvidia-smi fails since the driver has another one.

    :returns: "580.126" (it tells no third number); "" for any other failure.
    """
    found = _MISMATCH.search(text)
    return found[1] if found else ""


def parse_api_mismatch(lines: Sequence[str]) -> str:
    """What the driver logged last of a client of another version; "" where it was loaded since.

    Source: NVIDIA/open-gpu-kernel-modules, nvidia/nv.c, NV_ESC_CHECK_VERSION_STR.
    """
    text = "\n".join(lines)
    found = list(_API_MISMATCH.finditer(text))
    if not found or text.rfind(_LOADING) > found[-1].start():
        return ""
    last = found[-1]
    return f"API mismatch: user space has {last['client']}, the loaded driver is {last['module']}"


# One sentence over several lines of the log, as issues of NVIDIA/open-gpu-kernel-modules have it.
_UNSUPPORTED = re.compile(
    r"NVRM: The NVIDIA GPU.{0,20}?(?P<address>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])"
    r".{0,120}?is not supported by (?P<by>open|the)\b",
    re.DOTALL | re.IGNORECASE,
)


def parse_unsupported(lines: Sequence[str]) -> dict[str, bool]:
    """GPUs that the driver said it does not drive, and whether its open modules said so."""
    found = _UNSUPPORTED.finditer("\n".join(lines))
    return {normal_address(each["address"]): each["by"].lower() == "open" for each in found}


def normal_address(address: str) -> str:
    """ "00000000:19:00.0" as sysfs writes it: "0000:19:00.0"; larger domains keep their digits."""
    domain, _, rest = address.lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}" if re.fullmatch(r"[0-9a-f]+", domain) else address
