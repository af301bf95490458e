"""The simulated nodes' own commands: each changes what the real one would, and no more."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

import toolkit.demo
from toolkit.demo.build import environment, make_nodes
from toolkit.demo.recipe import ROCKY_KERNEL, UBUNTU_KERNEL, UBUNTU_NEWER
from toolkit.demo.tree import clone

pytestmark = pytest.mark.shell

BIN = Path(toolkit.demo.__file__).with_name("bin")
KINDS = {"healthy": "demo1", "iommu": "demo2", "stub": "demo4", "kernel": "demo6", "rocky": "demo8"}
PEERMEM = f"lib/modules/{UBUNTU_KERNEL}/updates/dkms/nvidia-peermem.ko"


@dataclass(frozen=True)
class Node:
    """A clone of a small demo node, for one test to change."""

    place: Path

    @property
    def tree(self) -> Path:
        return self.place / "tree"

    def sh(self, script: str) -> subprocess.CompletedProcess[str]:
        """Run a line of sh on the node; errors go where output goes."""
        return subprocess.run(
            ["/bin/sh", "-c", script],
            env=environment(self.place),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    def ok(self, script: str) -> str:
        done = self.sh(script)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def read(self, path: str) -> str:
        return (self.tree / path).read_text()

    def write(self, path: str, text: str) -> None:
        (self.tree / path).parent.mkdir(parents=True, exist_ok=True)
        (self.tree / path).unlink(missing_ok=True)
        (self.tree / path).write_text(text)

    def loaded(self, module: str) -> bool:
        return (self.tree / "sys/module" / module).is_dir()


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("demo")
    make_nodes(place, tuple(KINDS.values()))
    return place


@pytest.fixture(params=["dash", "busybox sh"])
def shell(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Nodes:
    """Makes clones whose commands run under one shell."""

    def __init__(self, state: Path, tmp_path: Path, shell: str) -> None:
        self._state, self._tmp_path, self._shell = state, tmp_path, shell

    def __call__(self, kind: str) -> Node:
        source, place = self._state / "nodes" / KINDS[kind], self._tmp_path / kind
        place.mkdir()
        clone(source / "tree", place / "tree")
        (place / "bin").mkdir()
        program, _, word = self._shell.partition(" ")
        first = f"#!{shutil.which(program)} {word}".strip()
        for script in (source / "bin").iterdir():
            text = script.read_text()
            copy = place / "bin" / script.name
            copy.write_text(text.replace("#!/bin/sh", first, 1))
            copy.chmod(0o755)
        return Node(place)


@pytest.fixture
def nodes(state: Path, tmp_path: Path, shell: str) -> Nodes:
    return Nodes(state, tmp_path, shell)


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


# --- dkms -----------------------------------------------------------------------------


def rebuild(node: Node) -> None:
    node.ok("dkms build --force nvidia/570.124.06 && dkms install --force nvidia/570.124.06")


def test_rebuilding_the_driver_turns_a_stub_into_a_module(nodes: Nodes) -> None:
    node = nodes("stub")
    assert node.ok("dkms install nvidia/570.124.06").startswith("Module nvidia/570.124.06 already")
    rebuild(node)
    node.ok("modprobe nvidia-peermem")
    assert node.loaded("nvidia_peermem")


def test_what_dkms_builds_is_what_the_node_was_born_with(nodes: Nodes) -> None:
    node = nodes("healthy")
    folder = node.tree / PEERMEM
    born = {file.name: file.read_bytes() for file in folder.parent.glob("*.ko")}
    node.ok("dkms remove nvidia/570.124.06 --all")
    assert not folder.exists()
    ofed = "mlnx-ofed-kernel/24.10.OFED.24.10.2.1.8.1"
    node.ok(f"dkms unbuild {ofed} && dkms install {ofed} && dkms install nvidia/570.124.06")
    assert {file.name: file.read_bytes() for file in folder.parent.glob("*.ko")} == born


def test_without_ofed_in_sight_a_build_succeeds_and_gives_a_stub(nodes: Nodes) -> None:
    node = nodes("healthy")
    node.ok("rm -r $GDR_ROOT/usr/src/ofa_kernel")
    rebuild(node)
    assert node.ok("modinfo -F depends nvidia-peermem") == "\n"


def test_autoinstall_and_a_boot_heal_a_node_after_a_kernel_update(nodes: Nodes) -> None:
    node = nodes("kernel")
    node.ok("dkms autoinstall && boot")
    assert f"nvidia/570.124.06, {UBUNTU_NEWER}, x86_64: installed\n" in node.ok("dkms status")
    assert node.loaded("nvidia_peermem")
    symvers = node.read(f"usr/src/ofa_kernel/x86_64/{UBUNTU_NEWER}/Module.symvers")
    assert "\tib_register_peer_memory_client\t" in symvers


def test_a_dependency_that_is_not_installed_stops_a_build(nodes: Nodes) -> None:
    node = nodes("kernel")
    node.write("etc/dkms/nvidia.conf", 'BUILD_DEPENDS[0]="mlnx-ofed-kernel"\n')
    done = node.sh("dkms build nvidia/570.124.06")
    assert done.returncode == 13
    assert "due to missing BUILD_DEPENDS: mlnx-ofed-kernel" in done.stdout


def test_autoinstall_builds_dependencies_first_whatever_their_names(nodes: Nodes) -> None:
    node = nodes("kernel")
    node.write("etc/dkms/mlnx-ofed-kernel.conf", "BUILD_DEPENDS=(nvidia)\n")
    said = node.ok("dkms autoinstall")
    order = re.findall(r"Autoinstall of module ([a-z-]+)/", said)
    assert order == ["nvidia", "mlnx-ofed-kernel"]


def test_without_headers_nothing_is_built(nodes: Nodes) -> None:
    node = nodes("kernel")
    node.ok(f"rm $GDR_ROOT/lib/modules/{UBUNTU_NEWER}/build")
    done = node.sh("dkms install nvidia/570.124.06")
    assert done.returncode == 21
    assert f"Your kernel headers for kernel {UBUNTU_NEWER} cannot be found" in done.stdout


def test_nvidia_peermem_as_a_package_of_its_own(nodes: Nodes) -> None:
    node = nodes("stub")
    conf = (
        'PACKAGE_NAME="nvidia-peermem"\nPACKAGE_VERSION="570.124.06"\n'
        'BUILT_MODULE_NAME[0]="nvidia-peermem"\nAUTOINSTALL="yes"\n'
        'BUILD_DEPENDS[0]="mlnx-ofed-kernel"\nBUILD_DEPENDS[1]="nvidia"\n'
    )
    node.write("usr/src/nvidia-peermem-570.124.06/dkms.conf", conf)
    node.ok("dkms install nvidia-peermem/570.124.06 && modprobe nvidia-peermem")
    assert f"nvidia-peermem/570.124.06, {UBUNTU_KERNEL}, x86_64: installed\n" in node.ok(
        "dkms status"
    )


@pytest.mark.parametrize(
    ("damage", "suffix"),
    [
        ("rm", " (Built modules are missing in the kernel modules folder)"),
        ("sed -i s/570/571/", " (Differences between built and installed modules)"),
    ],
)
def test_status_tells_of_damage(nodes: Nodes, damage: str, suffix: str) -> None:
    node = nodes("healthy")
    node.ok(f"{damage} $GDR_ROOT/{PEERMEM}")
    assert f"x86_64: installed{suffix}\n" in node.ok("dkms status -m nvidia")


# --- boot -------------------------------------------------------------------------------


def group_types(node: Node) -> set[str]:
    return {file.read_text().strip() for file in node.tree.glob("sys/kernel/iommu_groups/*/type")}


def test_a_grub_drop_in_counts_after_update_grub_and_a_reboot(nodes: Nodes) -> None:
    node = nodes("iommu")
    boot_id = node.read("proc/sys/kernel/random/boot_id")
    drop_in = 'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX iommu=pt"\n'
    node.write("etc/default/grub.d/60-gdr-toolkit.cfg", drop_in)
    node.ok("reboot")
    assert "iommu=pt" not in node.read("proc/cmdline")
    node.ok("update-grub")
    first = node.read("boot/grub/grub.cfg")
    node.ok("update-grub")
    assert node.read("boot/grub/grub.cfg") == first
    assert group_types(node) == {"DMA-FQ"}
    node.ok("reboot")
    assert "iommu=pt" in node.read("proc/cmdline").split()
    assert group_types(node) == {"identity"}
    assert node.read("proc/sys/kernel/random/boot_id") != boot_id


def test_without_an_iommu_there_are_no_groups(nodes: Nodes) -> None:
    node = nodes("healthy")
    node.write("etc/default/grub.d/60-site.cfg", "GRUB_CMDLINE_LINUX=intel_iommu=off\n")
    node.ok("update-grub && boot")
    assert not list(node.tree.glob("sys/kernel/iommu_groups/*"))
    assert not list(node.tree.glob("sys/class/iommu/*"))
    assert not list(node.tree.glob("sys/bus/pci/devices/*/iommu_group"))


def test_grubby_changes_every_entry_once(nodes: Nodes) -> None:
    node = nodes("rocky")
    change = 'grubby --update-kernel=ALL --args="iommu=pt intel_iommu=on" --remove-args=crashkernel'
    node.ok(f"{change} && {change}")
    info = node.ok("grubby --info=ALL")
    assert 'args="ro iommu=pt intel_iommu=on"\n' in info
    assert "iommu=pt" in node.read("etc/kernel/cmdline")
    assert "iommu=pt" in node.read("etc/default/grub")
    assert group_types(node) == {"DMA-FQ"}
    node.ok("reboot")
    assert group_types(node) == {"identity"}
    node.ok("grubby --update-kernel=ALL --remove-args=iommu=pt && reboot")
    assert group_types(node) == {"DMA-FQ"}


def test_grubby_knows_the_default_kernel(nodes: Nodes) -> None:
    node = nodes("rocky")
    assert node.ok("grubby --default-kernel") == f"/boot/vmlinuz-{ROCKY_KERNEL}\n"
    assert node.sh("grubby --set-default=/boot/vmlinuz-nosuch").returncode == 1
    entry = next(node.tree.glob("boot/loader/entries/*.conf"))
    text = entry.read_text().replace(ROCKY_KERNEL, "5.14.0-1.el9.x86_64")
    node.write("boot/loader/entries/older.conf", text)
    node.ok("grubby --set-default=/boot/vmlinuz-5.14.0-1.el9.x86_64")
    assert node.ok("grub2-editenv list") == "saved_entry=older\n"
    assert len(node.read("boot/grub2/grubenv")) == 1024


def test_memlock_limits_for_services_count_after_a_reboot(nodes: Nodes) -> None:
    node = nodes("iommu")
    assert re.search(r"Max locked memory +8388608 ", node.read("proc/1/limits"))
    drop_in = "etc/systemd/system.conf.d/60-gdr-toolkit.conf"
    node.write(drop_in, "[Manager]\nDefaultLimitMEMLOCK=infinity\n")
    node.ok("systemctl daemon-reload")
    assert "unlimited            unlimited            bytes" not in node.read("proc/1/limits")
    node.ok("systemctl daemon-reexec")
    assert re.search(r"Max locked memory +unlimited ", node.read("proc/1/limits"))


def test_modules_load_d_loads_at_boot_and_forgives(nodes: Nodes) -> None:
    node = nodes("rocky")
    assert not node.loaded("nvidia_peermem")
    node.write("etc/modules-load.d/nvidia-peermem.conf", "# ours\nnosuch\nnvidia-peermem\n")
    node.ok("reboot")
    assert node.loaded("nvidia_peermem")


@pytest.mark.parametrize(
    ("kind", "command", "image"),
    [
        ("healthy", "update-initramfs -u -k all", f"boot/initrd.img-{UBUNTU_KERNEL}"),
        ("rocky", f"dracut -f --kver {ROCKY_KERNEL}", f"boot/initramfs-{ROCKY_KERNEL}.img"),
    ],
)
def test_the_initial_ram_disk_takes_up_modprobe_d(
    nodes: Nodes, kind: str, command: str, image: str
) -> None:
    node = nodes(kind)
    node.write("etc/modprobe.d/zz.conf", "softdep nvidia post: nvidia-peermem\n")
    node.ok(command)
    assert "softdep nvidia post: nvidia-peermem" in node.read(image)


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


def digest(tree: Path) -> str:
    """Of every path, and of what stands there."""
    found = hashlib.sha256()
    for folder, _, files in sorted(os.walk(tree)):
        for name in sorted(files):
            path = Path(folder, name)
            found.update(f"{path.relative_to(tree)}\n".encode())
            found.update(str(path.readlink()).encode() if path.is_symlink() else path.read_bytes())
    return found.hexdigest()


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


def test_commands_are_for_simulated_nodes_alone(tmp_path: Path, shell: str) -> None:
    command = [*shell.split(), str(BIN / "depmod")]
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
