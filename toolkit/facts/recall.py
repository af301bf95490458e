"""Answers that hold for every machine whose sources say the same.

A fact or a verdict depends on the frames and facts that were asked for while it was worked out,
and on nothing else. Where another machine has the same text in those frames and the same values
of those facts, the answer is the same, and is not worked out again. A fact whose frame differs
is worked out again; where its value is equal, what rests on it is recalled.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from hashlib import blake2b
from typing import Any, Generic, Protocol, TypeVar, Union

from msgspec import Struct, field

from toolkit.evidence import Evidence, Frame, State

T = TypeVar("T")
Key = Union[str, "Derived"]  # of a frame, or a fact
# What is asked of the evidence but for whole frames; no frame can have such a key.
ALL, STATE = " ", " state of "  # which frames there are, and how reading one of them went
_every: weakref.WeakSet[Answers[object]] = weakref.WeakSet()


class Derived(Protocol):
    """A source that is made of others: a fact."""

    def number(self, sources: Sources) -> int:
        """The same for equal values of this fact, and for no others."""


class Sources:
    """The frames and facts of one machine, and which of them are asked for.

    :param kind: makes the machine whose facts these are.
    """

    def __init__(self, evidence: Evidence, kind: Callable[[Sources], Any] = id) -> None:
        self._evidence = evidence
        self.kind = kind
        self.memo: dict[str, Any] = {}  # facts by name: see fact.Known
        self.asked: dict[Key, None] = {}  # in the order in which they were asked for
        self.tokens: dict[Key, Hashable] = {}  # those that were asked for

    def frame(self, key: str) -> Frame:
        """As ``Evidence.frame``."""
        self.asked[key] = None
        return self._evidence.frame(key)

    def text(self, key: str) -> str:
        """As ``Evidence.text``."""
        self.asked[key] = None
        return self._evidence.text(key)

    def state(self, key: str) -> State:
        """How reading it went, whatever it says; raises as ``Evidence.frame``."""
        self.asked[f"{STATE}{key}"] = None
        return self._evidence.frame(key).state

    def source(self, key: str) -> str:
        """Where a frame was read from; "" where there is none of this key."""
        self.asked[f"{STATE}{key}"] = None
        frame = self._evidence.frames.get(key)
        return "" if frame is None else frame.source

    def names(self) -> tuple[str, ...]:
        """Of all frames that there are."""
        self.asked[ALL] = None
        return tuple(self._evidence.frames)

    def token(self, key: Key) -> Hashable:
        """What stands for a source: the digest of a frame, or the number of a fact's value."""
        known = self.tokens.get(key)
        if known is None:
            known = self._told(key) if isinstance(key, str) else key.number(self)
            self.tokens[key] = known
        return known

    def _told(self, key: str) -> Hashable:
        """All that reading this frame could tell, or its digest."""
        frame = self._evidence.frames.get(key.removeprefix(STATE))
        if frame is not None and key.startswith(STATE):
            return frame.state.value, frame.source
        if key == ALL:
            return self._evidence.complete, tuple(self._evidence.frames)
        if frame is None:
            return self._evidence.complete  # whether it was cut off decides
        said = f"{frame.state.value} {frame.exit} {frame.source}\n{frame.text}"
        # By "surrogateescape" two texts with bytes that are no characters could have one digest.
        return blake2b(said.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class _Leaf(Struct, Generic[T]):
    answer: T
    keys: dict[Key, None]  # all sources that it rests on


class _Branch(Struct, Generic[T]):
    """What is asked for next, and where each token of it leads."""

    key: Key
    by: dict[Hashable, _Branch[T] | _Leaf[T]] = field(default_factory=dict)


class Answers(Generic[T]):
    """What one question was answered, by the sources that the answer rests on.

    They are looked at in the order in which working it out asks for them, so that nothing is
    asked of a machine which working it out would not ask.

    :param most: how many answers are kept, so that memory stays flat.
    """

    def __init__(self, most: int) -> None:
        self._most, self._kept = most, 0
        self._first: dict[Hashable, _Branch[T] | _Leaf[T]] = {}
        _every.add(self)  # type: ignore[arg-type] # whatever its answers are, they can be forgotten

    def ask(self, sources: Sources, answer: Callable[[], T], more: Hashable = None) -> T:
        """An equal machine's answer; where there was none, it is worked out and kept.

        Whoever asks rests on the same sources.

        :param more: what the answer depends on beside them.
        """
        at, tokens = self._first.get(more), sources.tokens
        while isinstance(at, _Branch):
            # Three thousand times a node: a call of token() for each is felt.
            token = tokens.get(at.key)
            at = at.by.get(sources.token(at.key) if token is None else token)
        if at is not None:
            sources.asked.update(at.keys)
            return at.answer
        outer, sources.asked = sources.asked, {}
        try:
            made = answer()
            self._keep(more, sources, _Leaf(made, sources.asked))
            return made
        finally:
            outer.update(sources.asked)
            sources.asked = outer

    def _keep(self, more: Hashable, sources: Sources, leaf: _Leaf[T]) -> None:
        if self._kept >= self._most:
            self.forget()
        self._kept += 1
        step, token = self._first, more
        for key in leaf.keys:
            at = step.get(token)
            if not isinstance(at, _Branch) or at.key != key:
                at = step[token] = _Branch(key)
            step, token = at.by, sources.token(key)
        step[token] = leaf

    def forget(self) -> None:
        self._first, self._kept = {}, 0


def forget() -> None:
    """Forget every answer: the rules have changed, as they do in tests."""
    for each in tuple(_every):
        each.forget()
