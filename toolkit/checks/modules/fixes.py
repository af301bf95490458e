"""What would bring the modules of a kernel about: packages and commands, by distribution."""

from __future__ import annotations

import re

from toolkit.compat.reader import shipped
from toolkit.errors import NoEvidence, Unparsable, Unsupported, read_or
from toolkit.facts import distros
from toolkit.facts.boot.kernel import InstalledKernel
from toolkit.facts.distros import FAMILIES, UNKNOWN, Family
from toolkit.facts.gpu.driver import option_values
from toolkit.facts.modules.dkms import DkmsState
from toolkit.facts.modules.kernel_modules import ModuleFile
from toolkit.facts.modules.placed_files import REBUILD
from toolkit.facts.node.node import Node
from toolkit.facts.versions import Version


def files_of(node: Node, release: str, module: str = "") -> list[ModuleFile]:
    """The files of one kernel, or those that provide ``module``; OFED's before inbox ones."""
    name = module.replace("-", "_")
    at = f"/lib/modules/{release}/"
    found = [
        each
        for path, each in node.kernel_modules.items()
        if path.removeprefix("/usr").startswith(at) and name in {"", each.name}
    ]
    return sorted(found, key=lambda each: each.origin == "inbox")


def family_of(node: Node) -> Family:
    """Its row; UNKNOWN where it has none or does not tell."""
    try:
        return distros.family_of(node.distro)
    except (NoEvidence, Unparsable, Unsupported):
        return UNKNOWN


def by_family(node: Node, debian: str, rhel: str, suse: str = "") -> str:
    """What does it on the node's distribution; each of them where that is not known.

    :param suse: "" where it is the RHEL family's own.
    """
    steps = {"debian": debian, "rhel": rhel, "suse": suse or rhel}
    return steps.get(family_of(node).name) or " or ".join(dict.fromkeys(steps.values()))


def initramfs_again(node: Node, release: str) -> str:
    """The command that makes the initramfs of a kernel anew; each of them where it is not known."""
    row = family_of(node)
    rows = (row,) if row.initramfs else FAMILIES
    commands = (" ".join(each.initramfs).format(kernel=release) for each in rows)
    return " or ".join(dict.fromkeys(commands))


def initramfs_listed(node: Node, release: str) -> str:
    """The command that lists the initramfs of a kernel."""
    return by_family(node, f"lsinitramfs /boot/initrd.img-{release}", f"lsinitrd --kver {release}")


def menu_again(node: Node, rhel: str) -> str:
    """The command that makes the boot menu anew, or on RHEL the entry of a kernel."""
    row = family_of(node)
    own = rhel if row.grubby else " ".join(row.bootloader)
    return own or by_family(node, "update-grub", rhel, "grub2-mkconfig -o /boot/grub2/grub.cfg")


def reload(what: str = "peermem") -> str:
    """The step that takes loaded modules out and back in; the verb refuses what would hurt.

    :param what: "peermem", "rdma", "driver", or the name of a module.
    """
    stops = _STOPS.get(what, f"interrupts what uses {what}")
    return f"./invokew reload --hosts NODE --what {what} ({stops}; refused under a job)"


_STOPS = {
    "peermem": "interrupts registrations",
    "rdma": "interrupts all RDMA and the HCAs' net devices",
    "driver": "interrupts every use of the GPUs",
}


def build_again(node: Node, release: str) -> str:
    """The step that builds nvidia-peermem of DKMS again, aside: what works is not lost over it.

    DKMS's own --force deletes the last good build before it begins the next.
    """
    command = f"{REBUILD} --kernel {release} --peermem"
    there = read_or(lambda: node.can_rebuild, False)
    return command if there else f"./invokew provision --hosts NODE, then on NODE: {command}"


def headers_package(node: Node, release: str) -> str:
    """The package with the headers of a kernel; flavours of RHEL have their own."""
    return _package(family_of(node).headers, release)


def _package(name: str, release: str) -> str:
    flavour, version = _flavour(release)
    return name.format(kernel=release, flavour=flavour, version=version)


def _flavour(release: str) -> tuple[str, str]:
    """The flavour of a kernel of the RHEL family, and what its packages call the version."""
    version = release.partition("+")[0]
    if release.endswith("+64k"):
        return "64k-", version
    if release.endswith("+rt") or re.search(r"\.rt\d", release):
        return "rt-", version
    return ("uek-" if "uek." in release else ""), version


def fabric_manager_package(node: Node, driver: Version) -> str:
    """The package of the fabric manager that belongs to a driver.

    Source: canonical/apt-packaging-fabric-manager, NVIDIA/yum-packaging-fabric-manager.
    """
    branch = f"-{driver.numbers[0]}" if family_of(node).name == "debian" else ""
    return f"nvidia-fabricmanager{branch} in version {driver}"


