"""Whether a node is the image that it was born from."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from toolkit.checks.check import Finding, Impact, Status, check, failed, not_applicable, passed
from toolkit.facts.boot.cmdline import Cmdline
from toolkit.facts.boot.next_boot import MARK, TrialOutcome
from toolkit.facts.node.builds import ABSENT, Left, LoadedBuild
from toolkit.facts.node.node import Node
from toolkit.facts.passport import PLACE, SIGNATURE, FileEntry, KernelEntry, ModuleEntry, Passport
from toolkit.plural import counted
from toolkit.want import Want

# A node beside the passport that its image was born with.
# Words that say where this one machine's disks, consoles and addresses are: the boot loader
# writes them anew for each node, and no image can know them.
_OWN_WORDS = frozenset(
    {"BOOT_IMAGE", "initrd", "root", "rootfstype", "rootflags", "rootwait", "ro", "rw", "resume"}
    | {"console", "earlycon", "earlyprintk", "quiet", "splash", "ip"}
    | {"hostname", "BOOTIF", "ostree", "cloud_init", "ds", MARK.replace("-", "_")}
)
# Words that decide about GPUDirect, so that one that nobody put into the image counts.
_TELLING = (
    *("iommu", "intel_iommu", "amd_iommu", "arm_smmu", "pci", "pcie_", "nvidia", "mlx"),
    *("modprobe.", "module_blacklist", "module.", "lockdown", "initcall_blacklist"),
)
KERNEL = "running kernel"
# Where our arguments stand: what update-grub reads, or the list of what grubby was told.
_ARGUMENTS = ("/etc/default/grub.d/", "/etc/gdr-toolkit/kernel-arguments")


class PassportDifference(Struct, frozen=True):
    """One thing that is not as the image was born."""

    what: str  # "/lib/modules/.../nvidia-peermem.ko", "kernel", "argument iommu"
    born: str  # as the passport has it; "" for nothing
    now: str  # as the node has it; "" for nothing
    since: str = ""  # the run of ours that left it so; "" where none did
    later: bool = False  # a package manager's doing: a kernel that came, or one that went whole

    def __str__(self) -> str:
        told = f"{self.what}: {self.now or 'not there'}, the image has {self.born or 'none'}"
        return f"{told} (run {self.since} of ours)" if self.since else told


def compare(passport: Passport, node: Node) -> tuple[PassportDifference, ...]:
    """Everything in which a running node is unlike its passport.

    :raises NoEvidence: where something that it takes was not read.
    :raises Unparsable: where it has a shape that we do not know.
    """
    return (
        *_kernel(passport, node),
        *_arguments(passport, node),
        *_files(passport, node),
        *_loaded(passport, node),
    )


def _kernel(passport: Passport, node: Node) -> Iterator[PassportDifference]:
    if node.arch != passport.arch:
        yield PassportDifference("architecture", passport.arch, node.arch)
    if passport.default and node.kernel != passport.default:
        later = passport.kernel(node.kernel) is None
        yield PassportDifference(KERNEL, passport.default, node.kernel, later=later)
    elif passport.kernel(node.kernel) is None:
        born = ", ".join(each.release for each in passport.kernels)
        yield PassportDifference(KERNEL, born, node.kernel, later=True)


def _arguments(passport: Passport, node: Node) -> Iterator[PassportDifference]:
    if passport.arguments is None:
        return
    born, now = Cmdline(passport.arguments), node.cmdline
    names = dict.fromkeys(
        name
        for name, _ in born.pairs()
        if name not in _OWN_WORDS and not name.startswith(("rd.", "systemd.", "luks."))
    )
    extra = dict.fromkeys(name for name, _ in now.pairs() if name.startswith(_TELLING))
    for name in dict.fromkeys((*names, *extra)):
        was, has = _values(born, name), _values(now, name)
        if was != has:
            run = _run_that_set_arguments(passport, node)
            yield PassportDifference(f"argument {name}", was, has, run)


def _run_that_set_arguments(passport: Passport, node: Node) -> str:
    """The run of ours that wrote the file which our arguments stand in; "" for none.

    A trial is booted before anything is written: its boot is known by what it noted on the node.
    """
    if (trial := node.trial) and (noted := node.trials.get(trial)):
        return f"trial {trial}" if noted.outcome is TrialOutcome.OPEN else ""
    born = {each.path: each.sha256 for each in passport.files}
    now = node.passport_hashes
    for path, left in node.passport_since.items():
        if path.startswith(_ARGUMENTS) and now.get(path, "") != born.get(path):
            return _run_that_left(left, now.get(path, ""))
    placed = node.placed if node.left else {}
    for path, sha256 in node.left.items():
        # One that came later is not among those that the passport names.
        new = path.startswith(_ARGUMENTS) and path not in born and path in placed
        if new and placed[path].sha256 == sha256:
            return "a later run"
    return ""


def _values(cmdline: Cmdline, name: str) -> str:
    return " ".join(
        word for word, (own, _) in zip(cmdline.words, cmdline.pairs(), strict=True) if own == name
    )


def _files(passport: Passport, node: Node) -> Iterator[PassportDifference]:
    hashes, since = node.passport_hashes, node.passport_since
    removed = [each for each in passport.kernels if _removed(each, node)]
    for kernel in removed:
        yield PassportDifference(f"kernel {kernel.release}", "it", "", later=True)
    gone = {file.path for each in removed for file in _parts(each)}
    for file in passport.every_file:
        if file.path in gone:
            continue
        # A passport whose lines the node's shell could not read is no match.
        now = hashes.get(file.path, "not read")
        if now == file.sha256:
            continue
        lawful = _run_that_left(since.get(file.path, ()), now)
        shown = "" if now == ABSENT else _short(now)
        yield PassportDifference(file.path, _short(file.sha256), shown, lawful)


def _removed(kernel: KernelEntry, node: Node) -> bool:
    """Whether its package went, for another kernel runs: its image, and its own modules.

    What remains of it, such as modules that somebody placed, must be as it was.
    """
    if kernel.image is None or kernel.release == node.kernel:
        return False
    hashes = node.passport_hashes
    inbox = [each.file for each in kernel.modules if each.inbox]
    return all(hashes.get(each.path) == ABSENT for each in (kernel.image, *inbox)) and all(
        hashes.get(each.path) in {ABSENT, each.sha256} for each in _parts(kernel)
    )


def _parts(kernel: KernelEntry) -> tuple[FileEntry, ...]:
    image = (kernel.image,) if kernel.image else ()
    return (*image, *(each.file for each in kernel.modules))


def _run_that_left(left: tuple[Left, ...], now: str) -> str:
    return next((each.run for each in left if each.sha256 == now), "")


def _short(sha256: str) -> str:
    return f"sha256 {sha256[:16]}" if len(sha256) == 64 else sha256


def _loaded(passport: Passport, node: Node) -> Iterator[PassportDifference]:
    """What the kernel holds is the build that the passport has for this kernel."""
    kernel = passport.kernel(node.kernel)
    if kernel is None:
        return
    loaded, since = node.passport_loaded, node.passport_since
    for name, build in loaded.items():
        entry = kernel.named(name)
        if entry is None:
            yield PassportDifference(
                f"loaded {name}", "", build.srcversion or "a module of that name"
            )
        elif (found := _other_build(entry, build)) is not None:
            now = node.passport_hashes.get(entry.file.path, "")
            updated = now != entry.file.sha256
            run = _run_that_left(since.get(entry.file.path, ()), now) if updated else ""
            yield PassportDifference(f"loaded {name}", *found, run)
    # Modules of the path that are loaded, and that the image does not have for this kernel.
    for name, state in node.module_state.items():
        if state.initstate and kernel.named(name) is None and name not in node.passport_loaded:
            yield PassportDifference(
                f"loaded {name}", "", state.srcversion or "a module of that name"
            )


def _other_build(entry: ModuleEntry, build: LoadedBuild) -> tuple[str, str] | None:
    told = (("srcversion", entry.srcversion, build.srcversion),)
    for word, born, now in (*told, ("build id", entry.build_id, build.build_id)):
        if born and now and born != now:
            return f"{word} {born}", f"{word} {now}"
    return None


def untold(passport: Passport, node: Node) -> tuple[str, ...]:
    """Loaded modules of which neither the kernel nor the passport tells which build they are."""
    kernel = passport.kernel(node.kernel)
    found = []
    for name, build in node.passport_loaded.items():
        entry = kernel.named(name) if kernel else None
        if entry is not None and not (
            (entry.srcversion and build.srcversion) or (entry.build_id and build.build_id)
        ):
            found.append(name)
    return tuple(found)


_LATER = "make and test the image with that kernel, or waive image.passport until it is"
_AGAIN = "boot the image that was tested; what was changed on purpose belongs into the image"


@check(
    "image.passport",
    impact=Impact.FRAGILE,
    source=PLACE,
    fix="boot the image anew; what was changed on purpose belongs into the image",
    needs_gpu=False,
)
def passport(node: Node, want: Want) -> Finding:
    """The node is as its image was born: kernel, arguments, modules, files.

    An image is tested once, and then multiplied by the fleet. Its passport tells what was
    tested: each kernel, each module with its hash, the builds that are to be loaded, the
    kernel's arguments, and each file that was placed. A module that was replaced in the image,
    or that was loaded from elsewhere, such as an initramfs with older modules, is found here
    before a job finds it.

    What a later run of ours left, by provision or by the program that rebuilds modules after an
    update, is told apart: the run is named, and the check passes. What others updated fails,
    lawful or not: nobody has tested it together with the rest. A kernel that came later by a
    package is no failure of the node's: it is no longer the image, and that is said (n/a), as
    long as all else is as it was. verify --passport refuses it.

    A node without a passport is not judged, unless verify --passport demands one.
    """
    born = node.passport
    if born is None:
        if want.passport:
            return failed(
                "no passport",
                expected=f"{PLACE}, as images have it",
                hint="make the image by the verb image",
            )
        return not_applicable("it was not born from an image with a passport")
    if want.passport_key and (forged := _unsigned(node)):
        return forged
    differences = compare(born, node)
    if foreign := [each for each in differences if not each.since]:
        return _unlike(foreign, (*map(str, differences), *_uncompared(born, node)), node, want)
    silent = tuple(f"{name}: the kernel does not tell its build" for name in untold(born, node))
    about = f"as the image was born: {counted(len(born.every_file), 'file')}, kernel {node.kernel}"
    if differences:
        runs = ", ".join(sorted({each.since for each in differences}))
        about = f"the image, updated since by {runs} of ours: {counted(len(differences), 'change')}"
    if born.arguments is None:
        silent = (*silent, "the passport does not tell the kernel's arguments")
    return passed(about, details=(*map(str, differences), *silent))


def _unsigned(node: Node) -> Finding | None:
    good, told = node.passport_verified
    if good:
        return None
    return failed(
        told,
        expected="a good signature by a key that was given",
        hint=f"the image is made with --passport-sign; the signature lies in {SIGNATURE}",
    )


def _unlike(
    foreign: list[PassportDifference], details: tuple[str, ...], node: Node, want: Want
) -> Finding:
    """What others changed; a kernel that only came later by a package is no failure by itself."""
    later = all(each.later for each in foreign)
    if later and not want.passport:
        return Finding(
            Status.NA,
            f"no longer the image: kernel {node.kernel} came later; all else is as it was born",
            details=details,
        )
    # What somebody replaced is told before the kernel that came by a package.
    first, *more = sorted(foreign, key=lambda each: each.later)
    return failed(
        f"unlike the image: {first}{f', and {len(more)} more' if more else ''}",
        expected=f"as the image was born: {PLACE}",
        hint=_LATER if later else _AGAIN,
        details=details,
    )


def _uncompared(born: Passport, node: Node) -> tuple[str, ...]:
    if born.kernel(node.kernel) is not None:
        return ()
    return (f"what is loaded is not compared: the passport does not tell of kernel {node.kernel}",)
