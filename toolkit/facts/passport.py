"""The passport of an image: what it was born with, as /usr/lib/gdr-toolkit/passport.json has it.

JSON, one value a line, the same bytes for the same image: the probe reads the paths out of it
line by line, and a signature is over exactly these bytes. Within a format fields are only added.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from toolkit.errors import Unparsable
from toolkit.untrusted import read_json

FORMAT = "gdr-toolkit/passport/1"
PLACE = "/usr/lib/gdr-toolkit/passport.json"
SIGNATURE = f"{PLACE}.sig"
VERIFIED = "passport-verified"  # the frame of what was found of it here, not on the node

# What the probe's shell takes from a line as it is.
_PATH = re.compile(r"(/[\w.@+~:,=-]+)+", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}")


class FileEntry(Struct, frozen=True):
    """One file, by what is in it."""

    path: str  # absolute
    sha256: str  # 64 hexadecimal digits
    mode: str = ""  # "644"; "" where it does not matter


class SignedBy(Struct, frozen=True):
    """Whose signature a module carries; whether it is right is the kernel's matter."""

    signer: str
    key: str  # serial number of the certificate, or the key's id: lower-case hex
    digest: str  # "sha256"


class ModuleEntry(Struct, frozen=True):
    """One kernel module, of ours or of those that our path rests on."""

    name: str  # as it is called once loaded: "nvidia_peermem"
    file: FileEntry
    vermagic: str
    srcversion: str = ""  # modpost's hash of the sources; kernels need not have it
    build_id: str = ""  # the linker's hash of what was built: lower-case hex
    version: str = ""  # as its packager wrote it
    licence: str = ""  # as the module declares it
    depends: tuple[str, ...] = ()
    crcs: str = ""  # SHA-256 over all symbol versions it was built against; "" without any
    needs: tuple[tuple[str, str], ...] = ()  # those that matter: symbol, "0x4a7f7424"
    offers: tuple[tuple[str, str], ...] = ()  # of its own exports those that matter
    signature: SignedBy | None = None

    @property
    def inbox(self) -> bool:
        """Of the kernel's own build, rather than placed by anybody."""
        return "/kernel/" in self.file.path


class KernelEntry(Struct, frozen=True):
    """One kernel with its modules."""

    release: str
    image: FileEntry | None  # None where none was found: a container has no kernel of its own
    modules: tuple[ModuleEntry, ...]  # by path

    def named(self, name: str) -> ModuleEntry | None:
        return next((each for each in self.modules if each.name == name), None)


class Passport(Struct, frozen=True):
    """What an image was born with."""

    toolkit: str  # version of the toolkit that made it
    system: str  # "debian 12"
    arch: str  # "x86_64"
    kernels: tuple[KernelEntry, ...]  # by release
    default: str = ""  # kernel release that the next boot starts; "" where nothing tells
    arguments: tuple[str, ...] | None = None  # its arguments, in order; None where nothing tells
    files: tuple[FileEntry, ...] = ()  # what we placed, by path

    def kernel(self, release: str) -> KernelEntry | None:
        return next((each for each in self.kernels if each.release == release), None)

    @property
    def every_file(self) -> tuple[FileEntry, ...]:
        """Each file that a node with this passport must have, in the document's order."""
        images = [each.image for each in self.kernels if each.image]
        modules = [module.file for each in self.kernels for module in each.modules]
        return (*images, *modules, *self.files)

    def json(self) -> str:
        """The document: the same bytes for the same passport; the SBOM is made from the rest."""
        document = _document(self)
        document["sbom"] = bill_of(
            self.system, self.toolkit, self._components, json.dumps(document, sort_keys=True)
        )
        return json.dumps(document, indent=1, ensure_ascii=True) + "\n"

    @property
    def _components(self) -> tuple[Component, ...]:
        """What was placed: modules that are not the kernel's own, and files of ours."""
        placed = [
            Component(
                module.file.path,
                module.file.sha256,
                module.name,
                module.version,
                module.licence,
                tuple(
                    f.file.path for d in module.depends if (f := each.named(d.replace("-", "_")))
                ),
            )
            for each in self.kernels
            for module in each.modules
            if not module.inbox
        ]
        modules = {each.path for each in placed}
        files = (Component(each.path, each.sha256) for each in self.files)
        return (*placed, *(each for each in files if each.path not in modules))


# The document's values are those of JSON, and have no common type.
def _document(passport: Passport) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "toolkit": passport.toolkit,
        "system": passport.system,
        "arch": passport.arch,
        "default_kernel": passport.default,
        "arguments": None if passport.arguments is None else list(passport.arguments),
        "kernels": [
            {
                "release": each.release,
                "image": asdict(each.image) if each.image else None,
                "modules": [_module(module) for module in each.modules],
            }
            for each in passport.kernels
        ],
        "files": [asdict(each) for each in passport.files],
    }


_TEXTS = ("version", "licence", "vermagic", "srcversion", "build_id")  # of a module, by field


