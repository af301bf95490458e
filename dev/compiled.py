"""Builds for the table of what compiles: ``python -m dev.compiles build [WORD ...]``; root.

Compiles nvidia-peermem, or with ``driver`` the interface layer of all modules, of each driver
version that Debian packages, for kernels of Debian's archive. Each pair that was compiled is a
line of dev/compiled.csv with its date, and is not compiled again: what was cut off goes on. Logs of
pairs that fail are kept in the folder that GDR_COMPILED_LOGS names.
"""

from __future__ import annotations

import csv
import io
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from dev.run import ROOT
from tests.builds.grounds import kept, kernels, tree
from tests.builds.mirrors import NotToBeHad, codename, known, lines
from tests.builds.sandbox import Sandbox
from toolkit.compat.reader import CompileBasis, Compiles, Confidence
from toolkit.compat.rows import build_numbers

FILE = ROOT / "dev/compiled.csv"
LIMIT_S = 3600
# Debian's package, its suite, and the flavour that it is of.
DRIVERS = {
    "470.256.02": ("bookworm", "nvidia-tesla-470-kernel-dkms", "proprietary"),
    "525.147.05": ("bookworm", "nvidia-tesla-kernel-dkms", "proprietary"),
    "535.216.03": ("bookworm", "nvidia-tesla-535-kernel-dkms", "proprietary"),
    "535.261.03": ("bookworm", "nvidia-open-kernel-dkms", "open"),
    "535.274.02": ("trixie", "nvidia-tesla-535-kernel-dkms", "proprietary"),
    "550.163.01": ("trixie", "nvidia-open-kernel-dkms", "open"),
    "555.58.02": ("experimental", "nvidia-open-kernel-dkms", "open"),
}
TREES = ("bookworm", "trixie")  # gcc 12 and gcc 14, with the kernels of their archives
_MODULES = {
    "peermem": "nvidia-peermem",
    "driver": "nvidia nvidia-modeset nvidia-drm nvidia-uvm nvidia-peermem",
}
# The core comes as a binary object, and nothing of it is compiled; what it exports is not linked.
_MAKE = """
cd "/usr/src/$S"
for core in nvidia/nv-kernel nvidia-modeset/nv-modeset-kernel; do
    [ ! -d "${core%/*}" ] || gcc -c -x c /dev/null -o "$core.o_binary"
done
make -j2 KERNEL_UNAME="$K" SYSSRC="$(readlink -f /lib/modules/$K/source)" \\
  SYSOUT="$(readlink -f /lib/modules/$K/build)" NV_KERNEL_MODULES="$M" NV_VERBOSE=1 \\
  KBUILD_MODPOST_WARN=1 IGNORE_CC_MISMATCH=1 modules
"""


@dataclass(frozen=True, slots=True)
class CompiledPair:
    """One pair that was compiled: a line of the file."""

    day: str  # "2026-11-28"
    part: str  # "peermem" or "driver"
    flavour: str  # "open" or "proprietary"
    version: str  # of the driver
    kernel: str  # kernel release
    compiler: str  # "gcc 12"
    works: str  # "yes" or "no"
    note: str  # the first error of one that does not

    @property
    def key(self) -> tuple[str, str, str]:
        return self.part, self.version, self.kernel


def read_pairs(text: str) -> tuple[CompiledPair, ...]:
    return tuple(CompiledPair(**row) for row in csv.DictReader(text.splitlines()))


def as_csv(pairs: Sequence[CompiledPair]) -> str:
    out = io.StringIO()
    write = csv.writer(out, lineterminator="\n")
    write.writerow(each.name for each in fields(CompiledPair))
    for each in sorted(pairs, key=lambda each: each.key):
        write.writerow(astuple(each))
    return out.getvalue()


def rows_of_pairs(pairs: Sequence[CompiledPair]) -> Iterator[Compiles]:
    """A row for each run of neighbouring kernels of one series that answered alike.

    What lies between two kernels of a series that were both compiled for is not asked for again.
    """
    series: dict[tuple[str, str, str, str, str], list[CompiledPair]] = {}
    for each in pairs:
        line, tail = _split(each.kernel)
        flavour = "" if each.part == "peermem" else each.flavour
        series.setdefault((each.part, flavour, each.version, line, tail), []).append(each)
    for (part, flavour, _, _, tail), members in sorted(series.items()):
        members.sort(key=lambda each: build_numbers(each.kernel))
        for run in _alike(members):
            yield _row(part, flavour, tail, run)


def _split(kernel: str) -> tuple[str, str]:
    """The series of a kernel, and how its release ends: "6.12" and "+deb13-amd64"."""
    found = re.fullmatch(r"(\d+\.\d+)(?:\.\d+)?(?:-\d+)?((?:\+deb\d+)?-[a-z].*)", kernel)
    if found is None:
        raise ValueError(f"{kernel!r} is not named as Debian names kernels")
    return found[1], found[2]


def _alike(members: list[CompiledPair]) -> Iterator[list[CompiledPair]]:
    run: list[CompiledPair] = []
    for each in members:
        if run and run[-1].works != each.works:
            yield run
            run = []
        run.append(each)
    if run:
        yield run


