"""Captures with one meaning changed: the verdict follows, or falls silent; it never stays a pass.

And captures in another dress: what terminals, Windows and web pages do to a text changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import product

import pytest

from tests.corpus.expected import EXPECTED
from tests.corpus.known import CORPUS
from tests.corpus.table import TODAY
from tests.laws import sample
from toolkit.checks.check import Status
from toolkit.checks.judged import judge_node
from toolkit.errors import UsageError
from toolkit.facts.text.pasted_logs import evidence_of, frames_of
from toolkit.verbs.pasted_logs import decoded
from toolkit.want import Want

H100, XML, A100 = "h100x8_q_535.161.08.txt", "h100x8_xml_570.86.15.xml", "nvlink_s_a100_p4de.txt"
H200 = "nccllog/2.18.5_xe9680L_h200_gdrlevel_pix.txt"
DKMS = "dkms/dkms3x_mlnx_ofed_2510_and_nvidia580.txt"
AMD = "iommu/cmdline_dmesg_amd_passthrough.txt"
GDS = "gds/gdscheck_1.14_esc8000_good.txt"
END = r"\Z"
OFF = "tnasnt5:7:7 [0] NCCL INFO GPU Direct RDMA Disabled for HCA 0 'mlx5_0'\n"
# The file, the check that passes on it, and what becomes of which text, once.
BENDS = [
    ("topo/gke_a4_b200_8nic.txt", "pcie.distance", r"(?m)^(GPU3\s.*?)PIX", r"\1SYS"),
    ("ncclxml/oci_h100_dump_gdr1.txt", "nccl.log", r'maxconn="(\d+)" gdr="1"', r'gdr="0"'),
    ("lspci/xe9680_h100_gpu_block.txt", "pcie.link", r"Width x16 \(ok\)", "Width x8 (downgraded)"),
    ("lspci/xe9680_cx7_nic_block.txt", "pcie.link", r"Width x16 \(ok\)", "Width x8 (downgraded)"),
    ("lspci/esc8000_cx7_nic_block.txt", "pcie.link", r"(LnkSta:.*Width )x16", r"\1x4"),
    (f"nvsmi/{H100}", "pcie.bar1", "131072 MiB", "256 MiB"),
    (f"nvsmi/{H100}", "nvidia.fabric_state", ": Success", ": Insufficient Resources"),
    (f"nvsmi/{H100}", "gpu.ecc", r"(DRAM Uncorrectable\s+): 0", r"\1: 3"),
    (f"nvsmi/{H100}", "gpu.ecc", r"(DRAM Uncorrectable\s+): 0", r"\1: Unknown Error"),
    (f"nvsmi/{H100}", "nvidia.persistence", r"(Persistence Mode\s+): Enabled", r"\1: ERR!"),
    (f"nvsmi/{H100}", "nvidia.mig_vgpu", r"(MIG Mode\n\s+Current\s+): Disabled", r"\1: Enabled"),
    ("nvsmi/l40s_q_595.80.txt", "gpu.reset", r"(Recovery Action\s+): None", r"\1: Reboot"),
    (f"nvsmi/{XML}", "gpu.ecc", "<dram_uncorrectable>0", "<dram_uncorrectable>4"),
    (f"nvsmi/{XML}", "gpu.ecc", "<remapped_row_pending>No", "<remapped_row_pending>Yes"),
    (f"nvsmi/{XML}", "gpu.reset", "recovery_action>None", "recovery_action>GPU Reset"),
    (f"nvsmi/{XML}", "gpu.throttle", "thermal_slowdown>Not Active", "thermal_slowdown>Active"),
    (f"nvsmi/{XML}", "nvidia.fabric_state", "<status>Success", "<status>Failure"),
    (f"nvsmi/{XML}", "nvidia.fabric_state", "<route_unhealthy>N/A", "<route_unhealthy>True"),
    (f"nvsmi/{XML}", "pcie.bar1", "<total>131072 MiB", "<total>256 MiB"),
    (f"nvsmi/{XML}", "gpu.class", "<attached_gpus>8", "<attached_gpus>9"),
    (f"nvsmi/{XML}", "nvidia.confidential", r"(<cc_protected.*\n\s+<total>)0 MiB", r"\1ERR!"),
    (f"nvsmi/{XML}", "nvidia.mig_vgpu", "<current_mig>Disabled", "<current_mig>Unknown Error"),
    (f"nvsmi/{A100}", "nvlink.links", END, "Segmentation fault (core dumped)\n"),
    ("lspci/a100_nn_list.txt", "gpu.class", END, "Killed\n"),
    ("lspci/a100_nn_list.txt", "gpu.class", END, "command terminated with exit code 137\n"),
    ("ib/ibdev2netdev_dgx1.txt", "rdma.port", END, "Connection to gpu7 closed by remote host.\n"),
    (f"nvsmi/{A100}", "nvlink.links", "Link 3: 25 GB/s", "Link 3: <inactive>"),
    (f"nvsmi/{A100}", "nvlink.links", r" +Link 11: 25 GB/s\n", ""),
    (H200, "nccl.log", "/GDRDMA", ""),
    (H200, "nccl.log", END, "NCCL WARN Call to ibv_reg_mr_iova2 failed with error x\n"),
    (H200, "nccl.log", END, "NCCL WARN Call to ibv_modify_qp failed with error Timed out\n"),
    (H200, "nccl.log", END, "NCCL WARN NET/IB : Got completion from peer x with status=12\n"),
    (H200, "nccl.log", END, "NCCL WARN NET/IB : mlx5_3:1 Got async event : port error\n"),
    (H200, "nccl.log", END, OFF),
    ("nccllog/2.9.9_p4d_efa_gdr.txt", "nccl.log", END,
     "NCCL WARN NET/OFI Request 0x1 completed with error. RC: 113. Error: unknown error\n"),
    ("nccllog/gke_a4_gib_plugin_gdr_on.txt", "nccl.log", "gIB/2/GDRDMA", "gIB/2"),
    ("ib/ibstat_h100_roce_all_active.txt", "rdma.port", "State: Active", "State: Initializing"),
    ("ib/ibv_devinfo_mlx4.txt", "rdma.port", r"PORT_ACTIVE \(4\)", "PORT_INIT (2)"),
    ("ib/ibdev2netdev_dgx1.txt", "rdma.port", r"\(Up\)", "(Down)"),
    (GDS, "gds.nvidia_fs", "verification succeeded", "verification failed"),
    (GDS, "gds.iommu", "IOMMU: disabled", "IOMMU: enabled"),
    (GDS, "gds.iommu", "IOMMU State: Disabled", "IOMMU State: Enabled"),
    ("ucx/fi_info_cxi_ok.txt", "libfabric.provider", "provider: cxi", "provider: tcp"),
    ("dcgm/dcgmi_diag_r2_p4de_pass.txt", "dcgm.diag", "Pass - All", "Fail - GPU: 3"),
    ("dcgm/dcgmi_diag_r2_p4de_pass.txt", "dcgm.diag", r"(Inforom\s+\| )Pass", r"\1Warn"),
    ("peermem/gdrcopy_sanity_pass.txt", "gdrcopy.driver", "Failed: 0", "Failed: 2"),
    ("peermem/lsmod_nvidia_fs_with_peermem.txt", "peermem.loaded", END,
     "$ modprobe nvidia-peermem\nmodprobe: ERROR: could not insert 'nvidia_peermem': x\n"),
    ("k8s/peermem_ctr_loaded_after_wait.txt", "peermem.loaded", "successfully loaded",
     "failed to load"),
    ("k8s/peermem_ctr_loaded_after_wait.txt", "peermem.loaded", END, "Caught signal\n"),
    (AMD, "iommu.passthrough", r"domain type: Passthrough.*", "domain type: Translated"),
    (AMD, "iommu.passthrough", "iommu=pt", ""),
    (DKMS, "dkms.state", "installed", "broken"),
    (DKMS, "dkms.state", "installed", "added"),
    ("dkms/nv_peer_mem_dkms_install_ok.txt", "dkms.last_failure", r"DKMS: install completed\.",
     "Error! Bad return status for module build on kernel: 4.4.0-142-generic (x86_64)"),
]  # fmt: skip


def statuses(text: str) -> dict[str, Status]:
    try:
        evidence = evidence_of(frames_of(text, "bent"))
    except UsageError:
        return {}
    verdicts = judge_node("bent", evidence, Want(), TODAY).verdicts
    return {each.check.id: each.status for each in verdicts}


def captured(file: str) -> str:
    return decoded((CORPUS / file).read_bytes())


@pytest.mark.parametrize(("file", "check", "old", "new"), BENDS)
def test_a_changed_meaning_takes_the_pass_away(file: str, check: str, old: str, new: str) -> None:
    text = captured(file)
    bent = re.sub(old, new, text, count=1)
    assert bent != text
    assert statuses(bent).get(check) is not Status.PASS


DRESSES: dict[str, Callable[[str], str]] = {
    "windows": lambda text: text.replace("\n", "\r\n"),
    "byte-order-mark": lambda text: f"\ufeff{text}",
    "colours": lambda text: f"\x1b[0m{text}".replace("\n", "\x1b[0m\n\x1b[1;32m"),
    "web-page": lambda text: text.replace("  ", "\u00a0 "),
    "sudo": lambda text: f"[sudo] password for admin: \n{text}",
}
READ = [file for file, case in EXPECTED.items() if not case.refused]


@pytest.mark.parametrize(("file", "dress"), sample([*product(READ, DRESSES)], "bent"))
def test_another_dress_changes_no_verdict(file: str, dress: str) -> None:
    told = {Status.PASS, Status.FAIL}
    text = captured(file)
    plain, dressed = statuses(text), statuses(DRESSES[dress](text))
    for check, status in dressed.items():
        assert status not in told or status is plain[check], check


COUNTED = [
    f for f in READ if f.startswith(("nvsmi/", "topo/", "ncclxml/", "dcgm/", "redfishbios/"))
]


@pytest.mark.parametrize("file", COUNTED)
def test_a_cut_turns_no_failure_into_a_pass(file: str) -> None:
    """Of forms that tell their own end; of a list of equals any part looks whole."""
    lines = captured(file).split("\n")
    whole = statuses("\n".join(lines))
    failing = {check for check, status in whole.items() if status is Status.FAIL}
    for at in sample(range(1, len(lines), max(1, len(lines) // 40)), file):
        cut = statuses("\n".join(lines[:at]) + "\n")
        assert not [check for check in failing if cut.get(check) is Status.PASS], at
