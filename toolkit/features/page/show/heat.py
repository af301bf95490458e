"""How near each GPU of a node is to each HCA, as a grid that equal nodes share."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.features.predict.plan.inputs import NOT_TOLD
from toolkit.features.predict.plan.totals import Prediction
from toolkit.features.topology.show.view import View

# The classes of nvidia-smi topo -m, and the shades of base.css that stand for them.
_SHADES = {
    **dict.fromkeys(("C2C", "PIX"), "near"),
    "PXB": "close",
    **dict.fromkeys(("P2C", "PHB"), "middle"),
    **dict.fromkeys(("NODE", "NODE or SYS"), "far"),
    "SYS": "apart",
}


@dataclass(frozen=True, slots=True)
class Spot:
    """One GPU with one HCA."""

    distance: str  # "PIX"; "?" where not told
    gigabytes: float  # of the narrowest link, GB/s one way; 0 where not told
    limit: str  # that link: "32 GT/s x16"
    at: str  # the address of its lower end
    redirects: tuple[str, ...] | None  # bridges that send peer traffic up; None: not known
    predicted: str  # "48 GB/s", as it stands; "" where nothing is predicted
    nearest: bool
    why: str

    @property
    def shade(self) -> str:
        return _SHADES.get(self.distance, "unknown")

    @property
    def told(self) -> str:
        """All of it in one sentence."""
        parts = [self.distance]
        if self.predicted:
            parts.append(f"predicted {self.predicted}")
        if self.limit:
            parts.append(f"narrowest link {self.limit} ({self.gigabytes:g} GB/s) at {self.at}")
        if self.redirects is None:
            parts.append("ACS not known")
        elif self.redirects:
            parts.append(f"redirected at {', '.join(self.redirects)}")
        return "; ".join(parts)


@dataclass(frozen=True, slots=True)
class Heat:
    """GPUs down, HCAs across."""

    source: str  # "PCI tree"
    gpus: tuple[str, ...]
    hcas: tuple[str, ...]
    rows: tuple[tuple[Spot | None, ...], ...]  # by GPU, then by HCA; None where not told
    notes: tuple[str, ...] = ()

    @property
    def redirects(self) -> tuple[str, ...]:
        """The bridges that send peer traffic up to the root complex, with the bits that do."""
        spots = (spot for row in self.rows for spot in row if spot is not None)
        return tuple(dict.fromkeys(each for spot in spots for each in spot.redirects or ()))


def heat(view: View, told: Prediction) -> Heat:
    """The grid of one node."""
    carried = {
        (each.gpu, hca): f"{each.now.value:.0f} {each.now.unit}"
        for each in told.pairs
        for hca in (each.hca, each.name)
    }
    spots = {
        (way.gpu, way.hca): Spot(
            way.distance,
            way.gigabytes,
            way.limit,
            way.limited_at,
            way.redirects,
            carried.get((way.gpu, way.hca), ""),
            way.nearest,
            way.why,
        )
        for way in view.ways
    }
    rows = tuple(tuple(spots.get((gpu, hca)) for hca in view.hcas) for gpu in view.gpus)
    untold = any(each.untold for each in told.pairs)
    notes = (*view.notes, *((f"{NOT_TOLD}: predicted is what it would carry",) if untold else ()))
    return Heat(view.source, view.gpus, view.hcas, rows, notes)
