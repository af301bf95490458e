"""Lines that a person copies a command from."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import toolkit
from toolkit.report.table import labelled, shortened, wrapped

HOME = Path(toolkit.__file__).parent
COMMAND = (
    "./invokew provision --hosts gpu-rack-07-node-[001-128] --max-fail-percentage 5"
    " --boot-without-trial, then /usr/lib/gdr-toolkit/rebuild --dry-run"
)


@pytest.mark.parametrize("width", range(10, 100, 9))
def test_a_command_is_broken_at_blanks_alone(width: int) -> None:
    """A word cut at a hyphen is another option, or a path that is not there."""
    lines = wrapped(COMMAND, width, first="  next: ", rest="        ")
    assert " ".join(lines).split() == ["next:", *COMMAND.split()]
    told = "\n".join(labelled("next", f"{COMMAND} {COMMAND}"))
    assert told.split() == ["next", *COMMAND.split() * 2]


def test_a_cell_is_no_wider_than_its_column() -> None:
    """There only what is longer than the column is cut."""
    path = "/usr/lib/gdr-toolkit/rebuild"
    assert wrapped(f"see {path}", 30, cell=True) == ["see", path]
    assert wrapped(path, 20, cell=True) == [path[:20], path[20:]]
    assert wrapped(path, 20) == [path]


def test_nobody_else_breaks_lines() -> None:
    """textwrap breaks at hyphens unless it is told not to, and words where they do not fit."""
    using = {
        str(path.relative_to(HOME))
        for path in HOME.rglob("*.py")
        if "textwrap" in (source := path.read_text())
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import | ast.ImportFrom)
        and "textwrap" in {getattr(node, "module", ""), *(each.name for each in node.names)}
        and [each.name for each in node.names] != ["dedent"]
    }
    assert using == {"report/table.py"}


@pytest.mark.parametrize(("width", "shown"), [(2, "a…"), (3, "ab…"), (4, "abcd"), (5, "abcd")])
def test_what_a_column_cannot_hold_ends_in_an_ellipsis(width: int, shown: str) -> None:
    assert shortened("abcd", width) == shown
