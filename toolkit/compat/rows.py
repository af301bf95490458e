"""The kinds of rows in compat/data/*.toml, each value checked against its field's type."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import cache
from typing import Any, TypeVar

from msgspec import NODEFAULT, Struct

T = TypeVar("T", bound="Row")
Enums = Mapping[str, type[StrEnum]]  # by the name that annotations use


class Confidence(StrEnum):
    HIGH = "H"  # read in the source at a tag, or in a vendor's document
    MEDIUM = "M"  # one document or issue, or inferred from two
    LOW = "L"  # reported once


def numbers(version: str) -> tuple[int, ...]:
    """ "2.9.8" as (2, 9, 8); a zero at the end counts for nothing, so 2.23 is 2.23.0."""
    found = [int(run) for run in re.findall(r"\d+", re.split(r"[^\d.]", version, maxsplit=1)[0])]
    while found and not found[-1]:
        found.pop()
    return tuple(found)


def build_numbers(version: str) -> tuple[int, ...]:
    """With the numbers of the build behind the dash: "25.10-3.1.8" as (25, 10, 3, 1, 8)."""
    return tuple(map(int, re.findall(r"\d+", re.split(r"[^\d.+~-]", version, maxsplit=1)[0])))


def refuse_pattern(where: str, pattern: str) -> None:
    """A site's slip is found where its file is read, not where a log is.

    :raises ValueError: where it is no regular expression.
    """
    try:
        re.compile(pattern)
    except re.error as why:
        raise ValueError(f"{where}: {why}: {pattern!r}") from why


class Row(Struct, frozen=True, kw_only=True):
    """What every row has."""

    id: str
    source: str
    confidence: Confidence

    @property
    def patterns(self) -> Mapping[str, str]:
        """Its regular expressions, by field."""
        return {}


class Span(Row, frozen=True, kw_only=True):
    """A row that holds for versions from ``first`` on and below ``before``; "" is no bound."""

    first: str = ""
    before: str = ""

    def covers(self, version: str) -> bool:
        at = numbers(version)
        return at >= numbers(self.first) and (not self.before or at < numbers(self.before))


class DriverBranch(Row, frozen=True, kw_only=True):
    branch: int  # 580
    peermem: bool  # nvidia-peermem comes with it
    open: bool  # open kernel modules exist
    dmabuf: str  # lowest version of the branch that exports GPU memory; "" for none
    cuda: str  # version that its libcuda implements; "" where not known
    note: str


class CudaGate(Span, frozen=True, kw_only=True):
    feature: str


class KernelGate(Span, frozen=True, kw_only=True):
    feature: str


class OfedRelease(Span, frozen=True, kw_only=True):
    doca: str  # "" where there was none
    memory_peers: bool  # /sys/kernel/mm/memory_peers exists
    symbol: str  # the module that exports ib_register_peer_memory_client
    note: str


class Hca(Span, frozen=True, kw_only=True):
    """One kind of HCA; the span is that of the OFED releases that support it."""

    device: str  # PCI device id of vendor 15b3: "1023"
    name: str  # "ConnectX-8"
    mlnx_ofed: bool  # MLNX_OFED supports it; DOCA-OFED does in any case
    rate: int = 0  # Gb/s of a port of its fastest board; 0 where not told
    slowest_ib: int = 0  # Gb/s that a sound link with an older switch may have; 0 for no bound
    slowest_ethernet: int = 0


class HcaMaker(Row, frozen=True, kw_only=True):
    """One maker of HCAs, and how these get at GPU memory."""

    name: str  # "Broadcom NetXtreme-E"
    vendor: str  # PCI vendor id: "14e4"
    devices: tuple[str, ...]  # PCI ids that are HCAs even when idle; () for every one of its own
    drivers: tuple[str, ...]  # of the PCI function: "bnxt_en"
    modules: tuple[str, ...]  # what makes the RDMA device: "bnxt_en", "bnxt_re"
    kernel: str  # first that registers dma-buf memory; "" where none is known
    library: str  # first rdma-core that has the call; "" where none is known
    client: str  # module by which peer memory reaches it; "" where not known
    proof: str  # command that tries GPU memory
    tools: str  # commands that tell of device and link
    qos: str  # command that tells priorities; "" where there is none to tell
    before: str = ""  # first kernel on which the maker's own has it, where kernel.org had none
    rates: tuple[str, ...] = ()  # "1760:400:25": PCI id, Gb/s of a port, slowest of a sound link


class Consumer(Span, frozen=True, kw_only=True):
    name: str  # "nccl", "ucx", "nvshmem", "perftest"
    detects: tuple[str, ...]  # files of which one must exist for it to see peermem
    dmabuf: bool
    prefers: str  # "dmabuf", "peermem" or "asked"


class Distances(Span, frozen=True, kw_only=True):
    """How one range of NCCL versions names and limits the paths between GPU and HCA."""

    names: tuple[str, ...]  # by the number that its log prints
    limit: str
    c2c: str  # the farther limit where NCCL_NET_GDR_C2C is 1; "" for none
    c2c_default: int
    c2c_as: str = ""  # what it counts a P2C path as where NCCL_NET_GDR_C2C is 1; "" for itself
    ampere_reads: bool = True  # HCAs read from Ampere on without NVLink; else no GPU without it


class CompileBasis(StrEnum):
    """Who can know whether a module compiles."""

    VENDOR = "vendor"  # NVIDIA's own lists of what it builds or supports
    SOURCE = "source"  # read at a tag: which kernel interfaces it knows
    BUILD = "build"  # compiled by this project


class Compiles(Span, frozen=True, kw_only=True):
    """Whether one range of versions of a part compiles for one range of kernels."""

    part: str  # "driver", "peermem", "ofed"
    basis: CompileBasis = CompileBasis.BUILD  # a site's own row is what it has seen itself
    flavour: str  # of the driver: "open", "proprietary"; "" for both
    kernel_first: str  # by all numbers of a release: "6.1.0-56"; "" for no bound
    kernel_before: str
    releases: str  # regular expression that the kernel release must match; "" for any
    works: bool
    note: str  # what was compiled, or what fails

    @property
    def patterns(self) -> Mapping[str, str]:
        return {"releases": self.releases}

    def covers(self, version: str) -> bool:
        """Whether it speaks of that version of the part: long-term lines differ behind the dash."""
        at = build_numbers(version)
        return at >= build_numbers(self.first) and (
            not self.before or at < build_numbers(self.before)
        )

    def covers_kernel(self, release: str) -> bool:
        at = build_numbers(release)
        if at < build_numbers(self.kernel_first):
            return False
        if self.kernel_before and at >= build_numbers(self.kernel_before):
            return False
        return not self.releases or re.search(self.releases, release) is not None


class Breakage(Row, frozen=True, kw_only=True):
    title: str
    effect: str
    action: str
    checks: tuple[str, ...]  # ids of the checks whose findings it explains


class FailureKind(StrEnum):
    """What of a build fails."""

    HEADERS = "headers"
    COMPILER = "compiler"
    KERNEL = "kernel"  # one that the source is not for
    OFED = "ofed"
    DRIVER = "driver"
    RECIPE = "recipe"  # dkms.conf, patches, scripts
    LICENCE = "licence"
    RESOURCES = "resources"
    SIGNING = "signing"
    DKMS = "dkms"
    LOADING = "loading"


class Failure(Row, frozen=True, kw_only=True):
    """One row of the catalogue of failures: words of a log, what they mean, what to do."""

    kind: FailureKind
    pattern: str  # regular expression, held against each line; quotes are plain ones there
    cause: str
    action: str  # KERNEL stands for the kernel release
    last: bool = False  # says that something failed, not why: counts where no other row does
    excluded: bool = False  # the package does not want that kernel: no failure

    @property
    def patterns(self) -> Mapping[str, str]:
        return {"pattern": self.pattern}


class DkmsExit(Span, frozen=True, kw_only=True):
    """What an exit status of DKMS means; the span is that of DKMS's versions."""

    status: int
    found: str
    action: str
    excluded: bool = False  # the package does not want that kernel: no failure


