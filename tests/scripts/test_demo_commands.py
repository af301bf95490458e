"""The simulated nodes' own commands: each changes what the real one would, and no more."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import toolkit.demo
from tests.scripts.demo_nodes import KINDS, PEERMEM, SHELLS, Nodes, digest
from toolkit.demo.create import make_nodes
from toolkit.demo.nodes import UBUNTU_KERNEL, UBUNTU_NEWER

pytestmark = pytest.mark.shell

BIN = Path(toolkit.demo.__file__).with_name("bin")


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("demo")
    make_nodes(place, tuple(KINDS.values()))
    return place


@pytest.fixture(params=SHELLS)
def nodes(request: pytest.FixtureRequest, state: Path, tmp_path: Path) -> Nodes:
    return Nodes(state, tmp_path, request.param)


# --- modules ------------------------------------------------------------------------


def test_a_stub_is_refused_without_a_word_in_the_kernel_log(nodes: Nodes) -> None:
    node = nodes("stub")
    before = node.ok("dmesg")
    done = node.sh("modprobe nvidia-peermem")
    assert done.returncode == 1
    said = "modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument\n"
    assert done.stdout == said
    assert node.ok("dmesg") == before


@pytest.mark.parametrize(
    ("kind", "command", "words"),
    [
        (
            "healthy",
            "modprobe nosuch",
            f"modprobe: FATAL: Module nosuch not found in directory /lib/modules/{UBUNTU_KERNEL}",
        ),
        (
            "kernel",
            "modprobe nvidia-peermem",
            f"not found in directory /lib/modules/{UBUNTU_NEWER}",
        ),
        ("healthy", "modprobe -r ib_uverbs", "modprobe: FATAL: Module ib_uverbs is in use."),
        ("healthy", "modprobe", "missing parameters"),
        ("healthy", "modinfo nosuch", "modinfo: ERROR: Module nosuch not found."),
        ("healthy", "depmod 9.9.9", "could not open directory /lib/modules/9.9.9"),
        ("kernel", "nvidia-smi -L", "couldn't communicate with the NVIDIA driver"),
        ("healthy", "nvidia-smi --query-gpu=nosuch", 'Field "nosuch" is not a valid field'),
    ],
)
def test_what_cannot_be_done_is_refused_in_the_words_of_the_real_command(
    nodes: Nodes, kind: str, command: str, words: str
) -> None:
    done = nodes(kind).sh(command)
    assert done.returncode != 0
    assert words in done.stdout


def test_a_module_for_another_kernel_has_the_wrong_format(nodes: Nodes) -> None:
    node = nodes("kernel")
    target = f"lib/modules/{UBUNTU_NEWER}/updates/dkms"
    node.ok(f"mkdir -p $GDR_ROOT/{target} && cp $GDR_ROOT/{PEERMEM} $GDR_ROOT/{target}/ && depmod")
    assert "nvidia-peermem.ko:" in node.read(f"lib/modules/{UBUNTU_NEWER}/modules.dep")
    done = node.sh("modprobe nvidia-peermem")
    said = "modprobe: ERROR: could not insert 'nvidia_peermem': Exec format error\n"
    assert (done.returncode, done.stdout) == (1, said)
    assert f"version magic '{UBUNTU_KERNEL} SMP" in node.ok("dmesg")


def test_unloading_and_loading_again_leaves_things_as_they_were(nodes: Nodes) -> None:
    node = nodes("healthy")
    before = node.read("proc/modules")
    node.ok("modprobe -r nvidia-peermem")
    assert not node.loaded("nvidia_peermem")
    assert "nvidia_peermem" not in node.ok("lsmod")
    assert not (node.tree / "sys/module/ib_uverbs/holders/nvidia_peermem").is_symlink()
    node.ok("modprobe nvidia-peermem")
    assert node.read("proc/modules") == before
    assert (node.tree / "sys/module/nvidia/holders/nvidia_peermem").is_symlink()


def test_a_module_comes_with_what_it_needs_and_goes_with_what_nobody_needs(nodes: Nodes) -> None:
    node = nodes("healthy")
    node.ok("modprobe -r nvidia_peermem nvidia_drm nvidia_uvm nvidia_modeset nvidia")
    assert not node.loaded("nvidia")
    assert not (node.tree / "proc/driver/nvidia/version").exists()
    shown = node.ok("modprobe -n -v nvidia-peermem")
    assert [Path(line.split()[1]).stem for line in shown.splitlines()] == [
        "nvidia",
        "nvidia-peermem",
    ]
    node.ok("modprobe nvidia-peermem")
    assert node.loaded("nvidia")
    assert "Open Kernel Module for x86_64  570.124.06" in node.read("proc/driver/nvidia/version")


def test_show_depends_lists_every_file_in_loading_order(nodes: Nodes) -> None:
    lines = nodes("healthy").ok("modprobe --show-depends nvidia-peermem").splitlines()
    names = [Path(line.split()[1]).stem for line in lines]
    assert names[-1] == "nvidia-peermem"
    assert names.index("mlx_compat") < names.index("ib_core") < names.index("ib_uverbs")
    assert lines[-1] == f"insmod /{PEERMEM} "


def test_a_blacklist_binds_autoloading_alone(nodes: Nodes) -> None:
    node = nodes("healthy")
    node.write("etc/modprobe.d/site.conf", "blacklist nvidia-peermem\n")
    node.ok("modprobe -r nvidia-peermem && modprobe -b nvidia-peermem")
    assert not node.loaded("nvidia_peermem")
    node.ok("modprobe nvidia-peermem")
    assert node.loaded("nvidia_peermem")


def test_an_install_line_binds_everyone(nodes: Nodes) -> None:
    node = nodes("healthy")
    node.write("etc/modprobe.d/site.conf", "install nvidia-peermem /bin/false\n")
    done = node.sh("modprobe -r nvidia-peermem; modprobe nvidia-peermem")
    assert done.returncode == 1
    assert "Error running install command '/bin/false' for module nvidia_peermem" in done.stdout
    node.ok("modprobe -i nvidia-peermem")
    assert node.loaded("nvidia_peermem")


def test_soft_dependencies_come_along_and_may_fail(nodes: Nodes) -> None:
    node = nodes("healthy")
    node.ok("modprobe -r nvidia_peermem nvidia_drm nvidia_uvm nvidia_modeset nvidia")
    node.write("etc/modprobe.d/site.conf", "softdep nvidia pre: nosuch post: nvidia-peermem\n")
    assert node.ok("modprobe nvidia") == ""
    assert node.loaded("nvidia_peermem")


def test_configuration_is_merged_as_modprobe_d_says(nodes: Nodes) -> None:
    node = nodes("healthy")
    node.write("usr/lib/modprobe.d/a.conf", "blacklist from-usr\n")
    node.write("etc/modprobe.d/a.conf", "# over the one in /usr\nblacklist \\\n  from-etc\n")
    node.write("etc/modprobe.d/z.conf", "options nvidia NVreg_EnableStreamMemOPs=1")
    shown = node.ok("modprobe -c").splitlines()
    assert "blacklist from_etc" in shown
    assert "blacklist from_usr" not in shown
    assert shown.index("blacklist nouveau") < shown.index(
        "options nvidia NVreg_EnableStreamMemOPs=1"
    )
    node.ok("boot")
    assert "\nEnableStreamMemOPs: 1\n" in node.read("proc/driver/nvidia/params")


def test_modinfo_tells_fields_by_name_and_by_path(nodes: Nodes) -> None:
    node = nodes("healthy")
    assert node.ok("modinfo -F depends nvidia_peermem") == "nvidia,ib_uverbs\n"
    assert node.ok(f"modinfo -F version $GDR_ROOT/{PEERMEM}") == "570.124.06\n"
    assert node.ok(f"modinfo /{PEERMEM}").startswith(f"filename:       /{PEERMEM}\n")


# --- users, and what is shared -------------------------------------------------------------


def test_an_ordinary_user_may_look_and_not_touch(nodes: Nodes) -> None:
    node = nodes("healthy")
    node.write(".node/user", "ops\n")
    assert node.ok("id -u; id -un") == "1000\nops\n"
    assert node.sh("sudo -n true").stdout == "sudo: a password is required\n"
    assert "Operation not permitted" in node.sh("modprobe -a rdma_ucm").stdout
    before = digest(node.tree)
    for command in ("dkms autoinstall", "update-grub", "depmod", "reboot", "update-initramfs -u"):
        assert node.sh(command).returncode != 0
    assert digest(node.tree) == before


def test_root_may_use_sudo(nodes: Nodes) -> None:
    node = nodes("healthy")
    assert node.ok("sudo -n -- id -u") == "0\n"
    assert node.ok("echo 'echo hi' | sudo -n sh -s") == "hi\n"


@pytest.mark.parametrize("kind", ["kernel", "rocky"])
def test_what_happens_on_one_node_is_not_seen_on_its_siblings(
    nodes: Nodes, state: Path, kind: str
) -> None:
    sibling = state / "nodes" / KINDS[kind] / "tree"
    before = digest(sibling)
    node = nodes(kind)
    node.ok("dkms autoinstall && depmod && modprobe -r rdma_ucm && systemctl daemon-reexec")
    change = "grubby --update-kernel=ALL --args=iommu=pt && dracut -f"
    node.ok(change if kind == "rocky" else "update-grub 2>&1 && update-initramfs -u")
    node.ok("reboot")
    assert digest(sibling) == before


@pytest.mark.parametrize("sh", SHELLS)
def test_commands_are_for_simulated_nodes_alone(tmp_path: Path, sh: str) -> None:
    command = [*sh.split(), str(BIN / "depmod")]
    nowhere = {"GDR_BIN": str(BIN), "GDR_ROOT": str(tmp_path), "PATH": os.environ["PATH"]}
    done = subprocess.run(command, env=nowhere, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "depmod: GDR_ROOT names no simulated node\n")


def test_every_command_is_clean_under_shellcheck() -> None:
    scripts = sorted(str(path) for path in BIN.iterdir())
    root = BIN.parents[2]
    done = subprocess.run(
        ["shellcheck", "-x", "-P", str(root), *scripts], capture_output=True, text=True, check=False
    )
    assert done.stdout == ""


def test_whoever_simulates_a_node_is_its_root_to_stat_and_chown(nodes: Nodes) -> None:
    node = nodes("healthy")
    node.write("etc/ours", "text\n")
    told = node.ok("stat -c '%a %u %g %U' $GDR_ROOT/etc/ours && chown 0:0 $GDR_ROOT/etc/ours")
    assert told.split() == ["644", "0", "0", "root"]
    assert node.sh("chown 0:0 $GDR_ROOT/etc/not-there").returncode == 1
