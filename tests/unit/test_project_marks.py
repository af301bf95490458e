"""A tier imports the files that can hold a test of its own, and misses none."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from types import ModuleType
from typing import cast

import pytest

from dev.run import ROOT
from dev.tiers import table
from dev.tools import MARKS
from tests.conftest import pytest_collection_modifyitems
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
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
        and (node.attr == "add_marker" or (node.attr in MARKS and _of_pytest(node.value)))
    ]
    assert elsewhere == []


def _of_pytest(value: ast.expr) -> bool:
    return isinstance(value, ast.Attribute) and value.attr == "mark"


@pytest.mark.parametrize("tier", ["scripts", "modules", "builds", "machine", "fleet"])
def test_a_tier_takes_every_file_with_its_mark_and_few_others(tier: str) -> None:
    [step] = [step for each in table(()) if each.name == tier for step in each.steps]
    wanted = step.argv[step.argv.index("-m", 3) + 1]
    mark = {"scripts": "shell", "fleet": "sshd"}.get(tier, tier)
    texts = {path: path.read_text() for path in FILES if path.name.startswith("test_")}
    taken = {path for path, text in texts.items() if may_hold(text, wanted, MARKS)}
    assert taken == {path for path, text in texts.items() if f"mark.{mark}" in text}


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


@pytest.mark.parametrize("tier", ["builds", "machine", "fleet"])
def test_a_tier_with_long_files_keeps_their_order(tier: str) -> None:
    [step] = [step for each in table(()) if each.name == tier for step in each.steps]
    assert "--no-loadscope-reorder" in step.argv
