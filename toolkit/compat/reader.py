"""What goes with what: drivers, CUDA, kernels, OFED, the libraries, and what is known to break.

Rows of compat/data/*.toml, each with its source and a confidence. A site's own file replaces a
row by its id, or adds one::

    [[compat.consumers]]
    id = "nccl-2.22"
    name = "nccl"
    first = "2.22"
    before = "2.23"
    detects = ["/sys/module/nvidia_peermem/version"]
    dmabuf = true
    prefers = "dmabuf"
    source = "our own build, with a patch"
    confidence = "H"
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit.compat.rows import (
    Breakage,
    CompileBasis,
    Compiles,
    Confidence,
    Consumer,
    CudaGate,
    Distances,
    DkmsExit,
    DriverBranch,
    Failure,
    FailureKind,
    Hca,
    HcaMaker,
    KernelGate,
    OfedRelease,
    Row,
    Span,
    build_numbers,
    numbers,
    refuse_pattern,
    rows,
)
from toolkit.untrusted import read_toml

__all__ = [
    "DATA",
    "Breakage",
    "Compat",
    "CompileBasis",
    "Compiles",
    "Confidence",
    "Consumer",
    "Distances",
    "DkmsExit",
    "Failure",
    "FailureKind",
    "Hca",
    "HcaMaker",
    "Row",
    "Span",
    "maker",
    "numbers",
    "read",
    "shipped",
]
DATA = Path(__file__).parent / "data"


@dataclass(frozen=True, slots=True, repr=False)
class Compat:
    """All tables, each in the order of its file; those of ours are read when they are asked for."""

    drivers: tuple[DriverBranch, ...]
    cuda: tuple[CudaGate, ...]
    kernels: tuple[KernelGate, ...]
    ofed: tuple[OfedRelease, ...]
    hcas: tuple[Hca, ...]
    providers: tuple[HcaMaker, ...]
    consumers: tuple[Consumer, ...]
    distances: tuple[Distances, ...]
    breakages: tuple[Breakage, ...]
    build_failures: tuple[Failure, ...]
    dkms_exits: tuple[DkmsExit, ...]
    compiles: tuple[Compiles, ...]

    if not TYPE_CHECKING:  # else no wrong name would be one

        def __getattr__(self, table: str) -> tuple[Row, ...]:
            """A slot that nothing was put into, which is so of ``shipped``."""
            if table not in _KINDS:
                raise AttributeError(table)
            object.__setattr__(self, table, _table(DATA, table))
            return getattr(self, table)

    def read_ahead(self) -> None:
        """What judging any node asks for is read now, while that node is waited for: 8 ms."""
        for table in ("drivers", "cuda", "kernels", "ofed", "hcas", "providers", "breakages"):
            getattr(self, table)
        self.oldest_kernel("")  # the longest table

    def having(self, **tables: Any) -> Compat:  # noqa: ANN401 rows of each kind
        """With these tables in place of its own."""
        return replace(self, **tables)

    def overlaid(self, tables: object) -> Compat:
        """With a site's rows in place of those of the same id, or behind them.

        :raises ValueError: for an unknown table or key, a missing or a mistyped value.
        """
        if not isinstance(tables, Mapping):
            raise ValueError("compat must hold tables of rows: [[compat.consumers]]")
        changed = self
        for table, given in tables.items():
            if table not in _KINDS:
                raise ValueError(f"compat: unknown table {table!r}; known: {', '.join(_KINDS)}")
            own = {row.id: row for row in _rows(table, given)}
            for row in own.values():
                for name, pattern in row.patterns.items():
                    refuse_pattern(f"compat.{table}: {row.id}: {name}", pattern)
            kept = {row.id: row for row in getattr(self, table)}
            changed = changed.having(**{table: tuple({**kept, **own}.values())})
        return changed

    def branch(self, driver: str) -> DriverBranch:
        """The branch that a driver belongs to: the last one not above its number."""
        major = next(iter(numbers(driver)), 0)
        return max((b for b in self.drivers if b.branch <= major), key=lambda each: each.branch)

    def ofed_release(self, version: str) -> OfedRelease | None:
        """The last release not above this one; None for one older than all."""
        at = build_numbers(version)
        below = [each for each in self.ofed if build_numbers(each.first) <= at]
        return max(below, key=lambda each: build_numbers(each.first), default=None)

    def hca(self, device: int) -> Hca | None:
        """The kind of HCA of a PCI device id of vendor 15b3; None for one that is not known."""
        return next((each for each in self.hcas if each.device == f"{device:04x}"), None)

    def port_rates(self, vendor: int, device: int, layer: str) -> tuple[str, int, int]:
        """Name of a kind of HCA, Gb/s of its port and of the slowest sound link; 0 for not known.

        :param layer: "Ethernet", or else the slowest of InfiniBand and of all other kinds is meant.
        """
        known = self.hca(device) if vendor == 0x15B3 else None
        if known is not None:
            ethernet = layer == "Ethernet"
            return known.name, known.rate, known.slowest_ethernet if ethernet else known.slowest_ib
        for each in self.providers:
            found = (row.split(":") for row in each.rates if each.vendor == f"{vendor:04x}")
            for name, rate, *slowest in found:
                if name == f"{device:04x}":
                    bound = slowest[-1] if layer == "Ethernet" else slowest[0]
                    return f"{each.name} {vendor:04x}:{name}", int(rate), int(bound)
        return "", 0, 0

    def provider(self, driver: str) -> HcaMaker | None:
        """Who makes the HCAs of a kernel driver of PCI functions; None where not known."""
        return next((each for each in self.providers if driver in each.drivers), None)

    def kernel_gate(self, name: str) -> KernelGate:
        return next(each for each in self.kernels if each.id == name)

    def cuda_gate(self, name: str) -> CudaGate:
        return next(each for each in self.cuda if each.id == name)

    def oldest_kernel(self, driver: str) -> str:
        """The first kernel that a driver compiles for; "" where the rows tell none."""
        floors = (
            row.kernel_before
            for row in self.compiles
            if row.part == "driver"
            and not (row.works or row.kernel_first or row.releases)
            and row.covers(driver)
        )
        return next(floors, "")

    def compiling(
        self, part: str, version: str, release: str, flavour: str = ""
    ) -> tuple[Compiles, ...]:
        """All rows of a version of a part and a kernel; the first decides, unless it is unsure.

        What fails stands before what works, and the surer before the less sure: H, M, L.

        :param flavour: of the driver; with "" the rows of one flavour are left out.
        """
        rows = (
            row
            for row in self.compiles
            if row.part == part
            and row.flavour in {"", flavour}
            and row.covers(version)
            and row.covers_kernel(release)
        )
        low = Confidence.LOW
        return tuple(
            sorted(rows, key=lambda row: (row.confidence is low, row.works, row.confidence))
        )

    def compile_row(
        self, part: str, version: str, release: str, flavour: str = ""
    ) -> Compiles | None:
        """The row that answers for a version of a part and a kernel; None where it is not known."""
        first = next(iter(self.compiling(part, version, release, flavour)), None)
        return None if first is None or first.confidence is Confidence.LOW else first

    def will_not_compile(self, part: str, version: str, release: str) -> Compiles | None:
        """The row that says so of a version of a part and a kernel; None where none does."""
        row = self.compile_row(part, version, release)
        return row if row is not None and not row.works else None

    def consumer(self, name: str, version: str) -> Consumer | None:
        """How that version of a library decides; None for a library that is not known."""
        return next((c for c in self.consumers if c.name == name and c.covers(version)), None)

    def nccl_distances(self, version: str) -> Distances:
        return next(each for each in self.distances if each.covers(version))

    def path_name(self, version: str, number: int) -> str:
        """What a distance that NCCL printed means: "PXB"; "" for a number that it cannot be.

        :param version: of the NCCL that printed it: the numbers changed five times.
        """
        names = self.nccl_distances(version).names
        return names[number] if 0 <= number < len(names) else ""

    def breakage(self, name: str) -> Breakage:
        return next(each for each in self.breakages if each.id == name)


_KINDS: dict[str, type[Row]] = {
    "drivers": DriverBranch,
    "cuda": CudaGate,
    "kernels": KernelGate,
    "ofed": OfedRelease,
    "hcas": Hca,
    "providers": HcaMaker,
    "consumers": Consumer,
    "distances": Distances,
    "breakages": Breakage,
    "build_failures": Failure,
    "dkms_exits": DkmsExit,
    "compiles": Compiles,
}


@lru_cache(maxsize=1)
def shipped() -> Compat:
    """The tables that come with the toolkit; each read once: two thirds are for builds alone."""
    return object.__new__(Compat)


@lru_cache(maxsize=4096)
def maker(vendor: int, device: int) -> HcaMaker | None:
    """Whose HCA a PCI function of these ids is, driven or not; None where it need not be one."""
    mine = (each for each in shipped().providers if each.vendor == f"{vendor:04x}")
    return next((e for e in mine if not e.devices or f"{device:04x}" in e.devices), None)


def read(folder: Path) -> Compat:
    """The tables of a folder that has a file for each.

    :raises ValueError: where a row is not well made, with its table and number.
    """
    # Any: which kind of row is whose is beyond a type checker.
    tables: dict[str, Any] = {table: _table(folder, table) for table in _KINDS}
    return Compat(**tables)


def _table(folder: Path, table: str) -> tuple[Row, ...]:
    given = read_toml((folder / f"{table}.toml").read_text("utf-8"))
    return tuple(_rows(table, given.get(table)))


def _rows(table: str, tables: object) -> list[Row]:
    return rows(f"compat.{table}", _KINDS[table], tables, _ENUMS)


_ENUMS: dict[str, type[StrEnum]] = {
    "CompileBasis": CompileBasis,
    "Confidence": Confidence,
    "FailureKind": FailureKind,
}
