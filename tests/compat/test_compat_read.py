"""Each row of the tables is read by code, and no version stands in both."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, find, settings
from hypothesis import strategies as st

from dev.compiles import KERNELS, SHOWN
from tests.checks.test_failure_catalogue import SEEN as CATALOGUE
from toolkit.checks.all import BY_ID
from toolkit.checks.breakages import MATCHES
from toolkit.checks.firmware.bios import check_id
from toolkit.checks.kernel.build_failures import dkms_exit
from toolkit.compat import bios, gpus, throughput
from toolkit.compat.reader import DATA, Compat, maker, shipped
from toolkit.compat.rows import build_numbers

TOOLKIT = Path(__file__).parents[2] / "toolkit"
COMPAT: Compat = shipped()


SEEN = {name for name, _ in CATALOGUE}  # each by a line that brings it up: held there
GATES = ("kernels", "cuda", "ofed", "hcas")  # tables of since when there is something


@cache
def _code() -> str:
    return "\n".join(path.read_text() for path in sorted(TOOLKIT.rglob("*.py")))


def _gate(row: Any) -> bool:
    """Whether code asks for the gate: kernel_gate("ID"), cuda_gate("ID") or gate("ID")."""
    return f'gate("{row.id}")' in _code()


def _named(row: Any) -> bool:
    """Whether code asks for the row by its id."""
    return f'"{row.id}"' in _code()


def _asked_by_name(row: Any) -> bool:
    """Of the constants: by code, or by the row of a processor."""
    cpus = {
        n for each in throughput.constants().cpus for n in (each.same, each.same_read, each.cross)
    }
    return row.id in cpus or _named(row)


def _foretells(row: Any) -> bool:
    """Whether some version and some kernel come to the row, and not one that it does not cover."""
    version = next(v for v in (row.first, "1") if v and row.covers(v))
    kernels = [f"{row.kernel_first or '1.0'}{tail}" for tail in TAILS] + [*KERNELS, *SHOWN.values()]
    return any(row.covers_kernel(each) for each in kernels) and row in [
        each for each in COMPAT.compiles if each.part == row.part and each.covers(version)
    ]


def _makes(row: Any) -> bool:
    """Whether its drivers and its PCI ids come to the row of a maker of HCAs."""
    ids = {maker(int(row.vendor, 16), int(each, 16)) for each in row.devices or ("1",)}
    return ids == {row} and {COMPAT.provider(each) for each in row.drivers} == {row}


def _known(row: Any) -> bool:
    """Whether each GPU of a machine's or board's row comes to it, under a name that it has."""
    if isinstance(row, gpus.GpuBoard):
        return all(gpus.board(frozenset({each})) is row for each in row.devices)
    any_ = settings(phases=[Phase.generate], database=None)  # nobody minds how short it is
    name = find(st.from_regex(row.product, fullmatch=True), lambda _: True, settings=any_)
    dmi = {"sys_vendor": row.vendor, "product_name": name}
    return all(gpus.machine_type(dmi, frozenset({each})) is row for each in row.devices)


TAILS = (
    ".0",
    "-amd64",
    ".0-50-amd64",
    ".48+deb13-amd64",
    ".117+deb12-amd64",
    ".0-687.el9_8.x86_64",
    "-cloud-amd64",
    "-rt-amd64",
    "+deb12-amd64",
    "+deb13-amd64",
)


# By file: the rows, and how code comes to one of them.
READ: dict[str, tuple[tuple[Any, ...], Callable[[Any], bool]]] = {
    "drivers": (COMPAT.drivers, lambda r: COMPAT.branch(f"{r.branch}.1") is r),
    "cuda": (COMPAT.cuda, _gate),
    "kernels": (COMPAT.kernels, _gate),
    "ofed": (COMPAT.ofed, lambda r: COMPAT.ofed_release(f"{r.first}.0") is r),
    "hcas": (COMPAT.hcas, lambda r: COMPAT.hca(int(r.device, 16)) is r),
    "consumers": (COMPAT.consumers, lambda r: COMPAT.consumer(r.name, r.first or "0.1") is r),
    "distances": (COMPAT.distances, lambda r: COMPAT.nccl_distances(r.first or "0.1") is r),
    "breakages": (COMPAT.breakages, lambda r: r.id in MATCHES),
    "build_failures": (COMPAT.build_failures, lambda r: r.id in SEEN),
    "dkms_exits": (
        COMPAT.dkms_exits,
        lambda r: r in {dkms_exit(r.status, v) for v in (r.first or "2.0", "3.4.3", "3.0.11")},
    ),
    "compiles": (COMPAT.compiles, _foretells),
    "gpus": (gpus.chips(), lambda r: {gpus.chip(r.first), gpus.chip(r.last)} == {r}),
    "throughput": (tuple(throughput.constants().rows.values()), _asked_by_name),
    "providers": (COMPAT.providers, _makes),
    "machines": ((*gpus.machine_types(), *gpus.boards()), _known),
    "xids": (gpus.xid_rows(), lambda r: {gpus.xid_row(r.first), gpus.xid_row(r.last)} == {r}),
    "bios": (bios.shipped().rows, lambda r: r.mistaken or check_id(r.setting) in BY_ID),
}


@pytest.mark.parametrize("table", sorted(path.stem for path in DATA.glob("*.toml")))
def test_each_row_of_a_table_is_read_by_code(table: str) -> None:
    rows, reads = READ[table]
    assert rows
    assert not [row for row in rows if not reads(row)]


def _bounds() -> set[tuple[int, ...]]:
    """The versions that the tables tell: from where on something is there, or compiles at all."""
    rows: list[Any] = [row for table in GATES for row in getattr(COMPAT, table)]
    told = [each for row in rows for each in (row.first, row.before)]
    told += [each.dmabuf for each in COMPAT.drivers]
    told += [each.before for each in COMPAT.compiles if not each.works]
    told += [each.kernel_before for each in COMPAT.compiles if not each.kernel_first]
    return {numbers for each in told if len(numbers := build_numbers(each)) > 1}


def _whole(values: list[ast.expr]) -> tuple[int, ...]:
    found = [each.value for each in values if isinstance(each, ast.Constant)]
    return tuple(each for each in found if type(each) is int) if len(found) == len(values) else ()


def _versions(tree: ast.AST) -> Iterator[tuple[int, tuple[int, ...]]]:
    """The versions that code compares with: at_least(6, 2), (6, 2), numbers("6.2")."""
    for each in ast.walk(tree):
        match each:
            case ast.Tuple(elts=values, lineno=line):
                yield line, _whole(values)
            case ast.Call(func=ast.Attribute(attr="at_least"), args=values, lineno=line):
                yield line, _whole(values)
            case ast.Call(func=ast.Name(), args=[*_, ast.Constant(value=str(text))], lineno=line):
                yield line, build_numbers(text)


def test_no_version_of_the_tables_stands_in_code_too() -> None:
    """What stands in two places is mended in one of them."""
    bounds = _bounds()
    assert (6, 2) in bounds
    twice = [
        f"{path.relative_to(TOOLKIT)}:{line}: {version}"
        for path in sorted(TOOLKIT.rglob("*.py"))
        if "demo" not in path.parts
        for line, version in _versions(ast.parse(path.read_text()))
        if version in bounds
    ]
    assert not twice


def test_code_that_is_read_for_versions_is_read_in_all_its_forms() -> None:
    text = "a.at_least(6, 2)\nB = (6, 2)\nnumbers('6.2')\n"
    assert [version for _, version in _versions(ast.parse(text))] == [(6, 2)] * 3
