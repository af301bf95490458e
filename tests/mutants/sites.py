"""Where in a module's source a mutant can stand, and the source with it. Pure.

Not changed, by rule: docstrings, annotations, sentences and hints, asserts (they are for mypy),
what runs under ``TYPE_CHECKING`` or ``__main__`` alone, what a record promises of itself, and
waits (a number that goes to a name in ``_s``): no test should have to wait them out.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType

from tests.mutants.changes import changes, for_people, is_wait

_TYPES = {"cast", "TypeVar", "ParamSpec", "NewType", "dataclass", "overload", "runtime_checkable"}
_BUILT_IN = {"list", "dict", "set", "tuple", "frozenset", "type"}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@dataclass(frozen=True, slots=True)
class Site:
    """One change of a module's source."""

    line: int  # where it stands, from 1
    lines: range  # those of its statement, or of the statement's head
    called: bool  # it stands in a function; what does not, runs at import
    kind: str
    before: str  # the smallest piece that differs, on one line
    after: str
    start: int  # in bytes of the source, as what follows
    end: int
    text: str  # what stands there instead


@dataclass(frozen=True, slots=True)
class _Around:
    """What stands around a node."""

    lines: range
    called: bool = False
    words: bool = True  # strings here are keys, not words for people
    waits: bool = False  # numbers here are seconds
    outer: ast.AST | None = None  # the f-string: within, Python 3.11 tells no true places


def sites(source: str) -> Iterator[Site]:
    """Every change of a module that still compiles, in the order of its syntax tree."""
    offsets = [0]
    for line in source.encode().splitlines(keepends=True):
        offsets.append(offsets[-1] + len(line))
    tree = ast.parse(source)
    yield from _Walk(offsets).inside(tree, _Around(range(1, 1)))


def mutated(source: str, site: Site) -> str:
    whole = source.encode()
    return (whole[: site.start] + site.text.encode() + whole[site.end :]).decode()


def differs(source: str, site: Site) -> bool:
    """Whether Python makes another program of it, and one at all."""
    try:
        other = compile(mutated(source, site), "mutant", "exec")
    except (SyntaxError, ValueError):
        return False
    return _parts(compile(source, "mutant", "exec")) != _parts(other)


def _parts(code: CodeType) -> list[object]:
    consts = [_parts(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts]
    return [code.co_code, code.co_names, code.co_exceptiontable, *consts]


@dataclass(frozen=True, slots=True)
class _Walk:
    offsets: list[int]  # where each line begins, in bytes

    def inside(self, node: ast.AST, around: _Around) -> Iterator[Site]:
        for name, field in ast.iter_fields(node):
            for child in field if isinstance(field, list) else [field]:
                if isinstance(child, ast.AST) and not _left_alone(node, name, child):
                    yield from self._at(child, _enter(node, name, child, around))

    def _at(self, node: ast.AST, around: _Around) -> Iterator[Site]:
        for kind, other in changes(node):
            number = kind == "constant" and not isinstance(getattr(node, "value", None), bool)
            if (kind == "word" and not around.words) or (number and around.waits):
                continue
            site = self._site(node, other, kind, around)
            if site is not None:
                yield site
        yield from self.inside(node, around)

    def _site(
        self, node: ast.AST, other: ast.AST | None, kind: str, around: _Around
    ) -> Site | None:
        if isinstance(node, ast.If | ast.While):
            node, other = node.test, getattr(other, "test", None)
        place = around.outer or node
        assert isinstance(place, ast.expr | ast.stmt)
        if around.outer is not None:
            other = copy.deepcopy(around.outer, {id(node): other})
        try:
            before, after = ast.unparse(place), "pass" if other is None else ast.unparse(other)
        except ValueError:  # Python 3.11 cannot write quotes within quotes within an f-string
            return None
        text = after if isinstance(place, ast.stmt) else f"({after})"
        lines, called = around.lines, around.called
        return Site(place.lineno, lines, called, kind, before, after, *self._span(place), text)

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self.offsets[node.lineno - 1] + node.col_offset
        return start, self.offsets[node.end_lineno - 1] + node.end_col_offset


def _left_alone(node: ast.AST, name: str, child: ast.AST) -> bool:
    """Whether nothing below a child is changed."""
    if name in {"annotation", "returns", "bases"} or isinstance(child, ast.Assert | ast.Import):
        return True
    if isinstance(node, ast.ClassDef) and name == "keywords":
        return True
    match child:
        case (
            ast.Expr(value=ast.Constant())
            | ast.If(test=ast.Name(id="TYPE_CHECKING"))
            | ast.If(test=ast.Compare(left=ast.Name(id="__name__")))
            | ast.Assign(targets=[ast.Name(id="__all__" | "__slots__")])
        ):
            return True
        case ast.Call(func=ast.Name(id=called)):
            return called in _TYPES
        case ast.Subscript(value=ast.Name(id=typed), slice=held) if not isinstance(held, ast.Slice):
            return typed[:1].isupper() or (name == "func" and typed in _BUILT_IN)
    return False


def _enter(node: ast.AST, name: str, child: ast.AST, around: _Around) -> _Around:
    """What stands around a child."""
    called = around.called or (isinstance(node, _FUNCTIONS) and name == "body")
    words = around.words and not for_people(child) and not isinstance(child, ast.JoinedStr)
    outer = around.outer or (node if isinstance(node, ast.JoinedStr) else None)
    lines = around.lines
    if isinstance(child, ast.stmt):
        body: list[ast.stmt] = getattr(child, "body", [])
        end = max(body[0].lineno, child.lineno + 1) if body else (child.end_lineno or 0) + 1
        lines = range(child.lineno, end)
    elif isinstance(child, ast.pattern | ast.excepthandler):
        lines = range(child.lineno, child.lineno + 1)
    waits = around.waits or is_wait(child)
    if isinstance(child, ast.stmt) and isinstance(node, ast.stmt):
        waits = is_wait(child)
    return _Around(lines, called, words, waits, outer)
