"""What tools say of RDMA devices and GPUs, and what /proc and /sys say of the rest."""

from __future__ import annotations

from ipaddress import IPv6Address

import pytest
from msgspec.structs import replace

from tests.evidence.healthy_fabric import devinfo, smi_q
from toolkit.errors import Unparsable
from toolkit.facts.gpu.smi_health import SmiHealth
from toolkit.facts.gpu.smi_query import SmiGpu, SmiReport, parse_smi_csv, parse_smi_query
from toolkit.facts.nccl.containers import Daemon, parse_daemons
from toolkit.facts.rdma.devices import Kind, Port, RdmaDevice
from toolkit.facts.rdma.ibstat import parse_ibdev2netdev, parse_ibstat, parse_ibv_devinfo
from toolkit.facts.rdma.roce import (
    Ecn,
    Gid,
    NetDevice,
    Qos,
    parse_ecn,
    parse_gids,
    parse_mlnx_qos,
    parse_net_devices,
)

IBSTAT = """\
$ ibstat
CA 'mlx5_10'
\tCA type: MT4129
\tNumber of ports: 1
\tFirmware version: 28.39.1002
\tNode GUID: 0x0000000000000001
\tPort 1:
\t\tState: Active
\t\tPhysical state: LinkUp
\t\tRate: 400
\t\tBase lid: 75
\t\tLink layer: InfiniBand
CA 'mlx5_2'
\tCA type: MT4125
\tNumber of ports: 1
\tPort 1:
\t\tState: Down
\t\tPhysical state: Polling
\t\tRate: 40 (FDR10)
\t\tLink layer: Ethernet
ibpanic: [1234] main: stat of IB device 'mlx5_11' failed: Invalid argument
"""


def test_ibstat_with_a_prompt_before_and_a_panic_behind() -> None:
    up = Port(1, "ACTIVE", "LinkUp", "400 Gb/sec", "InfiniBand")
    down = Port(1, "DOWN", "Polling", "40 Gb/sec", "Ethernet")
    assert parse_ibstat(IBSTAT) == (
        RdmaDevice("mlx5_10", "", "28.39.1002", "", (), (up,), "MT4129", guids=(1, 0)),
        RdmaDevice("mlx5_2", "", "", "", (), (down,), "MT4125"),
    )
    assert (up.gbits, down.gbits) == (400, 0)  # a dead port's rate says nothing


@pytest.mark.parametrize(
    ("word", "state"),
    [("Initializing", "INIT"), ("Armed", "ARMED"), ("Active", "ACTIVE"), ("Down", "DOWN")],
)
def test_states_are_called_as_sysfs_calls_them(word: str, state: str) -> None:
    (device,) = parse_ibstat(f"CA 'a'\nPort 1:\nState: {word}\nPhysical state: LinkUp\n")
    assert device.ports[0].state == state


@pytest.mark.parametrize(
    "text", ["", "bash: ibstat: command not found\n", "CA 'a'\nPort 1:\nState: Excited\n"]
)
def test_what_is_no_ibstat_is_refused(text: str) -> None:
    with pytest.raises(Unparsable, match="ibstat"):
        parse_ibstat(text)


def test_ibv_devinfo() -> None:
    first, second = parse_ibv_devinfo(
        devinfo(("mlx5_0", "PORT_ACTIVE")) + devinfo(("mlx5_1", "PORT_DOWN"), mtu=1024)
    )
    up = Port(1, "ACTIVE", "LinkUp", "", "InfiniBand", 4096)
    assert first == RdmaDevice("mlx5_0", "", "28.43.2026", "MT_0000000838", (), (up,), "MT4129")
    assert (second.ports[0].up, second.ports[0].active_mtu) == (False, 1024)


@pytest.mark.parametrize(
    ("word", "state"),
    [
        ("SLEEP (1)", "Sleep"),
        ("POLLING (2)", "Polling"),
        ("DISABLED (3)", "Disabled"),
        ("LINK_UP (5)", "LinkUp"),
        ("PHY TEST (7)", "PHY"),
    ],
)
def test_ibv_devinfo_tells_the_physical_state_where_it_is_verbose(word: str, state: str) -> None:
    text = f"hca_id:\tmlx4_0\n\tport:\t1\n\t\tstate:\tPORT_DOWN (1)\n\t\tphys_state:\t{word}\n"
    (device,) = parse_ibv_devinfo(text)
    assert (device.ports[0].state, device.ports[0].phys_state) == ("DOWN", state)


