"""Make an image's passport from what was read of it. Decides; does nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256

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
    """ "SHA256 MODE PATH" lines, by path.

    :raises NoEvidence: where a file is there and could not be read.
    :raises Unparsable: at a line of another shape, or a path that no passport can name.
    """
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
    return ModuleEntry(
        (info.get("name") or module_name(file.path)).replace("-", "_"),
        file,
        info.get("vermagic", "").strip(),
        srcversion=info.get("srcversion", ""),
        build_id=image.build_id,
        version=info.get("version", ""),
        licence=info.get("license", ""),
        depends=image.depends,
        crcs=_digest(image.versions),
        needs=_words(needs),
        offers=_words(offers.crcs) if offers else (),
        signature=SignedBy(signature.signer, signature.key, signature.digest)
        if signature
        else None,
    )


def _words(crcs: Mapping[str, int]) -> tuple[tuple[str, str], ...]:
    return tuple((name, f"0x{crc:08x}") for name, crc in sorted(crcs.items()))


def _digest(versions: Mapping[str, int]) -> str:
    """One hash for all symbol versions that a module was built against; "" without any."""
    lines = "".join(f"{name} {crc}\n" for name, crc in _words(versions))
    return sha256(lines.encode()).hexdigest() if lines else ""
