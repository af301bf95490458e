"""Constants of the throughput model: toolkit/compat/data/throughput.toml, read once.

Bandwidths in GB/s (10^9 bytes, one way), times in us, sizes in bytes, rates in Gb/s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from toolkit.compat.rows import Confidence
from toolkit.untrusted import read_toml

_TABLE = Path(__file__).parent / "data" / "throughput.toml"


class Range(Struct, frozen=True):
    """A value and what it may be as well; never negative, low <= value <= high."""

    value: float
    low: float
    high: float

    @classmethod
    def exactly(cls, value: float) -> Range:
        return cls(value, value, value)

    @classmethod
    def together(cls, parts: Iterable[Range]) -> Range:
        """The sum of some; nothing for none."""
        found = list(parts)
        return cls(
            sum(each.value for each in found),
            sum(each.low for each in found),
            sum(each.high for each in found),
        )

    def __mul__(self, other: Range | float) -> Range:
        by = other if isinstance(other, Range) else Range.exactly(other)
        return Range(self.value * by.value, self.low * by.low, self.high * by.high)

    def __add__(self, other: Range) -> Range:
        return Range(self.value + other.value, self.low + other.low, self.high + other.high)

    def map(self, rising: Callable[[float], float]) -> Range:
        """What a rising function makes of it."""
        return Range(rising(self.value), rising(self.low), rising(self.high))

    def over(self, other: Range) -> Range:
        """Divided: the lowest is what the highest divisor leaves."""
        return Range(self.value / other.value, self.low / other.high, self.high / other.low)

    def at_most(self, other: Range) -> Range:
        return Range(
            min(self.value, other.value), min(self.low, other.low), min(self.high, other.high)
        )

    def no_higher(self, ceiling: float) -> Range:
        return self.at_most(Range.exactly(ceiling))

    def wider(self, low: float, high: float) -> Range:
        """With bounds at least as far from the value as these factors of it."""
        return Range(self.value, min(self.low, self.value * low), max(self.high, self.value * high))


class Basis(StrEnum):
    """What a constant rests on."""

    STANDARD = "standard"  # arithmetic of a specification
    VENDOR = "vendor"  # a vendor's figure
    PUBLISHED = "published"  # a figure of a report that is no point of the accuracy table
    FITTED = "fitted"  # median over points; where a source is judged, over those of others
    ASSUMED = "assumed"  # nobody published it


class Constant(Struct, frozen=True, kw_only=True):
    """One number of the model with how far it may be off."""

    id: str
    unit: str  # "GB/s", "us", "bytes"; "" for a factor
    basis: Basis
    source: str
    confidence: Confidence
    range: Range
    # Of a fitted one: what stands in where no point is left, a number or another constant.
    prior: float | None = None
    prior_of: str = ""
    why_prior: str = ""
    prior_bounds: tuple[float, float] | None = None  # where it is less sure than the fit
    also: tuple[float, ...] = ()  # what reports say that are no points


class CpuClass(Struct, frozen=True, kw_only=True):
    """Processors that treat peer traffic alike; the ids of their factors on what links carry."""

    id: str  # "amd-genoa"
    vendor: str  # as /proc/cpuinfo has it
    family: int
    models: tuple[int, ...]
    name: str
    source: str
    confidence: Confidence
    same: str  # writes through the root complex of one socket
    same_read: str
    cross: str  # between sockets; reads no better
    memory: float = 0.0  # GB/s of a socket's channels together, by their number and speed
    client: bool = False


class Constants(Struct, frozen=True, eq=False):
    """All of them; a fit puts other values in. Equal only to itself, so that it can be a key."""

    rows: Mapping[str, Constant]
    cpus: tuple[CpuClass, ...]
    # Gb/s that a port of an HCA has at most, by PCI vendor and device
    rates: Mapping[tuple[int, int], float]
    links: Mapping[str, float]  # GT/s of a GPU's link at best, by its architecture

    def __getitem__(self, name: str) -> Range:
        return self.rows[name].range

    def cpu(self, vendor: str, family: int, model: int) -> CpuClass | None:
        """The class of a processor; None for one that is not known."""
        return next(
            (
                each
                for each in self.cpus
                if (each.vendor, each.family) == (vendor, family)
                and (not each.models or model in each.models)
            ),
            None,
        )

    def but(self, values: Mapping[str, float | Range]) -> Constants:
        """With other values, whose bounds keep their distance in proportion where none is given."""
        rows = dict(self.rows)
        for name, value in values.items():
            old = rows[name].range
            if isinstance(value, Range):
                span = value
            else:
                scale = value / old.value if old.value else 1.0
                span = Range(value, old.low * scale, old.high * scale)
            rows[name] = replace(rows[name], range=span)
        return replace(self, rows=rows)


@cache
def constants() -> Constants:
    """The table that we ship.

    :raises ValueError: where a row is not well made.
    """
    tables = read_toml(_TABLE.read_text("utf-8"))
    rows = [_constant(row) for row in tables["constants"]]
    return Constants(
        {row.id: row for row in rows},
        tuple(_cpu(row) for row in tables["cpus"]),
        {
            (int(row["vendor"], 16), int(row["device"], 16)): float(row["gbits"])
            for row in tables["rates"]
        },
        {row["architecture"]: float(row["speed"]) for row in tables["links"]},
    )


# Any: TOML values have no common type.
def _constant(row: dict[str, Any]) -> Constant:
    found = Constant(
        id=row["id"],
        unit=row.get("unit", ""),
        basis=Basis(row["basis"]),
        source=row["source"],
        confidence=Confidence(row["confidence"]),
        range=_range(
            row["id"], [row.get("low", row["value"]), row["value"], row.get("high", row["value"])]
        ),
        prior=row.get("prior"),
        prior_of=row.get("prior_of", ""),
        why_prior=row.get("why_prior", ""),
        prior_bounds=(row["prior_low"], row["prior_high"]) if "prior_low" in row else None,
        also=tuple(row.get("also", ())),
    )
    stands_in = (found.prior is not None) + bool(found.prior_of)
    if stands_in != (found.basis is Basis.FITTED) or bool(stands_in) != bool(found.why_prior):
        raise ValueError(f"throughput: {found.id}: a prior with its reason belongs to a fit")
    return found


def _cpu(row: dict[str, Any]) -> CpuClass:
    confidence, memory = Confidence(row["confidence"]), float(row.get("memory", 0))
    read = {"models": tuple(row["models"]), "confidence": confidence, "memory": memory}
    return CpuClass(**{**row, **read})


def _range(name: str, bounds: list[float]) -> Range:
    low, value, high = map(float, bounds)
    if not 0 <= low <= value <= high:
        raise ValueError(f"throughput: {name}: {low:g} <= {value:g} <= {high:g} does not hold")
    return Range(value, low, high)
