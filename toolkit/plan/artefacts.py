"""Every file of ours that a node may have, in the order in which they build on each other."""

from __future__ import annotations

from collections.abc import Mapping

from toolkit.errors import NoEvidence, Unsupported
from toolkit.facts.distros import driver_source, every, with_systemd
from toolkit.facts.node.node import Node
from toolkit.facts.rdma.devices import OfedFlavour
from toolkit.plan.artefact import Artefact, Trigger
from toolkit.plan.artefacts_boot import ACS, BOOT
from toolkit.plan.artefacts_dkms import SIGNING, rebuilding
from toolkit.plan.artefacts_modules import MODULES, ORDER, dkms_may_build
from toolkit.plan.artefacts_ofed import OFED
from toolkit.want import PeerPath, Want

OWN_PACKAGE = "nvidia-peermem"

_LOAD = (Trigger.RELOAD_MODULES,)
_BUILD = (Trigger.BUILD_DKMS, Trigger.DEPMOD, Trigger.RELOAD_MODULES)
_UNBUILD = (Trigger.BUILD_DKMS, Trigger.DEPMOD)
_BUILT = ("peermem.file", "peermem.stub")
_HEADERS = ("kernel.headers",)


def always(_node: Node, _want: Want) -> Mapping[str, str] | None:
    """For files that every node may have."""
    return {}


def on_the_peermem_path(_node: Node, want: Want) -> Mapping[str, str] | None:
    """For files that DMA-BUF has no use for."""
    return {} if want.path is PeerPath.PEERMEM else None


def driver_waits_for_ofed(node: Node, want: Want) -> Mapping[str, str] | None:
    """Where the driver's own DKMS package builds nvidia-peermem, and OFED is there.

    :raises Unsupported: where OFED is not by DKMS, so that DKMS cannot wait for it.
    """
    package = node.driver_dkms
    if want.path is not PeerPath.PEERMEM or not package or node.peermem_dkms != package:
        return None
    dkms_may_build(node, want)  # raises where another owner would build it
    if node.ofed.flavour is OfedFlavour.INBOX:
        return None
    if not node.ofed_dkms:
        raise Unsupported(
            f"{node.ofed.flavour} is not by DKMS, so the DKMS package {package} cannot wait for it",
            hint="install OFED's kernel modules as its DKMS package",
        )
    return {"package": package, "ofed_dkms": node.ofed_dkms}


def peermem_on_its_own(node: Node, want: Want) -> Mapping[str, str] | None:
    """Where no other DKMS package builds nvidia-peermem: two owners of one module fight.

    :raises NoEvidence: where no driver is loaded whose version it could be built for.
    :raises Unsupported: where the driver's source is not on the node.
    """
    if want.path is not PeerPath.PEERMEM or node.peermem_dkms not in {"", OWN_PACKAGE}:
        return None
    if not dkms_may_build(node, want):
        return None
    if node.ofed.flavour is OfedFlavour.INBOX:
        return None
    if node.driver is None:
        raise NoEvidence("no driver is loaded, so its version is not known")
    version = str(node.driver.version)
    if version not in node.driver_sources:
        file = node.driver_file.filename if node.driver_file else ""
        fetch = driver_source(node.distro, version, file, node.arch)
        if node.driver_dkms:
            fetch = f"install {node.driver_dkms}, the driver's DKMS package, anew"
        raise Unsupported(
            f"the source of driver {version} is not below /usr/src, nvidia-peermem cannot be built",
            hint=f"{fetch}; or take the dmabuf path, which needs none",
        )
    return {
        "driver": version,
        "driver_dkms": node.driver_dkms,
        "ofed_dkms": node.ofed_dkms,
        "version": version,
    }


ARTEFACTS = (
    *SIGNING,  # first: what the same plan builds is signed by it
    *OFED,
    *MODULES,
    Artefact(
        "dkms.driver",
        "let DKMS build the driver after OFED",
        "/etc/dkms/{package}.conf",
        "dkms/driver.conf.j2",
        driver_waits_for_ofed,
        _BUILD,
        _BUILT,
        families=every,
        needs=_HEADERS,
        modules=("nvidia",),
    ),
    Artefact(
        "dkms.peermem",
        "let DKMS build nvidia-peermem, which no package of the driver does",
        "/usr/src/nvidia-peermem-{version}/dkms.conf",
        "dkms/peermem.conf.j2",
        peermem_on_its_own,
        _BUILD,
        _BUILT,
        families=every,
        needs=_HEADERS,
        removed=_UNBUILD,
        modules=("nvidia_peermem",),
    ),
    *(
        Artefact(
            f"dkms.peermem-{when}",
            title,
            f"/usr/src/nvidia-peermem-{{version}}/{when}-build.sh",
            f"dkms/{when}-build.sh.j2",
            peermem_on_its_own,
            _BUILD,
            _BUILT,
            families=every,
            needs=_HEADERS,
            removed=_UNBUILD,
            mode=0o755,
        )
        for when, title in (
            ("before", "look before that build whether it can end well"),
            ("after", "refuse a stub after that build"),
        )
    ),
    *rebuilding(driver_waits_for_ofed, peermem_on_its_own),
    Artefact(
        "modprobe.peermem",
        "load nvidia-peermem after the RDMA core and the driver",
        "/etc/modprobe.d/gdr-toolkit.conf",
        "modprobe/peermem.conf.j2",
        on_the_peermem_path,
        _LOAD,
        ("peermem.loaded", "peermem.bound"),
        families=every,
        needs=_BUILT,
        in_images=True,
    ),
    Artefact(
        "modules-load.peermem",
        "load nvidia-peermem at boot",
        "/etc/modules-load.d/gdr-toolkit.conf",
        "modules-load/peermem.conf.j2",
        on_the_peermem_path,
        _LOAD,
        ("peermem.autoload", "peermem.loaded", "peermem.loaded_vs_disk"),
        families=every,
        needs=_BUILT,
    ),
    *ORDER,
    *BOOT,
    *ACS,
    Artefact(
        "limits.logins",
        "let logins lock memory",
        "/etc/security/limits.d/gdr-toolkit.conf",
        "limits/memlock.conf.j2",
        always,
        (),
        ("rdma.memlock",),
        families=every,
    ),
    Artefact(
        "limits.services",
        "let services lock memory",
        "/etc/systemd/system.conf.d/gdr-toolkit.conf",
        "systemd/memlock.conf.j2",
        always,
        (Trigger.DAEMON_RELOAD,),
        ("rdma.memlock",),
        families=with_systemd,
        removed=(Trigger.DAEMON_RELOAD,),
    ),
)
