"""/sys/class/infiniband, on machines whose devices bear all kinds of names."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.evidence.build import DOWN, INFINIBAND, INIT, UP, hca_lines
from toolkit.errors import Unparsable
from toolkit.facts.rdma.devices import Kind, Ofed, OfedFlavour, Port, RdmaDevice, parse_infiniband
from toolkit.facts.rdma.rdma_lists import parse_rdma_link
from toolkit.facts.versions import Version


def test_a_device_with_its_port() -> None:
    text = (
        "rocep145s0/fw_ver:28.43.2026\nrocep145s0/hca_type:MT4129\n"
        "rocep145s0/board_id:DEL0000000036\nrocep145s0/node_type:1: CA\n"
        "rocep145s0/ports/1/state:4: ACTIVE\nrocep145s0/ports/1/phys_state:5: LinkUp\n"
        "rocep145s0/ports/1/rate:400 Gb/sec (4X NDR)\nrocep145s0/ports/1/link_layer:Ethernet\n"
        "rocep145s0/device:0000:91:00.0\nrocep145s0/net:ens1np0\nrocep145s0/net:ens1np1\n"
    )
    port = Port(1, "ACTIVE", "LinkUp", "400 Gb/sec (4X NDR)", "Ethernet")
    device = RdmaDevice(
        "rocep145s0",
        "0000:91:00.0",
        "28.43.2026",
        "DEL0000000036",
        ("ens1np0", "ens1np1"),
        (port,),
        "MT4129",
    )
    assert parse_infiniband(text) == (device,)
    assert port.up


@pytest.mark.parametrize(
    ("port", "up"),
    [
        pytest.param(UP, True, id="up"),
        pytest.param(DOWN, False, id="no-cable"),
        pytest.param(INIT, False, id="no-subnet-manager"),
        pytest.param(("1: DOWN", "3: Disabled"), False, id="disabled"),
        pytest.param(("4: ACTIVE", "6: LinkErrorRecovery"), False, id="recovering"),
    ],
)
def test_a_port_is_up_only_when_both_states_say_so(port: tuple[str, str], up: bool) -> None:
    (device,) = parse_infiniband(hca_lines("mlx5_0", "0000:19:00.0", port))
    assert device.ports[0].up is up


def test_devices_come_in_natural_order() -> None:
    names = ["mlx5_10", "mlx5_2", "mlx5_1", "ibp198s0f0", "mlx5_bond_0", "mlx5_\u00b2"]
    text = "".join(f"{name}/fw_ver:1\n" for name in names)
    assert [each.name for each in parse_infiniband(text)] == [
        "ibp198s0f0",
        "mlx5_1",
        "mlx5_2",
        "mlx5_10",
        "mlx5_bond_0",
        "mlx5_\u00b2",
    ]


def test_a_software_device_has_no_address() -> None:
    (device,) = parse_infiniband("rxe0/node_guid:505:5600:fe00\nrxe0/ports/1/state:4: ACTIVE\n")
    assert device.address == ""


def test_a_device_of_virtio_has_no_pci_address() -> None:
    (device,) = parse_infiniband("erdma_0/fw_ver:1\nerdma_0/device:virtio3\n")
    assert device.address == ""


def test_ports_come_in_their_order() -> None:
    assert [port.number for each in parse_infiniband(INFINIBAND) for port in each.ports] == [
        1,
        1,
        1,
        2,
    ]


def test_no_device_prints_nothing() -> None:
    assert parse_infiniband("") == ()


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("mlx5_0:1", id="no-attribute"),
        pytest.param("mlx5_0/ports/one/state:4: ACTIVE", id="port-is-no-number"),
        pytest.param("mlx5_0/ports/state:4: ACTIVE", id="no-port"),
        pytest.param("mlx5_0", id="no-colon"),
        pytest.param("mlx5_0/ports/\u0661/state:4: ACTIVE", id="digit-of-another-script"),
    ],
)
def test_another_form_is_refused(line: str) -> None:
    with pytest.raises(Unparsable, match="/sys/class/infiniband"):
        parse_infiniband(line + "\n")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("rocep1s0f0", Kind.HCA),
        ("roceP2p1s0f1", Kind.HCA),
        ("ibp59s0", Kind.HCA),
        ("roces3f1", Kind.HCA),
        ("roceo1", Kind.HCA),
        ("rxe0", Kind.SOFTWARE),
        ("rocex0a1b2cfffe3d4e5f", Kind.SOFTWARE),  # by its GUID, as Soft-RoCE may be named too
        ("rdmap16s27", Kind.EFA),
        ("rdmap16s27v0", Kind.SOFTWARE),
        ("efa_0", Kind.EFA),
        ("siw0", Kind.SOFTWARE),
        ("hfi1_0", Kind.OMNI_PATH),
        ("qib0", Kind.OMNI_PATH),
        ("iwp1s0", Kind.HCA),
        ("roceo1x", Kind.SOFTWARE),
        ("mlx5_bond_0", Kind.HCA),
        ("bnxt_re0", Kind.HCA),
        ("irdma1", Kind.HCA),
        ("ionic_0", Kind.HCA),
        ("mana_0", Kind.HCA),
        ("bnxt_re_soft", Kind.SOFTWARE),
        ("anything", Kind.SOFTWARE),
    ],
)
def test_a_name_by_the_place_on_the_bus_or_by_its_driver_is_hardware(name: str, kind: Kind) -> None:
    assert RdmaDevice(name, "", "", "", (), ()).kind is kind


BARE = RdmaDevice("renamed", "", "", "", (), ())


@pytest.mark.parametrize(
    "told",
    [
        replace(BARE, address="x"),
        replace(BARE, firmware="x"),
        replace(BARE, board="x"),
        replace(BARE, type="x"),
    ],
)
def test_what_hardware_says_of_itself_makes_an_hca_of_any_name(told: RdmaDevice) -> None:
    assert (BARE.kind, told.kind) == (Kind.SOFTWARE, Kind.HCA)
    assert replace(told, name="rxe0").kind is Kind.SOFTWARE


def test_the_kinds_are_called_by_their_names() -> None:
    assert [str(kind) for kind in Kind] == ["HCA", "software", "Omni-Path", "EFA"]


@pytest.mark.parametrize(
    ("rate", "state", "gbits"),
    [
        ("400 Gb/sec (4X NDR)", "ACTIVE", 400.0),
        ("2.5 Gb/sec (1X SDR)", "ACTIVE", 2.5),
        ("12.125 Gb/sec", "ACTIVE", 12.125),
        ("400 Gb/sec (4X NDR)", "DOWN", 0.0),
        ("400 Mb/sec", "ACTIVE", 0.0),
        ("about 400 Gb/sec", "ACTIVE", 0.0),
        ("", "ACTIVE", 0.0),
    ],
)
def test_a_rate_counts_where_the_port_is_up(rate: str, state: str, gbits: float) -> None:
    assert Port(1, state, "LinkUp", rate, "InfiniBand").gbits == gbits


@pytest.mark.parametrize(
    ("ofed", "said"),
    [
        (Ofed(OfedFlavour.INBOX), "inbox"),
        (Ofed(OfedFlavour.MLNX_OFED, Version("24.10-0.7.0")), "mlnx-ofed 24.10-0.7.0"),
        (
            Ofed(OfedFlavour.DOCA_OFED, Version("25.04-0.6.1"), "container"),
            "doca-ofed 25.04-0.6.1 (container)",
        ),
        (Ofed(OfedFlavour.INBOX, packaging="prebuilt"), "inbox (prebuilt)"),
    ],
)
def test_a_stack_is_told_with_its_release_and_its_packaging(ofed: Ofed, said: str) -> None:
    assert str(ofed) == said


@pytest.mark.parametrize(
    ("word", "state"),
    [
        *(("NOP", "<unknown>"), ("SLEEP", "Sleep"), ("POLLING", "Polling")),
        *(("DISABLED", "Disabled"), ("ARMED", "PortConfigurationTraining"), ("LINK_UP", "LinkUp")),
        *(("LINK_ERROR_RECOVER", "LinkErrorRecovery"), ("PHY_TEST", "Phy Test")),
        *(("OPA_OFFLINE", "Offline"), ("OPA_TEST", "Test")),
    ],
)
def test_rdma_link_tells_the_physical_state_as_sysfs_does(word: str, state: str) -> None:
    (device,) = parse_rdma_link(f"link mlx5_0/1 state DOWN physical_state {word} netdev a\n")
    assert device.ports[0].phys_state == state


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *((name, Kind.SOFTWARE) for name in ("rxe0", "siw0", "anything")),
        *((name, Kind.OMNI_PATH) for name in ("hfi1_0", "qib0")),
        *((name, Kind.EFA) for name in ("efa_0", "rdmap16s27")),
        *((name, Kind.HCA) for name in ("ibp25s0", "rocep25s0f1", "iws3", "ibo1", "mlx5_0")),
        *((name, Kind.HCA) for name in ("bnxt_re0", "irdma0", "i40iw0", "ionic_0", "mana_0")),
        *((name, Kind.HCA) for name in ("hns_0", "erdma_0", "cxgb4_0", "qedr0", "mthca0")),
        ("vmw_pvrdma0", Kind.HCA),
    ],
)
def test_a_device_of_which_nothing_else_is_told_is_known_by_its_name(name: str, kind: Kind) -> None:
    assert RdmaDevice(name, "", "", "", ()).kind is kind
