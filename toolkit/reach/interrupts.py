"""Ctrl-C once: finish what is in hand. Twice: end at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """While the block lasts, the first signal is noted, and the second is KeyboardInterrupt."""

    def __init__(self, told: Callable[[], None] = lambda: None) -> None:
        """:param told: called at the first one, to tell the operator what it brings."""
        self.pressed = False
        self._told = told
        self._old: dict[signal.Signals, object] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            self._old = {each: signal.signal(each, self._press) for each in _SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for each, handler in self._old.items():
            # None: whoever set it was not Python, and we cannot put it back.
            signal.signal(each, handler or signal.SIG_DFL)  # type: ignore[arg-type] # as it was given to us

    def _press(self, *_: object) -> None:
        if self.pressed:
            raise KeyboardInterrupt
        self.pressed = True
        self._told()