@pytest.mark.parametrize("state", ["ACTIVE", "DOWN", "INIT", "ARMED", "NOP"])
def test_ibv_devinfo_tells_the_states_that_sysfs_tells(state: str) -> None:
    (device,) = parse_ibv_devinfo(f"hca_id:\tmlx5_0\n\tport:\t1\n\t\tstate:\tPORT_{state} (4)\n")
    assert device.ports[0].state == state


def test_no_device_is_an_answer_of_ibv_devinfo_and_noise_is_none() -> None:
    assert parse_ibv_devinfo("No IB devices found\n") == ()
    with pytest.raises(Unparsable, match="ibv_devinfo"):
        parse_ibv_devinfo("Failed to get IB devices list\n")


def test_ibdev2netdev_knows_that_a_port_is_up_and_not_that_it_is_down() -> None:
    text = "user@node:~$ ibdev2netdev\nmlx5_0 port 1 ==> ib0 (Up)\nmlx5_1 port 1 ==> ens1 (Down)\n"
    first, second = parse_ibdev2netdev(text)
    assert (first.name, first.netdevs, first.ports[0].up) == ("mlx5_0", ("ib0",), True)
    assert (second.ports[0].state, second.ports[0].up) == ("", False)
    with pytest.raises(Unparsable, match="ibdev2netdev"):
        parse_ibdev2netdev("mlx5_0 ib0\n")


@pytest.mark.parametrize(
    ("device", "kind"),
    [
        pytest.param(RdmaDevice("mlx5_0", "", "", "", ()), Kind.HCA, id="mlx5"),
        pytest.param(RdmaDevice("rocep1s0", "0000:01:00.0", "", "", ()), Kind.HCA, id="renamed"),
        pytest.param(RdmaDevice("rxe0", "0000:01:00.0", "", "", ()), Kind.SOFTWARE, id="rxe"),
        pytest.param(RdmaDevice("siw_eth0", "", "", "", ()), Kind.SOFTWARE, id="siw"),
        pytest.param(RdmaDevice("soft", "", "", "", ()), Kind.SOFTWARE, id="nothing-behind-it"),
        pytest.param(RdmaDevice("hfi1_0", "0000:01:00.0", "1", "", ()), Kind.OMNI_PATH, id="opa"),
        pytest.param(RdmaDevice("rdmap16s27", "", "", "", ()), Kind.EFA, id="efa"),
    ],
)
def test_a_device_is_known_by_its_name_else_by_what_is_behind_it(
    device: RdmaDevice, kind: Kind
) -> None:
    assert device.kind is kind


FIRST = SmiGpu(
    "0000:18:00.0",
    "NVIDIA H100 80GB HBM3",
    "NVIDIA",
    0x2330,
    "Enabled",
    "Disabled",
    "Disabled",
    "None",
    81559,
    131072,
    "Completed",
    "Success",
    (("Summary", "Healthy"),),
    "00000000-0000-0000-0000-000000000000",
)


def test_nvidia_smi_q() -> None:
    report = parse_smi_query(smi_q(health=(("Summary", "Healthy"), ("Bandwidth", "N/A"))))
    assert report.driver == "580.126.16"
    assert replace(report.gpus[0], health=SmiHealth()) == FIRST
    assert [each.address for each in report.gpus] == ["0000:18:00.0", "0000:9a:00.0"]
    assert not report.gpus[0].in_cluster


def test_the_memory_of_an_instance_is_not_that_of_its_gpu() -> None:
    text = (
        "Driver Version : 535.1\nAttached GPUs : 1\nGPU 0000000F:01:00.0\n"
        "    MIG Mode\n        Current : Enabled\n        Pending : Enabled\n"
        "    MIG Device\n        Index : 0\n        FB Memory Usage\n            Total : 9856 MiB\n"
        "        Shared BAR1\n            BAR1 Memory Usage\n                Total : 65536 MiB\n"
        "    FB Memory Usage\n        Total : 81920 MiB\n"
        "    BAR1 Memory Usage\n        Total : 131072 MiB\n"
    )
    (gpu,) = parse_smi_query(text).gpus
    assert (gpu.address, gpu.memory_mib, gpu.bar1_mib) == ("000f:01:00.0", 81920, 131072)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("NVIDIA-SMI has failed\n", id="failed"),
        pytest.param("Driver Version : 535.1\nAttached GPUs : 0\n", id="no-gpu"),
    ],
)
def test_an_answer_without_a_gpu_is_refused(text: str) -> None:
    with pytest.raises(Unparsable, match="nvidia-smi -q"):
        parse_smi_query(text)


