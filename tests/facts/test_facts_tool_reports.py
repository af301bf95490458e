"""Reports of tools that judge for themselves, and logs of services."""

from __future__ import annotations

import pytest

from toolkit.errors import Unparsable
from toolkit.facts.reading import lost_its_end
from toolkit.facts.text.tool_reports import (
    FabricInfo,
    fabric_manager_errors,
    parse_dcgmi_diag,
    parse_fi_info,
    parse_rdma_topo,
    peermem_container,
)

UPSTREAM = (
    "OK\tAll ConnectX DMA functions have correct PCI topology\n"
    "OK\tACS for grace_rp 0009:00:00.0 has correct values 0011100 = xx111x0\n"
    "OK\tACS for cx_switch 0009:02:00.0 has correct values 0011001 = xx110x1\n"
    "OK\tKernel iommu_group for DMA 0009:03:00.0 and GPU 0009:06:00.0 are both 12\n"
)


def test_rdma_topo_of_rdma_core() -> None:
    told = parse_rdma_topo(UPSTREAM)
    assert (len(told.right), told.wrong, told.whole) == (4, (), True)


@pytest.mark.parametrize("at", [1, 2, 3])
def test_rdma_topo_that_is_cut_is_not_whole(at: int) -> None:
    assert not parse_rdma_topo("\n".join(UPSTREAM.split("\n")[:at])).whole


def test_rdma_topo_stops_at_its_first_failure() -> None:
    told = parse_rdma_topo(
        "OK\tx\nFAIL\tACS for cx_switch 0009:02:00.0 has incorrect values 0011101 != xx110x1, "
        "(0x1d != 0x19)\n"
    )
    assert len(told.wrong) == 1


@pytest.mark.parametrize("text", ["", "E: The current platform is not supported\n", "hello\n"])
def test_rdma_topo_that_checked_nothing_is_refused(text: str) -> None:
    with pytest.raises(Unparsable):
        parse_rdma_topo(text)


DCGM4 = """\
Successfully ran diagnostic for group.
+---------------------------+------------------------------------------------+
| Diagnostic                | Result                                         |
+===========================+================================================+
|-----  Metadata  ----------+------------------------------------------------|
| DCGM Version              | 4.2.3                                          |
+-----  Integration  -------+------------------------------------------------+
| pcie                      | Fail                                           |
|                           | GPU0: Pass                                     |
|                           | GPU1: Fail                                     |
| Warning: GPU1             | GPU 1 Error using CUDA API                     |
+-----  Hardware  ----------+------------------------------------------------+
| memory                    | Skip                                           |
|                           | GPU0: Skip                                     |
+---------------------------+------------------------------------------------+
"""


def test_dcgmi_diag_of_dcgm_4() -> None:
    pcie, memory = parse_dcgmi_diag(DCGM4)
    assert (pcie.name, pcie.result, memory.result) == ("pcie", "Fail", "Skip")
    assert "GPU1: Fail" in pcie.rest
    with pytest.raises(Unparsable):
        parse_dcgmi_diag("Error: unable to establish a connection to the host engine\n")


@pytest.mark.parametrize("at", range(4, DCGM4.count("\n")))
def test_a_diag_that_is_cut_has_lost_its_end(at: int) -> None:
    assert lost_its_end("dcgmi-diag", "\n".join(DCGM4.split("\n")[:at]) + "\n")
    assert not lost_its_end("dcgmi-diag", DCGM4)


EFA = (
    "provider: efa\n    fabric: EFA-fe80::94:3dff:fe89:1b70\n    domain: rdmap0s6-rdm\n"
    "    version: 111.20\n    type: FI_EP_RDM\n    protocol: FI_PROTO_EFA\n"
)


def test_fi_info_lists_an_adapter_twice_and_counts_it_once() -> None:
    assert parse_fi_info(EFA + EFA).entries == (FabricInfo("efa", "rdmap0s6-rdm"),)
    assert parse_fi_info("fi_getinfo: -61\n").error == "fi_getinfo: -61"
    layered = parse_fi_info("provider: tcp;ofi_rxm\n    fabric: 10.0.0.0/8\n    domain: eth0\n")
    assert layered.entries == (FabricInfo("tcp;ofi_rxm", "eth0"),)


@pytest.mark.parametrize("text", ["", "provider: efa\n    fabric: EFA-fe80\n"])
def test_fi_info_that_is_cut_is_refused(text: str) -> None:
    with pytest.raises(Unparsable):
        parse_fi_info(text)


def test_the_fabric_manager_calls_every_line_an_error() -> None:
    told = fabric_manager_errors(
        [
            "[Mar 03 2025 18:39:57] [ERROR] [tid 9] detected NVSwitch non-fatal error 22013 on "
            "NodeId 0 on NVSwitch pci bus id 00000000:08:00.0 physical id 3 port 60",
            "Mar 03 18:39:57 h nv-fabricmanager[5183]: detected NVSwitch fatal error 20034 on fid "
            "0 on NVSwitch pci bus id 00000000:86:00.0 physical id 3 port 33",
            "[Mar 03 2025 18:39:57] [INFO] [tid 9] multicast group 1 is allocated.",
        ]
    )
    assert [(each.address, each.number, each.sick) for each in told] == [
        ("0000:08:00.0", 22013, False),
        ("0000:86:00.0", 20034, True),
    ]


@pytest.mark.parametrize(
    ("last", "said"),
    [
        (
            "successfully loaded nvidia-peermem module, now waiting for signal",
            "successfully loaded",
        ),
        ("failed to load nvidia-peermem module", "failed to load"),
        ("waiting for mellanox ofed and nvidia drivers to be installed", "waiting for"),
        ("Caught signal", "Caught signal"),
    ],
)
def test_the_container_is_judged_by_what_it_said_last(last: str, said: str) -> None:
    first = "waiting for mellanox ofed and nvidia drivers to be installed\n"
    assert peermem_container(f"{first}{last}\n") == said
    with pytest.raises(Unparsable):
        peermem_container("+ lsmod\n")
