"""What the probe reads of RoCE ports, daemons and GPUs, from a small tree of files."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from toolkit.evidence import Evidence, State
from toolkit.facts.gpu.smi_health import raised
from toolkit.facts.nccl.containers import PerJob
from toolkit.facts.node.node import Node
from toolkit.facts.rdma.roce import Ecn, Qos
from toolkit.node.collect import probe_script

pytestmark = pytest.mark.shell

SHELLS = [
    pytest.param(("dash", "-s"), id="dash"),
    pytest.param(("busybox", "sh", "-s"), id="busybox"),
    pytest.param(("bash", "-s"), id="bash"),
]
PORT = "sys/class/infiniband/rocep1s0/ports/1"
# A bond on a VLAN of which the node lives itself; it comes first in the list of devices.
BOND = "sys/class/infiniband/mlx5_bond_0"
ZERO = "0000:0000:0000:0000:0000:0000:0000:0000"
FILES = {
    f"{PORT}/link_layer": "Ethernet",
    f"{PORT}/state": "4: ACTIVE",
    f"{PORT}/phys_state": "5: LinkUp",
    f"{PORT}/counters/link_downed": "12",
    f"{PORT}/counters/excessive_buffer_overrun_errors": "0",
    f"{PORT}/counters/port_rcv_data": "4711",
    f"{PORT}/hw_counters/out_of_sequence": "7",
    f"{PORT}/gids/0": "fe80:0000:0000:0000:a288:c2ff:fe00:0001",
    f"{PORT}/gids/1": "0000:0000:0000:0000:0000:ffff:0a00:0001",
    f"{PORT}/gids/2": ZERO,
    f"{PORT}/pkeys/0": "0xffff",
    f"{PORT}/pkeys/1": "0x0000",
    f"{PORT}/pkeys/3": "0x8001",
    f"{PORT}/pkeys/12": "0x8002",  # the firmware is not asked for all of them
    f"{PORT}/gid_attrs/types/0": "IB/RoCE v1",
    f"{PORT}/gid_attrs/types/1": "RoCE v2",
    f"{PORT}/gid_attrs/ndevs/1": "ens1np0",
    "sys/class/infiniband/rocep1s0/device/net/ens1np0/mtu": "9000",
    "sys/class/net/ens1np0/mtu": "9000",
    "sys/class/net/ens1np0/operstate": "up",
    "sys/class/net/ens1np0/ecn/roce_np/enable/3": "1",
    "sys/class/net/veth12ab/mtu": "1450",
    f"{BOND}/ports/1/link_layer": "Ethernet",
    f"{BOND}/ports/1/state": "4: ACTIVE",
    f"{BOND}/device/net/ens2f0/mtu": "1500",
    "sys/class/net/ens2f0/mtu": "1500",
    "sys/class/net/ens2f0/upper_bond0/mtu": "1500",
    "sys/class/net/bond0/upper_bond0.100/mtu": "1500",
    "proc/net/route": "Iface\tDestination\tGateway\nbond0.100\t00000000\t0100000A",
    "sys/fs/selinux/enforce": "1",
    "dev/nvidia-caps-imex-channels/channel0": "",
    "proc/7/comm": "slurmd",
    "proc/7/limits": (
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max locked memory         unlimited            unlimited            bytes     "
    ),
    "proc/8/comm": "bash",
    "var/log/audit/audit.log": (
        "type=AVC msg=audit(1763700000.123:4): avc:  denied  { open } for pid=1 "
        "tcontext=system_u:object_r:infiniband_device_t:s0\n"
        "type=AVC msg=audit(1763700000.124:5): avc:  denied  { open } for pid=1 comm=ls"
    ),
}
MLNX_QOS = """#!/bin/sh
[ "$*" = '-i ens1np0' ] || exit 1
printf 'Priority trust state: dscp\\nPFC configuration:\\n\\tpriority    0   1\\n'
printf '\\tenabled     0   0   0   1   0   0   0   0   \\n'
"""
SMI = """#!/bin/sh
[ "$1" = -q ] || exit 2
cat <<'END'
==============NVSMI LOG==============

Driver Version                         : 595.80
CUDA Version                           : 13.2

Attached GPUs                          : 1
GPU 00000000:01:00.0
    Product Name                       : NVIDIA L40S
    MIG Mode
        Current                        : N/A
        Pending                        : N/A
    Serial Number                      : 0
    GPU Recovery Action                : Drain and Reset
    PCI
        Bus                            : 0x01
        Device Id                      : 0x26B910DE
    Clocks Event Reasons
        HW Slowdown                    : Active
            HW Thermal Slowdown        : Active
        Sync Boost                     : Not Active
        SW Thermal Slowdown            : Not Active
    Clocks Event Reasons Counters
        HW Thermal Slowdown            : 17 us
    Conf Compute Protected Memory Usage
        Total                          : 0 MiB
        Used                           : 0 MiB
    FB Memory Usage
        Total                          : 46068 MiB
        Used                           : 0 MiB
    BAR1 Memory Usage
        Total                          : 65536 MiB
    ECC Errors
        Volatile
            DRAM Uncorrectable         : 3
    Remapped Rows
        Pending                        : Yes
    Temperature
        GPU Current Temp               : 64 C
    Fabric
        State                          : N/A
        Health
            Summary                    : N/A
    Processes                          : None
    Capabilities
        EGM                            : disabled
