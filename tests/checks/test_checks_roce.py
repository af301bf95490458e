"""The checks on addresses, packet sizes and priorities of RDMA ports."""

from __future__ import annotations

import pytest

from tests.evidence.board import HCAS
from tests.evidence.build import DOWN, GUEST_CPU, UP, hca_lines, node
from tests.evidence.frames import ABSENT, DENIED, TIMEOUT, Override, failed
from tests.evidence.healthy_fabric import LINK_LOCAL, SLURMD, daemons, devinfo
from tests.evidence.judging import FAIL, NA, PASS, UNKNOWN, Row, holds, judged, name
from toolkit.checks.all import BY_ID
from toolkit.checks.check import Status
from toolkit.evidence import Frame, State
from toolkit.facts.node.node import Node
from toolkit.want import Want

ROCE_PORTS = "".join(hca_lines(f"mlx5_{n}", HCAS[n], UP) for n in (0, 1)).replace(
    "InfiniBand", "Ethernet"
)
PLAIN = "0000:0000:0000:0000:0000:ffff:0a00:0001"  # ::ffff:10.0.0.1


def gids(*entries: tuple[str, str], device: str = "mlx5_0", net: str = "ib0") -> str:
    """One port's table: (address, type) of the entries that are in use."""
    lines = []
    for index, (address, kind) in enumerate(entries):
        at = f"{device}/ports/1"
        lines += [f"{at}/gids/{index}:{address}", f"{at}/gid_attrs/types/{index}:{kind}"]
        lines += [f"{at}/gid_attrs/ndevs/{index}:{net}"]
    return "".join(f"{line}\n" for line in lines)


V1, V2 = "IB/RoCE v1", "RoCE v2"
BOTH = ((LINK_LOCAL, V1), (LINK_LOCAL, V2), (PLAIN, V1), (PLAIN, V2))
LOCAL = gids(*BOTH[:2]) + gids(*BOTH[:2], device="mlx5_1")
MIXED = gids(*BOTH[:2]) + gids(*BOTH, device="mlx5_1")
GIDS = gids(*BOTH) + gids(*BOTH, device="mlx5_1", net="ib1")
JUMBO = "".join(f"{each}/mtu:9000\n{each}/operstate:up\n" for each in ("ib0", "ib1"))
ROCE: dict[str, Override] = {"infiniband": ROCE_PORTS, "rdma-gids": GIDS, "net-devices": JUMBO}


def roce(**changed: Override) -> dict[str, Override]:
    return {**ROCE, **{key.replace("_", "-"): value for key, value in changed.items()}}


def mlnx_qos(trust: str, pfc: str) -> str:
    return (
        f"DCBX mode: OS controlled\nPriority trust state: {trust}\n"
        "dscp2prio mapping:\n\tprio:0 dscp:07,06,05,04,03,02,01,00,\n"
        "PFC configuration:\n\tpriority    0   1   2   3   4   5   6   7\n"
        f"\tenabled     {'   '.join(pfc)}   \n\tbuffer      0   0   0   1   0   0   0   0   \n"
    )


def one(**changed: Override) -> dict[str, Override]:
    """The second port speaks InfiniBand."""
    ports = f"{hca_lines('mlx5_0', HCAS[0], UP).replace('InfiniBand', 'Ethernet')}"
    return roce(infiniband=ports + hca_lines("mlx5_1", HCAS[1], UP), **changed)


def ecn(on: str, *, rp: str = "") -> str:
    """Of both ports, for priority 3: notification and reaction point."""
    return "".join(
        f"{net}/ecn/roce_{point}/enable/3:{value}\n"
        for net in ("ib0", "ib1")
        for point, value in (("np", on), ("rp", rp or on))
    )


STORAGE = hca_lines("mlx5_2", HCAS[2], UP).replace("InfiniBand", "Ethernet")
STORAGE_ALONE = "".join(hca_lines(f"mlx5_{n}", HCAS[n], UP) for n in (0, 1)) + STORAGE

