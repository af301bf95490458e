"""A property that is computed once for a node and cited by everyone who asks for it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from itertools import count
from typing import Any, Generic, Protocol, Self, TypeVar, overload

from msgspec import Struct, field

from toolkit.errors import NoEvidence, Unparsable
from toolkit.facts.recall import Answers, Sources

_FEW, _MANY = 8, 32  # values kept of one fact, which may be large, and answers


class Known(Struct, frozen=True, eq=False):
    """A fact's value or the error in its way."""

    value: Any  # each has its type
    error: NoEvidence | Unparsable | None
    cited: tuple[str, ...]  # frames that it rests on, in the order they were named
    number: int = field(default_factory=count().__next__)

    def equals(self, other: Known) -> bool:
        """Whether what rests on the one could rest on the other."""
        if self.cited != other.cited or type(self.error) is not type(other.error):
            return False
        if self.error is not None and other.error is not None:
            return (self.error.args, vars(self.error)) == (other.error.args, vars(other.error))
        if self.value != other.value:
            return False
        # Of equal values the order of keys, or a field that does not count, may still differ.
        plain = _plain(self.value) and _plain(other.value)
        return plain or repr(self.value) == repr(other.value)


def _plain(value: object) -> bool:
    """Whether it is its text or bytes, and nothing beside, so that an equal one is the same."""
    return type(value) in {str, bytes} or (type(value) is tuple and all(map(_plain, value)))


class Citing(Protocol):
    """What a fact needs of its owner."""

    cited: list[str]
    sources: Sources


N = TypeVar("N", bound=Citing)
T = TypeVar("T")
E = TypeVar("E", bound=NoEvidence | Unparsable)


class fact(Generic[N, T]):  # noqa: N801 - reads like functools.cached_property
    """Like cached_property, but the citations are remembered with the value.

    Thirty checks share one parse of a large frame, and still each verdict can say which
    sources it rests on. Of another machine with the same sources the value is recalled.
    """

    def __init__(self, compute: Callable[[N], T], name: str = "") -> None:
        self._compute = compute
        self._name = name or compute.__name__
        self._answers: Answers[Known] = Answers(_MANY)
        self._met: list[Known] = []  # the last values that differ
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type[N], name: str) -> None:
        self._name = name

    @overload
    def __get__(self, node: None, owner: type[N]) -> Self: ...
    @overload
    def __get__(self, node: N, owner: type[N]) -> T: ...
    def __get__(self, node: N | None, owner: type[N]) -> Self | T:
        if node is None:
            return self
        known = self._known(node)
        node.sources.asked[self] = None
        node.cited.extend(known.cited)
        if known.error is not None:
            raise again(known.error)
        return known.value  # type: ignore[no-any-return] # what _compute returned under this name

    def number(self, sources: Sources) -> int:
        """As ``recall.Derived``."""
        return self._known(sources.kind(sources)).number

    def _known(self, node: N) -> Known:
        """Remembered of this machine, recalled of an equal one, or worked out."""
        sources = node.sources
        known: Known | None = sources.memo.get(self._name)
        if known is None:
            outer, sources.asked = sources.asked, {}
            try:
                known = self._answers.ask(sources, lambda: self._read(node))
            finally:
                sources.asked = outer  # who asks rests on this fact, and not on what it rests on
            sources.memo[self._name] = known
        return known

    def _read(self, node: N) -> Known:
        outer, node.cited = node.cited, []
        try:
            value, error = self._compute(node), None
        except (NoEvidence, Unparsable) as why:
            value, error = None, again(why)
        finally:
            cited, node.cited = tuple(node.cited), outer
        known = Known(value, error, cited)
        for each in self._met:
            if each.equals(known):
                return each
        self._met = [*self._met[1 - _FEW :], known]
        return known


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
