"""Ctrl-C once: finish what is in hand. Twice: end at once. SIGTERM: as Ctrl-C, where asked for."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

T = TypeVar("T")

_ENDS = (signal.SIGTERM, signal.SIGHUP)  # of a pipeline that is cancelled; of a lost terminal
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """While the block lasts, the first signal is noted, and the second is KeyboardInterrupt."""

    def __init__(self, told: Callable[[], None] = lambda: None, *, alone: bool = False) -> None:
        """A lost terminal (SIGHUP) says nothing of nodes: a change of theirs goes on without it.

        :param told: called at the first one, to tell the operator what it brings.
        :param alone: go on where the terminal is lost.
        """
        self.pressed = False
        self._alone = alone
        self._told = told
        self._old: dict[signal.Signals, object] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            self._old = {each: signal.signal(each, self._press) for each in _SIGNALS}
            if self._alone:
                self._old[signal.SIGHUP] = signal.signal(signal.SIGHUP, signal.SIG_IGN)
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


@contextmanager
def terminable() -> Iterator[None]:
    """While the block lasts, what ends a process is as Ctrl-C: what is open is closed first."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    old: dict[signal.Signals, Callable[[int, FrameType | None], object] | int | None] = {
        each: signal.getsignal(each)
        for each in _ENDS
        if signal.getsignal(each) is not signal.SIG_IGN  # as nohup has it
    }
    for each in old:
        signal.signal(each, _as_interrupt)
    try:
        yield
    finally:
        for each, handler in old.items():
            signal.signal(each, handler if handler is not None else signal.SIG_DFL)


def _as_interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def heeded(future: Future[T]) -> T:
    """What comes of it; meanwhile a signal is heeded also where it did not wake the main thread.

    One that comes just as the thread falls asleep, or to another thread, does not.
    """
    while not wait((future,), timeout=0.25).done:
        pass
    return future.result()
