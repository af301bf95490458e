"""Passports: made from what was read of an image; and in what two of them differ. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from hashlib import sha256

from msgspec import Struct

from toolkit import __version__
from toolkit.errors import NoEvidence, Unparsable
from toolkit.evidence import Evidence
from toolkit.facts.boot.kernel import module_name
from toolkit.facts.lines import blocks
from toolkit.facts.modules.module_file import (
    SHARED,
    Exports,
    ModuleImage,
    parse_exports,
    read_sections,
)
from toolkit.facts.node.node import Node
from toolkit.facts.passport import (
    PLACE,
    SIGNATURE,
    FileEntry,
    KernelEntry,
    ModuleEntry,
    Passport,
    SignedBy,
    plain_path,
)

_HASHED = re.compile(r"([0-9a-f]{64}) ([0-7]{3,4}) (/.+)")
_LAYOUT = "module_layout"  # its version stands for the kernel as a whole


def passport_of(node: Node, read: Evidence) -> Passport:
    """The passport of an image, or of a node as it is.

    :param node: as the probe read it, after all was placed.
    :param read: what ``reach.passport.read_parts`` read at the same time.
    :raises NoEvidence: where something that a passport tells could not be read.
    :raises Unparsable: where it has a shape that we do not know.
    """
    files = _hashes(read.text("passport-hashes"))
    images = {
        path: read_sections(path, lines)
        for path, lines in blocks(read.text("passport-elf"), "module files")
    }
    offers = {each.path: each for each in parse_exports(read.text("passport-exports"))}
    kernels, named = [], set()
    for release, lines in blocks(read.text("passport-kernels"), "/lib/modules"):
        kernel = _kernel(release, lines, files, images, offers)
        kernels.append(kernel)
        named |= {each.file.path for each in kernel.modules}
        named |= {kernel.image.path} if kernel.image else set()
    distro = node.distro
    default, arguments = _next_boot(node)
    return Passport(
        __version__,
        f"{distro.id} {distro.version}".strip(),
        node.arch,
        tuple(sorted(kernels, key=lambda each: each.release)),
        default,
        arguments,
        tuple(
            files[path] for path in sorted(files.keys() - named) if path not in (PLACE, SIGNATURE)
        ),
    )


def _next_boot(node: Node) -> tuple[str, tuple[str, ...] | None]:
    """The kernel that an unattended boot takes, and its arguments; nothing where nothing tells."""
    if not node.live and not node.boot_entries:
        return "", None  # whoever boots the image chooses
    try:
        default = node.default_kernel
    except (NoEvidence, Unparsable):
        return "", None
    try:
        return default, node.next_cmdline.words
    except (NoEvidence, Unparsable):
        return default, None


def _hashes(text: str) -> dict[str, FileEntry]:
    """ "SHA256 MODE PATH" lines, by path."""
    found = {}
    for number, line in enumerate(text.split("\n")[:-1], start=1):
        if line.startswith("unread "):
            raise NoEvidence(f"{line.split(' ', 2)[2]}: could not be read", hint="as root?")
        row = _HASHED.fullmatch(line)
        if row is None or not plain_path(row[3]):
            raise Unparsable("files of the passport", line, number)
        found[row[3]] = FileEntry(row[3], row[1], row[2])
    return found


def _kernel(
    release: str,
    lines: list[str],
    files: Mapping[str, FileEntry],
    images: Mapping[str, ModuleImage],
    offers: Mapping[str, Exports],
) -> KernelEntry:
    image, modules = None, []
    for line in lines:
        kind, _, path = line.partition(" ")
        if kind == "lacks":
            raise NoEvidence(f"kernel {release} lacks {path}", hint=f"depmod {release}")
        if path not in files:
            raise NoEvidence(f"{path}: not read")
        if kind == "image":
            image = files[path]
        elif kind == "module" and path in images:
            modules.append(_module(files[path], images[path], offers.get(path)))
        else:
            raise Unparsable(f"parts of kernel {release}", line)
    return KernelEntry(release, image, tuple(sorted(modules, key=lambda each: each.file.path)))


def _module(file: FileEntry, image: ModuleImage, offers: Exports | None) -> ModuleEntry:
    info, signature = image.info, image.signature
    needs = {
        name: crc
        for name, crc in image.versions.items()
        if name == _LAYOUT or SHARED.fullmatch(name)
    }
    versions = "".join(f"{name} {crc}\n" for name, crc in _words(image.versions))
    return ModuleEntry(
        (info.get("name") or module_name(file.path)).replace("-", "_"),
        file,
        info.get("vermagic", "").strip(),
        srcversion=info.get("srcversion", ""),
        build_id=image.build_id,
        version=info.get("version", ""),
        licence=info.get("license", ""),
        depends=image.depends,
        crcs=sha256(versions.encode()).hexdigest() if versions else "",
        needs=_words(needs),
        offers=_words(offers.crcs) if offers else (),
        signature=SignedBy(signature.signer, signature.key, signature.digest)
        if signature
        else None,
    )


def _words(crcs: Mapping[str, int]) -> tuple[tuple[str, str], ...]:
    return tuple((name, f"0x{crc:08x}") for name, crc in sorted(crcs.items()))


class DiffKind(StrEnum):
    """What sort of thing differs."""

    IMAGE = "image"  # the system, the toolkit, the kernel that it boots
    ARGUMENT = "argument"
    KERNEL = "kernel"
    MODULE = "module"
    FILE = "file"


class Unlike(Struct, frozen=True):
    """One thing in which two images differ."""

    kind: DiffKind
    name: str  # "iommu", "6.1.0-25-amd64", "nvidia_peermem", a path; "" for the image as a whole
    field: str  # "version"; "" where the thing is in one of them alone
    a: str  # "" for nothing
    b: str
    kernel: str = ""  # of a module: the release that it is for


THERE = "there"


def unlike(a: Passport, b: Passport) -> tuple[Unlike, ...]:
    """Everything in which the second differs from the first; nothing where they are the same."""
    return (*_image(a, b), *_arguments(a, b), *_kernels(a, b), *_files(a.files, b.files))


def _image(a: Passport, b: Passport) -> Iterator[Unlike]:
    told = {
        "toolkit": (a.toolkit, b.toolkit),
        "system": (a.system, b.system),
        "architecture": (a.arch, b.arch),
        "boots": (a.default, b.default),
    }
    yield from _fields(DiffKind.IMAGE, "", told)


def _fields(
    kind: DiffKind, name: str, told: Mapping[str, tuple[str, str]], kernel: str = ""
) -> Iterator[Unlike]:
    for field, (was, now) in told.items():
        if was != now:
            yield Unlike(kind, name, field, was, now, kernel)


def _arguments(a: Passport, b: Passport) -> Iterator[Unlike]:
    """Word by word; where one does not tell them, that is the difference."""
    if a.arguments is None or b.arguments is None:
        if a.arguments is not b.arguments:
            words = [" ".join(each.arguments or ("not told",)) for each in (a, b)]
            yield Unlike(DiffKind.ARGUMENT, "", "all", *words)
        return
    for word in dict.fromkeys((*a.arguments, *b.arguments)):
        counts = a.arguments.count(word), b.arguments.count(word)
        if counts[0] != counts[1]:
            yield Unlike(DiffKind.ARGUMENT, word, "", *(THERE * (each > 0) for each in counts))
    if sorted(a.arguments) == sorted(b.arguments) and a.arguments != b.arguments:
        yield Unlike(DiffKind.ARGUMENT, "", "order", " ".join(a.arguments), " ".join(b.arguments))


def _kernels(a: Passport, b: Passport) -> Iterator[Unlike]:
    for release in sorted({each.release for each in (*a.kernels, *b.kernels)}):
        was, now = a.kernel(release), b.kernel(release)
        if was is None or now is None:
            yield Unlike(
                DiffKind.KERNEL, release, "", THERE * (was is not None), THERE * (now is not None)
            )
            continue
        images = (_hash(was.image), _hash(now.image))
        yield from _fields(DiffKind.KERNEL, release, {"image": images})
        yield from _modules(was, now)


def _digest(sha256: str) -> str:
    return f"sha256 {sha256}" if sha256 else ""


def _hash(file: FileEntry | None) -> str:
    return _digest(file.sha256) if file else ""


def _modules(a: KernelEntry, b: KernelEntry) -> Iterator[Unlike]:
    for name in sorted({each.name for each in (*a.modules, *b.modules)}):
        was, now = a.named(name), b.named(name)
        if was is None or now is None:
            told = THERE * (was is not None), THERE * (now is not None)
            yield Unlike(DiffKind.MODULE, name, "", *told, a.release)
        elif was != now:
            yield from _fields(DiffKind.MODULE, name, _told(was, now), a.release)


def _told(a: ModuleEntry, b: ModuleEntry) -> dict[str, tuple[str, str]]:
    # The most telling first.
    needs, others = dict(a.needs) | dict(a.offers), dict(b.needs) | dict(b.offers)
    symbols = {
        f"symbol {name}": (needs.get(name, ""), others.get(name, ""))
        for name in sorted(needs.keys() | others.keys())
    }
    return {
        "version": (a.version, b.version),
        "vermagic": (a.vermagic, b.vermagic),
        "depends": (",".join(a.depends), ",".join(b.depends)),
        "srcversion": (a.srcversion, b.srcversion),
        "build id": (a.build_id, b.build_id),
        "licence": (a.licence, b.licence),
        **symbols,
        "symbol versions": (_digest(a.crcs), _digest(b.crcs)),
        "signed by": (_signer(a), _signer(b)),
        "path": (a.file.path, b.file.path),
        "mode": (a.file.mode, b.file.mode),
        "content": (_hash(a.file), _hash(b.file)),
    }


def _signer(module: ModuleEntry) -> str:
    signed = module.signature
    if signed is None:
        return "nobody"
    return f"{signed.signer or 'key'} {signed.key} ({signed.digest})"


def _files(a: tuple[FileEntry, ...], b: tuple[FileEntry, ...]) -> Iterator[Unlike]:
    was, now = ({each.path: each for each in files} for files in (a, b))
    for path in sorted(was.keys() | now.keys()):
        if path not in was or path not in now:
            yield Unlike(DiffKind.FILE, path, "", THERE * (path in was), THERE * (path in now))
            continue
        modes = (was[path].mode, now[path].mode)
        contents = (_hash(was[path]), _hash(now[path]))
        yield from _fields(DiffKind.FILE, path, {"mode": modes, "content": contents})
