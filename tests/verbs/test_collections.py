"""Collections of support tools are one node each: nvidia-bug-report, sosreport, sysinfo-snapshot.

Composed as their scripts do it: nvidia-bug-report.sh, append and report_command; sosreport/sos,
_mangle_command; Mellanox/linux-sysinfo-snapshot, add_txt_command_output; NVIDIA/gpu-operator
hack/must-gather.sh.
"""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

import pytest

from toolkit.errors import UsageError
from toolkit.evidence import Evidence
from toolkit.facts.node.node import Node
from toolkit.facts.text.foreign import Foreign
from toolkit.verbs import saved
from toolkit.verbs.saved import read_saved

RULE = "_" * 44
MATRIX = "\tGPU0\tNIC0\tCPU Affinity\nGPU0\t X \tPIX\t0-31\nNIC0\tPIX\t X \t\n"
LSPCI = "18:00.0 3D controller [0302]: NVIDIA Corporation Device [10de:2330] (rev a1)\n"
VERBOSE = f"0000:{LSPCI}\tLnkSta: Speed 32GT/s, Width x16\n"
UNAME = "Linux gpu01 6.8.0-45-generic #45-Ubuntu SMP x86_64 GNU/Linux\n"
CMDLINE = "BOOT_IMAGE=/boot/vmlinuz-6.8 ro iommu=pt\n"
NVRM = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\n"
XID = "NVRM: Xid (PCI:0000:91:00): 79, pid=1, name=x, GPU has fallen off the bus.\n"
DMESG = "[   31.832683] nvidia: loading\n"


def section(heading: str, text: str) -> str:
    return f"{RULE}\n\n{heading}\n\n{text}\n"


def file(path: str, text: str) -> str:
    return (
        f"{RULE}\n\n*** {path}\n*** ls: -r--r--r-- 1 root root 0 2026-11-27 10:00 {path}\n{text}\n"
    )


REPORT = (
    f"{RULE}\n\nStart of NVIDIA bug report log file.\n\nDate: x\nuname: {UNAME}\n"
    + file("/etc/issue", "Ubuntu 24.04 LTS \\n \\l\n")
    + file("/etc/os-release", 'NAME="Ubuntu"\nID=ubuntu\nVERSION_ID="24.04"\n')
    + f"{RULE}\n\n*** /proc/pci does not exist\n\n"
    + section("/usr/bin/lspci -nntv", "-[0000:00]-+-00.0  Intel\n")
    + section("/usr/bin/lspci -nn", LSPCI)
    + section("/usr/bin/lspci -nnDvvvxxxx", VERBOSE)
    + section(
        "Scanning kernel log files for NVIDIA kernel messages:", f"  journalctl -b -1:\n{XID}"
    )
    + section("dmesg:", DMESG)
    + file("/proc/cmdline", CMDLINE)
    + file(
        "/proc/modules", "nvidia 5420 1 nvidia_uvm, Live 0x0 (OE)\nnvidia_uvm 99999 0 - Live 0x0\n"
    )
    + file("/proc/driver/nvidia/version", NVRM + "GCC version:  gcc version 13\n")
    + section("/usr/bin/nvidia-smi --query", "==NVSMI LOG==\n\nDriver Version : 570.86.15\n")
    + "/usr/bin/nvidia-smi nvlink --status\n\nGPU 0: A (UUID: 1)\n\t Link 0: 25 GB/s\n\n"
    + section(
        "/usr/bin/systemctl status nvidia-fabricmanager.service",
        "● nvidia-fabricmanager.service - F\n  Loaded: loaded (/x; on)\n  Active: active (x)\n",
    )
    + f"{RULE}\n\nEnd of NVIDIA bug report log file.\n"
)


def read(source: Path, aside: list[Foreign] | None = None) -> dict[str, Evidence]:
    return dict(read_saved(source, aside))


def test_each_section_of_a_bug_report_is_read_as_what_its_command_prints(tmp_path: Path) -> None:
    (tmp_path / "nvidia-bug-report.log.gz").write_bytes(gzip.compress(REPORT.encode()))
    (evidence,) = read(tmp_path / "nvidia-bug-report.log.gz").values()
    frames = {key: frame.text.strip() for key, frame in evidence.frames.items()}
    assert frames["cmdline"] == CMDLINE.strip()
    assert frames["lspci"] == VERBOSE.strip(), "of several forms that which tells most"
    assert frames["dmesg"] == DMESG.strip(), "not what was found in logs of earlier boots"
    assert frames["nvlink-status"].startswith("GPU 0: A")
    assert " ".join(sorted(frames)) == (
        "cmdline dmesg lsmod lspci lspci-tree nvidia-smi-q nvidia-version nvlink-status os-release"
        " systemctl-status uname"
    )
    node = Node(evidence)
    assert node.kernel == "6.8.0-45-generic"
    assert node.driver is not None
    assert str(node.driver.version) == "570.86.15"
    assert node.lsmod is not None
    assert "nvidia_uvm" in node.lsmod


SOS = {
    "sos_commands/pci/lspci_-nnvv": VERBOSE,
    "sos_commands/pci/lspci": LSPCI,
    "sos_commands/kernel/uname_-a": UNAME,
    "sos_commands/kernel/dmesg": DMESG,
    "sos_commands/nvidia/nvidia-smi_topo_-m": MATRIX,
    "sos_commands/nvidia/nvidia-smi_-q": "==NVSMI LOG==\nDriver Version : 570.86.15\n",
    "sos_commands/nvidia/nvidia-smi_-q_-d_ECC": "==NVSMI LOG==\n" + "ECC\n" * 99,
    "sos_commands/infiniband/ibv_devinfo_-v": "hca_id:\tmlx5_0\n",
    "sos_commands/networking/ip_-s_link": "1: lo: <LOOPBACK>\n",
    "proc/cmdline": CMDLINE,
    "var/log/messages": XID * 99,
    "etc/fstab": "dkms/1: added\n",
}