def _row(part: str, flavour: str, tail: str, run: list[CompiledPair]) -> Compiles:
    first, last, version = run[0], run[-1], run[0].version
    works, many = first.works == "yes", first.kernel != last.kernel
    kernels_ = f"{first.kernel} to {last.kernel}" if many else last.kernel
    note = f"compiled for {kernels_} by {last.compiler}" if works else first.note
    end = [*build_numbers(version)]
    return Compiles(
        id=f"built-{part}-{version}-linux-{_bare(first.kernel, tail)}{tail}",
        part=part,
        basis=CompileBasis.BUILD,
        flavour=flavour,
        first=version,
        before=".".join(map(str, [*end[:-1], end[-1] + 1])),
        kernel_first=_bare(first.kernel, tail),
        kernel_before=_behind(_bare(last.kernel, tail)),
        releases=rf"{re.escape(tail)}$",
        works=works,
        note=note,
        source=f"built by python -m dev.compiles build, {max(each.day for each in run)}",
        confidence=Confidence.HIGH,
    )


def _bare(kernel: str, tail: str) -> str:
    return kernel.removesuffix(tail)


def _behind(kernel: str) -> str:
    """The next number: "6.1.0-56" ends before "6.1.0-57"."""
    head, last = re.fullmatch(r"(.*?)(\d+)", kernel).groups()  # type: ignore[union-attr] # a release
    return f"{head}{int(last) + 1}"


def build(words: Sequence[str]) -> int:
    """Compile what the file lacks.

    :param words: "driver" for all modules; versions, kernels or trees that alone are compiled.
    """
    part = "driver" if "driver" in words else "peermem"
    named = [word for word in words if word != "driver"]
    have = list(read_pairs(FILE.read_text())) if FILE.exists() else []
    missing: dict[str, NotToBeHad] = {}  # by version; the others are compiled nevertheless
    for suite in TREES:
        for kernel in kernels(tree(suite)):
            for version in DRIVERS:
                known = (part, version, kernel) in {each.key for each in have}
                if known or version in missing or not all(_asked(named, (version, kernel, suite))):
                    continue
                begun = time.monotonic()
                try:
                    made = _compile(suite, part, version, kernel)
                except NotToBeHad as why:
                    missing[version] = why
                    continue
                have.append(made)
                FILE.write_text(as_csv(have))
                took = f"{time.monotonic() - begun:.0f} s"
                print(f"{part} {version} {kernel}: {made.works} {made.note} ({took})", flush=True)
    for version, reason in missing.items():
        sys.stderr.write(f"error: {version}: {reason}\n")
    if missing:
        sys.stderr.write(" next: what was compiled is kept; call it again\n")
    return 69 if missing else 0


def _asked(named: Sequence[str], ours: tuple[str, str, str]) -> Iterator[bool]:
    """Of each kind of word that was given at all, one must be ours."""
    kinds = (set(DRIVERS), {k for suite in TREES for k in kernels(tree(suite))}, set(TREES))
    for kind, own in zip(kinds, ours, strict=True):
        given = kind & set(named)
        yield not given or own in given


def _compile(suite: str, part: str, version: str, kernel: str) -> CompiledPair:
    """:raises NotToBeHad: the source cannot be fetched."""
    where, package, flavour = DRIVERS[version]
    source = kept(f"source-{where}-{package}", partial(_fetch, where, package))
    with Sandbox.of(suite) as box:
        [folder] = (path.parent for path in (source / "usr/src").glob("*/dkms.conf"))
        place = box.path(f"usr/src/{folder.name}")
        shutil.copytree(folder, place, symlinks=True)
        done = box.run(
            *("sh", "-c", _MAKE),
            check=False,
            limit_s=LIMIT_S,
            env={"S": folder.name, "K": kernel, "M": _MODULES[part]},
        )
        there = all((place / f"{each}.ko").exists() for each in _MODULES[part].split())
        gcc = box.run("gcc", "-dumpversion").out.strip()
    error = "" if there else _error(done.out)
    if not there:
        _keep_log(f"{part}-{version}-{kernel}", done.out)
    day = datetime.now(UTC).date().isoformat()
    works = "yes" if there else "no"
    return CompiledPair(day, part, flavour, version, kernel, f"gcc {gcc}", works, error)


def _fetch(suite: str, package: str, at: Path) -> None:
    """As tests.builds.sources does, of suites too that no tree is made of."""
    with Sandbox.of("bookworm" if suite == "bookworm" else "trixie") as box:
        box.write("/etc/apt/sources.list.d/asked.list", f"{lines(suite, known(), codename())[0]}\n")
        for words in (("update",), ("download", f"{package}/{suite}")):
            call = 'cd /root && exec apt-get -q -o APT::Sandbox::User= "$@"'
            done = box.run("sh", "-c", call, "-", *words, check=False)
            if done.status:
                raise NotToBeHad(f"apt-get {' '.join(words)}: {done.out[-600:].strip()}")
        [archive] = box.path("root").glob("*.deb")
        box.run("dpkg-deb", "-x", f"/root/{archive.name}", "/root/unpacked")
        shutil.copytree(box.path("root/unpacked"), at, symlinks=True, dirs_exist_ok=True)


def _error(log: str) -> str:
    if found := re.search(r"([\w.-]+\.[ch]):\d+(?::\d+)?: error: (.+)", log):
        return f"{found[1]}: {found[2]}"
    if found := re.search(r"^\*\*\* (Failed .+?)\. Bailing out", log, re.MULTILINE):
        return found[1]  # the vendor's conftest
    return log.strip().rpartition("\n")[2]


def _keep_log(name: str, log: str) -> None:
    if folder := os.environ.get("GDR_COMPILED_LOGS"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / f"{name}.log").write_text(log)