END
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("fabric")
    for path, text in FILES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(f"{text}\n")
    (root / "proc/driver/nvidia").mkdir(parents=True)  # else nvidia-smi is not asked
    (root / "proc/driver/nvidia/version").write_text("NVRM version\n")
    (root / "bin").mkdir()
    for name, text in (("mlnx_qos", MLNX_QOS), ("nvidia-smi", SMI)):
        (root / "bin" / name).write_text(text)
        (root / "bin" / name).chmod(0o755)
    return root


def probed(shell: tuple[str, ...], root: Path) -> Evidence:
    done = subprocess.run(
        (shutil.which(shell[0]) or shell[0], *shell[1:]),
        input=probe_script(),
        env={"GDR_ROOT": str(root), "GDR_BIN": str(root / "bin"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return Evidence.parse(done.stdout)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_roce_port_with_its_addresses_and_priorities(shell: tuple[str, ...], tree: Path) -> None:
    evidence = probed(shell, tree)
    node = Node(evidence)
    assert evidence.complete
    assert [(each.index, each.type, each.netdev) for each in sorted(node.gids, key=str)] == [
        (0, "IB/RoCE v1", ""),
        (1, "RoCE v2", "ens1np0"),
    ]
    assert ZERO not in evidence.text("rdma-gids")
    assert node.pkeys == {("rocep1s0", 1, 0): "0xffff", ("rocep1s0", 1, 3): "0x8001"}
    assert list(node.net_devices) == ["ens1np0", "ens2f0"]
    assert node.net_devices["ens1np0"].mtu == 9000
    assert node.qos_asked == {"ens1np0": "mlnx-qos"}
    assert node.qos("ens1np0") == Qos("dscp", (3,))
    assert node.roce_ecn == {"ens1np0": Ecn(frozenset({3}), frozenset())}
    assert [(each.netdevs, each.uppers) for each in node.rdma_devices] == [
        (("ens2f0",), ("bond0", "bond0.100")),
        (("ens1np0",), ()),
    ]


@pytest.mark.parametrize("shell", SHELLS)
def test_daemons_denials_and_gpus(shell: tuple[str, ...], tree: Path) -> None:
    evidence = probed(shell, tree)
    node = Node(evidence)
    assert evidence.text("daemons").startswith("7/comm:slurmd\n7/limits:Max locked memory")
    assert "bash" not in evidence.text("daemons")
    assert node.imex_channels == ("/dev/nvidia-caps-imex-channels/channel0",)
    assert node.selinux is True
    assert node.rdma_denials is not None
    assert len(node.rdma_denials) == 1
    (gpu,) = node.smi.gpus
    assert (gpu.name, gpu.device, gpu.memory_mib, gpu.bar1_mib) == (
        "NVIDIA L40S",
        0x26B9,
        46068,
        65536,
    )
    assert gpu.health.errors == (("DRAM Uncorrectable", "3"),)
    assert gpu.health.repairs == (("Remapped Rows, Pending", "Yes"),)
    assert gpu.health.recovery == (("GPU Recovery Action", "Drain and Reset"),)
    assert raised(gpu.health.clocks) == (
        ("HW Slowdown", "Active"),
        ("HW Thermal Slowdown", "Active"),
    )
    assert node.port_errors["rocep1s0", 1] == {
        "link_downed": 12,
        "excessive_buffer_overrun_errors": 0,
        "out_of_sequence": 7,
    }
    assert gpu.protected_mib == 0
    assert "Serial" not in evidence.text("nvidia-smi-q")
    assert "Current Temp" not in evidence.text("nvidia-smi-q")
    assert "EGM" not in evidence.text("nvidia-smi-q")


@pytest.mark.parametrize("shell", SHELLS)
def test_a_kubelet_and_who_brings_imex_to_each_job(
    shell: tuple[str, ...], tree: Path, tmp_path: Path
) -> None:
    here = Node(probed(shell, tree)).containers
    assert (here.kubelet, here.imex) == (False, frozenset())
    root = shutil.copytree(tree, tmp_path / "root", symlinks=True)
    for path, text in {
        "proc/9/comm": "kubelet\n",
        "etc/slurm/slurm.conf": "ClusterName=x\nSwitchType=switch/nvidia_imex\n",
        "var/lib/kubelet/plugins_registry/compute-domain.nvidia.com-0a1b-reg.sock": "",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    unit = root / "etc/systemd/system/nvidia-imex.service"
    unit.parent.mkdir(parents=True)
    unit.symlink_to("/dev/null")
    evidence = probed(shell, root)
    assert Node(evidence).containers.kubelet is True
    assert Node(evidence).containers.imex == frozenset(PerJob)
    assert "kubelet" not in evidence.text("daemons")
    shutil.rmtree(root / "proc/9")
    assert Node(probed(shell, root)).containers.kubelet is False
    (root / "var/lib/kubelet/config.yaml").write_text("")
    assert Node(probed(shell, root)).containers.kubelet is True


def test_without_a_roce_port_nobody_asks_for_priorities(tree: Path, tmp_path: Path) -> None:
    root = shutil.copytree(tree, tmp_path / "root")
    (root / PORT / "state").write_text("1: DOWN\n")
    (root / BOND / "ports/1/state").write_text("1: DOWN\n")
    frame = probed(("dash", "-s"), root).frame("mlnx-qos")
    assert (frame.state, frame.source) == (State.ABSENT, "mlnx_qos: no RoCE port is up")


def test_every_roce_port_that_is_up_is_asked(tree: Path, tmp_path: Path) -> None:
    root = shutil.copytree(tree, tmp_path / "root")
    second = root / "sys/class/infiniband/rocep2s0"
    shutil.copytree(root / PORT, second / "ports/1")
    (second / "device/net/ens3np0").mkdir(parents=True)
    evidence = probed(("dash", "-s"), root)
    assert Node(evidence).qos_asked == {"ens1np0": "mlnx-qos", "ens3np0": "mlnx-qos-2"}
    assert evidence.frame("mlnx-qos-2").state is State.FAILED


def test_a_node_that_lives_on_its_only_roce_port_is_asked_for_that_one(
    tree: Path, tmp_path: Path
) -> None:
    root = shutil.copytree(tree, tmp_path / "root")
    (root / PORT / "state").write_text("1: DOWN\n")
    frame = probed(("dash", "-s"), root).frame("mlnx-qos")
    assert (frame.state, frame.source) == (State.FAILED, "mlnx_qos -i ens2f0")


def test_nvidia_smi_is_not_asked_where_it_would_load_the_driver(tree: Path, tmp_path: Path) -> None:
    root = shutil.copytree(tree, tmp_path / "root")
    (root / "proc/driver/nvidia/version").unlink()
    (root / "bin/nvidia-smi").write_text(f"#!/bin/sh\ntouch {tmp_path}/asked\n")
    evidence = probed(("dash", "-s"), root)
    for key in ("nvidia-smi", "nvidia-topology", "nvidia-smi-q"):
        assert evidence.frame(key).state is State.ABSENT
        assert "would load the driver" in evidence.frame(key).source
    assert not (tmp_path / "asked").exists()


def test_nvidia_smi_of_a_pod_that_brings_the_driver_is_asked_where_the_node_has_none(
    tree: Path, tmp_path: Path
) -> None:
    root = shutil.copytree(tree, tmp_path / "root")
    pod = root / "run/nvidia/driver/usr/bin/nvidia-smi"
    pod.parent.mkdir(parents=True)
    (root / "bin/chroot").write_text(f'#!/bin/sh\ncd {root}"$1"/usr/bin && shift && exec ./"$@"\n')
    (root / "bin/chroot").chmod(0o755)
    shutil.copy(root / "bin/nvidia-smi", pod)
    shutil.copy("/bin/true", pod.with_name("true"))
    assert probed(("dash", "-s"), root).frame("nvidia-smi-q").source == "nvidia-smi -q"
    (root / "bin/nvidia-smi").unlink()
    frame = probed(("dash", "-s"), root).frame("nvidia-smi-q")
    assert (frame.state, frame.source) == (State.OK, "chroot /run/nvidia/driver nvidia-smi -q")
    (root / "bin/chroot").write_text("#!/bin/sh\nexit 125\n")  # who may not enter has no answer
    assert probed(("dash", "-s"), root).frame("nvidia-smi-q").state is State.ABSENT


def test_ibv_devinfo_is_not_asked_where_it_would_load_ib_core(tree: Path, tmp_path: Path) -> None:
    """The kernel loads net-pf-16-proto-20, which is ib_core, for whoever opens that socket."""
    root = shutil.copytree(tree, tmp_path / "root")
    (root / "bin/ibv_devinfo").write_text(f"#!/bin/sh\ntouch {tmp_path}/asked\n")
    (root / "bin/ibv_devinfo").chmod(0o755)
    assert probed(("dash", "-s"), root).frame("ibv-devinfo").state is State.OK
    (tmp_path / "asked").unlink()
    shutil.rmtree(root / "sys/class/infiniband")
    frame = probed(("dash", "-s"), root).frame("ibv-devinfo")
    assert (frame.state, frame.source) == (State.ABSENT, "ibv_devinfo, which would load ib_core")
    assert not (tmp_path / "asked").exists()
