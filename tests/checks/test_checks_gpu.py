"""The checks on what the GPUs are, and on their NVLink fabric."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.evidence.board import BOARD, GPUS, Board, Fn
from tests.evidence.build import DRIVER, GUEST_CPU, gpu_rows, module_state, node
from tests.evidence.frames import ABSENT, DENIED, TIMEOUT, Override, failed
from tests.evidence.healthy_fabric import MANAGER, SLURMD, daemons, smi_q
from tests.evidence.judging import DMABUF, FAIL, NA, PASS, UNKNOWN, Row, holds, judged, name
from toolkit.checks.all import ALL
from toolkit.checks.check import ONE_MEMORY
from toolkit.facts.node.node import Node
from toolkit.want import PeerPath, Want


def of(device: int, board: Board = BOARD) -> Board:
    """The board with GPUs of this device id."""
    for address in GPUS:
        board = board.but(address, ids=(0x10DE, device))
    return board


def named(product: str) -> dict[str, Override]:
    return {"nvidia-smi": gpu_rows().replace("NVIDIA H100 80GB HBM3", product)}


SWITCHED = BOARD.plus(
    Fn("0000:b0:00.0", "pci0000:97", (0x10DE, 0x22A3), 0x068000, "nvidia-nvswitch")
)
MANAGED: dict[str, Override] = {"daemons": daemons(MANAGER)}
UMAD: Mapping[str, Override] = {"module-state": module_state() + "ib_umad/initstate:live\n"}
CLUSTER = "2f0e8d5a-61c4-4f5f-9f6b-0d6a4f1f6c11"
JOINED: dict[str, Override] = {"nvidia-smi-q": smi_q(cluster=CLUSTER)}
IMEX: dict[str, Override] = {
    "daemons": daemons((1999, "nvidia-imex", "8388608")),
    "imex-channels": "/dev/nvidia-caps-imex-channels/channel0\n",
}
NO_FABRIC = ("N/A", "N/A")

SUBNET = {"daemons": daemons(MANAGER, (1812, "nvlsm", "8388608"))}
SPLIT = smi_q(mig=("Enabled", "Enabled"))
ONE_SPLIT = smi_q().replace(": Disabled", ": Enabled", 2)
SPLIT_VGPU = smi_q(mig=("Enabled", "Enabled"), virtualization="VGPU")
PERSISTENCED = (
    "× nvidia-persistenced.service - NVIDIA Persistence Daemon\n"
    "     Loaded: loaded (/lib/systemd/system/nvidia-persistenced.service; enabled)\n"
    "     Active: failed (Result: exit-code) since Sat 2026-11-21 10:00:00 UTC; 1h ago\n"
)
ROWS = [
    Row("hopper", "gpu.class", PASS, "2 GPUs: Hopper"),
    Row("hopper-needs-no-name", "gpu.class", PASS, "Hopper", {"nvidia-smi": TIMEOUT}),
    Row("l40s", "gpu.class", PASS, "NVIDIA L40S", named("NVIDIA L40S"), of(0x26B9)),
    Row(
        "rtx-pro", "gpu.class", PASS, "RTX PRO", named("NVIDIA RTX PRO 6000 Blackwell"), of(0x2BB5)
    ),
    Row(
        "geforce",
        "gpu.class",
        FAIL,
        "2 of 2 GPUs: NVIDIA GeForce RTX 4090",
        named("NVIDIA GeForce RTX 4090"),
        of(0x2684),
    ),
    Row("titan", "gpu.class", FAIL, "TITAN V", named("NVIDIA TITAN V"), of(0x1D81)),
    Row("no-name", "gpu.class", UNKNOWN, "nvidia-smi: not", {"nvidia-smi": ABSENT}, of(0x26B9)),
    Row(
        "only-one-is-listed",
        "gpu.class",
        UNKNOWN,
        "does not tell the name of 0000:9a:00.0",
        {"nvidia-smi": gpu_rows().split("\n")[0] + "\n"},
        of(0x26B9),
    ),
    Row("newer-than-the-table", "gpu.class", PASS, "R100", named("NVIDIA R100"), of(0x3FFF)),
    Row(
        "volta-by-dma-buf",
        "gpu.class",
        FAIL,
        "2 of 2 GPUs are older than Turing (Volta)",
        named("Tesla V100-SXM2-32GB"),
        of(0x1DB5),
        DMABUF,
    ),
    Row("volta-by-peermem", "gpu.class", PASS, "V100", named("Tesla V100-SXM2-32GB"), of(0x1DB5)),
    Row("gb10", "gpu.class", NA, "share one memory", named("NVIDIA GB10"), of(0x2E12)),
    Row("on", "nvidia.persistence", PASS, "on for 2 GPUs"),
    Row(
        "off",
        "nvidia.persistence",
        FAIL,
        "off on 1 of 2",
        {"nvidia-smi": gpu_rows().replace("Enabled", "Disabled", 1)},
    ),
    Row(
        "not-told",
        "nvidia.persistence",
        UNKNOWN,
        "does not tell",
        {"nvidia-smi": gpu_rows().replace("Enabled", "[N/A]", 1)},
    ),
    Row(
        "daemon-failed",
        "nvidia.persistence",
        FAIL,
        "nvidia-persistenced has failed (exit-code)",
        {"systemctl-status": PERSISTENCED},
    ),
    Row("no-answer", "nvidia.persistence", UNKNOWN, "no answer", {"nvidia-smi": TIMEOUT}),
    Row("no-gpu-listed", "nvidia.persistence", UNKNOWN, "lists no GPU", {"nvidia-smi": ""}),
    Row("whole", "nvidia.mig_vgpu", PASS, "2 GPUs are whole"),
    Row(
        "no-mig-and-nothing-told",
        "nvidia.mig_vgpu",
        NA,
        "no MIG",
        {"nvidia-smi-q": smi_q(mig=NO_FABRIC, virtualization="N/A")},
    ),
    Row(
        "passed-through-is-whole",
        "nvidia.mig_vgpu",
        PASS,
        "whole",
        {"nvidia-smi-q": smi_q(mig=NO_FABRIC, virtualization="Pass-Through")},
    ),
    *(
        Row(claim, "nvidia.mig_vgpu", status, found, {"nvidia-smi-q": said}, want=Want(mig=meant))
        for claim, status, found, said, meant in (
            ("all-split-alike", PASS, "MIG on all 2 GPUs that can", SPLIT, "any"),
            ("one-split", FAIL, "MIG on 1 of 2 GPUs", ONE_SPLIT, "any"),
            ("split-and-meant-whole", FAIL, "MIG on 2 of 2 GPUs", SPLIT, "off"),
            ("split-as-meant", PASS, "MIG on all 2", SPLIT, "on"),
            ("whole-and-meant-split", FAIL, "MIG on 0 of 2 GPUs", smi_q(), "on"),
            ("a-split-vgpu", UNKNOWN, "are vGPUs", SPLIT_VGPU, "any"),
        )
    ),
    *(
        Row(
            claim,
            "nvidia.mig_vgpu",
            status,
            "MIG on 1 of 2 GPUs",
            {"nvidia-smi-q": ONE_SPLIT, "containers": "kubelet:yes\n", "daemons": who},
            want=want,
        )
        for claim, status, who, want in (
            ("one-split-and-pods-are-given-each", PASS, "", Want()),
            ("one-split-and-meant-whole", FAIL, "", Want(mig="off")),
            ("one-split-and-slurm-gives-them", FAIL, daemons(SLURMD), Want()),
        )
    ),
    Row(
        "to-be-split",
        "nvidia.mig_vgpu",
        FAIL,
        "2 of them change at the next reset",
        {"nvidia-smi-q": smi_q(mig=("Disabled", "Enabled"))},
    ),
    Row(
        "a-vgpu",
        "nvidia.mig_vgpu",
        UNKNOWN,
        "2 of 2 GPUs are vGPUs",
        {"nvidia-smi-q": smi_q(virtualization="VGPU")},
    ),
    Row("no-nvidia-smi", "nvidia.mig_vgpu", UNKNOWN, "not there", {"nvidia-smi-q": ABSENT}),
    Row("no-switch", "nvidia.fabricmanager", NA, "no NVSwitch"),
    Row("runs", "nvidia.fabricmanager", PASS, "running", MANAGED, SWITCHED),
    Row(
        "runs-of-the-drivers-version",
        "nvidia.fabricmanager",
        PASS,
        f"version {DRIVER}, as the driver",
        {**MANAGED, "fabricmanager-version": f"Fabric Manager version is : {DRIVER}\n"},
        SWITCHED,
    ),
    Row(
        "of-another-version",
        "nvidia.fabricmanager",
        FAIL,
        f"fabric manager 580.95.05, driver {DRIVER}; not running",
        {"fabricmanager-version": "Fabric Manager version is : 580.95.05\n"},
        SWITCHED,
    ),
    Row(
        "of-another-version-and-running",
        "nvidia.fabricmanager",
        FAIL,
        f"fabric manager 580.95.05, driver {DRIVER}",
        {**MANAGED, "fabricmanager-version": "Fabric Manager version is : 580.95.05\n"},
        SWITCHED,
    ),
    Row("does-not-run", "nvidia.fabricmanager", FAIL, "does not run", board=SWITCHED),
    Row(
        "given-to-guests",
        "nvidia.fabricmanager",
        NA,
        "passed through",
        board=SWITCHED.but("0000:b0:00.0", driver="vfio-pci"),
    ),
    Row(
        "processes-are-hidden",
        "nvidia.fabricmanager",
        UNKNOWN,
        "processes of others are hidden",
        {"uid": "1000\n", "limits-now": ABSENT},
        SWITCHED,
    ),
    Row(
        "inside-a-container",
        "nvidia.fabricmanager",
        UNKNOWN,
        "inside a docker",
        {"virt": "docker\n"},
        SWITCHED,
    ),
    Row("not-read", "nvidia.fabricmanager", UNKNOWN, "permission", {"daemons": DENIED}, SWITCHED),
    Row(
        "says-no-version",
        "nvidia.fabricmanager",
        UNKNOWN,
        "cannot read",
        {"fabricmanager-version": "usage\n"},
        SWITCHED,
    ),
    Row("b200-without-umad", "nvidia.fabricmanager", FAIL, "ib_umad", MANAGED, of(0x2901)),
    Row(
        "b200-without-nvlsm",
        "nvidia.fabricmanager",
        FAIL,
        "and nvlsm does not",
        {**MANAGED, **UMAD},
        of(0x2901),
    ),
    Row("b200", "nvidia.fabricmanager", PASS, "running", {**SUBNET, **UMAD}, of(0x2901)),
    Row(
        "b200-in-a-guest",
        "nvidia.fabricmanager",
        NA,
        "may be the host's",
        {"cpu": GUEST_CPU},
        of(0x2901),
    ),
    Row("joined", "nvidia.fabric_state", PASS, "2 GPUs have joined"),
    Row(
        "healthy-there",
        "nvidia.fabric_state",
        PASS,
        "joined",
        {"nvidia-smi-q": smi_q(health=(("Summary", "Healthy"), ("Bandwidth", "Full")))},
    ),
    Row("none", "nvidia.fabric_state", NA, "no GPU", {"nvidia-smi-q": smi_q(fabric=NO_FABRIC)}),
    Row(
        "on-its-way",
        "nvidia.fabric_state",
        FAIL,
        "2 of 2 GPUs: In Progress",
        {"nvidia-smi-q": smi_q(fabric=("In Progress", "N/A"))},
    ),
    Row(
        "each-in-another-way",
        "nvidia.fabric_state",
        FAIL,
        "2 of 2 GPUs: In Progress, Not Started",
        {
            "nvidia-smi-q": "Not Started".join(
                smi_q(fabric=("In Progress", "N/A")).split("In Progress", 1)
            )
        },
    ),
    Row(
        "joined-in-vain",
        "nvidia.fabric_state",
        FAIL,
        "Completed System Not Ready",
        {"nvidia-smi-q": smi_q(fabric=("Completed", "System Not Ready"))},
    ),
    Row(
        "degraded",
        "nvidia.fabric_state",
        FAIL,
        "Bandwidth Degraded",
        {"nvidia-smi-q": smi_q(health=(("Bandwidth", "Degraded"), ("Route Unhealthy", "False")))},
    ),
    Row("hangs", "nvidia.fabric_state", UNKNOWN, "no answer", {"nvidia-smi-q": TIMEOUT}),
    Row(
        "one-of-two-is-cut-off",
        "nvidia.fabric_state",
        UNKNOWN,
        "1 of 2 GPUs",
        {"nvidia-smi-q": smi_q().split("GPU 00000000:9A")[0]},
    ),
    Row("driver-down", "nvidia.fabric_state", UNKNOWN, "9", {"nvidia-smi-q": failed(9)}),
    Row("one-node", "nvidia.imex", NA, "no NVLink that spans nodes"),
    Row("hgx-b200-is-one-node", "nvidia.imex", NA, "no NVLink that", JOINED, of(0x2901)),
    Row("rack", "nvidia.imex", PASS, "2 GPUs", {**JOINED, **IMEX}, of(0x2941)),
    Row("rack-without-a-domain", "nvidia.imex", NA, "no NVLink that spans", board=of(0x2941)),
    Row("not-running", "nvidia.imex", FAIL, "nvidia-imex does not run", JOINED, of(0x2941)),
    *(
        Row(claim, "nvidia.imex", NA, found, {**JOINED, "containers": told}, of(0x2941))
        for claim, found, told in (
            ("masked-as-the-dra-driver-demands", "is masked", "imex:masked\n"),
            ("of-a-compute-domain", "ComputeDomains", "imex:compute-domain\n"),
            (
                "slurm-gives-each-job-its-channel",
                "switch/nvidia_imex",
                "etc/slurm/slurm.conf:SwitchType = switch/nvidia_imex  # channels\n",
            ),
        )
    ),
    Row(
        "another-switch-of-slurm",
        "nvidia.imex",
        FAIL,
        "does not run",
        {**JOINED, "containers": "etc/slurm/slurm.conf:SwitchType=switch/hpe_slingshot\n"},
        of(0x2941),
    ),
    *(
        Row(
            claim,
            "nvidia.imex",
            status,
            found,
            {**JOINED, "daemons": daemons(), "containers": told},
            of(0x2941),
        )
        for claim, status, found, told in (
            ("pods-start-the-jobs", NA, "pods start the jobs", "kubelet:yes\n"),
            ("older-evidence-does-not-tell", NA, "tells of no kubelet", ""),
            ("nobody-starts-jobs", FAIL, "does not run", "kubelet:no\n"),
        )
    ),
    Row(
        "no-channel",
        "nvidia.imex",
        FAIL,
        "no channel",
        {**JOINED, **IMEX, "imex-channels": ""},
        of(0x2941),
    ),
    Row(
        "not-read",
        "nvidia.imex",
        UNKNOWN,
        "permission",
        {**JOINED, "imex-channels": DENIED, "daemons": daemons()},
        of(0x2941),
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_gpu(row: Row) -> None:
    holds(row)


@pytest.mark.parametrize("path", PeerPath)
def test_on_gb10_nothing_of_gpudirect_fails(path: PeerPath) -> None:
    unloaded = {"module-state": "", "nvidia-version": ABSENT, **named("NVIDIA GB10")}
    seen = Node(node(unloaded, board=of(0x2E12)))
    told = {each.id: each(seen, Want(path=path)).finding for each in ALL if each.of_gdr}
    assert {"path.selected", "acs.redirect"} <= set(told)
    for finding in told.values():
        assert finding.status is NA
        assert finding.found in {ONE_MEMORY, f"not part of the {path} path"}


def test_one_gpu_of_another_kind_beside_it_is_judged() -> None:
    board = BOARD.but(GPUS[0], ids=(0x10DE, 0x2E12))
    assert judged(Row("", "peermem.loaded", PASS, "", board=board)).status is PASS


def test_geforce_is_refused_by_the_driver_and_by_cuda() -> None:
    row = Row("", "gpu.class", FAIL, "", named("NVIDIA GeForce RTX 5090"), of(0x2B85))
    hint = judged(row).finding.hint
    assert "peermem" in hint
    assert "libcuda the export of a dma-buf" in hint


def test_what_a_split_gpu_loses_is_told() -> None:
    finding = judged(Row("", "nvidia.mig_vgpu", PASS, "", {"nvidia-smi-q": SPLIT})).finding
    assert "no peer-to-peer" in finding.details[0]


def test_the_gpu_that_differs_is_named_and_how_it_becomes_as_the_others() -> None:
    finding = judged(Row("", "nvidia.mig_vgpu", FAIL, "", {"nvidia-smi-q": ONE_SPLIT})).finding
    assert finding.details == (GPUS[0],)
    assert finding.hint == f"drain it, then nvidia-smi -i {GPUS[0]} -mig 0"