def planted(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def tarred(folder: Path) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:xz") as made:
        made.add(folder, folder.name)
    return raw.getvalue()


SNAPSHOT = {
    "commands_txt_output/uname_a.txt": UNAME,
    "commands_txt_output/nvidiasmi_topo_m.txt": MATRIX,
    "commands_txt_output/dmesg": DMESG,
    "pcie_files/lspci_nnvvvxxx": VERBOSE,
    "status-log": "lspci: PASS\n",
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("name", "files", "keys"),
    [
        pytest.param(
            "sosreport-gpu01-2026-11-27-abcdefg",
            SOS,
            {
                "lspci",
                "uname",
                "dmesg",
                "nvidia-topology",
                "nvidia-smi-q",
                "ibv-devinfo",
                "cmdline",
            },
            id="sosreport",
        ),
        pytest.param(
            "sysinfo-snapshot-v3.7.9-gpu01",
            SNAPSHOT,
            {"uname", "nvidia-topology", "dmesg", "lspci"},
            id="sysinfo-snapshot",
        ),
    ],
)
def test_a_collection_is_one_node_read_by_the_names_in_it(
    name: str, files: dict[str, str], keys: set[str], packed: bool, tmp_path: Path
) -> None:
    folder = planted(tmp_path / name, files)
    if packed:
        (tmp_path / "x.tar.xz").write_bytes(tarred(folder))
    aside: list[Foreign] = []
    ((node, evidence),) = read(tmp_path / "x.tar.xz" if packed else folder, aside).items()
    assert (node, set(evidence.frames), aside) == (name, keys, [])
    assert evidence.frames["lspci"].text == VERBOSE
    if "nvidia-smi-q" in keys:
        assert "Driver Version" in evidence.frames["nvidia-smi-q"].text, "the whole, not a section"


def test_two_reports_of_a_must_gather_are_two_nodes(tmp_path: Path) -> None:
    for host in ("gpu01", "gpu02"):
        path = tmp_path / f"nvidia-bug-report_{host}.log.gz"
        path.write_bytes(gzip.compress(REPORT.encode()))
    (tmp_path / "gpu_operand_ds.status").write_text("NAME DESIRED\n")
    aside: list[Foreign] = []
    assert set(read(tmp_path, aside)) == {
        "nvidia-bug-report_gpu01",
        "nvidia-bug-report_gpu02",
    }
    assert [each.name for each in aside] == ["gpu_operand_ds.status"]


def test_the_network_operators_report_has_a_node_in_each_files_name(tmp_path: Path) -> None:
    top = tmp_path / "network-operator-sosreport-20260828"
    pod = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: x\nspec: {}\nstatus: {}\n"
    link = "link mlx5_0/1 state {} physical_state {} netdev ens1np0 \n"
    said = {
        "ofed-driver/diagnostics/gpu-01-rdma_link.txt": link.format("ACTIVE", "LINK_UP"),
        "ofed-driver/diagnostics/gpu-01-lsmod.txt": "mlx5_core 2318336  1 mlx5_ib\n",
        "ofed-driver/diagnostics/gpu-01-diagnostic_status.txt": "lsmod   SUCCESS\n",
        "ofed-driver/diagnostics/gpu-02.lan-rdma_link.txt": link.format("DOWN", "POLLING"),
        "ofed-driver/diagnostics/gpu-02.lan-dmesg.txt": DMESG,
        "nv-ipam-node/pods/nv-ipam-node-7x.yaml": pod,
    }
    for name, text in said.items():
        path = top / "operator/components" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    nodes = read(top)
    assert {name: set(evidence.frames) for name, evidence in nodes.items()} == {
        "gpu-01": {"rdma-link"},
        "gpu-02.lan": {"rdma-link", "dmesg"},
    }


def test_folders_in_a_folder_are_entered_and_links_are_not(tmp_path: Path) -> None:
    planted(tmp_path / "case", {"a/b/topo.txt": MATRIX, "log/kern": DMESG, ".git/x": UNAME})
    planted(tmp_path / "other", {"x": UNAME})
    (tmp_path / "case/a/linked").symlink_to(tmp_path / "other")
    (tmp_path / "case/a/file").symlink_to(tmp_path / "other/x")
    (tmp_path / "case/a/round").symlink_to(tmp_path / "case")
    ((name, evidence),) = read(tmp_path / "case").items()
    assert (name, set(evidence.frames)) == ("case", {"nvidia-topology", "dmesg"})


def test_folders_deeper_than_any_evidence_are_not_entered(tmp_path: Path) -> None:
    planted(tmp_path, {"topo.txt": MATRIX, "/".join("x" * 9) + "/kern": DMESG})
    assert [set(each.frames) for each in read(tmp_path).values()] == [{"nvidia-topology"}]


def test_a_folder_of_more_files_than_evidence_has_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved, "MANY_FILES", 2)
    planted(tmp_path, {"a/1": MATRIX, "a/2": DMESG, "b/3": UNAME})
    with pytest.raises(UsageError, match="more than 2 files"):
        read(tmp_path)
