"""Kernel modules that are delivered to nodes as they were built elsewhere.

The site asks for them by modules = "built". A module lies in a folder of ours that depmod
searches before the kernel's own; where DKMS builds a module of that name, two owners would
fight, so nothing is placed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from toolkit.built.plan.model import PEERMEM, Built, BuiltFile, Part
from toolkit.checks.kernel.builds import image_of
from toolkit.checks.kernel.forecast import forecast
from toolkit.errors import NotCollected, Unsupported, read_or
from toolkit.facts.boot.kernel import module_name
from toolkit.facts.distros import every, with_systemd
from toolkit.facts.modules.load_order import OURS
from toolkit.facts.modules.signature import MAGIC
from toolkit.facts.node.node import Node
from toolkit.plan.artefact import Artefact, Chooser, Delivered, Trigger, Values, never
from toolkit.plan.delivery import FOLDER, choose
from toolkit.want import Modules, PeerPath, Want

_PEERMEM_PATH = f"/lib/modules/{{kernel}}/{FOLDER}/{{file}}peermem.ko"
_OURS = re.compile(rf"/lib/modules/([^/]+)/{FOLDER}/[^/]+\.ko")
# Debian's packages load the module by the file's name: modprobe -i nvidia-current-peermem
_RENAMED = re.compile(r"modprobe\b.*\s(nvidia-[a-z0-9-]*)peermem\b")
SIGN = "name the site's key: --sign-key KEY --sign-cert CERTIFICATE"
TAKE_BACK = 'say modules = "built" in the site file, or take it back: ./invokew rollback'
_PROOFS = ("peermem.order",)
_DELIVERED = (
    *("peermem.file", "peermem.stub", "peermem.vermagic", "peermem.crc", "peermem.loadable"),
)
_UNIT = (Trigger.DAEMON_RELOAD,)
_NEEDS = ("peermem.file", "peermem.stub")


def kernel_of(path: str) -> str:
    """The kernel that a delivered module is for; "" for what is none."""
    found = _OURS.fullmatch(path)
    return found[1] if found else ""


def dkms_may_build(node: Node, want: Want) -> bool:
    """Whether nvidia-peermem is DKMS's on this node: it has one owner.

    :raises Unsupported: where the other owner is there already.
    """
    delivered = sorted(path for path in node.owned if kernel_of(path) and "peermem" in path)
    if want.modules is Modules.DKMS and delivered:
        raise Unsupported(
            f"{delivered[0]} was delivered as it was built; DKMS would be a second owner",
            hint=TAKE_BACK,
        )
    if want.modules is Modules.BUILT:
        _one_owner(node, node.peermem_dkms, PEERMEM)
    return want.modules is Modules.DKMS


def still_of_use(path: str, node: Node, want: Want) -> bool:
    """Whether a delivered module stays although the plan does not ask for it.

    A kernel that can still be booted keeps what it was given, until it is gone itself.
    """
    kernel, name = kernel_of(path), path.rpartition("/")[2].removesuffix(".ko")
    if not kernel or (want.path is not PeerPath.PEERMEM and "peermem" in name):
        return False
    if want.modules is Modules.BUILT and "peermem" not in name and name not in want.companions:
        return False
    return any(each.release == kernel and each.image for each in node.kernels)


def _one_owner(node: Node, package: str, module: str) -> None:
    """:raises Unsupported: where DKMS knows a package that builds the module."""
    for each in [each for each in node.dkms if each.module == package][-1:]:
        raise Unsupported(
            f"the DKMS package {package} builds {module} here, and a module has one owner",
            hint='let DKMS build it (modules = "dkms"), or: '
            f"dkms remove {package}/{each.version} --all",
        )


def _other_file(node: Node, path: str, kernel: str, module: str) -> None:
    """Two files of one name below updates: which of them loads is depmod's whim.

    :raises Unsupported: where such a file lies there already.
    """
    if path in node.placed and path not in node.owned:
        raise Unsupported(
            f"{path} was not placed by provision: a package has it, or somebody else",
            hint="leave it to that package, or remove the package first",
        )
    files = _files(node, kernel)
    beside = _of_the_driver(node, kernel)
    if kernel == node.kernel:  # nvidia-fs and gdrdrv are told by modinfo alone
        files += [each.filename.removeprefix("/usr") for each in node.companion_modules.values()]
    for each in files:
        own = "/kernel/" in each or each in {path, beside}
        if module_name(each) == module and not own:
            raise Unsupported(
                f"{each} is there, and a module has one owner",
                hint="remove it with the package that brought it",
            )


def _files(node: Node, kernel: str) -> list[str]:
    kernels = (each for each in node.kernels if each.release == kernel)
    return [path.removeprefix("/usr") for each in kernels for path in each.modules]


def _of_the_driver(node: Node, kernel: str) -> str:
    """The nvidia-peermem that came with a driver as modules, into its folder; "" for none."""
    files = [] if node.driver_dkms else _files(node, kernel)
    homes = {each.rpartition("/")[0] for each in files if module_name(each) == "nvidia"}
    beside = (each for each in files if module_name(each) == "nvidia_peermem")
    return next((each for each in beside if each.rpartition("/")[0] in homes), "")


def _over_that_of_the_driver(node: Node, want: Want) -> Mapping[str, str] | None:
    """Where one lies that depmod would not put behind ours: SUSE's, RHEL's where it is told so."""
    if want.path is not PeerPath.PEERMEM or want.modules is not Modules.BUILT:
        return None
    beside = _of_the_driver(node, node.kernel)
    if not beside or "/kernel/" in beside:
        return None
    return {"file": _peermem_prefix(node), "folder": FOLDER}


def _peermem(at_boot: bool) -> Chooser:
    def chosen(node: Node, want: Want, builts: tuple[Built, ...]) -> Delivered | None:
        if want.path is not PeerPath.PEERMEM or want.modules is not Modules.BUILT:
            return None
        kernel = _next_kernel(node) if at_boot else node.kernel
        if not kernel:
            return None
        why = _lost(node, want) if at_boot else ()
        values = {"kernel": kernel, "file": _peermem_prefix(node)}
        path = _PEERMEM_PATH.format(**values)
        if at_boot and not why and path not in node.placed:
            return None
        _one_owner(node, node.peermem_dkms, PEERMEM)
        _other_file(node, path, kernel, "nvidia_peermem")
        fit = choose(Part.PEERMEM, builts, node, kernel, at=path)
        _signed_where_asked(node, fit.file)
        _no_less_signed(node, path, fit.file)
        then = (
            Trigger.DEPMOD,
            *((Trigger.REBUILD_INITRAMFS,) if "nvidia_peermem" in _held(node, kernel) else ()),
        )
        if not at_boot:
            then = (*then, Trigger.RELOAD_MODULES)
        return Delivered(values, fit.file.data, then, why)

    return chosen


def _signed_where_asked(node: Node, file: BuiltFile) -> None:
    """:raises Unsupported: where the kernel would refuse it for want of a signature."""
    demanded = "" if file.data.endswith(MAGIC) else node.signatures_demanded
    if demanded:
        raise Unsupported(
            f"signatures are asked for ({demanded}), and {file.name} is not signed", hint=SIGN
        )


def _no_less_signed(node: Node, path: str, file: BuiltFile) -> None:
    """Without the key that it was signed by, what lies there signed stays.

    :raises Unsupported: where an unsigned module would take the place of a signed one.
    """
    old = node.placed.get(path)
    if old is None or old.sha256 == file.sha256 or file.data.endswith(MAGIC):
        return
    files = (*node.kernel_modules.values(), *node.companion_modules.values())
    there = [each for each in files if each.filename.removeprefix("/usr") == path]
    image = node.peermem_image if path.startswith(f"/lib/modules/{node.kernel}/") else None
    told = image is not None and "peermem" in path and image.signature is not None
    if told or any(each.signed or each.signer for each in there):
        raise Unsupported(f"{path} is signed, and the build at hand is not", hint=SIGN)


def _peermem_prefix(node: Node) -> str:
    """What stands before "peermem" in the file's name, as modprobe looks for it here."""
    for name, command in node.modprobe.installs:
        found = _RENAMED.search(command) if name == "nvidia_peermem" else None
        if found:
            return found[1]
    return "nvidia-"


