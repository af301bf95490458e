"""Saying what goes on, as an interface with a silent implementation.

Whoever works reports here; whoever owns the terminal listens. Results never pass
through it: they go to standard output, progress to standard error.
"""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Listens to the work on a set of hosts. Called from many threads."""

    def begin(self, title: str, total: int) -> None:
        """A stage over ``total`` hosts begins."""

    def note(self, host: str, text: str) -> None:
        """One host has something to say: a step begun, a line of a build log; "" is the run."""

    def done(self, host: str, trouble: str = "") -> None:
        """One host is through with this stage; ``trouble`` is "" or one sentence."""

    def finish(self) -> None:
        """The stage is over."""


class Silent:
    """Listens to everything and says nothing."""

    def begin(self, title: str, total: int) -> None: ...

    def note(self, host: str, text: str) -> None: ...

    def done(self, host: str, trouble: str = "") -> None: ...

    def finish(self) -> None: ...