def open_driver(node: Node) -> str:
    """The package with the open kernel modules, of the branch that is loaded.

    Source: Debian nvidia-open-kernel-dkms; Ubuntu nvidia-graphics-drivers; NVIDIA, driver
    installation guide.
    """
    branch = node.driver.version.numbers[0] if node.driver is not None else "BRANCH"
    package = family_of(node).open_driver.format(branch=branch)
    if package == "nvidia-open-kernel-dkms" and node.distro.id == "ubuntu":
        package = f"nvidia-driver-{branch}-server-open"
    return f"drain the node, install {package}; in use once the driver is loaded anew"


def registry_dwords(node: Node, *wanted: str) -> str:
    """The one line that gives the driver more of its registry keys and keeps those it has.

    nvidia takes one string: of two options lines the last alone counts. For hints alone: what
    is not known is left out of it.
    """
    words = read_or(
        lambda: " ".join(text for module, text in node.modprobe.options if module == "nvidia"), ""
    )
    there = option_values(words).get("RegistryDwords", "")
    keys = [each.strip() for each in there.split(";") if each.strip()]
    joined = "".join(f"{each};" for each in dict.fromkeys([*keys, *wanted]))
    return (
        "one line in modprobe.d, in place of any other NVreg_RegistryDwords: options nvidia "
        f'NVreg_RegistryDwords="{joined}"; then a new initramfs, drain the node, a reboot'
    )


def image_package(node: Node, release: str) -> str:
    """The packages with a kernel and its headers."""
    image = _package(family_of(node).image, release)
    return f"{image} and {headers_package(node, release)}"


def of_another_distribution(node: Node, release: str) -> str:
    """What says that a kernel is none of this node's distribution; "" where nothing does.

    The RHEL family writes the distribution into each release, and others never do.
    """
    tagged = re.search(r"\.(?:el|fc|amzn)\d", release) is not None
    family = family_of(node).name
    if (family == "rhel") != tagged and family:
        return f"{release} is named like no kernel of {node.distro.id}"
    return ""


def cannot_build(node: Node, release: str) -> str:
    """Why DKMS would fail to build OFED for a kernel, and the way out; "" for nothing known."""
    if not node.ofed_dkms or node.ofed.version is None:
        return ""
    row = shipped().will_not_compile("ofed", str(node.ofed.version), release)
    return f"{node.ofed} does not compile for {release}: {row.note}" if row else ""


def would_build(node: Node) -> str:
    """What DKMS would build for a new kernel: "nvidia/580.126.16, ..."; "" for nothing."""
    try:
        if node.autoinstall_off:
            return ""
        rows = {each.module: each.version for each in node.dkms if each.usable}
    except (NoEvidence, Unparsable):
        return ""
    return ", ".join(f"{module}/{version}" for module, version in rows.items())


def modules_hint(node: Node, kernel: InstalledKernel, package: str, what: str) -> str:
    """The one step that brings modules to a kernel that lacks them.

    :param package: DKMS name; "" where DKMS does not build them.
    :param what: how to call them there.
    """
    release = kernel.release
    if not package:
        return f"install the modules of {what} for {release}"
    rows = [each for each in node.dkms if each.module == package]
    here = [each for each in rows if each.kernel == release and each.state is DkmsState.BUILT]
    latest = (here or [each for each in rows if each.usable] or rows)[-1]
    command = f"dkms install {package}/{latest.version} -k {release}"
    if package == node.ofed_dkms and (newer := cannot_build(node, release)):
        return newer
    if _realtime(node, release):
        return f"boot a kernel without PREEMPT_RT: the driver does not build for {release}"
    if here or kernel.headers:
        return command
    return f"install {headers_package(node, release)}, then {command}"


def ofed_first(node: Node, kernel: InstalledKernel, hint: str) -> str:
    """The hint for what is built against OFED, where OFED itself is owed to that kernel too.

    Built before OFED, nvidia-peermem is a stub.
    """
    core = [path for path in kernel.modules if "/ib_core.ko" in path and "/kernel/" not in path]
    if not node.ofed_dkms or core or _realtime(node, kernel.release):
        return hint
    headers = f"install {headers_package(node, kernel.release)}, then "
    first = modules_hint(node, kernel, node.ofed_dkms, "OFED")
    return f"{first}; then {hint.removeprefix(headers)}"


def _realtime(node: Node, release: str) -> bool:
    return read_or(
        lambda: node.kernel_configs.get(release, {}).get("CONFIG_PREEMPT_RT") == "y", False
    )
