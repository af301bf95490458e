"""A site's own checks, from the text of its files: they judge by facts, as ours do, and do no more.

What they import and call is looked at in the text before it runs, and as it runs: plain modules
alone, and no name of Python that reads, writes or reaches into objects. That keeps a check from
asking the operator's machine in place of the node by mistake. It is no jail: whoever may write a
site's folder may do as its user does, and toolkit/verbs/site_folder.py looks at who that is.
"""

from __future__ import annotations

import ast
import builtins
import functools
from collections.abc import Iterator
from types import ModuleType

from msgspec.structs import replace

from toolkit.checks.all import BY_ID
from toolkit.checks.check import Check, Finding, Impact, Judge, unknown
from toolkit.errors import NoEvidence, Unparsable, UsageError
from toolkit.facts.node.node import Node
from toolkit.want import Want

_MODULES = """
__future__ collections collections.abc dataclasses enum functools itertools math re statistics
typing toolkit.checks.check toolkit.errors toolkit.plural toolkit.want
"""
_PLAIN = frozenset(_MODULES.split())
_FACTS = "toolkit.facts."
_WORDS = """
ArithmeticError AttributeError Exception False IndexError KeyError LookupError None NotImplemented
StopIteration True TypeError ValueError ZeroDivisionError __build_class__ abs all any bool bytes
callable chr classmethod dict divmod enumerate filter float format frozenset hash hex int isinstance
issubclass iter len list map max min next object oct ord pow property range repr reversed round set
slice sorted staticmethod str sum super tuple type zip
"""
_NAMES = frozenset(_WORDS.split())
_ABOUT = "docs/site.md has what a check may use"


def checks_of(file: str, text: str) -> tuple[Check, ...]:
    """The checks of one file, in their order.

    :raises UsageError: it does what none may, cannot be run, or has an id that is taken.
    """
    try:
        tree = ast.parse(text, file)
        for line, why in _refused(tree):
            raise UsageError(f"{file}:{line}: {why}", hint=_ABOUT)
        name = file.rpartition("/")[2].removesuffix(".py")
        own: dict[str, object] = {"__builtins__": _builtins(), "__name__": f"site.{name}"}
        exec(compile(tree, file, "exec"), own)  # noqa: S102 what it may do was looked at
    except UsageError:
        raise
    except Exception as why:
        hint = "it is for another version of the toolkit, or has a mistake"
        said = f"{file}:{_line(why, file)}: {type(why).__name__}: {why}"
        raise UsageError(said, hint=hint) from why
    found = [each for each in own.values() if isinstance(each, Check)]
    for each in found:
        if each.id in BY_ID:
            raise UsageError(
                f"{file}: {each.id} is a check of this version of the toolkit",
                hint="take ours and remove it, or give it another id",
            )
        if not (isinstance(each.impact, Impact) and "." in each.id and each.judge.__doc__):
            raise UsageError(
                f"{file}: {each.id}: its id is TOPIC.NAME, its impact one of Impact, and its"
                " docstring the title",
                hint=_ABOUT,
            )
    return tuple(replace(each, judge=_careful(file, each)) for each in found)


def _careful(file: str, check: Check) -> Judge:
    """Its judgement; a mistake in it leaves the verdict open, and the run goes on."""
    judge = check.judge

    @functools.wraps(judge)
    def careful(node: Node, want: Want) -> Finding:
        try:
            found = judge(node, want)
        except (NoEvidence, Unparsable):
            raise
        except Exception as why:
            said = f"{file}:{_line(why, file)}: {type(why).__name__}: {why}"
            return unknown(said, hint="the check of your site has a mistake")
        if isinstance(found, Finding):
            return found
        return unknown(f"{file}: gives no finding", hint="return passed(...) or failed(...)")

    return careful


def _line(why: Exception, file: str) -> int:
    if isinstance(why, SyntaxError):
        return why.lineno or 0
    trace, line = why.__traceback__, 0
    while trace:
        line = trace.tb_lineno if trace.tb_frame.f_code.co_filename == file else line
        trace = trace.tb_next
    return line


def _refused(tree: ast.AST) -> Iterator[tuple[int, str]]:
    made = {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    made |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    made |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Import):
            yield line, f"write from {node.names[0].name} import NAME"
        elif isinstance(node, ast.ImportFrom) and not _allowed(node.module or "", node.level):
            yield line, f"a check judges facts, and cannot import {node.module or '.'}"
        elif isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            yield line, f"a check judges facts, and cannot use {node.attr}"
        elif isinstance(node, ast.Name) and node.id not in made and _beyond(node.id):
            yield line, f"a check judges facts, and cannot use {node.id}"


def _beyond(name: str) -> bool:
    return name.startswith("__") or (hasattr(builtins, name) and name not in _NAMES)


def _allowed(module: str, level: int = 0) -> bool:
    return level == 0 and (module in _PLAIN or module.startswith(_FACTS))


def _builtins() -> dict[str, object]:
    own: dict[str, object] = {name: getattr(builtins, name) for name in _NAMES}
    return own | {"__import__": _import}


def _import(
    name: str, _globals: object, _locals: object, names: tuple[str, ...], level: int
) -> object:
    """What the statement calls: no module is had by it, from which others could be reached."""
    found = __import__(name, None, None, names, level) if _allowed(name, level) else None
    for each in names:
        if isinstance(getattr(found, each, None), ModuleType) or each[0] in "_*":
            raise ImportError(f"{each} of {name} is nothing that a check may import")
    return found
