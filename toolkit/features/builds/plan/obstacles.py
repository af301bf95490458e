"""What keeps a part from being built for a kernel, known before anything is tried.

Sources: NVIDIA/open-gpu-kernel-modules conftest.sh, Makefile and nvidia-peermem.Kbuild; dkms(8);
kernel/module/main.c, inherit_taint.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from toolkit.built.plan.model import Part
from toolkit.facts.distros import driver_source
from toolkit.facts.modules.build_env import Ground, GroundKernel
from toolkit.facts.modules.dkms import DkmsState
from toolkit.facts.modules.ofed import LEFTOVER
from toolkit.facts.versions import Version
from toolkit.features.builds.plan.wanted import (
    INBOX,
    P2P,
    ChosenPart,
    agrees,
    given_exports,
    installed_ofed,
)

_TOOLS = ("dkms", "make", "ld", "modprobe", "modinfo", "gzip", "base64", "sha256sum")
_ROOM_MB = {Part.OFED: 3000, Part.DRIVER: 1500}  # a build of theirs at its largest
_LITTLE_MB = 200
_GPL = {"GPL", "GPL v2", "GPL and additional rights", "Dual BSD/GPL", "Dual MIT/GPL"}
# From there on what a GPL module imports from a proprietary one taints it.
_INHERITS_TAINT = (5, 9)


class BuildObstacle(Struct, frozen=True):
    """What is so, in one sentence; what to do about it, in another."""

    found: str
    hint: str


def kernel_obstacle(
    ground: Ground, kernel: GroundKernel | None, release: str
) -> BuildObstacle | None:
    """What keeps everything from being built for a kernel."""
    if kernel is None or not kernel.headers:
        known = ", ".join(each for each in ground.releases if each != release)
        lacks = ", ".join(kernel.missing) if kernel else ""
        what = f"there are no headers of kernel {release}"
        if kernel and len(kernel.missing) < 4:
            what = f"the headers of kernel {release} are not whole: no {lacks}"
        has = f"; there are those of {known}" if known else ""
        return BuildObstacle(
            what, f"install linux-headers-{release} (kernel-devel on RPM systems){has}"
        )
    missing = [each for each in _TOOLS if each not in ground.tools]
    if missing:
        return BuildObstacle(
            f"what builds need is not there: {', '.join(missing)}",
            f"install the packages of {', '.join(missing)}",
        )
    if not kernel.compiler:
        named = kernel.compiler_named or "gcc"
        return BuildObstacle(
            "there is no compiler", f"install {named}, which {release} was built with"
        )
    if "clang" in kernel.compiler_named and "clang" not in ground.tools:
        return BuildObstacle(
            f"kernel {release} was built by clang, which is not there", "install clang and lld"
        )
    return None


def part_obstacle(
    ground: Ground, kernel: GroundKernel, chosen: ChosenPart, all_chosen: Sequence[ChosenPart]
) -> BuildObstacle | None:
    """What keeps one part from being built; None where it may be tried, and for what is given."""
    if chosen.given and chosen.part is Part.OFED:
        return _disagreement(ground, kernel) or _other_ofed(ground, kernel)
    if chosen.given:
        return _two_drivers(kernel) if chosen.part is Part.DRIVER else None
    if chosen.part is Part.OFED:
        stop = _no_ofed(ground, kernel, chosen)
    elif chosen.part is Part.DRIVER:
        stop = _real_time(kernel) or _no_driver(ground, chosen)
    elif chosen.part is Part.PEERMEM:
        stop = _real_time(kernel) or _no_peermem(ground, kernel, chosen)
    else:
        stop = _no_other(kernel, chosen, all_chosen)
    needs = _ROOM_MB.get(chosen.part, _LITTLE_MB)
    if stop is not None or ground.room_mb >= needs:
        return stop
    return BuildObstacle(
        f"{ground.room_mb} MB are free below /var/tmp, and a build of {chosen.package} may"
        f" take {needs} MB",
        "make room there",
    )


def _real_time(kernel: GroundKernel) -> BuildObstacle | None:
    if "y" not in {kernel.config.get(f"CONFIG_PREEMPT_RT{end}") for end in ("", "_FULL")}:
        return None
    return BuildObstacle(
        f"{kernel.release} is a real-time kernel, which the driver refuses",
        "build for a kernel without PREEMPT_RT",
    )


def _no_ofed(ground: Ground, kernel: GroundKernel, chosen: ChosenPart) -> BuildObstacle | None:
    release = kernel.release
    if chosen.version == INBOX:
        return BuildObstacle(
            f"kernel {release} does not export ib_register_peer_memory_client itself:"
            " without OFED nvidia-peermem would be a stub",
            "install OFED, or take the dma-buf path, which needs neither",
        )
    if (chosen.source is None or not ground.tree) and not chosen.asked:
        stop = _disagreement(ground, kernel)
        if stop is not None:
            return stop
    if chosen.source is None:
        wanted = f" {chosen.version}" if chosen.version else ""
        if not chosen.asked and (found := installed_ofed(kernel)) is not None:
            return BuildObstacle(
                f"{found.path} exports ib_register_peer_memory_client, and no Module.symvers"
                f" below /usr/src/ofa_kernel is that of it, nor is a source of OFED{wanted} there",
                "install the development package of that very OFED",
            )
        stub = "" if chosen.asked else ": nvidia-peermem would be a stub"
        return BuildObstacle(
            f"nothing exports ib_register_peer_memory_client for kernel {release}, and no source"
            f" of OFED{wanted} is below /usr/src{stub}",
            "install OFED's DKMS package there, or take the dma-buf path, which needs neither",
        )
    if not ground.tree:
        return BuildObstacle(
            f"{chosen.package}/{chosen.version} writes to /usr/src and calls update-alternatives"
            " as it is built: not done on a machine",
            "build it in a tree (--root), or let DKMS install it and build again",
        )
    return None


def _disagreement(ground: Ground, kernel: GroundKernel) -> BuildObstacle | None:
    """The driver's two searches for OFED; what they find must be one and the same."""
    search = ground.ofed.search(kernel.release, ground.arch)
    if search.kbuild == LEFTOVER:
        return BuildObstacle(
            f"a leftover, {LEFTOVER}, would be taken for OFED", f"rm -r {LEFTOVER}"
        )
    # Where conftest finds none at all, as on aarch64, the build's own view has the right one
    # in both places. Where it finds another, nobody knows which of the two is meant.
    # A kernel that has the interface itself is no second OFED: the body is there either way.
    named = "" if search.conftest.startswith("/lib/modules/") else search.conftest
    if named and ground.ofed.real(named) != ground.ofed.real(search.kbuild):
        return BuildObstacle(
            f"the driver's conftest takes {search.conftest} for kernel {kernel.release}, and its"
            f" Kbuild {search.kbuild or 'none'}",
            "remove the one that is out of date",
        )
    return None


