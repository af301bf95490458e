"""The words of the gate: what modules are held against, and what is said of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from toolkit.facts.modules.symvers import Export


class Refused(StrEnum):
    """Why a module is refused; templates/dkms/gate.sh says the same words."""

    MISSING = "missing"  # the build left no module of that name
    DAMAGED = "damaged"  # the bytes are those of no module, or not all of them
    OTHER_ARCH = "other-arch"
    OTHER_KERNEL = "other-kernel"  # vermagic or module_layout
    STUB = "stub"  # compiled, and imports nothing of what it is for
    NO_PROVIDER = "no-provider"  # nothing exports what it imports
    OTHER_DRIVER = "other-driver"  # built from the source of another driver release
    CRC = "crc"  # built against another version of what it imports
    NO_DEPENDS = "no-depends"  # what it imports from is not recorded
    LICENCE = "licence"
    SIGNATURE = "signature"
    UNKNOWN = "unknown"  # the ground does not tell what to hold it against


@dataclass(frozen=True, slots=True)
class Provider:
    """A module that exports what others of ours import, as it is installed for that kernel.

    Where a part is built in the same run it is that part: see ``gate.built_providers``.
    """

    name: str  # as it calls itself: "nvidia", also where Debian's file is "nvidia-current-open"
    exports: Mapping[str, Export]
    licence: str = ""  # as modinfo has it; "" where not known
    version: str = ""  # of the driver release: "535.261.03"; "" where not known


@dataclass(frozen=True, slots=True)
class WantedSignature:
    """Which signature a module must have."""

    key: str = ""  # serial number or key id, lower-case hex; "" for: not signed at all
    digest: str = ""  # "sha256"; "" for any


@dataclass(frozen=True, slots=True)
class GateGround:
    """What modules are held against: the kernel, and what is installed for it."""

    kernel: str  # kernel release
    arch: str  # as uname -m prints it
    flags: frozenset[str] | None  # vermagic behind the release; None where not known
    symbols: Mapping[str, Export]  # the kernel's Module.symvers; at least module_layout
    providers: tuple[Provider, ...]
    signature: WantedSignature | None = None  # None: whatever it is

    @property
    def versioned(self) -> bool:
        """Whether the kernel was configured with CONFIG_MODVERSIONS."""
        return self.flags is not None and "modversions" in self.flags


@dataclass(frozen=True, slots=True)
class Refusal:
    """One reason for which one module may not be installed."""

    module: str  # file name: "nvidia-peermem.ko"
    cause: Refused
    found: str  # one sentence
    action: str  # what to do about it

    def __str__(self) -> str:
        return f"{self.module}: {self.found}"


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """Which modules of a build may be installed."""

    accepted: tuple[str, ...]  # file names
    refusals: tuple[Refusal, ...]  # of each refused module all, the first cause first

    @property
    def passed(self) -> bool:
        return bool(self.accepted) and not self.refusals

    def refused(self, module: str) -> tuple[Refusal, ...]:
        """Why that file is refused; nothing where it is accepted."""
        return tuple(each for each in self.refusals if each.module == module)