def rows(where: str, kind: type[T], tables: object, enums: Enums) -> list[T]:
    """The rows of one table, in the order of the file.

    :param where: the table's name as an operator writes it: "compat.consumers".
    :raises ValueError: for an unknown key, a missing or mistyped value, or an id used twice.
    """
    if not isinstance(tables, list) or not tables:
        raise ValueError(f"{where} must be tables: [[{where}]]")
    made = [
        _row(f"{where}, row {number}", kind, table, enums)
        for number, table in enumerate(tables, start=1)
    ]
    twice = repeated(row.id for row in made)
    if twice:
        raise ValueError(f"{where}: two rows have the id {twice!r}")
    return made


def repeated(ids: Iterable[str]) -> str:
    """The first id that stands there a second time; "" for none."""
    seen: set[str] = set()
    for each in ids:
        if each in seen:
            return each
        seen.add(each)
    return ""


def _row(where: str, kind: type[T], table: object, enums: Enums) -> T:
    if not isinstance(table, dict):
        raise ValueError(f"{where} is no table")
    known = _fields(kind)
    unknown = sorted(set(table) - set(known))
    if unknown:
        raise ValueError(f"{where}: unknown key {unknown[0]!r}; known: {', '.join(sorted(known))}")
    missing = [name for name, (_, needed) in known.items() if needed and name not in table]
    if missing:
        raise ValueError(f"{where}: {missing[0]} is missing")
    # Any: what follows from the fields' own annotations is beyond a type checker.
    values: dict[str, Any] = {
        name: _value(f"{where}: {name}", known[name][0], table[name], enums) for name in table
    }
    return kind(**values)


@cache
def _fields(kind: type[Row]) -> Mapping[str, tuple[str, bool]]:
    """By name: its annotation as it is written, and whether each row must have it."""
    told = {
        name: str(its)
        for each in reversed(kind.__mro__)
        for name, its in getattr(each, "__annotations__", {}).items()
    }
    usual = (NODEFAULT,) * len(told) + kind.__struct_defaults__
    needed = [each is NODEFAULT for each in usual[-len(told) :]]
    return {
        name: (told[name], must) for name, must in zip(kind.__struct_fields__, needed, strict=True)
    }


def _value(where: str, kind: str, value: object, enums: Enums) -> object:
    # A field that may be None is None by leaving it out; TOML has no such value.
    kind = kind.removesuffix(" | None")
    if kind in enums:
        fits = value in list(enums[kind])
    elif kind == "tuple[str, ...]":
        fits = isinstance(value, list) and all(isinstance(each, str) for each in value)
    else:
        fits = type(value).__name__ == kind  # True is an int to isinstance
    if not fits:
        raise ValueError(f"{where} must be {_words(kind, enums)}, not {value!r}")
    if kind in enums:
        return enums[kind](str(value))
    return tuple(value) if isinstance(value, list) else value


def _words(kind: str, enums: Enums) -> str:
    if kind == "Confidence":
        return "H, M or L"
    if kind in enums:
        return f"one of {', '.join(enums[kind])}"
    return _WORDS[kind]


_WORDS = {
    "str": "a string",
    "bool": "true or false",
    "int": "a whole number",
    "tuple[str, ...]": "a list of strings",
}