def _module(module: ModuleEntry) -> dict[str, Any]:
    return {
        "module": module.name,
        **asdict(module.file),
        **{name: getattr(module, name) for name in _TEXTS},
        "depends": list(module.depends),
        "crcs": module.crcs,
        "needs": dict(module.needs),
        "offers": dict(module.offers),
        "signature": asdict(module.signature) if module.signature else None,
    }


def parse(text: str, source: str = PLACE) -> Passport:
    """Read a passport; the SBOM in it is made from the rest, and is not read.

    :param source: what to call it in an error.
    :raises Unparsable: where it is no passport, or one of a format that we do not know.
    """
    try:
        document = read_json(text)
    except ValueError as why:
        raise Unparsable(source, str(why)) from why
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        told = document.get("format") if isinstance(document, dict) else document
        raise Unparsable(source, f"format {told!r}, not {FORMAT}")
    try:
        return _passport(document)
    except (KeyError, TypeError, ValueError, AttributeError) as why:
        raise Unparsable(source, f"{type(why).__name__}: {why}") from why


def _passport(told: Mapping[str, Any]) -> Passport:
    arguments = told["arguments"]
    return Passport(
        _text(told["toolkit"]),
        _text(told["system"]),
        _text(told["arch"]),
        tuple(_read_kernel(each) for each in told["kernels"]),
        _text(told["default_kernel"]),
        None if arguments is None else _texts(arguments),
        tuple(_read_file(each) for each in told["files"]),
    )


def _read_kernel(told: Mapping[str, Any]) -> KernelEntry:
    image = told["image"]
    return KernelEntry(
        _text(told["release"]),
        None if image is None else _read_file(image),
        tuple(_read_module(each) for each in told["modules"]),
    )


def _read_module(told: Mapping[str, Any]) -> ModuleEntry:
    signed = told["signature"]
    return ModuleEntry(
        _text(told["module"]),
        _read_file(told),
        **{name: _text(told[name]) for name in _TEXTS},
        depends=_texts(told["depends"]),
        crcs=_text(told["crcs"]),
        needs=_pairs(told["needs"]),
        offers=_pairs(told["offers"]),
        signature=(
            SignedBy(_text(signed["signer"]), _text(signed["key"]), _text(signed["digest"]))
            if signed is not None
            else None
        ),
    )


def _read_file(told: Mapping[str, Any]) -> FileEntry:
    path, sha256 = _text(told["path"]), _text(told["sha256"])
    if not plain_path(path):
        raise ValueError(f"{path!r} is no plain absolute path")
    if not _SHA256.fullmatch(sha256):
        raise ValueError(f"{sha256!r} is no SHA-256")
    return FileEntry(path, sha256, _text(told["mode"]))


def plain_path(path: str) -> bool:
    """Whether a path may stand in a passport: absolute, and without what a shell would turn."""
    return _PATH.fullmatch(path) is not None and ".." not in path.split("/")


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _texts(values: Sequence[object]) -> tuple[str, ...]:
    if not isinstance(values, list):
        raise TypeError(f"{values!r} is no list")
    return tuple(_text(each) for each in values)


def _pairs(values: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    return tuple((name, _text(value)) for name, value in values.items())


# The bill of materials of what we placed, as CycloneDX 1.5 has it (ECMA-424 is its 1.6).
# Source: https://cyclonedx.org/docs/1.5/json/. Without a time stamp and with a serial number made
# from the content, so that the same image has the same bill.
_SPEC = "1.5"


class Component(Struct, frozen=True):
    """One file that was placed; a kernel module where it has the name of one."""

    path: str
    sha256: str
    module: str = ""  # "nvidia_peermem"; "" for a file that is no module
    version: str = ""
    licence: str = ""  # as the module declares it: "Dual BSD/GPL"
    needs: tuple[str, ...] = ()  # paths of other components


# The document's values are those of JSON, and have no common type.
def bill_of(
    system: str, toolkit: str, components: Sequence[Component], content: str
) -> dict[str, Any]:
    """One CycloneDX document.

    :param system: what they were placed in: "debian 12".
    :param content: what the serial number is made from.
    """
    name, _, version = system.partition(" ")
    image: dict[str, Any] = {"type": "operating-system", "bom-ref": "image", "name": name}
    if version:
        image["version"] = version
    paths = {each.path for each in components}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": _SPEC,
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, content)}",
        "version": 1,
        "metadata": {
            "tools": {
                "components": [
                    {"type": "application", "name": "gdr-toolkit", "version": toolkit},
                ],
            },
            "component": image,
        },
        "components": [_component(each) for each in components],
        "dependencies": [
            {"ref": "image", "dependsOn": sorted(paths)},
            *(
                {"ref": each.path, "dependsOn": sorted(set(each.needs) & paths)}
                for each in components
            ),
        ],
    }


def _component(each: Component) -> dict[str, Any]:
    told: dict[str, Any] = {
        "type": "device-driver" if each.module else "file",
        "bom-ref": each.path,
        "name": each.module or each.path,
    }
    if each.version:
        told["version"] = each.version
    told["hashes"] = [{"alg": "SHA-256", "content": each.sha256}]
    if each.licence:
        told["licenses"] = [{"license": {"name": each.licence}}]
    if each.module:
        told["properties"] = [{"name": "gdr-toolkit:path", "value": each.path}]
    return told
