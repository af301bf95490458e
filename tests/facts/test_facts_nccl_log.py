"""NCCL_DEBUG=INFO logs: one row for each shape of line between 2.4 and 2.30."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from toolkit.facts.nccl.nccl_log import (
    Decision,
    Direction,
    Edge,
    HcaState,
    NcclLog,
    NetDevice,
    Rank,
    bus_address,
    parse_nccl_log,
)

HOST = "gpu01:4711:4712 [0] NCCL INFO "
SEND, RECEIVE = Direction


def edge(line: str) -> Edge:
    (found,) = parse_nccl_log(line + "\n").edges
    return found


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param(
            HOST + "Ring 00 : 7 -> 0 [receive] via NET/IB/2/GDRDMA",
            Edge("gpu01", 0, 7, RECEIVE, "IB", 2, gdr=True),
            id="2.4-ring",
        ),
        pytest.param(
            HOST + "Ring 01 : 0[1b000] -> 9[1b000] [send] via NET/IB/0",
            Edge("gpu01", 0, 9, SEND, "IB", 0, gdr=False),
            id="2.5-with-bus-ids",
        ),
        pytest.param(
            HOST + "Channel 00 : 0[1b000] -> 8[1b000] [send] via NET/IB/3/GDRDMA/Shared",
            Edge("gpu01", 0, 8, SEND, "IB", 3, gdr=True),
            id="2.8-shared",
        ),
        pytest.param(
            "[1,0]<stdout>:" + HOST + "Channel 04 : 9[101d0] -> 0[101c0] [receive] "
            "via NET/AWS Libfabric/1/GDRDMA",
            Edge("gpu01", 0, 9, RECEIVE, "AWS Libfabric", 1, gdr=True),
            id="plugin-with-a-blank-behind-mpirun",
        ),
        pytest.param(
            " 0: " + HOST + "Channel 01/0 : 0[0] -> 5[1] [send] via NET/IBext/1(1)/GDRDMA",
            Edge("gpu01", 0, 5, SEND, "IBext", 1, gdr=True, proxy=1),
            id="pxn-behind-srun",
        ),
        pytest.param(
            "NCCL INFO Channel 00/0 : 2[0] -> 1[1] [receive] via NET/IB/1/GDRDMA(PCI)",
            Edge("", 1, 2, RECEIVE, "IB", 1, gdr=True, pci=True),
            id="c2c-without-prefix",
        ),
        pytest.param(
            HOST + "CollNet 00/0 : 3 [receive] via COLLNET/SHARP/7/GDRDMA",
            Edge("gpu01", 3, -1, RECEIVE, "SHARP", 7, gdr=True, collective=True),
            id="in-network-reduction",
        ),
        pytest.param(
            HOST + "Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0\r",
            Edge("gpu01", 0, 1, SEND, "IB", 0, gdr=False),
            id="from-windows",
        ),
    ],
)
def test_channels(line: str, expected: Edge) -> None:
    assert edge(line) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param(
            "NET/IB : GPU Direct RDMA Enabled for GPU 0[3] / HCA 1 (distance 1 < 2), read 0",
            Decision("gpu01", "0[3]", "1", True, 1, 2),
            id="2.4-strictly-below",
        ),
        pytest.param(
            "NET/IB : GPU Direct RDMA Disabled for GPU 1b000 / HCA 0 (distance 3 >= 2)",
            Decision("gpu01", "1b000", "0", False, 3, 2),
            id="2.5",
        ),
        pytest.param(
            "GPU Direct RDMA Disabled for GPU ca000 / HCA 0 (distance 7 > 4)",
            Decision("gpu01", "ca000", "0", False, 7, 4),
            id="2.12",
        ),
        pytest.param(
            "GPU Direct RDMA Enabled for GPU 3 / HCA 1a (distance 4 <= 5), read 1 mode Default",
            Decision("gpu01", "3", "1a", True, 4, 5),
            id="2.26",
        ),
        pytest.param(
            "GPU Direct RDMA Enabled for GPU 1 / HCA 1",
            Decision("gpu01", "1", "1", True),
            id="with-its-tail-cut-off",
        ),
    ],
)
def test_decisions(line: str, expected: Decision) -> None:
    assert parse_nccl_log(HOST + line + "\n").decisions == (expected,)


@pytest.mark.parametrize(
    ("line", "enabled"),
    [
        pytest.param("NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'", True, id="on"),
        pytest.param("NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'", False, id="off"),
        pytest.param(
            "NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0' (no module)", False, id="2.5"
        ),
        pytest.param(
            "NET/IB : GPU Direct RDMA Disabled for GPU 0[0] / HCA 0 'mlx5_0' "
            "(no module or not supported by GPU)",
            False,
            id="2.4",
        ),
    ],
)
def test_whether_an_hca_could_at_all(line: str, enabled: bool) -> None:
    assert parse_nccl_log(HOST + line).hcas == (HcaState("gpu01", 0, "mlx5_0", enabled),)


def test_devices_version_network_settings_and_ranks() -> None:
    log = parse_nccl_log(
        "NCCL version 2.21.5+cuda12.4\n"
        + HOST
        + "NET/IB : Using [0]mlx5_0:1/IB/SHARP [1]rocep1s0f0:1/RoCE [RO]; OOB eth0:192.0.2.1<0>\n"
        + HOST
        + "Using network IB\n"
        + HOST
        + "NCCL_NET_GDR_LEVEL set by environment to PIX\n"
        + HOST
        + "NCCL_IB_TIMEOUT set by environment to 22.\n"
        + HOST
        + "DMA-BUF is available on GPU device 0\n"
        + HOST
        + "comm 0x1 rank 3 nranks 16 cudaDev 3 nvmlDev 3 busId 1b000 commId 0x2 - Init START\n"
    )
    assert replace(log, parts={}) == NcclLog(
        "2.21.5",
        ("IB",),
        (NetDevice("gpu01", 0, "mlx5_0", "IB/SHARP"), NetDevice("gpu01", 1, "rocep1s0f0", "RoCE")),
        ranks=(Rank("gpu01", 3, "0000:1b:00.0"),),
        settings=(("NCCL_NET_GDR_LEVEL", "PIX"), ("NCCL_IB_TIMEOUT", "22")),
        dmabuf=True,
        cuda="12.4",
    )
    assert log.hosts == ("gpu01",)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("{}\r", id="windows"),
        pytest.param("\x1b[36m(Worker pid=7)\x1b[0m {}\x1b[0m", id="ray-in-colour"),
        pytest.param(
            "(Worker pid=7, ip=192.0.2.1) {} [repeated 3x across cluster]", id="ray-folds"
        ),
        pytest.param("3: {}", id="srun-label"),
        pytest.param("[1,3]<stdout>:{}", id="mpirun-tag"),
        pytest.param("[pod/worker-0/main] {}", id="kubectl-prefix"),
        pytest.param("2026-11-21T10:00:00.123456789Z {}", id="kubectl-timestamps"),
        pytest.param("[2026-11-21 10:00:00] {}", id="nccl-timestamp"),
        pytest.param('{{"log":"{}\\n","stream":"stdout","time":"2026"}}', id="docker-json"),
    ],
)
def test_what_others_put_around_a_line_is_taken_off(line: str) -> None:
    said = line.format(HOST + "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/1/GDRDMA")
    log = parse_nccl_log(said + "\n")
    assert (log.torn, log.hosts) == (0, ("gpu01",))
    assert log.edges == (Edge("gpu01", 0, 8, SEND, "IB", 1, gdr=True),)


def test_two_jobs_in_one_file_have_no_version_in_common() -> None:
    log = parse_nccl_log("NCCL version 2.18.3+cuda12.2\nNCCL version 2.27.3+cuda12.8\n")
    assert (log.version, log.versions) == ("", ("2.18.3", "2.27.3"))


def test_each_host_says_what_is_its_own() -> None:
    other = HOST.replace("gpu01", "gpu02")
    log = parse_nccl_log(
        HOST + "NCCL version 2.27.3+cuda12.8\n"
        + HOST + "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/1/GDRDMA\n"
        + other + "NET/IB : No device found.\n"
        + "nd] via NET/IB/1/GDRDMA\n"
    )  # fmt: skip
    own, dark = log.of("gpu01.example.org"), log.of("gpu02")
    assert own is not None
    assert dark is not None
    assert (own.troubles, len(own.edges), own.torn) == ((), 1, 1)
    assert (dark.troubles, len(dark.edges), dark.version) == (
        ("NET/IB : No device found.",), 0, "2.27.3",
    )  # fmt: skip
    assert log.of("gpu03") is None


def test_what_another_said_goes_for_a_host_that_says_nothing_of_it() -> None:
    other = HOST.replace("gpu01", "gpu02")
    log = parse_nccl_log(
        f"{HOST}NCCL version 2.27.3+cuda12.8\n{HOST}Using network IBext_v8\n"
        f"{HOST}NCCL_IB_HCA set by environment to mlx5_0\n{other}Using network Socket\n"
        + HOST.replace("gpu01", "gpu03") + "NET/IB : No device found.\n"
    )  # fmt: skip
    one, two, three = (log.of(f"gpu0{number}") for number in (1, 2, 3))
    assert one is not None
    assert two is not None
    assert three is not None
    assert (one.networks, two.networks) == (("IBext_v8",), ("Socket",))
    assert set(three.networks) == {"IBext_v8", "Socket"}
    assert one.settings == two.settings == three.settings == log.settings
    assert (two.version, two.versions, two.cuda) == (log.version, log.versions, log.cuda)
    assert (log.version, log.cuda) == ("2.27.3", "12.8")


def test_a_line_without_end_is_not_searched_for_ever() -> None:
    assert not parse_nccl_log("NCCL " + "a" * 3_000_000 + "\n" + "x.-" * 1_000_000).edges


def test_a_torn_channel_is_counted_and_not_guessed_at() -> None:
    log = parse_nccl_log(
        HOST + "Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDSetting up something\n"
        "nd] via NET/IB/1/GDRDMA\n"
    )
    assert (log.edges, log.torn) == ((), 2)


def test_channels_within_a_node_are_no_network() -> None:
    log = parse_nccl_log(
        HOST + "Channel 00 : 0[101c0] -> 3[201d0] via P2P/IPC/read\n"
        + HOST + "Channel 00 : 0[1] -> 1[2] via SHM/direct/direct\n"
        + HOST + "Channel 00 : 0[1] -> 1[2] via direct shared memory\n"
    )  # fmt: skip
    assert (log.edges, log.torn, log.intra) == ((), 0, 3)


@pytest.mark.parametrize(
    ("line", "trouble"),
    [
        pytest.param(
            "nid6:1:2 [1] net.cc:626 NCCL WARN Error: network AWS Libfabric not found.",
            "Error: network AWS Libfabric not found.",
            id="plugin",
        ),
        pytest.param(HOST + "NET/IB : No device found.", "NET/IB : No device found.", id="no-hca"),
        pytest.param(
            "gpu01:1:2 [0] misc/ibvwrap.cc:1 NCCL WARN Call to ibv_reg_dmabuf_mr failed with "
            "error Operation not supported",
            "Call to ibv_reg_dmabuf_mr failed with error Operation not supported",
            id="dmabuf-refused",
        ),
        pytest.param(
            "gpu01:1:2 [0] NCCL WARN NET/IB: Got completion from peer 192.0.2.1<1> with status=4",
            "NET/IB: Got completion from peer 192.0.2.1<1> with status=4",
            id="completion",
        ),
    ],
)
def test_troubles(line: str, trouble: str) -> None:
    assert parse_nccl_log(line).troubles == (trouble,)


@pytest.mark.parametrize(
    ("bus_id", "address"),
    [
        ("1b000", "0000:1b:00.0"),
        ("101c0", "0000:10:1c.0"),
        ("80", "0000:00:08.0"),
        ("f01000", "000f:01:00.0"),
    ],
)
def test_bus_ids(bus_id: str, address: str) -> None:
    assert bus_address(bus_id) == address


def test_a_text_that_is_not_nccls_tells_nothing() -> None:
    log = parse_nccl_log("Linux version 6.8\nvia\nnetwork is up\n")
    assert (log.networks, log.edges, log.troubles, log.version) == ((), (), (), "")


@given(st.text())
def test_no_text_ends_it(text: str) -> None:
    parse_nccl_log(text)


@given(st.integers(0, 400))
def test_a_log_that_was_cut_never_gains_gpudirect(end: int) -> None:
    text = (HOST + "Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA\n") * 2 + (
        HOST + "Channel 00/0 : 1[0] -> 0[0] [receive] via NET/IB/0\n"
    ) * 2
    whole, part = parse_nccl_log(text), parse_nccl_log(text[:end])
    assert sum(each.gdr for each in part.edges) <= sum(each.gdr for each in whole.edges)
