"""The matrix that ``nvidia-smi topo -m`` (or ``-mp``) prints.

Shapes seen: columns named NIC0.. with a legend, or by device (mlx5_0, rocep145s0); with or
without affinity columns, whose titles hold blanks; tabs or blanks; an underlined header; no
NIC at all; SOC for SYS in drivers before 384.
"""

from __future__ import annotations

import re

from msgspec import Struct

from toolkit.errors import Unparsable
from toolkit.facts.pci.topology import Distance

_SOURCE = "nvidia-smi topo -m"
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_GPU = re.compile(r"GPU\d+")
_AFFINITY = re.compile(r"\s(CPU Affinity|NUMA Affinity|GPU NUMA ID)")
_CELL = re.compile(r"X|NV\d+|PIX|PXB|PHB|NODE|SYS|SOC|C2C")
_LEGEND = re.compile(r"\s*(NIC\d+):\s*(\S+)\s*")


ALL_LINKS, GPUS_OF_GRACE = 18, 4  # of a GPU since Hopper; of one operating system


class Matrix(Struct, frozen=True):
    """Names as the driver uses them: "GPU0", "mlx5_0" (the legend's name, where there is one)."""

    gpus: tuple[str, ...]
    nics: tuple[str, ...]
    cells: dict[tuple[str, str], str]  # "PIX", "NV18", "X" by row and column
    numa: dict[str, str]  # NUMA affinity of GPUs, where it was printed
    gpu_numa: dict[str, str]  # NUMA id of a GPU's own memory; only of those that have one

    affinity: bool = True  # whether it has the columns that tell of a GPU's own memory

    @property
    def perhaps_coherent(self) -> bool:
        """It may be of Grace with four GPUs at most, where each has NVLink-C2C to its CPU.

        The matrix shows the PCIe class, NODE, whatever the way by C2C; its column "GPU NUMA ID"
        would tell, and may have been left out. All links of a GPU go to NVSwitches there.
        """
        links = [
            self.cells.get((one, other), "")
            for one in self.gpus
            for other in self.gpus
            if one != other
        ]
        switched = all(link[:2] == "NV" and int(link[2:]) >= ALL_LINKS for link in links)
        return not self.affinity and 1 < len(self.gpus) <= GPUS_OF_GRACE and switched

    def distance(self, one: str, other: str) -> Distance:
        """The PCIe class between two; UNKNOWN where NVLink hides it or it was not printed."""
        return _DISTANCES.get(self.cells.get((one, other), ""), Distance.UNKNOWN)


_DISTANCES = {each.name: each for each in Distance if each < Distance.APART}
_DISTANCES["SOC"] = Distance.SYS


def parse_matrix(text: str) -> Matrix | None:
    """Read the matrix; None where the text is empty or blank.

    :raises Unparsable: no header, a row of another shape or none of a GPU, or two halves that
        contradict.
    """
    lines = _ANSI.sub("", text).replace("\r", "").split("\n")
    if not any(line.strip() for line in lines):
        return None
    head = next((n for n, line in enumerate(lines) if line.split()[:1] == ["GPU0"]), None)
    if head is None:
        raise Unparsable(_SOURCE, next(line for line in lines if line.strip()))
    titles = _AFFINITY.split(lines[head])
    columns, extra = titles[0].split(), titles[1::2]
    rows: dict[str, list[str]] = {}
    for number, line in enumerate(lines[head + 1 :], start=head + 2):
        words = line.split()
        if not words or words[0] == "Legend:":
            break
        cells = words[1 : 1 + len(columns)]
        strange = [cell for cell in cells if not _CELL.fullmatch(cell)]
        if len(cells) < len(columns) or strange or words[0] in rows:
            raise Unparsable(_SOURCE, line, number)
        rows[words[0]] = words[1:]
    if not rows:
        raise Unparsable(_SOURCE, lines[head], head + 1)
    if lost := [name for name in columns if _GPU.fullmatch(name) and name not in rows]:
        raise Unparsable(_SOURCE, f"no row of {lost[0]}: it may be cut")
    found = (_LEGEND.fullmatch(line) for line in lines[head:])
    return _matrix(columns, extra, rows, {each[1]: each[2] for each in found if each})


def _matrix(
    columns: list[str], extra: list[str], rows: dict[str, list[str]], legend: dict[str, str]
) -> Matrix:
    def named(name: str) -> str:
        return legend.get(name, name)

    cells = {
        (named(row), named(column)): cell
        for row, words in rows.items()
        for column, cell in zip(columns, words, strict=False)
    }
    for (row, column), cell in cells.items():
        if cells.get((column, row), cell) != cell:
            raise Unparsable(_SOURCE, f"{row}-{column} is {cell}, {column}-{row} is not")
    affinity = {
        name: dict(zip(extra, words[len(columns) :], strict=False))
        for name, words in rows.items()
        if _GPU.fullmatch(name)
    }
    return Matrix(
        tuple(name for name in columns if _GPU.fullmatch(name)),
        tuple(named(name) for name in columns if not _GPU.fullmatch(name)),
        cells,
        _told(affinity, "NUMA Affinity"),
        _told(affinity, "GPU NUMA ID"),
        bool(extra),
    )


def _told(affinity: dict[str, dict[str, str]], title: str) -> dict[str, str]:
    return {
        gpu: values[title]
        for gpu, values in affinity.items()
        if values.get(title, "N/A").replace("-", "").replace(",", "").isdecimal()
    }
