"""Building modules and booting on simulated nodes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.scripts.demo_nodes import KINDS, PEERMEM, SHELLS, Node, Nodes
from toolkit.demo.create import make_nodes
from toolkit.demo.nodes import ROCKY_KERNEL, UBUNTU_KERNEL, UBUNTU_NEWER

pytestmark = pytest.mark.shell


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("demo")
    make_nodes(place, tuple(KINDS.values()))
    return place


@pytest.fixture(params=SHELLS)
def nodes(request: pytest.FixtureRequest, state: Path, tmp_path: Path) -> Nodes:
    return Nodes(state, tmp_path, request.param)


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


def test_acs_redirects_but_where_the_kernel_was_told(nodes: Nodes) -> None:
    node = nodes("acs")
    known = [line.split() for line in node.read(".node/acs").split("\n")[:-1]]
    address, path, _ = next(each for each in known if each[1].count("/") > 1)

    def controls() -> dict[str, int]:
        spaces = {a: node.tree / f"sys/bus/pci/devices/{a}/config" for a, _, _ in known}
        assert {len(each.read_bytes()) for each in spaces.values()} == {4096}
        return {a: each.read_bytes()[0x14E] for a, each in spaces.items()}

    assert set(controls().values()) == {0x1D}
    words = f'\\"pci=disable_acs_redir=0000:7f:00.0;{path}\\"'
    node.write("etc/default/grub.d/50-acs.cfg", f'GRUB_CMDLINE_LINUX="{words}"\n')
    node.ok("update-grub && boot")
    assert f"pci=disable_acs_redir=0000:7f:00.0;{path}" in node.read("proc/cmdline")
    assert controls() == dict.fromkeys(controls(), 0x1D) | {address: 0x11}
    node.ok("rm $GDR_ROOT/etc/default/grub.d/50-acs.cfg && update-grub && boot")
    assert set(controls().values()) == {0x1D}


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
    (node.tree / "etc/systemd/system.conf.d/rdma.conf").unlink()
    node.ok("systemctl daemon-reexec")
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


def test_what_the_initial_ram_disk_holds_is_loaded_whatever_lies_on_the_disk(nodes: Nodes) -> None:
    node = nodes("initramfs")
    image = f"/boot/initrd.img-{UBUNTU_KERNEL}"
    inbox, ofed = (
        f"usr/lib/modules/{UBUNTU_KERNEL}/{folder}/mlx5_core.ko\n"
        for folder in ("kernel/drivers/net/ethernet/mellanox/mlx5/core", "updates/dkms")
    )
    assert inbox in node.ok(f"lsinitramfs {image}")
    assert not node.loaded("nvidia_peermem")
    node.ok(f"update-initramfs -u -k {UBUNTU_KERNEL}")
    listed = node.ok(f"lsinitramfs {image}")
    assert ofed in listed
    assert inbox not in listed
    assert not node.loaded("nvidia_peermem")  # what is loaded stays until the next boot
    node.ok("reboot")
    assert node.loaded("nvidia_peermem")
