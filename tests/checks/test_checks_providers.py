"""HCAs of other makers than NVIDIA: which path is theirs, and what is said of it."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

from tests.checks.signing import OUTLIER
from tests.checks.test_checks_kernel import SIGNED
from tests.checks.test_checks_ofed import folders
from tests.evidence.board import BOARD, ETHERNET, HCAS, Board, Fn
from tests.evidence.build import (
    INFINIBAND,
    KERNEL,
    PROPRIETARY,
    kernel_block,
    node,
    rdma_core,
    without_module,
)
from tests.evidence.frames import ABSENT, Override
from tests.evidence.judging import DMABUF, FAIL, NA, PASS, UNKNOWN, Row, holds, judged, name
from toolkit.checks.all import ALL
from toolkit.checks.check import Check, Status
from toolkit.compat.reader import Confidence, HcaMaker, maker, shipped
from toolkit.facts.node.node import Node
from toolkit.plan.plan import make_plan
from toolkit.want import PeerPath, Want

NO_PEERMEM = without_module("nvidia_peermem")
EFA_LIVE = NO_PEERMEM + "efa_nv_peermem/initstate:live\n"
PROVIDERS = {each.id: each for each in shipped().providers}


def of(provider: str) -> Board:
    """The healthy board with this maker's HCAs in place of ConnectX."""
    row = PROVIDERS[provider]
    ids = (int(row.vendor, 16), int((*row.devices, "1021")[0], 16))
    board = BOARD
    for address in HCAS:
        board = board.but(address, ids=ids, driver=row.drivers[0], klass=ETHERNET)
    return board


def kernel(release: str) -> dict[str, Override]:
    """A kernel.org kernel, of which nothing is carried back."""
    return {"kernel-release": f"{release}-1-generic\n", "kallsyms": ""}


BARE: dict[str, Override] = {"module-state": NO_PEERMEM}
FIRST = {each.id: each.before or each.kernel for each in PROVIDERS.values() if each.kernel}


def linked(kind: str, *rates: str) -> dict[str, Override]:
    """RDMA devices of another maker, without a name of a board, each port at its rate."""
    text = re.sub(r".*/board_id:.*\n", "", INFINIBAND).replace("MT4129", kind)
    for nth, rate in enumerate(rates):
        text = re.sub(rf"(mlx5_{nth}/ports/1/rate:).*", rf"\g<1>{rate}", text)
    return {"infiniband": text.replace("link_layer:InfiniBand", "link_layer:Ethernet")}


NDR, HDR, SDR = "400 Gb/sec (4X NDR)", "200 Gb/sec (4X HDR)", "10 Gb/sec (1X QDR)"
THOR2 = of("bnxt_re")
for place in HCAS:
    THOR2 = THOR2.but(place, ids=(0x14E4, 0x1760))

