"""What the probe reads of builds, on trees that are laid out by hand."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from toolkit.checks.kernel.rebuilding import HOOKS
from toolkit.evidence import Evidence, State
from toolkit.facts.modules.placed_files import REBUILD, HookFile
from toolkit.facts.node.node import Node
from toolkit.node.collect import probe_script

pytestmark = pytest.mark.shell

SHELLS = [("dash", "-s"), ("busybox", "sh", "-s"), ("bash", "-s")]
# Root without what makes it root for folders; others have no such rights anyway.
_SETPRIV = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search")
NO_RIGHTS = _SETPRIV if os.geteuid() == 0 else ()
RUNNING, NEWER = "6.8.0-60-generic", "6.8.0-64-generic"
LISTER = """\
#!/bin/sh
[ "$1" = /boot/initrd.img-6.8.0-64-generic ] && exit 1
echo usr/bin/sh
echo usr/lib/modules/6.8.0-60-generic/updates/dkms/mlx5_core.ko
echo usr/lib/modules/6.8.0-60-generic/kernel/drivers/net/virtio_net.ko
echo etc/modprobe.d/blacklist-ofed-modules.conf
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A node with OFED, two kernels, and what failed builds leave."""
    tree = tmp_path / "tree"
    for release in (RUNNING, NEWER):
        _file(tree / f"lib/modules/{release}/kernel/drivers/ib_core.ko")
        _file(tree / f"boot/vmlinuz-{release}")
        _file(tree / f"boot/initrd.img-{release}")
        _file(tree / f"boot/config-{release}", "CONFIG_MODVERSIONS=y\nCONFIG_FB=y\n")
    _file(tree / f"lib/modules/{RUNNING}/updates/dkms/ib_core.ko")
    _file(tree / "proc/sys/kernel/osrelease", f"{RUNNING}\n")
    _file(
        tree / f"lib/modules/{RUNNING}/config",
        'CONFIG_CC_VERSION_TEXT="x86_64-linux-gnu-gcc-12 (Ubuntu 12.3.0) 12.3.0"\n',
    )
    _file(tree / "etc/dkms/no-autoinstall")
    _file(tree / "etc/infiniband/openib.conf", "ONBOOT=no\n")
    head = f"DKMS make.log for nvidia-580.1 for kernel {NEWER} (x86_64)\n"
    noise = "  CC [M] error_inject.o\nnv.c:1: warning: x\n" * 2000
    _file(tree / "var/lib/dkms/nvidia/580.1/build/make.log", f"{head}{noise}make: *** x\n\n")
    _file(tree / "bin/lsinitramfs", LISTER)
    for name in ("gcc", "make", "x86_64-linux-gnu-gcc-12"):
        _file(tree / f"bin/{name}", "#!/bin/sh\necho 12.3.0\n")
    _file(tree / "bin/systemctl", "#!/bin/sh\necho ActiveState=failed\n")
    for each in (tree / "bin").iterdir():
        each.chmod(0o755)
    return tree


def _file(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def read(root: Path, shell: tuple[str, ...] = ("sh", "-s")) -> Evidence:
    settings = {"GDR_ROOT": str(root), "GDR_BIN": str(root / "bin"), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        shell, input=probe_script(), env=settings, capture_output=True, text=True, check=True
    )
    evidence = Evidence.parse(done.stdout)
    assert evidence.complete
    return evidence


@pytest.mark.parametrize("shell", SHELLS, ids=[shell[0] for shell in SHELLS])
def test_a_failed_build_is_read_by_its_telling_lines(root: Path, shell: tuple[str, ...]) -> None:
    evidence = read(root, shell)
    (log,) = Node(evidence).build_failures
    assert (log.module, log.version, log.kernel) == ("nvidia", "580.1", NEWER)
    assert log.lines[1:] == ("make: *** x", "make: *** x")
    assert len(evidence.text("dkms-failures")) < 400
    assert Node(evidence).autoinstall_off


@pytest.mark.parametrize("shell", SHELLS, ids=[shell[0] for shell in SHELLS])
def test_what_calls_dkms_for_a_new_kernel(root: Path, shell: tuple[str, ...]) -> None:
    assert Node(read(root, shell)).dkms_callers == ()
    hook, unit = "usr/lib/kernel/install.d/40-dkms.install", "usr/lib/systemd/system/dkms.service"
    wanted = root / "etc/systemd/system/multi-user.target.wants/dkms.service"
    _file(root / hook)
    _file(root / unit)
    wanted.parent.mkdir(parents=True)
    wanted.symlink_to(f"/{unit}")
    assert Node(read(root, shell)).dkms_callers == (
        f"/{hook}", f"/{unit}", "/etc/systemd/system/multi-user.target.wants/dkms.service",
    )  # fmt: skip


@pytest.mark.parametrize("shell", SHELLS, ids=[shell[0] for shell in SHELLS])
def test_the_initramfs_is_cut_down_to_what_counts(root: Path, shell: tuple[str, ...]) -> None:
    evidence = read(root, shell)
    image = Node(evidence).initramfs
    assert image is not None
    assert (image.kernel, list(image.modules)) == (RUNNING, ["mlx5_core"])
    assert image.configs == ("blacklist-ofed-modules.conf",)
    assert "usr/bin/sh" not in evidence.text("initramfs")
    # The other kernel's image is asked for too, and a refusal is not an empty one.
    assert evidence.frame("initramfs-next").state is State.FAILED


@pytest.mark.parametrize("shell", SHELLS, ids=[shell[0] for shell in SHELLS])
def test_what_was_built_after_the_image_is_named(root: Path, shell: tuple[str, ...]) -> None:
    image, folder = root / f"boot/initrd.img-{RUNNING}", root / f"lib/modules/{RUNNING}"
    for name in ("updates/dkms/mlx5_core.ko", "updates/dkms/other.ko", "kernel/mlx5_ib.ko"):
        _file(folder / name)
        os.utime(folder / name, (2000, 2000))
    for path, when in ((folder / "updates/dkms/ib_core.ko", 1000), (image, 1000)):
        os.utime(path, (when, when))
    found = Node(read(root, shell)).initramfs
    assert found is not None
    assert found.newer == {"mlx5_core"}
    assert list(found.modules) == ["mlx5_core"]


def test_without_ofed_no_initramfs_is_unpacked(root: Path) -> None:
    (root / f"lib/modules/{RUNNING}/updates/dkms/ib_core.ko").unlink()
    evidence = read(root)
    assert evidence.frame("initramfs").state is State.ABSENT


def test_a_lister_that_is_missing_is_no_empty_image(root: Path) -> None:
    (root / "bin/lsinitramfs").unlink()
    assert read(root).frame("initramfs").state is State.ABSENT


def test_every_kernels_options_and_the_compiler_that_it_names(root: Path) -> None:
    node = Node(read(root))
    assert node.kernel_configs[NEWER] == {"CONFIG_MODVERSIONS": "y"}
    assert node.kernel_compiler.command in node.tools
    assert node.tools == {"gcc", "make", "x86_64-linux-gnu-gcc-12"}
    assert node.gcc_major == 12


def test_a_kernel_whose_options_cannot_be_read_has_none(root: Path) -> None:
    (root / f"boot/config-{NEWER}").unlink()
    assert Node(read(root)).kernel_configs[NEWER] == {}


def test_openibd_is_asked_only_where_it_is(root: Path) -> None:
    assert Node(read(root)).openibd["ActiveState"] == "failed"
    assert Node(read(root)).openib_conf == {"ONBOOT": "no"}
    (root / "etc/infiniband/openib.conf").unlink()
    assert Node(read(root)).openibd == {}


def test_without_dkms_its_frames_are_absent(root: Path) -> None:
    for path in sorted((root / "var/lib/dkms").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (root / "var/lib/dkms").rmdir()
    evidence = read(root)
    assert evidence.frame("dkms-tree").state is State.ABSENT
    assert Node(evidence).build_failures == ()


@pytest.mark.parametrize("shell", SHELLS, ids=[shell[0] for shell in SHELLS])
def test_every_hook_of_ours_is_seen_and_whether_it_can_run(
    root: Path, shell: tuple[str, ...]
) -> None:
    assert Node(read(root, shell)).rebuild_hooks == {}
    plugin = "/usr/lib/python3.6/site-packages/dnf-plugins/post-transaction-actions.py"
    dnf5 = ("/usr/bin/dnf5", "/usr/lib64/libdnf5/plugins/actions.so")
    for path in (REBUILD, plugin, *dnf5, *(hook.path for hook in HOOKS)):
        _file(root / path[1:], "x")
    (root / REBUILD[1:]).chmod(0o755)
    (root / HOOKS[0].path[1:]).write_text("")
    _file(root / "etc/kernel/postinst.d/dkms", "not ours")
    expected = dict.fromkeys((plugin, *dnf5, *(hook.path for hook in HOOKS)), HookFile.TEXT)
    found = Node(read(root, shell)).rebuild_hooks
    assert found == expected | {REBUILD: HookFile.RUNS, HOOKS[0].path: HookFile.EMPTY}


@pytest.mark.parametrize("closed", ["etc/kernel", "etc/kernel/postinst.d", "usr/lib"])
def test_a_folder_that_cannot_be_looked_into_is_no_missing_hook(root: Path, closed: str) -> None:
    (root / closed).mkdir(parents=True)
    (root / closed).chmod(0o600)
    frame = read(root, (*NO_RIGHTS, "sh", "-s")).frame("rebuild-hooks")
    (root / closed).chmod(0o755)
    assert (frame.state, frame.source) == (State.DENIED, f"/{closed}/")
