"""A property that is computed once for a node and cited by everyone who asks for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Generic, Protocol, Self, TypeVar, overload

from toolkit.errors import NoEvidence, Unparsable
from toolkit.facts.recall import Answers, Sources

_FEW = 8  # answers kept of one fact, which may be large


@dataclass(frozen=True, slots=True)
class Known:
    """A fact's value or the error in its way."""

    value: Any  # each has its type
    error: NoEvidence | Unparsable | None
    cited: tuple[str, ...]  # frames that it rests on, in the order they were named
    asked: dict[str, None]  # frames that were looked at for it, the same and more


Memo = dict[str, Known]  # by the fact's name


class Citing(Protocol):
    """What a fact needs of its owner."""

    memo: Memo
    cited: list[str]
    sources: Sources


N = TypeVar("N", bound=Citing)
T = TypeVar("T")
E = TypeVar("E", bound=NoEvidence | Unparsable)


class fact(Generic[N, T]):  # noqa: N801 - reads like functools.cached_property
    """Like cached_property, but the citations are remembered with the value.

    Thirty checks share one parse of a large frame, and still each verdict can say which
    sources it rests on. Of another machine with the same sources the answer is recalled.
    """

    def __init__(self, compute: Callable[[N], T], name: str = "") -> None:
        self._compute = compute
        self._name = name or compute.__name__
        self._answers: Answers[Known] = Answers(_FEW)
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, node: None, owner: type[N]) -> Self: ...
    @overload
    def __get__(self, node: N, owner: type[N]) -> T: ...
    def __get__(self, node: N | None, owner: type[N]) -> Self | T:
        if node is None:
            return self
        known = node.memo.get(self._name)
        if known is None:
            known = self._answers.ask(node.sources, lambda: self._read(node))
            node.memo[self._name] = known
        else:
            node.sources.asked.update(known.asked)
        node.cited.extend(known.cited)
        if known.error is not None:
            raise again(known.error)
        return known.value  # type: ignore[no-any-return] # what _compute returned under this name

    def _read(self, node: N) -> Known:
        outer, node.cited = node.cited, []
        try:
            value, error = self._compute(node), None
        except (NoEvidence, Unparsable) as why:
            value, error = None, again(why)
        finally:
            cited, node.cited = tuple(node.cited), outer
        return Known(value, error, cited, dict(node.sources.asked))


def again(error: E) -> E:
    """An equal error without its traceback, which would keep the machine's evidence alive."""
    same = type(error).__new__(type(error))
    same.args = error.args
    same.__dict__.update(error.__dict__)
    return same


def once(tell: Callable[[N], T]) -> Callable[[N], T]:
    """A fact that is no property: what a hundred checks ask of one node before they judge it.

    :param tell: a function of the node alone; what it raises is remembered, and raised again.
    """
    kept = fact(tell, f"{tell.__module__}.{tell.__qualname__}")

    @wraps(tell)
    def ask(node: N) -> T:
        return kept.__get__(node, type(node))

    return ask
