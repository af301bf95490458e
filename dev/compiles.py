"""How much the table of what compiles answers: ``python -m dev.compiles [MANIFESTS] [--write]``.

``python -m dev.compiles build`` compiles what has not been: see dev/compiled.py.

MANIFESTS is NVIDIA's list of what it builds (columns driver, doca, kind, os, arch, kernel), a file
beside the checkout that is not part of it. A tenth of its pairs is held back, rows are made of
the rest, and each pair held back is asked for; ``--write`` puts the rows of all of it, and of what
was compiled, into toolkit/compat/data/compiles.toml.
"""

from __future__ import annotations

import csv
import random
import re
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from dev.run import ROOT
from toolkit.compat.reader import DATA, Compat, CompileBasis, Compiles, Confidence, shipped
from toolkit.compat.rows import build_numbers
from toolkit.report.table import columns

MANIFESTS = ROOT.parent / "shared" / "doca-manifests.csv"
TABLE = DATA / "compiles.toml"
SEED, HELD = 2026, 10  # one pair of so many is held back
_LINE = "# --------\n"
_SOURCE = "Mellanox/doca-driver-build, release_manifests to 2026-07"
_UBUNTU = re.compile(r"(\d+\.\d+\.\d+)-\d+-([a-z][a-z0-9-]*)")
_RELEASE = re.compile(r"\d\d\.\d\d-[\d.]+")
_MOCK = ("9.9.0",)  # a kernel that stands there for a test

DRIVERS = (
    *("535.261.03", "535.288.01", "550.163.01", "565.77", "570.211.01", "575.64.05"),
    *("580.126.20", "590.48.01", "595.71.05", "610.57.04"),
)
OFEDS = (
    *("23.10-3.2.2", "24.04-0.7.0", "24.07-0.6.1", "24.10-3.2.5", "25.01-0.6.0", "25.04-0.6.1"),
    *("25.07-0.9.7", "25.10-3.1.8", "26.01-1.0.0", "26.04-1.1.0", "26.07-0.4.3"),
)
EL = {
    "rhel8.10": "4.18.0-553.82.1.el8_10.x86_64",
    "rhel9.4": "5.14.0-427.100.1.el9_4.x86_64",
    "rhel9.6": "5.14.0-570.62.1.el9_6.x86_64",
    "rhel9.8": "5.14.0-687.5.1.el9_8.x86_64",
    "rhel10.0": "6.12.0-55.43.1.el10_0.x86_64",
    "rhel10.2": "6.12.0-211.8.1.el10_2.x86_64",
}
KERNELS = (  # of distributions that still mend them in 2026-11
    *EL.values(),
    *("5.15.0-164-generic", "5.15.0-1103-aws", "5.15.0-1108-azure", "5.15.0-1098-gcp"),
    *("5.15.0-1092-oracle", "5.15.0-1091-nvidia"),
    *("6.8.0-90-generic", "6.8.0-1050-aws", "6.8.0-1052-azure", "6.8.0-1053-gcp"),
    *("6.8.0-1048-oracle", "6.8.0-1051-nvidia", "6.11.0-1018-azure", "6.14.0-1021-gcp"),
    *("6.14.0-1016-oracle", "6.17.0-20-generic", "6.17.0-1012-aws", "6.17.0-1010-nvidia"),
    *("7.0.0-14-generic", "7.0.0-1004-azure"),
    *("6.4.0-150600.23.78-default", "6.4.0-150700.53.28-default"),
    *("6.1.0-56-amd64", "6.12.117+deb13-amd64"),
)
# A kernel of each distribution that the list names without one, or that lies between two of it.
SHOWN = {
    **EL,
    "rhel8.8": "4.18.0-477.97.1.el8_8.x86_64",
    "rhel8.9": "4.18.0-513.24.1.el8_9.x86_64",
    "rhel9.2": "5.14.0-284.99.1.el9_2.x86_64",
    "rhel9.3": "5.14.0-362.24.1.el9_3.x86_64",
    "rhel9.5": "5.14.0-503.40.1.el9_5.x86_64",
    "rhel9.7": "5.14.0-611.13.1.el9_7.x86_64",
    "rhel10.1": "6.12.0-124.21.1.el10_1.x86_64",
    "sles15.6": "6.4.0-150600.23.78-default",
    "sles15.7": "6.4.0-150700.53.28-default",
    "ubuntu22.04": "5.15.0-164-generic",
    "ubuntu24.04": "6.8.0-90-generic",
    "ubuntu26.04": "7.0.0-14-generic",
}
_BETWEEN = {"9.5": ("9.4", "9.6"), "9.7": ("9.6", "9.8"), "10.1": ("10.0", "10.2")}


@dataclass(frozen=True, slots=True)
class ListedBuild:
    """One release of OFED that NVIDIA builds for one distribution, or for one of its kernels."""

    ofed: str  # "25.10-3.1.8"
    system: str  # "rhel9.4"
    kernel: str  # kernel release; "" for any of the distribution

    @property
    def line(self) -> str:
        """What a row stands for: "6.8.0", or the distribution where no kernel is told."""
        found = _UBUNTU.fullmatch(self.kernel)
        return found[1] if found else self.system

    @property
    def shown(self) -> str:
        return self.kernel or SHOWN[self.system]


