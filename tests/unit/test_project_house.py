"""The code metrics: each is seen to count what is over, and to leave out what is not."""

from __future__ import annotations

import subprocess
import sys

import pytest

from dev import house
from dev.house import Row, rows, terms, text
from dev.run import ROOT

WORDS = ("probe", "kernel")


def value(name: str, sources: dict[str, str]) -> tuple[int, tuple[str, ...]]:
    row = next(each for each in rows(sources, WORDS) if each.name == name)
    return row.value, row.what


def function(lines: int) -> str:
    return "def f():\n" + "    x = 1\n" * (lines - 1)


# The measure, a house where it counts, what it names there, and a house where it does not.
CASES = [
    pytest.param(
        "packages of bios",
        {"toolkit/cli/bios.py": "", "toolkit/facts/bios_kept.py": ""},
        (2, ("2 files", "toolkit/cli 1", "toolkit/facts 1")),
        {"toolkit/bios/plan.py": "", "toolkit/bios/bios.py": "", "toolkit/bios/biosing.py": ""},
        1,
        id="feature",
    ),
    pytest.param(
        "files in one flat folder",
        {f"toolkit/facts/a{n}.py": "" for n in range(46)},
        (46, ("toolkit/facts 46",)),
        {f"toolkit/facts/{n % 2}/a{n}.py": "" for n in range(46)},
        23,
        id="folder",
    ),
    pytest.param(
        "module names with a word of no glossary",
        {"toolkit/kernel_heard.py": ""},
        (1, ("toolkit/kernel_heard.py: heard",)),
        {"toolkit/kernels.py": "", "toolkit/probe_kernel.py": "", "toolkit/__init__.py": ""},
        0,
        id="name",
    ),
    pytest.param(
        "class names in two files",
        {"toolkit/a.py": "class Kind: ...", "toolkit/b.py": "class Kind: ..."},
        (1, ("Kind: toolkit/a.py toolkit/b.py",)),
        {"toolkit/a.py": "class _Kind: ...", "toolkit/b.py": "class _Kind: ...\nclass Kind: ..."},
        0,
        id="class",
    ),
    pytest.param(
        "module stems in two packages",
        {"toolkit/cli/bios.py": "", "toolkit/facts/bios.py": ""},
        (1, ("bios: toolkit/cli/bios.py toolkit/facts/bios.py",)),
        {"toolkit/cli/__init__.py": "", "toolkit/facts/__init__.py": "", "toolkit/bios.py": ""},
        0,
        id="stem",
    ),
    pytest.param(
        "of these with one caller, %",
        {"toolkit/a.py": "def _one(): ...\ndef _two(): ...\n_one()\n_two()\n_two()"},
        (50, ("toolkit/a.py:1 _one",)),
        {"toolkit/a.py": "class A:\n def _m(self): self._m\n def n(self): self._m"},
        0,
        id="caller",
    ),
    pytest.param(
        "small modules with one importer",
        {"toolkit/a.py": "\n" * 80, "toolkit/b.py": "from toolkit.a import x\nimport toolkit.a"},
        (1, ("toolkit/a.py 80 <- toolkit/b.py",)),
        {
            "toolkit/a.py": "\n" * 81,
            "toolkit/b.py": "from toolkit import a, small",
            "toolkit/small.py": "",
            "toolkit/c.py": "def f():\n import toolkit.small",
        },
        0,
        id="crumb",
    ),
    pytest.param(
        "functions over 40 lines",
        {"toolkit/a.py": function(41)},
        (1, ("toolkit/a.py: f 41",)),
        {"toolkit/a.py": function(40)},
        0,
        id="function",
    ),
    pytest.param(
        "files over 400 lines",
        {"toolkit/a.py": "\n" * 401},
        (1, ("toolkit/a.py 401",)),
        {"toolkit/a.py": "\n" * 400},
        0,
        id="file",
    ),
]


@pytest.mark.parametrize(("name", "over", "found", "fine", "left"), CASES)
def test_a_measure_counts_what_it_is_about_and_nothing_else(
    name: str,
    over: dict[str, str],
    found: tuple[int, tuple[str, ...]],
    fine: dict[str, str],
    left: int,
) -> None:
    assert value(name, over) == found
    assert value(name, fine)[0] == left


def test_lines_and_files_are_those_of_all_sources() -> None:
    sources = {"tasks.py": "a = 1\n", "toolkit/a.py": "b = 1\nc = 1\n"}
    assert value("lines of Python", sources)[0] == 3
    assert value("files of Python", sources)[0] == 2


def test_a_glossary_explains_the_words_of_its_first_cells() -> None:
    page = (
        "# Words\n\nSaid of it | all.\n\n| word | means |\n|---|---|\n| probe, BIOS key | scan |\n"
    )
    assert terms(page) == {"word", "probe", "bios", "key"}


@pytest.mark.parametrize(
    ("row", "met"), [(Row("a", 40, 40), True), (Row("a", 41, 40), False), (Row("a", 41), None)]
)
def test_a_budget_is_met_up_to_its_own_number(row: Row, met: bool | None) -> None:
    assert row.met is met


def test_the_table_has_the_budget_beside_the_value_and_another_commit_before_it() -> None:
    shown = text([Row("files", 41, 40, ("a.py",)), Row("new", 1)], {"files": 60})
    assert [line.split() for line in shown.splitlines()] == [
        ["measure", "before", "now", "budget", "for", "one"],
        ["files", "60", "41", "40", "OVER", "a.py"],
        ["new", "-", "1", "-"],
    ]


def test_a_tree_is_measured_with_its_options_and_its_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(house, "STARTS", {"--help": 20})
    row = {each.name: each for each in house.started(ROOT)}
    assert row["options of one verb"].what[0].startswith("provision ")
    assert 0 < row["modules at --help"].value <= 20


def test_a_commit_that_is_none_is_told_of_in_one_line() -> None:
    command = (sys.executable, "-m", "dev.house", "--json", "--at", "no-such-commit")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "git archive has no tree of no-such-commit"
    assert done.stdout == ""


# Words of modules that no glossary has yet: each goes when the last module with it is renamed.
OPAQUE = """
aside beside carry collected comparables demanded depends described dressed dummies each
emulated expected fold half here hygiene if inside kept learned linked look made makers
measured needs one opened past placed places planning quoted rest said saved seen taken throwaway
trouble turn wanted wanting way what wish wishes words
"""


def test_a_module_is_called_by_words_of_the_glossary_or_of_the_field() -> None:
    sources = {each.relative_to(ROOT).as_posix(): "" for each in ROOT.glob("toolkit/**/*.py")}
    known = terms((ROOT / house.GLOSSARY).read_text()) | house.FIELD
    odd = house.unknown_names(sources, known | {*OPAQUE.split()})
    assert odd == (), "rename it, or explain the word in docs/glossary.md"
