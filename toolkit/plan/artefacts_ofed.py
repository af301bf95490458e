"""Files about OFED: that it is built for each kernel, found, loaded, and can be restarted.

OFED's own files are never edited. Names of its DKMS package: mlnx-ofed-kernel in the vendor's
debs, mlnx-ofa_kernel in its RPMs, doca-ofed in Ubuntu's archive.
"""

from __future__ import annotations

from collections.abc import Mapping

from toolkit.built.plan.model import PEERMEM
from toolkit.errors import NoEvidence, Unsupported
from toolkit.facts.distros import every, family_of, with_systemd
from toolkit.facts.modules.ofed import OFA
from toolkit.facts.node.node import Node
from toolkit.facts.rdma.devices import OfedFlavour
from toolkit.plan.artefact import Artefact, Trigger
from toolkit.want import Modules, PeerPath, Want

LINKS = "/etc/tmpfiles.d/gdr-toolkit.conf"
DROP_IN = "/etc/systemd/system/openibd.service.d/gdr-toolkit.conf"
PATCHES = (3, 4)  # the DKMS that looks for patches below /etc/dkms/NAME
# File names of OFED's core; what a version of it does not have is passed over by depmod.
OFED_MODULES = (
    "mlx_compat mlxfw mlxdevm auxiliary mlx5_core mlx5_ib ib_core ib_uverbs ib_umad ib_cm iw_cm "
    "rdma_cm rdma_ucm ib_ipoib"
)
_BOOT = (Trigger.DEPMOD, Trigger.REBUILD_INITRAMFS, Trigger.REBOOT)
_UNIT = (Trigger.DAEMON_RELOAD,)


def ofed_by_dkms(node: Node, _want: Want) -> Mapping[str, str] | None:
    """For OFED's own DKMS package."""
    if not node.ofed_dkms:
        return None
    patched = node.dkms_version.at_least(*PATCHES)
    vendor, _, rest = node.ofed_dkms.partition("-of")
    names = {"vendor": vendor, "rest": rest, "ofed_dkms": node.ofed_dkms}
    return names | {"patches": "yes" if patched else ""}


def precompiled_beside(node: Node, want: Want) -> Mapping[str, str] | None:
    """Where DKMS builds our nvidia-peermem and packages of modules bring one too, or may."""
    if want.path is not PeerPath.PEERMEM or want.modules is not Modules.DKMS:
        return None
    if node.peermem_dkms not in {"", PEERMEM} or node.ofed.flavour is OfedFlavour.INBOX:
        return None
    files = (path for kernel in node.kernels for path in kernel.modules)
    beside = any("/kernel/" in each and "peermem.ko" in each for each in files)
    return {} if beside or not node.driver_dkms else None


def ofed_before_inbox(node: Node, _want: Want) -> Mapping[str, str] | None:
    """Where DKMS put OFED's modules, all into one folder.

    :raises NoEvidence: where they are not on disk for the running kernel.
    :raises Unsupported: where they lie in several folders, as those of kmod packages do.
    """
    if node.ofed.flavour is OfedFlavour.INBOX or node.ofed.packaging:
        return None
    root = f"/lib/modules/{node.kernel}/"
    paths = [
        path.removeprefix("/usr").removeprefix(root)
        for kernel in node.kernels
        if kernel.release == node.kernel
        for path in kernel.modules
    ]
    core = [each for each in paths if "/ib_core.ko" in each and not each.startswith("kernel/")]
    if not core:
        raise NoEvidence(f"OFED's ib_core is not on disk for {node.kernel}")
    folder = core[0].rpartition("/")[0]
    if not any(each.startswith(f"{folder}/ib_uverbs.ko") for each in paths):
        if ofed_chosen(node):
            return None
        raise Unsupported(
            f"OFED's modules lie in several folders below {root}",
            hint="its packages order them in /etc/depmod.d/zz01-mlnx-ofa_kernel*.conf: reinstall",
        )
    return {"folder": folder, "modules": OFED_MODULES}


def ofed_chosen(node: Node) -> bool:
    """Whether modprobe takes all of OFED's modules, for the running kernel."""
    files = node.rdma_files.values()
    return bool(files) and all(each.origin == "out-of-tree" for each in files)


