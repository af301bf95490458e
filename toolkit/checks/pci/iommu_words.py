"""What the kernel makes of its arguments about an IOMMU.

Sources: arch/x86/kernel/pci-dma.c, iommu_setup; drivers/iommu/iommu.c, iommu_set_def_domain_type;
drivers/iommu/intel/iommu.c, intel_iommu_setup; drivers/iommu/amd/init.c,
parse_amd_iommu_options. Of ``iommu=pt``, ``iommu=nopt`` and ``iommu.passthrough`` the last one
counts; ``iommu=`` is read on x86 alone, and each maker's switch on its own processors.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from toolkit.facts.boot.cmdline import Cmdline

INTEL, AMD = ("GenuineIntel",), ("AuthenticAMD", "HygonGenuine")
X86 = (*INTEL, *AMD)
SWITCHES = {"intel_iommu": INTEL, "amd_iommu": AMD, "iommu": X86}
_PLAIN = "iommu.passthrough"


class Asking(Struct, frozen=True):
    """One word that says whether devices are passed through."""

    word: str  # "iommu=pt", "iommu.passthrough=0"
    passes: bool


def asking(arguments: Cmdline, vendor: str = "") -> tuple[Asking, ...]:
    """Every such word that counts, in order.

    :param vendor: as the processor names it; "" where any will do.
    """
    return tuple(_asking(arguments, vendor))


def _asking(arguments: Cmdline, vendor: str) -> Iterator[Asking]:
    x86 = not vendor or vendor in X86
    for name, value in arguments.pairs():
        if name == _PLAIN and (said := truth(value)) is not None:
            yield Asking(f"{name}={value}", said)
        elif name == "iommu" and x86:
            for one in value.split(","):
                if one in {"pt", "nopt"}:
                    yield Asking(f"iommu={one}", one == "pt")


def truth(value: str) -> bool | None:
    """What lib/kstrtox.c, kstrtobool reads from a value; None for what it refuses."""
    low = value.lower()
    if low[:1] in {"y", "t", "1"} or low[:2] == "on":
        return True
    return False if low[:1] in {"n", "f", "0"} or low[:2] == "of" else None


def passes_through(arguments: Cmdline, vendor: str = "") -> str:
    """The argument that lets peer traffic pass; "" for none.

    :param vendor: as the processor names it; "" where any will do.
    """
    if off := turned_off(arguments, vendor):
        return off
    last = next(iter(asking(arguments, vendor)[-1:]), None)
    return last.word if last is not None and last.passes else ""


def translation_asked(arguments: Cmdline, vendor: str = "") -> str:
    """The word that asks for translation, and counts; "" for none."""
    last = next(iter(asking(arguments, vendor)[-1:]), None)
    return last.word if last is not None and not last.passes else ""


def turned_off(arguments: Cmdline, vendor: str) -> str:
    """The argument that turns the IOMMU off; "" for none.

    ``iommu=off`` counts wherever it stands, for nothing takes it back.
    """
    for name, makers in SWITCHES.items():
        if vendor and vendor not in makers:
            continue
        switched = [each for each in settings(arguments, name) if each in {"on", "off"}]
        if "off" in switched[-1:] or (name != "intel_iommu" and "off" in switched):
            return f"{name}=off"
    return ""


def settings(arguments: Cmdline, name: str) -> tuple[str, ...]:
    """The comma-separated values of ``name``, all occurrences together, in order."""
    return tuple(one for value in arguments.values(name) for one in value.split(",") if one)
