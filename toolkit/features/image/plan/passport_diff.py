"""In what two passports differ: what somebody wants to know before one image follows another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from toolkit.facts.passport import FileEntry, KernelEntry, ModuleEntry, Passport


class Kind(StrEnum):
    """What sort of thing differs."""

    IMAGE = "image"  # the system, the toolkit, the kernel that it boots
    ARGUMENT = "argument"
    KERNEL = "kernel"
    MODULE = "module"
    FILE = "file"


@dataclass(frozen=True, slots=True)
class Unlike:
    """One thing in which two images differ."""

    kind: Kind
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
    yield from _fields(Kind.IMAGE, "", told)


def _fields(
    kind: Kind, name: str, told: Mapping[str, tuple[str, str]], kernel: str = ""
) -> Iterator[Unlike]:
    for field, (was, now) in told.items():
        if was != now:
            yield Unlike(kind, name, field, was, now, kernel)


def _arguments(a: Passport, b: Passport) -> Iterator[Unlike]:
    """Word by word; where one does not tell them, that is the difference."""
    if a.arguments is None or b.arguments is None:
        if a.arguments is not b.arguments:
            words = [" ".join(each.arguments or ("not told",)) for each in (a, b)]
            yield Unlike(Kind.ARGUMENT, "", "all", *words)
        return
    for word in dict.fromkeys((*a.arguments, *b.arguments)):
        counts = a.arguments.count(word), b.arguments.count(word)
        if counts[0] != counts[1]:
            yield Unlike(Kind.ARGUMENT, word, "", *(THERE * (each > 0) for each in counts))
    if sorted(a.arguments) == sorted(b.arguments) and a.arguments != b.arguments:
        yield Unlike(Kind.ARGUMENT, "", "order", " ".join(a.arguments), " ".join(b.arguments))


def _kernels(a: Passport, b: Passport) -> Iterator[Unlike]:
    for release in sorted({each.release for each in (*a.kernels, *b.kernels)}):
        was, now = a.kernel(release), b.kernel(release)
        if was is None or now is None:
            yield Unlike(
                Kind.KERNEL, release, "", THERE * (was is not None), THERE * (now is not None)
            )
            continue
        images = (_image_of(was), _image_of(now))
        yield from _fields(Kind.KERNEL, release, {"image": images})
        yield from _modules(was, now)


def _image_of(kernel: KernelEntry) -> str:
    return _hash(kernel.image) if kernel.image else ""


def _digest(sha256: str) -> str:
    return f"sha256 {sha256}" if sha256 else ""


def _hash(file: FileEntry) -> str:
    return _digest(file.sha256)


def _modules(a: KernelEntry, b: KernelEntry) -> Iterator[Unlike]:
    for name in sorted({each.name for each in (*a.modules, *b.modules)}):
        was, now = a.named(name), b.named(name)
        if was is None or now is None:
            told = THERE * (was is not None), THERE * (now is not None)
            yield Unlike(Kind.MODULE, name, "", *told, a.release)
        elif was != now:
            yield from _fields(Kind.MODULE, name, _told(was, now), a.release)


def _told(a: ModuleEntry, b: ModuleEntry) -> dict[str, tuple[str, str]]:
    """What tells of a module, the most telling first; its hash as the last."""
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
            yield Unlike(Kind.FILE, path, "", THERE * (path in was), THERE * (path in now))
            continue
        modes = (was[path].mode, now[path].mode)
        contents = (_hash(was[path]), _hash(now[path]))
        yield from _fields(Kind.FILE, path, {"mode": modes, "content": contents})
