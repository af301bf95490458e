"""Errors are two sentences and an exit code; over many hosts they are values."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from toolkit import errors
from toolkit.errors import (
    WORST_FIRST,
    CutOff,
    ExitCode,
    NoEvidence,
    Outcome,
    ToolkitError,
    TransportError,
    Unparsable,
    worst,
)

TREE = sorted(
    (each for each in vars(errors).values() if isinstance(each, type)),
    key=lambda each: each.__name__,
)
ERRORS = [each for each in TREE if issubclass(each, ToolkitError)]


def drawn() -> dict[str, str]:
    """The tree in the docstring: class name and the exit code beside it, "" where inherited."""
    lines = re.findall(r"^[ │├└─]*(\w+) +(\d+)? ", errors.__doc__ or "", re.MULTILINE)
    return {name: code for name, code in lines if name in vars(errors)}


@pytest.mark.parametrize("error", ERRORS)
def test_the_tree_is_drawn_as_it_is(error: type[ToolkitError]) -> None:
    code = drawn()[error.__name__]
    parent = error.__mro__[1]
    inherited = getattr(parent, "exit_code", None)
    assert error.exit_code == (int(code) if code else inherited)


def test_nothing_is_drawn_that_is_not_there() -> None:
    assert set(drawn()) == {error.__name__ for error in ERRORS}


def test_exit_codes_are_those_of_the_design() -> None:
    assert {code.name: code.value for code in ExitCode} == {
        "OK": 0,
        "FAILED": 2,
        "UNKNOWN": 3,
        "UNREACHABLE": 4,
        "STOPPED": 5,
        "UNSUPPORTED": 6,
        "PENDING": 7,
        "USAGE": 64,
        "BUG": 70,
        "INTERRUPTED": 130,
    }


def test_every_exit_code_of_a_host_has_its_rank() -> None:
    assert set(WORST_FIRST) == set(ExitCode)  # any may be a node's: --run of a node that has none


@pytest.mark.parametrize(
    ("codes", "code"),
    [
        pytest.param([], ExitCode.OK, id="nobody"),
        pytest.param([ExitCode.OK, ExitCode.PENDING], ExitCode.PENDING, id="pending"),
        pytest.param([ExitCode.UNKNOWN, ExitCode.PENDING], ExitCode.PENDING, id="not-only-unknown"),
        pytest.param([ExitCode.UNKNOWN, ExitCode.FAILED], ExitCode.FAILED, id="failed"),
        pytest.param([ExitCode.FAILED, ExitCode.UNREACHABLE], ExitCode.UNREACHABLE, id="reach"),
        pytest.param([ExitCode.STOPPED, ExitCode.UNREACHABLE], ExitCode.STOPPED, id="stopped"),
        pytest.param(list(ExitCode)[:-3], ExitCode.STOPPED, id="all-of-a-run"),
    ],
)
def test_a_run_ends_with_the_worst_of_its_hosts(codes: list[ExitCode], code: ExitCode) -> None:
    assert worst(codes) is code


def test_an_unknown_shape_is_shown_with_its_line_and_cut_to_a_screen() -> None:
    refused = Unparsable("dkms status", "x" * 500, 7)
    assert str(refused) == f"dkms status: cannot read line 7: {'x' * 120!r}"
    assert "bug report" in refused.hint


def test_a_shape_without_lines_has_no_number() -> None:
    assert str(Unparsable("lockdown", "none")) == "lockdown: cannot read: 'none'"


def test_bytes_that_would_move_the_terminal_are_escaped() -> None:
    assert "\x1b" not in str(Unparsable("x", "\x1b[2J"))


def test_an_error_without_hint_has_none() -> None:
    assert ToolkitError("so").hint == ""
    assert CutOff("cut", hint="again").hint == "again"
    assert issubclass(CutOff, NoEvidence)


def test_an_outcome_gives_its_value_or_raises_its_error() -> None:
    assert Outcome("gpu01", value=7).get() == 7
    assert Outcome("gpu01", value=7).ok
    lost: Outcome[int] = Outcome("gpu01", error=TransportError("gone"))
    assert not lost.ok
    with pytest.raises(TransportError, match="gone"):
        lost.get()


def test_an_outcome_of_nothing_is_a_bug() -> None:
    with pytest.raises(AssertionError):
        Outcome("gpu01").get()


def test_no_message_of_the_package_shouts_or_begs() -> None:
    package = Path(errors.__file__).parent
    raised = re.compile(r"raise \w+\(\s*f?\"([^\"]+)\"")
    shouting = [
        (path.name, text)
        for path in package.rglob("*.py")
        for text in raised.findall(path.read_text())
        if "please" in text.lower() or text.endswith("!")
    ]
    assert shouting == []


TOOLKIT = Path(errors.__file__).parent


def _family(trees: Iterable[ast.Module]) -> dict[str, bool]:
    """Errors whose name stands for one class, and whether its kind has a hint."""
    classes = [c for tree in trees for c in ast.walk(tree) if isinstance(c, ast.ClassDef)]
    known = {"ToolkitError": False}
    for _ in range(5):  # as deep as the tree is
        for each in classes:
            names = [base.id for base in each.bases if isinstance(base, ast.Name)]
            above = [known[name] for name in names if name in known]
            if not above or each.name == "ToolkitError":
                continue
            makes = any(isinstance(e, ast.FunctionDef) and e.name == "__init__" for e in each.body)
            usual = any(isinstance(e, ast.Assign) and "usual" in ast.unparse(e) for e in each.body)
            known[each.name] = known.get(each.name, False) or makes or usual or any(above)
    names = [each.name for each in classes]
    return {name: usual for name, usual in known.items() if names.count(name) == 1}


def _hintless(tree: ast.AST, family: dict[str, bool]) -> list[int]:
    calls = (each for each in ast.walk(tree) if isinstance(each, ast.Call))
    ours = (e for e in calls if isinstance(e.func, ast.Name) and not family.get(e.func.id, True))
    told = (each.lineno for each in ours if not any(k.arg in {"hint", None} for k in each.keywords))
    return list(told)


def test_each_error_says_what_to_do() -> None:
    trees = {file: ast.parse(file.read_text("utf-8")) for file in sorted(TOOLKIT.rglob("*.py"))}
    family = _family(trees.values())
    assert len(family) > 40
    found = {
        str(file.relative_to(TOOLKIT)): _hintless(tree, family) for file, tree in trees.items()
    }
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize("error", [each for each in ERRORS if each.usual])
def test_the_hint_of_a_kind_is_a_sentence_that_one_of_its_own_replaces(
    error: type[ToolkitError],
) -> None:
    assert error("it is so").hint == error.usual
    assert (error("it is so").own_hint, error("it is so", hint="do this").own_hint) == (
        "",
        "do this",
    )


def test_the_law_sees_an_error_without_hint() -> None:
    family = _family([ast.parse(Path(errors.__file__).read_text("utf-8"))])
    assert _hintless(
        ast.parse("raise UsageError('so')\nraise HookError('so', hint='do')"), family
    ) == [1]
