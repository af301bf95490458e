"""Built modules as packages: what goes in, under which name and version, and what they rest on.

One package per kernel, with all parts: modules of one kernel are linked against each other, so
they must come, change and go together. What is not bound to a kernel (load at boot, and in which
order) is in a package of its own, since those of two kernels may lie side by side. No clock, user
or host takes part, so that equal inputs give equal bytes.

Sources: Debian policy 3.1, 5.6.1, 5.6.12 and deb-version(7); rpm's manual, Dependencies and
rpm-version(7); depmod.d(5).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from hashlib import sha256

from msgspec import Struct

from toolkit.built.plan.model import Built, Inputs, Part
from toolkit.errors import Unparsable, UsageError
from toolkit.facts.boot.kernel import module_name
from toolkit.facts.modules.module_file import ModuleImage, read_image
from toolkit.facts.versions import parse_kernel_release

EPOCH = 1767225600  # 2026-01-01, unless SOURCE_DATE_EPOCH says otherwise
# No surrogates: they stand for bytes of the command line that are no UTF-8.
_MAINTAINER = re.compile(
    r"[^\x00-\x1f\ud800-\udfff<>,\"\\%$`]{1,80} <[A-Za-z0-9._+-]+@[A-Za-z0-9.-]+>"
)
# Not by strftime: the names are English wherever a package is made.
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun",
           "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")  # fmt: skip


class Format(StrEnum):
    DEB = "deb"
    RPM = "rpm"
    TAR = "tar"


class PackedFile(Struct, frozen=True):
    """One file of a package."""

    path: str  # relative, as it lands: "lib/modules/6.1.0-56-amd64/updates/gdr-toolkit/..."
    data: bytes
    mode: int = 0o644


class Making(Struct, frozen=True):
    """What the operator decides about packages."""

    revision: int = 1  # raised for a package that shall replace one of the same driver and OFED
    maintainer: str = "gdr-toolkit <gdr-toolkit@example.org>"
    epoch: int = EPOCH  # seconds; the time that all files and the package itself carry

    def __post_init__(self) -> None:
        """Refuse what would break out of a control file.

        :raises UsageError: for a maintainer or a number that a package cannot have.
        """
        if not _MAINTAINER.fullmatch(self.maintainer):
            raise UsageError(
                f"{self.maintainer!r} cannot be a package's maintainer",
                hint="write it as: Name <name@example.org>",
            )
        if not 1 <= self.revision <= 99999 or not 0 < self.epoch < 1 << 32:
            raise UsageError(
                f"revision {self.revision}, time {self.epoch}: no package can have these",
                hint="a revision is a whole number from 1 on, a time is in seconds since 1970",
            )

    @property
    def day(self) -> datetime:
        return datetime.fromtimestamp(self.epoch, tz=UTC)

    @property
    def debian_date(self) -> str:
        """As a changelog of Debian's has it: "Thu, 01 Jan 2026 00:00:00 +0000"."""
        day = self.day
        month = _MONTHS[day.month - 1]
        return f"{_DAYS[day.weekday()]}, {day:%d} {month} {day:%Y %H:%M:%S} +0000"

    @property
    def rpm_date(self) -> str:
        """As a changelog of rpm's has it: "Thu Jan 01 2026"."""
        day = self.day
        return f"{_DAYS[day.weekday()]} {_MONTHS[day.month - 1]} {day:%d %Y}"


COMMON = "gdr-modules-common"
_PROPRIETARY = "NVIDIA"  # the licence that the driver's closed modules declare

_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,80}\.ko")
_MODULE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,80}")
_VERSION = re.compile(r"\d[A-Za-z0-9.+~_-]{0,80}")
_KERNEL = re.compile(r"\d+\.[A-Za-z0-9._+~-]{1,100}")
# How packagers call the driver's files: NVIDIA's own name, and Debian's.
_FAMILIES = (
    *("nvidia", "nvidia-current", "nvidia-current-open"),
    *(f"nvidia-tesla-{branch}" for branch in (418, 450, 460, 470, 510, 525, 535)),
)
# The version of a package is that of the first of these that it holds.
_LEADING = (Part.DRIVER, Part.PEERMEM, Part.OFED, Part.NVIDIA_FS, Part.GDRDRV)


