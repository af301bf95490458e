"""The table of what compiles: how much it answers, and that it answers nothing wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from dev.compiled import FILE, CompiledPair, as_csv, read_pairs, rows_of_pairs
from dev.compiles import (
    DRIVERS,
    KERNELS,
    OFEDS,
    ListedBuild,
    as_toml,
    coverage,
    held_back,
    main,
    parse_manifests,
    rows_of,
)
from toolkit.compat.reader import Compat, CompileBasis, Confidence, shipped
from toolkit.compat.rows import Compiles, rows
from toolkit.untrusted import read_toml

COMPAT: Compat = shipped()
ENUMS = {"CompileBasis": CompileBasis, "Confidence": Confidence}
MANIFESTS = """driver,doca,kind,os,arch,kernel
24.10-0.7.0.0-0,2.9.0,dynamically_compiled,rhel9.4,amd64,*
24.10-0.7.0.0-0,2.9.0,dynamically_compiled,rhel9.4,arm64,*
24.10-0.7.0.0-0,2.9.0,precompiled,ubuntu24.04,amd64,6.8.0-1019-aws
24.10-0.7.0.0-0,2.9.0,precompiled,ubuntu24.04,amd64,orcale
25.07-0.9.7.0-0,3.1.0,dynamically_compiled,rhel9.4,amd64,*
25.07-0.9.7.0-0,3.1.0,dynamically_compiled,rhel9.6,amd64,*
25.07-0.9.7.0-0,3.1.0,precompiled,ubuntu24.04,amd64,6.8.0-60-generic
25.07-0.9.7.0-0,3.1.0,precompiled,ubuntu24.04,amd64,6.14.0-1011-aws
25.07-0.9.7.0-0,3.1.0,precompiled,ubuntu24.04,amd64,9.9.0-1-mockflavor
TBD,None,precompiled,ubuntu24.04,amd64,6.8.0-61-generic
"""
BUILT = parse_manifests(MANIFESTS)


def answer(version: str, release: str, *, of: Compat = COMPAT) -> tuple[bool, str, str] | None:
    row = of.compile_row("ofed", version, release)
    return None if row is None else (row.works, str(row.basis), str(row.confidence))


@pytest.mark.parametrize(
    ("part", "least"),
    [("driver, open", 0.7), ("driver, proprietary", 0.7), ("nvidia-peermem", 0.9), ("OFED", 0.9)],
)
def test_most_pairs_of_production_are_answered(part: str, least: float) -> None:
    found = next(each for each in coverage(COMPAT) if each.name == part)
    assert found.share > least, found.open


def test_no_pair_is_said_to_compile_and_not_to() -> None:
    asked = [(part, version) for part in ("driver", "peermem") for version in DRIVERS]
    asked += [("ofed", version) for version in OFEDS]
    for part, version in asked:
        for kernel in KERNELS:
            found = COMPAT.compiling(part, version, kernel, "open")
            sure = {row.works for row in found if row.confidence is not Confidence.LOW}
            assert len(sure) < 2, (part, version, kernel, [row.id for row in found])


@pytest.mark.parametrize(
    ("version", "release", "told"),
    [
        pytest.param("26.04-1.1.0", "6.8.0-90-generic", (True, "vendor", "H"), id="listed"),
        pytest.param("26.01-1.0.0", "6.17.0-1053-gcp", (True, "vendor", "M"), id="sister-flavour"),
        pytest.param("26.04-1.1.0", "5.14.0-611.1.1.el9_7.x86_64", (True, "vendor", "M"),
                     id="between-two-minors"),
        pytest.param("25.10-1.7.1", "6.1.0-56-amd64", (True, "build", "H"), id="built-here"),
        pytest.param("25.04-0.6.0", "6.1.0-56-amd64", (True, "build", "H"), id="built-by-hand"),
        pytest.param("23.10-3.2.2", "6.8.0-90-generic", (False, "source", "H"), id="strlcpy"),
        pytest.param("24.07-0.6.1", "6.11.0-1018-azure", (False, "source", "H"), id="ts-info"),
        pytest.param("25.04-0.6.1", "6.17.0-20-generic", (False, "source", "H"), id="timers"),
        pytest.param("25.10-1.7.1", "6.12.117+deb12-amd64", (False, "build", "H"),
                     id="point-release"),
        pytest.param("24.10-3.2.5", "6.4.0-150700.53.28-default", None, id="nothing-told"),
        pytest.param("26.07-0.4.3", "7.4.0-1-generic", None, id="a-kernel-beyond-all-lists"),
        pytest.param("27.01-1.0.0", "6.8.0-90-generic", None, id="a-release-beyond-all-lists"),
    ],
)  # fmt: skip
def test_an_answer_says_who_knows_it_and_how_surely(
    version: str, release: str, told: tuple[bool, str, str] | None
) -> None:
    assert answer(version, release) == told


def test_what_is_no_release_or_no_kernel_is_left_out_of_the_list() -> None:
    assert (
        ListedBuild("24.10-0.7.0", "rhel9.4", ""),
        ListedBuild("24.10-0.7.0", "ubuntu24.04", "6.8.0-1019-aws"),
        ListedBuild("25.07-0.9.7", "rhel9.4", ""),
        ListedBuild("25.07-0.9.7", "rhel9.6", ""),
        ListedBuild("25.07-0.9.7", "ubuntu24.04", "6.8.0-60-generic"),
        ListedBuild("25.07-0.9.7", "ubuntu24.04", "6.14.0-1011-aws"),
    ) == BUILT


def test_rows_made_of_a_list_are_rows_that_the_reader_takes() -> None:
    made = tuple(rows_of(BUILT))
    text = "\n\n".join(map(as_toml, made))
    assert tuple(rows("compat.compiles", Compiles, read_toml(text)["compiles"], ENUMS)) == made


def test_rows_speak_of_what_lies_between_two_lists_and_of_nothing_beyond() -> None:
    table = COMPAT.having(compiles=tuple(rows_of(BUILT)))
    minor = "5.14.0-503.1.1.el9_5.x86_64"
    assert answer("25.07-0.9.7", minor, of=table) == (True, "vendor", "M")
    assert answer("24.10-0.7.0", minor, of=table) is None  # 9.6 is not listed for it
    assert answer("25.07-0.9.7", "6.11.0-18-generic", of=table) == (True, "vendor", "M")
    assert answer("24.10-0.7.0", "6.11.0-18-generic", of=table) is None
    assert answer("25.07-0.9.7", "6.17.0-20-generic", of=table) is None


def test_a_row_of_a_site_is_what_it_has_built_itself() -> None:
    fields = ("flavour", "kernel_first", "kernel_before", "releases")
    own = {"id": "ours", "part": "ofed", "works": True, "note": "seen", "source": "our lab"}
    table = {**own, "first": "24.10", "confidence": "H", **dict.fromkeys(fields, "")}
    site = COMPAT.overlaid({"compiles": [table]})
    release = "6.4.0-150700.53.28-default"
    assert answer("24.10-3.2.5", release, of=site) == (True, "build", "H")


def test_a_row_that_denies_what_the_vendor_builds_is_counted_as_wrong() -> None:
    no = next(row for row in COMPAT.compiles if row.id == "ofed-before-24.04-linux-6.8")
    lie = replace(no, before="27.01", kernel_first="5.14")
    # A tenth of the list is asked for, once the rows are made of the others.
    built = tuple(ListedBuild(f"26.04-0.{n}", "rhel9.4", "") for n in range(1, 40))
    assert held_back(built, 1, COMPAT.having(compiles=()))["right"] == 3
    never = replace(lie, releases="")
    assert held_back(built, 1, COMPAT.having(compiles=(never,)))["wrong"] == 3


def compiled(kernel: str, works: str, note: str = "") -> CompiledPair:
    version = "550.163.01"
    return CompiledPair("2026-11-28", "driver", "open", version, kernel, "gcc 12", works, note)


def test_neighbours_that_compiled_alike_are_one_row_and_nothing_beyond_them() -> None:
    kernels = ("6.12.95+deb13-amd64", "6.12.96+deb13-amd64", "6.12.117+deb13-amd64")
    pairs = [compiled(kernels[0], "yes"), compiled(kernels[2], "no", "nv-pci.c: too few arguments")]
    pairs.insert(0, compiled(kernels[1], "yes"))
    table = COMPAT.having(compiles=tuple(rows_of_pairs(read_pairs(as_csv(pairs)))))
    found = [
        None if row is None else (row.works, str(row.basis))
        for row in (
            table.compile_row("driver", "550.163.01", f"6.12.{number}+deb13-amd64", "open")
            for number in (94, 95, 96, 97, 117, 118)
        )
    ]
    assert found == [None, (True, "build"), (True, "build"), None, (False, "build"), None]
    assert table.compile_row("driver", "550.163.02", kernels[0], "open") is None
    assert table.compile_row("driver", "550.163.01", kernels[0], "proprietary") is None


def test_what_was_compiled_stands_in_the_table() -> None:
    there = {row.id for row in COMPAT.compiles}
    rows_ = rows_of_pairs(read_pairs(FILE.read_text("utf-8")))
    assert [row.id for row in rows_ if row.id not in there] == []


def test_the_command_counts_and_says_which_file_it_wants(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path / "none.csv")]) == 64
    assert "name the file of the manifests" in capsys.readouterr().err
    (tmp_path / "list.csv").write_text(MANIFESTS)
    assert main([str(tmp_path / "list.csv")]) == 0
    assert "nvidia-peermem" in capsys.readouterr().out