def parse_manifests(text: str) -> tuple[ListedBuild, ...]:
    """What is built, once for all architectures; what stands there for tests is left out."""
    found = []
    for row in csv.DictReader(text.splitlines()):
        ofed = row["driver"].rpartition("-")[0].removesuffix(".0")  # as ofed_info tells it
        kernel = row["kernel"].strip("*")
        named = _UBUNTU.fullmatch(kernel)
        told = row["os"] in SHOWN if not kernel else named and named[1] not in _MOCK
        if told and _RELEASE.fullmatch(ofed):
            found.append(ListedBuild(ofed, row["os"], kernel))
    return tuple(dict.fromkeys(found))


def rows_of(built: Collection[ListedBuild]) -> Iterator[Compiles]:
    """The rows that a list of builds makes; what lies between two of them is less sure."""
    newest = max((each.ofed for each in built), key=build_numbers)
    lines: dict[str, list[ListedBuild]] = {}
    for each in built:
        lines.setdefault(each.line, []).append(each)
    for line, members in sorted(lines.items()):
        if line[0].isdigit():
            flavours = sorted({each.kernel.rpartition("-")[2] for each in members})
            yield _row(f"ofed-{line}", members, newest, line, f"-(?:{'|'.join(flavours)})$")
            sisters = _row(f"ofed-{line}-others", members, newest, line, _FLAVOUR)
            yield replace(sisters, confidence=Confidence.MEDIUM, note=_SISTERS)
        else:
            kernel, pattern = _pattern(line)
            yield _row(f"ofed-{line}", members, newest, kernel, pattern)
    yield from _between(lines, newest)


_FLAVOUR = r"^\d+\.\d+\.0-\d+-[a-z]"
_SISTERS = "NVIDIA builds it for other flavours of this Ubuntu kernel, which share its source"


def _pattern(system: str) -> tuple[str, str]:
    """The version of a distribution's kernels where they are told by it, and what marks them."""
    name, version = system.rstrip("0123456789."), system.lstrip("abcdefghijklmnopqrstuvwxyz")
    if name == "rhel":
        return "", rf"\.el{version.replace('.', '_')}\."
    if name == "sles":
        return "6.4.0", rf"-{version.replace('.', '0')}\d\d\..*-default$"
    return SHOWN[system].partition("-")[0], _FLAVOUR


def _row(
    name: str, members: Collection[ListedBuild], newest: str, kernel: str, pattern: str
) -> Compiles:
    """One row; open above up to the next release where the newest one of all is listed still."""
    ofeds = sorted({each.ofed for each in members}, key=build_numbers)
    last = ofeds[-1]
    still = last.partition("-")[0] == newest.partition("-")[0]
    return Compiles(
        id=name,
        part="ofed",
        basis=CompileBasis.VENDOR,
        flavour="",
        first=ofeds[0],
        before=_after(last) if not still else _after(newest),
        kernel_first=kernel,
        kernel_before=_next(kernel),
        releases=pattern,
        works=True,
        note=f"NVIDIA builds {ofeds[0]} to {last} for it",
        source=_SOURCE,
        confidence=Confidence.HIGH,
    )


def _after(ofed: str) -> str:
    """The first number of the next month: 26.07-0.4 ends before 26.08."""
    year, month = ofed.partition("-")[0].split(".")
    return f"{int(year) + 1}.01" if month == "12" else f"{year}.{int(month) + 1:02d}"


def _next(kernel: str) -> str:
    """The line of kernels behind this one: 6.8.0 ends before 6.9."""
    major, _, rest = kernel.partition(".")
    return f"{major}.{int(rest.partition('.')[0]) + 1}" if kernel else ""


def _between(lines: dict[str, list[ListedBuild]], newest: str) -> Iterator[Compiles]:
    """Kernels between two that one release is built for: its configure asks for each feature."""
    for minor, ends in _BETWEEN.items():
        sets = [{each.ofed for each in lines.get(f"rhel{end}", ())} for end in ends]
        both = [ListedBuild(ofed, "", "") for ofed in sets[0] & sets[1]]
        if both:
            row = _row(f"ofed-rhel{minor}-between", both, newest, "", _pattern(f"rhel{minor}")[1])
            note = f"NVIDIA builds it for RHEL {ends[0]} and {ends[1]}"
            yield replace(row, note=note, confidence=Confidence.MEDIUM)
    months: dict[str, list[ListedBuild]] = {}
    for line, members in lines.items():
        if line[0].isdigit():
            for each in members:
                months.setdefault(each.ofed.partition("-")[0], []).append(each)
    for month, members in sorted(months.items()):
        known = sorted({each.line for each in members}, key=build_numbers)
        row = _row(f"ofed-{month}-between", members, newest, known[0], _PLAIN)
        note = f"NVIDIA builds it for Ubuntu's {known[0]} and {known[-1]}; this one lies between"
        yield replace(
            row,
            first=month,
            before=_after(month),
            kernel_before=_next(known[-1]),
            note=note,
            confidence=Confidence.MEDIUM,
        )