ROWS = [
    Row("infiniband-needs-none", "rdma.gid", NA, "no RoCE port"),
    Row("an-address-each", "rdma.gid", PASS, "2 RoCE ports", ROCE),
    Row(
        "link-local-alone",
        "rdma.gid",
        FAIL,
        "1 of 2 RoCE ports",
        roce(rdma_gids=gids(*BOTH[:2]) + gids(*BOTH, device="mlx5_1")),
    ),
    Row(
        "version-1-alone",
        "rdma.gid",
        FAIL,
        "1 of 2 RoCE ports",
        roce(rdma_gids=gids((LINK_LOCAL, V1), (PLAIN, V1)) + gids(*BOTH, device="mlx5_1")),
    ),
    Row("an-empty-table", "rdma.gid", FAIL, "2 of 2", roce(rdma_gids="")),
    Row(
        "a-port-that-is-down-is-not-judged",
        "rdma.gid",
        PASS,
        "1 RoCE ports",
        roce(
            infiniband=hca_lines("mlx5_0", HCAS[0], UP).replace("InfiniBand", "Ethernet")
            + hca_lines("mlx5_1", HCAS[1], DOWN).replace("InfiniBand", "Ethernet"),
            rdma_gids=gids(*BOTH),
        ),
    ),
    *(
        Row(claim, "rdma.gid", status, found, roce(rdma_gids=own, containers=told, daemons=runs))
        for claim, status, found, own, told, runs in (
            ("addresses-live-in-pods", NA, "pods start the jobs", LOCAL, "kubelet:yes\n", ""),
            ("one-of-the-hosts-own-is-missing", FAIL, "1 of 2", MIXED, "kubelet:yes\n", ""),
            ("slurm-beside-a-kubelet", FAIL, "2 of 2", LOCAL, "kubelet:yes\n", daemons(SLURMD)),
            ("no-kubelet", FAIL, "2 of 2", LOCAL, "kubelet:no\n", ""),
            ("older-evidence-does-not-tell", NA, "tells of no kubelet", LOCAL, "", ""),
        )
    ),
    Row(
        "who-starts-jobs-was-not-read",
        "rdma.gid",
        UNKNOWN,
        "permission",
        roce(rdma_gids="", daemons=DENIED),
    ),
    Row("not-read", "rdma.gid", UNKNOWN, "permission", roce(rdma_gids=DENIED)),
    Row("odd", "rdma.gid", UNKNOWN, "GIDs: cannot", roce(rdma_gids="mlx5_0/ports/1/gids/0:x\n")),
    Row("infiniband", "rdma.mtu", PASS, "2 ports with 4096 bytes"),
    Row("no-ibv-devinfo", "rdma.mtu", NA, "ibv_devinfo alone", {"ibv-devinfo": ABSENT}),
    Row("it-hangs", "rdma.mtu", UNKNOWN, "no answer", {"ibv-devinfo": TIMEOUT}),
    Row(
        "infiniband-2048",
        "rdma.mtu",
        FAIL,
        "1 of 2 ports",
        {
            "ibv-devinfo": devinfo(("mlx5_0", "PORT_ACTIVE"), mtu=2048)
            + devinfo(("mlx5_1", "PORT_ACTIVE"))
        },
    ),
    Row("roce-9000", "rdma.mtu", PASS, "2 ports", roce(ibv_devinfo=ABSENT)),
    Row(
        "roce-1500",
        "rdma.mtu",
        FAIL,
        "1 of 2 ports below 4096",
        roce(net_devices=JUMBO.replace("ib1/mtu:9000", "ib1/mtu:1500")),
    ),
    Row(
        "the-bond-that-carries-it-counts",
        "rdma.mtu",
        FAIL,
        "1 of 2 ports",
        roce(
            rdma_gids=gids(*BOTH, net="bond0") + gids(*BOTH, device="mlx5_1", net="ib1"),
            net_devices=JUMBO + "bond0/mtu:1500\nbond0/operstate:up\n",
        ),
    ),
    Row("no-net-device", "rdma.mtu", UNKNOWN, "mlx5_0: its net", roce(net_devices="")),
    Row("nobody-asked", "roce.qos", NA, "no RoCE port that is up, or no mlnx_qos"),
    *(
        Row(claim, "roce.qos", status, found, one(mlnx_qos=mlnx_qos(trust, pfc), roce_ecn=on))
        for claim, status, found, trust, pfc, on in (
            ("by-the-book", PASS, "trust dscp, PFC on 3, ECN on 3", "dscp", "00010000", ecn("1")),
            ("lossless-without-ecn", PASS, "ECN on no priority", "dscp", "00010000", ecn("0")),
            ("lossless-and-ecn-not-told", PASS, "PFC on 3", "dscp", "00010000", ""),
            ("lossy-by-design", PASS, "PFC on no priority, ECN on 3", "dscp", "0" * 8, ecn("1")),
            ("lossy-without-ecn", FAIL, "ECN on no priority", "dscp", "0" * 8, ecn("0")),
            (
                "it-notifies-and-does-not-react",
                FAIL,
                "ECN on no",
                "dscp",
                "0" * 8,
                ecn("1", rp="0"),
            ),
            ("lossy-and-ecn-not-told", UNKNOWN, "whether ECN is on", "dscp", "0" * 8, ""),
            ("as-it-left-the-factory", FAIL, "trust pcp, PFC on no", "pcp", "0" * 8, ecn("1")),
            ("pfc-that-nothing-falls-into", FAIL, "trust pcp, PFC on 3", "pcp", "00010000", ""),
            ("no-trust-to-tell", UNKNOWN, "does not tell the trust", "none", "00010000", ""),
        )
    ),
    Row(
        "ecn-not-read",
        "roce.qos",
        UNKNOWN,
        "permission",
        one(mlnx_qos=mlnx_qos("dscp", "0" * 8), roce_ecn=DENIED),
    ),
    Row(
        "odd-ecn",
        "roce.qos",
        UNKNOWN,
        "ecn: cannot",
        one(mlnx_qos=mlnx_qos("dscp", "0" * 8), roce_ecn="x\n"),
    ),
    Row(
        "a-second-port-that-nobody-asked",
        "roce.qos",
        UNKNOWN,
        "ib1: not asked; ib0 alone",
        roce(mlnx_qos=mlnx_qos("dscp", "00010000")),
    ),
    Row(
        "the-node-lives-on-the-second",
        "roce.qos",
        PASS,
        "1 RoCE port",
        roce(mlnx_qos=mlnx_qos("dscp", "00010000"), default_routes="ib1\n"),
    ),
    Row("hangs", "roce.qos", UNKNOWN, "no answer", roce(mlnx_qos=TIMEOUT)),
    Row("fails", "roce.qos", UNKNOWN, "status 1", roce(mlnx_qos=failed(1, "x\n"))),
    Row("another-shape", "roce.qos", UNKNOWN, "mlnx_qos: cannot", roce(mlnx_qos="x\n")),
    Row(
        "in-a-guest",
        "roce.qos",
        NA,
        "not judged on a vm",
        roce(mlnx_qos=mlnx_qos("pcp", "00000000"), cpu=GUEST_CPU),
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_roce(row: Row) -> None:
    holds(row)


def test_a_port_without_an_address_is_named_with_its_net_device() -> None:
    row = Row("", "rdma.gid", FAIL, "", roce(rdma_gids=gids(*BOTH[:2])))
    finding = judged(row).finding
    assert finding.details == (
        "mlx5_0 port 1: link-local alone",
        "mlx5_1 port 1: none of RoCE v2",
    )
    assert "ip address show ib0" in finding.hint


@pytest.mark.parametrize(
    ("devices", "net", "status", "found"),
    [
        pytest.param(STORAGE_ALONE, "ib2", NA, "ib2 is for others", id="storage"),
        pytest.param(
            ROCE_PORTS + STORAGE, "ib2", UNKNOWN, "ib0, ib1: not asked; ib2 alone", id="another"
        ),
        pytest.param(ROCE_PORTS + STORAGE, "ib1", FAIL, "ib1: trust pcp", id="the-right-one"),
        pytest.param(ROCE_PORTS + STORAGE, "eth9", FAIL, "eth9: trust pcp", id="nobody-s"),
    ],
)
def test_a_port_that_serves_no_gpu_tells_nothing_of_those_that_do(
    devices: str, net: str, status: Status, found: str
) -> None:
    said = mlnx_qos("pcp", "00000000")
    evidence = node({**ROCE, "infiniband": devices}).plus(
        (Frame("mlnx-qos", State.OK, f"mlnx_qos -i {net}", said),)
    )
    finding = BY_ID["roce.qos"](Node(evidence), Want()).finding
    assert finding.status is status
    assert found in finding.found


@pytest.mark.parametrize(
    ("second", "status", "found"),
    [
        pytest.param("00010000", PASS, "2 RoCE ports", id="alike"),
        pytest.param("00000000", FAIL, "1 of 2 RoCE ports asked: ib1", id="one-without"),
        pytest.param("00001000", FAIL, "1 of 2 RoCE ports unlike the others", id="another"),
    ],
)
def test_every_port_that_was_asked_is_judged(second: str, status: Status, found: str) -> None:
    evidence = node(roce(mlnx_qos=mlnx_qos("dscp", "00010000"), roce_ecn=ecn("0"))).plus(
        (Frame("mlnx-qos-2", State.OK, "mlnx_qos -i ib1", mlnx_qos("dscp", second)),)
    )
    finding = BY_ID["roce.qos"](Node(evidence), Want()).finding
    assert finding.status is status
    assert found in finding.found


def test_the_fix_of_priorities_is_no_line_to_paste() -> None:
    row = Row("", "roce.qos", FAIL, "", one(mlnx_qos=mlnx_qos("pcp", "0" * 8)))
    hint = judged(row).finding.hint
    assert "switch" in hint
    assert "--pfc" not in hint + BY_ID["roce.qos"].fix