ROWS = [
    Row("thor2", "rdma.rate", PASS, "2 ports at 400", linked("bnxt_re", NDR, NDR), THOR2),
    Row("thor2-on-a-200", "rdma.rate", PASS, "at 200", linked("bnxt_re", HDR, HDR), THOR2),
    Row("thor2-at-10", "rdma.rate", FAIL, "2 ports slower", linked("bnxt_re", SDR, SDR), THOR2),
    *(
        Row(f"{each}-at-1", "rdma.rate", FAIL, "2 ports slower",
            linked(each, "1 Gb/sec (1X SDR)", "1 Gb/sec (1X SDR)"), of(each))
        for each in ("bnxt_re", "irdma", "ionic", "efa")
    ),
    Row("unequal-efa", "rdma.rate", FAIL, "200 of 400", linked("", NDR, HDR), of("efa")),
    *(
        Row(f"{each}-from-its-first-kernel-on", "dmabuf.nic", PASS, f"{each} with", kernel(first),
            of(each), DMABUF)
        for each, first in FIRST.items() if each != "mlx5"
    ),
    *(
        Row(f"{each}-before-dma-buf", "dmabuf.nic", FAIL, "cannot register dma-buf",
            kernel("5.4.0"), of(each), DMABUF)
        for each in FIRST if each != "mlx5"
    ),
    *(
        Row(f"{each}-on-el9", "dmabuf.nic", UNKNOWN, "that on 5.14.0-1-generic does is not known",
            kernel("5.14.0"), of(each), DMABUF)
        for each in ("bnxt_re", "irdma", "efa", "mana")
    ),
    *(
        Row(f"{each}-that-runs-with-the-call-on-{release}", "dmabuf.nic", status, "",
            kernel(release) | {"kallsyms": f"0 t {each}_reg_user_mr_dmabuf\t[{module}]\n"},
            of(each), DMABUF)
        for each, module, status in (
            ("bnxt_re", "bnxt_re", PASS), ("ionic", "ionic_rdma", PASS),
            ("hns", "hns_roce_hw_v2", UNKNOWN), ("irdma", "another", UNKNOWN))
        for release in ("4.18.0", "5.14.0") if status is PASS or release == "5.14.0"
    ),
    *(
        Row(f"{each}-of-which-nothing-is-known", "dmabuf.nic", UNKNOWN, "dma-buf there is",
            {}, of(each), DMABUF)
        for each in ("erdma", "hns", "qedr")
    ),
    Row("one-maker-that-cannot", "dmabuf.nic", UNKNOWN, "driven by cxgb4",
        board=of("irdma").but(HCAS[1], driver="cxgb4", ids=(0x1425, 0x5401)), want=DMABUF),
    Row("efa-by-its-own-module", "path.selected", PASS, "peermem", {"module-state": EFA_LIVE},
        of("efa")),
    Row("efa-without-it", "path.selected", FAIL, "efa_nv_peermem is not loaded", BARE, of("efa")),
    Row("efa-by-dma-buf", "path.selected", PASS, "dmabuf", {**BARE, **kernel("6.8.0")}, of("efa"),
        DMABUF),
    Row("efa-and-the-proprietary-driver", "path.selected", FAIL, "proprietary",
        {**BARE, "nvidia-version": PROPRIETARY}, of("efa"), DMABUF),
    Row("peer-memory-of-another", "path.selected", UNKNOWN, "driven by bnxt_en", BARE,
        of("bnxt_re")),
    Row("efa", "peermem.loaded", NA, "efa takes efa_nv_peermem or dma-buf", BARE, of("efa")),
    Row("broadcom", "ib.peer_symbol", NA, "bnxt_re takes dma-buf", BARE, of("bnxt_re")),
    Row("an-unsigned-nvidia-peermem-is-nothing-to-efa", "kernel.lockdown", PASS, "integrity",
        {"lockdown": "none [integrity] confidentiality\n",
         "nvidia-modinfo": SIGNED["nvidia-modinfo"]}, of("efa")),
    Row("nor-one-that-nvidia-signed", "module.signed", PASS, "signed by DKMS", OUTLIER, of("efa")),
    Row("nor-a-build-without-the-interface", "ofed.headers_link", NA, "nothing of OFED",
        folders("", "", **{"dkms-tree": ""}), of("efa")),
    Row("a-connectx-among-them", "peermem.loaded", FAIL, "not loaded", BARE,
        of("efa").but(HCAS[1], ids=(0x15B3, 0x1021), driver="mlx5_core")),
    Row("one-that-nobody-knows", "peermem.loaded", FAIL, "not loaded", BARE,
        of("efa").but(HCAS[1], ids=(0x1425, 0x5401), driver="cxgb4")),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_each_maker_is_judged_by_its_own_row(row: Row) -> None:
    holds(row)


@pytest.mark.parametrize("check", [each for each in ALL if each.paths == {PeerPath.PEERMEM}],
                         ids=lambda each: each.id)  # fmt: skip
def test_nothing_of_nvidia_peermem_is_asked_of_an_efa_node(check: Check) -> None:
    holds(Row("", check.id, NA, "not nvidia-peermem", BARE, of("efa")))


OTHERS = [each for each in PROVIDERS if each != "mlx5"]
NVIDIA_S = ("openibd", "DOCA", "nvidia-peermem", "mlnx_", "build OFED", "mlxlink", "mlxfw")


@pytest.mark.parametrize("path", [*PeerPath, None])
@pytest.mark.parametrize("release", ["5.4.0", "5.15.0", "6.8.0"])
@pytest.mark.parametrize("provider", OTHERS)
def test_no_word_of_nvidia_s_own_stack_reaches_a_node_of_other_hcas(
    provider: str, release: str, path: PeerPath | None
) -> None:
    """Though OFED lies on it, half built and not started."""
    frames = {**BARE, **kernel(release), "openibd": "LoadState=loaded\nActiveState=failed\n"}
    here = Node(node(frames, board=of(provider)))
    said = [each(here, Want(path=path)).finding for each in ALL]
    advice = " ".join(f"{each.found} {each.expected} {each.hint}" for each in said
                      if each.status in {FAIL, UNKNOWN})  # fmt: skip
    assert not [word for word in NVIDIA_S if word in advice]


@pytest.mark.parametrize(
    ("provider", "hint"),
    [
        ("mlx5", "use the peermem path: --profile peermem"),
        ("efa", "use the peermem path, by efa_nv_peermem: --profile peermem"),
        ("bnxt_re", "a newer kernel"),
    ],
)
def test_an_old_kernel_is_sent_to_peer_memory_where_the_hca_takes_it(
    provider: str, hint: str
) -> None:
    row = Row("", "kernel.version", FAIL, "without dma-buf", kernel("5.4.0"), of(provider), DMABUF)
    assert judged(row).finding.hint == hint


@pytest.mark.parametrize("provider", ["efa", "bnxt_re", "irdma", "ionic"])
def test_a_plan_places_nothing_of_nvidia_peermem_there(provider: str) -> None:
    here = Node(node(BARE, board=of(provider)))
    plans = [
        make_plan(here, {each.id: each(here, want) for each in ALL}, want)
        for want in (Want(path=PeerPath.PEERMEM), DMABUF)
    ]
    assert plans[0].wanted == plans[1].wanted
    assert not [each.path for each in plans[0].changes if "peermem" in each.path + each.artefact]


@pytest.mark.parametrize("provider", [each for each in FIRST if each != "mlx5"])
def test_an_idle_card_beside_a_gpu_is_missed(provider: str) -> None:
    board = of(provider).but(HCAS[0], driver="")
    frames: dict[str, Override] = {
        "infiniband": "".join(
            line for line in _healthy("infiniband").splitlines(True) if "mlx5_0" not in line
        )
    }
    row = Row("", "rdma.devices", FAIL, "no RDMA device for 1 of 3", frames, board)
    holds(row)
    assert f"modprobe -a {' '.join(PROVIDERS[provider].modules)};" in judged(row).finding.hint


@pytest.mark.parametrize("driver", ["bnxt_en", ""])
def test_a_card_far_from_the_gpus_is_for_ethernet_alone(driver: str) -> None:
    far = BOARD.plus(Fn("0000:e0:00.0", "pci0000:e0", (0x14E4, 0x1751), ETHERNET, driver))
    row = Row("", "rdma.devices", PASS, "3 devices", board=far)
    holds(row)
    assert "0000:e0:00.0: for Ethernet alone, far from the GPUs" in judged(row).finding.details


@pytest.mark.parametrize(
    ("provider", "tool"), [("bnxt_re", "niccli"), ("irdma", "devlink"), ("mlx5", "mlxlink")]
)
def test_a_port_without_a_link_is_looked_into_with_its_maker_s_tool(
    provider: str, tool: str
) -> None:
    ports = (
        _healthy("infiniband")
        .replace("mlx5_0/ports/1/state:4: ACTIVE", DOWN_0)
        .replace("mlx5_0/ports/1/phys_state:5: LinkUp", "mlx5_0/ports/1/phys_state:7: <unknown>")
    )
    row = Row("", "rdma.port", FAIL, "mlx5_0 DOWN", {"infiniband": ports}, of(provider))
    holds(row)
    assert tool in judged(row).finding.hint


@pytest.mark.parametrize(("provider", "status"), [("irdma", PASS), ("mlx5", FAIL)])
def test_the_next_kernel_needs_mlx5_for_a_connectx_alone(provider: str, status: Status) -> None:
    lines = kernel_block(KERNEL, peermem=False).splitlines(keepends=True)
    kernels = "".join(line for line in lines if "mlx5_core" not in line)
    frames: dict[str, Override] = {"kernels": kernels}
    holds(Row("", "kernel.pending_reboot", status, "", frames, of(provider), DMABUF))


def test_what_was_reported_once_is_no_ground_for_a_verdict() -> None:
    row = replace(PROVIDERS["irdma"], confidence=Confidence.LOW)
    compat = shipped().having(providers=(row,))
    want = Want(path=PeerPath.DMABUF, compat=compat)
    holds(Row("", "dmabuf.nic", UNKNOWN, "is not known", kernel("6.8.0"), of("irdma"), want))


def test_ofed_is_not_asked_for_hcas_of_other_makers() -> None:
    holds(Row("", "ofed.hca", NA, "no ConnectX", board=of("bnxt_re")))


@pytest.mark.parametrize(("provider", "status"), [("efa", PASS), ("bnxt_re", PASS), ("mlx5", FAIL)])
def test_what_would_stop_mlx5_stops_no_other(provider: str, status: Status) -> None:
    frames: dict[str, Override] = {"modprobe-config": "blacklist mlx5_core\n"}
    holds(Row("", "modules.blacklist", status, "", frames, of(provider)))


def test_a_blacklist_of_the_maker_s_own_driver_is_found() -> None:
    frames: dict[str, Override] = {"modprobe-config": "blacklist irdma\n"}
    holds(Row("", "modules.blacklist", FAIL, "irdma: blacklisted", frames, of("irdma")))


def test_pinned_memory_needs_no_on_demand_paging() -> None:
    frames = kernel("6.8.0")
    config = _healthy("kernel-config").replace("CONFIG_INFINIBAND_ON_DEMAND_PAGING=y\n", "")
    frames |= {"kernel-config": config, "ofed-info": ABSENT, "dkms-status": ""}
    frames |= {"rdma-modinfo": rdma_core("/lib/modules/6.8.0-1-generic/kernel", version="")}
    for provider, status in (("bnxt_re", PASS), ("mlx5", FAIL)):
        holds(Row("", "kernel.config.infiniband", status, "", frames, of(provider), DMABUF))
        holds(Row("", "dmabuf.nic", status, "", frames, of(provider), DMABUF))


DOWN_0 = "mlx5_0/ports/1/state:1: DOWN"


def _healthy(key: str) -> str:
    return node().text(key)


# --- the rows themselves ---


@pytest.mark.parametrize("row", PROVIDERS.values(), ids=lambda each: each.id)
def test_what_is_not_known_has_low_confidence(row: HcaMaker) -> None:
    assert bool(row.kernel) == bool(row.library) == (row.confidence is not Confidence.LOW)


def test_each_driver_is_one_maker_s() -> None:
    drivers = [driver for each in PROVIDERS.values() for driver in each.drivers]
    assert sorted(set(drivers)) == sorted(drivers)


def test_the_first_kernel_of_mlx5_is_said_once() -> None:
    assert PROVIDERS["mlx5"].kernel == shipped().kernel_gate("dmabuf-mr").first


@pytest.mark.parametrize(
    ("ids", "whose"),
    [
        pytest.param((0x15B3, 0x1027), "mlx5", id="connectx-10"),
        pytest.param((0x15B3, 0x2101), "mlx5", id="connectx-10-c2c"),
        pytest.param((0x14E4, 0x1760), "bnxt_re", id="thor2"),
        pytest.param((0x1D0F, 0xEFA4), "efa", id="efa-5"),
        pytest.param((0x1D0F, 0xEC20), "", id="ena-is-no-hca"),
        pytest.param((0x14E4, 0x16D8), "", id="a-mainboard-s-broadcom"),
        pytest.param((0x8086, 0x12D2), "irdma", id="e830"),
        pytest.param((0x8086, 0x1533), "", id="a-mainboard-s-intel"),
    ],
)
def test_ids_tell_whose_hca_it_is(ids: tuple[int, int], whose: str) -> None:
    found = maker(*ids)
    assert (found.id if found else "") == whose
