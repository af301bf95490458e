"""What each verb takes: another name or default is another command line to scripts.

``options_of_verbs.txt`` has a line for each option that verbs share, and for each that a verb has
for itself. To accept a difference, run this with GDR_ACCEPT=1 in the environment.
"""

from __future__ import annotations

import ast
import inspect
import os
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from textwrap import wrap
from types import ModuleType

import pytest
from invoke.parser.argument import Argument

from toolkit.cli import outcome_line, verbs
from toolkit.cli.options import Option, Unsaid, VerbTask
from toolkit.cli.table import VERBS, load
from toolkit.features.bios import cli as bios
from toolkit.features.kubernetes import cli as kubernetes
from toolkit.verbs.cli import plan
from toolkit.verbs.cli import rollout as rolling

KEPT = Path(__file__).parent / "options_of_verbs.txt"
_MORE = ("anew", "file", "bare", "was")
ACCEPT = os.environ.get("GDR_ACCEPT") == "1"
READS = (
    "toolkit/cli/*.py",
    "toolkit/verbs/cli/*.py",
    "toolkit/features/*/cli*.py",
    "toolkit/features/*/cli/*.py",
)
SOURCES = sorted(file for each in READS for file in Path(__file__).parents[2].glob(each))


@cache
def tasks() -> dict[str, VerbTask]:
    """Every verb, by the name that it is called by, from its own code."""
    return {path.rstrip("*"): load(where) for path, where in VERBS}


def line(option: Option, argument: Argument) -> str:
    """One option, as Invoke's parser takes it and as the table of its verb has it."""
    names = " ".join(f"-{name}" if len(name) == 1 else f"--{name}" for name in argument.nicknames)
    kind = getattr(argument.kind, "__name__", "?")
    kind = "text" if kind == Unsaid.__name__ else kind
    facts = [
        argument.attr_name or argument.name or "",
        names,
        kind,
        f"default {option.default!r}",
        f"parsed {argument.default!r}",
        "positional" * bool(argument.positional),
        "optional" * bool(argument.optional),
        "may be said again" * option.many,
        *(f"{name} {value}" for name in _MORE if (value := getattr(option, name))),
    ]
    return ", ".join(each for each in facts if each)


def told() -> str:
    found: dict[str, list[str]] = {}
    for name, task in tasks().items():
        arguments = {(each.attr_name or each.name): each for each in task.get_arguments()}
        found[name] = [line(each, arguments[each.name]) for each in task.options]
    counted = Counter(each for lines in found.values() for each in lines)
    rows = ["# of two verbs or more"]
    rows += [f"{each}: {counted[each]}" for each in sorted(counted) if counted[each] > 1]
    for name, lines in found.items():
        rows += [f"# {name}: {len(lines)} in all"]
        rows += wrap(" ".join(each.split(",")[0] for each in lines if counted[each] > 1), 100)
        rows += [each for each in lines if counted[each] == 1]
    return "\n".join(rows) + "\n"


def asked(tree: ast.Module) -> Iterator[str]:
    """The names by which a module asks what was said, also those that it goes through."""
    consts = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    through: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.For | ast.comprehension) and isinstance(node.target, ast.Name):
            through.setdefault(node.target.id, []).append(node.iter)
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr="text" | "flag" | "number"), args=[what, *_]):
                names = through.get(what.id, []) if isinstance(what, ast.Name) else [what]
                for each in names:
                    yield from words(
                        consts.get(each.id, each) if isinstance(each, ast.Name) else each
                    )


def words(node: ast.expr) -> Iterator[str]:
    match node:
        case ast.Constant(value=str(word)):
            yield word
        case ast.Tuple(elts=held) | ast.List(elts=held):
            for each in held:
                yield from words(each)


def test_every_option_of_every_verb() -> None:
    text = told()
    if ACCEPT:
        KEPT.write_text(text)
    assert text == KEPT.read_text()


def test_every_task_is_a_verb_with_its_options_said_once() -> None:
    assert set(tasks()) == set(verbs().task_names)
    for task in tasks().values():
        names = [each.name for each in task.options]
        assert len(set(names)) == len(names), task.name


@pytest.mark.parametrize("name", sorted(tasks()))
def test_help_of_a_verb_and_of_its_options_is_there(name: str) -> None:
    task = tasks()[name]
    assert (task.__doc__ or "").strip()
    for argument in task.get_arguments():
        assert (argument.help or "").strip(), argument.name


def test_the_law_of_names_reads_them() -> None:
    source = """
A = ("hsots", "limit")
def body(said):
    for name in A: said.flag(name)
    any(said.text(each) for each in ("keey", "user"))
    said.number("fanuot", 3)
"""
    assert {*asked(ast.parse(source))} == {"hsots", "limit", "keey", "user", "fanuot"}


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: file.name)
def test_an_option_that_is_read_is_one_that_a_verb_takes(file: Path) -> None:
    """Said answers "" to a name that nobody takes: the option would do nothing, and say nothing."""
    taken = {each.name for task in tasks().values() for each in task.options}
    assert {*asked(ast.parse(file.read_text()))} - taken == set()


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: file.name)
def test_a_default_that_is_repeated_is_the_options_own(file: Path) -> None:
    defaults: dict[str, set[object]] = {}
    for each in (each for task in tasks().values() for each in task.options):
        defaults.setdefault(each.name, set()).add(each.default)
    for node in ast.walk(ast.parse(file.read_text())):
        match node:
            case ast.Call(
                func=ast.Attribute(attr="number"),
                args=[ast.Constant(value=str(name)), ast.Constant() | ast.UnaryOp() as default],
            ):
                assert ast.literal_eval(default) in defaults[name], name


@pytest.mark.parametrize(
    ("module", "names"),
    [
        (rolling, ("_ALONE", "_PATHS", "_SECRET", "_RIVALS")),
        (plan, ("_OUTPUT_ANEW", "_OF_UNDO")),
        (bios, ("_NOW",)),
        (outcome_line, ("_WAY", "_ASKED")),
        (kubernetes, ("_OF_ROLLOUTS",)),
    ],
)
def test_a_table_of_options_names_options(module: ModuleType, names: tuple[str, ...]) -> None:
    taken = {each.name for task in tasks().values() for each in task.options}
    for name in names:
        [node] = (
            node.value
            for node in ast.parse(inspect.getsource(module)).body
            if isinstance(node, ast.Assign)
            and [name] == [each.id for each in node.targets if isinstance(each, ast.Name)]
        )
        held = {each.value for each in ast.walk(node) if isinstance(each, ast.Constant)}
        assert held, name
        assert held - taken == set(), name