def image_with_ofed(node: Node, _want: Want) -> Mapping[str, str] | None:
    """Where only the initramfs, or what was loaded from it, is not as modprobe would have it."""
    if node.ofed.flavour is OfedFlavour.INBOX or not ofed_chosen(node):
        return None
    image = family_of(node.distro).initramfs_file.format(kernel=node.default_kernel)
    return {"image": image.removeprefix("/boot/")}


def openibd_with_peers(node: Node, want: Want) -> Mapping[str, str] | None:
    """Where openibd has failed: it cannot restart under nvidia_peermem."""
    if want.path is not PeerPath.PEERMEM or node.ofed.flavour is OfedFlavour.INBOX:
        return None
    unit = node.openibd
    if not unit or unit.get("LoadState") == "not-found":
        return None
    failed = unit["ActiveState"] == "failed"
    return {} if failed or DROP_IN in node.placed else None


def ofed_links_on_arm(node: Node, want: Want) -> Mapping[str, str] | None:
    """Kernels whose OFED the driver's conftest would not find."""
    if node.arch != "aarch64" or want.path is not PeerPath.PEERMEM:
        return None
    found = node.ofed_folders
    below = f"{OFA}/aarch64/"
    kernels = [each.removeprefix(below) for each in found.folders if each.startswith(below)]
    free = [
        each
        for each in sorted(kernels)
        if f"{OFA}/{each}" not in found.folders
        and found.links.get(f"{OFA}/{each}", below + each) == below + each
        and any(kernel.release == each for kernel in node.kernels)
    ]
    return {"kernels": " ".join(free)} if free else None


OFED = (
    Artefact(
        "ofed.links",
        "let the driver's conftest find OFED on ARM",
        LINKS,
        "ofed/link.conf.j2",
        ofed_links_on_arm,
        (Trigger.BUILD_DKMS,),
        ("ofed.headers_link",),
        families=every,
    ),
    Artefact(
        "ofed.dkms",
        "let DKMS build OFED for each kernel",
        "/etc/dkms/{vendor}-of{rest}.conf",  # so that the driver's is not taken for it
        "ofed/ofed.conf.j2",
        ofed_by_dkms,
        (Trigger.BUILD_DKMS, Trigger.DEPMOD),
        ("ofed.kernel_match",),
        families=every,
        needs=("kernel.headers",),
        modules=("mlx", "ib_", "iw_", "rdma_"),
    ),
    Artefact(
        "ofed.force",
        "let DKMS's nvidia-peermem take the place of a precompiled one",
        "/usr/share/dkms/modules_to_force_install/gdr-toolkit",
        "ofed/force-install.j2",
        precompiled_beside,
        (),
        ("peermem.file", "peermem.stub"),
        families=every,
        needs=("kernel.headers",),
    ),
    Artefact(
        "ofed.depmod",
        "let OFED's modules come before the kernel's own",
        "/etc/depmod.d/gdr-toolkit.conf",
        "depmod/ofed.conf.j2",
        ofed_before_inbox,
        _BOOT,
        ("modules.origin", "kernel.initrd_rdma"),
        families=every,
        removed=_BOOT,
    ),
    Artefact(
        "ofed.initramfs",
        "let the initramfs hold OFED's modules, or none",
        "/boot/{image}",
        "",
        image_with_ofed,
        (Trigger.REBUILD_INITRAMFS,),
        ("modules.origin", "kernel.initrd_rdma"),
        families=every,
        derived=True,
    ),
    Artefact(
        "openibd.peers",
        "take nvidia_peermem and nvidia_fs out before openibd unloads OFED",
        "/usr/lib/gdr-toolkit/openibd-peers",
        "openibd/peers.sh.j2",
        openibd_with_peers,
        (),
        ("ofed.openibd",),
        families=with_systemd,
        mode=0o755,
    ),
    Artefact(
        "openibd.unit",
        "do so whenever openibd stops, and bring them back when it starts",
        "/etc/systemd/system/gdr-toolkit-peers.service",
        "openibd/peers.service.j2",
        openibd_with_peers,
        _UNIT,
        ("ofed.openibd",),
        families=with_systemd,
        removed=_UNIT,
    ),
    Artefact(
        "openibd.drop-in",
        "let openibd start that unit",
        DROP_IN,
        "openibd/drop-in.conf.j2",
        openibd_with_peers,
        (*_UNIT, Trigger.REBOOT),
        ("ofed.openibd",),
        families=with_systemd,
        removed=_UNIT,
    ),
)
