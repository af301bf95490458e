"""A package for dpkg: the files of its tree, control part included.

Sources: Debian policy, chapters 3, 5, 6 and 12; deb-control(5), deb-version(7).
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Mapping, Sequence
from hashlib import md5

from toolkit.built.plan.model import Part
from toolkit.errors import UsageError
from toolkit.features.builds.plan.packages import COMMON, Contents, Making, PackedFile, manifest

ARCHES = {"x86_64": "amd64", "aarch64": "arm64", "ppc64le": "ppc64el"}
SCRIPTS = ("preinst", "postinst", "postrm")
_LICENCES = {  # what stands in /usr/share/common-licenses of every Debian machine
    "GPL": "GPL-2",
    "GPL v2": "GPL-2",
    "Dual BSD/GPL": "GPL-2",
    "Dual MIT/GPL": "GPL-2",
}


def name(kernel: str) -> str:
    """The package's name; Debian's names have neither capitals nor "_" nor "~"."""
    return f"gdr-modules-{re.sub(r'[^a-z0-9.+-]', '-', kernel.lower())}"


def version(held: Contents, making: Making) -> str:
    """Sorts by driver, OFED and revision; the digest says which modules they are."""
    return f"{held.upstream}-{making.revision}+g{held.digest}"


def arch(machine: str) -> str:
    """What Debian calls a machine.

    :raises UsageError: for one that it has no word for here.
    """
    if machine not in ARCHES:
        raise UsageError(
            f"no Debian architecture is known for {machine!r}",
            hint="packages are made for x86_64 and aarch64",
        )
    return ARCHES[machine]


def tree(
    held: Contents, making: Making, files: Sequence[PackedFile], scripts: Mapping[str, str]
) -> tuple[PackedFile, ...]:
    """All files of the package of one kernel, in order of paths.

    :param files: what it places.
    :param scripts: by name: "preinst", ...
    """
    package, own = name(held.kernel), version(held, making)
    documents = _documents(package, own, making, _copyright(held), f"modules of {held.kernel}")
    told = PackedFile(f"usr/share/doc/{package}/manifest.json", manifest(held, own).encode())
    placed = (*files, *documents, told)
    # The image under each of the names that it has: Debian's, unsigned, Ubuntu's unsigned.
    plain = f"linux-image-{held.kernel}"
    image = f"{plain} | {plain}-unsigned | linux-image-unsigned-{held.kernel}"
    control = [
        ("Package", package),
        ("Version", own),
        ("Architecture", arch(held.arch)),
        ("Maintainer", making.maintainer),
        ("Installed-Size", size(placed)),
        ("Depends", f"{image}, kmod" + f", {COMMON}" * held.loads_peermem),
        ("Provides", _provides(held)),
        ("Section", "non-free/kernel" if held.proprietary else "kernel"),
        ("Priority", "optional"),
        ("Description", _description(held)),
    ]
    return whole(placed, control, scripts)


def common_tree(own: str, making: Making, files: Sequence[PackedFile]) -> tuple[PackedFile, ...]:
    """All files of the package that is bound to no kernel."""
    reason = "Licence: Apache-2.0, which stands in /usr/share/common-licenses/Apache-2.0."
    text = f"Made by gdr-toolkit.\n\nCopyright (C) the authors of gdr-toolkit\n\n{reason}\n"
    placed = (*files, *_documents(COMMON, own, making, text, "load at boot, and in which order"))
    control = [
        ("Package", COMMON),
        ("Version", own),
        ("Architecture", "all"),
        ("Maintainer", making.maintainer),
        ("Installed-Size", size(placed)),
        ("Section", "kernel"),
        ("Priority", "optional"),
        (
            "Description",
            "when the kernel modules of GPUDirect RDMA are loaded\n"
            " Loads nvidia-peermem at boot, after the RDMA core and the NVIDIA driver.\n"
            " The modules themselves are in gdr-modules-KERNEL.",
        ),
    ]
    return whole(placed, control, {})


def whole(
    placed: Sequence[PackedFile], control: list[tuple[str, str]], scripts: Mapping[str, str]
) -> tuple[PackedFile, ...]:
    sums = "".join(
        f"{md5(each.data, usedforsecurity=False).hexdigest()}  {each.path}\n"
        for each in sorted(placed, key=lambda each: each.path)
    )
    text = "".join(f"{key}: {value}\n" for key, value in control if value)
    parts = [
        PackedFile("DEBIAN/control", text.encode()),
        PackedFile("DEBIAN/md5sums", sums.encode()),
    ]
    parts += [
        PackedFile(f"DEBIAN/{key}", script.encode(), 0o755) for key, script in scripts.items()
    ]
    return tuple(sorted((*placed, *parts), key=lambda each: each.path))


def size(placed: Sequence[PackedFile]) -> str:
    """Installed-Size: KiB, each file rounded up."""
    return str(sum(-(-len(each.data) // 1024) for each in placed))


def _provides(held: Contents) -> str:
    """What Debian's own driver packages ask for in place of a DKMS package."""
    driver = held.built(Part.DRIVER)
    words = {"nvidia-current-open": "nvidia-open-kernel", "nvidia-current": "nvidia-kernel"}
    word = words.get(driver.package) if driver else None
    return f"{word}-{driver.version}" if driver and word else ""


def _description(held: Contents) -> str:
    lines = [
        f"kernel modules of GPUDirect RDMA for Linux {held.kernel}",
        " Built by gdr-toolkit, and judged by it before they were packed:",
        *(f" {each.stem} {_word(each.image.info.get('version', ''))}".rstrip()
          for each in held.modules),
    ]  # fmt: skip
    if held.proprietary:
        lines += [" .", " Under NVIDIA's own licence: not to be redistributed."]
    return "\n".join(lines)


def _copyright(held: Contents) -> str:
    """Each module with its authors and licence, as the module itself names them."""
    lines = ["These modules were compiled and packed by gdr-toolkit.", ""]
    for each in held.modules:
        author = _word(each.image.info.get("author", "")) or "its authors, see its source"
        lines += [
            f"{each.name}",
            f"  Copyright (C) {author}",
            f"  Licence: {_word(each.licence) or 'not told by the module'}",
        ]
        if each.proprietary:
            lines += ["  NVIDIA's own licence, which comes with the driver. This package is not"]
            lines += ["  to be redistributed."]
        elif each.licence in _LICENCES:
            where = f"/usr/share/common-licenses/{_LICENCES[each.licence]}"
            lines += [f"  The GNU General Public License stands in {where}."]
        lines += [""]
    return "\n".join(lines)


def _word(text: str) -> str:
    """A value of modinfo on one line, without what a terminal would act on."""
    return re.sub(r"[^\x20-\x7e]", "?", text)[:200]


def _documents(
    package: str, own: str, making: Making, licence: str, what: str
) -> tuple[PackedFile, PackedFile]:
    text = (
        f"{package} ({own}) unstable; urgency=medium\n\n"
        f"  * Made by gdr-toolkit: {what}.\n\n"
        f" -- {making.maintainer}  {making.debian_date}\n"
    )
    folder = f"usr/share/doc/{package}"
    log = "changelog.Debian.gz"
    return (
        PackedFile(f"{folder}/copyright", licence.encode()),
        PackedFile(f"{folder}/{log}", gzip.compress(text.encode(), 9, mtime=0)),
    )
