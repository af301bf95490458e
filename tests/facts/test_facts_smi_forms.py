"""nvidia-smi's XML, its table and its NVLinks, in forms of several branches."""

from __future__ import annotations

import pytest

from toolkit.errors import Unparsable
from toolkit.facts.gpu.smi_forms import GpuLinks, parse_nvlink_status, xml_blocks
from toolkit.facts.gpu.smi_health import parse_smi_said
from toolkit.facts.gpu.smi_query import SmiReport, parse_smi_query, parse_smi_table

WIDE = """\
Tue Oct  6 23:52:23 2026
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 580.126.20             Driver Version: 580.126.20     CUDA Version: 13.0     |
+-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA H100 80GB HBM3          On  |   00000000:18:00.0 Off |                    2 |
| N/A   34C    P0             71W /  700W |       1MiB /  81559MiB |      0%      Default |
|                                         |                        |            Disabled* |
+-----------------------------------------+------------------------+----------------------+
|   1  NVIDIA H100                    Off |   00000000:BC:00.0 Off |                   On |
| N/A   26C    P0            144W /  700W |                  N/A   |     N/A      Default |
|                                         |                        |              Enabled |
+-----------------------------------------+------------------------+----------------------+

+-----------------------------------------------------------------------------------------+
| MIG devices:                                                                            |
|  1    3   0   0  |             151MiB / 40448MiB    | 60      0 |  3   0    3    0    3 |
+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|    0   N/A  N/A            4242      C   python3                                  8MiB |
+-----------------------------------------------------------------------------------------+
"""
NARROW = """\
| NVIDIA-SMI 470.57.02    Driver Version: 470.57.02    CUDA Version: 11.4     |
|   4  NVIDIA A100-SXM...  On   | 00000000:8C:00.0 Off |                    0 |
| N/A   34C    P0    60W / 400W |      0MiB / 81920MiB |      0%      Default |
|                               |                      |             Disabled |
+-------------------------------+----------------------+----------------------+
"""
ILL = """\
|   5  ERR!                On   | 00000000:91:00.0 Off |                 ERR! |
|ERR!  ERR! ERR!    ERR! / ERR! |      0MiB / 81920MiB |    ERR!      Default |
|                               |                      |                 ERR! |
"""
XML = """\
<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v11.dtd">
<nvidia_smi_log>
\t<driver_version>470.57.02</driver_version>
\t<attached_gpus>1</attached_gpus>
\t<gpu id="00000000:3B:00.0">
\t\t<product_name>Tesla V100-SXM2-16GB</product_name>
\t\t<persistence_mode>Enabled</persistence_mode>
\t\t<pci><pci_device_id>1DB110DE</pci_device_id></pci>
\t\t<clocks_throttle_reasons>
\t\t\t<clocks_throttle_reason_hw_thermal_slowdown>Active</clocks_throttle_reason_hw_thermal_slowdown>
\t\t</clocks_throttle_reasons>
\t\t<ecc_errors><volatile><double_bit><total>5</total></double_bit></volatile></ecc_errors>
\t\t<retired_pages><pending_retirement>Yes</pending_retirement></retired_pages>
\t\t<fb_memory_usage><total>16160 MiB</total></fb_memory_usage>
\t\t<bar1_memory_usage><total>16384 MiB</total></bar1_memory_usage>
\t</gpu>
</nvidia_smi_log>
"""


def addresses(report: SmiReport) -> list[str]:
    return [each.address for each in report.gpus]


def test_a_table_of_a_new_branch_with_mig_and_processes() -> None:
    report = parse_smi_table(WIDE)
    whole, split = report.gpus
    assert (report.driver, addresses(report)) == ("580.126.20", ["0000:18:00.0", "0000:bc:00.0"])
    assert (whole.name, whole.persistence, whole.memory_mib) == (
        "NVIDIA H100 80GB HBM3", "Enabled", 81559,
    )  # fmt: skip
    assert (whole.mig, whole.mig_pending, split.mig) == ("Disabled", "Enabled", "Enabled")
    assert whole.health.errors == (("Uncorrectable", "2"),)
    assert split.health.errors == ()
    assert split.persistence == "Disabled"