def _next_kernel(node: Node) -> str:
    following = read_or(lambda: node.default_kernel, "")
    return "" if following == node.kernel else following


def _lost(node: Node, want: Want) -> tuple[str, ...]:
    foreseen = forecast(node, want).losses
    return tuple(
        f"at the next boot: {each.finding.found}" for each in foreseen if each.topic == PEERMEM
    )


def held_early(node: Node, names: tuple[str, ...]) -> bool:
    """Whether an initramfs that was listed holds modules whose names begin so."""
    kernels = {node.kernel, *(each.release for each in node.kernels if each.image)}
    return any(name.startswith(names) for kernel in kernels for name in _held(node, kernel))


def _held(node: Node, kernel: str) -> set[str]:
    image = read_or(lambda: image_of(node, kernel), None)
    return {module_name(path) for path in image.modules.values()} if image else set()


def _companion(part: Part) -> Chooser:
    module = part.value.replace("-", "_")

    def chosen(node: Node, want: Want, builts: tuple[Built, ...]) -> Delivered | None:
        if want.modules is not Modules.BUILT or part.value not in want.companions:
            return None
        kernel = node.kernel
        path = f"/lib/modules/{kernel}/{FOLDER}/{part}.ko"
        _one_owner(node, part.value, part.value)
        _other_file(node, path, kernel, module)
        fit = choose(part, builts, node, kernel, at=path)
        _signed_where_asked(node, fit.file)
        _no_less_signed(node, path, fit.file)
        on_disk = node.companion_modules.get(part.value)
        why = () if on_disk else (f"{part} is wanted, and not on disk for {kernel}",)
        values = {"kernel": kernel, "loads": part.value}
        then = (Trigger.DEPMOD, Trigger.RELOAD_MODULES)
        return Delivered(values, fit.file.data, then, why)

    return chosen