_PLAIN = r"^(?!.*(?:\.el\d|\.fc\d|\.amzn|uek))(?!.*-1507\d\d\.)"


def as_toml(row: Compiles) -> str:
    values = (
        *(("id", row.id), ("part", row.part), ("basis", row.basis), ("flavour", row.flavour)),
        *(("first", row.first), ("before", row.before), ("kernel_first", row.kernel_first)),
        *(("kernel_before", row.kernel_before), ("releases", row.releases)),
        *(("works", row.works), ("note", row.note), ("source", row.source)),
        ("confidence", row.confidence),
    )
    return "\n".join(["[[compiles]]", *(f"{name} = {_quoted(value)}" for name, value in values)])


def _quoted(value: str | bool) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"'{value}'" if "\\" in value else f'"{value}"'


def without(compat: Compat) -> Compat:
    """The table without what a list of builds put into it."""
    kept = tuple(row for row in compat.compiles if row.source != _SOURCE)
    return compat.having(compiles=kept)


def judged(built: Iterable[ListedBuild], compat: Compat) -> Counter[str]:
    """What a table answers to pairs that NVIDIA is known to build."""
    told: Counter[str] = Counter()
    for each in built:
        row = compat.compile_row("ofed", each.ofed, each.shown)
        told["not known" if row is None else "right" if row.works else "wrong"] += 1
    return told


def held_back(built: tuple[ListedBuild, ...], seed: int, compat: Compat) -> Counter[str]:
    """How a table made of nine tenths answers to the tenth that it has not seen."""
    held = set(random.Random(seed).sample(built, len(built) // HELD))  # noqa: S311 - no secret
    bare = without(compat)
    made = tuple(rows_of([each for each in built if each not in held]))
    return judged(held, bare.having(compiles=(*bare.compiles, *made)))


@dataclass(frozen=True, slots=True)
class Coverage:
    """One part: of so many pairs so many were answered."""

    name: str
    pairs: int
    answered: int
    by: Counter[str]  # basis and confidence: "vendor H"
    open: tuple[str, ...]  # the pairs that are not known

    @property
    def share(self) -> float:
        return self.answered / self.pairs


def coverage(compat: Compat) -> tuple[Coverage, ...]:
    """Ten drivers and eleven OFEDs, each with thirty kernels."""
    asked = (
        ("driver, open", "driver", DRIVERS, "open"),
        ("driver, proprietary", "driver", DRIVERS, "proprietary"),
        ("nvidia-peermem", "peermem", DRIVERS, ""),
        ("OFED", "ofed", OFEDS, ""),
    )
    return tuple(_covered(compat, *each) for each in asked)


def _covered(
    compat: Compat, name: str, part: str, versions: tuple[str, ...], flavour: str
) -> Coverage:
    by: Counter[str] = Counter()
    missing = []
    for version in versions:
        for kernel in KERNELS:
            row = compat.compile_row(part, version, kernel, flavour)
            if row is None:
                missing.append(f"{version} {kernel}")
            else:
                by[f"{row.basis} {row.confidence}"] += 1
    return Coverage(name, len(versions) * len(KERNELS), by.total(), by, tuple(missing))


def main(words: list[str]) -> int:
    if words[:1] == ["build"]:
        from dev.compiled import build  # noqa: PLC0415 - wants root and the network

        return build(words[1:])
    given = [each for each in words if not each.startswith("--")]
    file = Path(given[0]) if given else MANIFESTS
    if not file.is_file():
        sys.stderr.write(f"error: {file} is not there\n next: name the file of the manifests\n")
        return 64
    built, compat = parse_manifests(file.read_text("utf-8")), shipped()
    if "--write" in words:
        head = TABLE.read_text("utf-8").partition(_LINE)[0]
        from dev.compiled import FILE, read_pairs, rows_of_pairs  # noqa: PLC0415 - as above

        pairs = read_pairs(FILE.read_text("utf-8"))
        made = "\n\n".join(map(as_toml, (*rows_of_pairs(pairs), *rows_of(built))))
        TABLE.write_text(f"{head}{_LINE}\n{made}\n", "utf-8")
        return 0
    cells = [("part", "pairs", "answered", "", "by")]
    for each in coverage(compat):
        by = ", ".join(f"{name} {count}" for name, count in sorted(each.by.items()))
        cells.append((each.name, str(each.pairs), str(each.answered), f"{each.share:.1%}", by))
        if "--open" in words:
            sys.stdout.write("".join(f"not known: {one}\n" for one in each.open))
    told = held_back(built, SEED, compat)
    sys.stdout.write("\n".join(columns(cells)) + "\n\n")
    sys.stdout.write(f"held back, seed {SEED}: {told.total()} of {len(built)} pairs; ")
    sys.stdout.write(", ".join(f"{told[word]} {word}" for word in ("right", "wrong", "not known")))
    sys.stdout.write("\n")
    return 0 if not told["wrong"] else 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
