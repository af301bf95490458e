"""One small change of an expression or a statement: what a careless hand could have written. Pure.

Every function takes a node and gives what could stand in its place; "" is a statement left out.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator

_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_COUNTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_CALLED = {"min": "max", "max": "min", "any": "all", "all": "any", "sorted": "list"}
_METHODS = {"startswith": "endswith", "endswith": "startswith"}
_LEFT_OUT = {"strip", "lstrip", "rstrip", "lower", "upper", "removeprefix", "removesuffix"}
# Keys, paths and flags; words for people have spaces, or stand where _FOR_PEOPLE says.
_KEY = re.compile(r"[\w./:=@*+-]{1,60}")
_DEFAULTS = {"check", "encoding", "flush"}  # said for clarity: the default where tests run
_FOR_PEOPLE = {"hint", "help", "title", "text", "doc", "source", "metavar"}

Change = tuple[str, ast.AST | None]  # what kind, and what stands there instead


def changes(node: ast.AST) -> Iterator[Change]:
    """All that could stand in a node's place."""
    return _statement(node) if isinstance(node, ast.stmt) else _expression(node)


def for_people(node: ast.AST) -> bool:
    """Whether what stands in a node is words for people: a sentence changed is no fault."""
    return isinstance(node, ast.Raise) or (
        isinstance(node, ast.keyword) and node.arg in _FOR_PEOPLE
    )


def is_wait(node: ast.AST) -> bool:
    """Whether a number in a node is seconds."""
    match node:
        case ast.keyword(arg=str(name)):
            return _waits(name)
        case ast.Assign(targets=[ast.Name(id=name) | ast.Attribute(attr=name)]):
            return _waits(name)
        case ast.AnnAssign(target=ast.Name(id=name) | ast.Attribute(attr=name)):
            return _waits(name)
    return False


def _waits(name: str) -> bool:
    return name.lower().endswith(("_s", "timeout")) or name == "every"


def _with(node: ast.AST, **changed: object) -> ast.AST:
    other = copy.copy(node)
    for name, value in changed.items():
        setattr(other, name, value)
    return other


def _expression(node: ast.AST) -> Iterator[Change]:
    match node:
        case ast.Compare():
            yield from _comparison(node)
        case ast.BoolOp():
            yield from _condition(node)
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield "sign", node.operand
        case ast.BinOp():
            yield from _arithmetic(node)
        case ast.Constant():
            yield from _constant(node.value)
        case ast.IfExp():
            yield from _decided(node)
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            yield from _comprehension(node)
        case ast.Call():
            yield from _call(node)
        case ast.Subscript(slice=ast.Slice() as bounds):
            yield from _slice(node, bounds)


def _decided(node: ast.If | ast.IfExp) -> Iterator[Change]:
    for value in (True, False):
        yield "condition", _with(node, test=ast.Constant(value))


def _slice(node: ast.Subscript, bounds: ast.Slice) -> Iterator[Change]:
    for end in ("lower", "upper"):
        if getattr(bounds, end) is not None:
            yield "slice", _with(node, slice=_with(bounds, **{end: None}))


def _comparison(node: ast.Compare) -> Iterator[Change]:
    for place, op in enumerate(node.ops):
        ops = [_COMPARED[type(op)]() if at == place else each for at, each in enumerate(node.ops)]
        yield "comparison", _with(node, ops=ops)


def _condition(node: ast.BoolOp) -> Iterator[Change]:
    yield "and, or", _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
    for place in range(len(node.values)):
        left = [each for at, each in enumerate(node.values) if at != place]
        yield "operand", left[0] if len(left) == 1 else _with(node, values=left)


def _arithmetic(node: ast.BinOp) -> Iterator[Change]:
    words = (ast.JoinedStr, ast.List, ast.Tuple)
    if any(
        isinstance(each, words) or (isinstance(each, ast.Constant) and isinstance(each.value, str))
        for each in (node.left, node.right)
    ):
        yield "operand", node.left
    elif type(node.op) in _COUNTED:
        yield "arithmetic", _with(node, op=_COUNTED[type(node.op)]())


def _constant(value: object) -> Iterator[Change]:
    if isinstance(value, bool):
        yield "constant", ast.Constant(not value)
    elif isinstance(value, int | float):
        yield "constant", ast.Constant(value + 1)
    elif isinstance(value, str) and (not value or _KEY.fullmatch(value)):
        yield "word", ast.Constant(value + "x")


def _comprehension(
    node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp,
) -> Iterator[Change]:
    for loop in node.generators:
        if loop.ifs:
            kept = [
                _with(each, ifs=each.ifs[1:]) if each is loop else each for each in node.generators
            ]
            yield "filter", _with(node, generators=kept)


def _call(node: ast.Call) -> Iterator[Change]:
    match node.func:
        case ast.Name(id=name) if name in _CALLED:
            yield "call", _with(node, func=ast.Name(_CALLED[name]))
        case ast.Attribute(attr=name) if name in _METHODS:
            yield "call", _with(node, func=_with(node.func, attr=_METHODS[name]))
        case ast.Attribute(attr=name, value=value) if name in _LEFT_OUT:
            yield "call", value
    for keyword in node.keywords:
        if (
            keyword.arg not in _DEFAULTS | {None}
            and not for_people(keyword)
            and not is_wait(keyword)
        ):
            rest = [each for each in node.keywords if each is not keyword]
            yield "argument", _with(node, keywords=rest)


def _statement(node: ast.stmt) -> Iterator[Change]:
    match node:
        case ast.If():
            yield from _decided(node)
        case ast.While():
            yield "condition", _with(node, test=ast.Constant(False))
        case ast.Return(value=ast.expr() as value):
            if not (isinstance(value, ast.Constant) and value.value is None):
                yield "return", ast.Return(ast.Constant(None))
        case ast.Expr(value=ast.Call() | ast.Yield() | ast.YieldFrom()):
            yield "statement", None
        case ast.Raise() | ast.AugAssign() | ast.Delete():
            yield "statement", None
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "statement", None
        case ast.Continue():
            yield "statement", ast.Break()
        case ast.Break():
            yield "statement", ast.Continue()