def test_of_a_cut_answer_the_gpus_shown_count_and_what_it_lacks_is_said() -> None:
    report = parse_smi_query(smi_q().split("GPU 00000000:9A")[0])
    assert ([each.address for each in report.gpus], report.lacks) == (
        ["0000:18:00.0"],
        "1 of 2 GPUs",
    )


def test_sections_without_a_gpu_are_one_gpu_s_until_one_comes_again() -> None:
    rows = "    Remapped Rows\n        Pending : {}\n--\n"
    report = parse_smi_query(rows.format("No") + rows.format("Yes"))
    assert [dict(each.health.repairs) for each in report.gpus] == [
        {"Remapped Rows, Pending": "No"},
        {"Remapped Rows, Pending": "Yes"},
    ]
    assert report.lacks


@pytest.mark.parametrize(
    ("state", "use", "now", "slow"),
    [
        pytest.param("P0", "97 %", "8x", "x8 of x16", id="half-a-slot"),
        pytest.param("P0", "97 %", "16x", "PCIe 3 of PCIe 5", id="an-older-generation"),
        pytest.param("P8", "0 %", "8x", "", id="idle"),
        pytest.param("P0", "N/A", "8x", "", id="nobody-says-that-it-works"),
    ],
)
def test_the_link_of_a_gpu_at_work_is_told_by_nvidia_smi(
    state: str, use: str, now: str, slow: str
) -> None:
    text = (
        "Driver Version : 550.1\nAttached GPUs : 1\nGPU 00000000:3B:00.0\n    PCI\n"
        "        GPU Link Info\n            PCIe Generation\n                Max : 5\n"
        "                Current : 3\n            Link Width\n                Max : 16x\n"
        f"                Current : {now}\n    Performance State : {state}\n"
        f"    Utilization\n        Gpu : {use}\n"
    )
    assert parse_smi_query(text).gpus[0].link == slow


CSV = (
    "$ nvidia-smi --query-gpu=name,driver_version,pci.bus_id,memory.total --format=csv\n"
    "name, driver_version, pci.bus_id, memory.total [MiB], fabric.state\n"
    "NVIDIA H200, 590.48.01, 00000000:83:00.0, 143771 MiB, N/A\n"
)


def test_csv_with_units_and_a_prompt() -> None:
    gpu = SmiGpu("0000:83:00.0", "NVIDIA H200", memory_mib=143771)
    assert parse_smi_csv(CSV) == SmiReport("590.48.01", (gpu,))


FIELDS = {
    "name": "NVIDIA H200", "pci.bus_id": "00000000:83:00.0", "pci.device_id": "0x233510DE",
    "persistence_mode": "Enabled", "mig.mode.current": "Disabled", "mig.mode.pending": "Enabled",
    "memory.total": "143771 MiB", "fabric.state": "Completed", "fabric.status": "Success",
    "fabric.health.summary": "Healthy", "fabric.health.bandwidth": "Full",
    "fabric.health.route_unhealthy": "False",
    "fabric.health.incorrect_configuration": "None", "fabric.clusterUuid": "aa-bb",
}  # fmt: skip