class Packed(Struct, frozen=True):
    """One module, as it goes into a package."""

    built_as: str  # "nvidia-current-open-peermem.ko", as its packager calls the file
    data: bytes
    image: ModuleImage
    part: Part

    @property
    def own_name(self) -> str:
        """As the module calls itself once it is loaded."""
        return self.image.info.get("name") or module_name(self.built_as)

    @property
    def name(self) -> str:
        """The file's name in a package: the module's own.

        Under another name, as Debian has them, modprobe -r finds nothing to unload.
        """
        stem = self.built_as.removesuffix(".ko")
        if stem.replace("-", "_") == self.own_name:
            return self.built_as
        return f"{re.sub('^nvidia_', 'nvidia-', self.own_name)}.ko"

    @property
    def stem(self) -> str:
        return self.name.removesuffix(".ko")

    @property
    def licence(self) -> str:
        return self.image.info.get("license", "")

    @property
    def proprietary(self) -> bool:
        return self.licence == _PROPRIETARY


class Contents(Struct, frozen=True):
    """All that one package holds, checked."""

    kernel: str
    arch: str  # as uname -m prints it
    modules: tuple[Packed, ...]  # by name
    builds: tuple[Inputs, ...]  # in the order of parts

    @property
    def folder(self) -> str:
        return f"lib/modules/{self.kernel}/updates/gdr-toolkit"

    @property
    def digest(self) -> str:
        """Names what is in it: the modules' own bytes, signatures included, and their builds."""
        told = [[each.name, sha256(each.data).hexdigest()] for each in self.modules]
        text = json.dumps([told, [each.digest for each in self.builds]])
        return sha256(text.encode()).hexdigest()[:12]

    def built(self, part: Part) -> Inputs | None:
        return next((each for each in self.builds if each.part is part), None)

    @property
    def upstream(self) -> str:
        """Version by which packages sort: the driver's, then that of OFED beside it."""
        lead = next(found for part in _LEADING if (found := self.built(part)))
        ofed = self.built(Part.OFED)
        beside = f"+ofed{ofed.version}" if ofed is not None and ofed is not lead else ""
        # A hyphen parts version and revision in both formats; "_" parts the name of a deb.
        return re.sub(r"[_-]", ".", f"{lead.version}{beside}")

    @property
    def needs(self) -> tuple[str, ...]:
        """Modules that these depend on and that others must bring, by name."""
        own = {module_name(each.name) for each in self.modules}
        wanted = {name for each in self.modules for name in each.image.depends}
        return tuple(sorted(name for name in wanted if module_name(name) not in own))

    @property
    def proprietary(self) -> tuple[str, ...]:
        """Files that NVIDIA's licence covers: for the site's own machines alone."""
        return tuple(each.name for each in self.modules if each.proprietary)

    @property
    def loads_peermem(self) -> bool:
        return any(module_name(each.name) == "nvidia_peermem" for each in self.modules)

    @property
    def carried_early(self) -> bool:
        """Whether an initramfs may hold older modules of these names: HCA drivers start disks."""
        return self.built(Part.OFED) is not None


def contents(builts: Sequence[Built]) -> Contents:
    """What a package of these builds would hold.

    :param builts: of one kernel, signed or not.
    :raises UsageError: where they do not belong into one package, or hold what none may.
    """
    if not any(built.modules for built in builts):
        raise UsageError("there are no modules to make a package of", hint="build them first")
    order = list(Part)
    builds = tuple(sorted((b.inputs for b in builts), key=lambda each: order.index(each.part)))
    kernel, arch = builds[0].kernel, builds[0].arch
    for each in builds:
        _check(each, kernel, arch)
    driver = {each.version for each in builds if each.part in {Part.DRIVER, Part.PEERMEM}}
    if len(driver) > 1:
        raise UsageError(
            "nvidia-peermem and the driver must be of one version,"
            f" not {', '.join(sorted(driver))}",
            hint="build both of one version: build --kernel RELEASE",
        )
    modules = [_module(file.name, file.data, built) for built in builts for file in built.modules]
    names = [module_name(each.name) for each in modules]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UsageError(
            f"two builds have the module {twice[0]}",
            hint="leave out one part: --part; the driver's package may hold nvidia-peermem too",
        )
    return Contents(kernel, arch, tuple(sorted(modules, key=lambda m: m.name)), builds)


def _check(inputs: Inputs, kernel: str, arch: str) -> None:
    try:
        parse_kernel_release(inputs.kernel)
    except Unparsable as why:
        raise UsageError(
            f"{inputs.kernel!r} is no kernel release", hint="name the kernel as uname -r does"
        ) from why
    if not _KERNEL.fullmatch(inputs.kernel) or ".." in inputs.kernel:
        raise UsageError(
            f"{inputs.kernel!r} cannot stand in a package's name",
            hint="name the kernel as uname -r does",
        )
    if not _VERSION.fullmatch(inputs.version):
        raise UsageError(
            f"{inputs.version!r} cannot be a package's version",
            hint="a version is digits and dots, such as 570.86.15",
        )
    if (inputs.kernel, inputs.arch) != (kernel, arch):
        raise UsageError(
            f"one package is for one kernel, not {kernel} {arch} and {inputs.kernel} {inputs.arch}",
            hint="make a package for each kernel: --kernel RELEASE",
        )