def test_a_table_of_an_old_branch_whose_name_is_cut() -> None:
    [gpu] = parse_smi_table(NARROW).gpus
    assert (gpu.name, gpu.bar1_mib) == ("NVIDIA A100-SXM...", 0)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(NARROW + ILL, id="no-values"),
        pytest.param("\n".join(NARROW.split("\n")[:2]), id="cut-in-a-gpu"),
        pytest.param(NARROW.replace("00000000:8C:00.0", "?"), id="no-address"),
        pytest.param(NARROW.split("\n", maxsplit=1)[0], id="no-gpu"),
    ],
)
def test_a_table_that_does_not_tell_of_each_gpu_is_refused(text: str) -> None:
    with pytest.raises(Unparsable):
        parse_smi_table(text)


def test_a_row_without_a_name_is_a_lost_gpu() -> None:
    assert parse_smi_said(NARROW + ILL).addresses == ("0000:91:00.0",)
    assert parse_smi_said(NARROW).addresses == ()


def test_the_xml_of_an_old_branch() -> None:
    [gpu] = parse_smi_query(f"$ nvidia-smi -q -x\n{XML}").gpus
    assert (gpu.address, gpu.name, gpu.device) == ("0000:3b:00.0", "Tesla V100-SXM2-16GB", 0x1DB1)
    assert (gpu.memory_mib, gpu.bar1_mib) == (16160, 16384)
    assert gpu.health.clocks == (("HW Thermal Slowdown", "Active"),)
    assert gpu.health.errors == (("Double Bit Total", "5"),)
    assert gpu.health.repairs == (("Retired Pages, Pending Page Blacklist", "Yes"),)


def test_each_tag_is_called_as_the_text_calls_it() -> None:
    """The text of the same driver, which is what the checks look for."""
    told = {
        "pci": "PCI",
        "fb_memory_usage": "FB Memory Usage",
        "cc_protected_memory_usage": "Conf Compute Protected Memory Usage",
        "mig_mode": "MIG Mode",
        "clusteruuid": "ClusterUUID",
        "current_mig": "Current",
        "pending_mig": "Pending",
        "pending_blacklist": "Pending Page Blacklist",
        "remapped_row_pending": "Pending",
        "remapped_row_failure": "Remapping Failure Occurred",
        "sram_uncorrectable_parity": "SRAM Uncorrectable Parity",
        "dram_correctable": "DRAM Correctable",
        "tpc": "TPC",
        "clocks_event_reason_sw_thermal_slowdown": "SW Thermal Slowdown",
    }
    inside = "".join(f"<{tag}>1</{tag}>" for tag in told)
    text = f'<nvidia_smi_log><gpu id="00000000:3B:00.0">{inside}</gpu></nvidia_smi_log>'
    _, [(_, found)] = xml_blocks(f"noise\n{text}")
    assert {path[0] for path in found} == {*told.values()}


@pytest.mark.parametrize("at", range(1, XML.count("\n")))
def test_xml_that_is_cut_after_any_line_is_refused(at: int) -> None:
    text = "\n".join(XML.split("\n")[:at])
    with pytest.raises(Unparsable):
        parse_smi_query(f"{text}\n<nvidia_smi_log>" if "<nvidia_smi_log" not in text else text)


def test_xml_that_names_not_every_gpu_is_refused_or_says_what_it_lacks() -> None:
    with pytest.raises(Unparsable):
        parse_smi_query(XML.replace('id="00000000:3B:00.0"', 'id="GPU-1"'))
    two = parse_smi_query(XML.replace("<attached_gpus>1", "<attached_gpus>2"))
    assert two.lacks == "1 of 2 GPUs"


def test_nvlinks_of_cards_with_bridges() -> None:
    text = (
        "      GPU 0: NVIDIA H100 PCIe (UUID: GPU-9b)\n\t Link 0: 26.562 GB/s\n"
        "\t Link 4: <inactive>\nGPU 1: NVIDIA L40S (UUID: GPU-1)\n"
        "Unable to retrieve NVLink information as all links are inActive\n"
    )
    assert parse_nvlink_status(text) == (
        GpuLinks(0, "NVIDIA H100 PCIe", (0,), (4,)),
        GpuLinks(1, "NVIDIA L40S"),
    )


@pytest.mark.parametrize("text", ["", " Link 0: 25 GB/s", "GPU 0: X (UUID: 1)\n Link 0: Unknown"])
def test_links_of_another_form_are_refused(text: str) -> None:
    with pytest.raises(Unparsable):
        parse_nvlink_status(text)