_UNDO = (Trigger.DEPMOD,)

MODULES = (
    Artefact(
        "modules.order",
        "let depmod take the delivered nvidia-peermem before the driver's own",
        "/etc/depmod.d/gdr-toolkit-peermem.conf",
        "depmod/peermem.conf.j2",
        _over_that_of_the_driver,
        (Trigger.DEPMOD,),
        _DELIVERED,
        families=every,
        removed=_UNDO,
    ),
    Artefact(
        "modules.peermem",
        "deliver nvidia-peermem as it was built for this kernel, driver and OFED",
        _PEERMEM_PATH,
        "",
        never,
        (),
        _DELIVERED,
        families=every,
        removed=_UNDO,
        chosen=_peermem(at_boot=False),
    ),
    Artefact(
        "modules.peermem-next",
        "deliver nvidia-peermem for the kernel of the next boot",
        _PEERMEM_PATH,
        "",
        never,
        (),
        (),  # what the next boot would lack is no check: see _lost
        families=every,
        removed=_UNDO,
        chosen=_peermem(at_boot=True),
    ),
    *(
        Artefact(
            f"modules.{part}",
            f"deliver {part} as it was built for this kernel and driver",
            f"/lib/modules/{{kernel}}/{FOLDER}/{part}.ko",
            "",
            never,
            (),
            (proof,),
            families=every,
            removed=_UNDO,
            chosen=_companion(part),
        )
        for part, proof in ((Part.NVIDIA_FS, "gds.nvidia_fs"), (Part.GDRDRV, "gdrcopy.driver"))
    ),
)


def _before(*services: str) -> Values:
    def values(node: Node, want: Want) -> Mapping[str, str] | None:
        if want.path is not PeerPath.PEERMEM:
            return None
        try:
            times = node.unit_times
        except NotCollected:
            return None  # evidence of an earlier probe
        return {} if times and any(times[name].loaded for name in services) else None

    return values


def _drop_in(word: str, service: str) -> Artefact:
    return Artefact(
        f"order.{word}",
        f"let {word} wait until nvidia-peermem is loaded",
        f"/etc/systemd/system/{service}.d/gdr-toolkit.conf",
        "systemd/after-peermem.conf.j2",
        _before(service),
        (*_UNIT, Trigger.REBOOT),
        _PROOFS,
        families=with_systemd,
        needs=_NEEDS,
        removed=_UNIT,
    )


ORDER = (
    Artefact(
        "order.unit",
        "load nvidia-peermem after OFED and the driver, and before what starts jobs",
        f"/etc/systemd/system/{OURS}",
        "systemd/peermem.service.j2",
        _before("slurmd.service", "kubelet.service"),
        _UNIT,
        _PROOFS,
        families=with_systemd,
        needs=_NEEDS,
        removed=_UNIT,
    ),
    _drop_in("slurmd", "slurmd.service"),
    _drop_in("kubelet", "kubelet.service"),
)