def _module(name: str, data: bytes, built: Built) -> Packed:
    """One module, which must say itself that it is for that kernel."""
    if not _FILE.fullmatch(name):
        raise UsageError(
            f"{name!r} is no name of a module's file",
            hint="a module's file is NAME.ko, or that compressed",
        )
    try:
        image = read_image(name, data)
    except Unparsable as why:
        raise UsageError(
            f"{name} is no kernel module: {why}", hint="build it again: build --force"
        ) from why
    if image.kernel != built.inputs.kernel:
        raise UsageError(
            f"{name} was built for {image.kernel or 'no kernel that it names'}, "
            f"not for {built.inputs.kernel}",
            hint="nothing was packaged: build it again",
        )
    told = image.info.get("name", "")
    if any(not _MODULE.fullmatch(each) for each in (*image.depends, told or "none")):
        raise UsageError(
            f"{name} names modules as none can be named", hint="build it again: build --force"
        )
    return Packed(name, data, image, built.inputs.part)


def payload(held: Contents) -> tuple[PackedFile, ...]:
    """The files that the package of one kernel places, its documents apart."""
    modules = [PackedFile(f"{held.folder}/{each.name}", each.data) for each in held.modules]
    # Two files of one name below updates/ would be told apart by the order of the disk.
    # depmod compares the file's name as it is: with "_" for "-" the line would do nothing.
    rows = [f"override {each.stem} {held.kernel} updates/gdr-toolkit" for each in held.modules]
    lines = [
        "# Placed by gdr-toolkit; see depmod.d(5). For that kernel these modules win over",
        "# others of the same name, wherever those lie.",
        *rows,
    ]
    name = f"gdr-modules-{held.kernel}.conf"
    found = [*modules, PackedFile(f"usr/lib/depmod.d/{name}", _text(lines))]
    if renamed := [each for each in held.modules if each.name != each.built_as]:
        lines = ["# Placed by gdr-toolkit; see modprobe.d(5). Debian's packages for user space ask"]
        lines.append("# for the modules under these names.")
        lines += [f"alias {each.built_as.removesuffix('.ko')} {each.stem}" for each in renamed]
        found.append(PackedFile(f"usr/lib/modprobe.d/{name}", _text(lines)))
    return tuple(found)


def _text(lines: Sequence[str]) -> bytes:
    return ("\n".join(lines) + "\n").encode()


def rivals(held: Contents) -> tuple[str, ...]:
    """Names, without ending, of files that would be a second owner, whoever packed them."""
    found: list[str] = []
    for each in held.modules:
        plain = module_name(each.name)
        if plain == "nvidia" or (plain.startswith("nvidia_") and plain != "nvidia_fs"):
            tail = plain.removeprefix("nvidia").replace("_", "-")
            stems = [f"{family}{tail}" for family in _FAMILIES]
        else:
            stems = [each.stem]
        for stem in stems:
            found += [stem, stem.replace("-", "_"), stem.replace("_", "-")]
    return tuple(dict.fromkeys(found))


def manifest(held: Contents, version: str) -> str:
    """What is in it, for machines: JSON."""
    document = {
        "kernel": held.kernel,
        "arch": held.arch,
        "version": version,
        "digest": held.digest,
        "redistributable": not held.proprietary,
        "builds": [
            {"part": each.part, "package": each.package, "version": each.version,
             "digest": each.digest} for each in held.builds
        ],
        "modules": [
            {"file": each.name, "sha256": sha256(each.data).hexdigest(), "licence": each.licence,
             "signed": each.image.signature is not None} for each in held.modules
        ],
    }  # fmt: skip
    return json.dumps(document, indent=2) + "\n"


def notes(held: Contents) -> tuple[str, ...]:
    """What the operator must know before handing the package on: sentences."""
    said = []
    if held.proprietary:
        said.append(
            f"not to be redistributed: {', '.join(held.proprietary)} under NVIDIA's own licence"
        )
    if held.needs:
        said.append(f"rests on modules that it does not bring: {', '.join(held.needs)}")
    told = {each.name: each.image.info.get("description", "") for each in held.modules}
    if empty := [name for name, text in told.items() if text.endswith(" dummy kernel module")]:
        said.append(f"empty, and in the place of the kernel's own by OFED: {', '.join(empty)}")
    unsigned = [each.name for each in held.modules if each.image.signature is None]
    if unsigned:
        said.append(
            f"unsigned: {', '.join(unsigned)}; kernels that enforce signatures will refuse it"
        )
    return tuple(said)