def test_csv_with_every_field_that_counts() -> None:
    names = ("summary", "bandwidth", "route_unhealthy", "incorrect_configuration")
    whole = SmiGpu(
        "0000:83:00.0", "NVIDIA H200", "", 0x2335, "Enabled", "Disabled", "Enabled", "", 143771, 0,
        "Completed", "Success",
        tuple((name, FIELDS[f"fabric.health.{name}"]) for name in names), "aa-bb",
    )  # fmt: skip

    def read(fields: dict[str, str]) -> SmiGpu:
        (gpu,) = parse_smi_csv(f"{', '.join(fields)}\n{', '.join(fields.values())}\n").gpus
        return gpu

    assert read(FIELDS) == whole
    for nothing in ("N/A", "[N/A]", "[Not Supported]"):
        kept = {key: FIELDS[key] for key in ("name", "pci.bus_id")}
        told = read({**dict.fromkeys(FIELDS, nothing), **kept})
        assert replace(told, fabric_status="") == read(kept)  # "N/A" there is a word of its own


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("index, utilization.gpu [%]\n0, 3 %\n", id="without-name"),
        pytest.param("name, pci.bus_id\n", id="header-alone"),
        pytest.param("name, pci.bus_id\nNVIDIA H200\n", id="short-row"),
        pytest.param("name, pci.bus_id\nNVIDIA H200, nonsense\n", id="no-address"),
    ],
)
def test_another_csv_is_refused(text: str) -> None:
    with pytest.raises(Unparsable, match="nvidia-smi --query-gpu"):
        parse_smi_csv(text)


def test_gids_with_type_and_net_device() -> None:
    text = (
        "rocep1s0/ports/1/gids/3:0000:0000:0000:0000:0000:ffff:0a00:0001\n"
        "rocep1s0/ports/1/gids/0:fe80:0000:0000:0000:a288:c2ff:fe00:0001\n"
        "rocep1s0/ports/1/gid_attrs/types/3:RoCE v2\n"
        "rocep1s0/ports/1/gid_attrs/ndevs/3:ens1\n"
        "rocep1s0/ports/1/gid_attrs/types/0:IB/RoCE v1\n"
    )
    address = IPv6Address("::ffff:10.0.0.1")
    first, second = parse_gids(text)
    assert first == Gid("rocep1s0", 1, 3, address, "RoCE v2", "ens1")
    assert (first.routable, second.routable) == (True, False)


@pytest.mark.parametrize("text", ["a/gids/0:x\n", "a/ports/1/gids/0:x\n", "nonsense\n"])
def test_another_gid_is_refused(text: str) -> None:
    with pytest.raises(Unparsable, match="GIDs"):
        parse_gids(text)


def test_net_devices() -> None:
    assert parse_net_devices("eno1/mtu:1500\neno1/operstate:up\n") == {
        "eno1": NetDevice("eno1", 1500, "up")
    }
    with pytest.raises(Unparsable, match="mtu"):
        parse_net_devices("eno1/mtu:\n")


QOS = (
    "Priority trust {word}: dscp\ndscp2prio mapping:\n\tprio:0 dscp:07,06,\n"
    "PFC configuration:\n\tpriority    0   1   2   3   4   5   6   7\n"
    "\tenabled     0   0   0   1   0   1   0   0   \n"
)


@pytest.mark.parametrize("word", ["state", "mode"])
def test_mlnx_qos(word: str) -> None:
    assert parse_mlnx_qos(QOS.format(word=word)) == Qos("dscp", (3, 5))


def test_mlnx_qos_without_pfc_is_refused() -> None:
    with pytest.raises(Unparsable, match="mlnx_qos"):
        parse_mlnx_qos("Priority trust state: dscp\n")


def test_daemons_with_their_limits() -> None:
    text = (
        "17/comm:slurmd\n17/limits:Max locked memory         unlimited            unlimited"
        "            bytes     \n4/comm:nvlsm\n"
    )
    first, second = parse_daemons(text)
    assert (first, first.unlimited) == (Daemon(17, "slurmd", "unlimited"), True)
    assert (second, second.unlimited) == (Daemon(4, "nvlsm", ""), False)


@pytest.mark.parametrize("text", ["x/comm:a\n", "1/stat:a\n", "1/limits:Max locked memory x\n"])
def test_another_line_of_proc_is_refused(text: str) -> None:
    with pytest.raises(Unparsable, match="/proc"):
        parse_daemons(text)


def test_ecn_is_told_for_each_port_and_priority() -> None:
    text = "a/ecn/roce_np/enable/3:1\na/ecn/roce_rp/enable/3:0\nb/ecn/roce_np/enable/5:0\n"
    assert parse_ecn(text) == {
        "a": Ecn(frozenset({3}), frozenset()),
        "b": Ecn(frozenset(), frozenset()),
    }


def test_ecn_of_another_shape_is_refused() -> None:
    with pytest.raises(Unparsable, match="ecn"):
        parse_ecn("a/ecn/roce_np/enable/3:yes\n")
