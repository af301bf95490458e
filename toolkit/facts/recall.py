"""Answers that hold for every machine whose sources say the same.

A fact and a verdict depend on the frames that were asked for while they were worked out, and
on nothing else. Where another machine has the same text in all of them, the answer is the same,
and is not worked out again: a fleet's nodes differ in few frames.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable
from hashlib import blake2b
from typing import Generic, TypeVar

from toolkit.evidence import Evidence, Frame

T = TypeVar("T")
ALL = " "  # stands for which frames there are; no frame can have this key
_SHAPES = 12  # sets of frames that one question may rest on, before it is forgotten
_every: weakref.WeakSet[Answers[object]] = weakref.WeakSet()


class Sources:
    """The evidence of one machine, and which of its frames are asked for."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self.asked: dict[str, None] = {}  # keys, in the order in which they were asked for
        self.prints = Prints(evidence)

    def frame(self, key: str) -> Frame:
        """As ``Evidence.frame``."""
        self.asked[key] = None
        return self._evidence.frame(key)

    def text(self, key: str) -> str:
        """As ``Evidence.text``."""
        self.asked[key] = None
        return self._evidence.text(key)

    def get(self, key: str) -> Frame | None:
        """The frame, or None where the evidence has none of this key."""
        self.asked[key] = None
        return self._evidence.frames.get(key)

    def names(self) -> tuple[str, ...]:
        """Of all frames that there are."""
        self.asked[ALL] = None
        return tuple(self._evidence.frames)


class Prints(dict[str, bytes]):
    """A digest of what a frame says, by its key, made when it is first asked for.

    :param said: the part of a frame's text that decides.
    """

    def __init__(
        self, evidence: Evidence, said: Callable[[Frame], str] = operator.attrgetter("text")
    ) -> None:
        super().__init__()
        self._evidence, self._said = evidence, said

    def __missing__(self, key: str) -> bytes:
        frame = self._evidence.frames.get(key)
        if frame is None:  # whether it was cut off decides then
            said = f"{self._evidence.complete} {' '.join(self._evidence.frames)}"
            said = said if key == ALL else f"{self._evidence.complete}"
        else:
            said = f"{frame.state.value} {frame.exit} {frame.source}\n{self._said(frame)}"
        made = blake2b(said.encode("utf-8", "surrogateescape"), digest_size=16).digest()
        self[key] = made
        return made


class Answers(Generic[T]):
    """What one question was answered, by what the frames said that the answer rests on.

    :param most: how many answers are kept for one set of frames, so that memory stays flat.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._by_keys: dict[tuple[str, ...], dict[tuple[object, ...], T]] = {}
        _every.add(self)  # type: ignore[arg-type] # whatever its answers are, they can be forgotten

    def ask(
        self,
        sources: Sources,
        answer: Callable[[], T],
        more: object = None,
        prints: Prints | None = None,
    ) -> T:
        """An equal machine's answer; where there was none, it is worked out and kept.

        :param more: what the answer depends on beside the frames.
        :param prints: where less than the whole of a frame decides: digests of what does.
        """
        prints = sources.prints if prints is None else prints
        for keys, answers in tuple(self._by_keys.items()):
            found = answers.get((more, *map(prints.__getitem__, keys)))
            if found is not None:
                sources.asked.update(dict.fromkeys(keys))
                return found
        outer, sources.asked = sources.asked, {}
        try:
            made = answer()
            keys = tuple(sources.asked)
            self._keep(keys, (more, *map(prints.__getitem__, keys)), made)
            return made
        finally:
            outer.update(sources.asked)
            sources.asked = outer

    def _keep(self, keys: tuple[str, ...], said: tuple[object, ...], made: T) -> None:
        if keys not in self._by_keys and len(self._by_keys) >= _SHAPES:
            self._by_keys.clear()
        answers = self._by_keys.setdefault(keys, {})
        if len(answers) >= self._most:
            answers.clear()
        answers[said] = made

    def forget(self) -> None:
        self._by_keys.clear()


def forget() -> None:
    """Forget every answer: the rules have changed, as they do in tests."""
    for each in tuple(_every):
        each.forget()
