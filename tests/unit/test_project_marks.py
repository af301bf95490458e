"""A tier imports the files that can hold a test of its own, and misses none."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from types import ModuleType
from typing import cast

import pytest

from dev.run import ROOT
from dev.tiers import table
from dev.tools import FOR_FEW, MARKS, for_few
from tests.conftest import pytest_collection_modifyitems
from tests.scripts.shells import Case, usual
from tests.selecting import may_hold

FILES = sorted((ROOT / "tests").rglob("*.py"))


@pytest.mark.parametrize(
    ("text", "wanted", "held"),
    [
        pytest.param("", "", True, id="all"),
        pytest.param("", "builds and not sshd", False, id="a-file-without-marks"),
        pytest.param("pytest.mark.builds", "builds and not sshd", True, id="its-mark"),
        pytest.param("pytest.mark.sshd", "builds and not sshd", False, id="another-mark"),
        pytest.param("mark.builds mark.sshd", "builds and not sshd", True, id="some-of-its-tests"),
        pytest.param("pytest.mark.builds", "not builds", True, id="a-test-without-that-mark"),
        pytest.param("pytestmark = pytest.mark.builds\n", "not builds", False, id="on-all-of-it"),
        pytest.param("pytestmark = pytest.mark.builds\n", "not sshd", True, id="another-on-all"),
        pytest.param(
            "pytestmark = pytest.mark.builds\npytest.mark.sshd", "sshd and builds", True, id="both"
        ),
        pytest.param("pytest.mark.buildings", "builds", False, id="a-longer-name"),
        pytest.param("", "slow", True, id="no-mark-of-ours"),
        pytest.param("", "sshd(port=22)", True, id="more-than-words"),
    ],
)
def test_a_file_is_taken_where_a_test_of_it_may_be_selected(
    text: str, wanted: str, held: bool
) -> None:
    assert may_hold(text, wanted, MARKS) is held


def test_marks_are_given_where_the_test_is() -> None:
    """Else a file would not name what its tests have."""
    elsewhere = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in FILES
        if not path.name.startswith("test_")
        if re.search(r"\bmark\.|add_marker", source := path.read_text())
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute)
        and (node.attr == "add_marker" or (node.attr in MARKS and _of_pytest(node.value)))
    ]
    assert elsewhere == []


def _of_pytest(value: ast.expr) -> bool:
    return isinstance(value, ast.Attribute) and value.attr == "mark"


@pytest.mark.parametrize("tier", ["scripts", "modules", "builds", "machine", "fleet"])
def test_a_tier_takes_every_file_with_its_mark_and_few_others(tier: str) -> None:
    [step] = [step for each in table(()) if each.name == tier for step in each.steps]
    wanted = step.marks
    mark = {"scripts": "shell", "fleet": "sshd"}.get(tier, tier)
    texts = {path: path.read_text() for path in FILES if path.name.startswith("test_")}
    taken = {path for path, text in texts.items() if may_hold(text, wanted, MARKS)}
    assert taken == {path for path, text in texts.items() if f"mark.{mark}" in text}


@pytest.mark.parametrize(
    ("mark", "few"), [(mark, name) for mark, names in FOR_FEW.items() for name in names]
)
def test_no_tier_is_left_out_for_what_few_of_its_tests_need(mark: str, few: str) -> None:
    assert not {tool for tier in table(()) for tool in tier.needs} & set(MARKS[few])
    assert set(MARKS[few]) <= set(for_few(mark))
    having = [
        text
        for text in (path.read_text() for path in FILES if path.name.startswith("test_"))
        if f"mark.{few}" in text
    ]
    assert having
    assert all(f"mark.{mark}" in text for text in having)


def test_long_files_begin_first_and_all_else_keeps_its_order() -> None:
    long = ModuleType("long")
    vars(long)["LONG"] = True
    items = [Asked(None), Asked(ModuleType("quick")), Asked(long), Asked(long)]
    sorted_items = list(items)
    pytest_collection_modifyitems(cast("list[pytest.Item]", sorted_items))
    assert sorted_items == [items[2], items[3], items[0], items[1]]


@dataclass(eq=False, slots=True)
class Asked:
    """As much of a test as is looked at."""

    module: ModuleType | None


@pytest.mark.parametrize("tier", ["unit", "scripts", "builds", "machine", "fleet"])
def test_a_tier_with_long_files_keeps_their_order(tier: str) -> None:
    [step] = [step for each in table(()) if each.name == tier for step in each.steps]
    assert "--no-loadscope-reorder" in step.argv


def test_all_cases_run_in_dash_and_a_tenth_of_each_file_in_each_other_shell() -> None:
    shells = ("dash", "busybox", "bash")
    cases = [
        Case(f"{file}[{shell}-{number}]", file, shell, number)
        for file, count in (("many.py", 40), ("one.py", 1))
        for number in range(count)
        for shell in shells
    ]
    cases.append(Case("many.py[alone]", "many.py", ""))
    cases.append(Case("many.py[bash-x]", "many.py", "bash", "x"))
    taken = [case for case, kept in zip(cases, usual(cases), strict=True) if kept]
    held = [(case.file, case.shell) for case in taken if case.same != "x"]
    counts = {shell: held.count(("many.py", shell)) for shell in shells}
    assert counts == {"dash": 40, "busybox": 4, "bash": 4}
    assert {shell for file, shell in held if file == "one.py"} == set(shells)
    assert {"many.py[alone]", "many.py[bash-x]"} <= {case.name for case in taken}
    mixed = cases[::-1]
    again = {case for case, kept in zip(mixed, usual(mixed), strict=True) if kept}
    assert again == set(taken), "whatever the order, since each of pytest's workers chooses"
