"""Nodes of one fleet say nearly the same: what is equal is kept once."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar, cast

from toolkit.checks.judged import Judged

if TYPE_CHECKING:
    from toolkit.plan.bundle import Bundle

T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Alike:
    """What was seen of it so far. May be called from many threads: a dict takes one at a time."""

    _kept: dict[Hashable, Hashable] = field(default_factory=dict)

    def once(self, value: T) -> T:
        """The value, or the equal one that is kept already."""
        return cast("T", self._kept.setdefault(value, value))

    def judged(self, judged: Judged) -> Judged:
        """The same judgement, so that a thousand nodes take little more memory than a few."""
        return replace(
            judged,
            verdicts=tuple(map(self.once, judged.verdicts)),
            about=tuple(map(self.once, judged.about)),
            known=tuple(map(self.once, judged.known)),
            chosen=tuple(map(self.once, judged.chosen)),
        )

    def bundle(self, bundle: Bundle | None) -> Bundle | None:
        """The same bundle: its engine is one for all, and most of its files are."""
        if bundle is None:
            return None
        return replace(
            bundle,
            contents=tuple(map(self.once, bundle.contents)),
            steps=tuple(map(self.once, bundle.steps)),
            engine=self.once(bundle.engine),
        )
