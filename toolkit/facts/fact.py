"""A property that is computed once for a node and cited by everyone who asks for it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Generic, Protocol, Self, TypeVar, overload

from toolkit.errors import NoEvidence, Unparsable

# A fact's value or the error in its way, and the frames it rests on. Any: each has its type.
Known = tuple[Any, NoEvidence | Unparsable | None, list[str]]
Memo = dict[str, Known]  # by the fact's name


class Citing(Protocol):
    """What a fact needs of its owner."""

    memo: Memo
    cited: list[str]


N = TypeVar("N", bound=Citing)
T = TypeVar("T")


class fact(Generic[N, T]):  # noqa: N801 - reads like functools.cached_property
    """Like cached_property, but the citations are remembered with the value.

    Thirty checks share one parse of a large frame, and still each verdict can say which
    sources it rests on.
    """

    def __init__(self, compute: Callable[[N], T], name: str = "") -> None:
        self._compute = compute
        self._name = name or compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, node: None, owner: type[N]) -> Self: ...
    @overload
    def __get__(self, node: N, owner: type[N]) -> T: ...
    def __get__(self, node: N | None, owner: type[N]) -> Self | T:
        if node is None:
            return self
        if self._name not in node.memo:
            node.memo[self._name] = self._read(node)
        value, error, cited = node.memo[self._name]
        node.cited.extend(cited)
        if error is not None:
            raise error
        return value  # type: ignore[no-any-return] # what _compute returned under this name

    def _read(self, node: N) -> tuple[T | None, NoEvidence | Unparsable | None, list[str]]:
        outer, node.cited = node.cited, []
        try:
            return self._compute(node), None, node.cited
        except (NoEvidence, Unparsable) as why:
            return None, why.with_traceback(None), node.cited
        finally:
            node.cited = outer


def once(tell: Callable[[N], T]) -> Callable[[N], T]:
    """A fact that is no property: what a hundred checks ask of one node before they judge it.

    :param tell: a function of the node alone; what it raises is remembered, and raised again.
    """
    kept = fact(tell, f"{tell.__module__}.{tell.__qualname__}")

    @wraps(tell)
    def ask(node: N) -> T:
        return kept.__get__(node, type(node))

    return ask
