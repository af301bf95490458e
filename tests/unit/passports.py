"""The healthy node as one that was born from an image, and its passport."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from tests.evidence.build import DRIVER, KERNEL, PEERMEM, SRC, UPDATES
from tests.evidence.frames import Override
from tests.evidence.healthy_boot import ARGUMENTS
from toolkit.facts.passport import (
    FileEntry,
    KernelEntry,
    ModuleEntry,
    Passport,
    SignedBy,
)

IMAGE = f"/boot/vmlinuz-{KERNEL}"
LOAD = "/etc/modules-load.d/gdr-toolkit.conf"
BUILD = "00112233445566778899aabbccddeeff00112233"
NOTE = f"04 00 00 00 14 00 00 00 03 00 00 00 47 4e 55 00 {bytes.fromhex(BUILD).hex(' ')}"
RUN = "20260102T030405Z-17"


def sha(number: int) -> str:
    return f"{number:02x}" * 32


def module(name: str, number: int, path: str = "", *, depends: tuple[str, ...] = ()) -> ModuleEntry:
    return ModuleEntry(
        name,
        FileEntry(path or f"{UPDATES}/{name}.ko", sha(number), "644"),
        f"{KERNEL} SMP mod_unload modversions",
        srcversion=SRC[name],
        version=DRIVER,
        licence="Dual MIT/GPL",
        depends=depends,
    )


PEER = replace(
    module("nvidia_peermem", 3, PEERMEM, depends=("nvidia", "ib_uverbs")),
    build_id=BUILD,
    crcs=sha(77),
    needs=(("module_layout", "0x9060323f"), ("nvidia_p2p_get_pages", "0x4a7f7424")),
    signature=SignedBy("DKMS module signing key", "1234", "sha512"),
)
BORN = Passport(
    toolkit="0.1",
    system="ubuntu 22.04",
    arch="x86_64",
    kernels=(
        KernelEntry(
            KERNEL,
            FileEntry(IMAGE, sha(1), "600"),
            (
                *(
                    module(name, 20 + at)
                    for at, name in enumerate(sorted({*SRC} - {"nvidia_peermem"}))
                ),
                PEER,
            ),
        ),
    ),
    default=KERNEL,
    arguments=tuple(ARGUMENTS.split()),
    files=(FileEntry(LOAD, sha(4), "644"),),
)


def hashed(others: Mapping[str, str] | None = None, passport: Passport = BORN) -> str:
    """The frame "passport-files": as the passport has them, but for others by their path."""
    told = {file.path: file.sha256 for file in passport.every_file} | dict(others or {})
    return "".join(f"{sha256} {path}\n" for path, sha256 in told.items())


def loaded(*, ids: str = NOTE, **others: str) -> str:
    """The frame "passport-loaded": of these modules another srcversion than the passport's."""
    lines = [f"{name} {others.get(name, source)}\n" for name, source in SRC.items()]
    return "".join([*lines, *((f"ids nvidia_peermem\n {ids}\n",) if ids else ())])


def born(image: Passport = BORN, **frames: Override) -> dict[str, Override]:
    """Frames of a node that is as its image was born; others by name, with "_" for "-"."""
    found: dict[str, Override] = {
        "passport": image.json(),
        "passport-files": hashed(passport=image),
        "passport-loaded": loaded(),
    }
    return found | {name.replace("_", "-"): frame for name, frame in frames.items()}