def _other_ofed(ground: Ground, kernel: GroundKernel) -> BuildObstacle | None:
    """What is linked against is the OFED whose modules are installed, where any are."""
    found = installed_ofed(kernel)
    if found is None or agrees(given_exports(ground, kernel, Part.OFED), kernel):
        return None
    folder = ground.ofed.search(kernel.release, ground.arch).kbuild
    return BuildObstacle(
        f"{folder} is of another OFED than {found.path}: their symbol versions differ",
        f"install OFED for {kernel.release} anew, its modules and its development package",
    )


def _two_drivers(kernel: GroundKernel) -> BuildObstacle | None:
    """Two modules in the same folder: which of them modprobe takes cannot be seen here."""
    first = kernel.provider(P2P)
    if first is None:
        return None
    for each in kernel.exporters(P2P):
        beside = each.path.rpartition("/")[0] == first.path.rpartition("/")[0]
        if beside and (each.version, dict(each.crcs)) != (first.version, dict(first.crcs)):
            return BuildObstacle(
                f"{first.path} ({first.version}) and {each.path} ({each.version}) are both"
                f" installed for kernel {kernel.release}",
                "leave one of them installed, or name the driver: --driver VERSION",
            )
    return None


def _no_driver(ground: Ground, chosen: ChosenPart) -> BuildObstacle | None:
    if chosen.source is None:
        has = ", ".join(each.version for each in ground.sources if each.licence)
        wanted = f" {chosen.version}" if chosen.version else ""
        return BuildObstacle(
            f"no source of the driver{wanted} is below /usr/src",
            f"there are those of {has}" if has else "install the driver's DKMS package there",
        )
    if not chosen.source.builds:
        return BuildObstacle(
            f"/usr/src/{chosen.source.folder} is the driver's source and no DKMS package",
            "install the driver's modules, or its DKMS package",
        )
    if any(
        each.module == chosen.package
        and each.version == chosen.version
        and each.state is DkmsState.BROKEN
        for each in ground.builds
    ):
        return BuildObstacle(
            f"DKMS calls {chosen.package}/{chosen.version} broken: its source is gone in part",
            "install the driver's DKMS package anew",
        )
    # Its nvidia-uvm and nvidia-modeset link objects of C++ since 560.
    if "g++" not in ground.tools and Version(chosen.version).at_least(560):
        return BuildObstacle("g++ is not there", "install g++ (gcc-c++ on RPM systems)")
    return None


def _no_peermem(ground: Ground, kernel: GroundKernel, chosen: ChosenPart) -> BuildObstacle | None:
    if chosen.source is None or not chosen.source.peermem:
        hint = "install the driver's DKMS package, or its sources, in the version that is installed"
        driver = kernel.provider(P2P)
        if driver is not None and not any(
            (each.version, each.kernel) == (driver.version, kernel.release) and each.usable
            for each in ground.builds
        ):
            hint = driver_source(ground.distro, chosen.version, driver.path, ground.arch)
        return BuildObstacle(
            f"the source of nvidia-peermem {chosen.version or '(any version)'} is not below"
            " /usr/src: it comes with the driver's",
            hint,
        )
    return None


def _no_other(
    kernel: GroundKernel, chosen: ChosenPart, all_chosen: Sequence[ChosenPart]
) -> BuildObstacle | None:
    if chosen.source is None:
        return BuildObstacle(
            f"no source of {chosen.package} is below /usr/src",
            f"install the DKMS package of {chosen.package}",
        )
    source = next((each.source for each in all_chosen if each.part is Part.DRIVER), None)
    installed = (each.licence for each in kernel.providers if each.module == "nvidia")
    licence = source.licence if source else next(installed, "")
    recent = Version(kernel.release).numbers[:2] >= _INHERITS_TAINT
    if chosen.part is Part.NVIDIA_FS and licence and licence not in _GPL and recent:
        return BuildObstacle(
            f"nvidia-fs takes GPL-only symbols, and may not above a driver under {licence!r}",
            "install the driver's open modules",
        )
    return None
