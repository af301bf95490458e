"""The NVIDIA driver's own files, and nvidia-smi in its moods."""

from __future__ import annotations

import pytest

from toolkit.errors import Unparsable
from toolkit.facts.gpu.driver import (
    Driver,
    Flavor,
    GpuRow,
    normal_address,
    option_values,
    parse_driver,
    parse_gpu_rows,
    parse_nvml_mismatch,
    parse_params,
)
from toolkit.facts.versions import Version

OPEN, PROPRIETARY = Flavor


@pytest.mark.parametrize(
    ("line", "version", "flavor"),
    [
        pytest.param(
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build  "
            "(dvs-builder@U22-I3-AE18-23-3)  Thu Jan 16 03:33:11 UTC 2025",
            "570.86.15",
            OPEN,
            id="open",
        ),
        pytest.param(
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.161.08  Wed Jan 31 2024",
            "535.161.08",
            PROPRIETARY,
            id="proprietary",
        ),
        pytest.param(
            "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.95.05  Release Build",
            "580.95.05",
            OPEN,
            id="open-arm64",
        ),
        pytest.param(
            "NVRM version: NVIDIA UNIX aarch64 Kernel Module  550.90.07  Fri May 31 2024",
            "550.90.07",
            PROPRIETARY,
            id="proprietary-arm64",
        ),
        pytest.param(
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  390.157  Wed Oct 12 2022",
            "390.157",
            PROPRIETARY,
            id="two-numbers",
        ),
    ],
)
def test_the_loaded_driver(line: str, version: str, flavor: Flavor) -> None:
    assert parse_driver(f"{line}\nGCC version:  gcc version 12.3.0\n") == Driver(
        Version(version), flavor
    )


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("GCC version:  gcc version 12.3.0\n", id="second-line-only"),
        pytest.param("NVRM version: NVIDIA UNIX Kernel Module\n", id="no-version"),
    ],
)
def test_a_driver_without_version_is_refused(text: str) -> None:
    with pytest.raises(Unparsable, match=r"/proc/driver/nvidia/version: cannot read line 1"):
        parse_driver(text)


def test_parameters_lose_their_quotes_and_nothing_else() -> None:
    text = 'EnableMSI: 1\nRegistryDwords: "PeerMappingOverride=1;A=2;"\nRmMsg: ""\n'
    assert parse_params(text) == {
        "EnableMSI": "1",
        "RegistryDwords": "PeerMappingOverride=1;A=2;",
        "RmMsg": "",
    }


def test_a_parameter_without_colon_is_refused() -> None:
    with pytest.raises(Unparsable, match="cannot read line 2"):
        parse_params("EnableMSI: 1\nnonsense\n")


@pytest.mark.parametrize(
    ("options", "values"),
    [
        pytest.param(
            'NVreg_EnableStreamMemOPs=1 NVreg_RegistryDwords="PeerMappingOverride=1;"',
            {"EnableStreamMemOPs": "1", "RegistryDwords": "PeerMappingOverride=1;"},
            id="quoted",
        ),
        pytest.param(
            "NVreg_RegistryDwords=PeerMappingOverride=1;",
            {"RegistryDwords": "PeerMappingOverride=1;"},
            id="equal-sign-in-the-value",
        ),
        pytest.param(
            "NVreg_DeviceFileMode=0660 modeset=1",
            {"DeviceFileMode": "0660", "modeset": "1"},
            id="octal",
        ),
        pytest.param("", {}, id="none"),
    ],
)
def test_options_of_modprobe(options: str, values: dict[str, str]) -> None:
    assert option_values(options) == values


@pytest.mark.parametrize(
    ("memory", "mib"),
    [
        pytest.param("81559 MiB", 81559, id="told"),
        pytest.param("[N/A]", 0, id="unified-memory"),
        pytest.param("N/A", 0, id="unified-memory-newer"),
        pytest.param("[Not Supported]", 0, id="not-supported"),
        pytest.param("[Unknown Error]", 0, id="unknown-error"),
        pytest.param("[GPU requires reset]", 0, id="requires-reset"),
        pytest.param("ERR!", 0, id="error"),
    ],
)
def test_a_row_of_nvidia_smi(memory: str, mib: int) -> None:
    text = f"00000000:1B:00.0, NVIDIA H100 80GB HBM3, 535.161.08, {memory}, Enabled\n"
    wrong = (memory,) if memory in {"[Unknown Error]", "[GPU requires reset]", "ERR!"} else ()
    row = GpuRow("0000:1b:00.0", "NVIDIA H100 80GB HBM3", "535.161.08", mib, "Enabled", wrong)
    assert parse_gpu_rows(text) == (row,)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("No devices were found", id="no-devices"),
        pytest.param(
            "Unable to determine the device handle for GPU0000:1B:00.0: Unknown Error",
            id="gpu-fell-off-the-bus",
        ),
        pytest.param("Failed to initialize NVML: Driver/library version mismatch", id="mismatch"),
        pytest.param("pci.bus_id, name, driver_version, memory.total [MiB], mode", id="header"),
        pytest.param("00000000:1B:00.0, H100, 535.161.08, 80 GiB, Enabled", id="other-unit"),
        pytest.param("00000000:1B:00.0, H100, 535.161.08, 81559, Enabled", id="no-unit"),
        pytest.param("GPU-1, H100, 535.161.08, 81559 MiB, Enabled", id="no-bus-id"),
        pytest.param("00000000:1B:00.0, H100, 535.161.08, 81559 MiB", id="a-field-short"),
    ],
)
def test_another_row_is_refused(line: str) -> None:
    with pytest.raises(Unparsable, match=r"nvidia-smi --query-gpu: cannot read line 1"):
        parse_gpu_rows(line + "\n")


def test_no_row_is_no_gpu() -> None:
    assert parse_gpu_rows("") == ()


@pytest.mark.parametrize(
    ("text", "version"),
    [
        pytest.param(
            "Failed to initialize NVML: Driver/library version mismatch\n"
            "NVML library version: 580.126\n",
            "580.126",
            id="since-535",
        ),
        pytest.param(
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n",
            "",
            id="no-driver",
        ),
        pytest.param("Failed to initialize NVML: Unknown Error\n", "", id="another-failure"),
    ],
)
def test_the_library_that_does_not_fit_the_driver(text: str, version: str) -> None:
    assert parse_nvml_mismatch(text) == version


@pytest.mark.parametrize(
    ("written", "sysfs"),
    [
        pytest.param("00000000:19:00.0", "0000:19:00.0", id="nvidia-smi"),
        pytest.param("00000000:D8:00.0", "0000:d8:00.0", id="capitals"),
        pytest.param("0000000F:01:00.0", "000f:01:00.0", id="gb10"),
        pytest.param("00010000:E1:00.0", "10000:e1:00.0", id="vmd-domain"),
        pytest.param("0009:01:00.0", "0009:01:00.0", id="grace"),
    ],
)
def test_an_address_as_sysfs_writes_it(written: str, sysfs: str) -> None:
    assert normal_address(written) == sysfs
