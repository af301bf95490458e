"""The words of building: parts, what they are built from, what came of it."""

from __future__ import annotations

import json
from enum import StrEnum
from hashlib import sha256

from msgspec import Struct
from msgspec.structs import asdict

PEERMEM = "nvidia-peermem"  # the DKMS package of ours


class Part(StrEnum):
    """What GPUDirect RDMA is built of, in the order in which each rests on those before it."""

    OFED = "ofed"  # exports ib_register_peer_memory_client
    DRIVER = "driver"  # exports nvidia_p2p_*
    PEERMEM = "peermem"
    NVIDIA_FS = "nvidia-fs"
    GDRDRV = "gdrdrv"


class Inputs(Struct, frozen=True):
    """All that makes a build what it is: two builds with equal inputs are one.

    Hashes are SHA-256, lower-case hexadecimal; "" where there is nothing of the kind.
    """

    part: Part
    package: str  # DKMS name: "nvidia-current-open"
    version: str  # as its dkms.conf has it
    kernel: str  # kernel release
    arch: str  # as uname -m prints it
    source: str  # hash of the source tree: paths, modes, contents; and of what /etc/dkms says to it
    headers: str  # hash of the kernel's Module.symvers, configuration, generated headers, programs
    compiler: str  # first line of what it prints of itself
    symvers: str  # hash of the symbol versions of the parts it is linked against
    flags: str  # what was added to the make line; "" for none
    recipe: str  # hash of what of the toolkit took part: scripts, templates

    @property
    def digest(self) -> str:
        """The build's name in the cache."""
        text = json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))
        return sha256(text.encode()).hexdigest()

    @property
    def title(self) -> str:
        return f"{self.package}/{self.version} for {self.kernel}"


class BuiltFile(Struct, frozen=True):
    """One file that a build left."""

    name: str  # "nvidia-peermem.ko", never packed; "Module.symvers"; "make.log"
    data: bytes

    @property
    def sha256(self) -> str:
        return sha256(self.data).hexdigest()


class Built(Struct, frozen=True):
    """A build that succeeded and passed the gate."""

    inputs: Inputs
    files: tuple[BuiltFile, ...]  # in order of names

    @property
    def modules(self) -> tuple[BuiltFile, ...]:
        return tuple(each for each in self.files if each.name.endswith(".ko"))

    def file(self, name: str) -> BuiltFile | None:
        return next((each for each in self.files if each.name == name), None)


class BuildFailure(Struct, frozen=True):
    """A build that did not succeed; nothing of it is kept but its log."""

    inputs: Inputs
    step: str  # the step that failed: "prepare", "make", "gate", ...
    status: int  # exit status of what failed there
    found: str  # one sentence
    cause: str = ""  # from the catalogue of failures; "" where none matches
    action: str = ""  # what to do about it
    tail: tuple[str, ...] = ()  # the last twenty lines of the log; or the one that tells, and 19
    excluded: bool = False  # the package itself does not want that kernel: DKMS's 77
