"""Progress on standard error: a board on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TextIO

from rich.console import Console
from rich.live import Live as Display
from rich.text import Text

from toolkit.progress import Progress as Listener
from toolkit.progress import Silent
from toolkit.report.progress_board import Board
from toolkit.report.table import clean, wants_colour

PATIENCE_S = 2.0  # what is over sooner needs no progress
EVERY_S = 10.0  # between plain lines
RATE_HZ = 10  # redraws of the board


def listener(stream: TextIO, *, quiet: bool = False) -> Listener:
    """The listener that fits the stream; a silent one when ``quiet``."""
    if quiet:
        return Silent()
    return Live(stream) if stream.isatty() and _moves(stream) else Lines(stream)


def _moves(stream: TextIO) -> bool:
    """Whether the terminal knows how to go back over its lines, and what a bar is made of."""
    drawable = "utf" in (stream.encoding or "").lower()
    return drawable and not Console(file=stream).is_dumb_terminal


class Live:
    """The board of the stage, redrawn ten times a second at most; gone when the stage is over."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        console = Console(file=stream, no_color=not wants_colour(stream), highlight=False)
        self._board, self._clock, self._lock = Board(), clock, threading.Lock()
        self._console = console
        self._live = self._display()

    def _display(self) -> Display:
        """For one stage: a display remembers how many lines to go back over, those of others."""
        return Display(
            console=self._console,
            get_renderable=self._drawn,
            transient=True,
            refresh_per_second=RATE_HZ,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def begin(self, title: str, total: int) -> None:
        with self._lock:
            self._board = Board(title, total, self._clock())
        self._live.stop()
        self._live = self._display()
        self._live.start()

    def note(self, host: str, text: str) -> None:
        with self._lock:
            self._board.note(host, text, self._clock())

    def done(self, host: str, trouble: str = "") -> None:
        with self._lock:
            self._board.done(host, trouble, self._clock())

    def finish(self) -> None:
        self._live.stop()

    def _drawn(self) -> Text:
        size = self._console.size
        with self._lock:
            # One line is left for the cursor, without which a terminal scrolls at each redraw.
            lines = self._board.lines(self._clock(), size.width, max(1, size.height - 1))
        drawn = Text("\n".join(lines), no_wrap=True, overflow="crop")
        drawn.highlight_regex(r"(?m)^! .*$", "red")
        drawn.highlight_regex("━+", "green")
        return drawn


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
        self._tick(f"{host}: {text}" if host else text)

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
