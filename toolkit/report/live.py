"""Progress on standard error: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from toolkit.progress import Progress as Listener
from toolkit.progress import Silent
from toolkit.report.table import clean, wants_colour

PATIENCE_S = 2.0  # what is over sooner needs no progress
EVERY_S = 10.0  # between plain lines


def listener(stream: TextIO, *, quiet: bool = False) -> Listener:
    """The listener that fits the stream; a silent one when ``quiet``."""
    if quiet:
        return Silent()
    return Bar(stream) if stream.isatty() else Lines(stream)


class Bar:
    """A bar for the stage, and what was last said by any host. Gone when the stage is over."""

    def __init__(self, stream: TextIO) -> None:
        console = Console(file=stream, no_color=not wants_colour(stream))
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[said]}"),
            console=console,
            transient=True,
            refresh_per_second=10,
        )
        self._task = self._progress.add_task("", start=False, said="", visible=False)

    def begin(self, title: str, total: int) -> None:
        self._progress.reset(self._task, total=total, description=title, visible=True, said="")
        self._progress.start()

    def note(self, host: str, text: str) -> None:
        self._progress.update(self._task, said=clean(f"{host}: {text}")[:60])

    def done(self, host: str, trouble: str = "") -> None:
        self._progress.advance(self._task)
        if trouble:
            self.note(host, trouble)

    def finish(self) -> None:
        self._progress.stop()


class Lines:
    """A line when a stage takes longer than two seconds, then one every ten."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock = stream, clock
        self._lock = threading.Lock()
        self._title, self._total, self._ended = "", 0, 0
        self._begun = self._next = 0.0

    def begin(self, title: str, total: int) -> None:
        with self._lock:
            self._title, self._total, self._ended = title, total, 0
            self._begun = self._clock()
            self._next = self._begun + PATIENCE_S

    def note(self, host: str, text: str) -> None:
        self._tick(f"{host}: {text}")

    def done(self, host: str, trouble: str = "") -> None:
        with self._lock:
            self._ended += 1
        self._tick(f"{host}: {trouble or 'done'}")

    def finish(self) -> None:
        """Nothing: whatever follows on standard output says how it ended."""

    def _tick(self, said: str) -> None:
        with self._lock:
            now = self._clock()
            if now < self._next:
                return
            self._next = now + EVERY_S
            after = now - self._begun
            line = f"{self._title}: {self._ended} of {self._total} after {after:.0f} s; {said}"
            print(clean(line)[:200], file=self._stream, flush=True)
